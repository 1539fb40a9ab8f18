//! The figures of each architecture under each workload: histograms merged over repeats, percentiles never averaged.

use super::workload::{order, title};
use harness::model::TrialOutcome;
use harness::model::{Run, Trial, TrialRecord, Verdict, VerdictKind, Workload};
use harness::strategy;
use load::LoadReport;
use load::late::LateSends;
use load::report::{ChurnReport, KernelReport, Measured};
use serde::Serialize;
use server::{Accept, Options, ReadBudget, ServerCounters};
use stats::{Distribution, Estimate, Histogram, Ratio, interval};

use crate::format;
use crate::model::cost::CostBreakdown;
use crate::model::stream::Streams;
use crate::model::{client_tail, network};

/// The metric that ranks open loops.
pub const METRIC: &str = "median service time";
/// The metric that ranks closed loops; more is better.
pub const CLOSED_METRIC: &str = "transactions a second";
/// The metric that ranks streams; more is better.
pub const STREAM_METRIC: &str = "bandwidth";

/// Ratios this near to 1, their whole interval, make no practical difference.
pub const MARGIN: f64 = 0.05;

/// A run's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The metric that ranks open loops.
    pub metric: &'static str,
    /// How intervals are found.
    pub interval_method: &'static str,
    /// In what share of cases the interval of a ratio from so few repeats really holds the truth, by simulation; `None` when
    /// nothing was repeated.
    pub interval_coverage: Option<f64>,
    /// The same of the interval of a single figure.
    pub estimate_coverage: Option<f64>,
    /// The margin of "no practical difference".
    pub margin: f64,
    /// One comparison for each workload, by connections and rate.
    pub comparisons: Vec<Comparison>,
}

/// All architectures under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The traffic.
    pub workload: Workload,
    /// It in words, as in `400 connections, 2000 requests/s, 128B -> 10KiB`.
    pub title: String,
    /// How its network was made and what was measured of it, in a sentence; `None` over loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The metric that ranks its rows.
    pub metric: &'static str,
    /// Valid ones first, best first; then the others.
    pub rows: Vec<Row>,
}

/// One architecture under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub architecture: String,
    /// How it accepts; `None` for an external server.
    pub accept: Option<Accept>,
    /// The most bytes that one of its reads takes; `None` for an external server.
    pub read_budget_bytes: Option<ReadBudget>,
    /// Its name in tables: see [`Trial::label`].
    #[serde(skip)]
    label: String,
    /// `valid` when most of its repeats are, and the others are not by the server's doing; else the worst of them. Only
    /// `valid` rows are ranked, by their valid repeats alone.
    pub verdict: VerdictKind,
    /// Why repeats are not valid, each with its verdict.
    pub reasons: Vec<String>,
    /// Repeats that are finished, and how many of them are valid.
    pub repeats: usize,
    /// See `repeats`.
    pub repeats_valid: usize,
    /// Repeats that the estimates are made of: the valid ones and, in a valid row, those unsteady for the server's own cause.
    pub repeats_estimated: usize,
    /// Repeats that cannot be run here or have not been run yet.
    pub missing: Vec<String>,
    /// t3 − t2; `None` when no repeat has any.
    pub service: Option<Distribution>,
    /// t2 − t1.
    pub lag: Option<Distribution>,
    /// t3 − t1.
    pub response: Option<Distribution>,
    /// Requests of all repeats that the client sent late.
    pub late: LateSends,
    /// The lowest quantile of service and response time that may be the client's doing for that, as in `p99`; `None` where
    /// all are the server's.
    pub clients_from: Option<&'static str>,
    /// The mean over repeats, in requests a second.
    pub rate_achieved_per_s: Option<f64>,
    /// Requests a second over valid repeats, with its interval: of a closed loop its transactions.
    pub rate_per_s: Option<Estimate>,
    /// The mean over repeats of the share of its CPUs that the client used; `None` in an open loop.
    pub client_busy_share: Option<f64>,
    /// Transactions of a closed loop that are in all figures and are no samples, as the memory for these was full.
    pub unsampled: u64,
    /// Lost and reordered datagrams over all repeats; `None` for connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// Bandwidth and cost of streams; `None` for other services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Streams>,
    /// Median service time over valid repeats, in nanoseconds, with its interval.
    pub service_p50_ns: Option<Estimate>,
    /// Its 99th percentile likewise, over those whose is the server's; `None` unless most are.
    pub service_p99_ns: Option<Estimate>,
    /// Median response time likewise.
    pub response_p50_ns: Option<Estimate>,
    /// Times by the kernel's timestamps; `None` without them.
    pub kernel: Option<Kernel>,
    /// Statistics of short-lived connections; `None` for connections that stay open.
    pub churn: Option<Churn>,
    /// The cost of a request; `None` without counters of the server.
    pub cost: Option<Cost>,
    /// The cost of a request in detail; `None` without counters of the server.
    #[serde(rename = "why")]
    pub breakdown: Option<CostBreakdown>,
    /// The metric against the best's; `None` for rows that are not ranked.
    pub ratio: Option<Ratio>,
    /// The metric of each valid repeat: median service time in nanoseconds, or transactions a second.
    #[serde(skip)]
    pub(crate) metrics: Vec<f64>,
}

