//! Many runs as text, and as CSV.

use serde::Serialize;
use stats::Estimate;

use super::{Entry, Figures, History, Trend, is_same_traffic};
use crate::table::{self, Column};
use crate::versus::{finding, ratio};
use crate::{Medium, chart, format, sentence, stream};

/// A sentence of a run that is longer than this is cut in a table.
const SENTENCE_MAX: usize = 50;
/// So many of the newest runs are drawn as text.
const SPARKS_MAX: usize = 32;

/// A run as a table has it.
struct Shown {
    entry: Entry,
    host: String,
}

const RUNS: &[Column<Shown>] = &[
    Column { heading: "began", rank: 0, text: |it| began(&it.entry) },
    Column { heading: "run", rank: 1, text: |it| it.entry.name.clone() },
    Column { heading: "host", rank: 0, text: |it| it.host.clone() },
    Column { heading: "muxbench", rank: 3, text: |it| it.entry.muxbench.clone() },
    Column { heading: "valid", rank: 2, text: |it| it.entry.of_trials() },
    Column { heading: "found", rank: 0, text: |it| cut(&it.entry.sentence) },
];

/// A trend as a table has it: (how many runs there are, it).
type Line = (usize, Trend);

const TRENDS: &[Column<Line>] = &[
    Column { heading: "architecture", rank: 0, text: |it| it.1.architecture.clone() },
    Column { heading: "p50", rank: 0, text: |it| sparks(it, |figures| figures.service_p50_ns) },
    Column { heading: "µs", rank: 0, text: |it| newest(&it.1, |figures| Some(figures.service_p50_ns?.value / 1e3)) },
    Column { heading: "p99", rank: 1, text: |it| sparks(it, |figures| figures.service_p99_ns) },
    Column { heading: "µs", rank: 1, text: |it| newest(&it.1, |figures| Some(figures.service_p99_ns?.value / 1e3)) },
    Column { heading: "a second", rank: 2, text: |it| sparks(it, |figures| figures.rate_per_s) },
    Column {
        heading: "newest",
        rank: 2,
        text: |it| newest(&it.1, |figures| Some(rate(&it.1, figures.rate_per_s?.value))),
    },
    Column { heading: "against the one before", rank: 0, text: |it| ratio(it.1.change) },
    Column { heading: "newest is", rank: 0, text: |it| finding(it.1.change).replace("B ", "") },
    Column { heading: "valid", rank: 3, text: |it| it.1.points.last().map_or_else(String::new, repeats) },
];

/// Requests a second; of streams, megabytes.
fn rate(trend: &Trend, per_s: f64) -> f64 {
    stream::megabytes_per_s(&trend.workload, per_s).unwrap_or(per_s)
}

fn repeats(figures: &Figures) -> String {
    format!("{} {}/{}", sentence::name(figures.verdict), figures.repeats_valid, figures.repeats)
}

fn newest(trend: &Trend, figure: impl Fn(&Figures) -> Option<f64>) -> String {
    trend.points.last().and_then(figure).map_or("-".into(), format::digits)
}

/// A place for each of the newest runs, so that those below each other are of one run.
fn sparks((runs, trend): &Line, figure: fn(&Figures) -> Option<Estimate>) -> String {
    let of = |run: usize| figure(trend.points.iter().find(|it| it.run == run)?).map(|it| it.value);
    chart::sparks(&(runs.saturating_sub(SPARKS_MAX)..*runs).map(of).collect::<Vec<_>>())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SENTENCE_MAX) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// To the minute.
fn began(entry: &Entry) -> String {
    let minute = entry.started_at.get(..16).unwrap_or(&entry.started_at);
    minute.replace('T', " ")
}

impl Entry {
    /// How many of its trials are valid, and if it was stopped, how many there are to be.
    pub(super) fn of_trials(&self) -> String {
        let planned = self.planned.filter(|planned| *planned != self.finished);
        let planned = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
        format!("{}/{}{planned}", self.valid, self.finished)
    }
}

impl History {
    /// Trends of one traffic on one host together.
    pub(super) fn by_traffic(&self) -> Vec<Vec<&Trend>> {
        let mut groups: Vec<Vec<&Trend>> = Vec::new();
        for trend in &self.trends {
            let is_same = |group: &&mut Vec<&Trend>| {
                group[0].host == trend.host && is_same_traffic(&group[0].workload, &trend.workload)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.push(trend),
                None => groups.push(vec![trend]),
            }
        }
        groups
    }

    /// What sets a trend's traffic and host apart, in words.
    pub(super) fn place(&self, trend: &Trend) -> String {
        match self.hosts.len() {
            1 => trend.title.clone(),
            _ => format!("{}, host {}", trend.title, self.hosts[trend.host].letter),
        }
    }

