//! The recovery of a server from a pulse of load beyond its capacity.

use std::ops::Range;

use load::result::GoodputBin;
use schemars::JsonSchema;
use serde::Serialize;
use stats::interval;

/// The share of requests that a healthy server answers in time.
const IN_TIME_SHARE_MIN: f64 = 0.95;
/// The largest median response time of a healthy server, relative to that before the pulse.
const MEDIAN_FACTOR_MAX: f64 = 2.0;
/// Medians below this are never slow, in nanoseconds: a host that pauses for a moment adds as much.
const MEDIAN_FLOOR_NS: f64 = 1e6;
/// The consecutive unhealthy steps after which a server has not recovered. A single one may be a pause of the host.
const UNHEALTHY_STEPS: usize = 2;

/// The fewest requests of a step at the base rate: of fewer, a single late one would make the step unhealthy.
const STEP_REQUESTS_MIN: f64 = 100.0;
/// The most bins of a step.
const STEP_BINS_MAX: usize = 10;

/// The recovery of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The server was healthy from this time on.
    After {
        /// The time since the end of the pulse in nanoseconds, in whole steps.
        ns: u64,
    },
    /// The server was not healthy at the end.
    Never,
    /// The server was not healthy before the pulse, so it cannot recover.
    UnhealthyBefore,
}

/// Returns how a server recovered from a pulse during the bins `pulse`; `None` without bins before or after it.
///
/// A step is a bin or, at a low rate, several bins. It is healthy if at least 95 % of its requests were answered in time, and if their
/// median response time is at most twice that before the pulse, or 1 ms. Steps without requests are healthy.
pub fn recovery(bins: &[GoodputBin], bin_ns: u64, pulse: Range<usize>) -> Option<Recovery> {
    let (before, after) = (bins.get(..pulse.start)?, bins.get(pulse.end..)?);
    let (planned, in_time) = before.iter().fold((0, 0), |sum, bin| (sum.0 + bin.planned, sum.1 + bin.in_time));
    let is_in_time = |planned: u64, in_time: u64| in_time as f64 >= IN_TIME_SHARE_MIN * planned as f64;
    if planned == 0 || after.is_empty() {
        return None;
    }
    let step_bins = (STEP_REQUESTS_MIN * before.len() as f64 / planned as f64).ceil() as usize;
    let step_bins = step_bins.clamp(1, STEP_BINS_MAX);
    let after: Vec<GoodputBin> = after.chunks(step_bins).map(merged).collect();
    if !is_in_time(planned, in_time) {
        return Some(Recovery::UnhealthyBefore);
    }
    let median_ns = merged(before).response_p50_ns as f64;
    let limit_ns = (MEDIAN_FACTOR_MAX * median_ns).max(MEDIAN_FLOOR_NS);
    let is_healthy = |bin: &GoodputBin| is_in_time(bin.planned, bin.in_time) && bin.response_p50_ns as f64 <= limit_ns;
    let relapse = after.windows(UNHEALTHY_STEPS).rposition(|bins| !bins.iter().any(is_healthy));
    let since = relapse.map_or(usize::from(!is_healthy(&after[0])), |at| at + UNHEALTHY_STEPS);
    Some(match since {
        since if since < after.len() => Recovery::After { ns: (since * step_bins) as u64 * bin_ns },
        _ => Recovery::Never,
    })
}

/// Adds the counts of bins. The median is that of their medians.
fn merged(bins: &[GoodputBin]) -> GoodputBin {
    let medians = bins.iter().filter(|bin| bin.in_time > 0).map(|bin| bin.response_p50_ns as f64);
    GoodputBin {
        planned: bins.iter().map(|bin| bin.planned).sum(),
        in_time: bins.iter().map(|bin| bin.in_time).sum(),
        response_p50_ns: interval::median(&medians.collect::<Vec<_>>()).unwrap_or(0.0) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bin for each letter: healthy (h), late (l: too few in time), slow (s), without requests (n), fast (f: far below
    /// a millisecond).
    fn bins(letters: &str) -> Vec<GoodputBin> {
        let bin = |letter| {
            let (planned, in_time, response_p50_ns) = match letter {
                'h' => (100, 95, 1_000_000),
                'l' => (100, 94, 1_000_000),
                's' => (100, 100, 2_000_001),
                'f' => (100, 100, 100_000),
                _ => (0, 0, 0),
            };
            GoodputBin { planned, in_time, response_p50_ns }
        };
        letters.chars().map(bin).collect()
    }

    fn after(letters: &str) -> Option<Recovery> {
        recovery(&bins(&format!("hhhll{letters}")), 100, 3..5)
    }

    #[test]
    fn recovery_is_the_time_from_which_a_server_stays_healthy() {
        let at = |bins: u64| Some(Recovery::After { ns: bins * 100 });
        assert_eq!(after("hhhh"), at(0));
        assert_eq!(after("llhh"), at(2), "requests are late");
        assert_eq!(after("lslhh"), at(3), "responses are slow");
        assert_eq!(after("lhh"), at(1));
        assert_eq!(after("llhhhllhh"), at(7), "a relapse");
        assert_eq!(after("llhhlhhsh"), at(2), "single bins may be pauses of the host");
        assert_eq!(after("llnn"), at(2));
    }

    #[test]
    fn server_that_is_unhealthy_at_the_end_never_recovers() {
        for letters in ["llll", "hhll", "ssss", "hhsl", "l"] {
            assert_eq!(after(letters), Some(Recovery::Never), "{letters}");
        }
    }

    #[test]
    fn server_that_was_unhealthy_before_cannot_recover() {
        assert_eq!(recovery(&bins("lllhhhh"), 100, 3..4), Some(Recovery::UnhealthyBefore));
        assert_eq!(recovery(&bins("hhh"), 100, 1..3), None, "no time after the pulse");
        assert_eq!(recovery(&bins("hhh"), 100, 0..1), None, "no time before the pulse");
        assert_eq!(recovery(&bins("nnlh"), 100, 2..3), None, "no requests before the pulse");
        assert_eq!(recovery(&bins("h"), 100, 2..3), None, "the trial ended early");
    }

    #[test]
    fn fast_server_may_slow_down_to_a_millisecond() {
        assert_eq!(recovery(&bins("ffllhh"), 100, 2..3), Some(Recovery::After { ns: 100 }));
    }

    #[test]
    fn single_late_requests_of_a_low_rate_are_not_unhealthy() {
        let few = |in_time| GoodputBin { planned: 20, in_time, response_p50_ns: 1_000_000 };
        let bins = |after: &[u64]| [&[20; 5][..], &[0, 0], after].concat().into_iter().map(few).collect::<Vec<_>>();
        let after = |after: &[u64]| recovery(&bins(after), 100, 5..7);
        assert_eq!(after(&[19, 18, 20, 19, 20, 18, 18]), Some(Recovery::After { ns: 0 }), "steps of five bins");
        assert_eq!(after(&[0, 19, 20, 20, 20, 20, 19, 20, 20, 20]), Some(Recovery::After { ns: 500 }));
        assert_eq!(after(&[10; 10]), Some(Recovery::Never));
    }
}
