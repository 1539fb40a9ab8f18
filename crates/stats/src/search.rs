//! Search for a capacity, the highest rate at which a goal is met. Each probe is a trial at one rate that met the goal or not.
//! Near the capacity the result is random, and other processes may disturb any probe. The search therefore keeps a probability
//! for each possible capacity (probabilistic bisection: Horstein 1963; Waeber, Frazier and Henderson 2013). It also infers how
//! often probes are wrong, as psychophysics does for thresholds (Kontsevich and Tyler 1999).
//!
//! With capacity c, a probe at rate r meets the goal with probability
//! `FALSE_MET + (1 - disturbed - FALSE_MET) / (1 + exp(ln(r / c) / width))`: about half the time if r = c and `disturbed` = 0.

use crate::interval::Interval;

/// The probability that a probe far above the capacity meets the goal by chance.
const FALSE_MET: f64 = 0.01;
/// The possible shares of disturbed probes, equally probable at first.
const DISTURBED: [f64; 3] = [0.01, 0.07, 0.2];
/// The possible values of `width`, in natural logarithms of the rate. Over 2.2 widths, the probability falls from 75 % to 25 %.
const WIDTHS: [f64; 5] = [0.005, 0.012, 0.03, 0.07, 0.16];
/// The number of octaves beyond each end of the bracket in which the capacity may be.
const OCTAVES_BESIDE: f64 = 3.0;
/// The prior weight of each octave beyond the bracket, relative to the octave before.
const OCTAVE_WEIGHT: f64 = 0.25;
/// The number of rate steps within the requested precision.
const STEPS_IN_PRECISION: f64 = 4.0;
/// The probability that an interval covers the capacity.
const LEVEL: f64 = 0.95;
/// The halvings of a range of octaves that find a rate to four digits.
const HALVINGS: u32 = 20;
/// The quantiles of the capacity to probe in turn. The median locates the capacity best; the other quantiles show `width`.
const QUANTILES: [f64; 3] = [0.5, 0.25, 0.75];
/// The minimum number of probes after the bracket for a precise interval.
const PROBES_MIN: usize = 6;

/// The range and the precision of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The first rate.
    pub from: f64,
    /// The lowest rate to try.
    pub least: f64,
    /// The highest rate to try.
    pub most: f64,
    /// The maximum distance between the estimate and either end of its interval, as a share of the estimate.
    pub precision: f64,
}

/// The state of a search. It depends only on the bounds and the probes.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    probes: Vec<Probe>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    rate: f64,
    met: bool,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Doubles or halves the rate. Keeps the highest rate that met the goal and the lowest that did not.
    Bracket {
        rate: f64,
        met: Option<f64>,
        unmet: Option<f64>,
    },
    /// Refines the estimate within and near the bracket.
    Refine(Posterior),
    End(End),
}

/// The reason why there is no bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The highest rate met the goal.
    AllMet,
    /// The lowest rate did not meet the goal.
    NoneMet,
}

/// An estimated capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// The median of its distribution.
    pub rate: f64,
    /// The interval that covers the capacity with a probability of 95 %.
    pub interval: Interval,
}

impl Search {
    /// A search without probes.
    pub fn new(bounds: Bounds) -> Self {
        let rate = bounds.from.clamp(bounds.least, bounds.most);
        Self { bounds, probes: Vec::new(), stage: Stage::Bracket { rate, met: None, unmet: None } }
    }

    /// Returns the rate of the next probe; `None` if the search ended at a bound.
    pub fn next(&self) -> Option<f64> {
        match &self.stage {
            Stage::Bracket { rate, .. } => Some(*rate),
            Stage::Refine(posterior) => {
                let quantile = QUANTILES[posterior.probes % QUANTILES.len()];
                Some(rounded(posterior.quantile(quantile)).clamp(self.bounds.least, self.bounds.most))
            }
            Stage::End(_) => None,
        }
    }

    /// Adds the outcome of a probe.
    pub fn add(&mut self, rate: f64, met: bool) {
        let probe = Probe { rate, met };
        self.probes.push(probe);
        match &mut self.stage {
            Stage::Bracket { .. } => self.stage = self.bracket(probe),
            Stage::Refine(posterior) => posterior.add(probe),
            Stage::End(_) => {}
        }
    }

