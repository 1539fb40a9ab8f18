//! The figures of each architecture under each workload. Each is a figure of the merged requests of all repeats that count, as are the
//! ratios and the ranking.

use std::collections::BTreeSet;

use harness::record::figures::{RunFigures, heat, metric};
use harness::record::{Figure, FigureMap, Run, Trial, TrialRecord, Verdict, VerdictKind, Workload};
use harness::strategy;
use load::LoadResult;
use load::result::{ChurnResult, HttpResult, KernelResult, LateSends, Measured, TlsResult};
use schemars::JsonSchema;
use serde::Serialize;
use server::ServerCounters;
use stats::repeats::REPEATS_MIN;
use stats::{Distribution, Estimate, Family, Histogram, Ratio, Repeat, interval, ratio};

use super::balance::Balance;
use super::client_tail;
use super::cost::CostBreakdown;
use super::interleaving;
use super::network;
use super::pairs;
use super::profile::{self, RowProfile};
use super::profiles;
pub(crate) use super::row::{Churn, Datagrams, Http, Kernel, Pair, Tls};
pub use super::row::{Comparison, Cost, MARGIN, Row, RowFigure};
use super::stream::Streams;
use super::undecided;
use super::workload::{order, title};
use crate::format;
use crate::list::{distinct, ends, mean};

/// The metric that ranks open loops.
pub const METRIC: &str = "median service time";
/// The metric that ranks closed loops; more is better.
pub const CLOSED_METRIC: &str = "transactions per second";
/// The metric that ranks streams; more is better.
pub const STREAM_METRIC: &str = "bandwidth";

/// A run's figures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Summary {
    pub(crate) metric: &'static str,
    pub(crate) interval_method: &'static str,
    pub(crate) margin: f64,
    /// One comparison for each workload, ordered by connections and rate.
    pub comparisons: Vec<Comparison>,
    /// The words of the command that decides open pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to_decide: Option<Vec<String>>,
}

impl Summary {
    /// Summarises a run, finished or not.
    pub fn of(run: &Run) -> Self {
        let run = &*strategy::advise::as_planned(run);
        let mut workloads = distinct(run.header.trials.iter().map(|trial| &trial.workload));
        workloads.sort_by(|a, b| order(a, b));
        // The trials of searches differ in rate, so they are not compared.
        workloads.retain(|_| !run.header.strategy.is_search());
        let pruned = pruned(run);
        let figures = RunFigures::new(&run.records);
        let mut comparisons: Vec<Comparison> =
            workloads.into_iter().map(|workload| comparison(run, &figures, workload, &pruned)).collect();
        let to_decide = undecided::decide(run, &mut comparisons);
        Self { metric: METRIC, interval_method: ratio::METHOD, margin: MARGIN, comparisons, to_decide }
    }
}

/// Returns the flags that give an interval to ratios without one. Not every repeat is usable, so one more is needed at least.
fn remedy(run: &Run, records: &[&TrialRecord]) -> String {
    let done = records.iter().map(|it| it.trial.repeat + 1).max().unwrap_or(0);
    let auto = if run.header.interleave.is_never() { "--interleave auto, or " } else { "" };
    format!("{auto}--repeats {}", (done + 1).max(REPEATS_MIN as u32))
}

