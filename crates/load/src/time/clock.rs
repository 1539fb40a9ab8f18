//! The clock of all timestamps: the time stamp counter (TSC) if it is reliable, otherwise the kernel's clock.
//!
//! One linear map, fixed before the trial, converts ticks to nanoseconds. All differences (send delay, service time) therefore
//! use one counter and cannot jump. An error of a few parts per million stretches 100 µs by less than a nanosecond. The report
//! contains the drift between the map and the kernel's clock.

use std::thread;
use std::time::Duration;

use rustix::time::ClockId;

use crate::config::ClockChoice;
use crate::error::LoadError;
use crate::result::ClockFacts;

/// The length of the comparison with the kernel's clock. With readings exact to 50 ns, the frequency is exact to 2 ppm.
const CALIBRATION: Duration = Duration::from_millis(50);

/// The number of readings per comparison of both clocks. Only the fastest reading is used.
const READINGS: u32 = 20;

/// A clock that counts ticks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
    reason: &'static str,
    /// Simultaneous readings of both clocks at the beginning of the trial.
    anchor: Anchor,
    ticks_per_ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Tsc,
    Monotonic,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    kernel_ns: u64,
    /// Ticks between the readings of the client's clock before and after the kernel's: the bound of the error.
    width_ticks: u64,
}

/// The wall clock (CLOCK_REALTIME) in ticks of the client's clock, for the kernel's timestamps. The system adjusts its pace, so
/// the two clocks are compared repeatedly over a trial.
#[derive(Clone, Debug, Default)]
pub struct Wall {
    anchors: Vec<Anchor>,
}

/// The largest deviation from the wall clock's usual pace between two comparisons: 20 µs in half a second.
const WALL_PACE_MAX: f64 = 0.00004;
/// The tolerated error of two readings beyond their widths, in nanoseconds.
const WALL_READING_NS: f64 = 1_000.0;
/// The largest steady adjustment of the wall clock (adjtimex(2): 500 parts per million).
const WALL_ADJUSTED_MAX: f64 = 0.0005;

impl Wall {
    /// Compares the clocks. Conversion needs a comparison before and one after the converted times.
    pub fn compare(&mut self, clock: &Clock) {
        self.anchors.push(Anchor::read(clock.source, ClockId::Realtime));
    }

    /// Converts a wall time in nanoseconds to ticks.
    pub fn ticks(&self, wall_ns: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.kernel_ns <= wall_ns).clamp(1, self.anchors.len() - 1);
        let (from, to) = (self.anchors[after - 1], self.anchors[after]);
        let pace = (to.ticks - from.ticks) as f64 / (to.kernel_ns as f64 - from.kernel_ns as f64);
        let ahead = (wall_ns as i64 - from.kernel_ns as i64) as f64 * pace;
        from.ticks.wrapping_add_signed(ahead.round() as i64)
    }

    /// Whether the wall clock was set between two comparisons, which makes its times useless.
    pub fn stepped(&self, clock: &Clock) -> bool {
        let [first, .., last] = self.anchors[..] else { return false };
        let length = |from: &Anchor, to: &Anchor| {
            let own_ns = clock.between_ns(from.ticks, to.ticks) as f64;
            let widths_ns = clock.between_ns(0, from.width_ticks + to.width_ticks) as f64;
            (own_ns, to.kernel_ns as f64 - from.kernel_ns as f64, WALL_READING_NS + widths_ns)
        };
        let (own_ns, wall_ns, _) = length(&first, &last);
        let usual = (wall_ns / own_ns).clamp(1.0 - WALL_ADJUSTED_MAX, 1.0 + WALL_ADJUSTED_MAX);
        self.anchors.windows(2).any(|pair| {
            let (own_ns, wall_ns, reading_ns) = length(&pair[0], &pair[1]);
            wall_ns <= 0.0 || (wall_ns - own_ns * usual).abs() > own_ns * WALL_PACE_MAX + reading_ns
        })
    }
}

