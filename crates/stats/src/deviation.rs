//! Deviation of sends from a perfectly even sequence (kawai2006, Table 5). The sequence starts where it fits the sends best, so
//! a constant delay has no effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::median;

/// Returns the deviation of each send from an even sequence in nanoseconds, in the order of sending; positive is late. For
/// sends t_1 to t_n, in any order, and an interval d, the sequence is t*_i = mean(t) - (n - 1) d / 2 + (i - 1) d. Its mean
/// equals that of the sends, so the mean deviation is 0.
pub fn deviations_ns(sent_ns: &[i64], interval_ns: f64) -> Vec<f64> {
    let mut sorted = sent_ns.to_vec();
    sorted.sort_unstable();
    let Some(&first) = sorted.first() else { return Vec::new() };
    // Compare with the sequence that starts at the first send: a sum of absolute times would lose the microseconds.
    let mut deviations: Vec<f64> =
        sorted.iter().enumerate().map(|(i, &sent)| (sent - first) as f64 - i as f64 * interval_ns).collect();
    let mean = mean(&deviations);
    deviations.iter_mut().for_each(|deviation| *deviation -= mean);
    deviations
}

/// Statistics of send deviations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// Number of sends.
    pub count: u64,
    /// Standard deviation of the deviations in nanoseconds (divisor n).
    pub stddev_ns: f64,
    /// Median in nanoseconds.
    pub median_ns: f64,
    /// Highest deviation in nanoseconds, with its sign as in kawai2006, Table 5.
    pub max_ns: f64,
    /// Lowest deviation in nanoseconds, usually negative.
    pub min_ns: f64,
    /// Share of the sends within 1 µs of the median; kawai2006 claims more than 0.9.
    pub within_1us_of_median: f64,
}

impl Deviation {
    /// Summarises deviations in nanoseconds, in any order; `None` if there are none.
    pub fn of(deviations_ns: &[f64]) -> Option<Self> {
        let median_ns = median(deviations_ns)?;
        let count = deviations_ns.len() as f64;
        let mean = mean(deviations_ns);
        let squares: f64 = deviations_ns.iter().map(|deviation| (deviation - mean).powi(2)).sum();
        let near = deviations_ns.iter().filter(|&deviation| (deviation - median_ns).abs() <= 1_000.0).count();
        Some(Self {
            count: deviations_ns.len() as u64,
            stddev_ns: (squares / count).sqrt(),
            median_ns,
            max_ns: deviations_ns.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            min_ns: deviations_ns.iter().copied().fold(f64::INFINITY, f64::min),
            within_1us_of_median: near as f64 / count,
        })
    }
}