fn comparison(run: &Run, figures: &RunFigures<'_>, workload: &Workload, pruned: &Pruned) -> Comparison {
    let is_compared = |trial: &&Trial| trial.workload == *workload && !trial.is_reference;
    let trials: Vec<&Trial> = run.header.trials.iter().filter(is_compared).collect();
    let mut labels = distinct(trials.iter().map(|trial| trial.label()));
    labels.sort();
    let rows = labels.into_iter().map(|label| {
        let trials: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.label() == label).collect();
        let record = |trial: &&Trial| run.records.iter().find(|record| record.trial.index == trial.index);
        let records: Vec<_> = trials.iter().filter_map(record).collect();
        row(&trials, &records, figures, missing(&trials, &records, pruned))
    });
    let mut rows: Vec<Row> = rows.collect();
    rank(&mut rows, workload.is_closed());
    profiles::compare(&mut rows);
    if run.header.trials.iter().any(|trial| trial.workload == *workload && trial.is_reference) {
        // References link groups by ratios, so added times are known only within the group of the best row.
        let heats = |row: &Row| -> BTreeSet<u32> {
            trials.iter().filter(|trial| trial.label() == row.label).map(|trial| heat(trial)).collect()
        };
        let best = rows.first().map(heats).unwrap_or_default();
        for row in rows.iter_mut().filter(|row| heats(row).is_disjoint(&best)) {
            row.added_ns = None;
            row.profile.iter_mut().flat_map(|it| &mut it.parts).for_each(|part| part.added_ns = None);
        }
    }
    let metric = match workload.is_closed() {
        true if workload.service.stream().is_some() => STREAM_METRIC,
        true => CLOSED_METRIC,
        false => METRIC,
    };
    let records: Vec<&TrialRecord> = run.records.iter().filter(|it| it.trial.workload == *workload).collect();
    let network = network::sentence(records.iter().filter_map(|record| record.network.as_ref()));
    let interleaving = interleaving::sentences(&trials, &records, &rows);
    let pairs = pairs::of(&rows);
    let noise = pairs::noise(&rows, &pairs);
    Comparison {
        workload: workload.clone(),
        title: title(workload),
        network,
        interleaving,
        state: state(&rows, workload.is_closed()),
        metric,
        remedy: remedy(run, &records),
        margin: run.header.strategy.margin().unwrap_or(MARGIN),
        rows,
        pairs,
        profile_problems: profile::problems(records.iter().copied()),
        noise,
    }
}

/// The largest quotient of the best row's metric in two repeats of a host that does not change.
const STEADY_MAX: f64 = 1.2;

/// Says for which state of the host the intervals speak.
fn state(rows: &[Row], is_closed: bool) -> Option<String> {
    let best = rows.iter().find(|row| row.is_best())?;
    let (low, high) = ends(best.metrics.iter().map(|repeat| repeat.own)).filter(|_| best.metrics.len() > 1)?;
    let (what, range) = match is_closed {
        true => ("rate", format!("{}/s to {}/s", format::digits(low), format::digits(high))),
        false => ("median", format!("{} to {}", format::time(low), format::time(high))),
    };
    let (name, repeats) = (&best.label, best.metrics.len());
    let range = format!("{name}'s {what} was {range} in {repeats} repeats");
    Some(match high / low > STEADY_MAX {
        true => format!(
            "The host changed its speed: {range}. The intervals speak for this range; added times carry further than ratios."
        ),
        false => format!("{range}."),
    })
}

/// The trials that a strategy skips.
pub(crate) struct Pruned {
    indices: Vec<u32>,
    reason: &'static str,
}

/// Returns the trials that the strategy of a run skips because of finished ones.
pub(crate) fn pruned(run: &Run) -> Pruned {
    let reason = match run.header.strategy.ends_early() {
        true => {
            "later repeats not run: the comparison was decided, the first repeats had nothing to compare, or the time was over"
        }
        false => "not run: lower rates already exceeded the capacity of the server or the client",
    };
    Pruned { indices: run.header.strategy.pruned(&run.header, &strategy::outcomes(run)), reason }
}

/// Returns the number of trials that this host can run, without the repeats that an ended comparison or gate skips.
pub(crate) fn planned(run: &Run) -> usize {
    let skipped = if run.header.strategy.ends_early() { pruned(run).indices } else { Vec::new() };
    let is_planned = |trial: &&Trial| trial.infeasible.is_empty() && !skipped.contains(&trial.index);
    run.header.trials.iter().filter(is_planned).count()
}

/// Returns a line for each reason for missing repeats, with the rows that it concerns.
pub(crate) fn missing_by_reason(rows: &[Row]) -> Vec<String> {
    let line = |reason: &String| {
        let names: Vec<String> = rows.iter().filter(|row| row.missing.contains(reason)).map(Row::label).collect();
        format!("{}: {reason}", format::listed(&names))
    };
    distinct(rows.iter().flat_map(|row| &row.missing)).into_iter().map(line).collect()
}

/// The reason for a missing record of a run that was stopped.
const NOT_RUN: &str = "not run yet";

