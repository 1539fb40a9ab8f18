//! Goodput: the requests that were answered in time, over the window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::late::is_zero;

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
