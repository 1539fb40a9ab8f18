//! A sweep for a reader: a row a step, and the response time against the rate.

use harness::model::{Run, VerdictKind};

use super::curves::{self, Line};
use super::host::host;
use super::medium::Medium;
use super::table::{self, Column};
use super::tail_mark;
use crate::format;
use crate::model::sweep::{Curve, Step, StepFigures, Sweep};
use crate::model::workload::title;

/// In order from left to right.
const COLUMNS: &[Column<Step>] = &[
    Column { heading: "architecture", rank: 0, text: |step| step.architecture.clone() },
    Column { heading: "dem_req_rate", rank: 0, text: |step| step.dem_req_rate.to_string() },
    Column { heading: "req_rate", rank: 2, text: |step| figure(step, |it| Some(it.req_rate)) },
    Column { heading: "con_rate", rank: 5, text: |step| figure(step, |it| Some(it.con_rate)) },
    Column { heading: "min_rep_rate", rank: 3, text: |step| figure(step, |it| it.min_rep_rate) },
    Column { heading: "avg_rep_rate", rank: 0, text: |step| figure(step, |it| Some(it.avg_rep_rate)) },
    Column { heading: "max_rep_rate", rank: 3, text: |step| figure(step, |it| it.max_rep_rate) },
    Column { heading: "stddev_rep_rate", rank: 4, text: |step| figure(step, |it| it.stddev_rep_rate) },
    Column { heading: "resp_time ms", rank: 2, text: |step| tail(step, 0.99, |it| it.resp_time) },
    Column { heading: "p50 ms", rank: 1, text: |step| figure(step, |it| Some(it.resp_time_p50)) },
    Column { heading: "p90 ms", rank: 5, text: |step| tail(step, 0.9, |it| it.resp_time_p90) },
    Column { heading: "p95 ms", rank: 5, text: |step| tail(step, 0.95, |it| it.resp_time_p95) },
    Column { heading: "p99 ms", rank: 0, text: |step| tail(step, 0.99, |it| it.resp_time_p99) },
    Column { heading: "net_io KiB/s", rank: 4, text: |step| figure(step, |it| it.net_io) },
    Column { heading: "errors %", rank: 2, text: |step| figure(step, |it| Some(it.errors)) },
    Column { heading: "verdict", rank: 0, text: |step| step.verdict_name().to_owned() },
];

fn figure(step: &Step, figure: impl Fn(&StepFigures) -> Option<f64>) -> String {
    step.figures.as_ref().and_then(figure).map_or("-".into(), format::significant)
}

/// A quantile, or a mean in which the tail above one weighs, marked where it may be the client's.
fn tail(step: &Step, q: f64, of: fn(&StepFigures) -> f64) -> String {
    let text = figure(step, |it| Some(of(it)));
    step.figures.as_ref().map_or(text.clone(), |it| tail_mark::mark(text, &it.late, q))
}

/// The whole sweep.
pub fn render(run: &Run, sweep: &Sweep, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for workload in sweep.workloads() {
        line(&medium.heading(&title(workload)));
        let steps = sweep.curves_of(workload).flat_map(|curve| &curve.steps);
        let (table, dropped) = table::of(COLUMNS, steps.collect::<Vec<_>>(), medium);
        line(&table);
        if !dropped.is_empty() {
            line(&medium.prose(&format!("(too narrow for: {}; see --csv)", dropped.join(", "))));
        }
        let is_late =
            |curve: &&Curve| curve.steps.iter().filter_map(|it| it.figures.as_ref()).any(|it| it.late.reaches(0.99));
        let late: Vec<&str> = sweep.curves_of(workload).filter(is_late).map(|it| it.architecture.as_str()).collect();
        if !late.is_empty() {
            line(&medium.prose(&tail_mark::note_of(&late.join(", "))));
        }
        for curve in sweep.curves_of(workload) {
            line(&medium.prose(&sentence_of(curve)));
        }
        line("");
        let curves: Vec<Line> = sweep.curves_of(workload).map(line_of).collect();
        let drawn = curves::draw("p99 of the response time", "requests/s asked", &curves, medium.width());
        if let Some(chart) = drawn {
            line(&medium.verbatim(&chart));
            line("");
        }
    }
    line(&medium.prose(
        "Response time runs from when a request was due to the last byte of its response, so that a wait for others is in it. \
         Reply rates are of eighths of the window.",
    ));
    line(&medium.prose(&host(run)));
    medium.finished(text)
}

fn line_of(curve: &Curve) -> Line {
    let point = |step: &Step| {
        let figures = step.figures.as_ref().filter(|it| !it.late.reaches(0.99))?;
        Some((step.dem_req_rate, figures.resp_time_p99 * 1e6))
    };
    Line { name: curve.architecture.clone(), points: curve.steps.iter().filter_map(point).collect() }
}

/// How far an architecture came.
fn sentence_of(curve: &Curve) -> String {
    let kept_up = curve.steps.iter().filter(|step| step.is_kept_up()).map(|step| step.dem_req_rate);
    let most = curve.steps.iter().filter_map(|step| Some(step.figures.as_ref()?.avg_rep_rate)).reduce(f64::max);
    let mut words = vec![match (kept_up.reduce(f64::max), most) {
        (Some(rate), Some(most)) => {
            format!("keeps up with {rate} requests/s, answers {} at most", format::digits(most))
        }
        (None, Some(most)) => format!("keeps up with none of the rates, answers {} at most", format::digits(most)),
        (_, None) => "nothing was measured".into(),
    }];
    let rates = |steps: &mut dyn Iterator<Item = &Step>| {
        steps.map(|step| step.dem_req_rate.to_string()).collect::<Vec<_>>().join(", ")
    };
    for kind in [VerdictKind::Saturated, VerdictKind::ClientLimited, VerdictKind::Unsteady, VerdictKind::Failed] {
        let at = rates(&mut curve.steps.iter().filter(|step| step.verdict == Some(kind)));
        if !at.is_empty() {
            words.push(format!("{} at {at}", format::verdict(kind)));
        }
    }
    let mut told: Vec<&String> = Vec::new();
    for step in curve.steps.iter().filter(|step| step.verdict.is_none()) {
        for reason in step.reasons.iter().filter(|reason| !told.contains(reason)).collect::<Vec<_>>() {
            told.push(reason);
            let at = rates(&mut curve.steps.iter().filter(|it| it.verdict.is_none() && it.reasons.contains(reason)));
            words.push(format!("{at}: {reason}"));
        }
    }
    format!("{}: {}", curve.architecture, words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_sweep_in_full_and_narrow() {
        let run = fixtures::sweep_run();
        let sweep = Sweep::of(&run).unwrap();
        for width in [160, 80] {
            let text = render(&run, &sweep, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("sweep_{width}"), text);
        }
    }
}