/// Returns the reasons for missing records, without consecutive duplicates.
pub(crate) fn missing(trials: &[&Trial], records: &[&TrialRecord], pruned: &Pruned) -> Vec<String> {
    let is_missing = |trial: &&&Trial| records.iter().all(|record| record.trial.index != trial.index);
    let reasons = trials.iter().filter(is_missing).map(|trial| match trial.infeasible.as_slice() {
        [] if pruned.indices.contains(&trial.index) => pruned.reason.to_owned(),
        [] => NOT_RUN.to_owned(),
        reasons => reasons.join("; "),
    });
    let mut missing: Vec<String> = reasons.collect();
    let not_run = missing.iter().filter(|reason| *reason == NOT_RUN).count();
    if !records.is_empty() {
        let text = format!("{not_run} of {} repeats {NOT_RUN}", trials.len());
        missing.iter_mut().filter(|reason| *reason == NOT_RUN).for_each(|reason| reason.clone_from(&text));
    }
    missing.dedup();
    missing
}

/// Returns the verdict on all repeats together. A minority of disturbed or unsteady repeats leaves the row valid.
/// Repeats of all architectures are interleaved, so a problem that the server causes shows in most of its repeats.
/// One saturated or failed repeat disqualifies the row.
fn verdict(verdicts: &[&Verdict]) -> VerdictKind {
    let valid = verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Valid).count();
    let is_disturbed = |verdict: &&&Verdict| verdict.kind == VerdictKind::Unsteady || verdict.is_blameless_for_server();
    let disturbed = verdicts.iter().filter(is_disturbed).count();
    if valid > disturbed && valid + disturbed == verdicts.len() {
        return VerdictKind::Valid;
    }
    verdicts.iter().map(|verdict| verdict.kind).max().unwrap_or(VerdictKind::Failed)
}

/// Returns the repeats that estimates use: the valid repeats and, in a valid row, repeats that the server may have made
/// unsteady (see [`Verdict::belongs_in_estimates`]).
pub fn estimated<'a>(finished: &[&'a TrialRecord]) -> Vec<&'a TrialRecord> {
    let row = verdict(&finished.iter().map(|record| &record.verdict).collect::<Vec<_>>());
    let belongs = |verdict: &Verdict| match row {
        VerdictKind::Valid => verdict.belongs_in_estimates(),
        _ => verdict.kind == VerdictKind::Valid,
    };
    finished.iter().copied().filter(|record| belongs(&record.verdict)).collect()
}

/// Merges the histograms of a time.
pub(crate) fn merged<'a>(times: impl IntoIterator<Item = &'a Measured>) -> Histogram {
    let mut histogram = Histogram::new();
    times.into_iter().for_each(|time| histogram.merge(&time.histogram));
    histogram
}

/// Returns a figure by repeat, over the repeats that estimates use. A quantile that the client may have caused in a repeat leaves that
/// repeat out, and has none unless the others are the majority.
pub(crate) fn repeats(figures: &RunFigures<'_>, estimated: &[&TrialRecord], figure: Figure) -> Vec<Repeat> {
    match figure.tail() {
        _ if !figure.is_estimated() => Vec::new(),
        Some(q) => figures.of(&client_tail::servers(estimated, q), figure),
        None => figures.of(estimated, figure),
    }
}