    fn bracket(&self, probe: Probe) -> Stage {
        let Stage::Bracket { rate, mut met, mut unmet } = self.stage else {
            unreachable!("called only while the rate is bracketed")
        };
        let before = self.probes.len().checked_sub(2).map(|at| self.probes[at]);
        if probe.met {
            met = Some(rate);
        } else if before == Some(probe) {
            unmet = Some(rate);
        } else {
            // Another process may have disturbed the probe, so repeat it.
            return Stage::Bracket { rate, met, unmet };
        }
        let Bounds { least, most, precision, .. } = self.bounds;
        match (met, unmet) {
            (Some(met), Some(unmet)) => {
                let mut posterior = Posterior::new(met, unmet, precision);
                self.probes.iter().for_each(|probe| posterior.add(*probe));
                posterior.probes = 0;
                Stage::Refine(posterior)
            }
            (Some(_), None) if rate >= most => Stage::End(End::AllMet),
            (None, Some(_)) if rate <= least => Stage::End(End::NoneMet),
            (Some(_), None) => Stage::Bracket { rate: (2.0 * rate).min(most), met, unmet },
            _ => Stage::Bracket { rate: (rate / 2.0).max(least), met, unmet },
        }
    }

    /// Returns the bound at which the search ended.
    pub fn end(&self) -> Option<End> {
        if let Stage::End(end) = self.stage { Some(end) } else { None }
    }

    /// Returns the current estimate; `None` before there is a bracket.
    pub fn capacity(&self) -> Option<Capacity> {
        let Stage::Refine(posterior) = &self.stage else { return None };
        let tail = (1.0 - LEVEL) / 2.0;
        let (low, high) = (posterior.quantile(tail), posterior.quantile(1.0 - tail));
        Some(Capacity { rate: posterior.quantile(0.5), interval: Interval { low, high } })
    }

    /// Returns the rate at which a probe meets the goal with a probability of 95 %, unless it is disturbed; `None` before there is a
    /// bracket. At the capacity half of the probes do.
    pub fn holds(&self) -> Option<f64> {
        if let Stage::Refine(posterior) = &self.stage { Some(posterior.holds()) } else { None }
    }

    /// Tests whether the interval has the requested precision.
    pub fn is_precise(&self) -> bool {
        let Stage::Refine(posterior) = &self.stage else { return false };
        let factor = 1.0 + self.bounds.precision;
        posterior.probes >= PROBES_MIN
            && self
                .capacity()
                .is_some_and(|it| it.interval.high <= it.rate * factor && it.interval.low >= it.rate / factor)
    }
}

/// Rounds to four significant digits: readable, and finer than any requested precision.
fn rounded(rate: f64) -> f64 {
    let scale = 10f64.powf(3.0 - rate.log10().floor());
    (rate * scale).round() / scale
}

/// Joint probability of capacity, `width` and share of disturbed probes.
#[derive(Clone, Debug)]
struct Posterior {
    /// Natural logarithm of the first capacity, then the step to the next one.
    first: f64,
    step: f64,
    /// For each width and share of disturbed probes, the weights by capacity.
    weights: Vec<Vec<f64>>,
    /// Weights of the capacities alone, with a sum of 1.
    marginal: Vec<f64>,
    probes: usize,
}

impl Posterior {
    /// The prior: uniform over the logarithm of the rate within the bracket, decreasing outside.
    fn new(met: f64, unmet: f64, precision: f64) -> Self {
        let octave = std::f64::consts::LN_2;
        let (low, high) = (met.ln(), unmet.ln());
        let (first, last) = (low - OCTAVES_BESIDE * octave, high + OCTAVES_BESIDE * octave);
        let step = (1.0 + precision).ln() / STEPS_IN_PRECISION;
        let count = ((last - first) / step).ceil() as usize + 1;
        let prior: Vec<f64> = (0..count)
            .map(|at| {
                let log = first + step * at as f64;
                let beyond = (low - log).max(log - high).max(0.0);
                OCTAVE_WEIGHT.powf(beyond / octave)
            })
            .collect();
        let weights = vec![prior; WIDTHS.len() * DISTURBED.len()];
        let mut posterior = Self { first, step, weights, marginal: vec![0.0; count], probes: 0 };
        posterior.normalise();
        posterior
    }

