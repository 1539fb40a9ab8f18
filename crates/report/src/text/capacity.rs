//! The searches of a run for the highest rate or the most connections, side by side.

use harness::record::{LatencyLimit, Run, SearchGoal, Varied};
use harness::strategy::search::{CapacityBound, SearchEnd};

use super::host::host;
use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use super::tail_mark;
use crate::analysis::capacity::{Capacities, Search, sentence};
use crate::analysis::workload::title;
use crate::format;

/// A row of the table: a search, its response times as text, and whether it found the highest result.
type Line = (Search, String, bool);

/// The columns of the table, for results in `unit`.
fn columns(unit: &'static str) -> [Column<Line>; 9] {
    [
        column("architecture", 0, |it: &Line| it.0.architecture.clone()).styled(|it| it.2.then_some(Style::Best)),
        column(unit, 0, |it: &Line| most(&it.0)),
        column("95 % interval", 0, |it: &Line| interval(&it.0)),
        column("95 % succeed", 0, |it: &Line| holds(&it.0)),
        column("response time", 1, |it: &Line| it.1.clone()),
        column("probes", 2, |it: &Line| it.0.probes.total().to_string()),
        column("met", 3, |it: &Line| it.0.probes.met.to_string()),
        column("disturbed, failed", 4, |it: &Line| (it.0.probes.disturbed + it.0.probes.failed).to_string()),
        column("ended by", 0, |it: &Line| ended(&it.0).to_owned()).styled(|it| Some(style(&it.0))),
    ]
}

/// Returns good for a precise search, and bad for one without a result.
fn style(row: &Search) -> Style {
    match (row.answer, row.ended) {
        (None, _) => Style::Bad,
        (Some(CapacityBound::Server { .. }), Some(SearchEnd::Precise)) => Style::Good,
        (Some(_), _) => Style::Doubtful,
    }
}

/// Returns the result of a search that the server limited; 0 for others, which are not comparable.
fn comparable(row: &Search) -> f64 {
    if let Some(CapacityBound::Server { most, .. }) = row.answer { most } else { 0.0 }
}

fn most(row: &Search) -> String {
    match row.answer {
        Some(CapacityBound::Server { most, .. }) => format::digits(most),
        Some(CapacityBound::AtLeast { most, .. }) => format!(">= {}", format::digits(most)),
        None => "-".into(),
    }
}

fn holds(row: &Search) -> String {
    if let Some(CapacityBound::Server { holds, .. }) = row.answer { format::digits(holds) } else { "-".into() }
}

fn interval(row: &Search) -> String {
    match row.answer {
        Some(CapacityBound::Server { interval, .. }) => {
            format!("{} - {}", format::digits(interval.low), format::digits(interval.high))
        }
        _ => "-".into(),
    }
}

/// Lists the response time at the quantile of each limit, at the value in the table.
fn quantiles(question: &SearchGoal, row: &Search) -> String {
    let quantile = |(limit, ns): (&LatencyLimit, &Option<u64>)| {
        ns.map(|ns| {
            let time = tail_mark::mark(format::time(ns as f64), &row.there_late, limit.quantile);
            format!("{} {time}", limit.name())
        })
    };
    let known: Vec<String> = question.limits.iter().zip(&row.there_ns).filter_map(quantile).collect();
    if known.is_empty() { "-".into() } else { known.join(", ") }
}

/// Returns the reason why a search ended.
fn ended(row: &Search) -> &'static str {
    match row.ended {
        _ if matches!(row.answer, Some(CapacityBound::AtLeast { client: true, .. })) => "client limit",
        Some(SearchEnd::Precise) => "precision",
        Some(SearchEnd::Time) => "time limit",
        Some(SearchEnd::AllMet) => "highest probe",
        Some(SearchEnd::NoneMet) => "no probe succeeded",
        Some(SearchEnd::Failed) => "failed",
        Some(SearchEnd::Impossible) => "infeasible",
        None => "stopped",
    }
}