/// Summarises the repeats of one architecture, given its planned and its finished trials.
fn row(trials: &[&Trial], finished: &[&TrialRecord], figures: &RunFigures<'_>, missing: Vec<String>) -> Row {
    let first = trials[0];
    let verdict = verdict(&finished.iter().map(|record| &record.verdict).collect::<Vec<_>>());
    let valid = |record: &&&TrialRecord| record.verdict.kind == VerdictKind::Valid;
    let estimated = estimated(finished);
    // A row that is not ranked shows every repeat that ran.
    let records = if verdict == VerdictKind::Valid { estimated.clone() } else { finished.to_vec() };
    let loads = || records.iter().filter_map(|record| record.load.as_ref());
    let late = client_tail::late(loads());
    let row_figures = FigureMap::of(|figure| {
        let repeats = repeats(figures, &estimated, figure);
        Some(RowFigure { estimate: Estimate::of(&repeats)?, repeats })
    });
    let rate_per_s = row_figures[Figure::Rate].as_ref().map(|it| it.estimate);
    let is_valid = verdict == VerdictKind::Valid;
    let rate_achieved_per_s = rate_per_s.filter(|_| is_valid).map(|rate| rate.value);
    let rate_achieved_per_s =
        rate_achieved_per_s.or_else(|| mean(records.iter().filter_map(|record| record.rate_achieved_per_s())));
    let closed = || loads().filter_map(|load| load.closed.as_ref());
    let mut reasons: Vec<String> = finished
        .iter()
        .filter(|record| !valid(record))
        .map(|record| format!("{}: {}", format::verdict(record.verdict.kind), record.verdict.reason))
        .collect();
    reasons.dedup();
    let requests = records.iter().filter_map(|record| record.requests_answered()).sum();
    let counters: Vec<&ServerCounters> = records.iter().filter_map(|record| record.server.as_ref()).collect();
    let service = merged_distribution(&records, &late, |load| &load.service);
    // Conclude nothing from a tail that the client may have caused.
    let servers_tail = service.as_ref().filter(|_| !LateSends { monitored: 0, ..late }.reaches(0.99));
    Row {
        architecture: first.architecture.to_string(),
        options: first.serve.options(),
        label: first.label(),
        is_placebo: first.is_placebo,
        verdict,
        reasons,
        repeats: finished.len(),
        repeats_valid: finished.iter().filter(valid).count(),
        repeats_estimated: estimated.len(),
        trials: records.iter().map(|record| record.trial.index).collect(),
        missing,
        send_delay: distribution(&records, |load| &load.send_delay),
        response: merged_distribution(&records, &late, |load| &load.response),
        late,
        clients_from: client_tail::clients_from(&late),
        cost: cost(&counters, requests, figures.estimate(&records, Figure::Cpu)),
        breakdown: CostBreakdown::of(&counters, requests).map(|it| it.with_tail(servers_tail)),
        profile: RowProfile::of(&records),
        balance: Balance::of(&counters),
        service,
        figures: row_figures,
        rate_achieved_per_s,
        client_busy_share: mean(closed().map(|closed| closed.busy_share)),
        datagrams: datagrams(loads()),
        stream: Streams::of(&records, rate_achieved_per_s),
        unsampled: closed().map(|closed| closed.unsampled).sum(),
        kernel: kernel(&loads().filter_map(|load| load.kernel.as_ref()).collect::<Vec<_>>()),
        churn: churn(&loads().filter_map(|load| load.churn.as_ref()).collect::<Vec<_>>()),
        queued_share: mean(loads().filter_map(|load| load.queued_share)),
        closed_by_server: loads().map(|load| load.closed_by_server).sum(),
        http: http(&loads().filter_map(|load| load.http.as_ref()).collect::<Vec<_>>()),
        tls: tls(&loads().filter_map(|load| load.tls.as_ref()).collect::<Vec<_>>()),
        ratio: None,
        added_ns: None,
        metrics: figures.of(&estimated, metric(&first.workload)),
    }
}

/// The distribution of all repeats together; `None` without a request.
fn distribution(records: &[&TrialRecord], measured: fn(&LoadResult) -> &Measured) -> Option<Distribution> {
    let all = merged(records.iter().filter_map(|record| record.load.as_ref()).map(measured));
    Some(all).filter(|it| it.count() > 0).map(|it| it.distribution())
}

/// The distribution of all repeats together. p90, p95 and p99 leave out repeats in which the client may have caused them, unless those
/// are most. `None` without a request.
fn merged_distribution(
    records: &[&TrialRecord],
    late: &LateSends,
    measured: fn(&LoadResult) -> &Measured,
) -> Option<Distribution> {
    let all = distribution(records, measured)?;
    let without = |q: f64| {
        let servers = if late.reaches(q) { Vec::new() } else { client_tail::servers(records, q) };
        distribution(&servers, measured).unwrap_or(all)
    };
    Some(Distribution {
        p90_ns: without(0.9).p90_ns,
        p95_ns: without(0.95).p95_ns,
        p99_ns: without(0.99).p99_ns,
        ..all
    })
}

/// Adds up the datagram counts of `loads`; `None` if no load has any.
fn datagrams<'a>(loads: impl Iterator<Item = &'a LoadResult>) -> Option<Datagrams> {
    loads.filter_map(|load| Some((load.planned, load.datagrams.as_ref()?))).fold(None, |sum, (planned, report)| {
        let mut sum: Datagrams = sum.unwrap_or_default();
        sum.planned += planned;
        sum.lost += report.lost;
        sum.duplicates += report.duplicates;
        sum.reordered += report.reordered;
        Some(sum)
    })
}

