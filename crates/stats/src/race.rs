//! Races: which of many contestants is best, if each repeat tests only those that may still be (successive elimination).
//!
//! A score is the logarithm of a figure of one trial; lower is better. The contestants of a heat share the speed of the host, so a
//! score is modelled as the contestant's effect, plus the effect of the heat, plus noise. The noise includes how starts of one server
//! differ, which no part of a window shows. All contestants together estimate it, because each has few repeats.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ratio::Ratio;
use crate::repeats::{ALPHA_OF_SIDE, Mean, Spread};
use crate::sequential::level;
use crate::significance::student_t_two_sided;

/// The variance of noise as a multiple of the variance between heats. Heats with common contestants then hardly borrow from this
/// assumption; contestants that never meet are compared across heats, with a wide interval.
const NOISE_PER_HEAT: f64 = 1.0 / 16.0;

/// The number of draws for the probability to be best; its standard error is at most 0.8 %.
const DRAWS: u32 = 4_000;

/// A score of a contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The number of the contestant.
    pub contestant: usize,
    /// The heat.
    pub heat: u32,
    /// The logarithm of the figure; lower is better.
    pub value: f64,
}

/// The sum of squared residuals, and its degrees of freedom.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    squares: f64,
    freedom: f64,
}

/// The effects of contestants, estimated from scores of different heats.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The contestants with scores, in ascending order.
    contestants: Vec<usize>,
    effects: Vec<f64>,
    /// The covariance of the effects for noise of variance 1.
    covariance: Vec<Vec<f64>>,
    /// The factor by which each contestant is noisier than all together, at least 1.
    excess_noise: Vec<f64>,
    noise: Noise,
}

