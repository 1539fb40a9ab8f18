//! Searches for the highest rate, or the most connections, within limits of the response time.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::units::Time;

/// The quantity that a search varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Varied {
    /// The rate, in requests per second.
    Rate,
    /// The number of connections, at a fixed rate.
    Connections,
}

/// The goal of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchGoal {
    /// The limits of the response time (t3 - t1). A probe must meet all of them.
    pub limits: Vec<LatencyLimit>,
    /// The quantity that the search varies.
    pub varied: Varied,
    /// The first value to try.
    pub from: f64,
    /// The highest value to try.
    pub most: f64,
    /// The largest distance between the result and each end of its interval, as a share of the result.
    pub precision: f64,
    /// The total time, in nanoseconds, after which no further probe starts.
    pub time_max_ns: u64,
}

/// A limit of a quantile of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyLimit {
    /// The quantile, from 0 to 1.
    pub quantile: f64,
    /// The highest allowed value, in nanoseconds.
    pub max_ns: u64,
}

impl LatencyLimit {
    /// Returns the name of the quantile, such as `p99.9`.
    pub fn name(&self) -> String {
        // Round to tenths of a percent to hide the error of binary fractions.
        format!("p{}", (self.quantile * 1e3).round() / 10.0)
    }
}

impl fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.name(), Time(self.max_ns))
    }
}
