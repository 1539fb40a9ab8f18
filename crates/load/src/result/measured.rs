//! A measured time as stored figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Distribution, Histogram};

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
