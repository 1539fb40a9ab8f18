//! Repeats, the independent values of a figure, and their mean on a logarithmic scale.
//!
//! The unit of every interval is the repeat: a new start of the servers at another time. The state of a host (the cost of its system
//! calls, its wake-ups, the memory layout of a start) stays the same within a repeat, so parts of one repeat say nothing about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::significance::{student_t_critical, student_t_two_sided};

/// The probability that an interval misses the true value.
pub const ALPHA: f64 = 0.05;
/// The probability that the true value is beyond one side of an interval.
pub const ALPHA_OF_SIDE: f64 = ALPHA / 2.0;
/// The fewest repeats for an interval. With two, nothing is decided.
pub const REPEATS_MIN: usize = 3;

/// What one repeat contributes to a figure.
///
/// Contestants that share a heat were measured at the same time and are compared heat by heat. Separate trials have different heats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// The heat.
    pub heat: u32,
    /// The contribution in the figure's unit. The mean over all repeats is the figure.
    pub value: f64,
    /// The contribution to the figure's logarithm. The mean over all repeats is the logarithm of the figure.
    pub log: f64,
    /// The figure of this repeat alone.
    pub own: f64,
}

impl Repeat {
    /// A repeat with a value of its own. The figure is then the geometric mean of these values.
    pub fn new(heat: u32, value: f64) -> Self {
        Self { heat, value, log: value.ln(), own: value }
    }
}

/// Some of the heats of a figure, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heats {
    /// All of them.
    All,
    /// All but one.
    Without(usize),
    /// One of them.
    Only(usize),
}

impl Heats {
    /// Returns whether the heat at a position is one of them.
    pub fn contains(self, at: usize) -> bool {
        match self {
            Self::All => true,
            Self::Without(other) => at != other,
            Self::Only(one) => at == one,
        }
    }
}

/// Returns the contributions of heats to a figure of their merged data, such as a quantile of all their requests: the pseudo-values
/// of the jackknife (Tukey 1958), shifted so that their mean is the figure itself. `figure` returns the figure of some heats. Returns
/// nothing unless all figures are positive.
pub fn jackknife(heats: &[u32], figure: impl Fn(Heats) -> f64) -> Vec<Repeat> {
    let all = figure(Heats::All);
    let is_known = |it: &f64| *it > 0.0 && it.is_finite();
    if heats.len() < 2 {
        return heats.iter().filter(|_| is_known(&all)).map(|&heat| Repeat::new(heat, all)).collect();
    }
    let others: Vec<f64> = (0..heats.len()).map(|at| figure(Heats::Without(at))).collect();
    if !others.iter().chain([&all]).all(is_known) {
        return Vec::new();
    }
    let less_one = heats.len() as f64 - 1.0;
    let mean = |of: fn(f64) -> f64| others.iter().map(|&it| of(it)).sum::<f64>() / heats.len() as f64;
    let (mean_value, mean_log) = (mean(|it| it), mean(f64::ln));
    let repeat = |(at, (&heat, other)): (usize, (&u32, &f64))| Repeat {
        heat,
        value: all + less_one * (mean_value - other),
        log: all.ln() + less_one * (mean_log - other.ln()),
        own: figure(Heats::Only(at)),
    };
    heats.iter().zip(&others).enumerate().map(repeat).collect()
}