fn churn(reports: &[&ChurnResult]) -> Option<Churn> {
    Some(Churn {
        opened_per_s: mean(reports.iter().map(|report| report.opened_per_s))?,
        connect: merged(reports.iter().map(|report| &report.connect)).distribution(),
        first_byte: merged(reports.iter().map(|report| &report.first_byte)).distribution(),
        waited: reports.iter().map(|report| report.waited).sum(),
    })
}

fn http(reports: &[&HttpResult]) -> Option<Http> {
    reports.first()?;
    Some(Http {
        statuses: HttpResult::sum(reports.iter().map(|report| &report.statuses)),
        first_byte: merged(reports.iter().map(|report| &report.first_byte)).distribution(),
    })
}

fn tls(reports: &[&TlsResult]) -> Option<Tls> {
    Some(Tls {
        cipher: reports.first()?.cipher.clone(),
        full: merged(reports.iter().map(|report| &report.full)).distribution(),
        resumed: merged(reports.iter().map(|report| &report.resumed)).distribution(),
    })
}

fn kernel(reports: &[&KernelResult]) -> Option<Kernel> {
    let first = reports.first()?;
    let time = |figure: fn(&KernelResult) -> &Measured| merged(reports.iter().map(|it| figure(it))).distribution();
    let hardware = merged(reports.iter().filter_map(|report| report.hardware_service.as_ref())).distribution();
    let missing = reports.iter().map(|report| report.unstamped_sent.max(report.unstamped_arrived)).sum::<u64>() as f64;
    let service = time(|report| &report.service);
    Some(Kernel {
        interface: first.interface.clone(),
        hardware: first.hardware,
        to_scheduler: time(|report| &report.to_scheduler),
        to_driver: time(|report| &report.to_driver),
        from_arrival: time(|report| &report.from_arrival),
        service,
        hardware_service: (hardware.count > 0).then_some(hardware),
        out_of_order: reports.iter().map(|report| report.out_of_order).sum(),
        wall_clock_stepped: reports.iter().any(|report| report.wall_clock_stepped),
        unstamped: missing / (missing + service.count as f64).max(1.0),
    })
}

fn cost(counters: &[&ServerCounters], requests: f64, cpu_ns: Option<Estimate>) -> Option<Cost> {
    let sum = |figure: fn(&ServerCounters) -> u64| counters.iter().map(|c| figure(c)).sum::<u64>() as f64;
    let median = |figure: fn(&ServerCounters) -> Option<f64>| {
        interval::median(&counters.iter().filter_map(|c| figure(c)).collect::<Vec<_>>())
    };
    let syscalls: Option<u64> = counters.iter().map(|c| c.totals.syscalls()).sum();
    (requests > 0.0).then(|| Cost {
        cpu_ns_per_request: cpu_ns.map_or(0.0, |it| it.value),
        switches_per_request: sum(|c| c.totals.switches()) / requests,
        syscalls_per_request: syscalls.map(|syscalls| syscalls as f64 / requests),
        memory_user_bytes_per_connection: median(|c| c.memory_user_bytes_per_connection),
        memory_kernel_bytes_per_connection: median(|c| c.memory_kernel_bytes_per_connection)
            .filter(|bytes| *bytes > 0.0),
    })
}

/// Puts ranked rows first, the best of them at the top, and orders the others by their ratio to it; rows without a ratio by their
/// metric. Computes the ratios.
fn rank(rows: &mut [Row], more_is_better: bool) {
    let sign = if more_is_better { -1.0 } else { 1.0 };
    let key = |row: &Row| Estimate::of(&row.metrics).map_or(f64::INFINITY, |metric| sign * metric.value);
    rows.sort_by(|a, b| b.is_ranked().cmp(&a.is_ranked()).then(key(a).total_cmp(&key(b))));
    let ranked = rows.iter().position(|row| !row.is_ranked() || row.metrics.is_empty()).unwrap_or(rows.len());
    let rows = &mut rows[..ranked];
    let metrics: Vec<_> = rows.iter().map(|row| row.metrics.clone()).collect();
    let family = Family::of(&metrics);
    let loss = |of: usize, to: usize| family.ratio(of, to).map_or(0.0, |ratio| sign * ratio.ratio.ln());
    // Rows may lack different heats. The best row is therefore the one whose ratios, of common heats, to all others are best.
    let least = |to: usize| (0..ranked).map(|of| loss(of, to)).fold(f64::INFINITY, f64::min);
    let is_own = |at: usize| !rows[at].is_placebo;
    let better = |&a: &usize, &b: &usize| {
        is_own(a).cmp(&is_own(b)).then_with(|| least(a).total_cmp(&least(b))).then_with(|| b.cmp(&a))
    };
    let Some(best) = (0..ranked).max_by(better) else { return };
    for (at, row) in rows.iter_mut().enumerate() {
        row.ratio = if at == best { Some(Ratio::ONE) } else { family.ratio(at, best) };
        row.added_ns = (at != best && !more_is_better).then(|| ratio::added(&metrics[at], &metrics[best])).flatten();
    }
    rows.swap(0, best);
    rows[1..].sort_by(|a, b| {
        let loss = |row: &Row| row.ratio.map_or(f64::INFINITY, |ratio| sign * ratio.ratio);
        loss(a).total_cmp(&loss(b))
    });
}

