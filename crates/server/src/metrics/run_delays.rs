//! The time that threads were runnable and waited for a CPU, as the scheduler reports it.

use std::array;
use std::collections::BTreeMap;

use crate::platform;

/// With more threads than this, no waits are read, because each read takes about ten microseconds of the server's CPUs.
const THREADS_MAX: usize = 2_048;

/// The ids of a process and of one of its threads.
pub(crate) type ThreadId = (i32, i32);

/// Figures of all threads so far. Their sums never fall, even when threads end.
#[derive(Debug)]
pub(crate) struct Figures<const COUNT: usize> {
    /// The figures of each living thread at the last reading.
    pub(crate) living: BTreeMap<ThreadId, [u64; COUNT]>,
    /// The sums of threads that have ended.
    ended: [u64; COUNT],
}

impl<const COUNT: usize> Default for Figures<COUNT> {
    fn default() -> Self {
        Self { living: BTreeMap::new(), ended: [0; COUNT] }
    }
}

impl<const COUNT: usize> Figures<COUNT> {
    /// Replaces the figures of living threads; returns the sums of all threads so far.
    pub(crate) fn update(&mut self, now: BTreeMap<ThreadId, [u64; COUNT]>) -> [u64; COUNT] {
        for (thread, before) in &self.living {
            // A missing thread has ended. A lower figure belongs to a new thread with the same id.
            if now.get(thread).is_none_or(|now| now.iter().zip(before).any(|(now, before)| now < before)) {
                self.ended = array::from_fn(|at| self.ended[at] + before[at]);
            }
        }
        self.living = now;
        array::from_fn(|at| self.ended[at] + self.living.values().map(|figures| figures[at]).sum::<u64>())
    }
}

/// The waits of all threads so far.
#[derive(Debug, Default)]
pub(crate) struct RunDelays(Figures<1>);

impl RunDelays {
    /// Reads the waits of `threads`; returns the sum of all waits so far, in nanoseconds. `None` with too many threads, or if
    /// the kernel does not report waits (CONFIG_SCHED_INFO).
    pub(crate) fn update(&mut self, threads: &[ThreadId]) -> Option<u64> {
        if threads.len() > THREADS_MAX {
            return None;
        }
        let read = |&thread: &ThreadId| Some((thread, platform::run_delay(thread)?));
        self.add(threads.iter().filter_map(read).collect())
    }

    /// Replaces the waits of living threads. `now` has each thread's number of runs and its wait.
    fn add(&mut self, now: BTreeMap<ThreadId, (u64, u64)>) -> Option<u64> {
        // A kernel without CONFIG_SCHED_INFO reports zeros.
        if now.values().all(|(runs, _)| *runs == 0) {
            return None;
        }
        let [sum_ns] = self.0.update(now.into_iter().map(|(thread, (_, ns))| (thread, [ns])).collect());
        Some(sum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_delay_of_ended_threads_stays_counted() {
        let mut delays = RunDelays::default();
        assert_eq!(delays.add(BTreeMap::from([((1, 1), (3, 50)), ((1, 2), (1, 20))])), Some(70));
        assert_eq!(delays.add(BTreeMap::from([((1, 1), (4, 60))])), Some(80));
        assert_eq!(delays.add(BTreeMap::from([((1, 1), (1, 5))])), Some(85), "a new thread with the same id");
        let mut figures = Figures::default();
        figures.update(BTreeMap::from([((1, 1), [6, 1])]));
        assert_eq!(figures.update(BTreeMap::from([((1, 1), [7, 0])])), [13, 1], "one lower figure is enough");
    }

    #[test]
    fn run_delay_that_is_not_counted_is_absent() {
        let mut delays = RunDelays::default();
        assert_eq!(delays.add(BTreeMap::from([((1, 1), (0, 0)), ((1, 2), (0, 0))])), None, "no CONFIG_SCHED_INFO");
        assert_eq!(delays.add(BTreeMap::new()), None);
        assert_eq!(delays.update(&vec![(1, 1); THREADS_MAX + 1]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn thread_that_shares_its_cpu_waits_for_it() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        use std::time::{Duration, Instant};

        let process = std::process::id() as i32;
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let is_over = AtomicBool::new(false);
        let spin = || {
            platform::pin(&[cpu]).unwrap();
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(spin);
            }
            let mut delays = RunDelays::default();
            let mut read = || {
                let threads: Vec<_> =
                    platform::threads_of(process).into_iter().map(|thread| (process, thread)).collect();
                delays.update(&threads)
            };
            let (started, before) = (Instant::now(), read());
            let Some(before) = before else {
                is_over.store(true, Relaxed);
                return crate::skipped::skipped("run delays: this kernel does not account for them");
            };
            // The kernel reports a wait only after it ends. On a busy machine both threads may wait long before they run.
            let mut waited_ns = 0;
            while waited_ns < 20_000_000 && started.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(20));
                waited_ns = read().unwrap() - before;
            }
            is_over.store(true, Relaxed);
            assert!(waited_ns >= 20_000_000, "{waited_ns} ns");
        });
    }
}
