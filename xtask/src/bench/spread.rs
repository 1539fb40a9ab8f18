//! A figure of several rounds, and what it has to reach.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many figures have missed what they are to reach.
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// How many have.
pub(super) fn missed() -> usize {
    MISSED.load(Relaxed)
}

/// The median of several, and the least and the most.
pub(super) struct Spread {
    values: Vec<f64>,
}

/// What a median has to reach.
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

    /// It beside what is to be within its spread. A miss is remembered likewise.
    pub(super) fn to_reach_within(&self, value: f64) -> String {
        let reaches =
            self.values.first().zip(self.values.last()).is_some_and(|(low, high)| (*low..=*high).contains(&value));
        MISSED.fetch_add(usize::from(!reaches), Relaxed);
        format!("{self}  to reach: {value} within the spread{}", if reaches { "" } else { ", MISSED" })
    }

    /// It beside its bound. A miss is remembered: the bench ends with an error then.
    pub(super) fn to_reach(&self, bound: Bound) -> String {
        let reaches = bound.is_reached(self.median());
        MISSED.fetch_add(usize::from(!reaches), Relaxed);
        format!("{self}  to reach: {bound}{}", if reaches { "" } else { ", MISSED" })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.values.first().zip(self.values.last());
        let (least, most) = ends.unwrap_or((&f64::NAN, &f64::NAN));
        // Of a ratio as much as is sure, of hundreds and thousands no more.
        let digits = if most.abs() >= 100.0 { 0 } else { 3 };
        write!(f, "{:.digits$} ({least:.digits$} to {most:.digits$})", self.median())
    }
}

impl Bound {
    fn is_reached(self, value: f64) -> bool {
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
    fn a_median_that_misses_is_told_and_remembered() {
        let spread = Spread::of(vec![1.3, 0.9, 1.0]);
        assert_eq!(spread.to_reach(Bound::AtLeast(1.0)), "1.000 (0.900 to 1.300)  to reach: at least 1");
        assert_eq!(missed(), 0);
        assert!(spread.to_reach(Bound::AtMost(0.5)).ends_with("at most 0.5, MISSED"));
        assert!(Spread::of(Vec::new()).to_reach(Bound::AtLeast(0.0)).contains("MISSED"), "nothing reaches nothing");
        assert_eq!(spread.to_reach_within(1.0), "1.000 (0.900 to 1.300)  to reach: 1 within the spread");
        assert!(spread.to_reach_within(1.4).ends_with("MISSED"));
        assert_eq!(missed(), 3);
    }
}
