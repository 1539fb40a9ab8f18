//! A sweep that checks silent connections: some slots at each tick of a clock.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// The number of slots to check at each tick. Checking them takes about 0.1 ms.
const SLOTS: usize = 1024;

pub(super) struct IdleSweep {
    clock: OwnedFd,
    at: usize,
    pub(super) is_watched: bool,
}

impl IdleSweep {
    pub(super) fn new() -> io::Result<Self> {
        let clock = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
        let ticks = Itimerspec { it_interval: tick, it_value: tick };
        rustix::time::timerfd_settime(&clock, TimerfdTimerFlags::empty(), &ticks)?;
        Ok(Self { clock, at: 0, is_watched: false })
    }

    pub(super) fn clock(&self) -> BorrowedFd<'_> {
        self.clock.as_fd()
    }

    /// Reads the tick, and returns the next range in a table of `slots` slots.
    pub(super) fn next_slots(&mut self, slots: usize) -> io::Result<Range<usize>> {
        rustix::io::read(&self.clock, &mut [0; 8])?;
        let start = if self.at < slots { self.at } else { 0 };
        self.at = (start + SLOTS).min(slots);
        Ok(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_visits_each_slot_in_turn() {
        let mut sweep = IdleSweep::new().unwrap();
        let turns: Vec<Range<usize>> = [1_500, 1_500, 1_500].map(|slots| sweep.next_slots(slots).unwrap()).into();
        assert_eq!(turns, [0..1_024, 1_024..1_500, 0..1_024]);
        assert_eq!(sweep.next_slots(3).unwrap(), 0..3, "a smaller table restarts the sweep");
        assert_eq!(sweep.next_slots(0).unwrap(), 0..0);
    }
}
