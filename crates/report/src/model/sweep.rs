//! A sweep: the figures of each architecture at each rate.

use harness::model::Strategy;
use harness::model::{Run, TrialRecord, VerdictKind, Workload};
use load::report::{Errors, LateSends, PARTS};
use serde::Serialize;

use super::client_tail;
use super::summary::{Comparison, Row, Summary, estimated};
use crate::format;

/// Parts of the window in which the reply rate is measured.
const LOOKS: usize = 8;

/// A sweep's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// One curve for each architecture and traffic, across rates.
    pub curves: Vec<Curve>,
}

/// An architecture under one traffic, at ascending rates.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The architecture's name, with options that differ from the default.
    pub architecture: String,
    /// The traffic, without its rate.
    pub workload: Workload,
    /// One step for each rate.
    pub steps: Vec<Step>,
}

/// An architecture at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    #[serde(skip)]
    pub(crate) architecture: String,
    /// The planned rate in requests per second.
    pub dem_req_rate: f64,
    /// The results; `None` if the step was not run.
    #[serde(flatten)]
    pub figures: Option<StepFigures>,
    /// The verdict on all repeats; `None` if the step was not run.
    pub verdict: Option<VerdictKind>,
    /// Reasons why the step was not run or is not valid.
    pub reasons: Vec<String>,
}

/// The results of a step: autobench's columns, and further statistics.
#[derive(Clone, Debug, Serialize)]
pub struct StepFigures {
    pub(crate) req_rate: f64,
    pub(crate) con_rate: f64,
    pub(crate) min_rep_rate: Option<f64>,
    pub(crate) avg_rep_rate: f64,
    pub(crate) max_rep_rate: Option<f64>,
    pub(crate) stddev_rep_rate: Option<f64>,
    pub(crate) resp_time: f64,
    pub(crate) net_io: Option<f64>,
    pub(crate) errors: f64,
    /// Median response time, in ms.
    pub(crate) resp_time_p50: f64,
    /// 90th percentile of response time, in ms.
    pub(crate) resp_time_p90: f64,
    /// 95th percentile of response time, in ms.
    pub(crate) resp_time_p95: f64,
    /// 99th percentile of response time, in ms.
    pub(crate) resp_time_p99: f64,
    /// Requests that the client sent late.
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
        let Strategy::Sweep { .. } = run.header.strategy else { return None };
        let summary = Summary::of(run);
        let mut curves: Vec<Curve> = Vec::new();
        for comparison in &summary.comparisons {
            let workload = Workload { rate_per_s: None, ..comparison.workload.clone() };
            let mut rows: Vec<&Row> = comparison.rows.iter().collect();
            rows.sort_by_key(|row| row.label());
            for row in rows {
                let step = step(run, comparison, row);
                match curves.iter_mut().find(|it| it.architecture == row.label() && it.workload == workload) {
                    Some(curve) => curve.steps.push(step),
                    None => {
                        curves.push(Curve { architecture: row.label(), workload: workload.clone(), steps: vec![step] });
                    }
                }
            }
        }
        Some(Self { curves })
    }

    /// Returns the traffic of the curves, each once.
    pub(crate) fn workloads(&self) -> Vec<&Workload> {
        let mut workloads: Vec<&Workload> = self.curves.iter().map(|curve| &curve.workload).collect();
        workloads.dedup();
        workloads
    }

    pub(crate) fn curves_of<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = &'a Curve> + Clone {
        self.curves.iter().filter(move |curve| curve.workload == *workload)
    }
}

fn step(run: &Run, comparison: &Comparison, row: &Row) -> Step {
    let of_step = |record: &&TrialRecord| record.trial.workload == comparison.workload && row.is_of(&record.trial);
    let records: Vec<&TrialRecord> = run.records.iter().filter(of_step).collect();
    let records = if row.is_ranked() { estimated(&records) } else { records };
    let mut reasons = row.reasons.clone();
    reasons.extend(row.missing.iter().cloned());
    Step {
        architecture: row.label(),
        dem_req_rate: comparison.workload.rate_per_s.unwrap_or_default(),
        figures: figures(&records),
        verdict: (row.repeats > 0).then_some(row.verdict),
        reasons,
    }
}