#[cfg(test)]
mod tests {
    use VerdictKind::*;
    use harness::record::Check;
    use testkit::verdict_with as with;

    use super::*;

    #[test]
    fn minority_disturbed_by_the_host_leaves_row_valid() {
        let (good, late) = (with(Valid, ""), with(ClientLimited, "lag"));
        let taken = with(Unsteady, Check::TAKEN_BY_OTHERS);
        assert_eq!(verdict(&[&good, &good, &good]), Valid);
        assert_eq!(verdict(&[&good, &late, &good]), Valid);
        assert_eq!(verdict(&[&good, &taken, &good]), Valid);
        assert_eq!(verdict(&[&good, &taken, &late]), Unsteady);
        assert_eq!(verdict(&[&good, &taken]), Unsteady, "half of the repeats is no minority");
        assert_eq!(verdict(&[&good, &good, &with(Unsteady, "trend")]), Valid);
        assert_eq!(
            verdict(&[&good, &with(Unsteady, "trend"), &with(Unsteady, "trend")]),
            Unsteady,
            "most repeats are unsteady"
        );
        let both = Verdict { checks: [late.checks.clone(), with(Saturated, "x").checks].concat(), ..late.clone() };
        assert_eq!(verdict(&[&good, &good, &both]), ClientLimited, "the server may have been too slow as well");
        assert_eq!(verdict(&[&good, &good, &with(Saturated, "outstanding")]), Saturated);
        assert_eq!(verdict(&[&good, &good, &good, &Verdict::failed("it died")]), Failed);
        assert_eq!(verdict(&[&late]), ClientLimited);
        assert_eq!(verdict(&[]), Failed);
    }

    #[test]
    fn repeat_made_unsteady_by_server_stays_in_estimates() {
        let mut run = testkit::run();
        let row =
            |run: &Run| Summary::of(run).comparisons[0].rows.iter().find(|row| row.architecture == "epoll").cloned();
        let before = row(&run).unwrap();
        let unsteady = run.records.iter_mut().find(|record| record.trial.architecture.to_string() == "epoll").unwrap();
        unsteady.verdict = with(Unsteady, "trend of the median service time over the window");
        let after = row(&run).unwrap();
        assert!(after.is_ranked());
        assert_eq!((after.repeats_valid, after.repeats_estimated), (3, 4));
        assert_eq!(after.metrics, before.metrics, "unsteady repeats stay in the estimate");
        assert_eq!(after.reasons, ["unsteady: made up"], "the reason is shown");
        let unsteady = run.records.iter_mut().find(|record| record.verdict.kind == Unsteady).unwrap();
        unsteady.verdict.checks.extend(with(Unsteady, Check::TAKEN_BY_OTHERS).checks);
        assert_eq!(row(&run).unwrap().repeats_estimated, 3, "other processes on the CPUs disturbed this repeat");
    }

    #[test]
    fn ranked_row_omits_repeats_disturbed_by_the_host() {
        let mut run = testkit::run();
        let row =
            |run: &Run| Summary::of(run).comparisons[0].rows.iter().find(|row| row.architecture == "epoll").cloned();
        let before = row(&run).unwrap();
        let disturbed = run.records.iter_mut().find(|record| record.trial.architecture.to_string() == "epoll").unwrap();
        disturbed.verdict = with(Unsteady, Check::TAKEN_BY_OTHERS);
        let after = row(&run).unwrap();
        assert!(after.is_ranked());
        assert_eq!((after.repeats, after.repeats_valid), (4, 3));
        assert_eq!(after.service.unwrap().count, before.service.unwrap().count * 3 / 4);
        assert_eq!(after.reasons, ["unsteady: made up"]);
    }

