//! The highest rate at which each architecture meets the limits of a search, side by side.

use harness::capacity::{Answer, Ended, Probe, Pursuit, Question, pursuits};
use harness::course::{Course, Finding};
use harness::record::{Run, Workload};
use load::LoadReport;
use load::late::LateSends;
use serde::Serialize;
use stats::{Histogram, Interval};

use crate::summary::title;
use crate::table::{self, Column};
use crate::terminal::host;
use crate::{Medium, format, tails};

/// What the searches of a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Capacities {
    /// What was asked.
    pub question: Question,
    /// One for each architecture and traffic, the highest first.
    pub rows: Vec<Row>,
}

/// What one search found.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The architecture.
    pub architecture: String,
    /// The traffic, without its rate.
    pub workload: Workload,
    /// The highest rate, and what bounds it; `None` if nothing is known.
    pub answer: Option<Answer>,
    /// The quantiles that are limited, in nanoseconds, in the order of the limits: of the probes in the interval that met them,
    /// or else of the nearest below; `None` if none did.
    pub there_ns: Vec<Option<u64>>,
    /// Requests of those probes that the client sent late.
    pub there_late: LateSends,
    /// Probes by what they said.
    pub probes: Probes,
    /// Why the search ended; `None` if it was stopped.
    pub ended: Option<Ended>,
    /// Why it could not be run.
    pub impossible: Vec<String>,
    /// What the last trial that came to nothing said.
    pub failure: Option<String>,
}

/// Probes by what they said.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Probes {
    met: usize,
    unmet: usize,
    unmet_by_the_client: usize,
    spoilt: usize,
    failed: usize,
}

impl Probes {
    fn of(pursuit: &Pursuit<'_>) -> Self {
        let count = |what: Probe| pursuit.probes.iter().filter(|(_, probe)| *probe == what).count();
        Self {
            met: count(Probe::Met),
            unmet: count(Probe::Unmet),
            unmet_by_the_client: count(Probe::UnmetByTheClient),
            spoilt: count(Probe::Spoilt),
            failed: count(Probe::Failed),
        }
    }

    fn total(&self) -> usize {
        self.met + self.unmet + self.unmet_by_the_client + self.spoilt + self.failed
    }
}

impl Capacities {
    /// What was found, in a sentence for each traffic.
    pub fn sentence(&self) -> String {
        let of = |workload: &Workload| {
            sentence(&self.rows.iter().filter(|row| row.workload == *workload).collect::<Vec<_>>())
        };
        self.workloads().into_iter().map(of).collect::<Vec<_>>().join(" ")
    }

    /// Of a run that searches; `None` if it does not.
    pub fn of(run: &Run) -> Option<Self> {
        let Course::Capacity(question) = &run.header.course else { return None };
        let findings: Vec<Finding> = run.records.iter().map(|record| Finding::of(record, &run.header.course)).collect();
        let mut rows: Vec<Row> =
            pursuits(&run.header, question, &findings).iter().map(|pursuit| row(run, question, pursuit)).collect();
        rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then_with(|| a.architecture.cmp(&b.architecture)));
        Some(Self { question: question.clone(), rows })
    }

    fn workloads(&self) -> Vec<&Workload> {
        let mut workloads: Vec<&Workload> = Vec::new();
        for row in &self.rows {
            if !workloads.contains(&&row.workload) {
                workloads.push(&row.workload);
            }
        }
        workloads.sort_by(|a, b| crate::summary::order(a, b));
        workloads
    }
}

/// By which rows are ordered: what is known for sure, at least.
fn rate(row: &Row) -> f64 {
    match row.answer {
        Some(Answer::Server { rate_per_s, .. } | Answer::AtLeast { rate_per_s, .. }) => rate_per_s,
        None => 0.0,
    }
}

