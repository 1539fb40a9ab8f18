//! Ratios of two figures, with an interval and a p value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::repeats::{ALPHA, Estimate, Mean, Repeat, Spread, usable};

/// The method of intervals in reports.
pub const METHOD: &str =
    "95 % Student t interval of the logarithms over repeats, which are paired if the servers took turns";

/// The method of intervals between runs.
pub const METHOD_UNPAIRED: &str = "95 % t interval of the logarithms over repeats (Welch)";

/// Ratio of one figure to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The ratio of the figures.
    pub ratio: f64,
    /// Its 95 % interval; `None` with fewer than three common heats, or fewer than three repeats of either figure.
    pub interval: Option<Interval>,
    /// The lowest and the highest ratio in a single heat; `None` with fewer than two common heats.
    pub range: Option<Interval>,
    /// The probability of a ratio at least as far from 1 if the figures are equal: a two-sided t test.
    pub p_value: Option<f64>,
    /// The p value with the correction for all ratios of a family; see [`crate::family`].
    pub p_family: Option<f64>,
}

impl Ratio {
    /// The ratio of a figure to itself.
    pub const ONE: Self = Self { ratio: 1.0, interval: None, range: None, p_value: None, p_family: None };

    /// Compares a figure with a base, by the heats that both have, if there are any. Returns `None` if either has no positive value.
    pub fn of(figure: &[Repeat], base: &[Repeat]) -> Option<Self> {
        let (figure, base) = (usable(figure), usable(base));
        let owns = paired(&figure, &base, |one, other| one.own / other.own);
        let range = (owns.len() > 1).then(|| Interval {
            low: owns.iter().copied().fold(f64::INFINITY, f64::min),
            high: owns.iter().copied().fold(0.0, f64::max),
        });
        Some(Self { range, ..compared(&figure, &base, |it| it.log)?.into() })
    }

    /// Compares figures of different runs, whose heats have nothing in common but their numbers.
    pub fn unpaired(figure: &[Repeat], base: &[Repeat]) -> Option<Self> {
        Some(welch(&usable(figure), &usable(base), |it| it.log)?.into())
    }

    /// Returns the ratio of the base to the figure.
    #[must_use]
    pub fn inverse(self) -> Self {
        let inverse = |it: Interval| Interval { low: 1.0 / it.high, high: 1.0 / it.low };
        let [interval, range] = [self.interval, self.range].map(|it| it.map(inverse));
        Self { ratio: 1.0 / self.ratio, interval, range, ..self }
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
        Self { ratio: log.value.exp(), interval, range: None, p_value, p_family: p_value }
    }
}

/// Converts a repeat to the speed of another heat, by a reference that ran in both: multiplies it by the reference's figure in the
/// other heat, and divides it by the reference's figure in its own heat.
///
/// Ratios of converted repeats to repeats of the other heat contain the noise of both heats, so their intervals are wider. Ratios
/// within a heat do not change.
pub fn linked(repeat: Repeat, reference: Repeat, other: Repeat) -> Repeat {
    let log = other.log - reference.log;
    Repeat {
        heat: other.heat,
        value: repeat.value * log.exp(),
        log: repeat.log + log,
        own: repeat.own * other.own / reference.own,
    }
}

/// Returns the time that a figure adds to a base, in their unit, with a 95 % interval. Compares the heats that both have, if there are
/// any. Returns `None` if either has no positive value.
///
/// Costs add, so an added time carries to another state of the host, and to another host of about the same speed. A ratio does not:
/// if the host delays all requests for some seconds, it moves towards 1.
pub fn added(figure: &[Repeat], base: &[Repeat]) -> Option<Estimate> {
    let mean = compared(&usable(figure), &usable(base), |it| it.value)?;
    Some(Estimate { value: mean.value, interval: mean.interval(ALPHA) })
}

/// Returns the logarithm of the ratio of two figures.
pub(crate) fn log_ratio(figure: &[Repeat], base: &[Repeat]) -> Option<Mean> {
    compared(&usable(figure), &usable(base), |it| it.log)
}

/// Compares the repeats of common heats, which are in order.
fn paired(figure: &[Repeat], base: &[Repeat], compare: impl Fn(&Repeat, &Repeat) -> f64) -> Vec<f64> {
    let pair = |one: &Repeat| {
        let at = base.binary_search_by_key(&one.heat, |it| it.heat).ok()?;
        Some(compare(one, &base[at]))
    };
    figure.iter().filter_map(pair).collect()
}

/// Subtracts a base: heat by heat if both have common heats, or else as independent repeats.
fn compared(figure: &[Repeat], base: &[Repeat], value: fn(&Repeat) -> f64) -> Option<Mean> {
    let differences = paired(figure, base, |one, other| value(one) - value(other));
    if differences.is_empty() { welch(figure, base, value) } else { Mean::of(&differences) }
}

