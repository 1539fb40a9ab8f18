//! How evenly the requests of each trial were sent, by kawai2006's measure: [`stats::deviation`] over the raw samples.

use std::collections::BTreeMap;

use harness::record::{Run, TrialRecord, VerdictKind, Workload};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Deviation, deviation};

use super::FORMAT;
use super::workload::order;

/// A function that returns the send times of each client of a trial in nanoseconds, in any order and without unsent requests. It
/// returns an error if they are unknown.
pub type SendsOf<'a> = dyn FnMut(u32) -> anyhow::Result<Vec<Vec<i64>>> + 'a;

/// A function that returns the deviations of a finished trial.
pub type DeviationOf<'a> = dyn FnMut(&TrialRecord) -> TrialDeviation + 'a;

/// Returns a function that computes deviations from send times and reads each trial's samples only once.
pub fn kept<'a>(sends_of: &'a mut SendsOf<'_>) -> impl FnMut(&TrialRecord) -> TrialDeviation + 'a {
    let mut known: BTreeMap<u32, TrialDeviation> = BTreeMap::new();
    move |record| known.entry(record.trial.index).or_insert_with(|| TrialDeviation::of(record, sends_of)).clone()
}

/// The shares of the cumulative distribution at which reports show deviations.
pub const SHARES: [f64; 9] = [0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999];

/// Number of points of the cumulative distribution: one for each percent from 0 to 100.
pub(crate) const POINTS: usize = 101;

/// The definition of a deviation.
pub(crate) const DEFINITION: &str = "\
    Deviation of each send from its client's best-fitting even sequence with intervals of clients/rate (kawai2006, section 5.2): \
    positive is late, and the mean is 0.";

/// The reason why an interleaved trial has no deviations.
pub const INTERLEAVED: &str = "the sends of an interleaved trial pause while other servers have their slices";

/// The deviations of all finished trials.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Deviations {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The run's name.
    pub(crate) run: String,
    pub(crate) definition: &'static str,
    /// The finished trials, sorted by workload, then by architecture.
    pub trials: Vec<TrialDeviation>,
}

/// The deviations of one trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialDeviation {
    /// The trial's index in the plan.
    pub trial: u32,
    /// The repeat's number, from 0.
    pub(crate) repeat: u32,
    pub(crate) architecture: String,
    /// The traffic. With a schedule other than `constant`, the planned times deviate too.
    pub workload: Workload,
    /// Planned time between two sends of a client.
    pub(crate) interval_ns: Option<f64>,
    /// The verdict of the trial.
    pub verdict: VerdictKind,
    /// Planned requests that were never sent. Each of them shifts the deviations of later sends by one interval.
    pub(crate) unsent: u64,
    /// The reason for missing figures.
    pub missing: Option<String>,
    /// The figures; `None` without known sends.
    pub figures: Option<Deviation>,
    /// The deviations at [`SHARES`].
    pub tails: Vec<CdfPoint>,
    /// The cumulative distribution at every percent.
    pub cdf: Vec<CdfPoint>,
}

/// A point of a cumulative distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CdfPoint {
    /// Share of sends that deviate by at most `deviation_ns`.
    pub share: f64,
    /// The deviation in nanoseconds.
    pub deviation_ns: f64,
}

impl TrialDeviation {
    /// Computes the deviations of a finished trial.
    pub fn of(record: &TrialRecord, sends_of: &mut SendsOf<'_>) -> Self {
        let trial = &record.trial;
        let (clients, missing) = match sends_of(trial.index) {
            _ if trial.workload.rate_per_s().is_none() => {
                (Vec::new(), Some("a closed loop has no intervals".to_owned()))
            }
            _ if trial.client.slices.is_some() => (Vec::new(), Some(INTERLEAVED.to_owned())),
            Ok(clients) if clients.iter().all(Vec::is_empty) => (clients, Some("nothing was sent".to_owned())),
            Ok(clients) => (clients, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        // Each client starts at a time of its own and has an equal part of the rate.
        let count = clients.len().max(1) as f64;
        let interval_ns = trial.workload.rate_per_s().map(|rate_per_s| 1e9 * count / rate_per_s);
        let of_client = |sent_ns: &Vec<i64>| deviation::deviations_ns(sent_ns, interval_ns.unwrap_or_default());
        let deviations_ns: Vec<f64> = clients.iter().flat_map(of_client).collect();
        let sent = clients.iter().map(Vec::len).sum::<usize>() as u64;
        let points = |points: usize| {
            let cdf = deviation::cdf(&deviations_ns, points).into_iter();
            cdf.map(|(deviation_ns, share)| CdfPoint { share, deviation_ns }).collect::<Vec<_>>()
        };
        // Compute a point per thousandth, because all shares are multiples of a thousandth.
        let fine = points(1_001);
        let planned = record.load.as_ref().filter(|_| missing.is_none()).map_or(0, |load| load.planned);
        Self {
            trial: trial.index,
            repeat: trial.repeat,
            architecture: trial.architecture.to_string(),
            workload: trial.workload.clone(),
            interval_ns,
            verdict: record.verdict.kind,
            unsent: planned.saturating_sub(sent),
            missing,
            figures: Deviation::of(&deviations_ns),
            tails: SHARES.iter().filter_map(|share| fine.get((share * 1_000.0).round() as usize).copied()).collect(),
            cdf: points(POINTS),
        }
    }
}

impl Deviations {
    /// Computes the deviations of all finished trials.
    pub fn of(run: &Run, sends_of: &mut SendsOf<'_>) -> Self {
        let mut trials: Vec<TrialDeviation> =
            run.records.iter().map(|record| TrialDeviation::of(record, sends_of)).collect();
        trials.sort_by(|a, b| {
            order(&a.workload, &b.workload).then(a.architecture.cmp(&b.architecture)).then(a.trial.cmp(&b.trial))
        });
        Self { format: FORMAT, run: run.header.name.clone(), definition: DEFINITION, trials }
    }
}