impl Clock {
    /// Chooses and calibrates a clock. For the TSC, this takes about 50 ms.
    pub fn calibrate(choice: ClockChoice) -> Result<Self, LoadError> {
        let (source, reason) = match (choice, tsc_is_invariant()) {
            (ClockChoice::Monotonic, _) => (Source::Monotonic, "configured"),
            (ClockChoice::Auto | ClockChoice::Tsc, true) => (Source::Tsc, "constant_tsc and nonstop_tsc"),
            (ClockChoice::Auto, false) => (Source::Monotonic, "no invariant TSC"),
            (ClockChoice::Tsc, false) => return Err(LoadError::NoTsc),
        };
        let first = Anchor::read(source, ClockId::Monotonic);
        if source == Source::Monotonic {
            return Ok(Self { source, reason, anchor: first, ticks_per_ns: 1.0 });
        }
        thread::sleep(CALIBRATION);
        let anchor = Anchor::read(source, ClockId::Monotonic);
        let ticks_per_ns = (anchor.ticks - first.ticks) as f64 / (anchor.kernel_ns - first.kernel_ns) as f64;
        Ok(Self { source, reason, anchor, ticks_per_ns })
    }

    /// The current time in ticks.
    #[inline]
    pub fn now(&self) -> u64 {
        self.source.ticks()
    }

    /// The difference of two times in nanoseconds; negative if `later` is before `earlier`.
    #[inline]
    pub fn between_ns(&self, earlier: u64, later: u64) -> i64 {
        ((later.wrapping_sub(earlier) as i64) as f64 / self.ticks_per_ns).round() as i64
    }

    /// Converts a duration in nanoseconds to ticks.
    #[inline]
    pub fn ticks(&self, ns: f64) -> u64 {
        (ns * self.ticks_per_ns).round() as u64
    }

    /// Converts a time of CLOCK_MONOTONIC in nanoseconds to ticks.
    pub fn at(&self, monotonic_ns: u64) -> u64 {
        let ahead_ns = monotonic_ns.wrapping_sub(self.anchor.kernel_ns) as i64;
        self.anchor.ticks.wrapping_add_signed((ahead_ns as f64 * self.ticks_per_ns).round() as i64)
    }

    /// Converts ticks to a time of CLOCK_MONOTONIC in nanoseconds.
    pub fn monotonic_ns(&self, ticks: u64) -> u64 {
        self.anchor.kernel_ns.wrapping_add_signed(self.between_ns(self.anchor.ticks, ticks))
    }

    /// Compares the clock with the kernel's once more and reports the drift.
    pub fn facts(&self) -> ClockFacts {
        let end = Anchor::read(self.source, ClockId::Monotonic);
        let elapsed_ns = (end.kernel_ns - self.anchor.kernel_ns) as f64;
        let drift_ns = self.monotonic_ns(end.ticks) as f64 - end.kernel_ns as f64;
        ClockFacts {
            source: format!("{:?}", self.source).to_lowercase(),
            reason: self.reason.to_owned(),
            frequency_hz: self.ticks_per_ns * 1e9,
            drift_ppm: if elapsed_ns > 0.0 { drift_ns / elapsed_ns * 1e6 } else { 0.0 },
            went_back: 0,
        }
    }
}

impl Source {
    #[inline]
    fn ticks(self) -> u64 {
        match self {
            Self::Tsc => read_tsc(),
            Self::Monotonic => kernel_ns(ClockId::Monotonic),
        }
    }
}

impl Anchor {
    /// Reads the client's clock and a kernel clock, as close together as a few tries allow.
    fn read(source: Source, clock: ClockId) -> Self {
        let bracket = || {
            let before = source.ticks();
            let kernel_ns = kernel_ns(clock);
            let after = source.ticks();
            Self { ticks: before + (after - before) / 2, kernel_ns, width_ticks: after - before }
        };
        (0..READINGS).map(|_| bracket()).min_by_key(|anchor| anchor.width_ticks).expect("at least one reading")
    }
}

