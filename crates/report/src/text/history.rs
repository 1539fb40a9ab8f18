//! Many runs as text.

use stats::Estimate;

use super::curves;
use super::medium::Medium;
use super::run_diff::{change_words, ratio};
use super::table::{self, Column, column};
use super::tail_mark;
use crate::analysis::history::{Entry, History, Trend, TrendPoint};
use crate::analysis::stream;
use crate::format;

/// The largest number of characters of a conclusion in the table of runs.
const SENTENCE_MAX: usize = 50;
/// The largest number of runs in a curve.
const SPARKS_MAX: usize = 32;

/// The columns of the table of runs. Each row is a run and the letter of its host.
const RUNS: &[Column<(Entry, String)>] = &[
    column("began", 0, |(entry, _)| entry.started_at.chars().take(16).collect::<String>().replace('T', " ")),
    column("run", 1, |(entry, _)| entry.name.clone()),
    column("host", 0, |(_, host)| host.clone()),
    column("muxbench", 3, |(entry, _)| entry.muxbench.clone()),
    column("valid", 2, |(entry, _)| entry.counts()),
    column("found", 0, |(entry, _)| cut(&entry.sentence)),
];

/// A row of the table of trends: the number of runs in the history, and the trend.
type Line = (usize, Trend);

const TRENDS: &[Column<Line>] = &[
    column("architecture", 0, |it| it.1.architecture.clone()),
    column("p50", 0, |it| sparks(it, |figures| figures.service_p50_ns)),
    column("µs", 0, |it| newest_p50(&it.1)),
    column("p90", 4, |it| sparks(it, |figures| figures.service_p90_ns)),
    column("µs", 4, |it| newest(&it.1, |figures| Some(figures.service_p90_ns?.value / 1e3))),
    column("p95", 4, |it| sparks(it, |figures| figures.service_p95_ns)),
    column("µs", 4, |it| newest(&it.1, |figures| Some(figures.service_p95_ns?.value / 1e3))),
    column("p99", 1, |it| sparks(it, |figures| figures.service_p99_ns)),
    column("µs", 1, |it| newest(&it.1, |figures| Some(figures.service_p99_ns?.value / 1e3))),
    column("per second", 2, |it| sparks(it, |figures| figures.rate_per_s)),
    column("newest", 2, |it| newest(&it.1, |figures| Some(rate(&it.1, figures.rate_per_s?.value)))),
    column("vs run before", 0, |it| ratio(it.1.change)),
    column("newest is", 0, |it| change_words(it.1.change).replace("B ", "")),
    column("valid", 3, |it| it.1.points.last().map_or_else(String::new, repeats)),
];

/// Converts requests per second to the unit of the trend: megabytes per second for streams.
fn rate(trend: &Trend, per_s: f64) -> f64 {
    stream::megabytes_per_s(&trend.workload, per_s).unwrap_or(per_s)
}

fn repeats(figures: &TrendPoint) -> String {
    format!("{} {}/{}", format::verdict(figures.verdict), figures.repeats_valid, figures.repeats)
}

fn newest(trend: &Trend, figure: impl Fn(&TrendPoint) -> Option<f64>) -> String {
    trend.points.last().and_then(figure).map_or("-".into(), format::digits)
}

/// Formats the newest p50. The higher percentiles have no value if the client may have caused them.
fn newest_p50(trend: &Trend) -> String {
    let text = newest(trend, |figures| Some(figures.service_p50_ns?.value / 1e3));
    if is_marked(trend) { text + tail_mark::MARK } else { text }
}

/// Returns whether the client may have caused the newest p50.
fn is_marked(trend: &Trend) -> bool {
    trend.points.last().is_some_and(|it| it.service_p50_ns.is_some() && it.late.reaches(0.5))
}

/// Returns a curve with one character for each of the newest runs, so that the curves of a table line up.
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

/// Renders the list of runs, and a table of trends for each workload.
pub fn render(history: &History, medium: Medium) -> String {
    let mut lines = vec![medium.heading("Runs, the oldest first")];
    let runs = history.runs.iter().map(|entry| (entry.clone(), history.hosts[entry.host].letter.clone()));
    lines.push(table::of(RUNS, &runs.collect::<Vec<_>>(), medium).0);
    lines.extend(history.about_hosts().iter().map(|line| medium.prose(line)));
    let unreadable = history.unreadable.iter().map(|it| format!("Cannot read {}: {}", it.folder, it.reason));
    lines.extend(unreadable.map(|line| medium.prose(&line)));
    lines.push(String::new());
    for trends in history.by_traffic() {
        lines.push(medium.heading(&history.place(trends[0])));
        let rows: Vec<Line> = trends.iter().map(|trend| (history.runs.len(), (*trend).clone())).collect();
        lines.push(table::with_dropped(TRENDS, &rows, medium));
        let marked: Vec<&str> = trends.iter().filter(|it| is_marked(it)).map(|it| it.architecture.as_str()).collect();
        if !marked.is_empty() {
            lines.push(medium.prose(&tail_mark::note_of(&marked.join(", "))));
        }
        lines.push(String::new());
    }
    lines.push(medium.prose(&history.sentence));
    lines.push(medium.prose(
        "Each character of a curve is a run, from the oldest to the newest. Each curve has its own logarithmic scale, which spans at \
         least a factor of 1.5. Values are those of the newest run. The last columns compare the newest run \
         with the run before, by the median service time or, in a closed loop, by throughput.",
    ));
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests;
