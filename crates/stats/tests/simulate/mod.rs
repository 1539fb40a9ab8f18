//! Simulated comparisons of equal servers, and how often the statistics err about them.

mod gates;

use std::f64::consts::TAU;

use muxbench_stats::family::Family;
use muxbench_stats::ratio::{Ratio, added, linked, ratio_of_peaks};
use muxbench_stats::repeats::{Estimate, Repeat};
use muxbench_stats::sequential::{Decision, Looks};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The standard deviation of the logarithm of a figure over a part of a heat.
const SIGMA: f64 = 0.02;

/// The parts of a heat, each with noise of its own.
const PARTS: u32 = 32;

/// The number of contestants of a series of looks.
const CONTESTANTS: usize = 6;

/// The noise of heats.
#[derive(Clone, Copy)]
pub struct Noise {
    /// The correlation of neighbouring parts of a heat.
    pub rho: f64,
    /// The standard deviation of a contestant's effect of a heat, which its parts do not show, in standard errors of a heat of
    /// uncorrelated parts.
    pub heat_effect: f64,
}

pub struct Simulation(Xoshiro256PlusPlus);

impl Simulation {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a standard normal value (Box and Muller's transform).
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.0.random::<f64>()).ln()).sqrt() * (TAU * self.0.random::<f64>()).cos()
    }

    /// Returns the mean of a stationary series of parts in which neighbours have correlation `rho`.
    fn mean_of_parts(&mut self, rho: f64) -> f64 {
        let mut last = self.normal();
        let mut sum = 0.0;
        for _ in 0..PARTS {
            sum += last;
            last = rho * last + (1.0 - rho * rho).sqrt() * self.normal();
        }
        sum / f64::from(PARTS)
    }

    /// Returns a repeat of each contestant: the speed of the host, which all share, and the noise of each one.
    fn heat(&mut self, contestants: usize, heat: u32, noise: Noise) -> Vec<Repeat> {
        let speed = 0.2 * self.normal();
        let contestant = |it: &mut Self| {
            let own = it.mean_of_parts(noise.rho) + noise.heat_effect / f64::from(PARTS).sqrt() * it.normal();
            Repeat::new(heat, (speed + SIGMA * own).exp())
        };
        (0..contestants).map(|_| contestant(self)).collect()
    }

    fn heats(&mut self, contestants: usize, heats: u32, noise: Noise) -> Vec<Vec<Repeat>> {
        let mut all = vec![Vec::new(); contestants];
        for heat in 0..heats {
            let heat = self.heat(contestants, heat, noise);
            all.iter_mut().zip(heat).for_each(|(all, repeat)| all.push(repeat));
        }
        all
    }

    /// Returns repeats of separate trials, with the standard deviation `sigma` of the logarithm.
    fn repeats(&mut self, first: u32, count: u32, sigma: f64) -> Vec<Repeat> {
        (first..first + count).map(|heat| Repeat::new(heat, (sigma * self.normal()).exp())).collect()
    }

    fn share(&mut self, cases: u32, mut is: impl FnMut(&mut Self) -> bool) -> f64 {
        f64::from((0..cases).map(|_| u32::from(is(self))).sum::<u32>()) / f64::from(cases)
    }

    /// Returns the shares of intervals that hold the true ratio, and the true added time.
    pub fn coverage_of_pairs(&mut self, cases: u32, heats: u32, noise: Noise) -> [f64; 2] {
        let mut of_added = 0;
        let of_ratios = self.share(cases, |it| {
            let pair = it.heats(2, heats, noise);
            of_added += u32::from(added(&pair[0], &pair[1]).unwrap().interval.unwrap().contains(0.0));
            Ratio::of(&pair[0], &pair[1]).unwrap().interval.unwrap().contains(1.0)
        });
        [of_ratios, f64::from(of_added) / f64::from(cases)]
    }

    /// Returns the share of intervals that hold the true ratio of contestants of two groups, which a reference links.
    pub fn coverage_of_groups(&mut self, cases: u32, heats: u32, noise: Noise) -> f64 {
        self.share(cases, |it| {
            // The first contestant of each group is the reference.
            let (first, second) = (it.heats(2, heats, noise), it.heats(2, heats, noise));
            let converted = (0..heats as usize).map(|at| linked(second[1][at], second[0][at], first[0][at]));
            let converted: Vec<Repeat> = converted.collect();
            Ratio::of(&converted, &first[1]).unwrap().interval.unwrap().contains(1.0)
        })
    }

    /// Returns the share of intervals from separate repeats that hold the true ratio, and the true value.
    pub fn coverage_of_repeats(&mut self, cases: u32, repeats: [u32; 2], sigmas: [f64; 2]) -> (f64, f64) {
        let mut estimates = 0.0;
        let ratios = self.share(cases, |it| {
            let [a, b] = [0, 1].map(|at| it.repeats(1_000 * at as u32, repeats[at], sigmas[at]));
            let holds = Estimate::of(&a).unwrap().interval.unwrap().contains(1.0);
            estimates += f64::from(u8::from(holds)) / f64::from(cases);
            Ratio::of(&a, &b).unwrap().interval.unwrap().contains(1.0)
        });
        (ratios, estimates)
    }

    /// Returns the share of comparisons of equal contestants in which any pair differs significantly.
    pub fn false_families(&mut self, cases: u32, contestants: usize, heats: u32, noise: Noise) -> f64 {
        self.share(cases, |it| differs(&it.heats(contestants, heats, noise)))
    }

    /// Returns the share of joint intervals of equal peaks that miss 1. All other cells are lower by `below`.
    pub fn false_peaks(&mut self, cases: u32, cells: u32, repeats: u32, below: f64) -> f64 {
        self.share(cases, |it| {
            let mut side = |first: u32| -> Vec<Vec<Repeat>> {
                let lower = |at: u32| if at == 0 { 1.0 } else { 1.0 - below };
                let cell = |at: u32, repeats: Vec<Repeat>| {
                    repeats.into_iter().map(|it| Repeat::new(it.heat, it.value * lower(at))).collect()
                };
                (0..cells).map(|at| cell(at, it.repeats(first + 1_000 * at, repeats, SIGMA))).collect()
            };
            let (ours, theirs) = (side(0), side(1_000_000));
            !ratio_of_peaks(&ours, &theirs).unwrap().interval.unwrap().contains(1.0)
        })
    }

    /// Returns the share of reports with any significant difference among equal contestants, after looks that end once all
    /// pairs are decided, and the mean number of looks.
    pub fn false_reports(&mut self, cases: u32, noise: Noise, margin: f64, looks_max: u32) -> (f64, f64) {
        let mut looks = 0.0;
        let share = self.share(cases, |it| {
            let mut series = Looks::new(CONTESTANTS, margin);
            let mut all = vec![Vec::new(); CONTESTANTS];
            for look in 0..looks_max {
                let heat = it.heat(CONTESTANTS, look, noise);
                all.iter_mut().zip(heat).for_each(|(all, repeat)| all.push(repeat));
                series.look(&all);
                looks += 1.0 / f64::from(cases);
                if series.is_decided() {
                    break;
                }
            }
            differs(&all)
        });
        (share, looks)
    }

    /// Returns the shares of series with a false separation, and with a false equality of two contestants at the margin.
    pub fn false_decisions(&mut self, cases: u32, looks: u32, noise: Noise, margin: f64) -> (f64, f64) {
        let mut equalities = 0.0;
        let separations = self.share(cases, |it| {
            let mut series = Looks::new(CONTESTANTS, 0.0);
            let mut apart = Looks::new(CONTESTANTS, margin);
            let mut all = vec![Vec::new(); CONTESTANTS];
            for look in 0..looks {
                let heat = it.heat(CONTESTANTS, look, noise);
                all.iter_mut().zip(heat).for_each(|(all, repeat)| all.push(repeat));
                series.look(&all);
                // Half of the contestants take longer by exactly the margin.
                let longer = |(at, repeats): (usize, &Vec<Repeat>)| -> Vec<Repeat> {
                    let factor = if at % 2 == 0 { 1.0 + margin } else { 1.0 };
                    repeats.iter().map(|it| Repeat::new(it.heat, it.value * factor)).collect()
                };
                apart.look(&all.iter().enumerate().map(longer).collect::<Vec<_>>());
            }
            let is_false = |pair: &muxbench_stats::sequential::Pair| {
                pair.decision == Decision::WithinMargin && pair.one % 2 != pair.other % 2
            };
            equalities += f64::from(u8::from(apart.pairs().iter().any(is_false))) / f64::from(cases);
            series.pairs().iter().any(|pair| pair.decision == Decision::Separated)
        });
        (separations, equalities)
    }
}

/// Returns whether any pair of contestants differs significantly.
fn differs(contestants: &[Vec<Repeat>]) -> bool {
    let family = Family::of(contestants);
    let differs = |(a, b)| family.ratio(a, b).is_some_and(|ratio| ratio.differs_from_one());
    (0..contestants.len()).flat_map(|a| (0..a).map(move |b| (a, b))).any(differs)
}
