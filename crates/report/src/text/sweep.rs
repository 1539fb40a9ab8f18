//! A sweep as text: a row for each step, and the response time against the rate.

use harness::record::{Figure, Run, VerdictKind};

use super::curves::{self, Line};
use super::host::host;
use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use super::tail_mark;
use crate::analysis::sweep::{Curve, Step, StepFigures, Sweep};
use crate::analysis::workload::title;
use crate::format;
use crate::list::distinct;

fn columns() -> Vec<Column<Step>> {
    let mut columns = vec![
        column("architecture", 0, |step: &Step| step.architecture.clone()),
        column("dem_req_rate", 0, |step: &Step| step.dem_req_rate.to_string()),
        column("req_rate", 2, |step: &Step| figure(step, |it| Some(it.req_rate))),
        column("con_rate", 5, |step: &Step| figure(step, |it| Some(it.con_rate))),
        column("min_rep_rate", 3, |step: &Step| figure(step, |it| it.min_rep_rate)),
        column("avg_rep_rate", 0, |step: &Step| figure(step, |it| Some(it.avg_rep_rate))),
        column("max_rep_rate", 3, |step: &Step| figure(step, |it| it.max_rep_rate)),
        column("stddev_rep_rate", 4, |step: &Step| figure(step, |it| it.stddev_rep_rate)),
        column("resp_time ms", 2, |step: &Step| tail(step, 0.99, |it| it.resp_time)),
    ];
    for (quantile, rank) in [(Figure::P50, 1), (Figure::P90, 1), (Figure::P95, 1), (Figure::P99, 0)] {
        columns.extend(quantile.quantile().map(|(q, ns)| {
            column(format!("{} ms", quantile.name()), rank, move |step: &Step| {
                tail(step, q, |it| (it.response.count > 0).then(|| ns(&it.response) as f64 / 1e6))
            })
        }));
    }
    columns.extend([
        column("net_io KiB/s", 4, |step: &Step| figure(step, |it| it.net_io)),
        column("errors %", 2, |step: &Step| figure(step, |it| Some(it.errors))),
        column("verdict", 0, |step: &Step| step.verdict_name().to_owned()).styled(|step| step.verdict.map(Style::of)),
    ]);
    columns
}

fn figure(step: &Step, figure: impl Fn(&StepFigures) -> Option<f64>) -> String {
    step.figures.as_ref().and_then(figure).map_or("-".into(), format::significant)
}

/// Formats a figure, with the mark if the client may have caused quantile `q`.
fn tail(step: &Step, q: f64, of: impl Fn(&StepFigures) -> Option<f64>) -> String {
    let text = figure(step, &of);
    let timed = step.figures.as_ref().filter(|it| of(it).is_some());
    timed.map_or(text.clone(), |it| tail_mark::mark(text, &it.late, q))
}

/// Renders the sweep: a table and a chart for each workload.
pub fn render(run: &Run, sweep: &Sweep, medium: Medium) -> String {
    let mut lines = Vec::new();
    for workload in sweep.workloads() {
        lines.push(medium.heading(&title(workload)));
        let steps = sweep.curves_of(workload).flat_map(|curve| &curve.steps);
        lines.push(table::with_dropped(&columns(), steps.collect::<Vec<_>>(), medium));
        let is_late =
            |curve: &&Curve| curve.steps.iter().filter_map(|it| it.figures.as_ref()).any(|it| it.late.reaches(0.99));
        let late: Vec<&str> = sweep.curves_of(workload).filter(is_late).map(|it| it.architecture.as_str()).collect();
        if !late.is_empty() {
            lines.push(medium.prose(&tail_mark::note_of(&late.join(", "))));
        }
        lines.extend(sweep.curves_of(workload).map(|curve| medium.prose(&sentence_of(curve))));
        lines.push(String::new());
        let curves: Vec<Line> = sweep.curves_of(workload).map(line_of).collect();
        let drawn = curves::draw("p99 of the response time", "planned requests/s", &curves, medium.width());
        lines.extend(drawn.map(|chart| medium.verbatim(&chart) + "\n"));
    }
    lines.extend(medium.legend(
        "Response time runs from the planned send to the last byte of the response, so it includes queueing. min_rep_rate, \
         max_rep_rate and stddev_rep_rate compare the reply rates of the eighths of each window; avg_rep_rate is the mean over \
         whole windows.",
    ));
    lines.push(medium.prose(&host(run)));
    medium.finished(lines.join("\n") + "\n")
}

