//! Confidence intervals from repeats. Samples within a run are correlated, but repeats are independent.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Name of the method in reports.
pub const METHOD: &str = "95 % percentile bootstrap of the ratio of medians over repeats";

/// The number of bootstrap resamples. 50 of them are at or beyond each end of a 95 % interval.
const RESAMPLES: usize = 2_000;

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of the exponential.
    pub(crate) fn exp(self) -> Self {
        Self { low: self.low.exp(), high: self.high.exp() }
    }
}

/// Ratio of one architecture's figure to another's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the medians over repeats.
    pub ratio: f64,
    /// Its 95 % interval; `None` if either architecture has fewer than two repeats.
    pub interval: Option<Interval>,
}

impl Ratio {
    /// Compares `values` with `base`, one value per repeat. `None` if either is empty, or the median of `base` is not positive.
    pub fn of(values: &[f64], base: &[f64], seed: u64) -> Option<Self> {
        let divisor = median(base).filter(|&m| m > 0.0)?;
        let ratio = median(values)? / divisor;
        let interval = (values.len() >= 2 && base.len() >= 2)
            .then(|| bootstrap(seed, |random| resampled_median(values, random) / resampled_median(base, random)));
        Some(Self { ratio, interval })
    }

    /// Tests whether the whole interval is within `margin` of 1, so that any difference is negligible.
    pub fn is_practically_one(&self, margin: f64) -> bool {
        self.interval.is_some_and(|interval| interval.low >= 1.0 - margin && interval.high <= 1.0 + margin)
    }

    /// Tests whether the interval excludes 1.
    pub fn differs_from_one(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low > 1.0 || interval.high < 1.0)
    }
}

/// One architecture's figure. With 2 to 5 repeats, the interval extends from the lowest to the highest value. For any noise,
/// it then covers the true median in 0.5, 0.75, 0.875 or 0.9375 of cases instead of 0.95.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median over repeats.
    pub value: f64,
    /// Its 95 % interval, by a percentile bootstrap of the median; `None` with fewer than two repeats.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Estimates from one value per repeat. The same `seed` gives the same interval. Returns `None` without values.
    pub fn of(values: &[f64], seed: u64) -> Option<Self> {
        let value = median(values)?;
        let interval = (values.len() >= 2).then(|| bootstrap(seed, |random| resampled_median(values, random)));
        Some(Self { value, interval })
    }
}

/// Results of [`coverage`] for 2 to 10 repeats.
const COVERAGE: [f64; 9] = [0.67, 0.90, 0.93, 0.97, 0.96, 0.96, 0.96, 0.97, 0.96];

/// Returns the share of cases in which the interval of a [`Ratio`] covers the true ratio, for this number of repeats on both
/// sides. It should be 0.95, but resamples of a few repeats stay between their extremes, so the interval may be too narrow.
///
/// The shares come from a simulation of [`Ratio::of`] with 20 000 cases for each number of repeats: log-normal values with a
/// standard deviation of 5 %, and a true ratio of 1. The standard error is at most 0.0034. With a standard deviation of 50 %,
/// the shares differ by at most 0.015. For 11 to 30 repeats the share is 0.97; this function returns the share of 10 repeats.
///
/// The simulation assumes equal noise on both sides. The share is lower if one side has less noise or more repeats. If one
/// side is exact, the share is that of an [`Estimate`].
pub fn coverage(repeats: usize) -> f64 {
    repeats.checked_sub(2).map_or(0.0, |from_two| COVERAGE[from_two.min(COVERAGE.len() - 1)])
}