/// Returns points of the cumulative distribution: (deviation in nanoseconds, share of sends up to this deviation). The shares
/// are equally spaced from 0 to 1. Returns no points if there are no deviations, or if `points` is less than 2.
pub fn cdf(deviations_ns: &[f64], points: usize) -> Vec<(f64, f64)> {
    let mut sorted = deviations_ns.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    if sorted.is_empty() || points < 2 {
        return Vec::new();
    }
    let share = |point: usize| point as f64 / (points - 1) as f64;
    (0..points)
        .map(|point| (sorted[(share(point) * (sorted.len() - 1) as f64).round() as usize], share(point)))
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn deviations_match_the_definition(
            sent in prop::collection::vec(0i64..1_000_000_000, 1..200), interval in 1.0f64..1e7,
        ) {
            let mut sorted = sent.clone();
            sorted.sort_unstable();
            let n = sorted.len() as f64;
            let mean = sorted.iter().map(|&t| t as f64).sum::<f64>() / n;
            let deviations = deviations_ns(&sent, interval);
            prop_assert_eq!(deviations.len(), sent.len());
            for (i, deviation) in deviations.iter().enumerate() {
                let even = mean - (n - 1.0) * interval / 2.0 + i as f64 * interval;
                prop_assert!((deviation - (sorted[i] as f64 - even)).abs() < 1e-3);
            }
            prop_assert!((deviations.iter().sum::<f64>() / n).abs() < 1e-3);
        }

        #[test]
        fn start_time_does_not_matter(
            jitter in prop::collection::vec(0i64..5_000, 1..200), start in 0i64..1_000_000_000_000,
        ) {
            let sent: Vec<i64> = jitter.iter().enumerate().map(|(i, jitter)| i as i64 * 20_000 + jitter).collect();
            let later: Vec<i64> = sent.iter().map(|sent| sent + start).collect();
            prop_assert_eq!(deviations_ns(&sent, 20_000.0), deviations_ns(&later, 20_000.0));
        }

        #[test]
        fn statistics_match_the_sorted_values(values in prop::collection::vec(-5_000.0f64..5_000.0, 1..200)) {
            let figures = Deviation::of(&values).unwrap();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let n = sorted.len() as f64;
            prop_assert_eq!(figures.count, sorted.len() as u64);
            prop_assert_eq!((figures.min_ns, figures.max_ns), (sorted[0], sorted[sorted.len() - 1]));
            prop_assert_eq!(figures.median_ns, (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0);
            let mean = sorted.iter().sum::<f64>() / n;
            let variance = sorted.iter().map(|v| v * v).sum::<f64>() / n - mean * mean;
            prop_assert!((figures.stddev_ns.powi(2) - variance).abs() < 1e-3);
            let from = sorted.partition_point(|&v| v - figures.median_ns < -1_000.0);
            let to = sorted.partition_point(|&v| v - figures.median_ns <= 1_000.0);
            prop_assert_eq!(figures.within_1us_of_median, (to - from) as f64 / n);
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn cdf_ascends_from_the_smallest_to_the_largest(
            values in prop::collection::vec(-5_000.0f64..5_000.0, 1..200), points in 2usize..300,
        ) {
            let cdf = cdf(&values, points);
            let figures = Deviation::of(&values).unwrap();
            prop_assert_eq!(cdf.len(), points);
            prop_assert_eq!(cdf[0], (figures.min_ns, 0.0));
            prop_assert_eq!(cdf[points - 1], (figures.max_ns, 1.0));
            prop_assert!(cdf.is_sorted());
            let n = values.len() as f64;
            for (value, share) in cdf {
                // All values differ here, so rounding changes at most one rank.
                let up_to = values.iter().filter(|&&v| v <= value).count() as f64 / n;
                prop_assert!((up_to - share).abs() <= 1.5 / n + 1e-9, "share up to {value}: {share}, counted {up_to}");
            }
        }
    }

    #[test]
    fn late_send_shifts_all_deviations() {
        // Sent at 0, 10, 26, 30 µs; the mean is 16.5, so the even sequence is 1.5, 11.5, 21.5, 31.5.
        let deviations = deviations_ns(&[26_000, 0, 30_000, 10_000], 10_000.0);
        assert_eq!(deviations, [-1_500.0, -1_500.0, 4_500.0, -1_500.0]);
        let figures = Deviation::of(&deviations).unwrap();
        assert_eq!((figures.median_ns, figures.min_ns, figures.max_ns), (-1_500.0, -1_500.0, 4_500.0));
        assert_eq!(figures.within_1us_of_median, 0.75);
        assert!((figures.stddev_ns - 6_750_000.0f64.sqrt()).abs() < 1e-9);
        assert_eq!(cdf(&deviations, 3), [(-1_500.0, 0.0), (-1_500.0, 0.5), (4_500.0, 1.0)]);
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn late_start_and_many_sends_keep_nanosecond_precision() {
        let start = 1_000_000_000_000;
        let count = 1_000_000;
        let sent: Vec<i64> = (0..count).map(|i| start + i * 1_000_000 + i % 2).collect();
        let deviations = deviations_ns(&sent, 1_000_000.0);
        assert!(deviations.iter().enumerate().all(|(i, d)| (d - ((i % 2) as f64 - 0.5)).abs() < 1e-3));
        assert!((deviations.iter().sum::<f64>() / count as f64).abs() < 1e-6);
    }

    #[test]
    fn no_sends_have_no_statistics() {
        assert!(deviations_ns(&[], 1.0).is_empty() && cdf(&[], 10).is_empty() && cdf(&[1.0], 1).is_empty());
        assert_eq!(Deviation::of(&[]), None);
        assert_eq!(deviations_ns(&[7], 1.0), [0.0]);
    }
}
