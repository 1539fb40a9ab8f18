//! A measured time, and figures that only some loads have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Distribution, Histogram};

use super::late::is_zero;

/// The number of parts of a window: enough for a test of steadiness.
pub const PARTS: usize = 32;

/// A measured time: its distribution, and the histogram behind it, which allows merging.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Quantiles and moments.
    pub distribution: Distribution,
    /// Median in each part of the window, by planned time, in nanoseconds; 0 for a part without samples.
    pub p50_by_part_ns: [u64; PARTS],
    /// 90th percentile in each part, by planned time, in nanoseconds; 0 for a part without samples.
    pub p90_by_part_ns: [u64; PARTS],
    /// The whole histogram.
    pub histogram: Histogram,
}

impl Measured {
    /// Creates the figures of a histogram, without those of the parts.
    pub fn without_parts(histogram: Histogram) -> Self {
        Self { distribution: histogram.distribution(), histogram, ..Self::default() }
    }
}

/// TLS handshakes: those of all connections before the ramp, or of the short-lived connections that began in the window. Those of
/// reconnects are not included.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TlsResult {
    /// The cipher suite of a handshake. Those of TLS 1.3 begin with `TLS13`.
    pub cipher: String,
    /// The time of full handshakes, from the client's first message to its last. Medians of parts are unknown, and 0.
    pub full: Measured,
    /// The time of handshakes that resumed an earlier session.
    pub resumed: Measured,
}

/// Requests answered in time. Each request counts at its planned time, so goodput never exceeds the offered rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoodputResult {
    /// The longest time from the send of a request to its response, in nanoseconds.
    pub timeout_ns: u64,
    /// Attempts of the whole trial that were not answered in time, though their connections worked.
    pub timeouts: u64,
    /// Attempts of the whole trial after the first, which followed a timeout or the failure of a connection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// The length of a bin of the window, in nanoseconds: a multiple of 100 ms. The last bin may be shorter.
    pub bin_ns: u64,
    /// The bins of the window in order.
    pub bins: Vec<GoodputBin>,
}

/// The requests planned in a bin of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoodputBin {
    /// All of them: the offered load.
    pub planned: u64,
    /// Those that were answered in time, by any attempt.
    pub in_time: u64,
    /// The median of their response times in nanoseconds; 0 if none was answered in time.
    pub response_p50_ns: u64,
}
