//! Measures how long a sleeping client could not wake: it was stopped or preempted, or its virtual machine got no CPU.
//!
//! Send delays do not show such stalls: a closed loop plans a request after the delayed read, and a receiver sends nothing.
//! Instead, a separate thread sleeps until planned times and sums its delays, like Gil Tene's jHiccup
//! (<https://github.com/giltene/jHiccup>). No such thread shares the CPU of a spinning loop, which it would preempt.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::placement;
use crate::error::LoadError;
use crate::time::clock::Clock;

/// The interval between two beats, in nanoseconds.
const PERIOD_NS: i64 = 5_000_000;
/// The tolerated delay of a beat, in nanoseconds. Timers and the scheduler's time slices cause such delays.
const GRACE_NS: i64 = 1_000_000;

/// Sums overruns: the delays of beats, less the grace. Times are in nanoseconds since the start of the window.
#[derive(Debug)]
struct Meter {
    window_ns: i64,
    planned_ns: i64,
    stalled_ns: i64,
}

impl Meter {
    fn new(window_ns: i64, now_ns: i64) -> Self {
        Self { window_ns, planned_ns: next_beat(now_ns), stalled_ns: 0 }
    }

    /// Records a wake-up. Beats that were missed during an overrun do not count again.
    fn woke(&mut self, now_ns: i64) {
        let is_stall = now_ns - self.planned_ns > GRACE_NS;
        let in_window = |ns: i64| ns.clamp(0, self.window_ns);
        if is_stall {
            self.stalled_ns += in_window(now_ns) - in_window(self.planned_ns + GRACE_NS);
        }
        self.planned_ns = next_beat(now_ns);
    }
}

/// Returns the first beat after `now_ns`. A beat coincides with the start of the window.
fn next_beat(now_ns: i64) -> i64 {
    (now_ns.div_euclid(PERIOD_NS) + 1) * PERIOD_NS
}

/// Measures until the window is over or `stop` is set. Returns the stalled time within the window, in nanoseconds.
fn measure(clock: &Clock, window: &Range<u64>, stop: &AtomicBool) -> u64 {
    let now_ns = || clock.between_ns(window.start, clock.now());
    let window_ns = clock.between_ns(window.start, window.end);
    let mut meter = Meter::new(window_ns, now_ns());
    while meter.planned_ns < window_ns && !stop.load(Relaxed) {
        let ahead_ns = meter.planned_ns - now_ns();
        thread::sleep(Duration::from_nanos(ahead_ns.max(0) as u64));
        meter.woke(now_ns());
    }
    meter.stalled_ns as u64
}

pub struct Hiccups<'scope>(Vec<ScopedJoinHandle<'scope, u64>>);

impl<'scope> Hiccups<'scope> {
    /// Starts a thread on each of `cpus`; `None` means any CPU.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        cpus: &[Option<usize>],
        clock: &'scope Clock,
        window: &'scope Range<u64>,
        stop: &'scope AtomicBool,
    ) -> Result<Self, LoadError> {
        let start = |(number, cpu): (usize, &Option<usize>)| {
            placement::start_thread(scope, format!("hiccups {number}"), *cpu, move || measure(clock, window, stop))
        };
        cpus.iter().enumerate().map(start).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the longest stalled time of any CPU, in nanoseconds; `None` if not measured.
    pub fn stalled_ns(self) -> Option<u64> {
        let join = |thread: ScopedJoinHandle<'_, u64>| thread.join().expect("a meter does not panic");
        self.0.into_iter().map(join).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Returns the stalled milliseconds in a window of 100 ms, for a thread that woke at these times.
    fn stalled_ms(begun_ms: i64, woke_ms: &[i64]) -> i64 {
        let mut meter = Meter::new(100 * MS, begun_ms * MS);
        woke_ms.iter().for_each(|ms| meter.woke(ms * MS));
        meter.stalled_ns / MS
    }

    #[test]
    fn overruns_beyond_the_grace_are_stalls() {
        assert_eq!(stalled_ms(-3, &[0, 5, 10, 15]), 0);
        assert_eq!(stalled_ms(-3, &[1, 6, 11]), 0, "a delay within the grace is no stall");
        assert_eq!(stalled_ms(-3, &[0, 8, 10, 19]), 2 + 3);
    }

    #[test]
    fn missed_beats_are_one_overrun() {
        // The beat of 5 ms runs at 65 ms: 60 ms late, less the grace. The next beat after that is at 70 ms.
        assert_eq!(stalled_ms(-3, &[0, 65, 70, 75]), 59);
    }

    #[test]
    fn stalls_outside_the_window_do_not_count() {
        assert_eq!(stalled_ms(-100, &[-40, -35]), 0);
        assert_eq!(stalled_ms(-21, &[30]), 30, "stalls before the window do not count");
        assert_eq!(stalled_ms(-3, &[0, 95, 300]), 89, "a beat at the end of the window does not count");
        assert_eq!(stalled_ms(-3, &[0, 89, 300]), 83 + 9, "stalls after the window do not count");
    }
}