/// Requests of the windows over all repeats, as in `load::report::DatagramReport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Requests.
    pub planned: u64,
    /// Not answered.
    pub lost: u64,
    /// Responses to what had been answered.
    pub duplicates: u64,
    /// Responses that were overtaken.
    pub reordered: u64,
}

impl Datagrams {
    /// All of `loads` together.
    fn of<'a>(loads: impl Iterator<Item = &'a LoadReport>) -> Option<Self> {
        loads.filter_map(|load| Some((load.planned, load.datagrams.as_ref()?))).fold(None, |sum, (planned, report)| {
            let sum = sum.unwrap_or(Self { planned: 0, lost: 0, duplicates: 0, reordered: 0 });
            Some(Self {
                planned: sum.planned + planned,
                lost: sum.lost + report.lost,
                duplicates: sum.duplicates + report.duplicates,
                reordered: sum.reordered + report.reordered,
            })
        })
    }
}

/// Times by the kernel's timestamps over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// The interface that requests left by.
    pub interface: String,
    /// Whether that takes timestamps of its own.
    pub hardware: load::interface::Hardware,
    /// From t2 to the scheduler.
    pub to_scheduler: Distribution,
    /// t2k − t2.
    pub to_driver: Distribution,
    /// t3 − t3k.
    pub from_arrival: Distribution,
    /// t3k − t2k.
    pub service: Distribution,
    /// Service time as the interface saw it.
    pub hardware_service: Option<Distribution>,
    /// Requests whose stamps are out of their order.
    pub out_of_order: u64,
    /// In some repeat the wall clock was set, so that its stamps are left out.
    pub wall_clock_stepped: bool,
    /// Share of requests for which a stamp is missing.
    pub unstamped: f64,
}

/// Statistics of short-lived connections over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Churn {
    /// The mean over repeats of new connections a second.
    pub opened_per_s: f64,
    /// From the SYN to the connection established.
    pub connect: Distribution,
    /// From the SYN to the first byte of the first response.
    pub first_byte: Distribution,
    /// Sessions that waited for another to end, of all repeats.
    pub waited: u64,
}

/// Cost by the server's counters over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// CPU time a request, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Context switches a request.
    pub switches_per_request: f64,
    /// System calls a request; `None` where they are not counted.
    pub syscalls_per_request: Option<f64>,
    /// User memory a connection, in bytes; `None` where the system does not say.
    pub memory_user_bytes_per_connection: Option<f64>,
    /// Kernel memory of the host a connection, in bytes; `None` where that is not known, or what else the host did
    /// hides it.
    pub memory_kernel_bytes_per_connection: Option<f64>,
}

impl Summary {
    /// Summarises a run, finished or not.
    pub fn of(run: &Run) -> Self {
        let mut workloads: Vec<&Workload> = Vec::new();
        for trial in &run.header.trials {
            if !workloads.contains(&&trial.workload) {
                workloads.push(&trial.workload);
            }
        }
        workloads.sort_by(|a, b| order(a, b));
        let pruned = pruned(run);
        let comparisons: Vec<Comparison> =
            workloads.into_iter().map(|workload| comparison(run, workload, &pruned)).collect();
        let ranked = comparisons.iter().flat_map(|comparison| &comparison.rows).filter(|row| row.is_ranked());
        let repeats = ranked.map(|row| row.repeats_estimated).min().filter(|&repeats| repeats >= 2);
        Self {
            metric: METRIC,
            interval_method: interval::METHOD,
            interval_coverage: repeats.map(interval::coverage),
            estimate_coverage: repeats.map(interval::estimate_coverage),
            margin: MARGIN,
            comparisons,
        }
    }
}

