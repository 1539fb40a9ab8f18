//! Claims of papers as statements about stored runs. No threshold is tuned to make a claim hold.
//!
//! - this file: the parts of a claim; `figures`: the values of a metric for each architecture and workload
//! - `decide`: whether a statement holds for the values; `render`: the result as text

mod decide;
mod figures;
mod render;
#[cfg(test)]
mod tests;

use harness::record::{Trial, TrialRecord, VerdictKind, Workload};
use load::LoadResult;
use schemars::JsonSchema;
use serde::Serialize;
use stats::Interval;

use crate::queue;
pub use decide::check;
pub use figures::points;
use harness::record::Figure;
pub(crate) use render::decisive_first;
pub use render::{csv, render};
use report::analysis::balance::Balance;
use report::analysis::deviation::DeviationOf;
pub use report::analysis::dimension::Dimension;
use report::analysis::stream;
use report::format;

/// A claim of a paper.
#[derive(Debug)]
pub struct Claim {
    /// The claim in our words.
    pub says: &'static str,
    /// The smallest number of CPUs on which the claim is testable.
    pub cpus_min: usize,
    /// The statements, which must all hold.
    pub statements: &'static [Statement],
}

/// A statement that a metric of some architectures, under some workloads, satisfies a relation.
#[derive(Debug)]
pub struct Statement {
    /// The architectures, as plans name them.
    pub architectures: &'static [&'static str],
    metric: &'static Metric,
    /// A second metric of which the same is stated.
    second: Option<&'static Metric>,
    only: fn(&Workload) -> bool,
    is: Is,
}

impl Statement {
    pub const fn of(
        architectures: &'static [&'static str],
        metric: &'static Metric,
        only: fn(&Workload) -> bool,
        is: Is,
    ) -> Self {
        Self { architectures, metric, second: None, only, is }
    }

    pub const fn and(self, metric: &'static Metric) -> Self {
        Self { second: Some(metric), ..self }
    }

    /// Returns the metrics, each of which has findings of its own.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        [self.metric].into_iter().chain(self.second)
    }
}

/// A relation that a statement claims.
#[derive(Debug)]
pub enum Is {
    /// Everywhere along the dimension the metric is within this factor of its value at the low end, up or down.
    Flat(Dimension, f64),
    /// The slope from the low end of the dimension to each other place, on logarithmic scales, is in [`PROPORTIONAL`].
    Proportional(Dimension),
    /// From the low to the high end the metric grows by at least this factor. No step falls by more than [`STEP`].
    Grows(Dimension, f64),
    /// From the low to the high end the metric falls by at least this factor. No step grows by more than [`STEP`].
    Falls(Dimension, f64),
    /// The metric of each architecture is within this factor of the metric of the first architecture.
    Alike(f64),
    AtMost(f64),
    AtLeast(f64),
    /// The metric's peak over all workloads is at least this factor times the best peak of the other architectures.
    Above(f64, &'static [&'static str]),
    /// The metric's peak over all workloads is within this factor of the best peak of the other architectures.
    Peaks(f64, &'static [&'static str]),
    Found(VerdictKind),
    /// The plan rejects the trials, or they fail.
    Stopped,
}

/// The factor by which a measured value may miss a printed one. A threshold that equals the printed value would leave the paper's
/// own result undecided.
pub const NEAR: f64 = 1.25;
/// The largest factor by which a step along a dimension may go against the trend.
const STEP: f64 = 1.1;
/// Slopes on logarithmic scales that count as "proportional".
const PROPORTIONAL: std::ops::RangeInclusive<f64> = 0.75..=1.25;

#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    /// Returns the value in a trial; `None` without one.
    of: fn(&TrialRecord, &mut DeviationOf<'_>) -> Option<f64>,
    counts: fn(VerdictKind) -> bool,
    show: fn(f64) -> String,
    /// The figure that merges the requests of all repeats, if the metric is one.
    figure: Option<Figure>,
}