fn row(run: &Run, question: &Question, pursuit: &Pursuit<'_>) -> Row {
    let first = pursuit.first;
    let searches = run.header.trials.len() as u32;
    let records = || run.records.iter().filter(|record| record.trial.index % searches == first.index);
    let answer = pursuit.answer();
    let interval = match answer {
        Some(Answer::Server { interval, .. }) => interval,
        Some(Answer::AtLeast { rate_per_s, .. }) => Interval { low: rate_per_s, high: rate_per_s },
        None => Interval { low: f64::INFINITY, high: 0.0 },
    };
    let met = || {
        let met = records().filter(|record| question.probe(record) == Probe::Met);
        met.filter_map(|record| Some((record.trial.workload.rate_per_s?, record.load.as_ref()?)))
    };
    let within = met().filter(|(rate, _)| interval.low <= *rate && *rate <= interval.high);
    let mut there: Vec<&LoadReport> = within.map(|(_, load)| load).collect();
    if there.is_empty() {
        let below = met().filter(|(rate, _)| *rate <= interval.high);
        there.extend(below.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, load)| load));
    }
    let mut histogram = Histogram::new();
    there.iter().for_each(|load| histogram.merge(&load.response.histogram));
    let mut failed = records().filter(|record| record.load.is_none());
    Row {
        architecture: first.label(),
        workload: Workload { rate_per_s: None, ..first.workload.clone() },
        answer,
        there_ns: question
            .limits
            .iter()
            .map(|limit| (histogram.count() > 0).then(|| histogram.quantile(limit.quantile)))
            .collect(),
        there_late: tails::late(there.into_iter()),
        probes: Probes::of(pursuit),
        ended: pursuit.ended,
        impossible: first.impossible.clone(),
        failure: failed.next_back().map(|record| record.verdict.reason.clone()),
    }
}