/// Returns the share of cases in which the interval of an [`Estimate`] covers the true value; less than 0.95 below 6 repeats.
pub fn estimate_coverage(repeats: usize) -> f64 {
    match repeats {
        0 | 1 => 0.0,
        _ => (1.0 - 0.5f64.powi(repeats as i32 - 1)).min(0.95),
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

/// Returns the middle 95 % of the results of `draw`.
fn bootstrap(seed: u64, mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> Interval {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let tail = RESAMPLES * 25 / 1000;
    Interval { low: drawn[tail - 1], high: drawn[RESAMPLES - tail] }
}

fn resampled_median(values: &[f64], random: &mut Xoshiro256PlusPlus) -> f64 {
    let resample: Vec<f64> = values.iter().map(|_| values[random.random_range(0..values.len())]).collect();
    median(&resample).expect("at least two values")
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn interval_covers_the_ratio_within_the_extremes(
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

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn estimate_is_the_median_with_its_bootstrap_interval(
            values in prop::collection::vec(1.0f64..1e6, 2..10), seed: u64,
        ) {
            let estimate = Estimate::of(&values, seed).unwrap();
            prop_assert_eq!(Some(estimate.value), median(&values));
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let medians: Vec<f64> = (0..RESAMPLES).map(|_| resampled_median(&values, &mut random)).collect();
            let interval = estimate.interval.unwrap();
            for (outside, side) in [
                (medians.iter().filter(|&&m| m < interval.low).count(), "below"),
                (medians.iter().filter(|&&m| m > interval.high).count(), "above"),
            ] {
                prop_assert!(outside * 1000 < RESAMPLES * 25, "{} medians are {} the interval", outside, side);
            }
            prop_assert!(medians.iter().filter(|&&m| m <= interval.low).count() * 1000 >= RESAMPLES * 25);
            prop_assert!(medians.iter().filter(|&&m| m >= interval.high).count() * 1000 >= RESAMPLES * 25);
        }
    }

    /// Returns one value per repeat. Their logarithms are normal (Box and Muller's transform) with standard deviation
    /// `sigma`.
    fn noisy(repeats: usize, sigma: f64, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut normal = || (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt() * (TAU * random.random::<f64>()).cos();
        (0..repeats).map(|_| (sigma * normal()).exp()).collect()
    }

    /// Returns the share of cases in which the intervals of a ratio and of an estimate cover the truth, 1.
    fn simulated_coverage(repeats: usize, cases: u64) -> (f64, f64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(repeats as u64);
        let (mut ratios, mut estimates) = (0, 0);
        for case in 0..cases {
            let (values, base) = (noisy(repeats, 0.05, &mut random), noisy(repeats, 0.05, &mut random));
            ratios += u64::from(!Ratio::of(&values, &base, case).unwrap().differs_from_one());
            let interval = Estimate::of(&values, case).unwrap().interval.unwrap();
            estimates += u64::from(interval.low <= 1.0 && 1.0 <= interval.high);
        }
        (ratios as f64 / cases as f64, estimates as f64 / cases as f64)
    }

    /// Simulates fewer cases than the table is based on, to be quick.
    #[cfg_attr(miri, ignore = "thousands of simulated runs")]
    #[test]
    fn coverage_matches_a_simulation() {
        for repeats in 2..=10 {
            let (ratio, estimate) = simulated_coverage(repeats, 200);
            assert!(
                (ratio - coverage(repeats)).abs() < 0.06,
                "{repeats} repeats: {ratio}, expected {}",
                coverage(repeats)
            );
            if repeats <= 5 {
                let derived = 1.0 - 0.5f64.powi(repeats as i32 - 1);
                assert!((estimate - derived).abs() < 0.06, "{repeats} repeats: {estimate}, expected {derived}");
            }
        }
        assert_eq!((coverage(0), coverage(1), coverage(1_000)), (0.0, 0.0, coverage(10)));
    }

    #[test]
    fn estimate_is_the_median() {
        assert_eq!(Estimate::of(&[], 1), None);
        assert_eq!(Estimate::of(&[7.0], 1), Some(Estimate { value: 7.0, interval: None }));
        // With few values, the interval extends from the lowest to the highest.
        let three = Estimate { value: 2.0, interval: Some(Interval { low: 1.0, high: 4.0 }) };
        assert_eq!(Estimate::of(&[4.0, 1.0, 2.0], 1), Some(three));
    }

    #[test]
    fn few_repeats_have_a_lower_coverage() {
        let shown: Vec<f64> = [1, 2, 3, 5, 6, 100].into_iter().map(estimate_coverage).collect();
        assert_eq!(shown, [0.0, 0.5, 0.75, 0.9375, 0.95, 0.95]);
    }

    #[test]
    fn median_of_an_even_number_is_halfway() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn equal_repeats_are_practically_one() {
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