/// Compares repeats of different times.
fn welch(figure: &[Repeat], base: &[Repeat], value: fn(&Repeat) -> f64) -> Option<Mean> {
    let mean = |of: &[Repeat]| Mean::of(&of.iter().map(value).collect::<Vec<_>>());
    Some(difference(mean(figure)?, mean(base)?))
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
pub fn ratio_of_peaks(figures: &[Vec<Repeat>], others: &[Vec<Repeat>]) -> Option<Ratio> {
    let log = |of: &Vec<Repeat>| Mean::of(&usable(of).iter().map(|it| it.log).collect::<Vec<_>>());
    let means = |of: &[Vec<Repeat>]| -> Vec<Mean> { of.iter().filter_map(log).collect() };
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
    Some(Ratio { ratio: value.exp(), interval, range: None, p_value: None, p_family: None })
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
        let of = |own: f64| repeats(0, &host.map(|delay| own + delay));
        let added = added(&of(100.0), &of(20.0)).unwrap();
        let interval = added.interval.unwrap();
        assert!((added.value - 80.0).abs() < 1e-9 && interval.high - interval.low < 1e-9, "{added:?}");
        let ratio = Ratio::of(&of(100.0), &of(20.0)).unwrap().interval.unwrap();
        assert!(ratio.high - ratio.low > 1.0, "{ratio:?}");
        let apart = super::added(&repeats(0, &[100.0, 101.0, 99.0]), &repeats(9, &[20.0, 21.0, 19.0])).unwrap();
        assert!((apart.value - 80.0).abs() < 1e-9 && apart.interval.unwrap().low > 77.0, "{apart:?}");
        assert_eq!(super::added(&of(1.0), &[]), None);
    }

    fn repeats(first: u32, values: &[f64]) -> Vec<Repeat> {
        (first..).zip(values).map(|(heat, &value)| Repeat::new(heat, value)).collect()
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
    fn shared_speed_of_heats_cancels_out() {
        let drift: Vec<f64> = (0..32).map(|at| 50.0 + f64::from(at * 7 % 32)).collect();
        let slower: Vec<f64> =
            (0..).zip(&drift).map(|(at, value)| value * (1.02 + 0.001 * f64::from(at % 3))).collect();
        let ratio = Ratio::of(&repeats(0, &slower), &repeats(0, &drift)).unwrap();
        let interval = ratio.interval.unwrap();
        assert!(interval.low > 1.0195 && interval.high < 1.0225 && ratio.differs_from_one(), "{ratio:?}");
        assert!(ratio.is_practically_one(0.05) && !ratio.is_practically_one(0.01));
        let range = ratio.range.unwrap();
        assert!((range.low - 1.02).abs() < 1e-9 && (range.high / 1.022 - 1.0).abs() < 1e-4, "{range:?}");
        // Heats that only one has are left out.
        let mut longer = repeats(0, &slower);
        longer.push(Repeat::new(99, 1e9));
        assert_eq!(Ratio::of(&longer, &repeats(0, &drift)), Some(ratio));
        let unpaired = Ratio::unpaired(&repeats(0, &slower), &repeats(0, &drift)).unwrap().interval.unwrap();
        assert!(unpaired.high / unpaired.low > 1.1, "the speeds of runs do not cancel");
    }

    #[test]
    fn two_repeats_decide_nothing() {
        let ratio = Ratio::of(&repeats(0, &[1.0, 1.01]), &repeats(9, &[5.0, 5.01, 5.02])).unwrap();
        assert_eq!((ratio.interval, ratio.p_value, ratio.differs_from_one()), (None, None, false));
        assert!(Ratio::of(&repeats(0, &[1.0, 1.0]), &repeats(0, &[2.0, 2.0])).unwrap().interval.is_none());
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
    fn linked_repeats_do_not_contain_the_speed_of_their_heat() {
        // Two groups with a reference, whose heats have other speeds; the noise of each server is independent.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut server = |group: u32, value: f64| -> Vec<Repeat> {
            let speed = |number: u32| if group == 0 { 1.0 } else { 3.0 + f64::from(number) / 8.0 };
            let mut noise = || 1.0 + 0.02 * (random.random::<f64>() - 0.5);
            (0..32).map(|number| Repeat::new(100 * group + number, value * speed(number) * noise())).collect()
        };
        let [reference, one] = [100.0, 110.0].map(|value| server(0, value));
        let [again, other, rival] = [100.0, 121.0, 130.0].map(|value| server(1, value));
        let converted = |repeats: &[Repeat]| -> Vec<Repeat> {
            (0..).zip(repeats).map(|(at, it): (usize, _)| linked(*it, again[at], reference[at])).collect()
        };
        let [other_linked, rival_linked] = [&other, &rival].map(|repeats| converted(repeats));
        let ratio = |of: &[Repeat], to: &[Repeat]| Ratio::of(of, to).unwrap();
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
    }

    proptest! {
        #[test]
        fn ratio_is_that_of_the_estimates(
            a in prop::collection::vec(1.0f64..1e6, 3..40), b in prop::collection::vec(1.0f64..1e6, 3..40),
        ) {
            let shared = a.len().min(b.len());
            for (a, b) in [(repeats(0, &a[..shared]), repeats(0, &b[..shared])), (repeats(0, &a), repeats(100, &b))] {
                let ratio = Ratio::of(&a, &b).unwrap();
                let of = |repeats: &[Repeat]| Estimate::of(repeats).unwrap().value;
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