/// A row as it is shown: its limited quantiles in words, too.
struct Shown {
    row: Row,
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

fn most(row: &Row) -> String {
    match row.answer {
        Some(Answer::Server { rate_per_s, .. }) => format::digits(rate_per_s),
        Some(Answer::AtLeast { rate_per_s, .. }) => format!(">= {}", format::digits(rate_per_s)),
        None => "-".into(),
    }
}

fn interval(row: &Row) -> String {
    match row.answer {
        Some(Answer::Server { interval, .. }) => {
            format!("{} - {}", format::digits(interval.low), format::digits(interval.high))
        }
        _ => "-".into(),
    }
}

fn there(question: &Question, row: &Row) -> String {
    let quantile = |(limit, ns): (&harness::capacity::Limit, &Option<u64>)| {
        ns.map(|ns| {
            let time = tails::mark(format::time(ns as f64), &row.there_late, limit.quantile);
            format!("{} {time}", limit.name())
        })
    };
    let known: Vec<String> = question.limits.iter().zip(&row.there_ns).filter_map(quantile).collect();
    if known.is_empty() { "-".into() } else { known.join(", ") }
}

/// Why a search ended, in words.
fn ended(row: &Row) -> &'static str {
    let client = matches!(row.answer, Some(Answer::AtLeast { client: true, .. }));
    match row.ended {
        _ if client => "the client's limit",
        Some(Ended::Precise) => "precise",
        Some(Ended::Time) => "time over",
        Some(Ended::AllMet) => "highest rate tried",
        Some(Ended::NoneMet) => "no rate meets it",
        Some(Ended::Failed) => "failed",
        Some(Ended::Impossible) => "impossible here",
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
        let rows: Vec<&Row> = capacities.rows.iter().filter(|row| row.workload == *workload).collect();
        let shown = rows.iter().map(|&row| Shown { there: there(question, row), row: row.clone() });
        let shown: Vec<Shown> = shown.collect();
        let (table, dropped) = table::of(COLUMNS, &shown, medium);
        line(&table);
        if !dropped.is_empty() {
            line(&medium.prose(&format!("(too narrow for: {}; see --json)", dropped.join(", "))));
        }
        let is_marked = |row: &&&Row| question.limits.iter().any(|limit| row.there_late.reaches(limit.quantile));
        let late: Vec<&str> = rows.iter().filter(is_marked).map(|row| row.architecture.as_str()).collect();
        if !late.is_empty() {
            line(&medium.prose(&tails::note_of(&late.join(", "))));
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
fn advice(row: &Row) -> Option<&'static str> {
    match (row.answer, row.ended) {
        (Some(Answer::AtLeast { client: true, .. }), _) => {
            Some("the client could not keep up beyond this; give it more CPUs (--client-cpus, --clients)")
        }
        (_, Some(Ended::AllMet)) => Some("the highest rate that was tried meets the limit; raise --to"),
        (_, Some(Ended::NoneMet)) => Some("the lowest rate that can be tried does not meet the limit; raise the limit"),
        (_, Some(Ended::Time)) => Some(
            "the time was over; give it more (muxbench capacity --resume FOLDER --time-max TIME), or ask for less (--precision)",
        ),
        _ => None,
    }
}

/// Which is highest, and whether that is sure: of one whose capacity was not found it may be known that it can do more.
fn sentence(rows: &[&Row]) -> String {
    let known: Vec<(&Row, f64, Interval)> = rows
        .iter()
        .filter_map(|row| match row.answer {
            Some(Answer::Server { rate_per_s, interval }) => Some((*row, rate_per_s, interval)),
            _ => None,
        })
        .collect();
    let best_per_s = known.first().map_or(f64::INFINITY, |(_, rate, _)| *rate);
    let beyond = rows.iter().filter(|row| matches!(row.answer, Some(Answer::AtLeast { .. })));
    let (more, others): (Vec<&Row>, Vec<&Row>) = beyond.copied().partition(|row| rate(row) > best_per_s);
    let names = |rows: &[&Row]| rows.iter().map(|row| row.architecture.as_str()).collect::<Vec<_>>().join(", ");
    let of_more = more
        .iter()
        .map(|row| format!(" {} can do at least {}, which is more.", row.architecture, format::digits(rate(row))));
    let mut unknown: String = of_more.collect();
    if !others.is_empty() {
        let they = if others.len() == 1 { "it" } else { "they" };
        unknown += &format!(" Of {} it is only known what {they} can do at least.", names(&others));
    }
    let Some((best, rate, of_best)) = known.first() else {
        return format!("No capacity was found.{unknown}");
    };
    let near: Vec<&str> =
        known[1..].iter().filter(|it| it.2.high >= of_best.low).map(|it| it.0.architecture.as_str()).collect();
    let rate = format::digits(*rate);
    let of_those = if more.is_empty() { "" } else { "Of those whose capacity was found, " };
    let highest = match (known.len(), near.as_slice()) {
        (1, _) => format!("{}: {rate} requests/s.", best.architecture),
        (_, []) => format!("{of_those}{} has the highest capacity, {rate} requests/s.", best.architecture),
        (_, near) => format!(
            "{of_those}{} has the highest capacity, {rate} requests/s, not told apart from {}.",
            best.architecture,
            near.join(", ")
        ),
    };
    highest + &unknown
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
    fn one_that_can_do_more_is_named_beside_the_highest_that_was_found() {
        let row = Capacities::of(&fixtures::capacity_run()).unwrap().rows.swap_remove(0);
        let row = |name: &str, answer: Answer| Row { architecture: name.into(), answer: Some(answer), ..row.clone() };
        let found = |name: &str, rate_per_s: f64| {
            let interval = Interval { low: rate_per_s * 0.98, high: rate_per_s * 1.02 };
            row(name, Answer::Server { rate_per_s, interval })
        };
        let at_least = |name: &str, rate_per_s: f64| row(name, Answer::AtLeast { rate_per_s, client: true });
        let said = |rows: &[Row]| sentence(&rows.iter().collect::<Vec<_>>());
        let (epoll, poll) = (found("epoll", 8_000.0), found("poll", 5_000.0));
        assert_eq!(
            said(&[at_least("mt", 20_000.0), epoll.clone(), poll.clone(), at_least("mp", 1_000.0)]),
            "Of those whose capacity was found, epoll has the highest capacity, 8000 requests/s. mt can do at least 20000, \
             which is more. Of mp it is only known what it can do at least."
        );
        assert_eq!(
            said(&[epoll, at_least("mt", 6_000.0), poll]),
            "epoll has the highest capacity, 8000 requests/s. Of mt it is only known what it can do at least."
        );
        assert_eq!(
            said(&[at_least("mt", 1.0)]),
            "No capacity was found. Of mt it is only known what it can do at least."
        );
    }

    #[test]
    fn a_search_that_has_just_begun_says_so() {
        let mut run = fixtures::capacity_run();
        run.records.clear();
        let text = render(&run, &Capacities::of(&run).unwrap(), 100);
        assert!(text.contains("stopped") && text.contains("No capacity was found."), "{text}");
    }
}
