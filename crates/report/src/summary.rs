//! The figures of each architecture under each workload: histograms merged over repeats, percentiles never averaged.

use lab::record::{Run, TrialRecord, VerdictKind};
use lab::units::Size;
use serde::Serialize;
use server::ServerCounters;
use stats::{Distribution, Histogram, Ratio, interval};

/// What rows are ranked by.
pub const METRIC: &str = "median service time";

/// Ratios this near to 1, their whole interval, make no practical difference.
pub const MARGIN: f64 = 0.05;

/// A run's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What rows are ranked by.
    pub metric: &'static str,
    /// How intervals are found.
    pub interval_method: &'static str,
    /// The margin of "no practical difference".
    pub margin: f64,
    /// One comparison for each workload, by connections and rate.
    pub comparisons: Vec<Comparison>,
}

/// All architectures under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Connections held open.
    pub connections: u32,
    /// Requests a second.
    pub rate_per_s: f64,
    /// Sizes, as in `128B -> 10KiB`.
    pub sizes: String,
    /// Valid ones first, best first; then the others.
    pub rows: Vec<Row>,
}

/// One architecture under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub architecture: String,
    /// The worst verdict of its repeats. Only `valid` rows are ranked.
    pub verdict: VerdictKind,
    /// Why, if it is not valid.
    pub reasons: Vec<String>,
    /// Repeats that are finished, and how many of them are valid.
    pub repeats: usize,
    /// See `repeats`.
    pub repeats_valid: usize,
    /// Repeats that cannot be run here or have not been run yet.
    pub missing: Vec<String>,
    /// t3 − t2; `None` when no repeat has any.
    pub service: Option<Distribution>,
    /// t2 − t1.
    pub lag: Option<Distribution>,
    /// t3 − t1.
    pub response: Option<Distribution>,
    /// The mean over repeats, in requests a second.
    pub rate_achieved_per_s: Option<f64>,
    /// What a request cost the server; `None` when it did not say.
    pub cost: Option<Cost>,
    /// Median service time against the best; `None` for rows that are not ranked.
    pub ratio: Option<Ratio>,
    /// Median service time of each valid repeat, in nanoseconds.
    #[serde(skip)]
    p50s_ns: Vec<f64>,
}

/// What the server's counters say, over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// CPU time a request, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Context switches a request.
    pub switches_per_request: f64,
    /// System calls a request.
    pub syscalls_per_request: f64,
    /// User memory a connection, in bytes.
    pub memory_user_bytes_per_connection: f64,
    /// Kernel memory of the host a connection, in bytes; `None` where what else the host did hides it.
    pub memory_kernel_bytes_per_connection: Option<f64>,
}

