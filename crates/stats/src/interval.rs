//! Intervals from repeats. Samples within one run are correlated; repeats are not, so only they say how sure a figure is.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// The method, as it is named wherever an interval is shown.
pub const METHOD: &str = "95 % percentile bootstrap of the ratio of medians over repeats";

/// Resamples of a bootstrap; the ends of a 95 % interval then rest on 50 each.
const RESAMPLES: usize = 2_000;

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

impl Ratio {
    /// `values` against `base`, both of one figure, one value a repeat, in the same unit. `seed` makes it repeatable.
    /// `None` when either is empty or the base is not positive.
    pub fn of(values: &[f64], base: &[f64], seed: u64) -> Option<Self> {
        let divisor = median(base).filter(|&m| m > 0.0)?;
        let ratio = median(values)? / divisor;
        let interval = (values.len() >= 2 && base.len() >= 2).then(|| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut ratios: Vec<f64> = (0..RESAMPLES)
                .map(|_| resampled_median(values, &mut random) / resampled_median(base, &mut random))
                .collect();
            ratios.sort_unstable_by(f64::total_cmp);
            let tail = RESAMPLES * 25 / 1000;
            Interval { low: ratios[tail - 1], high: ratios[RESAMPLES - tail] }
        });
        Some(Self { ratio, interval })
    }

    /// Whether the whole interval is within `margin` of 1, so that the difference, if there is one, does not matter.
    pub fn is_practically_one(&self, margin: f64) -> bool {
        self.interval.is_some_and(|interval| interval.low >= 1.0 - margin && interval.high <= 1.0 + margin)
    }

    /// Whether the interval excludes 1.
    pub fn differs_from_one(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low > 1.0 || interval.high < 1.0)
    }
}

/// The median, halfway between the middle two of an even number; `None` of nothing.
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

fn resampled_median(values: &[f64], random: &mut Xoshiro256PlusPlus) -> f64 {
    let resample: Vec<f64> = values.iter().map(|_| values[random.random_range(0..values.len())]).collect();
    median(&resample).expect("at least two values")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_interval_lies_within_the_extreme_ratios_and_holds_the_ratio(
            values in prop::collection::vec(1.0f64..1e6, 2..10), base in prop::collection::vec(1.0f64..1e6, 2..10),
        ) {
            let ratio = Ratio::of(&values, &base, 1).unwrap();
            let interval = ratio.interval.unwrap();
            let least = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
            prop_assert!(interval.low >= least(&values) / most(&base) * 0.999_999);
            prop_assert!(interval.high <= most(&values) / least(&base) * 1.000_001);
            prop_assert!(interval.low <= ratio.ratio * 1.000_001 && ratio.ratio <= interval.high * 1.000_001);
            prop_assert_eq!(Ratio::of(&values, &base, 1), Some(ratio), "the same seed gives the same interval");
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn equal_repeats_are_practically_one_and_one_repeat_says_nothing() {
        let same = Ratio::of(&[10.0, 10.1, 10.0], &[10.0, 10.0, 10.1], 1).unwrap();
        assert!(same.is_practically_one(0.05) && !same.differs_from_one());
        let twice = Ratio::of(&[20.0, 21.0, 20.5], &[10.0, 10.0, 10.1], 1).unwrap();
        assert!(!twice.is_practically_one(0.05) && twice.differs_from_one());
        let single = Ratio::of(&[10.0], &[10.0], 1).unwrap();
        assert!(!single.is_practically_one(0.05) && !single.differs_from_one());
        assert_eq!(Ratio::of(&[1.0], &[], 1), None);
        assert_eq!(Ratio::of(&[1.0], &[0.0], 1), None);
    }
}