fn comparison(run: &Run, workload: &Workload, pruned: &[u32]) -> Comparison {
    let trials: Vec<_> = run.header.trials.iter().filter(|trial| trial.workload == *workload).collect();
    let key = |trial: &Trial| (trial.architecture.to_string(), trial.serve.options());
    let mut architectures: Vec<(String, Option<Options>)> = Vec::new();
    for trial in &trials {
        if !architectures.contains(&key(trial)) {
            architectures.push(key(trial));
        }
    }
    architectures.sort_by_key(|(name, options)| {
        (name.clone(), options.map(|options| (options.accept.to_string(), options.read_budget_bytes)))
    });
    let mut rows: Vec<Row> = architectures
        .into_iter()
        .map(|architecture| {
            let these = trials.iter().filter(|trial| key(trial) == architecture);
            let label = these.clone().next().map(|trial| trial.label()).unwrap_or_default();
            let record = |index| run.records.iter().find(|record: &&TrialRecord| record.trial.index == index);
            let records: Vec<_> = these.clone().filter_map(|trial| record(trial.index)).collect();
            let missing = missing(these.copied(), &records, pruned);
            let row = row(architecture.0, &records, missing, run.header.seed);
            let options = architecture.1;
            let accept = options.map(|options| options.accept);
            Row { accept, read_budget_bytes: options.map(|options| options.read_budget_bytes), label, ..row }
        })
        .collect();
    rank(&mut rows, workload.is_closed(), run.header.seed);
    let metric = match workload.is_closed() {
        true if workload.service.stream().is_some() => STREAM_METRIC,
        true => CLOSED_METRIC,
        false => METRIC,
    };
    let of_it = run.records.iter().filter(|record| record.trial.workload == *workload);
    let network = network::sentence(of_it.filter_map(|record| record.network.as_ref()));
    Comparison { workload: workload.clone(), title: title(workload), network, metric, rows }
}

/// The trials of a sweep that are not to be run, for lower rates were past saturation.
pub(crate) fn pruned(run: &Run) -> Vec<u32> {
    let outcomes: Vec<TrialOutcome> =
        run.records.iter().map(|record| TrialOutcome::new(record, &run.header.strategy)).collect();
    strategy::pruned(&run.header, &outcomes)
}

/// CostBreakdown a step of a sweep was not run.
pub(crate) const LEFT_OUT: &str = "not run: lower rates already exceeded the capacity of the server or the client";

/// Why there are no records of some trials, of which those of a sweep are left out; a reason that several share is said once.
pub(crate) fn missing<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    records: &[&TrialRecord],
    pruned: &[u32],
) -> Vec<String> {
    let is_done = |trial: &&Trial| records.iter().any(|record| record.trial.index == trial.index);
    let reasons = trials.filter(|trial| !is_done(trial)).map(|trial| match trial.infeasible.as_slice() {
        [] if pruned.contains(&trial.index) => LEFT_OUT.to_owned(),
        [] => "not run yet".to_owned(),
        reasons => reasons.join("; "),
    });
    let mut missing: Vec<String> = reasons.collect();
    missing.dedup();
    missing
}

/// The verdict of all repeats together. A minority that the machine disturbed, or whose window was unsteady, leaves the row
/// valid. A server that is the cause itself is so in most repeats, since those of all architectures are interleaved. One
/// saturated or failed repeat disqualifies the row.
fn verdict(verdicts: &[&Verdict]) -> VerdictKind {
    let valid = verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Valid).count();
    let is_spoilt = |verdict: &&&Verdict| verdict.kind == VerdictKind::Unsteady || verdict.is_the_machine_s();
    let spoilt = verdicts.iter().filter(is_spoilt).count();
    if valid > spoilt && valid + spoilt == verdicts.len() {
        return VerdictKind::Valid;
    }
    verdicts.iter().map(|verdict| verdict.kind).max().unwrap_or(VerdictKind::Failed)
}

/// The repeats that estimates are made of. Those of a valid row include unsteady ones, see
/// [`Verdict::belongs_in_estimates`].
pub fn estimated<'a>(finished: &[&'a TrialRecord]) -> Vec<&'a TrialRecord> {
    let row = verdict(&finished.iter().map(|record| &record.verdict).collect::<Vec<_>>());
    let belongs = |verdict: &Verdict| match row {
        VerdictKind::Valid => verdict.belongs_in_estimates(),
        _ => verdict.kind == VerdictKind::Valid,
    };
    finished.iter().copied().filter(|record| belongs(&record.verdict)).collect()
}