/// Renders all searches, a table for each workload.
pub fn render(run: &Run, capacities: &Capacities, medium: Medium) -> String {
    let mut lines = Vec::new();
    let question = &capacities.question;
    let limits = question.limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let searched = match question.varied {
        Varied::Rate => format!("Highest rate with {limits}:"),
        Varied::Connections if limits.is_empty() => "Most connections without errors: up to".to_owned(),
        Varied::Connections => format!("Most connections with {limits}: up to"),
    };
    for workload in capacities.workloads() {
        lines.push(medium.heading(&format!("{searched} {}", title(workload))));
        let rows: Vec<&Search> = capacities.rows.iter().filter(|row| row.workload == *workload).collect();
        let highest = rows.iter().map(|row| comparable(row)).fold(0.0, f64::max);
        let is_best = |row: &Search| highest > 0.0 && comparable(row) == highest;
        let shown: Vec<Line> = rows.iter().map(|&row| (row.clone(), quantiles(question, row), is_best(row))).collect();
        lines.push(table::with_dropped(&columns(capacities.unit()), &shown, medium));
        let is_marked = |row: &&&Search| question.limits.iter().any(|limit| row.there_late.reaches(limit.quantile));
        let late: Vec<&str> = rows.iter().filter(is_marked).map(|row| row.architecture.as_str()).collect();
        if !late.is_empty() {
            lines.push(medium.prose(&tail_mark::note_of_search(&late.join(", "))));
        }
        for row in &rows {
            let reasons = row.infeasible.iter().chain(&row.failure).map(String::as_str).chain(advice(row));
            lines.extend(reasons.map(|text| medium.prose(&format!("{}: {text}", row.architecture))));
        }
        lines.extend(interleaving(&rows).map(|text| medium.prose(&text)));
        lines.push(medium.prose(&sentence(&rows, capacities.unit())) + "\n");
    }
    lines.extend(medium.legend(
        "Response time runs from the planned send to the last byte of the response, so it includes queueing. At the first value \
         half of the probes succeed; the interval contains this value with a probability of 95 %. At the lower value 95 % of the \
         probes succeed, unless something disturbs them.",
    ));
    lines.push(medium.prose(&host(run)));
    medium.finished(lines.join("\n") + "\n")
}

/// States how many probes shared a window; `None` if all ran separately.
fn interleaving(rows: &[&Search]) -> Option<String> {
    let interleaved: usize = rows.iter().map(|row| row.interleaved).sum();
    let probes: usize = rows.iter().map(|row| row.probes.total()).sum();
    (interleaved > 0)
        .then(|| format!("In {interleaved} of {probes} probes the servers shared a window, in turns (interleaved)."))
}

/// Returns advice if the search ended because of the client, the range of rates or the time limit.
fn advice(row: &Search) -> Option<&'static str> {
    match (row.answer, row.ended) {
        (Some(CapacityBound::AtLeast { client: true, .. }), _) => {
            Some("the client cannot send faster; give it more CPUs (--client-cpus, --clients)")
        }
        (_, Some(SearchEnd::AllMet)) => Some("the highest probe succeeded; raise --to"),
        (_, Some(SearchEnd::NoneMet)) => Some("the lowest probe did not succeed; raise the limits or lower the load"),
        (_, Some(SearchEnd::Time)) => Some(
            "the time limit ended the search; continue with `muxbench capacity --resume FOLDER --time-max TIME`, or raise --precision",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use harness::record::Strategy;
    use load::result::LateSends;

    use super::*;

    #[test]
    fn searches_fit_wide_and_narrow_terminals() {
        let run = testkit::capacity_run();
        let capacities = Capacities::of(&run).unwrap();
        for width in [140, 70] {
            let text = render(&run, &capacities, width.into());
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("capacity_{width}"), text);
        }
    }

    #[test]
    fn search_over_connections_states_its_rate_and_unit() {
        let mut run = testkit::capacity_run();
        let Strategy::Capacity(goal) = &mut run.header.strategy else { panic!("{:?}", run.header.strategy) };
        (goal.varied, goal.limits) = (Varied::Connections, Vec::new());
        run.records.clear();
        let text = render(&run, &Capacities::of(&run).unwrap(), 100.into());
        assert!(
            text.starts_with("Most connections without errors: up to 400 connections, 1000 requests/s, "),
            "{text}"
        );
        let headings: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().take(2).collect();
        assert_eq!(headings, ["architecture", "connections"]);
    }

    #[test]
    fn note_of_marked_tail_does_not_deny_the_result() {
        let mut run = testkit::capacity_run();
        for load in run.records.iter_mut().filter_map(|record| record.load.as_mut()) {
            load.late = LateSends { bound_ns: 100_000, count: 2, sent: 200, ..LateSends::default() };
        }
        let text = render(&run, &Capacities::of(&run).unwrap(), 1_000.into());
        assert!(text.contains("? ") && text.contains(&tail_mark::note_of_search("mt, epoll")), "{text}");
        assert!(text.contains(">= ") && !text.contains("No conclusion uses"), "{text}");
    }

    #[test]
    fn search_without_probes_has_no_capacity() {
        let mut run = testkit::capacity_run();
        run.records.clear();
        let text = render(&run, &Capacities::of(&run).unwrap(), 100.into());
        assert!(text.contains("stopped") && text.contains("No capacity was found."), "{text}");
    }
}