    fn add(&mut self, probe: Probe) {
        self.probes += 1;
        let beyond = (probe.rate.ln() - self.first) / self.step;
        let count = self.marginal.len();
        for (width, of_width) in WIDTHS.iter().zip(self.weights.chunks_mut(DISTURBED.len())) {
            let steps_in_width = width / self.step;
            let undisturbed: Vec<f64> =
                (0..count).map(|at| 1.0 / (1.0 + ((beyond - at as f64) / steps_in_width).exp())).collect();
            for (disturbed, weights) in DISTURBED.iter().zip(of_width) {
                for (weight, undisturbed) in weights.iter_mut().zip(&undisturbed) {
                    let met = FALSE_MET + (1.0 - disturbed - FALSE_MET) * undisturbed;
                    *weight *= if probe.met { met } else { 1.0 - met };
                }
            }
        }
        self.normalise();
    }

    fn normalise(&mut self) {
        self.marginal.fill(0.0);
        for weights in &self.weights {
            self.marginal.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
        let total: f64 = self.marginal.iter().sum();
        self.marginal.iter_mut().for_each(|weight| *weight /= total);
        self.weights.iter_mut().flatten().for_each(|weight| *weight /= total);
    }

    /// Returns the rate at which an undisturbed probe meets the goal with the probability [`LEVEL`].
    fn holds(&self) -> f64 {
        let met = |log: f64| -> f64 {
            let of_widths = WIDTHS.iter().zip(self.weights.chunks(DISTURBED.len())).map(|(width, of_width)| {
                let met = |at: usize| 1.0 / (1.0 + ((log - self.first - self.step * at as f64) / width).exp());
                of_width
                    .iter()
                    .map(|weights| weights.iter().enumerate().map(|(at, it)| it * met(at)).sum::<f64>())
                    .sum::<f64>()
            });
            of_widths.sum()
        };
        let (mut low, mut high) = (self.first, self.quantile(0.5).ln());
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            *(if met(middle) >= LEVEL { &mut low } else { &mut high }) = middle;
        }
        low.exp()
    }

    fn quantile(&self, quantile: f64) -> f64 {
        let mut so_far = 0.0;
        let at = self.marginal.iter().position(|weight| {
            so_far += weight;
            so_far >= quantile
        });
        let at = at.unwrap_or(self.marginal.len() - 1);
        // Interpolate as if the weight were uniform over the step.
        let part = (1.0 - (so_far - quantile) / self.marginal[at]).clamp(0.0, 1.0);
        (self.first + self.step * (at as f64 - 0.5 + part)).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const BOUNDS: Bounds = Bounds { from: 1_000.0, least: 10.0, most: 1e6, precision: 0.05 };

    /// Searches until the result is precise or the probes are used up. Returns the search and the number of probes.
    fn search(bounds: Bounds, probes_max: usize, mut probe: impl FnMut(f64) -> bool) -> (Search, usize) {
        let mut search = Search::new(bounds);
        for probes in 0..probes_max {
            if search.is_precise() {
                return (search, probes);
            }
            let Some(rate) = search.next() else { return (search, probes) };
            search.add(rate, probe(rate));
        }
        (search, probes_max)
    }

    /// Simulates a server whose 99th percentile rises as in a queue. Each measurement has an error, and a share of
    /// probes is disturbed. Returns the server's capacity and the function that probes it.
    fn simulated(seed: u64, disturbed: f64) -> (f64, impl FnMut(f64) -> bool) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // The server's saturation: from 1/30 of the first rate to 300 times that rate.
        let full: f64 = 1_000.0 * (-3.4 + 9.1 * random.random::<f64>()).exp();
        // Idle latency as a share of the limit. A low share makes a sharp edge, a high share a slope.
        let idle = 0.02 + 0.6 * random.random::<f64>();
        let error = 0.02 + 0.3 * random.random::<f64>();
        let capacity = full * (1.0 - idle);
        let probe = move |rate: f64| {
            let normal = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt()
                * (2.0 * std::f64::consts::PI * random.random::<f64>()).cos();
            let neighbour = if random.random::<f64>() < disturbed { 10.0 } else { 1.0 };
            rate < full && idle / (1.0 - rate / full) * (error * normal).exp() * neighbour <= 1.0
        };
        (capacity, probe)
    }