impl Fit {
    /// Fits scores by least squares. The effects of heats are random, with four times the standard deviation of noise. `other` is noise
    /// from other scores of the same figure, which counts too.
    pub fn of(scores: &[Score], other: Noise) -> Self {
        let distinct = |values: &mut dyn Iterator<Item = u32>| {
            let mut values: Vec<u32> = values.collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let contestants = distinct(&mut scores.iter().map(|score| score.contestant as u32));
        let heats = distinct(&mut scores.iter().map(|score| score.heat));
        let place = |score: &Score| {
            let contestant = contestants.binary_search(&(score.contestant as u32));
            [contestant, heats.binary_search(&score.heat)].map(|it| it.expect("the list has all values"))
        };
        let count = contestants.len();
        let mut of_heat = vec![vec![0.0; count]; heats.len()];
        let (mut own, mut heat_sums) = (vec![0.0; count], vec![0.0; heats.len()]);
        for score in scores {
            let [contestant, heat] = place(score);
            of_heat[heat][contestant] += 1.0;
            own[contestant] += score.value;
            heat_sums[heat] += score.value;
        }
        // The normal equations, without the effects of heats: A x = own.
        let mut normal = vec![vec![0.0; count]; count];
        for (entries, sum) in of_heat.iter().zip(&heat_sums) {
            let weight = 1.0 / (entries.iter().sum::<f64>() + NOISE_PER_HEAT);
            for one in 0..count {
                normal[one][one] += entries[one];
                own[one] -= weight * entries[one] * sum;
                (0..count).for_each(|other| normal[one][other] -= weight * entries[one] * entries[other]);
            }
        }
        let covariance = inverse(normal);
        let effects: Vec<f64> = covariance.iter().map(|row| dot(row, &own)).collect();
        let of_heats: Vec<f64> = of_heat
            .iter()
            .zip(&heat_sums)
            .map(|(entries, sum)| (sum - dot(entries, &effects)) / (entries.iter().sum::<f64>() + NOISE_PER_HEAT))
            .collect();
        let mut squares = vec![0.0; count];
        for score in scores {
            let [contestant, heat] = place(score);
            squares[contestant] += (score.value - effects[contestant] - of_heats[heat]).powi(2);
        }
        let freedom = scores.len() as f64 - (count + heats.len()) as f64 + 1.0;
        let is_known = freedom >= 1.0;
        let noise = Noise {
            squares: other.squares + if is_known { squares.iter().sum() } else { 0.0 },
            freedom: other.freedom + if is_known { freedom } else { 0.0 },
        };
        let total = |contestant: usize| of_heat.iter().map(|entries| entries[contestant]).sum::<f64>();
        let excess_noise = |contestant: usize| {
            // The residuals share the degrees of freedom as the scores do.
            let share = freedom * total(contestant) / scores.len() as f64;
            let ratio = squares[contestant] / share / noise.variance().unwrap_or(0.0);
            if is_known && ratio.is_finite() { ratio.max(1.0) } else { 1.0 }
        };
        Self {
            excess_noise: (0..count).map(excess_noise).collect(),
            contestants: contestants.iter().map(|&it| it as usize).collect(),
            effects,
            covariance,
            noise,
        }
    }

    /// Returns the noise of all scores.
    pub fn noise(&self) -> Noise {
        self.noise
    }

    /// Returns the mean score of a contestant, in a heat of mean speed; `None` without scores.
    pub fn effect(&self, contestant: usize) -> Option<f64> {
        Some(self.mean(contestant)?.value)
    }

    /// Returns the ratio of one contestant's figure to another's; `None` if either has no score.
    pub fn ratio(&self, of: usize, to: usize) -> Option<Ratio> {
        Some(self.difference(of, to)?.into())
    }

    /// Tests whether one contestant is worse than another by more than `margin`, a difference of scores, with the probability `alpha`
    /// of an error, at most [`ALPHA_OF_SIDE`]: so the interval of their ratio excludes 1 if one is worse.
    pub fn is_worse(&self, one: usize, other: usize, margin: f64, alpha: f64) -> bool {
        self.difference(one, other).is_some_and(|it| is_above(it, margin, alpha.min(ALPHA_OF_SIDE)))
    }

    /// Tests whether the scores of two contestants differ by less than `margin`, with the probability `alpha` of an error: two one-sided
    /// tests (Schuirmann 1987).
    pub fn are_within(&self, one: usize, other: usize, margin: f64, alpha: f64) -> bool {
        let is_less = |one, other| {
            self.difference(one, other).is_some_and(|it| is_above(Mean { value: -it.value, ..it }, -margin, alpha))
        };
        is_less(one, other) && is_less(other, one)
    }

    /// Tests whether a contestant's score exceeds a limit, with the probability `alpha` of an error.
    pub fn exceeds(&self, contestant: usize, limit: f64, alpha: f64) -> bool {
        self.mean(contestant).is_some_and(|it| is_above(it, limit, alpha))
    }

    /// Tests whether a contestant's score is below a limit, with the probability `alpha` of an error.
    pub fn is_below(&self, contestant: usize, limit: f64, alpha: f64) -> bool {
        self.mean(contestant).is_some_and(|it| is_above(Mean { value: -it.value, ..it }, -limit, alpha))
    }

    /// Returns the probability of each contestant that no other of these is better by more than `margin`, a difference of scores, from
    /// draws of their joint t distribution. `None` if the noise is unknown or a contestant has no score.
    pub fn probabilities(&self, among: &[usize], margin: f64) -> Option<Vec<f64>> {
        let at: Vec<usize> = among.iter().map(|it| self.contestants.binary_search(it).ok()).collect::<Option<_>>()?;
        let variance = self.noise.variance()?;
        let scale = |one: usize| (variance * self.excess_noise[one]).sqrt();
        let covariance = |one: usize, other: usize| self.covariance[one][other] * scale(one) * scale(other);
        let root =
            cholesky(&at.iter().map(|&one| at.iter().map(|&it| covariance(one, it)).collect()).collect::<Vec<_>>());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut wins = vec![0u32; at.len()];
        for _ in 0..DRAWS {
            // A chi-squared value by Wilson and Hilferty (1931): exact sums would take as many draws as degrees of freedom.
            let ninth = 2.0 / (9.0 * self.noise.freedom);
            let chi_squared = (1.0 - ninth + normal(&mut random) * ninth.sqrt()).max(0.05).powi(3);
            let draws: Vec<f64> = at.iter().map(|_| normal(&mut random) / chi_squared.sqrt()).collect();
            let values = at.iter().zip(&root).map(|(&it, row)| self.effects[it] + dot(row, &draws));
            let values: Vec<f64> = values.collect();
            let best = values.iter().copied().fold(f64::INFINITY, f64::min);
            for (wins, value) in wins.iter_mut().zip(values) {
                *wins += u32::from(value <= best + margin);
            }
        }
        Some(wins.into_iter().map(|wins| f64::from(wins) / f64::from(DRAWS)).collect())
    }

    fn mean(&self, contestant: usize) -> Option<Mean> {
        let at = self.contestants.binary_search(&contestant).ok()?;
        Some(Mean { value: self.effects[at], spread: self.spread(self.covariance[at][at] * self.excess_noise[at]) })
    }

    fn difference(&self, one: usize, other: usize) -> Option<Mean> {
        let [one, other] = [one, other].map(|it| self.contestants.binary_search(&it).ok());
        let (one, other) = (one?, other?);
        let variance = self.covariance[one][one] + self.covariance[other][other] - 2.0 * self.covariance[one][other];
        let excess = self.excess_noise[one].max(self.excess_noise[other]);
        Some(Mean { value: self.effects[one] - self.effects[other], spread: self.spread(variance * excess) })
    }

    fn spread(&self, variance: f64) -> Option<Spread> {
        let error = (self.noise.variance()? * variance.max(0.0)).sqrt();
        Some(Spread { error, freedom: self.noise.freedom })
    }
}

impl Noise {
    fn variance(self) -> Option<f64> {
        (self.freedom > 0.0).then(|| self.squares / self.freedom)
    }
}

/// Tests whether a mean is above a limit: a one-sided t test.
fn is_above(mean: Mean, limit: f64, alpha: f64) -> bool {
    let Some(Spread { error, freedom }) = mean.spread else { return false };
    let distance = mean.value - limit;
    distance > 0.0 && (error == 0.0 || student_t_two_sided(distance / error, freedom) / 2.0 <= alpha)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns a standard normal value (Box and Muller's transform).
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt() * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// Inverts a positive definite matrix (Gauss and Jordan's elimination, which then needs no exchange of rows).
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = matrix.len();
    for pivot in 0..count {
        let scale = 1.0 / matrix[pivot][pivot];
        matrix[pivot][pivot] = 1.0;
        matrix[pivot].iter_mut().for_each(|it| *it *= scale);
        let of_pivot = matrix[pivot].clone();
        for row in (0..count).filter(|row| *row != pivot) {
            let factor = std::mem::take(&mut matrix[row][pivot]);
            matrix[row].iter_mut().zip(&of_pivot).for_each(|(it, of_pivot)| *it -= factor * of_pivot);
        }
    }
    matrix
}

/// Returns the lower triangular root of a covariance.
fn cholesky(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = matrix.len();
    let mut root = vec![vec![0.0; count]; count];
    for one in 0..count {
        for other in 0..=one {
            let rest = matrix[one][other] - dot(&root[one][..other], &root[other][..other]);
            root[one][other] = match other == one {
                true => rest.max(0.0).sqrt(),
                false if root[other][other] > 0.0 => rest / root[other][other],
                false => 0.0,
            };
        }
    }
    root
}

/// A limit of a race: the scores of its figure, and the highest permitted score.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The effects of contestants on the figure.
    pub fit: Fit,
    /// The highest permitted score.
    pub max: f64,
}

/// The state of a contestant in a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may be the best.
    In,
    /// It is worse than another contestant by more than the margin.
    Worse,
    /// It exceeds the limit with this number.
    Exceeds(usize),
}

