//! A measured time as stored figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Distribution, Histogram};

/// The number of parts of a window: enough for a test of steadiness.
pub const PARTS: usize = 32;

/// The number of larger parts of a window, in which 99th percentiles are measured.
pub const EIGHTHS: usize = 8;

/// A measured time: its distribution, and the histogram behind it, which allows merging.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Stored")]
pub struct Measured {
    /// Quantiles and moments.
    pub distribution: Distribution,
    /// Median in each part of the window, by planned time, in nanoseconds; 0 for a part without samples.
    pub p50_by_part_ns: [u64; PARTS],
    /// 90th percentile in each part, by planned time, in nanoseconds; 0 for a part without samples.
    pub p90_by_part_ns: [u64; PARTS],
    /// 99th percentile in each eighth of the window, by planned time, in nanoseconds; 0 without samples, and in older runs.
    pub p99_by_eighth_ns: [u64; EIGHTHS],
    /// The whole histogram.
    pub histogram: Histogram,
}

impl Measured {
    /// Creates the figures of a histogram, without those of the parts.
    pub fn without_parts(histogram: Histogram) -> Self {
        Self { distribution: histogram.distribution(), histogram, ..Self::default() }
    }
}

/// A stored measured time. Earlier versions stored fewer quantiles; the histogram provides the missing ones.
#[derive(Deserialize, JsonSchema)]
struct Stored {
    distribution: Distribution,
    p50_by_part_ns: [u64; PARTS],
    p90_by_part_ns: [u64; PARTS],
    #[serde(default)]
    p99_by_eighth_ns: [u64; EIGHTHS],
    histogram: Histogram,
}

impl From<Stored> for Measured {
    fn from(stored: Stored) -> Self {
        let Stored { mut distribution, p50_by_part_ns, p90_by_part_ns, p99_by_eighth_ns, histogram } = stored;
        if distribution.p95_ns == 0 {
            (distribution.p90_ns, distribution.p95_ns) = (histogram.quantile(0.90), histogram.quantile(0.95));
        }
        Self { distribution, p50_by_part_ns, p90_by_part_ns, p99_by_eighth_ns, histogram }
    }
}
