//! Repeated looks at how much worse one build of a server is than another: by more than a limit, or by less.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::repeats::{self, Estimate, Mean, Spread};
use crate::sequential::level;

/// The number of repeats before the first look. Fewer decide nothing.
pub const REPEATS_MIN: u32 = repeats::REPEATS_MIN as u32;

/// The knowledge about a figure of two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Excess {
    /// The new build is worse by more than the limit.
    Beyond,
    /// The new build is better, equal, or worse by less than the limit.
    Within,
    /// More repeats are needed.
    Open,
}

/// All looks at the figures of two builds. A difference is how much worse the new build was in one repeat.
///
/// Over all looks and figures, the probability of a false [`Excess::Beyond`] is at most 5 %: look k spends a part of it (see
/// [`level`]), which the figures divide evenly. A build passes only if all its figures are within their limits. So it passes
/// falsely only if the test of a figure beyond its limit errs, and these tests need no division (Berger 1982).
///
/// Repeats are independent: each starts both servers anew. So one-sided t tests compare the trimmed mean of the differences with its
/// limit. A pause of the host in one repeat then does not hide a difference. Each end of the interval in [`Self::estimates`] is that of
/// a test: a figure is decided if, and only if, its limit is outside.
#[derive(Clone, Debug)]
pub struct ExcessLooks {
    limits: Vec<f64>,
    looks: u32,
    decisions: Vec<Excess>,
    estimates: Vec<Option<Estimate>>,
}

impl ExcessLooks {
    /// Starts without a look.
    pub fn new(limits: Vec<f64>) -> Self {
        let (decisions, estimates) = (vec![Excess::Open; limits.len()], vec![None; limits.len()]);
        Self { limits, looks: 0, decisions, estimates }
    }

    /// Looks at all differences so far, of each figure. A decision of an earlier look stays.
    pub fn look(&mut self, differences: &[Vec<f64>]) -> &[Excess] {
        self.looks += 1;
        let alpha = level(self.looks);
        let figures = self.limits.len() as f64;
        for (at, values) in differences.iter().enumerate() {
            if self.decisions[at] == Excess::Open {
                self.estimates[at] = estimate(values, alpha, figures);
                let interval = self.estimates[at].and_then(|it| it.interval);
                self.decisions[at] = match interval {
                    Some(it) if it.low > self.limits[at] => Excess::Beyond,
                    Some(it) if it.high < self.limits[at] => Excess::Within,
                    _ => Excess::Open,
                };
            }
        }
        &self.decisions
    }

    /// Returns the knowledge after the last look.
    pub fn decisions(&self) -> &[Excess] {
        &self.decisions
    }

    /// Returns the trimmed mean of the differences of each figure and the interval that decides, of the look that decided the figure or
    /// else the last one.
    pub fn estimates(&self) -> &[Option<Estimate>] {
        &self.estimates
    }
}

/// Estimates a difference. The lower end of the interval excludes a figure within its limit, with a share of the error for each figure;
/// the upper end a figure beyond it.
fn estimate(differences: &[f64], alpha: f64, figures: f64) -> Option<Estimate> {
    let mean = trimmed_mean(differences)?;
    // Half of the error of a two-sided interval is that of the one-sided test.
    let end = |alpha: f64| mean.interval(2.0 * alpha);
    let interval = end(alpha / figures).zip(end(alpha)).map(|(low, high)| Interval { low: low.low, high: high.high });
    Some(Estimate { value: mean.value, interval })
}

/// Returns the mean without the lowest and the highest fifth of the values, with its standard error from the winsorised variance
/// (Tukey and McLaughlin 1963). `None` without values.
fn trimmed_mean(values: &[f64]) -> Option<Mean> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, cut) = (sorted.len(), sorted.len() / 5);
    let kept = &sorted[cut..count - cut];
    let (lowest, highest) = (*kept.first()?, *kept.last()?);
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let value = mean_of(kept);
    let winsorised: Vec<f64> = sorted.iter().map(|value| value.clamp(lowest, highest)).collect();
    let centre = mean_of(&winsorised);
    let squares: f64 = winsorised.iter().map(|value| (value - centre).powi(2)).sum();
    let spread = (count >= repeats::REPEATS_MIN).then(|| {
        let (all, kept) = (count as f64, kept.len() as f64);
        Spread { error: (squares / (all - 1.0) * all).sqrt() / kept, freedom: kept - 1.0 }
    });
    Some(Mean { value, spread })
}

