//! Medians of several rounds and their limits.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of medians beyond their limits.
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of medians beyond their limits.
pub(super) fn missed() -> usize {
    MISSED.load(Relaxed)
}

/// Values of several rounds.
pub(super) struct Spread {
    values: Vec<f64>,
}

/// Limit on a median.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { values }
    }

    pub(super) fn median(&self) -> f64 {
        stats::interval::median(&self.values).unwrap_or(f64::NAN)
    }

    /// Formats the spread and whether it includes a value. A miss fails the bench.
    pub(super) fn check_includes(&self, value: f64) -> String {
        let is_met =
            self.values.first().zip(self.values.last()).is_some_and(|(low, high)| (*low..=*high).contains(&value));
        MISSED.fetch_add(usize::from(!is_met), Relaxed);
        format!("{self}  limit: {value} within the spread{}", if is_met { "" } else { ", MISSED" })
    }

    /// Formats the spread and whether its median is within a limit. A miss fails the bench.
    pub(super) fn check(&self, bound: Bound) -> String {
        let is_met = bound.allows(self.median());
        MISSED.fetch_add(usize::from(!is_met), Relaxed);
        format!("{self}  limit: {bound}{}", if is_met { "" } else { ", MISSED" })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.values.first().zip(self.values.last());
        let (lowest, highest) = ends.unwrap_or((&f64::NAN, &f64::NAN));
        // Print three decimals for ratios, and none for large values.
        let digits = if highest.abs() >= 100.0 { 0 } else { 3 };
        write!(f, "{:.digits$} ({lowest:.digits$} to {highest:.digits$})", self.median())
    }
}

impl Bound {
    fn allows(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "at least {bound}"),
            Self::AtMost(bound) => write!(f, "at most {bound}"),
        }
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
        assert!(Spread::of(Vec::new()).check(Bound::AtLeast(0.0)).contains("MISSED"), "no value is within no limit");
        assert_eq!(spread.check_includes(1.0), "1.000 (0.900 to 1.300)  limit: 1 within the spread");
        assert!(spread.check_includes(1.4).ends_with("MISSED"));
        assert_eq!(missed(), 3);
    }
}
