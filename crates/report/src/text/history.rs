//! Many runs, for a reader.

use stats::Estimate;

use super::curves;
use super::medium::Medium;
use super::run_diff::{change_words, ratio};
use super::table::{self, Column};
use crate::format;
use crate::model::history::{Entry, History, Trend, TrendPoint};
use crate::model::stream;

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
    Column { heading: "newest is", rank: 0, text: |it| change_words(it.1.change).replace("B ", "") },
    Column { heading: "valid", rank: 3, text: |it| it.1.points.last().map_or_else(String::new, repeats) },
];

/// Requests a second; of streams, megabytes.
fn rate(trend: &Trend, per_s: f64) -> f64 {
    stream::megabytes_per_s(&trend.workload, per_s).unwrap_or(per_s)
}

fn repeats(figures: &TrendPoint) -> String {
    format!("{} {}/{}", format::verdict(figures.verdict), figures.repeats_valid, figures.repeats)
}

fn newest(trend: &Trend, figure: impl Fn(&TrendPoint) -> Option<f64>) -> String {
    trend.points.last().and_then(figure).map_or("-".into(), format::digits)
}

/// A place for each of the newest runs, so that those below each other are of one run.
fn sparks((runs, trend): &Line, figure: fn(&TrendPoint) -> Option<Estimate>) -> String {
    let of = |run: usize| figure(trend.points.iter().find(|it| it.run == run)?).map(|it| it.value);
    curves::sparks(&(runs.saturating_sub(SPARKS_MAX)..*runs).map(of).collect::<Vec<_>>())
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

#[cfg(test)]
mod tests;