    /// What hosts are, a line each; of the second and on, in what they differ from the first.
    pub(super) fn about_hosts(&self) -> Vec<String> {
        let fact = |at: usize, name: &str| self.hosts[at].facts.get(name).map_or("unknown", String::as_str).to_owned();
        let about = |at: usize| {
            let differences: Vec<String> =
                self.hosts[at].differences.iter().map(|it| format!("{} {} (A: {})", it.fact, it.b, it.a)).collect();
            let differ = if at == 0 { String::new() } else { format!(". Not as A: {}", differences.join("; ")) };
            format!(
                "Host {}: {}, Linux {}{differ}.",
                self.hosts[at].letter,
                fact(at, "cpu"),
                fact(at, "kernel").split_whitespace().next().unwrap_or_default()
            )
        };
        (0..self.hosts.len()).map(about).collect()
    }
}

/// All of it.
pub fn render(history: &History, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut lines = vec![medium.heading("Runs, the oldest first")];
    let shown = |entry: &Entry| Shown { entry: entry.clone(), host: history.hosts[entry.host].letter.clone() };
    let shown: Vec<Shown> = history.runs.iter().map(shown).collect();
    lines.push(table::of(RUNS, &shown, medium).0);
    lines.extend(history.about_hosts().iter().map(|line| medium.prose(line)));
    let unreadable = history.unreadable.iter().map(|it| format!("Not read: {}: {}", it.folder, it.reason));
    lines.extend(unreadable.map(|line| medium.prose(&line)));
    lines.push(String::new());
    for trends in history.by_traffic() {
        lines.push(medium.heading(&history.place(trends[0])));
        let rows: Vec<Line> = trends.iter().map(|trend| (history.runs.len(), (*trend).clone())).collect();
        let (table, dropped) = table::of(TRENDS, &rows, medium);
        lines.push(table);
        if !dropped.is_empty() {
            lines.push(medium.prose(&format!("(too narrow for: {}; see --json)", dropped.join(", "))));
        }
        lines.push(String::new());
    }
    lines.push(medium.prose(&history.sentence));
    lines.push(medium.prose(
        "Each place of a curve is a run, from the oldest to the newest, on a logarithmic scale of its own that spans at least a \
         factor of 1.5. Figures are medians over valid repeats of the newest run; it is held against the one before by what \
         is ranked: the median service time, or in a closed loop what was done in a second.",
    ));
    medium.finished(lines.join("\n") + "\n")
}

#[derive(Serialize)]
struct CsvRow<'a> {
    architecture: &'a str,
    traffic: &'a str,
    host: &'a str,
    run: &'a str,
    folder: &'a str,
    started_at: &'a str,
    muxbench: &'a str,
    verdict: &'static str,
    repeats: usize,
    repeats_valid: usize,
    service_p50_ns: Option<f64>,
    service_p50_low_ns: Option<f64>,
    service_p50_high_ns: Option<f64>,
    service_p99_ns: Option<f64>,
    service_p99_low_ns: Option<f64>,
    service_p99_high_ns: Option<f64>,
    rate_per_s: Option<f64>,
    rate_low_per_s: Option<f64>,
    rate_high_per_s: Option<f64>,
}

/// A row for each point of each trend.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(history: &History) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let ends = |it: Option<Estimate>| {
        let interval = it.and_then(|it| it.interval);
        (it.map(|it| it.value), interval.map(|it| it.low), interval.map(|it| it.high))
    };
    for trend in &history.trends {
        for figures in &trend.points {
            let run = &history.runs[figures.run];
            let (p50, p99, rate) =
                (ends(figures.service_p50_ns), ends(figures.service_p99_ns), ends(figures.rate_per_s));
            writer.serialize(CsvRow {
                architecture: &trend.architecture,
                traffic: &trend.title,
                host: &history.hosts[trend.host].letter,
                run: &run.name,
                folder: &run.folder,
                started_at: &run.started_at,
                muxbench: &run.muxbench,
                verdict: sentence::name(figures.verdict),
                repeats: figures.repeats,
                repeats_valid: figures.repeats_valid,
                service_p50_ns: p50.0,
                service_p50_low_ns: p50.1,
                service_p50_high_ns: p50.2,
                service_p99_ns: p99.0,
                service_p99_low_ns: p99.1,
                service_p99_high_ns: p99.2,
                rate_per_s: rate.0,
                rate_low_per_s: rate.1,
                rate_high_per_s: rate.2,
            })?;
        }
    }
    crate::csv::finished(writer)
}
