//! Decides whether a claim holds for the figures of runs.

use std::ops::RangeInclusive;

use harness::record::{Run, VerdictKind};
use harness::spec::units::Cpus;
use stats::Interval;
use stats::ratio::ratio_of_peaks;

use super::figures::{Cell, Found, cells};
use super::{CheckedClaim, Claim, Dimension, Finding, Is, Metric, Outcome, PROPORTIONAL, STEP, Statement};
use report::analysis::deviation::DeviationOf;
use report::analysis::workload::title;
use report::format;

/// Checks `claims` against all runs of their paper.
pub fn check(claims: &[Claim], runs: &[Run], deviation_of: &mut [&mut DeviationOf<'_>]) -> Vec<CheckedClaim> {
    let cpus = |run: &Run| run.header.host.get("cpus allowed")?.parse::<Cpus>().ok().map(|cpus| cpus.0.len());
    // If the number of CPUs is unknown, let the figures decide.
    let cpus = runs.iter().filter_map(cpus).min().unwrap_or(usize::MAX);
    let checked = |(number, &Claim { says, cpus_min, statements }): (usize, &Claim)| {
        let mut by_statement: Vec<Vec<Finding>> = Vec::new();
        for statement in statements {
            by_statement.extend(statement.metrics().map(|metric| findings(statement, metric, runs, deviation_of)));
        }
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
    let (open, total) = (count(None), all().count());
    let missing = all().filter(|finding| finding.value.is_none()).count();
    let reason = (missing > 0).then(|| format!("{missing} of {total} findings have no valid trials"));
    match () {
        () if count(Some(false)) > 0 => (Outcome::DoesNotHoldHere, None),
        () if open > 0 => (Outcome::Inconclusive, Some(format!("{open} of {total} findings are undecided"))),
        () if by_statement.iter().any(Vec::is_empty) => {
            (Outcome::NotTestableHere, Some("some of its statements have no trials".into()))
        }
        () if missing == total => (Outcome::NotTestableHere, reason),
        () if !by_statement.iter().all(decided) || 2 * missing > total => (Outcome::Inconclusive, reason),
        () => (Outcome::HoldsHere, reason),
    }
}

fn findings(
    statement: &Statement,
    metric: &Metric,
    runs: &[Run],
    deviation_of: &mut [&mut DeviationOf<'_>],
) -> Vec<Finding> {
    let Statement { architectures, only, is, .. } = statement;
    let others = match is {
        Is::Above(_, others) | Is::Peaks(_, others) => others,
        _ => &[][..],
    };
    let mut cells = |architectures: &[&str]| {
        let mut cells = cells(runs, deviation_of, architectures, *only, metric);
        cells.retain(|cell| !cell.verdicts.is_empty() || matches!(is, Is::Stopped));
        cells
    };
    let (of, others) = (cells(architectures), cells(others));
    let mut findings = match *is {
        Is::Flat(dimension, factor) => along(&of, dimension, from_low_end, &(1.0 / factor..=factor)),
        Is::Grows(dimension, factor) => trend(&of, dimension, &(factor..=f64::INFINITY), &(1.0 / STEP..=f64::INFINITY)),
        Is::Falls(dimension, factor) => trend(&of, dimension, &(0.0..=1.0 / factor), &(0.0..=STEP)),
        Is::Proportional(dimension) => slopes(&of, dimension),
        Is::Alike(factor) => alike(&of, factor),
        Is::AtMost(limit) => each(metric, &of, f64::NEG_INFINITY..=limit),
        Is::AtLeast(limit) => each(metric, &of, limit..=f64::INFINITY),
        Is::Above(factor, _) => peaks(&of, &others, &(factor..=f64::INFINITY)),
        Is::Peaks(factor, _) => peaks(&of, &others, &(1.0 / factor..=factor)),
        Is::Found(kind) => of.iter().map(|cell| found(cell, kind)).collect(),
        Is::Stopped => of.iter().map(stopped).collect(),
    };
    let is_ratio = !matches!(is, Is::AtMost(_) | Is::AtLeast(_) | Is::Found(_) | Is::Stopped);
    for finding in findings.iter_mut().filter(|finding| is_ratio && finding.value.is_some()) {
        finding.words = format!("{}, {}", metric.name, finding.words);
    }
    with_experiments(findings)
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

/// Two cells of a curve, the one lower in the dimension first.
type Pair<'a> = (&'a Cell, &'a Cell);

/// Returns the curves along a dimension: cells of equal architectures and otherwise equal workloads, in its order.
fn curves(cells: &[Cell], dimension: Dimension) -> Vec<Vec<&Cell>> {
    let is_same = |a: &Cell, b: &Cell| {
        a.architecture == b.architecture && dimension.apart_from(&a.workload) == dimension.apart_from(&b.workload)
    };
    let mut curves: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        match curves.iter_mut().find(|curve| is_same(curve[0], cell)) {
            Some(curve) => curve.push(cell),
            None => curves.push(vec![cell]),
        }
    }
    let at = |cell: &Cell| dimension.at(&cell.workload);
    curves.iter_mut().for_each(|curve| curve.sort_by(|a, b| at(a).total_cmp(&at(b))));
    curves
}

/// Pairs each cell of a curve with its low end.
fn from_low_end<'a>(curve: &[&'a Cell]) -> Vec<Pair<'a>> {
    curve.iter().skip(1).map(|cell| (curve[0], *cell)).collect()
}

