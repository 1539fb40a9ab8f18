//! Claims of papers as statements about stored runs. Nothing is tuned to make a claim hold.
//!
//! # Layout
//! - here: what a claim is made of, as data; the claims themselves are with their paper, in [`crate (the root)`]
//! - `figures`: what runs hold of each architecture under each workload
//! - `decide`: whether a statement holds for them; `render`: how that is shown

mod decide;
mod figures;
mod render;
#[cfg(test)]
mod tests;

use harness::model::{Trial, TrialRecord, VerdictKind, Workload};
use serde::Serialize;
use stats::interval::Interval;

pub use decide::check;
pub(crate) use render::decisive_first;
pub use render::{csv, render};

use report::format;
pub use report::model::axis::Axis;
use report::model::deviation::DeviationOf;
use report::model::stream;

/// One claim of a paper.
#[derive(Debug)]
pub struct Claim {
    /// As the paper's claims are counted here.
    pub number: u32,
    /// It in our words.
    pub says: &'static str,
    /// CPUs without which nothing can be said of it.
    pub cpus_min: usize,
    /// All of them must hold.
    pub statements: &'static [Statement],
}

/// Something is so of some figures.
#[derive(Debug)]
pub struct Statement {
    /// The architectures that it is said of, as plans name them.
    pub architectures: &'static [&'static str],
    /// Their figure.
    pub metric: &'static Metric,
    /// The workloads that it is said of.
    pub only: fn(&Workload) -> bool,
    /// The relation that must hold.
    pub is: Is,
}

/// A relation that a statement claims.
#[derive(Debug)]
pub enum Is {
    /// From one end of the axis to the other it changes by at most this factor, up or down.
    Flat(Axis, f64),
    /// It grows in proportion to the axis: the slope between its ends, on logarithmic scales, is in [`PROPORTIONAL`].
    Proportional(Axis),
    /// From the low end of the axis to the high one it grows by at least this factor.
    Grows(Axis, f64),
    /// Likewise it falls by at least this factor.
    Falls(Axis, f64),
    /// Those of all architectures are within this factor of the first's.
    Alike(f64),
    /// It is at most this.
    AtMost(f64),
    /// It is at least this.
    AtLeast(f64),
    /// Its peak over all workloads is at least this factor above the peak of the best of other architectures.
    Above(f64, &'static [&'static str]),
    /// Its peak over all workloads is within this factor of the peak of the best of other architectures.
    Peaks(f64, &'static [&'static str]),
    /// Trials have this verdict.
    Found(VerdictKind),
}

/// A slope on logarithmic scales that passes for "in proportion".
pub const PROPORTIONAL: std::ops::RangeInclusive<f64> = 0.75..=1.25;