/// Returns the repeats with a known logarithm, in the order of their heats.
pub(crate) fn usable(repeats: &[Repeat]) -> Vec<Repeat> {
    let mut usable: Vec<Repeat> = repeats.iter().filter(|it| it.log.is_finite()).copied().collect();
    usable.sort_unstable_by_key(|it| it.heat);
    usable
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
    /// Returns the mean of independent values; `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let value = (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)?;
        let squares: f64 = values.iter().map(|it| (it - value).powi(2)).sum();
        let spread = || Spread { error: (squares / (count - 1.0) / count).sqrt(), freedom: count - 1.0 };
        Some(Self { value, spread: (values.len() >= REPEATS_MIN).then(spread) })
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

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The figure. A difference of figures may be negative.
    pub value: f64,
    /// Its 95 % interval; `None` with fewer than three repeats.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Returns a difference in the other direction.
    pub fn reversed(self) -> Self {
        let interval = self.interval.map(|it| Interval { low: -it.high, high: -it.low });
        Self { value: -self.value, interval }
    }

    /// Estimates a figure from its repeats; `None` without a positive value.
    pub fn of(repeats: &[Repeat]) -> Option<Self> {
        let usable = usable(repeats);
        // Relative to the first value, so that equal repeats give this value exactly.
        let unit = usable.first()?;
        let mean = Mean::of(&usable.iter().map(|it| it.log - unit.log).collect::<Vec<_>>())?;
        let scale = unit.log.exp();
        let interval = mean.interval(ALPHA).map(Interval::exp);
        let interval = interval.map(|it| Interval { low: it.low * scale, high: it.high * scale });
        Some(Self { value: mean.value.exp() * scale, interval })
    }

    /// Estimates a difference, which may be negative, from independent values; `None` without values.
    pub fn arithmetic(values: &[f64]) -> Option<Self> {
        let mean = Mean::of(values)?;
        Some(Self { value: mean.value, interval: mean.interval(ALPHA) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::Histogram;

    fn repeats(values: &[f64]) -> Vec<Repeat> {
        (0..).zip(values).map(|(heat, &value)| Repeat::new(heat, value)).collect()
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
    fn two_repeats_have_no_interval() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&repeats(&[0.0, f64::NAN])), None);
        let two = Estimate::of(&repeats(&[2.0, 8.0])).unwrap();
        assert!((two.value - 4.0).abs() < 1e-12 && two.interval.is_none());
        assert!(Estimate::of(&repeats(&[2.0, 8.0, 0.0])).unwrap().interval.is_none(), "0 has no logarithm");
    }

    #[test]
    fn equal_repeats_have_a_point_as_interval() {
        let Interval { low, high } = Estimate::of(&repeats(&[2.0; 4])).unwrap().interval.unwrap();
        assert_eq!([low, high], [2.0, 2.0]);
    }

    /// Returns the contributions to a quantile of the merged requests of some heats.
    fn of_merged(heats: &[Histogram], q: f64) -> Vec<Repeat> {
        let figure = |of: Heats| {
            let mut merged = Histogram::new();
            heats.iter().enumerate().filter(|(at, _)| of.contains(*at)).for_each(|(_, heat)| merged.merge(heat));
            merged.quantile(q) as f64
        };
        jackknife(&(0..heats.len() as u32).collect::<Vec<_>>(), figure)
    }

    #[test]
    fn figure_is_the_quantile_of_the_merged_requests() {
        // In one heat of three, 4 % of the requests wait for a stall. The mean of the heats' p99 would be 40 µs.
        let quick = || [vec![10_000; 97], vec![20_000; 3]].concat();
        let heats = [quick(), quick(), [vec![10_000; 96], vec![160_000; 4]].concat()];
        let histograms: Vec<Histogram> = heats.iter().map(|heat| heat.iter().copied().collect()).collect();
        let all: Histogram = heats.concat().into_iter().collect();
        let estimate = Estimate::of(&of_merged(&histograms, 0.99)).unwrap();
        assert!((estimate.value / all.quantile(0.99) as f64 - 1.0).abs() < 1e-9, "{estimate:?}");
        assert!((estimate.value / 160_000.0 - 1.0).abs() < 1e-3 && estimate.interval.unwrap().low < 20_000.0);
    }

    #[test]
    fn intervals_of_merged_quantiles_cover_the_truth() {
        // Eight heats of 200 exponential requests. The speed of each heat varies by 5 %.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        let cases = 400;
        for (q, truth) in [(0.5, 2f64.ln()), (0.9, 10f64.ln())] {
            let mut covered = 0;
            for _ in 0..cases {
                let mut heat = || -> Histogram {
                    let speed = (0.05 * (random.random::<f64>() - 0.5) * 12f64.sqrt()).exp();
                    (0..200).map(|_| (-speed * 1e6 * (1.0 - random.random::<f64>()).ln()) as u64).collect()
                };
                let heats: Vec<Histogram> = (0..8).map(|_| heat()).collect();
                let interval = Estimate::of(&of_merged(&heats, q)).unwrap().interval.unwrap();
                covered += u32::from(interval.low <= truth * 1e6 && truth * 1e6 <= interval.high);
            }
            let share = f64::from(covered) / f64::from(cases);
            assert!((0.915..0.985).contains(&share), "q {q}: {share}");
        }
    }

    proptest! {
        #[test]
        fn jackknife_of_a_mean_returns_the_values(values in prop::collection::vec(1.0f64..9.0, 2..12)) {
            let figure = |of: Heats| {
                let kept = values.iter().enumerate().filter(|(at, _)| of.contains(*at));
                let kept: Vec<f64> = kept.map(|(_, value)| *value).collect();
                kept.iter().sum::<f64>() / kept.len() as f64
            };
            let heats: Vec<u32> = (0..values.len() as u32).collect();
            let found = jackknife(&heats, figure);
            for (repeat, value) in found.iter().zip(&values) {
                prop_assert!((repeat.value - value).abs() < 1e-9 && repeat.own == *value);
            }
            let mean_log = found.iter().map(|it| it.log).sum::<f64>() / values.len() as f64;
            prop_assert!((mean_log - figure(Heats::All).ln()).abs() < 1e-9);
            let of_zero = jackknife(&heats, |of| if of == Heats::Without(1) { 0.0 } else { 1.0 });
            prop_assert!(of_zero.is_empty());
        }

        #[test]
        fn order_of_repeats_does_not_matter(values in prop::collection::vec(1.0f64..9.0, 4..40)) {
            let repeats = repeats(&values);
            let reversed: Vec<Repeat> = repeats.iter().rev().copied().collect();
            let [a, b] = [repeats, reversed].map(|it| Estimate::of(&it).unwrap().interval.unwrap());
            prop_assert!((a.low / b.low - 1.0).abs() < 1e-9 && (a.high / b.high - 1.0).abs() < 1e-9);
        }
    }
}