/// Pairs the low end of a curve with its high end.
fn ends<'a>(curve: &[&'a Cell]) -> Vec<Pair<'a>> {
    from_low_end(curve).pop().into_iter().collect()
}

/// Pairs the neighbours on a curve of more than two cells, whose ends are not neighbours.
fn steps<'a>(curve: &[&'a Cell]) -> Vec<Pair<'a>> {
    if curve.len() > 2 { curve.windows(2).map(|pair| (pair[0], pair[1])).collect() } else { Vec::new() }
}

fn along(
    cells: &[Cell],
    dimension: Dimension,
    pairs: for<'a> fn(&[&'a Cell]) -> Vec<Pair<'a>>,
    range: &RangeInclusive<f64>,
) -> Vec<Finding> {
    let finding =
        |(low, high): Pair<'_>| factor_within(high, pair_in_words(low, high, dimension), high.against(low), range);
    curves(cells, dimension).iter().flat_map(|curve| pairs(curve)).map(finding).collect()
}

/// Checks the ends of each curve, and that no step between them goes the other way.
fn trend(
    cells: &[Cell],
    dimension: Dimension,
    of_ends: &RangeInclusive<f64>,
    of_steps: &RangeInclusive<f64>,
) -> Vec<Finding> {
    [along(cells, dimension, ends, of_ends), along(cells, dimension, steps, of_steps)].concat()
}

fn pair_in_words(low: &Cell, high: &Cell, dimension: Dimension) -> String {
    format!("{}, {}, against {}", low.architecture, title(&high.workload), dimension.words(&low.workload))
}

fn slopes(cells: &[Cell], dimension: Dimension) -> Vec<Finding> {
    let finding = |(low, high): Pair<'_>| {
        let decades = (dimension.at(&high.workload) / dimension.at(&low.workload)).ln();
        let slope = |ratio: f64| ratio.ln() / decades;
        let found = high.against(low).map(|(ratio, interval)| {
            (slope(ratio), interval.map(|it| Interval { low: slope(it.low), high: slope(it.high) }))
        });
        let shown = |value: f64| format!("{value:.2}");
        finding_of(high, pair_in_words(low, high, dimension), found, "slope ", shown, &PROPORTIONAL)
    };
    curves(cells, dimension).iter().flat_map(|curve| from_low_end(curve)).map(finding).collect()
}

/// Compares each further architecture with the first one, under each workload.
fn alike(cells: &[Cell], factor: f64) -> Vec<Finding> {
    let first = cells.first().map(|cell| cell.architecture.clone());
    let (bases, others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| Some(&cell.architecture) == first.as_ref());
    let finding = |cell: &Cell| {
        let base = bases.iter().find(|base| base.workload == cell.workload)?;
        let what = format!("{} against {}, {}", cell.architecture, base.architecture, title(&cell.workload));
        Some(factor_within(cell, what, cell.against(base), &(1.0 / factor..=factor)))
    };
    others.into_iter().filter_map(finding).collect()
}

fn each(metric: &Metric, cells: &[Cell], range: RangeInclusive<f64>) -> Vec<Finding> {
    let finding = |cell: &Cell| {
        let what = format!("{}, {}", cell.architecture, title(&cell.workload));
        finding_of(cell, what, cell.estimate(), &format!("{} ", metric.name), metric.show, &range)
    };
    cells.iter().map(finding).collect()
}

/// Compares the peak of `cells` with the peak of `others`. If a pair of architecture and workload has no valid
/// trials, the true peak may be higher.
fn peaks(cells: &[Cell], others: &[Cell], range: &RangeInclusive<f64>) -> Vec<Finding> {
    let peak = |cells: &[Cell]| -> Option<Cell> {
        let valued = cells.iter().filter_map(|cell| Some((cell.estimate()?.0, cell)));
        valued.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cell)| cell.clone())
    };
    let (Some(first), Some(first_other)) = (cells.first(), others.first()) else { return Vec::new() };
    // Without any value, name the first cell: the finding is missing.
    let (best, other) = (peak(cells).unwrap_or(first.clone()), peak(others).unwrap_or(first_other.clone()));
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
    let matching = cell.verdicts.iter().filter(|&&found| found == kind).count();
    counted(cell, matching, format::verdict(kind))
}

/// Checks that an architecture cannot run: its plan rejects it, or its trials fail.
fn stopped(cell: &Cell) -> Finding {
    let failed = cell.verdicts.iter().filter(|&&found| found == VerdictKind::Failed).count();
    counted(cell, failed + cell.infeasible, "infeasible or failed")
}

fn counted(cell: &Cell, matching: usize, name: &str) -> Finding {
    let valid = cell.verdicts.iter().filter(|&&found| found == VerdictKind::Valid).count();
    let total = cell.verdicts.len() + cell.infeasible;
    Finding {
        what: format!("{}, {}", cell.architecture, title(&cell.workload)),
        experiment: cell.experiment.clone(),
        // Trials with other verdicts show nothing about the claim.
        value: (matching + valid > 0).then(|| matching as f64 / total as f64),
        interval: None,
        words: format!("{name} in {matching} of {total} trials"),
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
