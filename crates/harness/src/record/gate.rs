//! The gate: how much worse a new build of a server may be than an old one, for each figure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::trial::Trial;
use crate::spec::Candidate;

/// The bytes that a gate adds to the user memory of a connection: a page. From start to start, equal external servers with 400
/// connections of 82 B differed by up to 235 B a connection. Without this addition, that would be a large change.
const MEMORY_FLOOR_BYTES: f64 = 4096.0;

/// The goal of a gate: to know whether each figure is within its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateGoal {
    /// The old build. All other trials, and its placebo, are the new build.
    pub old: Candidate,
    /// The limits, each figure at most once.
    pub limits: Vec<GateLimit>,
    /// The total time, in nanoseconds, within which repeats end. The first repeat always runs.
    pub time_max_ns: u64,
}

impl GateGoal {
    /// Tests whether a trial runs the old build.
    pub fn is_old(&self, trial: &Trial) -> bool {
        trial.architecture == self.old && !trial.is_placebo
    }
}

/// The tolerance of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateLimit {
    /// The figure.
    pub figure: Figure,
    /// The change for the worse that is tolerated, as a share of the old build's value; of errors, as a difference.
    pub tolerance: f64,
    /// Whether the gate needs this figure. Other figures are left out if they cannot be measured.
    pub is_required: bool,
}

impl Figure {
    /// Returns how much worse the new build is: the logarithm of the ratio; of errors, the difference.
    pub fn excess(self, [old, new]: [f64; 2]) -> f64 {
        match self {
            Self::Errors => new - old,
            Self::Rate => (old / new).ln(),
            Self::Memory => ((new + MEMORY_FLOOR_BYTES) / (old + MEMORY_FLOOR_BYTES)).ln(),
            _ => (new / old).ln(),
        }
    }

    /// Returns the score of a value in a race: the excess over a value of 1. Differences of scores are excesses.
    pub fn score(self, value: f64) -> f64 {
        self.excess([1.0, value])
    }

    /// Returns the value with a score.
    pub fn value(self, score: f64) -> f64 {
        match self {
            Self::Errors => 1.0 + score,
            Self::Rate => (-score).exp(),
            // Without the error of the logarithm.
            Self::Memory => ((1.0 + MEMORY_FLOOR_BYTES) * score.exp() - MEMORY_FLOOR_BYTES).max(0.0).round(),
            _ => score.exp(),
        }
    }

    /// Returns the excess that corresponds to a tolerance.
    pub fn limit(self, tolerance: f64) -> f64 {
        match self {
            Self::Errors => tolerance,
            Self::Rate => -(1.0 - tolerance).ln(),
            _ => (1.0 + tolerance).ln(),
        }
    }

    /// Returns the change of the figure that corresponds to an excess: a share of the old build's value; of errors, the difference.
    pub fn change(self, excess: f64) -> f64 {
        match self {
            Self::Errors => excess,
            Self::Rate => (-excess).exp() - 1.0,
            _ => excess.exp() - 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_for_the_worse_are_positive_excesses() {
        for figure in Figure::limited() {
            let (name, tolerance) = (figure.name(), figure.tolerance().unwrap_or(0.5));
            let worse = match figure {
                Figure::Rate => [100.0, 100.0 * (1.0 - tolerance)],
                Figure::Errors => [0.0, tolerance],
                Figure::Memory => [100.0, (100.0 + MEMORY_FLOOR_BYTES) * (1.0 + tolerance) - MEMORY_FLOOR_BYTES],
                _ => [100.0, 100.0 * (1.0 + tolerance)],
            };
            let excess = figure.excess(worse);
            assert!(excess > 0.0 && (excess - figure.limit(tolerance)).abs() < 1e-12, "{name}");
            let change = if figure == Figure::Rate { -tolerance } else { tolerance };
            assert!((figure.change(excess) - change).abs() < 1e-12, "{name}");
            assert_eq!(figure.excess([worse[0]; 2]), 0.0, "{name}");
            let scores = figure.score(worse[1]) - figure.score(worse[0]);
            assert!((scores - excess).abs() < 1e-12, "{name}: differences of scores are excesses");
            assert!((figure.value(figure.score(7.0)) - 7.0).abs() < 1e-9, "{name}");
        }
    }
}
