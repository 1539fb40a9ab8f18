//! When each request is sent: drawn in full before the trial, so that nothing is left to chance or time on the send path.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::closed;
use crate::config::{Choice, LoadConfig, Phases, Schedule};
use crate::zipf::Zipf;

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

/// At most how many requests are recorded of one of `clients` clients: of those that [`planned`] gives, all; of a Poisson
/// process, whose count is random, ten standard deviations above the mean; of a closed loop as many as there is memory for.
pub fn count_max(config: &LoadConfig) -> u64 {
    let slots = || Slots::new(config.rate_per_s() / f64::from(config.clients), &config.phases).count();
    match config.schedule {
        Schedule::SlotRandom | Schedule::Constant | Schedule::ConstantDrawn | Schedule::ConstantTogether => slots(),
        Schedule::Poisson => slots().saturating_add((10.0 * (slots() as f64).sqrt()) as u64 + 10),
        Schedule::Closed => closed::samples_max(config),
    }
}

/// All requests of one of `config`'s clients, which has `connections` of the connections, in order of time. The same
/// arguments give the same requests; each client has a stream of its own of the generator, which does not overlap with
/// another's.
pub fn planned(config: &LoadConfig, connections: u32, client: u32) -> impl Iterator<Item = Planned> + use<> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    (0..config.client(client)).for_each(|_| random.jump());
    let clients = u64::from(config.clients);
    let active = u64::from(active_count(config.active, config.connections));
    // Its share of the active ones: all clients together have as many as were asked for.
    let active = (active * u64::from(client + 1) / clients - active * u64::from(client) / clients) as u32;
    let mut choose = Chooser::new(active.min(connections), config.choice, connections, &mut random);
    let slots = Slots::new(config.rate_per_s() / f64::from(config.clients), &config.phases);
    let schedule = config.schedule;
    // Where in its interval a client at constant intervals sends.
    let turn = match schedule {
        Schedule::ConstantDrawn => random.random::<f64>(),
        Schedule::ConstantTogether => 0.0,
        _ => f64::from(config.client(client)) / f64::from(config.all_clients()),
    };
    let mut arrived = 0.0;
    let mut slot = 0;
    std::iter::from_fn(move || {
        let at_ns = match schedule {
            Schedule::SlotRandom => {
                let (start, end) = (slots.start_ns(slot as f64), slots.start_ns((slot + 1) as f64));
                start + (end - start) * random.random::<f64>()
            }
            Schedule::Constant | Schedule::ConstantDrawn | Schedule::ConstantTogether => {
                slots.start_ns(slot as f64 + turn)
            }
            // A Poisson process of rate 1 in the time that the slots count: one of the rate asked for in ours.
            Schedule::Poisson => {
                let gap: f64 = Exp1.sample(&mut random);
                arrived += gap;
                slots.start_ns(arrived)
            }
            Schedule::Closed => unreachable!("a closed loop plans nothing ahead"),
        };
        slot += 1;
        let is_over = match schedule {
            Schedule::Poisson => arrived >= slots.count() as f64,
            Schedule::Closed => true,
            _ => slot > slots.count(),
        };
        (!is_over).then(|| Planned { at_ns, connection: choose.next(&mut random) })
    })
}

/// Which connection a request is sent on.
struct Chooser {
    /// The active connections; of a Zipf distribution, the most popular first.
    active: Vec<u32>,
    zipf: Option<Zipf>,
}

impl Chooser {
    fn new(active: u32, choice: Choice, connections: u32, random: &mut Xoshiro256PlusPlus) -> Self {
        let mut all: Vec<u32> = (0..connections).collect();
        all.shuffle(random);
        all.truncate(active as usize);
        let zipf = Zipf::of(choice, all.len() as u64);
        Self { active: all, zipf }
    }

    fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let at = match &self.zipf {
            None => random.random_range(0..self.active.len()),
            Some(zipf) => zipf.draw(random) as usize,
        };
        self.active[at]
    }
}

