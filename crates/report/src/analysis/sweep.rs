//! A sweep: the figures of each architecture at each rate.

use harness::record::{Run, Strategy, TrialRecord, VerdictKind, Workload};
use load::LoadResult;
use load::result::{Errors, LateSends, PARTS};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Distribution;

use super::client_tail;
use super::summary::{Comparison, Row, Summary, estimated, merged};
use crate::format;
use crate::list::{distinct, grouped, mean};

/// Number of samples of the reply rate in a window.
const SAMPLES: usize = 8;

/// A sweep's figures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sweep {
    /// The curves, by traffic and architecture.
    pub curves: Vec<Curve>,
}

/// An architecture under one traffic, at ascending rates.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Curve {
    /// The architecture's name, with options that differ from the default.
    pub architecture: String,
    /// The traffic, without the rate.
    pub workload: Workload,
    /// The rates, in ascending order.
    pub steps: Vec<Step>,
}

/// An architecture at one rate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Step {
    #[serde(skip)]
    pub(crate) architecture: String,
    /// The planned requests per second.
    pub dem_req_rate: f64,
    /// The results; `None` if the step was not run.
    #[serde(flatten)]
    pub figures: Option<StepFigures>,
    /// The verdict on all repeats; `None` if the step was not run.
    pub(crate) verdict: Option<VerdictKind>,
    pub(crate) reasons: Vec<String>,
}

/// The results of a step: autobench's columns, and further statistics.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepFigures {
    pub(crate) req_rate: f64,
    pub(crate) con_rate: f64,
    pub(crate) min_rep_rate: Option<f64>,
    pub(crate) avg_rep_rate: f64,
    pub(crate) max_rep_rate: Option<f64>,
    pub(crate) stddev_rep_rate: Option<f64>,
    /// `None` without a response.
    pub(crate) resp_time: Option<f64>,
    /// The mean service time in ms, which begins at the actual send.
    #[serde(skip)]
    service_time: Option<f64>,
    pub(crate) net_io: Option<f64>,
    pub(crate) errors: f64,
    /// The response times.
    pub(crate) response: Distribution,
    pub(crate) late: LateSends,
    /// The lowest quantile of response time that late sends may have caused, such as `p99`.
    pub(crate) clients_from: Option<&'static str>,
    /// Failures by class over whole repeats, not only their windows.
    pub(crate) errors_by_class: Errors,
    pub(crate) repeats: usize,
}

impl Sweep {
    /// Summarises a sweep; `None` for other runs.
    pub fn of(run: &Run) -> Option<Self> {
        matches!(run.header.strategy, Strategy::Sweep(_)).then(|| Self::of_rates(run))
    }

    /// Summarises any run by its rates, such as that of an experiment with several rates.
    pub fn of_rates(run: &Run) -> Self {
        let summary = Summary::of(run);
        let rows = summary.comparisons.iter().flat_map(|comparison| {
            let mut rows: Vec<&Row> = comparison.rows.iter().collect();
            rows.sort_by_key(|row| row.label());
            rows.into_iter().map(move |row| (comparison, row))
        });
        let traffic = |it: &Comparison| it.workload.clone().with(|it| it.set_rate(None));
        let is_same_traffic = |a: &Workload, b: &Workload| a.without_rate() == b.without_rate();
        let is_same_curve = |a: &(&Comparison, &Row), b: &(&Comparison, &Row)| {
            a.1.label() == b.1.label() && is_same_traffic(&a.0.workload, &b.0.workload)
        };
        let groups = grouped(rows, is_same_curve);
        let curve = |group: Vec<(&Comparison, &Row)>| Curve {
            architecture: group[0].1.label(),
            workload: traffic(group[0].0),
            steps: group.iter().map(|(comparison, row)| step(run, comparison, row)).collect(),
        };
        Self { curves: groups.into_iter().map(curve).collect() }
    }

    /// Returns the traffic of the curves, each once.
    pub(crate) fn workloads(&self) -> Vec<&Workload> {
        distinct(self.curves.iter().map(|curve| &curve.workload))
    }

    pub(crate) fn curves_of<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = &'a Curve> + Clone {
        self.curves.iter().filter(move |curve| curve.workload == *workload)
    }
}

fn step(run: &Run, comparison: &Comparison, row: &Row) -> Step {
    let is_one = |record: &&TrialRecord| record.trial.workload == comparison.workload && row.covers(&record.trial);
    let records: Vec<&TrialRecord> = run.records.iter().filter(is_one).collect();
    let records = if row.is_ranked() { estimated(&records) } else { records };
    Step {
        architecture: row.label(),
        dem_req_rate: comparison.workload.rate_per_s().unwrap_or_default(),
        figures: figures(&records),
        verdict: (row.repeats > 0).then_some(row.verdict),
        reasons: [row.reasons.clone(), row.missing.clone()].concat(),
    }
}