    #[test]
    fn skipped_trials_that_cannot_run_here_are_not_subtracted_twice() {
        let mut run = testkit::run();
        run.header.strategy =
            harness::record::Strategy::Until(harness::record::UntilGoal { margin: 0.5, time_max_ns: 0 });
        let done: Vec<u32> = run.records.iter().map(|record| record.trial.index).collect();
        let last = run.header.trials.last().unwrap().clone();
        run.header.trials.push(Trial { index: last.index + 1, repeat: last.repeat + 1, ..last.clone() });
        let infeasible = vec!["made up".to_owned()];
        run.header.trials.push(Trial { index: last.index + 2, repeat: last.repeat + 1, infeasible, ..last });
        assert_eq!(planned(&run), done.len());
    }

    #[test]
    fn percentiles_of_a_row_are_those_of_its_merged_requests() {
        let run = testkit::interleaved_run();
        let comparison = Summary::of(&run).comparisons.remove(0);
        for row in &comparison.rows {
            let records = run.records.iter().filter(|it| row.covers(&it.trial));
            let all = merged(records.map(|it| &it.load.as_ref().unwrap().service)).distribution();
            assert_eq!(row.service, Some(all), "{}", row.label);
            assert!((row.estimate(Figure::P99).unwrap().value / all.p99_ns as f64 - 1.0).abs() < 1e-9);
            assert!((row.estimate(Figure::P50).unwrap().value / all.p50_ns as f64 - 1.0).abs() < 1e-9);
        }
        let [best, other] = [0, 1].map(|at| comparison.rows[at].service.unwrap().p50_ns as f64);
        assert!(
            (comparison.rows[1].ratio.unwrap().ratio / (other / best) - 1.0).abs() < 1e-9,
            "as a reader computes it"
        );
        assert!((comparison.rows[1].added_ns.unwrap().value - (other - best)).abs() < 1e-6);
    }

    #[test]
    fn best_row_wins_by_common_heats() {
        let rows = Summary::of(&testkit::interleaved_run()).comparisons.remove(0).rows;
        let mut named = ["epoll", "poll"].map(|name| rows.iter().find(|row| row.label() == name).unwrap().clone());
        let repeats = |values: &[f64]| -> Vec<Repeat> {
            (0..).zip(values).map(|(heat, &value)| Repeat::new(heat, value)).collect()
        };
        // The heat in which the host was slow counts only for `poll`.
        named[0].metrics = repeats(&[100.0, 101.0, 99.0]);
        named[1].metrics = repeats(&[95.0, 96.0, 94.0, 900.0]);
        for (more_is_better, expected) in [(false, ["poll", "epoll"]), (true, ["epoll", "poll"])] {
            let mut rows = named.clone();
            rank(&mut rows, more_is_better);
            assert_eq!(rows.each_ref().map(|row| row.label()), expected);
            assert_eq!(rows[1].ratio.unwrap().ratio < 1.0, more_is_better);
        }
    }

    #[test]
    fn placebo_is_its_own_row_and_never_the_best() {
        let comparison = |run: &Run| Summary::of(run).comparisons.remove(0);
        let mut run = testkit::interleaved_run();
        let labels = |it: &Comparison| it.rows.iter().map(Row::label).collect::<Vec<_>>();
        for factor in [0.01, 10_000.0] {
            let placebos = run.records.iter_mut().filter(|record| record.trial.is_placebo);
            placebos.for_each(|record| testkit::slow_down(record, factor));
            let comparison = comparison(&run);
            let labels = labels(&comparison);
            assert_eq!((labels[0].as_str(), labels.len()), ("epoll", 4), "{labels:?}");
            assert_eq!(comparison.ranked().count(), 3);
            let sentence = crate::analysis::conclusion::of(&comparison);
            assert!(sentence.contains(", epoll ") && !sentence.contains("placebo"), "{sentence}");
        }
        assert!(labels(&comparison(&run)).contains(&"epoll (placebo)".into()));
        run.records.truncate(0);
        assert!(comparison(&run).ranked().next().is_none());
    }