/// Returns the trimmed mean of values, which estimates a difference; `None` without values.
pub fn centre(values: &[f64]) -> Option<f64> {
    trimmed_mean(values).map(|mean| mean.value)
}

/// Returns the numbers of repeats after which to look: 3, 5, 8, 12, 18, each half as many again. Few looks spend less of the error
/// than a look after each repeat.
pub fn looks() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(REPEATS_MIN), |repeats| Some(repeats + repeats.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(value: f64, repeats: usize) -> Vec<f64> {
        (0..repeats).map(|at| value + 0.001 * (at % 3) as f64 - 0.001).collect()
    }

    #[test]
    fn figures_beyond_within_and_at_their_limits() {
        let mut looks = ExcessLooks::new(vec![0.05; 3]);
        let found = looks.look(&[around(0.1, 12), around(-0.1, 12), around(0.05, 12)]);
        assert_eq!(found, [Excess::Beyond, Excess::Within, Excess::Open]);
        looks.look(&[around(-0.1, 12), Vec::new(), around(0.0, 12)]);
        assert_eq!(looks.decisions(), [Excess::Beyond, Excess::Within, Excess::Within], "decisions stay");
    }

    #[test]
    fn two_repeats_decide_nothing_and_equal_values_everything() {
        let mut looks = ExcessLooks::new(vec![0.05; 3]);
        assert_eq!(looks.look(&[vec![0.5; 2], Vec::new(), vec![0.0; 3]]), [Excess::Open, Excess::Open, Excess::Within]);
    }

    #[test]
    fn trimmed_mean_ignores_outliers() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 100.0];
        let mean = trimmed_mean(&values).unwrap();
        let winsorised = [3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 8.0, 8.0];
        let variance = winsorised.iter().map(|it| (it - 5.5f64).powi(2)).sum::<f64>() / 9.0;
        let error = variance.sqrt() / (0.6 * 10f64.sqrt());
        assert!((mean.value - 5.5).abs() < 1e-12 && centre(&values) == Some(mean.value));
        // t(0.05, 5) = 2.570582.
        let interval = mean.interval(repeats::ALPHA).unwrap();
        assert!((interval.high - 5.5 - 2.570_582 * error).abs() < 1e-5, "{interval:?}");
        assert!(centre(&[]).is_none() && estimate(&[1.0, 2.0], 0.05, 1.0).unwrap().interval.is_none());
    }

    #[test]
    fn interval_excludes_the_limit_of_decided_figures_only() {
        for at in 0..200 {
            let mean = 0.03 + 0.0002 * f64::from(at);
            let values: Vec<f64> = (0..12).map(|repeat| mean + 0.01 * f64::from(repeat * 5 % 7 - 3)).collect();
            let mut looks = ExcessLooks::new(vec![0.05; 4]);
            for _ in 0..3 {
                looks.look(&vec![values.clone(); 4]);
                let Estimate { value, interval } = looks.estimates()[0].unwrap();
                let Interval { low, high } = interval.unwrap();
                let decision = match 0.05 {
                    limit if limit < low => Excess::Beyond,
                    limit if limit > high => Excess::Within,
                    _ => Excess::Open,
                };
                assert!(low < value && value < high && looks.decisions()[0] == decision, "{mean}: {low} to {high}");
            }
        }
    }

    #[test]
    fn looks_are_further_and_further_apart() {
        assert_eq!(looks().take(7).collect::<Vec<_>>(), [3, 5, 8, 12, 18, 27, 41]);
    }
}