fn line_of(curve: &Curve) -> Line {
    let point = |step: &Step| {
        let figures = step.figures.as_ref().filter(|it| it.response.count > 0 && !it.late.reaches(0.99))?;
        Some((step.dem_req_rate, figures.response.p99_ns as f64))
    };
    Line { name: curve.architecture.clone(), points: curve.steps.iter().filter_map(point).collect() }
}

/// States the highest rate that an architecture kept up with, and the rates at which its trials were not valid.
fn sentence_of(curve: &Curve) -> String {
    let kept_up = curve.steps.iter().filter(|step| step.is_kept_up()).map(|step| step.dem_req_rate);
    let most = curve.steps.iter().filter_map(|step| Some(step.figures.as_ref()?.avg_rep_rate)).reduce(f64::max);
    let mut words = vec![match (kept_up.reduce(f64::max), most) {
        (Some(rate), Some(most)) => format!("keeps up with {rate} requests/s, peak {}", format::digits(most)),
        (None, Some(most)) => {
            let mut verdicts = curve.steps.iter().filter_map(|step| step.verdict);
            let are_saturated = verdicts.all(|verdict| verdict == VerdictKind::Saturated);
            let kept_up = if are_saturated { "keeps up with none of the rates" } else { "no valid measurement" };
            format!("{kept_up}, peak {}", format::digits(most))
        }
        (_, None) => "no measurement".into(),
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
    let not_run = || curve.steps.iter().filter(|step| step.verdict.is_none());
    for reason in distinct(not_run().flat_map(|step| &step.reasons)) {
        words.push(format!("{}: {reason}", rates(&mut not_run().filter(|step| step.reasons.contains(reason)))));
    }
    format!("{}: {}", curve.architecture, words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_fits_wide_and_narrow_terminals() {
        let run = testkit::sweep_run();
        let sweep = Sweep::of(&run).unwrap();
        for width in [160, 80] {
            let text = render(&run, &sweep, width.into());
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("sweep_{width}"), text);
        }
    }

    #[test]
    fn client_does_not_decide_what_a_server_keeps_up_with() {
        let curve = &Sweep::of(&testkit::sweep_run()).unwrap().curves[0];
        let first_words = |lowest, others| {
            let verdict = |at| Some(if at == 0 { lowest } else { others });
            let steps = curve.steps.iter().enumerate();
            let steps = steps.map(|(at, step)| Step { verdict: verdict(at), ..step.clone() }).collect();
            let sentence = sentence_of(&Curve { steps, ..curve.clone() });
            sentence.split(", peak").next().unwrap().to_owned()
        };
        let (client, server) = (VerdictKind::ClientLimited, VerdictKind::Saturated);
        assert_eq!(first_words(server, server), "epoll: keeps up with none of the rates");
        assert_eq!(first_words(client, client), "epoll: no valid measurement");
        assert_eq!(first_words(client, server), "epoll: no valid measurement");
    }

    #[test]
    fn step_without_a_response_has_no_times() {
        let mut run = testkit::sweep_run();
        run.records.iter_mut().filter_map(|it| it.load.as_mut()).for_each(|load| {
            (load.service, load.response) = Default::default();
        });
        let sweep = Sweep::of(&run).unwrap();
        let text = render(&run, &sweep, 160.into());
        assert!(!text.contains(" 0.00") && !text.contains("-?"), "{text}");
        assert!(
            sweep.curves.iter().flat_map(|it| &it.steps).flat_map(|it| &it.figures).all(|it| it.resp_time.is_none())
        );
    }
}