/// CLOCK_MONOTONIC in nanoseconds. All processes of one machine see the same value.
pub fn monotonic_ns() -> u64 {
    kernel_ns(ClockId::Monotonic)
}

/// A clock of the kernel in nanoseconds.
pub(crate) fn kernel_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_tsc() -> u64 {
    // SAFETY: every x86_64 processor has the instruction, and a kernel that disables it does not report an invariant TSC.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    unreachable!("the TSC is chosen only where it is invariant")
}

/// Whether the TSC runs at one rate in all power states and on all cores.
fn tsc_is_invariant() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|word| word == flag);
    cfg!(target_arch = "x86_64") && has("constant_tsc") && has("nonstop_tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_agrees_with_the_kernel() {
        for choice in [ClockChoice::Auto, ClockChoice::Monotonic] {
            let clock = Clock::calibrate(choice).unwrap();
            let start = clock.now();
            thread::sleep(Duration::from_millis(20));
            let elapsed_ns = clock.between_ns(start, clock.now());
            assert!(elapsed_ns >= 19_900_000, "{choice:?}: {elapsed_ns}");
            assert!(clock.facts().drift_ppm.abs() < 1_000.0, "{:?}", clock.facts());
        }
    }

    #[test]
    fn durations_round_trip() {
        let clock = Clock::calibrate(ClockChoice::Auto).unwrap();
        for ns in [0i64, 1_000, 1_000_000_000, 600_000_000_000] {
            let back = clock.between_ns(7, 7 + clock.ticks(ns as f64));
            assert!(back.abs_diff(ns) <= 1, "{ns} came back as {back}");
        }
        assert!(clock.between_ns(5_000_000, 0) < 0);
        for ticks in [clock.now(), clock.now() + clock.ticks(1e9), clock.now() - clock.ticks(1e6)] {
            let back = clock.at(clock.monotonic_ns(ticks));
            assert!(back.abs_diff(ticks) <= 1 + clock.ticks(1.0), "{ticks} came back as {back}");
        }
    }

    #[test]
    fn wall_times_convert_despite_changing_pace() {
        let anchor = |ticks, kernel_ns| Anchor { ticks, kernel_ns, width_ticks: 0 };
        let wall = Wall { anchors: vec![anchor(1_000, 100_000), anchor(3_000, 101_000), anchor(6_000, 102_000)] };
        let shown = [99_500, 100_000, 100_500, 101_000, 101_500, 102_500].map(|ns| wall.ticks(ns));
        assert_eq!(shown, [0, 1_000, 2_000, 3_000, 4_500, 7_500]);
    }

    #[test]
    fn wall_clock_step_is_detected() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let wall = |second_ns| Wall {
            anchors: vec![
                Anchor { ticks: 0, kernel_ns: 5_000_000_000, width_ticks: 0 },
                Anchor { ticks: 1_000_000_000, kernel_ns: second_ns, width_ticks: 0 },
            ],
        };
        assert!(!wall(6_000_400_000).stepped(&clock), "a steady adjustment is no step");
        let half = |wall_ns: &[u64]| Wall {
            anchors: wall_ns
                .iter()
                .enumerate()
                .map(|(at, &kernel_ns)| Anchor { ticks: at as u64 * 500_000_000, kernel_ns, width_ticks: 0 })
                .collect(),
        };
        assert!(
            !half(&[0, 500_000_000, 1_000_002_000, 1_500_000_000]).stepped(&clock),
            "an error of a reading is no step"
        );
        assert!(half(&[0, 500_000_000, 1_000_300_000, 1_500_300_000]).stepped(&clock), "a change by 300 us is a step");
        assert!(wall(6_010_000_000).stepped(&clock));
        assert!(wall(4_000_000_000).stepped(&clock));
        let mut wall = Wall::default();
        wall.compare(&clock);
        thread::sleep(Duration::from_millis(5));
        wall.compare(&clock);
        assert!(!wall.stepped(&clock), "{wall:?}");
    }
}
