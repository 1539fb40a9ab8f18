//! Whether the side of a client that receives had time to spare in the window: what waits for a receiver that is always busy
//! piles up, and looks like a server that is too slow.
//!
//! A loop that spins uses its CPU whatever comes. It is asked which of its turns found nothing to do, by the readings of the
//! clock that begin them anyway. A thread that sleeps is asked how long it was kept from sleeping: it ran, or waited to.

use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};

use crate::platform::RunQueue;

/// Turns of a loop, and the time of those that found nothing to do, in ticks. A sleep is a turn of its own, or what ends it
/// would make it busy.
#[derive(Debug)]
pub struct Turns {
    window: Range<u64>,
    /// When the turn began that runs.
    begun: u64,
    spare: u64,
}

impl Turns {
    /// Of a loop that has not begun.
    pub fn new(window: Range<u64>) -> Self {
        Self { window, begun: u64::MAX, spare: 0 }
    }

    /// A turn begins, and the one before is over: `is_spare` if it found nothing to do.
    #[inline]
    pub fn begin(&mut self, now: u64, is_spare: bool) {
        if is_spare {
            self.spare += now.min(self.window.end).saturating_sub(self.begun.max(self.window.start));
        }
        self.begun = now;
    }

    /// The share of the window that its other turns took; `None` if it ended before the window did.
    pub fn busy_share(&self) -> Option<f64> {
        let ticks = self.window.end - self.window.start;
        (self.begun != u64::MAX && self.begun >= self.window.end).then(|| 1.0 - self.spare as f64 / ticks as f64)
    }
}

/// A thread that sleeps when it has nothing to do.
#[derive(Debug)]
pub struct Sleeper {
    window: Range<u64>,
    queue: RunQueue,
    /// How long it had not slept by the window's edges, in nanoseconds, and when that was asked.
    edges: [Option<(u64, u64)>; 2],
    passed: usize,
}

impl Sleeper {
    /// The calling thread.
    pub fn new(window: Range<u64>) -> Self {
        Self { window, queue: RunQueue::of_this_thread(), edges: [None; 2], passed: 0 }
    }

    /// To be called in each turn.
    #[inline]
    pub fn look(&mut self, now: u64) {
        if self.passed < 2 && now >= [self.window.start, self.window.end][self.passed] {
            self.pass(now);
        }
    }

    #[cold]
    fn pass(&mut self, now: u64) {
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        let ran_ns = ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64;
        self.edges[self.passed] = Some((now, ran_ns + self.queue.waited_ns()));
        self.passed += 1;
    }

    /// The share of the window in which it ran or waited for a CPU; `None` where that is not known.
    pub fn busy_share(&self, ns_of: impl Fn(u64, u64) -> i64) -> Option<f64> {
        let [Some((start, before_ns)), Some((end, after_ns))] = self.edges else { return None };
        (end > start).then(|| (after_ns.saturating_sub(before_ns) as f64 / ns_of(start, end) as f64).min(1.0))
    }
}

/// The busiest of several receivers, which the others cannot help; `None` where one does not say. One that waits for another on
/// the same CPU is busy meanwhile.
pub fn busiest(shares: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let shares: Vec<f64> = shares.into_iter().collect::<Option<_>>()?;
    shares.into_iter().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spare_turns_inside_the_window_are_spare() {
        let mut turns = Turns::new(100..200);
        assert_eq!(turns.busy_share(), None);
        // Before the window, across its start, in it, and across its end: 20, 40 and 10 of its ticks are spare.
        for (now, is_spare) in [(0, false), (90, true), (120, true), (150, false), (190, true), (210, true)] {
            turns.begin(now, is_spare);
        }
        assert!((turns.busy_share().unwrap() - 0.3).abs() < 1e-9, "{turns:?}");
        let mut cut = Turns::new(100..200);
        cut.begin(110, false);
        assert_eq!(cut.busy_share(), None, "it ended early");
    }

    #[test]
    fn busiest_receiver_is_not_hidden_by_idle_ones() {
        assert_eq!(busiest([Some(0.1), Some(0.99), Some(0.1)]), Some(0.99));
        assert_eq!(busiest([Some(0.5), None]), None);
        assert_eq!(busiest([]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn thread_that_works_is_busy_and_one_that_sleeps_is_not() {
        let share = |work: fn(u64)| {
            let started = std::time::Instant::now();
            let mut sleeper = Sleeper::new(0..100_000_000);
            sleeper.look(0);
            work(100);
            sleeper.look(started.elapsed().as_nanos() as u64);
            sleeper.busy_share(|start, end| (end - start) as i64).unwrap()
        };
        let works = |ms: u64| {
            let started = std::time::Instant::now();
            while started.elapsed().as_millis() < u128::from(ms) {}
        };
        let sleeps = |ms: u64| std::thread::sleep(std::time::Duration::from_millis(ms));
        let (busy, idle) = (share(works), share(sleeps));
        assert!(busy > 0.9 && idle < 0.5, "{busy} {idle}");
    }
}
