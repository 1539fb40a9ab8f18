//! Goodput: the requests that were answered in time, over the window.

use serde::{Deserialize, Serialize};

use super::samples::{p50_and_p90, response_ns, values};
use super::{Sample, is_zero};

/// The shortest bin, in nanoseconds.
pub const BIN_NS_MIN: u64 = 100_000_000;
/// The most bins of a window.
const BINS_MAX: u64 = 1_000;

/// Requests answered in time. Each request counts at its planned time, so goodput never exceeds the offered rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoodputReport {
    /// The longest time from the send of a request to its response, in nanoseconds.
    pub timeout_ns: u64,
    /// Attempts of the whole trial that were not answered in time, though their connections worked.
    pub timeouts: u64,
    /// Attempts of the whole trial after the first, which followed a timeout or the end of a connection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// The length of a bin of the window, in nanoseconds: a multiple of 100 ms. The last bin may be shorter.
    pub bin_ns: u64,
    /// The bins of the window in order.
    pub bins: Vec<GoodputBin>,
}

/// The requests planned in a bin of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoodputBin {
    /// All of them: the offered load.
    pub planned: u64,
    /// Those that were answered in time, by any attempt.
    pub in_time: u64,
    /// The median of their response times in nanoseconds; 0 if none was answered in time.
    pub response_p50_ns: u64,
}

impl GoodputReport {
    /// Counts samples in order of planned time. Late responses are already none.
    pub fn of(timeout_ns: u64, samples: &[Sample], window_ns: u64) -> Self {
        let bin_ns = window_ns.div_ceil(BINS_MAX).next_multiple_of(BIN_NS_MIN).max(BIN_NS_MIN);
        let mut rest = samples;
        let bin = |number: u64| {
            let end_ns = ((number + 1) * bin_ns) as i64;
            let (these, others) = rest.split_at(rest.partition_point(|sample| sample.planned_ns < end_ns));
            rest = others;
            let mut times = values(these, response_ns);
            let in_time = times.len() as u64;
            GoodputBin { planned: these.len() as u64, in_time, response_p50_ns: p50_and_p90(&mut times).0 }
        };
        let bins = (0..window_ns.div_ceil(bin_ns)).map(bin).collect();
        Self { timeout_ns, timeouts: 0, retries: 0, bin_ns, bins }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_counts_in_the_bin_of_its_planned_time() {
        let sample = |planned_ms: i64, response_ms: Option<i64>| Sample {
            planned_ns: planned_ms * 1_000_000,
            complete_ns: response_ms.map_or(Sample::NEVER, |ms| (planned_ms + ms) * 1_000_000),
            ..Sample::UNKNOWN
        };
        let samples =
            [sample(0, Some(250)), sample(50, Some(20)), sample(99, None), sample(100, Some(3)), sample(240, None)];
        let goodput = GoodputReport::of(7, &samples, 250_000_000);
        let bin = |planned, in_time, ms: u64| GoodputBin { planned, in_time, response_p50_ns: ms * 1_000_000 };
        assert_eq!((goodput.timeout_ns, goodput.bin_ns), (7, BIN_NS_MIN));
        assert_eq!(goodput.bins, [bin(3, 2, 20), bin(1, 1, 3), bin(1, 0, 0)]);
        assert_eq!(GoodputReport::of(7, &samples, 250_000_000_000).bin_ns, 300_000_000, "at most 1 000 bins");
    }
}
