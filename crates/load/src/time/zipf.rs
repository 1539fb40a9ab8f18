//! Zipf's law, for any exponent.

use rand::Rng;
use rand_distr::Distribution;

use crate::config::Popularity;

/// An exponent this close to 1 counts as 1: `rand_distr` divides by the difference, which amplifies rounding errors.
const NEAR_ONE: f64 = 1e-9;

/// A distribution over ranks: rank `k` has a probability proportional to `1/k^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    law: rand_distr::Zipf<f64>,
    count: u64,
}

impl Zipf {
    /// Creates the distribution over `count` items, at least one; `None` for a uniform popularity.
    pub(crate) fn of(popularity: Popularity, count: u64) -> Option<Self> {
        let Popularity::Zipf { exponent } = popularity else { return None };
        let exponent = if (exponent - 1.0).abs() < NEAR_ONE { 1.0 } else { exponent };
        Some(Self { law: rand_distr::Zipf::new(count as f64, exponent).ok()?, count })
    }

    /// Draws an index from 0. The most popular item has index 0.
    #[inline]
    pub(crate) fn draw(&self, random: &mut impl Rng) -> u64 {
        // Rounding may exceed the last item.
        (self.law.sample(random) as u64).clamp(1, self.count) - 1
    }
}