fn figures(records: &[&TrialRecord]) -> Option<StepFigures> {
    let loads: Vec<&load::LoadReport> = records.iter().filter_map(|record| record.load.as_ref()).collect();
    if loads.is_empty() {
        return None;
    }
    let mean = |figure: &dyn Fn(&load::LoadReport) -> f64| {
        loads.iter().map(|load| figure(load)).sum::<f64>() / loads.len() as f64
    };
    let mut response = stats::Histogram::new();
    loads.iter().for_each(|load| response.merge(&load.response.histogram));
    let response = response.distribution();
    let late = client_tail::late(loads.iter().copied());
    let looks: Vec<f64> = loads.iter().flat_map(|load| reply_rates(load)).collect();
    let extreme = |pick: fn(f64, f64) -> f64| looks.iter().copied().reduce(pick);
    let errors = loads.iter().fold(Errors::default(), |errors, load| errors.and(&load.errors));
    let planned: u64 = loads.iter().map(|load| load.planned).sum();
    let answered: u64 = loads.iter().map(|load| load.completed).sum();
    let average = mean(&|load| load.rate_achieved_per_s);
    Some(StepFigures {
        req_rate: mean(&|load| load.rate_sent_per_s),
        con_rate: mean(&|load| load.churn.as_ref().map_or(0.0, |churn| churn.opened_per_s)),
        min_rep_rate: extreme(f64::min),
        avg_rep_rate: average,
        max_rep_rate: extreme(f64::max),
        stddev_rep_rate: (looks.len() > 1).then(|| {
            let mean = looks.iter().sum::<f64>() / looks.len() as f64;
            (looks.iter().map(|look| (look - mean).powi(2)).sum::<f64>() / (looks.len() - 1) as f64).sqrt()
        }),
        resp_time: response.mean_ns / 1e6,
        net_io: net_io(records),
        errors: 100.0 * planned.saturating_sub(answered) as f64 / planned.max(1) as f64,
        resp_time_p50: response.p50_ns as f64 / 1e6,
        resp_time_p90: response.p90_ns as f64 / 1e6,
        resp_time_p95: response.p95_ns as f64 / 1e6,
        late,
        clients_from: client_tail::clients_from(&late),
        resp_time_p99: response.p99_ns as f64 / 1e6,
        errors_by_class: errors,
        repeats: loads.len(),
    })
}

/// Returns replies per second in each eighth of a trial's window.
fn reply_rates(load: &load::LoadReport) -> Vec<f64> {
    let look_s = load.window_ns as f64 / 1e9 / LOOKS as f64;
    let parts = load.completed_by_part.as_ref().map_or(&[][..], |parts| parts);
    parts.chunks(PARTS / LOOKS).map(|parts| parts.iter().sum::<u64>() as f64 / look_s).collect()
}

/// Returns KiB per second in both directions, from the server's counters or the sizes of answered requests; `None` if
/// both are unknown.
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
    let all: Vec<f64> = records.iter().map(of).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1024.0)
}

impl Step {
    /// Returns whether the architecture kept up.
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
    fn errors_are_of_the_window_s_requests_the_lost_among_them() {
        let mut run = testkit::sweep_run();
        let record = &mut run.records[0];
        let load = record.load.as_mut().unwrap();
        // Failures outside the window do not count.
        (load.planned, load.completed, load.errors.timeout) = (1_000, 990, 500);
        assert_eq!(figures(&[record]).unwrap().errors, 1.0);
        record.load.as_mut().unwrap().errors.timeout = 0;
        assert_eq!(figures(&[record]).unwrap().errors, 1.0, "datagrams are lost without an error");
    }
}
