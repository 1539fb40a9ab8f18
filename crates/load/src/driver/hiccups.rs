//! Time for which a client that sleeps was kept from waking: stopped, preempted, or without a CPU of the host.
//!
//! A closed loop plans its next request after the read that came too late, and a sleeping receiver sends nothing: neither shows
//! a stall as a send delay, and responses that wait in the client's sockets count as service time. A thread of its own measures
//! stalls instead, as Gil Tene's jHiccup does (<https://github.com/giltene/jHiccup>): it sleeps until times that are known ahead,
//! and sums by how much it woke too late. It is no neighbour for a loop that spins, which it would preempt.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::placement;
use crate::error::LoadError;
use crate::time::clock::Clock;

/// Between two beats, in nanoseconds.
const PERIOD_NS: i64 = 5_000_000;
/// A beat may be late by this, in nanoseconds: timers and a scheduler's slice.
const GRACE_NS: i64 = 1_000_000;

/// Sums the overruns of beats. Times are in nanoseconds since the window began.
#[derive(Debug)]
struct Meter {
    window_ns: i64,
    /// The next beat.
    planned_ns: i64,
    stalled_ns: i64,
}

impl Meter {
    fn new(window_ns: i64, now_ns: i64) -> Self {
        Self { window_ns, planned_ns: next_beat(now_ns), stalled_ns: 0 }
    }

    /// Records when the thread woke for the next beat. Beats that it missed belong to the same overrun.
    fn woke(&mut self, now_ns: i64) {
        let is_stall = now_ns - self.planned_ns > GRACE_NS;
        let in_window = |ns: i64| ns.clamp(0, self.window_ns);
        if is_stall {
            self.stalled_ns += in_window(now_ns) - in_window(self.planned_ns + GRACE_NS);
        }
        self.planned_ns = next_beat(now_ns);
    }
}

/// The first beat after `now_ns`: one falls on the beginning of the window.
fn next_beat(now_ns: i64) -> i64 {
    (now_ns.div_euclid(PERIOD_NS) + 1) * PERIOD_NS
}

/// Beats until the window is over or `stop` is set; returns for how many nanoseconds of the window the thread was stalled.
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

/// The threads that measure, one on each of the CPUs.
pub struct Hiccups<'scope>(Vec<ScopedJoinHandle<'scope, u64>>);

impl<'scope> Hiccups<'scope> {
    /// Starts a thread on each of `cpus`, where `None` is any; without CPUs nothing is measured.
    ///
    /// # Errors
    /// When a thread cannot be started.
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

    /// The greatest time for which one of the CPUs kept the client waiting, in nanoseconds: another CPU does not help its
    /// connections. `None` where nothing was measured.
    pub fn stalled_ns(self) -> Option<u64> {
        let join = |thread: ScopedJoinHandle<'_, u64>| thread.join().expect("a meter does not panic");
        self.0.into_iter().map(join).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// For how many milliseconds of a window of 100 ms a thread was stalled that woke at these times.
    fn stalled_ms(begun_ms: i64, woke_ms: &[i64]) -> i64 {
        let mut meter = Meter::new(100 * MS, begun_ms * MS);
        woke_ms.iter().for_each(|ms| meter.woke(ms * MS));
        meter.stalled_ns / MS
    }

    #[test]
    fn overruns_beyond_the_grace_are_stalls() {
        assert_eq!(stalled_ms(-3, &[0, 5, 10, 15]), 0);
        assert_eq!(stalled_ms(-3, &[1, 6, 11]), 0, "within the grace");
        assert_eq!(stalled_ms(-3, &[0, 8, 10, 19]), 2 + 3);
    }

    #[test]
    fn missed_beats_are_one_overrun() {
        // From 5 to 65 ms; the next beat is at 70 and not one of the missed.
        assert_eq!(stalled_ms(-3, &[0, 65, 70, 75]), 59);
    }

    #[test]
    fn stalls_outside_the_window_do_not_count() {
        assert_eq!(stalled_ms(-100, &[-40, -35]), 0);
        assert_eq!(stalled_ms(-21, &[30]), 30, "from the window's beginning");
        assert_eq!(stalled_ms(-3, &[0, 95, 300]), 89, "a beat at the window's end is none");
        assert_eq!(stalled_ms(-3, &[0, 89, 300]), 83 + 9, "to the window's end");
    }
}
