//! The slices of interleaved trials: the servers of all contestants run at the same time, and are loaded in turns.
//!
//! The host's speed drifts within seconds, but is about the same in neighbouring slices. Time is divided into rounds. Each
//! round has a slice for each contestant, in an order that is drawn for the round.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The slices of one contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slices {
    /// The number of the heat, which is a group of contestants that are loaded in turns. Unique within a run.
    pub heat: u32,
    /// The number of contestants.
    pub contestants: u32,
    /// The number of this contestant, from 0.
    pub contestant: u32,
    /// The length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// The length of the gap after each slice, in nanoseconds. No client sends in the gap, so that responses arrive before the next
    /// slice.
    pub gap_ns: u64,
    /// The length of the guard, in nanoseconds: requests planned in this first part of a slice are sent, but not measured.
    pub guard_ns: u64,
    /// The seed of the order in each round.
    pub seed: u64,
}

impl Slices {
    /// The length of a round in nanoseconds.
    pub fn round_ns(&self) -> u64 {
        (self.slice_ns + self.gap_ns) * u64::from(self.contestants)
    }

    /// Returns the contestants of a round, in the order of their slices.
    pub fn order(&self, round: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.contestants).collect();
        // The generator mixes its seed, so seeds of consecutive rounds give independent orders.
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(round)));
        order
    }

    /// Returns the start of this contestant's slice in a round, in nanoseconds after the start of the trial.
    pub fn start_ns(&self, round: u64) -> u64 {
        let place = self.order(round).iter().position(|&it| it == self.contestant);
        let place = place.expect("the contestant is one of its heat") as u64;
        round * self.round_ns() + place * (self.slice_ns + self.gap_ns)
    }

    /// Returns the nanoseconds after the start until each contestant has had `phase_ns` of slices, rounded to whole rounds.
    pub fn edge_ns(&self, phase_ns: u64) -> u64 {
        (phase_ns as f64 / self.slice_ns as f64).round() as u64 * self.round_ns()
    }

    /// The multiple of its highest rate at which a server still answers all requests of a slice before the next guard ends. Leaves
    /// the gap to the network.
    pub fn overload_max(&self) -> f64 {
        (self.slice_ns + self.guard_ns) as f64 / self.slice_ns as f64
    }

    /// The share of a contestant's slices that is measured.
    pub fn measured_share(&self) -> f64 {
        (self.slice_ns - self.guard_ns) as f64 / self.slice_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_one_slice_per_contestant() {
        let of =
            |contestant| Slices { heat: 0, contestants: 3, contestant, slice_ns: 8, gap_ns: 2, guard_ns: 2, seed: 7 };
        let mut orders = std::collections::BTreeSet::new();
        for round in 0..100 {
            let mut starts = [0, 1, 2].map(|contestant| of(contestant).start_ns(round));
            orders.insert(of(0).order(round));
            starts.sort_unstable();
            assert_eq!(starts, [0, 10, 20].map(|at| round * 30 + at));
        }
        assert_eq!(orders.len(), 6, "all orders occur");
    }

    #[test]
    fn phases_end_with_a_round() {
        let slices = Slices { heat: 0, contestants: 4, contestant: 1, slice_ns: 10, gap_ns: 0, guard_ns: 2, seed: 7 };
        assert_eq!([0, 10, 14, 16, 100].map(|ns| slices.edge_ns(ns)), [0, 40, 40, 80, 400]);
        assert!((slices.measured_share() - 0.8).abs() < 1e-9);
        assert!((slices.overload_max() - 1.2).abs() < 1e-9);
    }
}
