//! The times at which a client may send: always, or only in its own slices of an interleaved trial.

use crate::config::LoadConfig;
use crate::driver::Turns;
use crate::time::clock::Clock;

/// The longest turn of a client's loop that is no pause, in nanoseconds. A full batch of responses takes a fraction of it.
const PAUSE_NS: f64 = 500_000.0;
/// In long slices the longest turn that is no pause is this share of a slice. Long slices have few rounds, so each one counts.
const PAUSE_SHARE: f64 = 0.05;
/// The longest sleep between two slices, in nanoseconds.
const SLEEP_NS: i64 = 900_000_000;
/// The longest sleep after the last slice before the loop checks whether all responses have arrived, in nanoseconds.
const LAST_SLEEP_NS: i64 = 5_000_000;

/// The client's slices, in ticks.
#[derive(Clone, Debug, Default)]
pub struct OwnSlices {
    /// The start of each slice, ascending. Empty without slices.
    starts: Vec<u64>,
    ticks: u64,
    next: usize,
}

impl OwnSlices {
    /// The slices of a trial that begins at `start`.
    pub fn new(config: &LoadConfig, clock: &Clock, start: u64) -> Self {
        let Some(slices) = config.client.slices else { return Self::default() };
        let rounds = config.window_ns().end / slices.round_ns();
        let starts = (0..rounds).map(|round| start + clock.ticks(slices.start_ns(round) as f64)).collect();
        Self { starts, ticks: clock.ticks(slices.slice_ns as f64), next: 0 }
    }

    /// Whether the client may always send.
    pub fn is_always(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the start of the next slice; `u64::MAX` after the last slice; `None` if the client may send at `now`. Call it
    /// with ascending times.
    #[inline]
    pub fn next_start(&mut self, now: u64) -> Option<u64> {
        if self.starts.is_empty() {
            return None;
        }
        while self.starts.get(self.next).is_some_and(|start| now >= start + self.ticks) {
            self.next += 1;
        }
        let next = self.starts.get(self.next).copied().unwrap_or(u64::MAX);
        (now < next).then_some(next)
    }

    /// Sleeps until the client's next slice unless `now` is in one. `sleep` takes nanoseconds, and may end early if a response
    /// arrives or a connection is established again. Returns the planned time of waking, if it slept.
    #[inline]
    pub fn sleep(&mut self, clock: &Clock, now: u64, sleep: impl FnOnce(i64)) -> Option<u64> {
        let start = self.next_start(now)?;
        let ns = if start == u64::MAX { LAST_SLEEP_NS } else { clock.between_ns(now, start).min(SLEEP_NS) };
        sleep(ns);
        Some(now + clock.ticks(ns as f64))
    }

    /// Makes `turns` record pauses, if the client has slices.
    pub fn watch_pauses(&self, turns: Turns, clock: &Clock) -> Turns {
        let ticks = clock.ticks(PAUSE_NS).max((PAUSE_SHARE * self.ticks as f64) as u64);
        if self.starts.is_empty() { turns } else { turns.with_pauses(ticks) }
    }

    /// The end of the slice before the next one.
    fn last_end(&self) -> Option<u64> {
        Some(self.starts[self.next.checked_sub(1)?] + self.ticks)
    }

    /// Returns the time after `ticks` of the client's slices from `now` on; `u64::MAX` if fewer are left. A response in the gap, some
    /// time after a slice, counts as one at that time of the next slice. `now` must ascend.
    #[inline]
    pub fn after(&mut self, now: u64, ticks: u64) -> u64 {
        if self.starts.is_empty() {
            return now.saturating_add(ticks);
        }
        let begin = match self.next_start(now) {
            None => now,
            Some(u64::MAX) => return u64::MAX,
            Some(start) => start + self.last_end().map_or(0, |end| now - end),
        };
        let within = begin - self.starts[self.next] + ticks;
        let (slices, rest) = (within / self.ticks, within % self.ticks);
        self.starts.get(self.next + slices as usize).map_or(u64::MAX, |start| start + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClockChoice, Phases, Slices};

    fn made_up() -> (OwnSlices, Vec<u64>) {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let slices = Slices { heat: 0, contestants: 3, contestant: 1, slice_ns: 10, gap_ns: 0, guard_ns: 2, seed: 7 };
        let phases = Phases { ramp_ns: 10, warm_up_ns: 10, measure_ns: 30, cool_down_ns: 0 };
        let config =
            LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| (it.client.slices, it.phases) = (Some(slices), phases));
        (OwnSlices::new(&config, &clock, 1_000), (0..5).map(|round| 1_000 + slices.start_ns(round)).collect())
    }

    #[test]
    fn client_sends_only_in_its_slices() {
        let (mut slices, starts) = made_up();
        for at in 1_000..1_150 {
            let is_own = starts.iter().any(|start| (*start..start + 10).contains(&at));
            let next = starts.iter().copied().find(|start| *start > at).unwrap_or(u64::MAX);
            assert_eq!(slices.next_start(at), (!is_own).then_some(next), "{at}");
        }
        assert_eq!(slices.next_start(2_000), Some(u64::MAX));
    }

    #[test]
    fn sleep_ends_with_the_next_slice_or_soon_after_the_last_one() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let (mut slices, starts) = made_up();
        let mut slept = |now: u64| {
            let mut slept_ns = None;
            slices.sleep(&clock, now, |ns| slept_ns = Some(ns));
            slept_ns
        };
        assert_eq!(slept(starts[0] + 10), Some(clock.between_ns(starts[0] + 10, starts[1])));
        assert_eq!((slept(starts[1]), slept(2_000)), (None, Some(LAST_SLEEP_NS)));
    }

    #[test]
    fn delay_passes_only_in_slices() {
        let (mut slices, starts) = made_up();
        let mut after = |now, ticks| slices.after(now, ticks);
        assert_eq!(after(starts[0] - 1, 3), starts[0] + 3);
        assert_eq!(after(starts[0] + 3, 5), starts[0] + 8);
        assert_eq!(after(starts[0] + 3, 7), starts[1], "the slice has 7 ticks left");
        assert_eq!(after(starts[0] + 10, 24), starts[3] + 4);
        assert_eq!(after(starts[0] + 12, 0), starts[1] + 2, "2 ticks after a slice are 2 ticks of the next one");
        assert_eq!(after(starts[0] + 13, 24), starts[3] + 7);
        assert_eq!(after(starts[4] + 9, 1), u64::MAX);
    }

    #[test]
    fn long_slices_allow_longer_turns() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let pauses = |slice_ns: f64| {
            let slices = OwnSlices { starts: vec![0], ticks: clock.ticks(slice_ns), next: 0 };
            let mut turns = slices.watch_pauses(Turns::new(0..u64::MAX), &clock);
            turns.begin(0, false);
            turns.begin(clock.ticks(1e6), false);
            turns.pauses().len()
        };
        assert_eq!([10e6, 40e6].map(pauses), [1, 0], "a turn of 1 ms");
    }

    #[test]
    fn client_without_slices_always_sends() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let mut slices = OwnSlices::new(&LoadConfig::small(([127, 0, 0, 1], 80)), &clock, 5);
        assert_eq!((slices.next_start(0), slices.after(7, 3)), (None, 10));
    }
}