    #[test]
    fn groups_are_linked_by_their_reference() {
        let mut run = testkit::interleaved_run();
        // `poll` and the second `epoll` form another group, on a host that is three times slower.
        for at in (0..run.records.len()).filter(|at| at % 4 > 1) {
            for trial in [&mut run.header.trials[at], &mut run.records[at].trial] {
                (trial.is_placebo, trial.is_reference) = (false, at % 4 == 3);
                trial.client.slices.as_mut().unwrap().heat += 100;
            }
            testkit::slow_down(&mut run.records[at], 3.0);
        }
        for record in &mut run.records {
            let stacks = ::profile::Calls::from_folded("main 1\n");
            let profile = harness::record::Profile { stacks, idle: 0, others: 0, lost: 0, cpu_ns_per_request: None };
            record.profile = Some(profile);
        }
        let poll = |run: &Run| {
            let comparison = Summary::of(run).comparisons.remove(0);
            assert_eq!(comparison.rows.iter().map(Row::label).collect::<Vec<_>>(), ["epoll", "mt", "poll"]);
            let groups =
                comparison.interleaving.iter().any(|it| it.starts_with("The servers formed groups, each with epoll: "));
            assert!(groups, "{:?}", comparison.interleaving);
            let has_difference = |row: &Row| row.profile.as_ref().unwrap().parts[0].added_ns.is_some();
            assert_eq!([1, 2].map(|at| has_difference(&comparison.rows[at])), [true, false], "of the CPU time");
            comparison.rows[2].ratio.unwrap()
        };
        let ratio = poll(&run);
        let interval = ratio.interval.unwrap();
        assert!(1.94 < interval.low && interval.high < 2.06, "{ratio:?}");
        run.records.iter_mut().filter(|it| it.trial.is_reference).for_each(|it| it.verdict = with(Failed, ""));
        let ratio = poll(&run);
        assert!(
            ratio.ratio > 5.0 && ratio.range.is_none(),
            "without the reference nothing links the groups: {ratio:?}"
        );
    }

    #[test]
    fn pairs_have_the_ratios_of_each_figure() {
        let summary = Summary::of(&testkit::interleaved_run());
        let json = serde_json::to_value(&summary.comparisons[0]).unwrap();
        let pairs = json["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), 6);
        let pair = pairs.iter().find(|it| it["architecture"] == "poll" && it["base"] == "epoll").unwrap();
        for figure in ["p50", "p90", "p95", "p99", "response-p99"] {
            let ratio = pair["ratios"][figure]["ratio"].as_f64().unwrap();
            let expected = if figure == "response-p99" { 1.0..3.0 } else { 1.95..2.05 };
            assert!(expected.contains(&ratio), "{figure}: {pair}");
        }
        let interval = &pair["ratio"]["interval"];
        assert!(interval["low"].as_f64().unwrap() > 1.95 && interval["high"].as_f64().unwrap() < 2.05, "{pair}");
        assert!(pair["ratio"]["p_family"].as_f64().unwrap() >= pair["ratio"]["p_value"].as_f64().unwrap());
        assert!(!pair["ratios"]["cpu"]["interval"].is_null(), "six repeats: {pair}");
        assert!(pair["ratio"]["range"]["low"].as_f64().unwrap() > 1.9, "the lowest ratio in a heat: {pair}");
        let noise = &json["noise"];
        assert!((noise["ratio"].as_f64().unwrap() - 1.0).abs() < 0.01, "{noise}");
        assert!(noise["interval"]["low"].as_f64().unwrap() < 1.0, "{noise}");
        let rows = json["rows"].as_array().unwrap();
        let placebos: Vec<_> = rows.iter().filter(|row| row["is_placebo"] == true).map(|row| &row["label"]).collect();
        assert_eq!(placebos, ["epoll (placebo)"]);
        let without = serde_json::to_value(Summary::of(&testkit::run())).unwrap();
        assert!(without["comparisons"][0]["noise"].is_null());
        let sentence = crate::analysis::conclusion::noise(&summary.comparisons[0]).unwrap();
        assert!(sentence.starts_with("Noise floor: epoll against itself (placebo) "), "{sentence}");
    }
}
