//! Measures whether a client's receiving side had spare time in the window. If a receiver is always busy, responses queue in
//! the client and make the server look slow. A spinning loop uses its CPU all the time, so [`Turns`] sums its turns without
//! work. For a thread that sleeps, [`Sleeper`] sums the time that it ran or waited for a CPU.

use std::ops::Range;

use rustix::time::ClockId;

use crate::io::platform::RunQueue;
use crate::time::clock::kernel_ns;

/// The time of a loop's turns without work, in ticks. A sleep is a separate turn, because the event that ends it is work.
#[derive(Debug)]
pub struct Turns {
    window: Range<u64>,
    begun: u64,
    spare: u64,
    /// Delays of the loop in the window that were longer than `pause_ticks`, up to [`PAUSES_MAX`].
    pauses: Vec<Range<u64>>,
    pause_ticks: u64,
}

/// The largest number of recorded pauses.
const PAUSES_MAX: usize = 4_096;

impl Turns {
    pub fn new(window: Range<u64>) -> Self {
        Self { window, begun: u64::MAX, spare: 0, pauses: Vec::new(), pause_ticks: u64::MAX }
    }

    /// Records pauses, in which the client did not run or had too much work: turns longer than `ticks` without a sleep, and
    /// wake-ups that were later than planned by more than `ticks`.
    pub fn with_pauses(self, ticks: u64) -> Self {
        Self { pauses: Vec::with_capacity(PAUSES_MAX), pause_ticks: ticks, ..self }
    }

    /// Ends a turn in which the loop slept. It planned to wake at `planned` at the latest.
    #[inline]
    pub fn slept(&mut self, now: u64, planned: u64) {
        self.find_pause(planned, now);
        self.end(now, true);
    }

    /// The pauses that ended in the window, in ticks.
    pub fn pauses(self) -> Vec<Range<u64>> {
        self.pauses
    }

    /// Begins a turn and ends the previous one. `is_spare` tells whether the previous turn found no work.
    #[inline]
    pub fn begin(&mut self, now: u64, is_spare: bool) {
        self.find_pause(self.begun, now);
        self.end(now, is_spare);
    }

    /// Ends a turn, and begins the next one.
    #[inline]
    fn end(&mut self, now: u64, is_spare: bool) {
        if is_spare {
            self.spare += now.min(self.window.end).saturating_sub(self.begun.max(self.window.start));
        }
        self.begun = now;
    }

    /// Records the time from `from` to `now` if it is a pause.
    #[inline]
    fn find_pause(&mut self, from: u64, now: u64) {
        if now.saturating_sub(from) > self.pause_ticks && self.window.contains(&now) && self.pauses.len() < PAUSES_MAX {
            self.pauses.push(from..now);
        }
    }

    /// Returns the share of the window that busy turns took; `None` without turns. The time after the loop's end is spare.
    pub fn busy_share(&self) -> Option<f64> {
        let ticks = self.window.end - self.window.start;
        let left = self.window.end.saturating_sub(self.begun.max(self.window.start));
        (self.begun != u64::MAX).then(|| 1.0 - (self.spare + left) as f64 / ticks as f64)
    }
}

/// The measurement of a thread that sleeps when it has no work.
#[derive(Debug)]
pub struct Sleeper {
    window: Range<u64>,
    queue: RunQueue,
    /// At each edge of the window: the thread's time on a CPU or waiting for one, in nanoseconds, and the tick of the reading.
    edges: [(u64, u64); 2],
    passed: usize,
}

impl Sleeper {
    pub fn new(window: Range<u64>) -> Self {
        Self { window, queue: RunQueue::of_this_thread(), edges: [(0, 0); 2], passed: 0 }
    }

    /// Records an edge of the window once it has passed. Call this in every turn of the loop.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if self.passed < 2 && now >= [self.window.start, self.window.end][self.passed] {
            self.pass(now);
        }
    }

    #[cold]
    fn pass(&mut self, now: u64) {
        self.edges[self.passed] = (kernel_ns(ClockId::ThreadCPUTime) + self.queue.waited_ns(), now);
        self.passed += 1;
    }

    /// Returns the share of the window in which the thread ran or waited for a CPU; `None` if it ended before the window.
    pub fn busy_share(&mut self, now: u64, ns: u64) -> Option<f64> {
        self.tick(now);
        if self.passed == 1 {
            // The thread ended within the window, so it had no more work.
            self.pass(now);
        }
        let [(before_ns, from), (after_ns, to)] = self.edges;
        // A reading delayed beyond the window's end covers more than the window.
        let windows = (to.saturating_sub(from) as f64 / (self.window.end - self.window.start) as f64).max(1.0);
        (self.passed == 2).then(|| (after_ns.saturating_sub(before_ns) as f64 / (windows * ns as f64)).min(1.0))
    }
}

/// Returns the share of the busiest receiver, because no other receiver can do its work; `None` if any share is unknown.
pub fn busiest(shares: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let shares: Vec<f64> = shares.into_iter().collect::<Option<_>>()?;
    shares.into_iter().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share_covers_only_the_window() {
        let mut turns = Turns::new(100..200);
        assert_eq!(turns.busy_share(), None);
        // The spare turns before the window, across its start, inside it and across its end have 0, 20, 40 and 10 of its ticks.
        for (now, is_spare) in [(0, false), (90, true), (120, true), (150, false), (190, true), (210, true)] {
            turns.begin(now, is_spare);
        }
        assert!((turns.busy_share().unwrap() - 0.3).abs() < 1e-9, "{turns:?}");
        let mut cut = Turns::new(100..200);
        cut.begin(110, false);
        cut.begin(150, false);
        assert!((cut.busy_share().unwrap() - 0.5).abs() < 1e-9, "the time after the end of the loop is spare: {cut:?}");
    }

    #[test]
    fn long_turn_and_late_wake_up_are_pauses() {
        let mut turns = Turns::new(100..200).with_pauses(10);
        for now in [50, 90, 110, 120, 131] {
            turns.begin(now, false);
        }
        turns.slept(150, 145);
        turns.begin(155, true);
        turns.slept(180, 169);
        turns.slept(185, u64::MAX);
        turns.begin(300, false);
        assert_eq!(turns.pauses(), [90..110, 120..131, 169..180], "pauses end in the window");
    }

    #[test]
    fn busiest_receiver_is_not_hidden_by_idle_ones() {
        assert_eq!(busiest([Some(0.1), Some(0.99), Some(0.1)]), Some(0.99));
        assert_eq!(busiest([Some(0.5), None]), None);
        assert_eq!(busiest([]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn working_thread_is_busy_and_sleeping_thread_is_not() {
        let share = |work: fn(u64)| {
            let started = std::time::Instant::now();
            let mut sleeper = Sleeper::new(0..100_000_000);
            sleeper.tick(0);
            work(100);
            sleeper.busy_share(started.elapsed().as_nanos() as u64, 100_000_000).unwrap()
        };
        let works = |ms: u64| {
            let started = std::time::Instant::now();
            while started.elapsed().as_millis() < u128::from(ms) {}
        };
        let sleeps = |ms: u64| std::thread::sleep(std::time::Duration::from_millis(ms));
        assert!(share(works) > 0.9);
        // On a busy machine the thread waits for a CPU after its sleep, but not every time.
        assert!((0..10).any(|_| share(sleeps) < 0.5));
    }
}