impl Metric {
    const fn with_figure(self, figure: Figure) -> Self {
        Self { figure: Some(figure), ..self }
    }
}

/// Returns a metric that is a time in nanoseconds and counts only valid trials.
const fn valid_time(name: &'static str, of: fn(&TrialRecord, &mut DeviationOf<'_>) -> Option<f64>) -> Metric {
    Metric { name, of, counts: valid, show: format::time, figure: None }
}

/// Returns a metric of the client's lateness in nanoseconds. Late trials count too: without them a client is never late.
const fn lateness(name: &'static str, of: fn(&TrialRecord, &mut DeviationOf<'_>) -> Option<f64>) -> Metric {
    Metric { counts: |kind| kind != VerdictKind::Failed, ..valid_time(name, of) }
}

fn valid(kind: VerdictKind) -> bool {
    kind == VerdictKind::Valid
}

/// Returns the load report; `None` if the client or a memory monitor of the host may have caused its 99th percentile. The mean and the 99th percentile
/// would then not describe the server.
fn load_with_tail(record: &TrialRecord) -> Option<&LoadResult> {
    record.load.as_ref().filter(|load| !load.is_foreign_tail(0.99))
}

pub static SERVICE_MEDIAN: Metric =
    valid_time("median service time", |record, _| Some(record.load.as_ref()?.service.distribution.p50_ns as f64))
        .with_figure(Figure::P50);
pub static SERVICE_SPREAD: Metric = valid_time("service time from p1 to p99", |record, _| {
    let service = load_with_tail(record)?.service.distribution;
    Some(service.p99_ns as f64 - service.p1_ns as f64)
});
pub static SERVICE_MEAN: Metric =
    valid_time("mean service time", |record, _| Some(load_with_tail(record)?.service.distribution.mean_ns));
pub static SEND_DELAY_MEDIAN: Metric =
    lateness("median send delay", |record, _| Some(record.load.as_ref()?.send_delay.distribution.p50_ns as f64));
pub static SEND_DELAY_P99: Metric = lateness("99th percentile of send delay", |record, _| {
    Some(record.load.as_ref()?.send_delay.distribution.p99_ns as f64)
});
pub static SEND_STDDEV: Metric =
    lateness("standard deviation of sends", |record, deviation_of| Some(deviation_of(record).figures?.stddev_ns));

/// The share of sends whose deviation from even intervals differs by more than 1 µs from the median deviation. The share of the
/// other sends is near 1, where no factor is a useful tolerance.
pub static SENDS_BEYOND_1US: Metric = Metric {
    show: format::percent,
    ..lateness("share of sends beyond 1 µs", |record, deviation_of| {
        Some(1.0 - deviation_of(record).figures?.within_1us_of_median)
    })
};

/// The time for 10^9 bytes of bursts.
pub static GIGABYTE: Metric = valid_time("time for a gigabyte", |record, _| Some(1e18 / record.stream_bytes_per_s()?));

/// Responses per second; in a closed loop transactions, in streams bursts per second. Saturated trials count too.
pub static RATE: Metric = Metric {
    name: "rate",
    of: |record, _| record.rate_achieved_per_s(),
    counts: |kind| matches!(kind, VerdictKind::Valid | VerdictKind::Saturated),
    show: |per_s| format!("{}/s", format::digits(per_s)),
    figure: Some(Figure::Rate),
};

/// Burst bytes per second of server CPU time. Client-limited trials count too, because the CPU time is the server's.
pub static BANDWIDTH_OF_CPU: Metric = Metric {
    name: "bandwidth of a CPU",
    of: |record, _| stream::bytes_per_cpu_s(record),
    counts: |kind| matches!(kind, VerdictKind::Valid | VerdictKind::ClientLimited),
    show: format::bandwidth,
    figure: None,
};