fn row(architecture: String, finished: &[&TrialRecord], missing: Vec<String>, seed: u64) -> Row {
    let verdict = verdict(&finished.iter().map(|record| &record.verdict).collect::<Vec<_>>());
    let valid = |record: &&TrialRecord| record.verdict.kind == VerdictKind::Valid;
    let estimated = estimated(finished);
    // A row that is not ranked shows everything that ran.
    let records = if verdict == VerdictKind::Valid { estimated.clone() } else { finished.to_vec() };
    let loads = || records.iter().filter_map(|record| record.load.as_ref());
    let merged = |figure: fn(&load::LoadReport) -> &load::report::Measured| {
        let mut histogram = Histogram::new();
        loads().for_each(|load| histogram.merge(&figure(load).histogram));
        (histogram.count() > 0).then(|| histogram.distribution())
    };
    let of_each = |figure: &dyn Fn(&load::LoadReport) -> f64| -> Vec<f64> {
        estimated.iter().filter_map(|record| record.load.as_ref()).map(figure).collect()
    };
    let p50s_ns = of_each(&|load| load.service.distribution.p50_ns as f64);
    let p99s_ns = client_tail::servers(estimated.iter().filter_map(|record| record.load.as_ref()), 0.99);
    let p99s_ns = p99s_ns.into_iter().map(|load| load.service.distribution.p99_ns as f64);
    let p99s_ns: Vec<f64> = p99s_ns.collect();
    let late = client_tail::late(loads());
    let responses_ns = of_each(&|load| load.response.distribution.p50_ns as f64);
    let rates = |records: &mut dyn Iterator<Item = &TrialRecord>| -> Vec<f64> {
        records.filter_map(TrialRecord::rate_achieved_per_s).collect()
    };
    let rates_per_s = rates(&mut estimated.iter().copied());
    let all_rates_per_s = rates(&mut records.iter().copied());
    let closed = || loads().filter_map(|load| load.closed.as_ref());
    let busy: Vec<f64> = closed().map(|closed| closed.busy_share).collect();
    let is_closed = finished.iter().any(|record| record.trial.workload.is_closed());
    let mut reasons: Vec<String> = finished
        .iter()
        .filter(|record| !valid(record))
        .map(|record| format!("{}: {}", format::verdict(record.verdict.kind), record.verdict.reason))
        .collect();
    reasons.dedup();
    let requests = records.iter().filter_map(|record| record.requests_answered()).sum();
    let counters: Vec<&ServerCounters> = records.iter().filter_map(|record| record.server.as_ref()).collect();
    let service = merged(|load| &load.service);
    // Nothing follows from a tail that the client may have made.
    let servers_tail = service.as_ref().filter(|_| !late.reaches(0.99));
    let breakdown = CostBreakdown::of(&counters, requests).map(|it| it.with_tail(servers_tail));
    Row {
        verdict,
        reasons,
        repeats: finished.len(),
        repeats_valid: finished.iter().filter(|record| valid(record)).count(),
        repeats_estimated: estimated.len(),
        missing,
        lag: merged(|load| &load.lag),
        response: merged(|load| &load.response),
        late,
        clients_from: client_tail::clients_from(&late),
        rate_achieved_per_s: (!all_rates_per_s.is_empty())
            .then(|| all_rates_per_s.iter().sum::<f64>() / all_rates_per_s.len() as f64),
        cost: cost(&counters, requests),
        breakdown,
        service,
        service_p50_ns: Estimate::of(&p50s_ns, seed).filter(|_| !late.reaches(0.5)),
        service_p99_ns: Estimate::of(&p99s_ns, seed),
        response_p50_ns: Estimate::of(&responses_ns, seed).filter(|_| !late.reaches(0.5)),
        rate_per_s: Estimate::of(&rates_per_s, seed),
        client_busy_share: (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64),
        datagrams: Datagrams::of(loads()),
        stream: Streams::of(&records),
        unsampled: closed().map(|closed| closed.unsampled).sum(),
        kernel: kernel(&loads().filter_map(|load| load.kernel.as_ref()).collect::<Vec<_>>()),
        churn: churn(&loads().filter_map(|load| load.churn.as_ref()).collect::<Vec<_>>()),
        ratio: None,
        metrics: if is_closed { rates_per_s } else { p50s_ns },
        accept: None,
        read_budget_bytes: None,
        label: architecture.clone(),
        architecture,
    }
}