fn figures(records: &[&TrialRecord]) -> Option<StepFigures> {
    let loads: Vec<&LoadResult> = records.iter().filter_map(|record| record.load.as_ref()).collect();
    let response = merged(loads.iter().map(|load| &load.response)).distribution();
    let service = merged(loads.iter().map(|load| &load.service)).distribution();
    let mean_ms = |time: &Distribution| (time.count > 0).then_some(time.mean_ns / 1e6);
    let late = client_tail::late(loads.iter().copied());
    let samples: Vec<f64> = loads.iter().flat_map(|load| reply_rates(load)).collect();
    let extreme = |pick: fn(f64, f64) -> f64| samples.iter().copied().reduce(pick);
    let planned: u64 = loads.iter().map(|load| load.planned).sum();
    let answered: u64 = loads.iter().map(|load| load.completed).sum();
    let opened_per_s = |load: &LoadResult| load.churn.as_ref().map_or(0.0, |churn| churn.opened_per_s);
    Some(StepFigures {
        req_rate: mean(loads.iter().map(|load| load.rate_sent_per_s))?,
        con_rate: mean(loads.iter().map(|load| opened_per_s(load)))?,
        min_rep_rate: extreme(f64::min),
        avg_rep_rate: mean(loads.iter().map(|load| load.rate_achieved_per_s))?,
        max_rep_rate: extreme(f64::max),
        stddev_rep_rate: mean(samples.iter().copied()).filter(|_| samples.len() > 1).map(|mean| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            (squares / (samples.len() - 1) as f64).sqrt()
        }),
        resp_time: mean_ms(&response),
        service_time: mean_ms(&service),
        net_io: net_io(records),
        errors: 100.0 * planned.saturating_sub(answered) as f64 / planned.max(1) as f64,
        response,
        late,
        clients_from: client_tail::clients_from(&late),
        errors_by_class: loads.iter().fold(Errors::default(), |errors, load| errors.and(&load.errors)),
        repeats: loads.len(),
    })
}

/// Returns replies per second in each eighth of a trial's window.
fn reply_rates(load: &LoadResult) -> Vec<f64> {
    let eighth_s = load.window_ns as f64 / 1e9 / SAMPLES as f64;
    load.completed_by_part.chunks(PARTS / SAMPLES).map(|parts| parts.iter().sum::<u64>() as f64 / eighth_s).collect()
}

/// Returns KiB per second in both directions, from the server's counters or the sizes of answered requests; `None` if
/// both are unknown in any trial.
fn net_io(records: &[&TrialRecord]) -> Option<f64> {
    let of = |record: &&TrialRecord| {
        let counted = record.server.as_ref().and_then(|server| {
            let bytes = server.totals.bytes_in? + server.totals.bytes_out?;
            Some(bytes as f64 / (server.window_ns as f64 / 1e9))
        });
        counted.or_else(|| {
            let (request_bytes, response_bytes) = record.trial.workload.service.fixed()?;
            let bytes = f64::from(request_bytes) + f64::from(response_bytes);
            Some(bytes * record.load.as_ref()?.rate_achieved_per_s)
        })
    };
    Some(mean(records.iter().map(of).collect::<Option<Vec<f64>>>()?)? / 1024.0)
}

impl StepFigures {
    /// Returns the figures with a response time that begins at the actual send, as httperf's does.
    #[must_use]
    pub fn from_actual_send(&self) -> Self {
        Self { resp_time: self.service_time, ..self.clone() }
    }
}

impl Step {
    /// Returns whether the architecture kept up with the rate.
    pub fn is_kept_up(&self) -> bool {
        self.verdict == Some(VerdictKind::Valid)
    }

    /// Returns the verdict in words, also for a step that was not run.
    pub fn verdict_name(&self) -> &'static str {
        self.verdict.map_or("not run", format::verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_share_counts_unanswered_requests_of_the_window() {
        let mut run = testkit::sweep_run();
        let record = &mut run.records[0];
        let load = record.load.as_mut().unwrap();
        // Failures outside the window do not count.
        (load.planned, load.completed, load.errors.timeout) = (1_000, 990, 500);
        assert_eq!(figures(&[record]).unwrap().errors, 1.0);
        record.load.as_mut().unwrap().errors.timeout = 0;
        assert_eq!(figures(&[record]).unwrap().errors, 1.0, "a lost datagram counts, although it is in no error class");
    }
}
