//! Intervals and medians.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns half the distance between the ends.
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Tests whether the interval contains a value.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the interval of the exponential.
    pub(crate) fn exp(self) -> Self {
        Self { low: self.low.exp(), high: self.high.exp() }
    }
}

/// Returns the median. With an even number of values, it is halfway between the middle two. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_is_halfway() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
