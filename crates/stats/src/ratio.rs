//! Ratios of two figures, with an interval and a p value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{ALPHA, Block, Estimate, Mean, Spread, heats, logs, usable};
use crate::interval::Interval;

/// The method of intervals in reports.
pub const METHOD: &str =
    "95 % Student t interval of the logarithms over repeats, or over paired blocks of interleaved trials";

/// The method of intervals between runs.
pub const METHOD_UNPAIRED: &str = "95 % t interval of the logarithms over repeats (Welch)";

/// Ratio of one figure to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// Its 95 % interval; `None` with fewer than three common blocks, or fewer than three repeats of either figure.
    pub interval: Option<Interval>,
    /// The probability of a ratio at least as far from 1 if the figures are equal: a two-sided t test.
    pub p_value: Option<f64>,
    /// The p value with the correction for all ratios of a family; see [`crate::family`].
    pub p_family: Option<f64>,
}

impl Ratio {
    /// The ratio of a figure to itself.
    pub const ONE: Self = Self { ratio: 1.0, interval: None, p_value: None, p_family: None };

    /// Compares the blocks of a figure with those of a base. Uses only blocks that both have, if there are any. Returns `None`
    /// if either has no positive value.
    pub fn of(blocks: &[Block], base: &[Block]) -> Option<Self> {
        Some(log_ratio(blocks, base)?.into())
    }

    /// Compares figures of different runs, whose heats have nothing in common but their numbers.
    pub fn unpaired(blocks: &[Block], base: &[Block]) -> Option<Self> {
        Some(welch(&logs(blocks), &logs(base))?.into())
    }

    /// Returns the ratio of the base to the figure.
    #[must_use]
    pub fn inverse(self) -> Self {
        let interval = self.interval.map(|it| Interval { low: 1.0 / it.high, high: 1.0 / it.low });
        Self { ratio: 1.0 / self.ratio, interval, ..self }
    }

    /// Tests whether the whole interval is within `margin` of 1, so that any difference is negligible.
    pub fn is_practically_one(&self, margin: f64) -> bool {
        self.interval.is_some_and(|interval| interval.low >= 1.0 - margin && interval.high <= 1.0 + margin)
    }

    /// Tests whether the ratio differs significantly from 1, with the correction for its family.
    pub fn differs_from_one(&self) -> bool {
        self.p_family.is_some_and(|p| p <= ALPHA)
    }
}

impl From<Mean> for Ratio {
    fn from(log: Mean) -> Self {
        let p_value = log.p_value(0.0);
        let interval = log.interval(ALPHA).map(Interval::exp);
        Self { ratio: log.value.exp(), interval, p_value, p_family: p_value }
    }
}

/// Converts the blocks of one heat to the times of another heat, by a reference that ran in both: multiplies each block by the
/// reference's block of the other heat, and divides it by the reference's own block.
///
/// Ratios of converted blocks to blocks of the other heat contain the noise of both heats, so their intervals are wider. Ratios
/// within a heat do not change.
pub fn linked(blocks: &[Block], reference: &[Block], other: &[Block]) -> Vec<Block> {
    let of = |blocks: &[Block], number: u32| blocks.iter().find(|it| it.number == number && it.value > 0.0).copied();
    let convert = |block: &Block| {
        let (reference, other) = (of(reference, block.number)?, of(other, block.number)?);
        Some(Block { value: block.value * other.value / reference.value, ..other })
    };
    blocks.iter().filter_map(convert).collect()
}

/// Returns the mean difference between two figures, in their unit, with a 95 % interval. Uses only blocks that both have, if there
/// are any. Returns `None` if either has no positive value.
///
/// A host may delay all requests for some seconds. The ratio of two servers then moves towards 1. A delay that is equal for both
/// leaves their difference as it is.
pub fn added(blocks: &[Block], base: &[Block]) -> Option<Estimate> {
    let mean = compared(&usable(blocks), &usable(base))?;
    Some(Estimate { value: mean.value, interval: mean.interval(ALPHA) })
}

/// Returns the logarithm of the ratio of two figures.
pub(crate) fn log_ratio(blocks: &[Block], base: &[Block]) -> Option<Mean> {
    compared(&logs(blocks), &logs(base))
}

