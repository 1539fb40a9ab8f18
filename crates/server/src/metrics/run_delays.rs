//! Time in which threads were runnable and waited for a CPU, as the scheduler accounts it.

use std::collections::BTreeMap;

use crate::platform;

/// The most threads that are read: each read takes some ten microseconds of the server's CPUs.
const THREADS_MAX: usize = 2_048;

/// A process and a thread of it.
pub(crate) type ThreadId = (i32, i32);

/// The waits of all threads so far. The sum never falls, even when threads end.
#[derive(Debug, Default)]
pub(crate) struct RunDelays {
    /// The wait of each living thread, when last read...
    living_ns: BTreeMap<ThreadId, u64>,
    /// ...and the sum of all threads that have ended since.
    ended_ns: u64,
}

impl RunDelays {
    /// Reads `threads`; returns the sum of all waits so far, in nanoseconds. `None` if the kernel does not account them
    /// (CONFIG_SCHED_INFO), or with too many threads.
    pub(crate) fn update(&mut self, threads: &[ThreadId]) -> Option<u64> {
        if threads.len() > THREADS_MAX {
            return None;
        }
        let read = |&thread: &ThreadId| Some((thread, platform::run_delay(thread)?));
        self.add(threads.iter().filter_map(read).collect())
    }

    /// Adds each thread's number of runs and its wait.
    fn add(&mut self, now: BTreeMap<ThreadId, (u64, u64)>) -> Option<u64> {
        // The reading thread has run: a kernel that counted no run does not count.
        if now.values().all(|(runs, _)| *runs == 0) {
            return None;
        }
        for (thread, before_ns) in &self.living_ns {
            // A lower wait means another thread with the same number.
            if now.get(thread).is_none_or(|(_, now_ns)| now_ns < before_ns) {
                self.ended_ns += before_ns;
            }
        }
        self.living_ns = now.into_iter().map(|(thread, (_, ns))| (thread, ns)).collect();
        Some(self.ended_ns + self.living_ns.values().sum::<u64>())
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
        assert_eq!(delays.add(BTreeMap::from([((1, 1), (1, 5))])), Some(85), "another thread of the same number");
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
            let mut look = || {
                let threads: Vec<_> = platform::threads_of(process).into_iter().map(|it| (process, it)).collect();
                delays.update(&threads)
            };
            let (started, before) = (Instant::now(), look());
            let Some(before) = before else {
                is_over.store(true, Relaxed);
                return crate::skipped::skipped("run delays: this kernel does not account for them");
            };
            // The kernel adds a wait when it is over. On a busy machine it takes a while until both threads have run.
            let mut waited_ns = 0;
            while waited_ns < 20_000_000 && started.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(20));
                waited_ns = look().unwrap() - before;
            }
            is_over.store(true, Relaxed);
            assert!(waited_ns >= 20_000_000, "{waited_ns} ns");
        });
    }
}