pub static SERVICE_P99: Metric = valid_time("99th percentile of service time", |record, _| {
    Some(load_with_tail(record)?.service.distribution.p99_ns as f64)
})
.with_figure(Figure::P99);
pub static CPU_PER_REQUEST: Metric = valid_time("CPU time per request", |record, _| {
    Some(record.server.as_ref()?.cpu_ns() as f64 / record.requests_answered()?)
})
.with_figure(Figure::Cpu);

/// Returns a metric of a server's network threads. A trial with a late client counts too, because the threads are the server's.
const fn of_threads(name: &'static str, of: fn(&TrialRecord, &mut DeviationOf<'_>) -> Option<f64>) -> Metric {
    Metric { show: format::percent, ..lateness(name, of) }
}

fn balance(record: &TrialRecord) -> Option<Balance> {
    Balance::of(&[record.server.as_ref()?])
}

/// The standard deviation of connections over the network threads. A half is the least difference of whole numbers; 0 has no ratio.
pub static CONNECTION_SPREAD: Metric = Metric {
    show: format::digits,
    ..of_threads("standard deviation of connections", |record, _| Some(balance(record)?.connections.deviation.max(0.5)))
};
/// The standard deviation of the CPU use of network threads.
pub static CPU_SPREAD: Metric =
    of_threads("standard deviation of CPU use", |record, _| Some(balance(record)?.cpu_share?.deviation));
/// The share of connections that waited for the end of a stall: at least one connection, because 0 has no ratio.
pub static HUNG: Metric = of_threads("share of hung connections", |record, _| {
    let totals = &record.server.as_ref()?.totals;
    let accepted = totals.accepted.filter(|count| *count > 0)?;
    Some(totals.hung?.max(1) as f64 / accepted as f64)
});
/// The share of the server's CPU time that steering takes.
pub static STEERING: Metric = of_threads("share of CPU time for steering", |record, _| balance(record)?.steering_share);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every existing finding agrees with the claim, at most half of the findings are missing, and each statement has one.
    HoldsHere,
    /// Some finding contradicts the claim.
    DoesNotHoldHere,
    /// No finding contradicts the claim, but some findings are undecided or most are missing.
    Inconclusive,
    /// This host has too few CPUs, a statement has no trials, or all findings are missing.
    NotTestableHere,
}

impl Outcome {
    /// Returns the outcome in words, for one claim and for several.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Self::HoldsHere => ["holds here", "hold here"],
            Self::DoesNotHoldHere => ["does not hold here", "do not hold here"],
            Self::Inconclusive => ["inconclusive", "are inconclusive"],
            Self::NotTestableHere => ["not testable here", "are not testable here"],
        }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckedClaim {
    pub number: usize,
    pub says: &'static str,
    pub outcome: Outcome,
    /// The reason why the claim is undecided or untestable, or the number of missing findings; `None` for a refuted claim.
    pub reason: Option<String>,
    pub findings: Vec<Finding>,
}

/// A finding: one value compared with a statement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// The comparison and its workload. Also names the experiment if two findings would otherwise read the same.
    pub what: String,
    pub experiment: String,
    /// The value: a ratio, a slope or the metric itself. `None` without data.
    pub value: Option<f64>,
    /// The 95 % interval over repeats, or over blocks of interleaved trials; `None` with fewer than three repeats or blocks.
    pub interval: Option<Interval>,
    /// The value in words, with the claimed range if the statement has one.
    pub words: String,
    /// Whether the statement holds; `None` if the finding is undecided or missing.
    pub holds: Option<bool>,
}

pub fn concern(claims: &[Claim], trial: &Trial) -> bool {
    let names = [trial.label(), trial.architecture.to_string()];
    let is_one = |servers: &[&str]| names.iter().any(|name| queue::position(servers, name).is_some());
    let mut statements = claims.iter().flat_map(|claim| claim.statements);
    statements.any(|it| is_one(it.architectures) && (it.only)(&trial.workload))
}
