//! Blocks, the independent or neighbouring values of a figure, and their mean on a logarithmic scale.
//!
//! A figure, such as the p50 or the rate of a server, has one statistic: the geometric mean of its blocks. The ratio of two
//! figures is then the ratio of their statistics, so that tables, ranks and ratios agree, unless some blocks count for one only.

use std::f64::consts::PI;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::significance::{student_t_critical, student_t_two_sided};

/// The probability that an interval misses the true value.
pub const ALPHA: f64 = 0.05;

/// The probability that the true value is beyond one side of an interval.
pub const ALPHA_OF_SIDE: f64 = ALPHA / 2.0;

/// The minimum number of blocks, or of repeats on a side, for an interval. With two, nothing is decided.
pub const BLOCKS_MIN: usize = 3;

/// A value of a figure over a part of a window or over a whole repeat.
///
/// All blocks of a heat are neighbours in time, in the order of their numbers. Contestants that share a heat have blocks of the
/// same time under the same number. Separate trials have different heats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The heat.
    pub heat: u32,
    /// The position within the heat.
    pub number: u32,
    /// The value; estimates leave out values that are not positive.
    pub value: f64,
}

impl Block {
    pub(crate) fn key(&self) -> (u32, u32) {
        (self.heat, self.number)
    }
}

/// Returns the blocks whose values are positive, in the order of their keys.
pub(crate) fn usable(blocks: &[Block]) -> Vec<Block> {
    let usable = blocks.iter().filter(|block| block.value > 0.0 && block.value.is_finite());
    let mut usable: Vec<Block> = usable.copied().collect();
    usable.sort_unstable_by_key(Block::key);
    usable
}

/// Returns the logarithms of the blocks, in the order of their keys.
pub(crate) fn logs(blocks: &[Block]) -> Vec<Block> {
    usable(blocks).into_iter().map(|block| Block { value: block.value.ln(), ..block }).collect()
}

/// Replaces the blocks of each heat by their mean, because blocks of one repeat do not show how repeats differ.
pub(crate) fn heats(logs: &[Block]) -> Vec<Block> {
    let heats = logs.chunk_by(|a, b| a.heat == b.heat);
    heats.map(|heat| Block { number: 0, value: mean(heat), ..heat[0] }).collect()
}

fn mean(blocks: &[Block]) -> f64 {
    blocks.iter().map(|block| block.value).sum::<f64>() / blocks.len() as f64
}

/// A mean with its distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    /// `None` with too few values.
    pub(crate) spread: Option<Spread>,
}

/// The standard error of a mean, and the degrees of freedom of its Student t distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) error: f64,
    pub(crate) freedom: f64,
}

impl Mean {
    /// Returns the mean of blocks in the order of their keys; `None` without blocks. Neighbours in a heat may be correlated.
    pub(crate) fn of(blocks: &[Block]) -> Option<Self> {
        let value = (!blocks.is_empty()).then(|| mean(blocks))?;
        Some(Self { value, spread: (blocks.len() >= BLOCKS_MIN).then(|| spread(blocks, value)) })
    }

    /// Returns the probability of a mean at least as far from `null`, in either direction, if `null` is true.
    pub(crate) fn p_value(self, null: f64) -> Option<f64> {
        let Spread { error, freedom } = self.spread?;
        Some(if self.value == null { 1.0 } else { student_t_two_sided((self.value - null) / error, freedom) })
    }

    /// Returns the interval that misses the true mean with probability `alpha`.
    pub(crate) fn interval(self, alpha: f64) -> Option<Interval> {
        let Spread { error, freedom } = self.spread?;
        let distance = if error > 0.0 { error * student_t_critical(alpha, freedom) } else { 0.0 };
        Some(Interval { low: self.value - distance, high: self.value + distance })
    }
}