fn churn(reports: &[&ChurnReport]) -> Option<Churn> {
    let merged = |figure: fn(&ChurnReport) -> &Measured| {
        let mut histogram = Histogram::new();
        reports.iter().for_each(|report| histogram.merge(&figure(report).histogram));
        histogram.distribution()
    };
    (!reports.is_empty()).then(|| Churn {
        opened_per_s: reports.iter().map(|report| report.opened_per_s).sum::<f64>() / reports.len() as f64,
        connect: merged(|report| &report.connect),
        first_byte: merged(|report| &report.first_byte),
        waited: reports.iter().map(|report| report.waited).sum(),
    })
}

fn kernel(reports: &[&KernelReport]) -> Option<Kernel> {
    let first = reports.first()?;
    let merged = |figure: fn(&KernelReport) -> Option<&Measured>| {
        let mut histogram = Histogram::new();
        reports.iter().filter_map(|report| figure(report)).for_each(|measured| histogram.merge(&measured.histogram));
        histogram.distribution()
    };
    let hardware = merged(|report| report.hardware_service.as_ref());
    let missing = reports.iter().map(|report| report.unstamped_sent.max(report.unstamped_arrived)).sum::<u64>() as f64;
    let stamped = merged(|report| Some(&report.service));
    Some(Kernel {
        interface: first.interface.clone(),
        hardware: first.hardware,
        to_scheduler: merged(|report| Some(&report.to_scheduler)),
        to_driver: merged(|report| Some(&report.to_driver)),
        from_arrival: merged(|report| Some(&report.from_arrival)),
        service: stamped,
        hardware_service: (hardware.count > 0).then_some(hardware),
        out_of_order: reports.iter().map(|report| report.out_of_order).sum(),
        wall_clock_stepped: reports.iter().any(|report| report.wall_clock_stepped),
        unstamped: missing / (missing + stamped.count as f64).max(1.0),
    })
}

fn cost(counters: &[&ServerCounters], requests: f64) -> Option<Cost> {
    let sum = |figure: fn(&ServerCounters) -> u64| counters.iter().map(|c| figure(c)).sum::<u64>() as f64;
    let median = |figure: fn(&ServerCounters) -> Option<f64>| {
        interval::median(&counters.iter().filter_map(|c| figure(c)).collect::<Vec<_>>())
    };
    let syscalls: Option<u64> = counters.iter().map(|c| c.totals.syscalls()).sum();
    (requests > 0.0).then(|| Cost {
        cpu_ns_per_request: sum(ServerCounters::cpu_ns) / requests,
        switches_per_request: sum(|c| c.totals.switches()) / requests,
        syscalls_per_request: syscalls.map(|syscalls| syscalls as f64 / requests),
        memory_user_bytes_per_connection: median(|c| c.memory_user_bytes_per_connection),
        memory_kernel_bytes_per_connection: median(|c| c.memory_kernel_bytes_per_connection)
            .filter(|bytes| *bytes > 0.0),
    })
}

impl Row {
    /// Its name in tables: see [`Trial::label`].
    pub fn label(&self) -> String {
        self.label.clone()
    }

    /// Whether a trial is of this architecture with these options, under whatever workload.
    pub fn is_of(&self, trial: &Trial) -> bool {
        let options = trial.serve.options();
        self.architecture == trial.architecture.to_string()
            && self.accept == options.map(|options| options.accept)
            && self.read_budget_bytes == options.map(|options| options.read_budget_bytes)
    }

    /// Whether the quantile `q` of its service and response time may be the client's doing.
    pub fn is_client_tail(&self, q: f64) -> bool {
        self.late.reaches(q)
    }

    /// Whether it may be compared with others.
    pub fn is_ranked(&self) -> bool {
        self.repeats > 0 && self.verdict == VerdictKind::Valid
    }
}

/// Valid rows by the median of their repeats' metric, then the others by name; ratios against the first.
fn rank(rows: &mut [Row], more_is_better: bool, seed: u64) {
    let sign = if more_is_better { -1.0 } else { 1.0 };
    let key = |row: &Row| interval::median(&row.metrics).map_or(f64::INFINITY, |metric| sign * metric);
    rows.sort_by(|a, b| b.is_ranked().cmp(&a.is_ranked()).then(key(a).total_cmp(&key(b))));
    let Some(best) = rows.first().filter(|row| row.is_ranked()).map(|row| row.metrics.clone()) else { return };
    for row in rows.iter_mut().filter(|row| row.is_ranked()) {
        row.ratio = Ratio::of(&row.metrics, &best, seed);
    }
}