/// All looks at a race. The probability that the best contestant is ever eliminated is at most 5 %.
///
/// Look k spends a part of it (see [`level`]). The best contestant is eliminated only if a test of it against one of the others errs,
/// or a test of a limit does. So these tests divide the part (Bonferroni). Contestants that are not known to be within all limits
/// eliminate no others.
#[derive(Clone, Debug)]
pub struct Race {
    margin: f64,
    looks: u32,
    standings: Vec<Standing>,
}

impl Race {
    /// Starts without a look. Contestants whose scores differ by at most `margin` do not eliminate each other.
    pub fn new(contestants: usize, margin: f64) -> Self {
        Self { margin, looks: 0, standings: vec![Standing::In; contestants] }
    }

    /// Looks at the scores so far. A contestant that an earlier look eliminated stays out.
    pub fn look(&mut self, fit: &Fit, limits: &[Limit]) -> &[Standing] {
        self.looks += 1;
        let count = self.standings.len();
        let alpha = self.alpha(limits.len());
        let is_in = |standing: &Standing| *standing == Standing::In;
        for (contestant, standing) in self.standings.iter_mut().enumerate().filter(|(_, it)| is_in(it)) {
            let exceeded = limits.iter().position(|limit| limit.fit.exceeds(contestant, limit.max, alpha));
            exceeded.into_iter().for_each(|limit| *standing = Standing::Exceeds(limit));
        }
        let is_within = |&it: &usize| limits.iter().all(|limit| limit.fit.is_below(it, limit.max, alpha));
        let rivals: Vec<usize> = (0..count).filter(|&it| is_in(&self.standings[it])).filter(is_within).collect();
        let is_worse =
            |it: usize| rivals.iter().any(|&rival| rival != it && fit.is_worse(it, rival, self.margin, alpha));
        let worse: Vec<usize> = (0..count).filter(|&it| is_in(&self.standings[it]) && is_worse(it)).collect();
        worse.into_iter().for_each(|it| self.standings[it] = Standing::Worse);
        &self.standings
    }

    /// Returns the probability of an error in each test of the last look.
    pub fn alpha(&self, limits: usize) -> f64 {
        let count = self.standings.len();
        level(self.looks.max(1)) / (count.saturating_sub(1) + count * limits).max(1) as f64
    }

    /// Returns the state of each contestant.
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }
}

#[cfg(test)]
mod tests;
