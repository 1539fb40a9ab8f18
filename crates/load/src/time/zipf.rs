//! Zipf's law, for any exponent.

use rand::Rng;
use rand_distr::Distribution;

use crate::config::Choice;

/// So close to 1 an exponent is taken for 1. The crate divides by the difference, which multiplies the rounding error of its
/// sums; beyond this that error is below 1e-6, and the share of the least popular of 2^32 differs from
/// that for 1 by less than 3e-8 (1e-9 times the logarithm of 2^32).
const NEAR_ONE: f64 = 1e-9;

/// Draws the `k`th of several with a probability proportional to `1/k^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    law: rand_distr::Zipf<f64>,
    count: u64,
}

impl Zipf {
    /// As a configuration that was checked has it, of at least one; `None` if each is as likely as any other.
    pub(crate) fn of(choice: Choice, count: u64) -> Option<Self> {
        let Choice::Zipf { exponent } = choice else { return None };
        let exponent = if (exponent - 1.0).abs() < NEAR_ONE { 1.0 } else { exponent };
        Some(Self { law: rand_distr::Zipf::new(count as f64, exponent).ok()?, count })
    }

    /// The place of one among all, from 0: the most popular is the first.
    #[inline]
    pub(crate) fn draw(&self, random: &mut impl Rng) -> u64 {
        // Rounding may take a draw beyond the last.
        (self.law.sample(random) as u64).clamp(1, self.count) - 1
    }
}
