//! Medians of several rounds and their limits.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of checks that missed their limits.
static MISSED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn missed() -> usize {
    MISSED.load(Relaxed)
}

/// Values of several rounds, sorted.
pub(super) struct Spread(Vec<f64>);

/// Limit on a median.
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Measures several rounds; returns the spread of each figure.
pub(super) fn rounds<const FIGURES: usize>(
    count: usize,
    mut measure: impl FnMut() -> anyhow::Result<[f64; FIGURES]>,
) -> anyhow::Result<[Spread; FIGURES]> {
    let rounds = (0..count).map(|_| measure()).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(std::array::from_fn(|at| Spread::of(rounds.iter().map(|figures| figures[at]).collect())))
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Returns a share as the only value.
    pub(super) fn share(part: usize, all: usize) -> Self {
        Self::of(vec![part as f64 / all as f64])
    }

    pub(super) fn median(&self) -> f64 {
        stats::interval::median(&self.0).unwrap_or(f64::NAN)
    }

    /// Formats the spread and whether it meets a limit. A miss fails the bench.
    pub(super) fn check(&self, bound: Bound) -> String {
        let (is_met, limit) = match bound {
            Bound::AtLeast(limit) => (self.median() >= limit, format!("at least {limit}")),
            Bound::AtMost(limit) => (self.median() <= limit, format!("at most {limit}")),
        };
        MISSED.fetch_add(usize::from(!is_met), Relaxed);
        format!("{self}  limit: {limit}{}", if is_met { "" } else { ", MISSED" })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lowest, highest] = [self.0.first(), self.0.last()].map(|end| end.copied().unwrap_or(f64::NAN));
        // Print three decimals for ratios, and none for large values.
        let digits = if highest.abs() >= 100.0 { 0 } else { 3 };
        write!(f, "{:.digits$} ({lowest:.digits$} to {highest:.digits$})", self.median())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_beyond_its_limit_is_counted() {
        let spread = Spread::of(vec![1.3, 0.9, 1.0]);
        assert_eq!(spread.check(Bound::AtLeast(1.0)), "1.000 (0.900 to 1.300)  limit: at least 1");
        assert_eq!(missed(), 0);
        assert!(spread.check(Bound::AtMost(0.5)).ends_with("at most 0.5, MISSED"));
        assert!(
            Spread::of(Vec::new()).check(Bound::AtLeast(0.0)).contains("MISSED"),
            "an empty spread misses every limit"
        );
        assert_eq!(missed(), 2);
    }

    #[test]
    fn rounds_give_a_spread_for_each_figure() {
        let mut round = 0.0;
        let measure = || {
            round += 1.0;
            Ok([round, -round])
        };
        let spreads = rounds(3, measure).unwrap().map(|spread| spread.to_string());
        assert_eq!(spreads, ["2.000 (1.000 to 3.000)", "-2.000 (-3.000 to -1.000)"]);
        assert!(rounds::<1>(1, || anyhow::bail!("it failed")).is_err(), "an error ends the measurement");
    }
}