impl Summary {
    /// Summarises a run, finished or not.
    pub fn of(run: &Run) -> Self {
        let mut workloads: Vec<(u32, f64)> = Vec::new();
        for trial in &run.header.trials {
            let workload = (trial.workload.connections, trial.workload.rate_per_s);
            if !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        workloads.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Self {
            metric: METRIC,
            interval_method: interval::METHOD,
            margin: MARGIN,
            comparisons: workloads.into_iter().map(|(connections, rate)| comparison(run, connections, rate)).collect(),
        }
    }
}

fn comparison(run: &Run, connections: u32, rate_per_s: f64) -> Comparison {
    let trials: Vec<_> = run
        .header
        .trials
        .iter()
        .filter(|trial| trial.workload.connections == connections && trial.workload.rate_per_s == rate_per_s)
        .collect();
    let mut architectures: Vec<String> = Vec::new();
    for trial in &trials {
        let name = trial.architecture.to_string();
        if !architectures.contains(&name) {
            architectures.push(name);
        }
    }
    architectures.sort();
    let mut rows: Vec<Row> = architectures
        .into_iter()
        .map(|architecture| {
            let these = trials.iter().filter(|trial| trial.architecture.to_string() == architecture);
            let record = |index| run.records.iter().find(|record: &&TrialRecord| record.trial.index == index);
            let (done, missing): (Vec<_>, Vec<_>) =
                these.map(|trial| (trial, record(trial.index))).partition(|(_, record)| record.is_some());
            let missing = missing.into_iter().map(|(trial, _)| match trial.impossible.as_slice() {
                [] => "not run yet".to_owned(),
                reasons => reasons.join("; "),
            });
            let mut missing: Vec<String> = missing.collect();
            missing.dedup();
            row(architecture, done.into_iter().filter_map(|(_, record)| record).collect(), missing)
        })
        .collect();
    rank(&mut rows, run.header.seed);
    let wire::ServiceSpec::Fixed { request_bytes, response_bytes } = trials[0].workload.service;
    let sizes = format!("{} -> {}", Size(request_bytes), Size(response_bytes));
    Comparison { connections, rate_per_s, sizes, rows }
}

fn row(architecture: String, records: Vec<&TrialRecord>, missing: Vec<String>) -> Row {
    let loads = || records.iter().filter_map(|record| record.load.as_ref());
    let merged = |figure: fn(&load::LoadReport) -> &load::report::Measured| {
        let mut histogram = Histogram::new();
        loads().for_each(|load| histogram.merge(&figure(load).histogram));
        (histogram.count() > 0).then(|| histogram.distribution())
    };
    let valid = |record: &&&TrialRecord| record.verdict.kind == VerdictKind::Valid;
    let mut reasons: Vec<String> = records
        .iter()
        .filter(|record| record.verdict.kind != VerdictKind::Valid)
        .map(|record| record.verdict.reason.clone())
        .collect();
    reasons.dedup();
    Row {
        verdict: records.iter().map(|record| record.verdict.kind).max().unwrap_or(VerdictKind::Failed),
        reasons,
        repeats: records.len(),
        repeats_valid: records.iter().filter(valid).count(),
        missing,
        service: merged(|load| &load.service),
        lag: merged(|load| &load.lag),
        response: merged(|load| &load.response),
        rate_achieved_per_s: (loads().count() > 0)
            .then(|| loads().map(|load| load.rate_achieved_per_s).sum::<f64>() / loads().count() as f64),
        cost: cost(&records.iter().filter_map(|record| record.server.as_ref()).collect::<Vec<_>>()),
        ratio: None,
        p50s_ns: records
            .iter()
            .filter(valid)
            .filter_map(|record| Some(record.load.as_ref()?.service.distribution.p50_ns as f64))
            .collect(),
        architecture,
    }
}

fn cost(counters: &[&ServerCounters]) -> Option<Cost> {
    let sum = |figure: fn(&ServerCounters) -> u64| counters.iter().map(|c| figure(c)).sum::<u64>() as f64;
    let median = |figure: fn(&ServerCounters) -> f64| {
        interval::median(&counters.iter().map(|c| figure(c)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let kernel_bytes = median(|c| c.memory_kernel_bytes_per_connection);
    let requests = sum(|c| c.totals.requests);
    (requests > 0.0).then(|| Cost {
        cpu_ns_per_request: sum(|c| c.totals.cpu_ns()) / requests,
        switches_per_request: sum(|c| c.totals.switches()) / requests,
        syscalls_per_request: sum(|c| c.totals.syscalls()) / requests,
        memory_user_bytes_per_connection: median(|c| c.memory_user_bytes_per_connection),
        memory_kernel_bytes_per_connection: (kernel_bytes > 0.0).then_some(kernel_bytes),
    })
}

impl Row {
    /// Whether it may be compared with others: something is finished, and all of that is valid.
    pub fn is_ranked(&self) -> bool {
        self.repeats > 0 && self.verdict == VerdictKind::Valid
    }
}

/// Valid rows by median of repeats, then the others by name; ratios against the first.
fn rank(rows: &mut [Row], seed: u64) {
    let key = |row: &Row| interval::median(&row.p50s_ns).unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| b.is_ranked().cmp(&a.is_ranked()).then(key(a).total_cmp(&key(b))));
    let Some(best) = rows.first().filter(|row| row.is_ranked()).map(|row| row.p50s_ns.clone()) else { return };
    for row in rows.iter_mut().filter(|row| row.is_ranked()) {
        row.ratio = Ratio::of(&row.p50s_ns, &best, seed);
    }
}
