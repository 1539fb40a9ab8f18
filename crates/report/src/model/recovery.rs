//! The recovery of a server from a pulse of load beyond its capacity.

use std::ops::Range;

use load::report::GoodputBin;
use serde::Serialize;
use stats::interval;

/// The share of requests that a healthy server answers in time.
const IN_TIME_SHARE_MIN: f64 = 0.95;
/// The largest median response time of a healthy server, relative to that before the pulse.
const MEDIAN_FACTOR_MAX: f64 = 2.0;
/// Medians below this are never slow, in nanoseconds: a host that pauses for a moment adds as much.
const MEDIAN_FLOOR_NS: f64 = 1e6;
/// The consecutive unhealthy bins after which a server has not recovered. A single one may be a pause of the host.
const UNHEALTHY_BINS: usize = 2;

/// The recovery of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The server was healthy from this time on.
    After {
        /// The time since the end of the pulse in nanoseconds, in steps of a bin.
        ns: u64,
    },
    /// The server was not healthy at the end.
    Never,
    /// The server was not healthy before the pulse, so it cannot recover.
    UnhealthyBefore,
}

/// Returns how a server recovered from a pulse during the bins `pulse`; `None` without bins before or after it.
///
/// A bin is healthy if at least 95 % of its requests were answered in time, and if their median response time is at most twice
/// that before the pulse, or 1 ms. Bins without requests are healthy.
pub fn recovery(bins: &[GoodputBin], bin_ns: u64, pulse: Range<usize>) -> Option<Recovery> {
    let (before, after) = (bins.get(..pulse.start)?, bins.get(pulse.end..)?);
    let (planned, in_time) = before.iter().fold((0, 0), |sum, bin| (sum.0 + bin.planned, sum.1 + bin.in_time));
    let is_in_time = |planned: u64, in_time: u64| in_time as f64 >= IN_TIME_SHARE_MIN * planned as f64;
    let known = before.iter().filter(|bin| bin.in_time > 0).map(|bin| bin.response_p50_ns as f64);
    let first = after.first().filter(|_| planned > 0)?;
    let Some(median_ns) = interval::median(&known.collect::<Vec<_>>()).filter(|_| is_in_time(planned, in_time)) else {
        return Some(Recovery::UnhealthyBefore);
    };
    let limit_ns = (MEDIAN_FACTOR_MAX * median_ns).max(MEDIAN_FLOOR_NS);
    let is_healthy = |bin: &GoodputBin| is_in_time(bin.planned, bin.in_time) && bin.response_p50_ns as f64 <= limit_ns;
    let relapse = after.windows(UNHEALTHY_BINS).rposition(|bins| !bins.iter().any(is_healthy));
    let since = relapse.map_or(usize::from(!is_healthy(first)), |at| at + UNHEALTHY_BINS);
    Some(match since {
        since if since < after.len() => Recovery::After { ns: since as u64 * bin_ns },
        _ => Recovery::Never,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bin for each letter: healthy (h), late (l: too few in time), slow (s), without requests (n), brief hiccup (f: fast
    /// in absolute terms).
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
}
