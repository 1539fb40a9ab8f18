//! Intervals from repeats.

use serde::{Deserialize, Serialize};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How much larger one architecture's figure is than another's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the medians over repeats.
    pub ratio: f64,
    /// Its 95 % interval; `None` with fewer than two repeats of either.
    pub interval: Option<Interval>,
}