/// Subtracts the values of a base, in the order of their keys: block by block if both have common blocks, or else as repeats.
fn compared(values: &[Block], base: &[Block]) -> Option<Mean> {
    let difference = |block: &Block| {
        let at = base.binary_search_by_key(&block.key(), Block::key).ok()?;
        Some(Block { value: block.value - base[at].value, ..*block })
    };
    let paired: Vec<Block> = values.iter().filter_map(difference).collect();
    if paired.is_empty() { welch(values, base) } else { Mean::of(&paired) }
}

/// Compares repeats of different times.
fn welch(blocks: &[Block], base: &[Block]) -> Option<Mean> {
    Some(difference(Mean::of(&heats(blocks))?, Mean::of(&heats(base))?))
}

/// Subtracts means, which may differ in their variance (Welch 1947).
fn difference(mean: Mean, base: Mean) -> Mean {
    let spread = mean.spread.zip(base.spread).map(|(a, b)| {
        let (va, vb) = (a.error.powi(2), b.error.powi(2));
        let freedom = (va + vb).powi(2) / (va.powi(2) / a.freedom + vb.powi(2) / b.freedom);
        // Without any variance, the quotient is not a number.
        let freedom = if freedom.is_nan() { a.freedom.min(b.freedom) } else { freedom };
        Spread { error: (va + vb).sqrt(), freedom }
    });
    Mean { value: mean.value - base.value, spread }
}

