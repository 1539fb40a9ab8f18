//! The planned time of each request. The schedule is drawn before the trial, so the send path does no random work.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::partition::partition;
use crate::config::profile::Integral;
use crate::config::{LoadConfig, Popularity, Schedule, Slices, active_count};
use crate::time::zipf::Zipf;

pub mod replay;

/// Transactions per second for which a closed loop reserves memory: several times the rate that one machine reached.
const CLOSED_RATE_PER_S_MAX: u64 = 500_000;
/// The most by which a pipeline multiplies this rate.
const PIPELINE_FACTOR_MAX: u64 = 4;
/// The most transactions that a closed loop keeps, in 160 MiB. Counts and histograms also include transactions beyond it.
const CLOSED_COUNT_MAX: u64 = 4 << 20;

/// A planned request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Nanoseconds after the ramp begins.
    pub at_ns: f64,
    /// The connection, from 0.
    pub connection: u32,
}

/// Returns the largest number of recorded requests per client: for a Poisson process, ten standard deviations above the mean.
pub fn count_max(config: &LoadConfig) -> u64 {
    let slots = || Slots::new(config).count;
    let replayed = config.trace().map_or(0, |trace| trace.count_max(config.client.clients, config.all_clients()));
    let drawn = match config.schedule() {
        Some(Schedule::Poisson) => slots().saturating_add((10.0 * (slots() as f64).sqrt()) as u64 + 10),
        Some(_) => slots(),
        None => {
            let window_ns = u128::from(config.phases.measure_ns);
            let rate_per_s_max = CLOSED_RATE_PER_S_MAX * u64::from(config.pipeline()).clamp(1, PIPELINE_FACTOR_MAX);
            let expected = (window_ns * u128::from(rate_per_s_max) / 1_000_000_000) as u64;
            (expected.min(CLOSED_COUNT_MAX) / u64::from(config.all_clients())).max(1)
        }
    };
    drawn.saturating_add(replayed)
}

/// Returns the largest number of records per client: [`count_max`], and retries.
pub fn records_max(config: &LoadConfig) -> u64 {
    let requests = count_max(config);
    requests.saturating_add(config.request_timeout().map_or(0, |it| it.retries_max(requests)))
}

/// Returns the active connections of a client with `connections` connections.
pub fn active(config: &LoadConfig, connections: u32, client: u32) -> Vec<u32> {
    Chooser::of_client(config, connections, client, &mut random_of(config, client)).active
}

/// Returns the random numbers of a client.
fn random_of(config: &LoadConfig, client: u32) -> Xoshiro256PlusPlus {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(config.client.seed);
    (0..config.client_number(client)).for_each(|_| random.jump());
    random
}

/// Returns all requests of one client with `connections` connections, in order of time, without those of a trace. Equal arguments give
/// equal requests.
pub fn planned(config: &LoadConfig, connections: u32, client: u32) -> impl Iterator<Item = Planned> + use<> {
    let mut random = random_of(config, client);
    let mut choose = Chooser::of_client(config, connections, client, &mut random);
    let slots = Slots::new(config);
    let schedule = config.schedule().expect("only an open loop has planned requests");
    let slices = config.client.slices;
    let end_ns = config.window_ns().end as f64;
    // The client's offset, as a share of a constant interval.
    let turn = match schedule {
        Schedule::ConstantDrawn => random.random::<f64>(),
        Schedule::ConstantTogether => 0.0,
        _ => f64::from(config.client_number(client)) / f64::from(config.all_clients()),
    };
    let mut arrived = 0.0;
    let mut slot = 0;
    std::iter::from_fn(move || {
        let at_ns = match schedule {
            Schedule::SlotRandom => slots.time_ns(slot as f64 + random.random::<f64>()),
            Schedule::Constant | Schedule::ConstantDrawn | Schedule::ConstantTogether => {
                slots.time_ns(slot as f64 + turn)
            }
            // Draw a Poisson process of rate 1, measured in slots; `time_ns` maps it to the configured rate.
            Schedule::Poisson => {
                let gap: f64 = Exp1.sample(&mut random);
                arrived += gap;
                slots.time_ns(arrived)
            }
        };
        slot += 1;
        let is_over = match schedule {
            Schedule::Poisson => arrived >= slots.count as f64,
            _ => slot > slots.count,
        };
        let at_ns = slices.map_or(at_ns, |slices| in_slices_ns(&slices, at_ns));
        // Phases of an interleaved trial may end within a slice, but its window is rounded to whole rounds.
        (!is_over && (slices.is_none() || at_ns < end_ns))
            .then(|| Planned { at_ns, connection: choose.next(&mut random) })
    })
}

/// Returns the nanoseconds after the start at which `at_ns` of the contestant's slices have passed.
fn in_slices_ns(slices: &Slices, at_ns: f64) -> f64 {
    let round = (at_ns / slices.slice_ns as f64) as u64;
    slices.start_ns(round) as f64 + (at_ns - (round * slices.slice_ns) as f64)
}

/// Chooses the connection of each request.
struct Chooser {
    /// The active connections; for Zipf, the most popular first.
    active: Vec<u32>,
    zipf: Option<Zipf>,
}

impl Chooser {
    fn of_client(config: &LoadConfig, connections: u32, client: u32, random: &mut Xoshiro256PlusPlus) -> Self {
        let active = active_count(config.active(), config.connections);
        // Together, the clients have the configured number of active connections.
        let active = partition(active.into(), config.client.clients.into(), client.into());
        let active = (active.end - active.start) as u32;
        Self::new(active.min(connections), config.popularity(), connections, random)
    }

    fn new(active: u32, popularity: Popularity, connections: u32, random: &mut Xoshiro256PlusPlus) -> Self {
        let mut all: Vec<u32> = (0..connections).collect();
        all.shuffle(random);
        all.truncate(active as usize);
        let zipf = Zipf::of(popularity, all.len() as u64);
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

/// The division of ramp, warm-up and window into slots of one expected request each.
#[derive(Clone, Debug)]
struct Slots {
    integral: Integral,
    count: u64,
}

impl Slots {
    fn new(config: &LoadConfig) -> Self {
        let rates = config.rates();
        // Begin within a slot, so that another slot begins exactly at the end of the ramp. An infinite number has no fraction.
        let ramp = rates.integral().requests(config.phases.ramp_ns as f64);
        let integral = rates.integral_from(-ramp.fract().max(0.0));
        // A slot before a trace must not reach into the window.
        let count = if config.trace().is_some() { integral.total().floor() } else { integral.total().round() };
        Self { count: count as u64, integral }
    }

    /// Returns the time of a point between the starts of two slots, in nanoseconds after the ramp begins.
    fn time_ns(&self, slot: f64) -> f64 {
        self.integral.time_ns(slot)
    }
}

#[cfg(test)]
mod tests;
