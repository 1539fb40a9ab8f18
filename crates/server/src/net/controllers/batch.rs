//! The batching controller of SEDA (Welsh, Culler and Brewer, SOSP 2001, section 4): it looks for the lowest batching factor
//! that keeps the throughput. The rules and numbers are those of `AggThrottle` in SandStorm, the authors' implementation.

use crate::spec::controllers::BatchControl;

/// The weight of older samples in the average throughput.
const SMOOTHING: f64 = 0.7;
/// Samples between two adjustments.
const SAMPLES: u32 = 5;
/// The factor of one adjustment.
const STEP: f64 = 1.2;
/// The shares of the best throughput below which the factor rises, and above which it falls again.
const LOW_SHARE: f64 = 0.9;
const HIGH_SHARE: f64 = 0.98;
/// A throughput outside these multiples of the best one is a change of the load: the factor returns to its highest value.
const DROP: f64 = 0.2;
const SURGE: f64 = 2.0;

/// The state of the controller. It reads no clock.
#[derive(Debug)]
pub(crate) struct Batching {
    control: BatchControl,
    jobs: u32,
    rises: bool,
    average_per_s: f64,
    best_per_s: f64,
    samples: u32,
}

impl Batching {
    pub(crate) fn new(control: BatchControl) -> Self {
        Self { control, jobs: control.jobs_max, rises: false, average_per_s: 0.0, best_per_s: 0.0, samples: 0 }
    }

    /// Adds a sample of the throughput, and returns the batching factor.
    pub(crate) fn sample(&mut self, per_s: f64) -> u32 {
        self.average_per_s = SMOOTHING * self.average_per_s + (1.0 - SMOOTHING) * per_s;
        self.samples += 1;
        if self.samples.is_multiple_of(SAMPLES) {
            self.adjust();
        }
        self.jobs
    }

    fn adjust(&mut self) {
        let (average, best) = (self.average_per_s, self.best_per_s);
        let share = if best > 0.0 { average / best } else { f64::INFINITY };
        if !(DROP..SURGE).contains(&share) {
            (self.jobs, self.rises) = (self.control.jobs_max, false);
        }
        self.best_per_s = best.max(average);
        if self.rises {
            // At the highest factor, the best throughput can no longer be reached: start again from this one.
            if self.jobs == self.control.jobs_max {
                self.best_per_s = average;
            }
            self.rises = average < HIGH_SHARE * self.best_per_s;
        } else {
            self.rises = share <= LOW_SHARE;
        }
        let jobs = f64::from(self.jobs);
        // A step is at least one job, also where rounding would leave the factor as it is.
        let next = if self.rises { (jobs * STEP).ceil() } else { (jobs / STEP).floor() };
        self.jobs = (next as u32).clamp(self.control.jobs_min, self.control.jobs_max);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CONTROL: BatchControl = BatchControl { jobs_min: 4, jobs_max: 100, interval_ns: 1 };

    fn after(batching: &mut Batching, adjustments: u32, per_s: impl Fn(u32) -> f64) -> u32 {
        let mut jobs = 0;
        for _ in 0..adjustments * SAMPLES {
            jobs = batching.sample(per_s(batching.jobs));
        }
        jobs
    }

    #[test]
    fn factor_falls_to_its_minimum_while_throughput_lasts() {
        let mut batching = Batching::new(CONTROL);
        assert_eq!(batching.sample(1_000.0), 100, "the first factor is the highest");
        assert_eq!(after(&mut batching, 60, |_| 1_000.0), 4);
    }

    #[test]
    fn factor_rises_when_a_low_one_costs_throughput() {
        let mut batching = Batching::new(CONTROL);
        // Below 30 jobs the throughput falls in proportion.
        let per_s = |jobs: u32| 1_000.0 * f64::from(jobs.min(30)) / 30.0;
        let mut factors = Vec::new();
        for _ in 0..200 {
            factors.push(after(&mut batching, 1, per_s));
        }
        let later = &factors[60..];
        assert!(later.iter().all(|jobs| (15..=60).contains(jobs)), "{later:?}");
        assert!(later.windows(2).any(|pair| pair[0] < pair[1]) && later.windows(2).any(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn sudden_drop_of_load_resets_the_factor() {
        let mut batching = Batching::new(CONTROL);
        assert_eq!(after(&mut batching, 60, |_| 1_000.0), 4);
        let reset = after(&mut batching, 1, |_| 0.0);
        assert!(reset > 50, "{reset}");
    }
}
