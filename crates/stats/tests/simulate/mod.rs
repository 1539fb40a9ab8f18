//! Simulated comparisons of equal servers, and how often the statistics err about them.

mod gates;

use std::f64::consts::TAU;

use muxbench_stats::blocks::{Block, Estimate};
use muxbench_stats::family::Family;
use muxbench_stats::ratio::{Ratio, linked, ratio_of_peaks};
use muxbench_stats::sequential::{Decision, Looks};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The standard deviation of the logarithm of a block.
const SIGMA: f64 = 0.02;

/// The number of contestants of a series of looks.
const CONTESTANTS: usize = 6;

/// The maximum number of looks, as in a run with `--until`.
const LOOKS_MAX: u32 = 20;

pub struct Simulation(Xoshiro256PlusPlus);

impl Simulation {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a standard normal value (Box and Muller's transform).
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.0.random::<f64>()).ln()).sqrt() * (TAU * self.0.random::<f64>()).cos()
    }

    /// Returns a stationary series in which neighbours have correlation `rho`.
    fn series(&mut self, count: u32, rho: f64) -> Vec<f64> {
        let mut last = self.normal();
        let mut next = || {
            let value = last;
            last = rho * last + (1.0 - rho * rho).sqrt() * self.normal();
            value
        };
        (0..count).map(|_| next()).collect()
    }

    /// Returns the blocks of contestants in a heat: a drift of the host that all share, and noise of each one.
    fn heat(&mut self, contestants: usize, heat: u32, blocks: u32, rho: f64) -> Vec<Vec<Block>> {
        let drift = self.series(blocks, 0.95);
        let contestant = |noise: Vec<f64>| {
            let values = drift.iter().zip(noise).map(|(drift, noise)| (0.2 * drift + SIGMA * noise).exp());
            (0..).zip(values).map(|(number, value)| Block { heat, number, value }).collect()
        };
        (0..contestants).map(|_| contestant(self.series(blocks, rho))).collect()
    }

    fn heats(&mut self, contestants: usize, heats: u32, blocks: u32, rho: f64) -> Vec<Vec<Block>> {
        let mut all = vec![Vec::new(); contestants];
        for heat in 0..heats {
            let heat = self.heat(contestants, heat, blocks, rho);
            all.iter_mut().zip(heat).for_each(|(all, blocks)| all.extend(blocks));
        }
        all
    }

    /// Returns repeats of separate trials, with the standard deviation `sigma` of the logarithm.
    fn repeats(&mut self, first: u32, count: u32, sigma: f64) -> Vec<Block> {
        (first..first + count).map(|heat| Block { heat, number: 0, value: (sigma * self.normal()).exp() }).collect()
    }

    fn share(&mut self, cases: u32, mut is: impl FnMut(&mut Self) -> bool) -> f64 {
        f64::from((0..cases).map(|_| u32::from(is(self))).sum::<u32>()) / f64::from(cases)
    }

    /// Returns the share of intervals that hold the true ratio, and their mean width as a multiple of `SIGMA`.
    pub fn coverage_of_pairs(&mut self, cases: u32, heats: u32, blocks: u32, rho: f64) -> (f64, f64) {
        let mut width = 0.0;
        let share = self.share(cases, |it| {
            let pair = it.heats(2, heats, blocks, rho);
            let interval = Ratio::of(&pair[0], &pair[1]).unwrap().interval.unwrap();
            width += (interval.high / interval.low).ln() / SIGMA / f64::from(cases);
            interval.low <= 1.0 && 1.0 <= interval.high
        });
        (share, width)
    }

    /// Returns the share of intervals that hold the true ratio of contestants of two groups, which a reference links.
    pub fn coverage_of_groups(&mut self, cases: u32, blocks: u32, rho: f64) -> f64 {
        self.share(cases, |it| {
            // The first contestant of each group is the reference.
            let (first, second) = (it.heat(2, 0, blocks, rho), it.heat(2, 1, blocks, rho));
            let converted = linked(&second[1], &second[0], &first[0]);
            let interval = Ratio::of(&converted, &first[1]).unwrap().interval.unwrap();
            interval.low <= 1.0 && 1.0 <= interval.high
        })
    }

    /// Returns the share of intervals from separate repeats that hold the true ratio, and the true value.
    pub fn coverage_of_repeats(&mut self, cases: u32, repeats: [u32; 2], sigmas: [f64; 2]) -> (f64, f64) {
        let holds = |it: muxbench_stats::Interval| it.low <= 1.0 && 1.0 <= it.high;
        let mut estimates = 0.0;
        let ratios = self.share(cases, |it| {
            let [a, b] = [0, 1].map(|at| it.repeats(1_000 * at as u32, repeats[at], sigmas[at]));
            estimates += f64::from(u8::from(holds(Estimate::of(&a).unwrap().interval.unwrap()))) / f64::from(cases);
            holds(Ratio::of(&a, &b).unwrap().interval.unwrap())
        });
        (ratios, estimates)
    }

    /// Returns the share of comparisons of equal contestants in which any pair differs significantly.
    pub fn false_families(&mut self, cases: u32, contestants: usize, repeats: u32) -> f64 {
        self.share(cases, |it| {
            let all: Vec<_> = (0..contestants).map(|at| it.repeats(1_000 * at as u32, repeats, SIGMA)).collect();
            let family = Family::of(&all);
            let differs = |(a, b)| family.ratio(a, b).is_some_and(|ratio| ratio.differs_from_one());
            (0..contestants).flat_map(|a| (0..a).map(move |b| (a, b))).any(differs)
        })
    }

    /// Returns the share of joint intervals of equal peaks that miss 1. All other cells are lower by `below`.
    pub fn false_peaks(&mut self, cases: u32, cells: u32, repeats: u32, below: f64) -> f64 {
        self.share(cases, |it| {
            let mut side = |first: u32| -> Vec<Vec<Block>> {
                let lower = |at: u32| if at == 0 { 1.0 } else { 1.0 - below };
                let cell = |at: u32, blocks: Vec<Block>| {
                    blocks.into_iter().map(|it| Block { value: it.value * lower(at), ..it }).collect()
                };
                (0..cells).map(|at| cell(at, it.repeats(first + 1_000 * at, repeats, SIGMA))).collect()
            };
            let (ours, theirs) = (side(0), side(1_000_000));
            let interval = ratio_of_peaks(&ours, &theirs).unwrap().interval.unwrap();
            interval.low > 1.0 || interval.high < 1.0
        })
    }

    /// Returns the share of reports with any significant difference among equal contestants, after looks that end once all
    /// pairs are decided, and the mean number of looks.
    pub fn false_reports(&mut self, cases: u32, blocks: u32, rho: f64, margin: f64) -> (f64, f64) {
        let mut looks = 0.0;
        let share = self.share(cases, |it| {
            let mut series = Looks::new(CONTESTANTS, margin);
            let mut all = vec![Vec::new(); CONTESTANTS];
            for look in 0..LOOKS_MAX {
                let heat = it.heat(CONTESTANTS, look, blocks, rho);
                all.iter_mut().zip(heat).for_each(|(all, blocks)| all.extend(blocks));
                series.look(&all);
                looks += 1.0 / f64::from(cases);
                if series.is_decided() {
                    break;
                }
            }
            let family = Family::of(&all);
            series.pairs().iter().any(|pair| family.ratio(pair.one, pair.other).is_some_and(|it| it.differs_from_one()))
        });
        (share, looks)
    }

    /// Returns the shares of series with a false separation, and with a false equality of two contestants at the margin.
    pub fn false_decisions(&mut self, cases: u32, looks: u32, blocks: u32, rho: f64, margin: f64) -> (f64, f64) {
        let mut equalities = 0.0;
        let separations = self.share(cases, |it| {
            let mut series = Looks::new(CONTESTANTS, 0.0);
            let mut apart = Looks::new(CONTESTANTS, margin);
            let mut all = vec![Vec::new(); CONTESTANTS];
            for look in 0..looks {
                let heat = it.heat(CONTESTANTS, look, blocks, rho);
                all.iter_mut().zip(heat).for_each(|(all, blocks)| all.extend(blocks));
                series.look(&all);
                // Half of the contestants take longer by exactly the margin.
                let longer = |(at, blocks): (usize, &Vec<Block>)| -> Vec<Block> {
                    let factor = if at % 2 == 0 { 1.0 + margin } else { 1.0 };
                    blocks.iter().map(|it| Block { value: it.value * factor, ..*it }).collect()
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