/// Returns the spread of a mean, from the lowest frequencies of the series of blocks.
///
/// This is the equal-weighted cosine estimator with a number of cosines that grows as n^(2/3), and t critical values (Müller
/// 2007; Lazarus, Lewis, Stock and Watson 2018). With few blocks, a lag window (Newey and West 1987) gives
/// intervals that are too narrow. The factor 1 + 2 / n corrects for the slope of the spectrum in short series;
/// `examples/error_rates.rs` measures the coverage. With as many cosines as values
/// less one, the estimator is the ordinary variance. It serves independent blocks, one a heat.
fn spread(blocks: &[Block], mean: f64) -> Spread {
    let n = blocks.len() as f64;
    let is_independent = blocks.windows(2).all(|pair| pair[0].heat != pair[1].heat);
    if is_independent {
        let squares: f64 = blocks.iter().map(|block| (block.value - mean).powi(2)).sum();
        return Spread { error: (squares / (n - 1.0) / n).sqrt(), freedom: n - 1.0 };
    }
    let cosines = (0.41 * n.powf(2.0 / 3.0)).round().max(3.0).min(n - 1.0);
    let amplitude = |j: usize| -> f64 {
        let cosine = |t: usize| (PI * j as f64 * (t as f64 + 0.5) / n).cos();
        blocks.iter().enumerate().map(|(t, block)| (block.value - mean) * cosine(t)).sum()
    };
    let power: f64 = (1..=cosines as usize).map(|j| amplitude(j).powi(2)).sum::<f64>() * 2.0 / n / cosines;
    Spread { error: (power * (1.0 + 2.0 / n) / n).sqrt(), freedom: cosines }
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The geometric mean of the blocks; the arithmetic mean if made by [`Estimate::arithmetic`].
    pub value: f64,
    /// Its 95 % interval; `None` with fewer than three blocks.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Estimates a figure from its blocks; `None` without a positive value.
    pub fn of(blocks: &[Block]) -> Option<Self> {
        // Divide by the first value, so that equal blocks give this value exactly.
        let unit = blocks.iter().map(|block| block.value).find(|&value| value > 0.0)?;
        let shares: Vec<Block> = blocks.iter().map(|it| Block { value: it.value / unit, ..*it }).collect();
        let mean = Mean::of(&logs(&shares))?;
        let interval = mean.interval(ALPHA).map(Interval::exp);
        let interval = interval.map(|it| Interval { low: it.low * unit, high: it.high * unit });
        Some(Self { value: mean.value.exp() * unit, interval })
    }

    /// Estimates a difference, which may be negative, from independent values; `None` without values.
    pub fn arithmetic(values: &[f64]) -> Option<Self> {
        let block = |(heat, &value): (u32, &f64)| Block { heat, number: 0, value };
        let mean = Mean::of(&(0..).zip(values).map(block).collect::<Vec<_>>())?;
        Some(Self { value: mean.value, interval: mean.interval(ALPHA) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn repeats(values: &[f64]) -> Vec<Block> {
        (0..).zip(values).map(|(heat, &value)| Block { heat, number: 0, value }).collect()
    }

    fn heat(values: &[f64]) -> Vec<Block> {
        (0..).zip(values).map(|(number, &value)| Block { heat: 0, number, value }).collect()
    }

    #[test]
    fn estimate_of_repeats_is_a_t_interval_of_logs() {
        // The mean of ln is 0, its standard deviation 1; t(0.05, 2) = 4.302653.
        let e = 1f64.exp();
        let estimate = Estimate::of(&repeats(&[1.0 / e, 1.0, e])).unwrap();
        let distance = 4.302_653 / 3f64.sqrt();
        let interval = estimate.interval.unwrap();
        assert!((estimate.value - 1.0).abs() < 1e-12);
        assert!((interval.low.ln() + distance).abs() < 1e-5 && (interval.high.ln() - distance).abs() < 1e-5);
        let difference = Estimate::arithmetic(&[-1.0, 0.0, 1.0]).unwrap();
        assert!((difference.interval.unwrap().high - distance).abs() < 1e-5, "{difference:?}");
    }

    #[test]
    fn two_blocks_have_no_interval() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&repeats(&[0.0, f64::NAN])), None);
        let two = Estimate::of(&heat(&[2.0, 8.0])).unwrap();
        assert!((two.value - 4.0).abs() < 1e-12 && two.interval.is_none());
        assert!(Estimate::of(&repeats(&[2.0, 8.0, 0.0])).unwrap().interval.is_none(), "0 has no logarithm");
    }

    #[test]
    fn equal_blocks_have_a_point_as_interval() {
        for blocks in [repeats(&[2.0; 4]), heat(&[2.0; 4])] {
            let Interval { low, high } = Estimate::of(&blocks).unwrap().interval.unwrap();
            assert_eq!([low, high], [2.0, 2.0]);
        }
    }

    #[test]
    fn drift_within_a_heat_widens_the_interval() {
        let rising: Vec<f64> = (0..32).map(|at| 1.0 + f64::from(at) / 32.0).collect();
        let mixed: Vec<f64> = (0..32).map(|at| rising[at * 13 % 32]).collect();
        let width = |blocks: &[Block]| {
            let interval = Estimate::of(blocks).unwrap().interval.unwrap();
            interval.high / interval.low - 1.0
        };
        assert!(width(&heat(&rising)) > 2.0 * width(&heat(&mixed)));
        assert!((width(&repeats(&rising)) - width(&repeats(&mixed))).abs() < 1e-9, "repeats are independent");
    }

    proptest! {
        #[test]
        fn all_cosines_make_the_ordinary_variance(values in prop::collection::vec(1.0f64..9.0, 4)) {
            // Four blocks use three cosines, all that there are; the factor 1 + 2 / n remains.
            let (a, b) = (heat(&values), repeats(&values));
            let (a, b) = (spread(&a, mean(&a)), spread(&b, mean(&b)));
            prop_assert!((a.error - b.error * 1.5f64.sqrt()).abs() < 1e-9 && a.freedom == b.freedom);
        }

        #[test]
        fn order_of_blocks_does_not_matter(values in prop::collection::vec(1.0f64..9.0, 4..40)) {
            let blocks = heat(&values);
            let reversed: Vec<Block> = blocks.iter().rev().copied().collect();
            let [a, b] = [blocks, reversed].map(|it| Estimate::of(&it).unwrap().interval.unwrap());
            prop_assert!((a.low / b.low - 1.0).abs() < 1e-9 && (a.high / b.high - 1.0).abs() < 1e-9);
        }
    }
}