    #[cfg_attr(miri, ignore = "thousands of simulated runs")]
    #[test]
    fn interval_covers_the_capacity_of_noisy_servers() {
        for disturbed in [0.0, 0.1] {
            let (mut held, mut precise, mut probes) = (0, 0, 0);
            for seed in 0..1_000 {
                let (capacity, probe) = simulated(seed, disturbed);
                let (search, used) = search(BOUNDS, 60, probe);
                let interval = search.capacity().map(|it| it.interval);
                held += u32::from(interval.is_some_and(|it| it.low <= capacity && capacity <= it.high));
                precise += u32::from(search.is_precise());
                probes += used;
            }
            println!("{disturbed} disturbed: {held} held, {precise} precise, {} probes each", probes as f64 / 1e3);
            assert!(
                held >= 900,
                "only {held} of 1000 intervals cover the capacity, with a share of {disturbed} disturbed"
            );
            assert!(
                precise >= 400,
                "only {precise} of 1000 searches are precise, with a share of {disturbed} disturbed"
            );
        }
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn sharp_capacity_is_found_in_few_probes() {
        let (search, probes) = search(BOUNDS, 100, |rate| rate <= 7_300.0);
        let Capacity { rate, interval } = search.capacity().unwrap();
        let holds = search.holds().unwrap();
        assert!(holds < rate && holds > 0.85 * 7_300.0, "a sharp edge holds nearly as much: {holds}");
        assert!(search.is_precise() && interval.low <= 7_300.0 && 7_300.0 <= interval.high, "{interval:?}");
        assert!((rate / 7_300.0).ln().abs() < 0.05 && probes < 25, "estimate {rate} after {probes} probes");
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn rate_that_holds_is_met_by_almost_all_probes() {
        let mut shares = Vec::new();
        for seed in 0..30 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let met = |rate: f64, random: &mut Xoshiro256PlusPlus| {
                random.random::<f64>() < 1.0 / (1.0 + ((rate / 7_300.0f64).ln() / 0.03).exp())
            };
            let (search, _) = search(BOUNDS, 60, |rate| met(rate, &mut random));
            let holds = search.holds().unwrap();
            shares.push((0..200).filter(|_| met(holds, &mut random)).count() as f64 / 200.0);
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((0.92..0.99).contains(&mean), "{mean}");
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn one_disturbed_probe_does_not_mislead() {
        for at in 0..20 {
            let mut count = 0;
            let (search, _) = search(BOUNDS, 100, |rate| {
                count += 1;
                rate <= 7_300.0 && count - 1 != at
            });
            let interval = search.capacity().unwrap().interval;
            assert!(interval.low <= 7_300.0 && 7_300.0 <= interval.high, "disturbed at {at}: {interval:?}");
        }
    }

    #[test]
    fn search_ends_at_the_bounds_of_the_range() {
        let (all, probes) = search(Bounds { most: 3_000.0, ..BOUNDS }, 100, |_| true);
        assert_eq!((all.end(), all.next(), probes), (Some(End::AllMet), None, 3), "the rates are 1000, 2000 and 3000");
        let (none, _) = search(BOUNDS, 100, |_| false);
        assert_eq!((none.end(), none.next(), none.capacity()), (Some(End::NoneMet), None, None));
    }

    proptest! {
        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn next_rate_is_in_the_range_for_any_outcomes(outcomes in prop::collection::vec(any::<bool>(), 1..60)) {
            let mut search = Search::new(BOUNDS);
            for met in outcomes {
                let Some(rate) = search.next() else { break };
                prop_assert!((BOUNDS.least..=BOUNDS.most).contains(&rate), "{}", rate);
                search.add(rate, met);
                if let Some(Capacity { rate, interval }) = search.capacity() {
                    prop_assert!(0.0 < interval.low && interval.low <= rate && rate <= interval.high);
                }
            }
            if let (Some(Capacity { rate, .. }), Some(holds)) = (search.capacity(), search.holds()) {
                prop_assert!(0.0 < holds && holds <= rate, "{} of {}", holds, rate);
            }
        }
    }
}