/// How many of `connections` are active: at least one, and rounded to the nearest.
pub fn active_count(active: f64, connections: u32) -> u32 {
    ((f64::from(connections) * active).round() as u32).clamp(1, connections.max(1))
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

    fn count(&self) -> u64 {
        self.ramp.saturating_add(self.level)
    }

    /// When a slot begins, in nanoseconds: in the ramp where the integral of the rate reaches its number. Between whole
    /// numbers it is a time inside the slot.
    fn start_ns(&self, slot: f64) -> f64 {
        let ramp = self.ramp as f64;
        if slot >= ramp {
            return self.ramp_ns + (slot - ramp) * self.interval_ns;
        }
        let requests = slot / self.initial_per_ns;
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

    fn config(schedule: Schedule, rate_per_s: f64, phases: Phases) -> LoadConfig {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        LoadConfig { schedule, rate_per_s: Some(rate_per_s), phases, ..LoadConfig::new(([127, 0, 0, 1], 0), service) }
    }

    fn all(config: &LoadConfig, connections: u32, client: u32) -> Vec<Planned> {
        planned(config, connections, client).collect()
    }

    proptest! {
        #[test]
        fn each_slot_holds_one_request(
            rate in 1.0f64..20_000.0, ramp in 0u64..2_000, hold in 0u64..500, measure in 1u64..1_000, seed: u64,
        ) {
            for schedule in
                [Schedule::SlotRandom, Schedule::Constant, Schedule::ConstantDrawn, Schedule::ConstantTogether]
            {
                let config = LoadConfig { seed, ..config(schedule, rate, phases(ramp, hold, measure)) };
                let all = all(&config, 7, 0);
                prop_assert_eq!(all.len() as u64, count_max(&config));
                let slots = Slots::new(rate, &config.phases);
                for (slot, request) in all.iter().enumerate() {
                    let (start, end) = (slots.start_ns(slot as f64), slots.start_ns((slot + 1) as f64));
                    prop_assert!(start <= request.at_ns && request.at_ns <= end, "{slot}: {start}..{end}: {request:?}");
                    prop_assert!(request.connection < 7);
                }
                let expected = rate * (hold + measure) as f64 / 1e3;
                let level = all.len() as u64 - slots.ramp;
                prop_assert!((level as f64 - expected).abs() <= 0.5 + 1e-6, "{level} after the ramp, not {expected}");
            }
        }

        #[test]
        fn the_ramp_s_slots_shorten_to_the_interval(rate in 100.0f64..20_000.0, ramp in 100u64..5_000) {
            let slots = Slots::new(rate, &phases(ramp, 0, 0));
            let starts: Vec<_> = (0..slots.ramp).map(|slot| slots.start_ns(slot as f64)).collect();
            let lengths: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            prop_assert!(lengths.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6)));
            if let Some(last) = lengths.last() {
                prop_assert!(*last >= slots.interval_ns * 0.999);
            }
        }

        #[test]
        fn a_poisson_process_is_in_order_and_as_many_as_room_is_made_for(
            rate in 1.0f64..20_000.0, ramp in 0u64..500, measure in 1u64..500, seed: u64,
        ) {
            let config = LoadConfig { seed, ..config(Schedule::Poisson, rate, phases(ramp, 0, measure)) };
            let all = all(&config, 7, 0);
            prop_assert!(all.len() as u64 <= count_max(&config));
            prop_assert!(all.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        }

        #[test]
        fn only_the_active_share_is_used(connections in 1u32..500, n in 1u32..100, seed: u64) {
            let share = 1.0 / f64::from(n);
            let config =
                LoadConfig { seed, connections, active: share, ..config(Schedule::SlotRandom, 20_000.0, phases(0, 0, 500)) };
            let mut used: Vec<u32> = all(&config, connections, 0).iter().map(|request| request.connection).collect();
            used.sort_unstable();
            used.dedup();
            let expected = active_count(share, connections);
            prop_assert!(used.len() as u32 <= expected && used.iter().all(|&connection| connection < connections));
            // With twenty or more for each, none stays without.
            if expected * 20 <= 10_000 {
                prop_assert_eq!(used.len() as u32, expected);
            }
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let config = config(Schedule::Poisson, 1_000.0, phases(0, 0, 100_000));
        let gaps: Vec<f64> = all(&config, 1, 0).windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        // P(gap > k * mean) = e^-k.
        for k in [0.5, 1.0, 2.0] {
            let share = gaps.iter().filter(|&&gap| gap > k * 1e6).count() as f64 / gaps.len() as f64;
            assert!((share - f64::exp(-k)).abs() < 0.01, "{k}: {share}");
        }
    }

    #[test]
    fn constant_clients_take_turns() {
        let config = LoadConfig { clients: 4, connections: 4, ..config(Schedule::Constant, 4_000.0, phases(0, 0, 10)) };
        let mut times: Vec<f64> = (0..4).flat_map(|client| all(&config, 1, client)).map(|p| p.at_ns).collect();
        times.sort_unstable_by(f64::total_cmp);
        assert_eq!(times.len(), 40);
        assert!(times.windows(2).all(|pair| (pair[1] - pair[0] - 250_000.0).abs() < 1e-3), "{times:?}");
    }

    #[test]
    fn constant_clients_that_know_nothing_of_each_other_may_meet() {
        let config = |schedule, seed| LoadConfig {
            clients: 5,
            connections: 5,
            seed,
            ..config(schedule, 5_000.0, phases(0, 0, 100))
        };
        let firsts = |schedule, seed| -> Vec<f64> {
            let of = |client| all(&config(schedule, seed), 1, client);
            // Each keeps to its interval.
            let is_even =
                |all: &[Planned]| all.windows(2).all(|pair| (pair[1].at_ns - pair[0].at_ns - 1_000_000.0).abs() < 1e-3);
            assert!((0..5).all(|client| is_even(&of(client))));
            (0..5).map(|client| of(client)[0].at_ns).collect()
        };
        assert_eq!(firsts(Schedule::ConstantTogether, 1), [0.0; 5]);
        let drawn = firsts(Schedule::ConstantDrawn, 1);
        assert!(drawn.iter().all(|at_ns| (0.0..1_000_000.0).contains(at_ns)), "{drawn:?}");
        assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
        assert_eq!(drawn, firsts(Schedule::ConstantDrawn, 1));
        assert_ne!(drawn, firsts(Schedule::ConstantDrawn, 2), "another experiment, other moments");
    }

    #[test]
    fn clients_share_the_active_connections() {
        let config = LoadConfig {
            clients: 4,
            connections: 400,
            active: 1.0 / 64.0,
            ..config(Schedule::Constant, 4_000.0, phases(0, 0, 1_000))
        };
        let used = |client| {
            let mut used: Vec<u32> = all(&config, 100, client).iter().map(|request| request.connection).collect();
            used.sort_unstable();
            used.dedup();
            used.len()
        };
        assert_eq!((0..4).map(used).sum::<usize>(), 6, "a 64th of 400, however many clients");
    }

    #[test]
    fn zipf_s_shares_fall_with_the_rank() {
        let choice = Choice::Zipf { exponent: 1.0 };
        let config = LoadConfig { choice, ..config(Schedule::Constant, 100_000.0, phases(0, 0, 1_000)) };
        let mut counts = [0u32; 10];
        all(&config, 10, 0).iter().for_each(|request| counts[request.connection as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The tenth harmonic number is 2.929.
        for (rank, count) in counts.into_iter().enumerate() {
            let expected = 100_000.0 / 2.929 / (rank + 1) as f64;
            assert!((f64::from(count) / expected - 1.0).abs() < 0.05, "rank {rank}: {count}, not {expected}");
        }
    }

    #[test]
    fn zipf_near_one_draws_as_zipf_of_one() {
        let draws = |count: u32, exponent| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
            let mut chooser = Chooser::new(count, Choice::Zipf { exponent }, count, &mut random);
            // Which one is the most popular is drawn, too.
            let first = chooser.active[0];
            (0..5_000).filter(|_| chooser.next(&mut random) == first).count() as f64
        };
        for count in [2, 4, 10, 1_000] {
            let expected = draws(count, 1.0);
            for power in 20..54 {
                let near = 0.5f64.powi(power);
                for exponent in [1.0 - near, 1.0 + near] {
                    let drawn = draws(count, exponent);
                    assert!((drawn / expected - 1.0).abs() < 0.1, "{count} of 1 {near:+e}: {drawn}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn extreme_zipf_exponents_draw_one_of_all() {
        for exponent in [f64::MIN_POSITIVE, 1e-9, 50.0, 1e17, f64::MAX] {
            for count in [1, 2, 1_000] {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
                let mut chooser = Chooser::new(count, Choice::Zipf { exponent }, count, &mut random);
                assert!((0..1_000).all(|_| chooser.next(&mut random) < count));
            }
        }
    }

    #[test]
    fn huge_rate_is_more_requests_than_there_can_be() {
        for schedule in [Schedule::SlotRandom, Schedule::Constant, Schedule::Poisson] {
            let config = LoadConfig { clients: 2, ..config(schedule, f64::MAX, phases(1_000, 1_000, 1_000)) };
            assert_eq!(count_max(&config), u64::MAX);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let base = LoadConfig { clients: 2, ..config(Schedule::SlotRandom, 1_000.0, phases(100, 0, 500)) };
        let all = |seed, client| all(&LoadConfig { seed, ..base.clone() }, 50, client);
        assert_eq!(all(1, 0), all(1, 0));
        assert_ne!(all(1, 0), all(2, 0));
        assert_ne!(all(1, 1), all(1, 0));
        assert_ne!(all(1, 1), all(2, 0));
    }
}
