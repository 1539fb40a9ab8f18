//! Decides whether a claim holds for the figures of runs.

use std::ops::RangeInclusive;

use harness::model::{Run, VerdictKind};
use harness::spec::units::Cpus;
use stats::Interval;
use stats::ratio::ratio_of_peaks;

use super::figures::{Cell, cells};
use super::{Axis, CheckedClaim, Claim, Finding, Is, Outcome, PROPORTIONAL, Statement};
use report::format;
use report::model::deviation::DeviationOf;
use report::model::workload::title;

/// Checks `claims` against all runs of their paper.
pub fn check(claims: &[Claim], runs: &[Run], deviation_of: &mut [&mut DeviationOf<'_>]) -> Vec<CheckedClaim> {
    let cpus = |run: &Run| run.header.host.get("cpus allowed")?.parse::<Cpus>().ok().map(|cpus| cpus.0.len());
    // If the number of CPUs is unknown, let the figures decide.
    let cpus = runs.iter().filter_map(cpus).min().unwrap_or(usize::MAX);
    let checked = |(number, &Claim { says, cpus_min, statements }): (usize, &Claim)| {
        let by_statement: Vec<Vec<Finding>> =
            statements.iter().map(|statement| findings(statement, runs, deviation_of)).collect();
        let (outcome, reason) = if cpus < cpus_min {
            (Outcome::NotTestableHere, Some(format!("it needs {cpus_min} CPUs, and this host has {cpus}")))
        } else {
            outcome(&by_statement)
        };
        CheckedClaim { number, says, outcome, reason, findings: by_statement.into_iter().flatten().collect() }
    };
    (1..).zip(claims).map(checked).collect()
}

/// One contrary finding refutes a claim. A claim holds if no finding is contrary or undecided, each statement has a decided
/// finding, and at most half of all findings are missing.
fn outcome(by_statement: &[Vec<Finding>]) -> (Outcome, Option<String>) {
    let all = || by_statement.iter().flatten();
    let count = |holds: Option<bool>| all().filter(|finding| finding.value.is_some() && finding.holds == holds).count();
    let decided = |findings: &Vec<Finding>| findings.iter().any(|finding| finding.holds.is_some());
    if count(Some(false)) > 0 {
        return (Outcome::DoesNotHoldHere, None);
    }
    if count(None) > 0 {
        let (open, total) = (count(None), all().count());
        return (Outcome::Inconclusive, Some(format!("{open} of {total} findings are undecided")));
    }
    let (missing, total) = (all().filter(|finding| finding.value.is_none()).count(), all().count());
    let reason = (missing > 0).then(|| format!("{missing} of {total} findings have no valid trials"));
    if !by_statement.iter().all(decided) || 2 * missing > total {
        return (Outcome::NotTestableHere, reason.or_else(|| Some("some of its statements have no trials".into())));
    }
    (Outcome::HoldsHere, reason)
}

fn findings(statement: &Statement, runs: &[Run], deviation_of: &mut [&mut DeviationOf<'_>]) -> Vec<Finding> {
    let Statement { architectures, metric, only, is } = statement;
    let others = match is {
        Is::Above(_, others) | Is::Peaks(_, others) => others,
        _ => &[][..],
    };
    let of = cells(runs, deviation_of, architectures, *only, metric);
    let others = cells(runs, deviation_of, others, *only, metric);
    with_experiments(match *is {
        Is::Flat(axis, factor) => ends(&of, axis, &(1.0 / factor..=factor)),
        Is::Grows(axis, factor) => ends(&of, axis, &(factor..=f64::INFINITY)),
        Is::Falls(axis, factor) => ends(&of, axis, &(0.0..=1.0 / factor)),
        Is::Proportional(axis) => slopes(&of, axis),
        Is::Alike(factor) => alike(&of, factor),
        Is::AtMost(limit) => each(statement, &of, f64::NEG_INFINITY..=limit),
        Is::AtLeast(limit) => each(statement, &of, limit..=f64::INFINITY),
        Is::Above(factor, _) => peaks(&of, &others, &(factor..=f64::INFINITY)),
        Is::Peaks(factor, _) => peaks(&of, &others, &(1.0 / factor..=factor)),
        Is::Found(kind) => of.iter().map(|cell| found(cell, kind)).collect(),
    })
}

/// Appends the experiment to equal descriptions, which omit the phases: two workloads may differ only in their phases.
fn with_experiments(mut findings: Vec<Finding>) -> Vec<Finding> {
    let is_one_of_several = |it: &Finding| findings.iter().filter(|other| other.what == it.what).count() > 1;
    let alike: Vec<bool> = findings.iter().map(is_one_of_several).collect();
    for finding in findings.iter_mut().zip(alike).filter_map(|(finding, is_alike)| is_alike.then_some(finding)) {
        finding.what += &format!(", in {}", finding.experiment);
    }
    findings
}

/// A ratio or another figure, with its interval.
type Found = Option<(f64, Option<Interval>)>;

/// Pairs the cells at the low and the high end of the axis that have equal architectures and otherwise equal workloads.
fn pairs(cells: &[Cell], axis: Axis) -> impl Iterator<Item = (&Cell, &Cell)> {
    cells.iter().filter_map(move |low| {
        let rest = axis.apart_from(&low.workload);
        let same = cells
            .iter()
            .filter(|cell| cell.architecture == low.architecture && axis.apart_from(&cell.workload) == rest);
        let at = |cell: &&Cell| axis.at(&cell.workload);
        let least = same.clone().map(|cell| at(&cell)).fold(f64::INFINITY, f64::min);
        let high = same.max_by(|a, b| at(a).total_cmp(&at(b)))?;
        (at(&low) == least && at(&high) > least).then_some((low, high))
    })
}

fn ends(cells: &[Cell], axis: Axis, range: &RangeInclusive<f64>) -> Vec<Finding> {
    let finding = |(low, high): (&Cell, &Cell)| {
        let ratio = high.against(low).map(|ratio| (ratio.ratio, ratio.interval));
        factor_within(high, pair_in_words(low, high, axis), ratio, range)
    };
    pairs(cells, axis).map(finding).collect()
}

fn pair_in_words(low: &Cell, high: &Cell, axis: Axis) -> String {
    format!("{}, {}, against {}", low.architecture, title(&high.workload), axis.words(&low.workload))
}

fn slopes(cells: &[Cell], axis: Axis) -> Vec<Finding> {
    let finding = |(low, high): (&Cell, &Cell)| {
        let decades = (axis.at(&high.workload) / axis.at(&low.workload)).ln();
        let slope = |ratio: f64| ratio.ln() / decades;
        let found = high.against(low).map(|ratio| {
            let interval = ratio.interval.map(|it| Interval { low: slope(it.low), high: slope(it.high) });
            (slope(ratio.ratio), interval)
        });
        let shown = |value: f64| format!("{value:.2}");
        finding_of(high, pair_in_words(low, high, axis), found, "slope ", shown, &PROPORTIONAL)
    };
    pairs(cells, axis).map(finding).collect()
}

/// Compares each further architecture with the first one, under each workload.
fn alike(cells: &[Cell], factor: f64) -> Vec<Finding> {
    let first = cells.first().map(|cell| cell.architecture.clone());
    let (bases, others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| Some(&cell.architecture) == first.as_ref());
    let finding = |cell: &Cell| {
        let base = bases.iter().find(|base| base.workload == cell.workload)?;
        let ratio = cell.against(base).map(|ratio| (ratio.ratio, ratio.interval));
        let what = format!("{} against {}, {}", cell.architecture, base.architecture, title(&cell.workload));
        Some(factor_within(cell, what, ratio, &(1.0 / factor..=factor)))
    };
    others.into_iter().filter_map(finding).collect()
}

fn each(statement: &Statement, cells: &[Cell], range: RangeInclusive<f64>) -> Vec<Finding> {
    let finding = |cell: &Cell| {
        let found = cell.estimate().map(|estimate| (estimate.value, estimate.interval));
        let what = format!("{}, {}", cell.architecture, title(&cell.workload));
        finding_of(cell, what, found, &format!("{} ", statement.metric.name), statement.metric.show, &range)
    };
    cells.iter().map(finding).collect()
}

/// Compares the peak of `cells` with the peak of `others`. If a pair of architecture and workload has no valid
/// trials, the true peak may be higher.
fn peaks(cells: &[Cell], others: &[Cell], range: &RangeInclusive<f64>) -> Vec<Finding> {
    let peak = |cells: &[Cell]| -> Option<Cell> {
        let value = |cell: &Cell| cell.estimate().map(|estimate| estimate.value);
        let valued = cells.iter().filter_map(|cell| Some((value(cell)?, cell)));
        valued.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cell)| cell.clone())
    };
    let (Some(best), Some(other)) = (peak(cells), peak(others)) else { return Vec::new() };
    let blocks = |cells: &[Cell]| cells.iter().map(|cell| cell.values.clone()).collect::<Vec<_>>();
    // The ratio of two maxima has a joint interval: the highest of several cells is too high by chance.
    let ratio = ratio_of_peaks(&blocks(cells), &blocks(others)).map(|ratio| (ratio.ratio, ratio.interval));
    let words = |cell: &Cell| format!("{} ({})", cell.architecture, title(&cell.workload));
    let what = format!("the peak of {} against the peak of {}", words(&best), words(&other));
    let is_bounded = range.end().is_finite();
    let mut finding = factor_within(&best, what, ratio, range);
    let without = |cells: &[Cell]| cells.iter().filter(|cell| cell.values.is_empty()).count();
    let (ours, theirs) = (without(cells), without(others));
    let is_open = match finding.holds {
        Some(true) => theirs > 0 || is_bounded && ours > 0,
        Some(false) => ours > 0 || is_bounded && theirs > 0,
        None => false,
    };
    if is_open {
        finding.holds = None;
        finding.words +=
            &format!("; undecided because {} pairs of architecture and workload have no valid trials", ours + theirs);
    }
    vec![finding]
}

