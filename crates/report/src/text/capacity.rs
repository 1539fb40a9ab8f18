//! The searches of a run for the highest rate, side by side.

use harness::model::Run;
use harness::model::SearchGoal;
use harness::strategy::search::{CapacityBound, SearchEnd};

use super::host::host;
use super::medium::Medium;
use super::table::{self, Column};
use super::tail_mark;
use crate::format;
use crate::model::capacity::{Capacities, Search, sentence};
use crate::model::workload::title;

/// A row as it is shown: its limited quantiles in words, too.
struct Shown {
    row: Search,
    there: String,
}

/// In order from left to right.
const COLUMNS: &[Column<Shown>] = &[
    Column { heading: "architecture", rank: 0, text: |it| it.row.architecture.clone() },
    Column { heading: "requests/s", rank: 0, text: |it| most(&it.row) },
    Column { heading: "95 % interval", rank: 0, text: |it| interval(&it.row) },
    Column { heading: "there", rank: 1, text: |it| it.there.clone() },
    Column { heading: "probes", rank: 2, text: |it| it.row.probes.total().to_string() },
    Column { heading: "met", rank: 3, text: |it| it.row.probes.met.to_string() },
    Column { heading: "spoilt, failed", rank: 4, text: |it| (it.row.probes.spoilt + it.row.probes.failed).to_string() },
    Column { heading: "ended", rank: 0, text: |it| ended(&it.row).to_owned() },
];

fn most(row: &Search) -> String {
    match row.answer {
        Some(CapacityBound::Server { rate_per_s, .. }) => format::digits(rate_per_s),
        Some(CapacityBound::AtLeast { rate_per_s, .. }) => format!(">= {}", format::digits(rate_per_s)),
        None => "-".into(),
    }
}

fn interval(row: &Search) -> String {
    match row.answer {
        Some(CapacityBound::Server { interval, .. }) => {
            format!("{} - {}", format::digits(interval.low), format::digits(interval.high))
        }
        _ => "-".into(),
    }
}

fn there(question: &SearchGoal, row: &Search) -> String {
    let quantile = |(limit, ns): (&harness::model::LatencyLimit, &Option<u64>)| {
        ns.map(|ns| {
            let time = tail_mark::mark(format::time(ns as f64), &row.there_late, limit.quantile);
            format!("{} {time}", limit.name())
        })
    };
    let known: Vec<String> = question.limits.iter().zip(&row.there_ns).filter_map(quantile).collect();
    if known.is_empty() { "-".into() } else { known.join(", ") }
}

/// Why a search ended, in words.
fn ended(row: &Search) -> &'static str {
    let client = matches!(row.answer, Some(CapacityBound::AtLeast { client: true, .. }));
    match row.ended {
        _ if client => "the client's limit",
        Some(SearchEnd::Precise) => "precise",
        Some(SearchEnd::Time) => "time over",
        Some(SearchEnd::AllMet) => "highest rate tried",
        Some(SearchEnd::NoneMet) => "no rate meets it",
        Some(SearchEnd::Failed) => "failed",
        Some(SearchEnd::Impossible) => "impossible here",
        None => "stopped",
    }
}

/// The searches side by side.
pub fn render(run: &Run, capacities: &Capacities, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let question = &capacities.question;
    let limits = question.limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for workload in capacities.workloads() {
        line(&medium.heading(&format!("Highest rate with {limits}: {}", title(workload))));
        let rows: Vec<&Search> = capacities.rows.iter().filter(|row| row.workload == *workload).collect();
        let shown = rows.iter().map(|&row| Shown { there: there(question, row), row: row.clone() });
        let shown: Vec<Shown> = shown.collect();
        let (table, dropped) = table::of(COLUMNS, &shown, medium);
        line(&table);
        if !dropped.is_empty() {
            line(&medium.prose(&format!("(too narrow for: {}; see --json)", dropped.join(", "))));
        }
        let is_marked = |row: &&&Search| question.limits.iter().any(|limit| row.there_late.reaches(limit.quantile));
        let late: Vec<&str> = rows.iter().filter(is_marked).map(|row| row.architecture.as_str()).collect();
        if !late.is_empty() {
            line(&medium.prose(&tail_mark::note_of(&late.join(", "))));
        }
        for row in &rows {
            for reason in row.impossible.iter().chain(&row.failure) {
                line(&medium.prose(&format!("{}: {reason}", row.architecture)));
            }
            if let Some(advice) = advice(row) {
                line(&medium.prose(&format!("{}: {advice}", row.architecture)));
            }
        }
        line(&medium.prose(&sentence(&rows)));
        line("");
    }
    line(&medium.prose(
        "Response time runs from when a request was due to the last byte of its response, so that a wait for others is in it. \
         The rate is that at which a trial of this length meets the limit half the time; the interval holds it with a \
         probability of 95 %.",
    ));
    line(&medium.prose(&host(run)));
    medium.finished(text)
}

/// What to do where the server's capacity was not found.
fn advice(row: &Search) -> Option<&'static str> {
    match (row.answer, row.ended) {
        (Some(CapacityBound::AtLeast { client: true, .. }), _) => {
            Some("the client could not keep up beyond this; give it more CPUs (--client-cpus, --clients)")
        }
        (_, Some(SearchEnd::AllMet)) => Some("the highest rate that was tried meets the limit; raise --to"),
        (_, Some(SearchEnd::NoneMet)) => {
            Some("the lowest rate that can be tried does not meet the limit; raise the limit")
        }
        (_, Some(SearchEnd::Time)) => Some(
            "the time was over; give it more (muxbench capacity --resume FOLDER --time-max TIME), or ask for less (--precision)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn searches_side_by_side() {
        let run = fixtures::capacity_run();
        let capacities = Capacities::of(&run).unwrap();
        for width in [140, 70] {
            let text = render(&run, &capacities, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("capacity_{width}"), text);
        }
    }

    #[test]
    fn a_search_that_has_just_begun_says_so() {
        let mut run = fixtures::capacity_run();
        run.records.clear();
        let text = render(&run, &Capacities::of(&run).unwrap(), 100);
        assert!(text.contains("stopped") && text.contains("No capacity was found."), "{text}");
    }
}
