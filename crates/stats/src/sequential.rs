//! Repeated looks at a growing comparison. Looking again after each heat until a difference is significant would find one
//! sooner or later, so each look spends only a part of the permitted error (Lan and DeMets 1983).

use std::f64::consts::PI;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ratio::log_ratio;
use crate::repeats::{ALPHA, Mean, REPEATS_MIN, Repeat};

/// The knowledge about two contestants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// They differ.
    Separated,
    /// They differ by less than the margin.
    WithinMargin,
    /// More repeats are needed.
    Open,
}

/// Two contestants, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The first contestant.
    pub one: usize,
    /// The second contestant; a higher index.
    pub other: usize,
    /// The knowledge after the last look.
    pub decision: Decision,
}

/// All looks at a comparison. The probability of any false decision, over all looks and all pairs, is at most 5 %.
///
/// Look k spends `0.05 · 6 / (π² k²)`. These shares sum to 0.05 for any number of looks. The pairs divide each share evenly
/// (Bonferroni), for both questions at once: a pair that is equal cannot be outside the margin, so only one answer can be false.
/// The margin is tested by two one-sided tests (Schuirmann 1987).
#[derive(Clone, Debug)]
pub struct Looks {
    margin: f64,
    looks: u32,
    pairs: Vec<Pair>,
}

impl Looks {
    /// Starts without a look. Contestants are equal in practice if their ratio is within `margin` of 1.
    pub fn new(contestants: usize, margin: f64) -> Self {
        let pair = |one, other| Pair { one, other, decision: Decision::Open };
        let pairs = (0..contestants).flat_map(|one| (one + 1..contestants).map(move |other| pair(one, other)));
        Self { margin, looks: 0, pairs: pairs.collect() }
    }

    /// Looks at all repeats so far, of each contestant. A decision of an earlier look stays. Too few repeats for any decision are no
    /// look, and spend nothing.
    pub fn look(&mut self, contestants: &[Vec<Repeat>]) -> &[Pair] {
        if contestants.iter().all(|repeats| repeats.len() < REPEATS_MIN) {
            return &self.pairs;
        }
        self.looks += 1;
        let alpha = level(self.looks) / self.pairs.len().max(1) as f64;
        for pair in self.pairs.iter_mut().filter(|pair| pair.decision == Decision::Open) {
            let log = log_ratio(&contestants[pair.one], &contestants[pair.other]);
            pair.decision = log.map_or(Decision::Open, |log| decision(log, self.margin, alpha));
        }
        &self.pairs
    }

    /// Returns the pairs after the last look.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Returns whether more repeats are pointless.
    pub fn is_decided(&self) -> bool {
        self.pairs.iter().all(|pair| pair.decision != Decision::Open)
    }
}

/// Returns the probability of a false decision at look `look`, from 1.
pub fn level(look: u32) -> f64 {
    ALPHA * 6.0 / (PI * f64::from(look)).powi(2)
}

fn decision(log: Mean, margin: f64, alpha: f64) -> Decision {
    let is_below = |p: Option<f64>, limit: f64| p.is_some_and(|p| p <= limit);
    let (low, high) = ((1.0 - margin).ln(), (1.0 + margin).ln());
    if is_below(log.p_value(0.0), alpha) {
        Decision::Separated
    } else if low < log.value
        && log.value < high
        // Half of a two-sided p value is that of the one-sided test.
        && [low, high].iter().all(|&end| is_below(log.p_value(end), 2.0 * alpha))
    {
        Decision::WithinMargin
    } else {
        Decision::Open
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn pairs_are_decided_once_the_repeats_suffice() {
        // Values near those of the contestants, with noise of up to 1 %.
        let values = [100.0, 100.0, 110.0];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut looks = Looks::new(3, 0.02);
        let mut so_far = vec![Vec::new(); 3];
        assert!(!looks.is_decided());
        while !looks.is_decided() {
            for (all, value) in so_far.iter_mut().zip(values) {
                all.push(Repeat::new(all.len() as u32, value * (1.0 + random.random_range(-0.01..0.01))));
            }
            looks.look(&so_far);
            assert!(looks.looks < 20, "{looks:?}");
        }
        let found: Vec<Decision> = looks.pairs().iter().map(|pair| pair.decision).collect();
        assert_eq!(found, [Decision::WithinMargin, Decision::Separated, Decision::Separated]);
        let before = looks.pairs().to_vec();
        assert_eq!(looks.look(&[vec![], vec![], vec![]]), before, "decisions stay");
    }

    #[test]
    fn looks_spend_the_error_once() {
        let spent: f64 = (1..100_000).map(level).sum();
        assert!(spent < ALPHA && spent > 0.9999 * ALPHA);
        assert!(Looks::new(1, 0.02).is_decided(), "one contestant has no pair");
    }

    #[test]
    fn two_repeats_leave_a_pair_open() {
        let two = |value: f64| vec![Repeat::new(0, value), Repeat::new(1, value)];
        let mut looks = Looks::new(2, 0.02);
        assert_eq!(looks.look(&[two(1.0), two(2.0)])[0].decision, Decision::Open);
        assert_eq!(looks.look(&[two(1.0), Vec::new()])[0].decision, Decision::Open);
    }
}