fn found(cell: &Cell, kind: VerdictKind) -> Finding {
    let count = |kind: VerdictKind| cell.verdicts.iter().filter(|&&found| found == kind).count();
    let (matching, valid, total) = (count(kind), count(VerdictKind::Valid), cell.verdicts.len());
    Finding {
        what: format!("{}, {}", cell.architecture, title(&cell.workload)),
        experiment: cell.experiment.clone(),
        // Trials with other verdicts show nothing about the claim.
        value: (matching + valid > 0).then(|| matching as f64 / total as f64),
        interval: None,
        words: format!("{} in {matching} of {total} trials", format::verdict(kind)),
        holds: match () {
            () if 2 * matching > total => Some(true),
            () if 2 * valid > total => Some(false),
            () => None,
        },
    }
}

fn factor_within(of: &Cell, what: String, found: Found, range: &RangeInclusive<f64>) -> Finding {
    finding_of(of, what, found, "factor ", format::digits, range)
}

/// A finding supports the claim if its whole interval is inside the range, and contradicts it if the whole interval
/// is outside. Without an interval, it decides nothing.
fn finding_of(
    of: &Cell,
    what: String,
    found: Found,
    name: &str,
    show: impl Fn(f64) -> String,
    range: &RangeInclusive<f64>,
) -> Finding {
    let experiment = of.experiment.clone();
    let Some((value, interval)) = found else {
        let words = "no valid trials".to_owned();
        return Finding { what, experiment, value: None, interval: None, words, holds: None };
    };
    let holds = interval.and_then(|Interval { low, high }| match (range.contains(&low), range.contains(&high)) {
        (true, true) => Some(true),
        _ if high < *range.start() || low > *range.end() => Some(false),
        _ => None,
    });
    let bounds = match (range.start().is_finite() && *range.start() != 0.0, range.end().is_finite()) {
        (true, true) => format!("{} to {}", show(*range.start()), show(*range.end())),
        (true, false) => format!("at least {}", show(*range.start())),
        _ => format!("at most {}", show(*range.end())),
    };
    let ends = match interval {
        Some(Interval { low, high }) => format!("{} to {}", show(low), show(high)),
        None => "no interval from fewer than three repeats".to_owned(),
    };
    let words = format!("{name}{} ({ends}), claimed {bounds}", show(value));
    Finding { what, experiment, value: Some(value), interval, words, holds }
}