#[cfg(test)]
mod tests {
    use VerdictKind::*;
    use harness::model::{Bound, Check};

    use super::*;

    fn with(kind: VerdictKind, check: &str) -> Verdict {
        let check = Check {
            name: check.into(),
            value: 1.0,
            limit: 0.0,
            bound: Bound::AtMost,
            unit: String::new(),
            p_value: None,
            p_value_min: None,
            passed: kind == Valid,
            decides: kind,
        };
        Verdict { kind, reason: "made up".into(), checks: vec![check] }
    }

    #[test]
    fn minority_disturbed_by_the_host_leaves_row_valid() {
        let (good, late) = (with(Valid, ""), with(ClientLimited, "lag"));
        let taken = with(Unsteady, Check::TAKEN_BY_OTHERS);
        assert_eq!(verdict(&[&good, &good, &good]), Valid);
        assert_eq!(verdict(&[&good, &late, &good]), Valid);
        assert_eq!(verdict(&[&good, &taken, &good]), Valid);
        assert_eq!(verdict(&[&good, &taken, &late]), Unsteady);
        assert_eq!(verdict(&[&good, &taken]), Unsteady, "a half is no minority");
        assert_eq!(verdict(&[&good, &good, &with(Unsteady, "trend")]), Valid);
        assert_eq!(verdict(&[&good, &with(Unsteady, "trend"), &with(Unsteady, "trend")]), Unsteady, "most are");
        let both = Verdict { checks: [late.checks.clone(), with(Saturated, "x").checks].concat(), ..late.clone() };
        assert_eq!(verdict(&[&good, &good, &both]), ClientLimited, "the server may have been too slow as well");
        assert_eq!(verdict(&[&good, &good, &with(Saturated, "outstanding")]), Saturated);
        assert_eq!(verdict(&[&good, &good, &good, &Verdict::failed("it died")]), Failed);
        assert_eq!(verdict(&[&late]), ClientLimited);
        assert_eq!(verdict(&[]), Failed);
    }

    #[test]
    fn own_unsteady_repeat_stays_in_the_estimate() {
        let mut run = crate::fixtures::run();
        let row =
            |run: &Run| Summary::of(run).comparisons[0].rows.iter().find(|row| row.architecture == "epoll").cloned();
        let before = row(&run).unwrap();
        let unsteady = run.records.iter_mut().find(|record| record.trial.architecture.to_string() == "epoll").unwrap();
        unsteady.verdict = with(Unsteady, "trend of the median service time over the window");
        let after = row(&run).unwrap();
        assert!(after.is_ranked());
        assert_eq!((after.repeats_valid, after.repeats_estimated), (2, 3));
        assert_eq!(after.metrics, before.metrics, "to leave out slow windows would make the server look quieter");
        assert_eq!(after.reasons, ["unsteady: made up"], "readers are told all the same");
        unsteady_and_crowded(&mut run);
        assert_eq!(row(&run).unwrap().repeats_estimated, 2, "a neighbour explains it");
    }

    /// Makes the first unsteady trial one whose CPUs others took as well.
    fn unsteady_and_crowded(run: &mut Run) {
        let unsteady = run.records.iter_mut().find(|record| record.verdict.kind == Unsteady).unwrap();
        unsteady.verdict.checks.extend(with(Unsteady, Check::TAKEN_BY_OTHERS).checks);
    }

    #[test]
    fn figures_of_a_ranked_row_are_of_its_valid_repeats() {
        let mut run = crate::fixtures::run();
        let row =
            |run: &Run| Summary::of(run).comparisons[0].rows.iter().find(|row| row.architecture == "epoll").cloned();
        let before = row(&run).unwrap();
        let spoilt = run.records.iter_mut().find(|record| record.trial.architecture.to_string() == "epoll").unwrap();
        spoilt.verdict = with(Unsteady, Check::TAKEN_BY_OTHERS);
        let after = row(&run).unwrap();
        assert!(after.is_ranked());
        assert_eq!((after.repeats, after.repeats_valid), (3, 2));
        assert_eq!(after.service.unwrap().count, before.service.unwrap().count * 2 / 3);
        assert_eq!(after.reasons, ["unsteady: made up"]);
    }
}