/// A figure of a trial.
#[derive(Debug)]
pub struct Metric {
    /// In words.
    pub name: &'static str,
    /// Its value in a trial; `None` without one.
    pub of: fn(&TrialRecord, &mut DeviationOf<'_>) -> Option<f64>,
    /// The verdicts of trials that count.
    pub counts: fn(VerdictKind) -> bool,
    /// It with its unit.
    pub show: fn(f64) -> String,
}

/// Most metrics count valid trials only.
fn valid(kind: VerdictKind) -> bool {
    kind == VerdictKind::Valid
}

/// Median of t3 − t2, in nanoseconds.
pub static SERVICE_MEDIAN: Metric = Metric {
    name: "median service time",
    of: |record, _| Some(record.load.as_ref()?.service.distribution.p50_ns as f64),
    counts: valid,
    show: format::time,
};

/// From the 1st to the 99th percentile of t3 − t2, in nanoseconds.
pub static SERVICE_SPREAD: Metric = Metric {
    name: "service time from p1 to p99",
    of: |record, _| {
        let load = record.load.as_ref().filter(|load| !load.is_client_tail(0.99))?;
        let service = load.service.distribution;
        Some(service.p99_ns as f64 - service.p1_ns as f64)
    },
    counts: valid,
    show: format::time,
};

/// Mean of t3 − t2, in nanoseconds: the tail weighs in it, so it counts only where that is the server's.
pub static SERVICE_MEAN: Metric = Metric {
    name: "mean service time",
    of: |record, _| Some(record.load.as_ref().filter(|load| !load.is_client_tail(0.99))?.service.distribution.mean_ns),
    counts: valid,
    show: format::time,
};

/// Median of t3 − t1, in nanoseconds.
pub static RESPONSE_MEDIAN: Metric = Metric {
    name: "median response time",
    of: |record, _| Some(record.load.as_ref()?.response.distribution.p50_ns as f64),
    counts: valid,
    show: format::time,
};

/// Median of t2 − t1, in nanoseconds.
pub static LAG_MEDIAN: Metric = Metric {
    name: "median lag",
    of: |record, _| Some(record.load.as_ref()?.lag.distribution.p50_ns as f64),
    counts: valid,
    show: format::time,
};

/// 99th percentile of t2 − t1, in nanoseconds.
pub static LAG_P99: Metric = Metric {
    name: "99th percentile of lag",
    of: |record, _| Some(record.load.as_ref()?.lag.distribution.p99_ns as f64),
    counts: valid,
    show: format::time,
};

/// Responses a second, of a closed loop its transactions. What a saturated server achieves is its rate, too.
pub static RATE: Metric = Metric {
    name: "rate",
    of: |record, _| record.rate_achieved_per_s(),
    counts: |kind| matches!(kind, VerdictKind::Valid | VerdictKind::Saturated),
    show: |per_s| format!("{}/s", format::digits(per_s)),
};

/// Bytes of bursts for each second of the server's CPU time, of streams: it says the same of a server whoever was the limit.
pub static BANDWIDTH_OF_CPU: Metric = Metric {
    name: "bandwidth of a CPU",
    of: |record, _| stream::bytes_per_cpu_s(record),
    counts: |kind| matches!(kind, VerdictKind::Valid | VerdictKind::ClientLimited),
    show: format::bandwidth,
};

/// The time for 10^9 bytes of bursts, in nanoseconds.
pub static GIGABYTE: Metric = Metric {
    name: "time for a gigabyte",
    of: |record, _| Some(1e18 / stream::bytes_per_s(record)?),
    counts: valid,
    show: format::time,
};

/// The share of sends at most 1 µs from the median of all deviations from even intervals.
pub static SENDS_WITHIN_1US: Metric = Metric {
    name: "share of sends within 1 µs",
    of: |record, deviation_of| Some(deviation_of(record).figures?.within_1us_of_median),
    counts: valid,
    show: format::percent,
};

/// The standard deviation of sends from even intervals, in nanoseconds.
pub static SEND_STDDEV: Metric = Metric {
    name: "standard deviation of sends",
    of: |record, deviation_of| Some(deviation_of(record).figures?.stddev_ns),
    counts: valid,
    show: format::time,
};

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every figure there is agrees with it, and there are most of them.
    HoldsHere,
    /// Some figure, its whole interval, is against it. That is a finding.
    DoesNotHoldHere,
    /// There are figures, and the intervals of some are too wide to decide.
    Inconclusive,
    /// This host has too few CPUs, or most figures are missing.
    NotTestableHere,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::HoldsHere => "holds here",
            Self::DoesNotHoldHere => "does not hold here",
            Self::Inconclusive => "inconclusive",
            Self::NotTestableHere => "not testable here",
        }
    }

    /// In words, of more than one claim.
    pub fn words_of_several(self) -> &'static str {
        match self {
            Self::HoldsHere => "hold here",
            Self::DoesNotHoldHere => "do not hold here",
            Self::Inconclusive => "are inconclusive",
            Self::NotTestableHere => "are not testable here",
        }
    }
}

/// A claim, and what runs say of it.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedClaim {
    /// See [`Claim::number`].
    pub number: u32,
    /// See [`Claim::says`].
    pub says: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// Why nothing can be said, or not of everything, where that is so.
    pub reason: Option<String>,
    /// The figures that decided.
    pub findings: Vec<Evidence>,
}

/// One figure that was held against a statement.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The comparison and its workload, with the experiment if two would read the same.
    pub what: String,
    /// The experiment that it is of.
    pub experiment: String,
    /// The value: a ratio, a slope or the metric itself. `None` without data.
    pub value: Option<f64>,
    /// Its 95 % interval over repeats; `None` with fewer than two, where the figure must be [`MARGIN`] beyond a bound.
    ///
    /// [`MARGIN`]: report::model::summary::MARGIN
    pub interval: Option<Interval>,
    /// It in words, beside what it is held against.
    pub words: String,
    /// Whether the statement holds for it; `None` when the interval leaves that open, or nothing was found.
    pub holds: Option<bool>,
}

/// Whether a trial is of what claims are about.
pub fn concern(claims: &[Claim], trial: &Trial) -> bool {
    let name = trial.architecture.to_string();
    let mut statements = claims.iter().flat_map(|claim| claim.statements);
    statements.any(|it| it.architectures.contains(&name.as_str()) && (it.only)(&trial.workload))
}