/// Returns the ratio of the highest of `figures` to the highest of `others`, with a joint interval.
///
/// The highest of several estimates is too high by chance. The lower end is therefore the highest, over all figures, of the
/// lowest lower end of the ratios to the others. It is too high only if a lower end of a ratio to the true highest of the others
/// is, so all figures divide the error (Bonferroni). The same holds for the upper end with the sides exchanged. The interval is
/// `None` if a figure has fewer than three repeats. The p values are always `None`.
pub fn ratio_of_peaks(figures: &[Vec<Block>], others: &[Vec<Block>]) -> Option<Ratio> {
    let means =
        |of: &[Vec<Block>]| -> Vec<Mean> { of.iter().filter_map(|blocks| Mean::of(&heats(&logs(blocks)))).collect() };
    let (figures, others) = (means(figures), means(others));
    let highest = |of: &[Mean]| of.iter().map(|it| it.value).max_by(f64::total_cmp);
    let value = highest(&figures)? - highest(&others)?;
    let low = |of: &[Mean], to: &[Mean]| -> Option<f64> {
        let low = |one: Mean, other: Mean| Some(difference(one, other).interval(ALPHA / of.len() as f64)?.low);
        let lowest = |one: &Mean| {
            let lows: Option<Vec<f64>> = to.iter().map(|&other| low(*one, other)).collect();
            lows?.into_iter().min_by(f64::total_cmp)
        };
        of.iter().map(lowest).collect::<Option<Vec<f64>>>()?.into_iter().max_by(f64::total_cmp)
    };
    let ends = low(&figures, &others).zip(low(&others, &figures));
    let interval = ends.map(|(low, inverse)| Interval { low, high: -inverse }.exp());
    Some(Ratio { ratio: value.exp(), interval, p_value: None, p_family: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::Estimate;

    #[test]
    fn delay_of_the_host_changes_ratios_but_not_added_time() {
        let host = [0.0, 0.0, 30.0, 30.0, 0.0, 30.0];
        let of = |own: f64| heat(&host.map(|delay| own + delay));
        let added = added(&of(100.0), &of(20.0)).unwrap();
        let interval = added.interval.unwrap();
        assert!((added.value - 80.0).abs() < 1e-9 && interval.high - interval.low < 1e-9, "{added:?}");
        let ratio = Ratio::of(&of(100.0), &of(20.0)).unwrap().interval.unwrap();
        assert!(ratio.high - ratio.low > 1.0, "{ratio:?}");
        let apart = super::added(&repeats(0, &[100.0, 101.0, 99.0]), &repeats(9, &[20.0, 21.0, 19.0])).unwrap();
        assert!((apart.value - 80.0).abs() < 1e-9 && apart.interval.unwrap().low > 77.0, "{apart:?}");
        assert_eq!(super::added(&of(1.0), &[]), None);
    }

    fn repeats(first: u32, values: &[f64]) -> Vec<Block> {
        (first..).zip(values).map(|(heat, &value)| Block { heat, number: 0, value }).collect()
    }

    fn heat(values: &[f64]) -> Vec<Block> {
        (0..).zip(values).map(|(number, &value)| Block { heat: 0, number, value }).collect()
    }

    #[test]
    fn separate_repeats_are_compared_by_welch() {
        // Welch's t of the logarithms [0, 1, 2] and [1, 3, 5, 7]: t = -3 / sqrt(1/3 + 5/3) = -2.1213, 4.0755 degrees of freedom.
        let of = |logs: &[f64]| logs.iter().map(|log| f64::exp(*log)).collect::<Vec<_>>();
        let ratio = Ratio::of(&repeats(0, &of(&[0.0, 1.0, 2.0])), &repeats(3, &of(&[1.0, 3.0, 5.0, 7.0]))).unwrap();
        assert!((ratio.ratio.ln() + 3.0).abs() < 1e-12);
        assert!((ratio.p_value.unwrap() - 0.0996).abs() < 2e-3, "{ratio:?}");
        assert_eq!(ratio.p_value, ratio.p_family);
    }

    #[test]
    fn shared_drift_cancels_out_of_paired_blocks() {
        let drift: Vec<f64> = (0..32).map(|at| 50.0 + f64::from(at * 7 % 32)).collect();
        let slower: Vec<f64> =
            (0..).zip(&drift).map(|(at, value)| value * (1.02 + 0.001 * f64::from(at % 3))).collect();
        let ratio = Ratio::of(&heat(&slower), &heat(&drift)).unwrap();
        let interval = ratio.interval.unwrap();
        assert!(interval.low > 1.0195 && interval.high < 1.0225 && ratio.differs_from_one(), "{ratio:?}");
        assert!(ratio.is_practically_one(0.05) && !ratio.is_practically_one(0.01));
        // Blocks that only one has are left out.
        let mut longer = heat(&slower);
        longer.push(Block { heat: 1, number: 0, value: 1e9 });
        assert_eq!(Ratio::of(&longer, &heat(&drift)), Some(ratio));
        let unpaired = Ratio::unpaired(&heat(&slower), &heat(&drift)).unwrap();
        assert!(unpaired.interval.is_none(), "one repeat each");
    }

    #[test]
    fn two_repeats_decide_nothing() {
        let ratio = Ratio::of(&repeats(0, &[1.0, 1.01]), &repeats(9, &[5.0, 5.01, 5.02])).unwrap();
        assert_eq!((ratio.interval, ratio.p_value, ratio.differs_from_one()), (None, None, false));
        assert!(Ratio::of(&heat(&[1.0, 1.0]), &heat(&[2.0, 2.0])).unwrap().interval.is_none());
        assert_eq!(Ratio::of(&repeats(0, &[1.0]), &[]), None);
        assert_eq!(Ratio::of(&repeats(0, &[1.0]), &repeats(1, &[0.0])), None);
    }

    #[test]
    fn equal_figures_are_equal_for_certain() {
        let same = Ratio::of(&repeats(0, &[7.0; 3]), &repeats(3, &[7.0; 3])).unwrap();
        assert_eq!((same.interval, same.p_value), (Some(Interval { low: 1.0, high: 1.0 }), Some(1.0)));
        let differ = Ratio::of(&repeats(0, &[14.0; 3]), &repeats(3, &[7.0; 3])).unwrap();
        assert_eq!(differ.p_value, Some(0.0));
    }

    #[test]
    fn one_peak_is_a_ratio_and_more_are_wider() {
        let near = |value: f64| vec![value, value * 1.02, value * 0.98, value * 1.01];
        let [a, b, c] = [(0, 10.0), (10, 20.0), (20, 19.9)].map(|(first, value)| repeats(first, &near(value)));
        let one = ratio_of_peaks(std::slice::from_ref(&b), std::slice::from_ref(&a)).unwrap();
        let more = ratio_of_peaks(&[b.clone(), c], std::slice::from_ref(&a)).unwrap();
        assert!((one.ratio - Ratio::of(&b, &a).unwrap().ratio).abs() < 1e-9 && one.ratio == more.ratio);
        let (one, more) = (one.interval.unwrap(), more.interval.unwrap());
        assert!(more.low < one.low && one.low > 1.9 && 2.0 < one.high && one.high <= more.high, "{one:?}, {more:?}");
        let few = ratio_of_peaks(&[b, repeats(40, &[1.0, 1.0])], &[a]).unwrap();
        assert_eq!(few.interval, None, "two repeats of one figure decide nothing");
        assert_eq!(ratio_of_peaks(&[], &[vec![]]), None);
    }

    #[test]
    fn linked_blocks_do_not_contain_the_speed_of_their_heat() {
        // Two heats with a reference, whose speeds drift apart; the noise of each server is independent.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut server = |heat: u32, value: f64| -> Vec<Block> {
            let drift = |number: u32| if heat == 0 { 1.0 } else { 3.0 + f64::from(number) / 8.0 };
            let mut noise = || 1.0 + 0.02 * (random.random::<f64>() - 0.5);
            let block = |number: u32| Block { heat, number, value: value * drift(number) * noise() };
            (0..32).map(block).collect()
        };
        let [reference, one] = [100.0, 110.0].map(|value| server(0, value));
        let [again, other, rival] = [100.0, 121.0, 130.0].map(|value| server(1, value));
        let [other_linked, rival_linked] = [&other, &rival].map(|blocks| linked(blocks, &again, &reference));
        let ratio = |of: &[Block], to: &[Block]| Ratio::of(of, to).unwrap();
        let width = |ratio: Ratio| ratio.interval.map(|it| it.high - it.low).unwrap();
        let across = ratio(&other_linked, &one);
        assert!((across.ratio - 1.1).abs() < 0.01 && width(across) < 0.02, "{across:?}");
        assert!(width(across) > width(ratio(&one, &reference)), "two more series of noise");
        let (within, converted) = (ratio(&rival, &other), ratio(&rival_linked, &other_linked));
        assert!(
            (within.ratio / converted.ratio - 1.0).abs() < 1e-9
                && (width(within) / width(converted) - 1.0).abs() < 1e-6
        );
        assert!((ratio(&other_linked, &reference).ratio / ratio(&other, &again).ratio - 1.0).abs() < 1e-9);
        assert!(ratio(&other, &one).interval.is_none(), "without the reference the heats are one repeat each");
        assert_eq!(linked(&other, &again[..4], &reference[2..]).len(), 2, "blocks that both references have");
    }

    proptest! {
        #[test]
        fn ratio_is_that_of_the_estimates(
            a in prop::collection::vec(1.0f64..1e6, 3..40), b in prop::collection::vec(1.0f64..1e6, 3..40),
        ) {
            let shared = a.len().min(b.len());
            for (a, b) in [(heat(&a[..shared]), heat(&b[..shared])), (repeats(0, &a), repeats(100, &b))] {
                let ratio = Ratio::of(&a, &b).unwrap();
                let of = |blocks: &[Block]| Estimate::of(blocks).unwrap().value;
                prop_assert!((ratio.ratio / (of(&a) / of(&b)) - 1.0).abs() < 1e-9);
                let interval = ratio.interval.unwrap();
                prop_assert!(interval.low <= ratio.ratio && ratio.ratio <= interval.high);
                let excludes = interval.low > 1.0 || interval.high < 1.0;
                prop_assert!(excludes == ratio.differs_from_one() || (ratio.p_value.unwrap() - ALPHA).abs() < 1e-6);
                let inverse = Ratio::of(&b, &a).unwrap();
                prop_assert!((inverse.inverse().ratio / ratio.ratio - 1.0).abs() < 1e-9);
                prop_assert!((inverse.inverse().interval.unwrap().high / interval.high - 1.0).abs() < 1e-9);
            }
        }
    }
}
