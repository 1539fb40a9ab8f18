//! The time limit of requests of an open loop, and their retries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most retries that requests may save up in a budget, so that a calm time does not pay for a storm of retries.
pub const SAVED_RETRIES_MAX: f64 = 100.0;

/// The time limit of each request of an open loop, and the retries of requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestTimeout {
    /// The longest time from the send of a request to the last byte of its response, in nanoseconds. A later response counts as
    /// none.
    pub timeout_ns: u64,
    /// How often a request is sent again after a timeout, or after the failure of its connection.
    pub retries: u32,
    /// The most retries, as a share of the requests. `None` without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<f64>,
}

impl RequestTimeout {
    /// Returns the most retries of `requests` requests.
    pub fn retries_max(&self, requests: u64) -> u64 {
        let each = f64::from(self.retries).min(self.retry_budget.unwrap_or(f64::INFINITY));
        (requests as f64 * each).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_and_retries_both_limit_the_retries() {
        let of = |retries, retry_budget| RequestTimeout { timeout_ns: 1, retries, retry_budget }.retries_max(15);
        assert_eq!([of(0, None), of(2, None), of(2, Some(0.1)), of(1, Some(1.0))], [0, 30, 2, 15]);
    }
}
