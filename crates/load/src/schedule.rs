//! When each request is sent: drawn in full before the trial, so that nothing is left to chance or time on the send path.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::{Phases, Schedule};

/// The ramp begins at this fraction of the target rate, but not below one request a second. kawai2008 section 5.1 says
/// that the rate grows exponentially and not from where; a thousandth makes three decades.
const RAMP_START: f64 = 1.0 / 1000.0;

/// A planned request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Nanoseconds after the ramp begins.
    pub at_ns: f64,
    /// On which connection, from 0.
    pub connection: u32,
}

/// How many requests [`planned`] gives.
pub fn count(rate_per_s: f64, phases: &Phases) -> u64 {
    let slots = Slots::new(rate_per_s, phases);
    slots.ramp + slots.level
}

/// All requests of one client in order of time. The same arguments give the same requests; each client has a stream of
/// its own of the generator, which does not overlap with another's.
pub fn planned(
    schedule: Schedule,
    rate_per_s: f64,
    phases: &Phases,
    connections: u32,
    seed: u64,
    client: u32,
) -> impl Iterator<Item = Planned> + use<> {
    let slots = Slots::new(rate_per_s, phases);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..client).for_each(|_| random.jump());
    (0..slots.ramp + slots.level).map(move |slot| {
        let (start, end) = (slots.start_ns(slot), slots.start_ns(slot + 1));
        let at_ns = match schedule {
            Schedule::SlotRandom => start + (end - start) * random.random::<f64>(),
        };
        Planned { at_ns, connection: random.random_range(0..connections) }
    })
}

/// Time cut into slots, each for one request.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// Slots of the ramp.
    ramp: u64,
    /// Slots after it, each `1/rate` long.
    level: u64,
    ramp_ns: f64,
    interval_ns: f64,
    /// ln(target / initial rate).
    growth: f64,
    /// Requests a nanosecond at the beginning of the ramp.
    initial_per_ns: f64,
}

impl Slots {
    fn new(rate_per_s: f64, phases: &Phases) -> Self {
        let rate_per_ns = rate_per_s / 1e9;
        let initial_per_ns = (rate_per_ns * RAMP_START).max(1e-9).min(rate_per_ns);
        let growth = (rate_per_ns / initial_per_ns).ln();
        let ramp_ns = phases.ramp_ns as f64;
        let level_ns = (phases.hold_ns + phases.measure_ns) as f64;
        // The integral of initial * exp(growth * t / ramp) over the ramp.
        let ramp = initial_per_ns * ramp_ns * if growth > 1e-9 { growth.exp_m1() / growth } else { 1.0 };
        Self {
            ramp: ramp as u64,
            level: (level_ns * rate_per_ns).round() as u64,
            ramp_ns,
            interval_ns: 1.0 / rate_per_ns,
            growth,
            initial_per_ns,
        }
    }

    /// When a slot begins, in nanoseconds: in the ramp where the integral of the rate reaches its number.
    fn start_ns(&self, slot: u64) -> f64 {
        if slot >= self.ramp {
            return self.ramp_ns + (slot - self.ramp) as f64 * self.interval_ns;
        }
        let requests = slot as f64 / self.initial_per_ns;
        if self.growth > 1e-9 {
            self.ramp_ns / self.growth * (requests * self.growth / self.ramp_ns).ln_1p()
        } else {
            requests
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn phases(ramp_ms: u64, hold_ms: u64, measure_ms: u64) -> Phases {
        let ns = |ms| ms * 1_000_000;
        Phases { ramp_ns: ns(ramp_ms), hold_ns: ns(hold_ms), measure_ns: ns(measure_ms), drain_ns: 0 }
    }

    proptest! {
        #[test]
        fn each_slot_holds_one_request(
            rate in 1.0f64..20_000.0, ramp in 0u64..2_000, hold in 0u64..500, measure in 1u64..1_000, seed: u64,
        ) {
            let phases = phases(ramp, hold, measure);
            let all: Vec<_> = planned(Schedule::SlotRandom, rate, &phases, 7, seed, 0).collect();
            prop_assert_eq!(all.len() as u64, count(rate, &phases));
            let slots = Slots::new(rate, &phases);
            for (slot, request) in all.iter().enumerate() {
                let (start, end) = (slots.start_ns(slot as u64), slots.start_ns(slot as u64 + 1));
                prop_assert!(start <= request.at_ns && request.at_ns <= end, "slot {slot}: {start}..{end}: {request:?}");
                prop_assert!(request.connection < 7);
            }
            let expected = rate * (hold + measure) as f64 / 1e3;
            let level = all.len() as u64 - slots.ramp;
            prop_assert!((level as f64 - expected).abs() <= 0.5 + 1e-6, "{level} after the ramp, not {expected}");
        }

        #[test]
        fn the_ramp_s_slots_shorten_to_the_interval(rate in 100.0f64..20_000.0, ramp in 100u64..5_000) {
            let slots = Slots::new(rate, &phases(ramp, 0, 0));
            let lengths: Vec<_> = (0..slots.ramp.saturating_sub(1)).map(|i| slots.start_ns(i + 1) - slots.start_ns(i)).collect();
            prop_assert!(lengths.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6)));
            if let Some(last) = lengths.last() {
                prop_assert!(*last >= slots.interval_ns * 0.999);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let phases = phases(100, 0, 500);
        let all = |seed, client| planned(Schedule::SlotRandom, 1_000.0, &phases, 50, seed, client).collect::<Vec<_>>();
        assert_eq!(all(1, 0), all(1, 0));
        assert_ne!(all(1, 0), all(2, 0));
        assert_ne!(all(1, 1), all(1, 0));
        assert_ne!(all(1, 1), all(2, 0));
    }
}
