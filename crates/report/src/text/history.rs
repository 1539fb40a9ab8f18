//! Many runs as text.

use harness::record::Figure;

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
fn run_columns() -> [Column<(Entry, String)>; 6] {
    [
        column("began", 0, |(entry, _): &(Entry, String)| {
            entry.started_at.chars().take(16).collect::<String>().replace('T', " ")
        }),
        column("run", 1, |(entry, _): &(Entry, String)| entry.name.clone()),
        column("host", 0, |(_, host): &(Entry, String)| host.clone()),
        column("muxbench", 3, |(entry, _): &(Entry, String)| entry.muxbench.clone()),
        column("valid", 2, |(entry, _): &(Entry, String)| entry.counts()),
        column("found", 0, |(entry, _): &(Entry, String)| cut(&entry.sentence)),
    ]
}

/// A row of the table of trends: the number of runs in the history, and the trend.
type Line = (usize, Trend);

fn trend_columns() -> Vec<Column<Line>> {
    let mut columns = vec![column("architecture", 0, |it: &Line| it.1.architecture.clone())];
    for (figure, rank) in [(Figure::P50, 0), (Figure::P90, 4), (Figure::P95, 4), (Figure::P99, 1)] {
        columns.push(column(figure.name(), rank, move |it: &Line| sparks(it, figure)));
        columns.push(column("µs", rank, move |it: &Line| {
            let text = newest(&it.1, figure, |ns| ns / 1e3);
            // The higher percentiles have no value if the client may have caused them.
            if figure == Figure::P50 && is_marked(&it.1) { text + tail_mark::MARK } else { text }
        }));
    }
    columns.extend([
        column("per second", 2, |it: &Line| sparks(it, Figure::Rate)),
        column("newest", 2, |it: &Line| newest(&it.1, Figure::Rate, |per_s| rate(&it.1, per_s))),
        column("vs run before", 0, |it: &Line| ratio(it.1.change)),
        column("newest is", 0, |it: &Line| change_words(it.1.change).replace("B ", "")),
        column("valid", 3, |it: &Line| it.1.points.last().map_or_else(String::new, repeats)),
    ]);
    columns
}

/// Converts requests per second to the unit of the trend: megabytes per second for streams.
fn rate(trend: &Trend, per_s: f64) -> f64 {
    stream::megabytes_per_s(&trend.workload, per_s).unwrap_or(per_s)
}

fn repeats(figures: &TrendPoint) -> String {
    format!("{} {}/{}", format::verdict(figures.verdict), figures.repeats_valid, figures.repeats)
}

fn newest(trend: &Trend, figure: Figure, shown: impl Fn(f64) -> f64) -> String {
    let newest = trend.points.last().and_then(|point| point.figures[figure]);
    newest.map_or("-".into(), |it| format::digits(shown(it.value)))
}

/// Returns whether the client may have caused the newest p50.
fn is_marked(trend: &Trend) -> bool {
    trend.points.last().is_some_and(|it| it.figures[Figure::P50].is_some() && it.late.reaches(0.5))
}

/// Returns a curve with one character for each of the newest runs, so that the curves of a table line up.
fn sparks((runs, trend): &Line, figure: Figure) -> String {
    let of = |run: usize| trend.points.iter().find(|it| it.run == run)?.figures[figure].map(|it| it.value);
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
    lines.push(table::of(&run_columns(), &runs.collect::<Vec<_>>(), medium).0);
    lines.extend(history.about_hosts().iter().map(|line| medium.prose(line)));
    let unreadable = history.unreadable.iter().map(|it| format!("Cannot read {}: {}", it.folder, it.reason));
    lines.extend(unreadable.map(|line| medium.prose(&line)));
    lines.push(String::new());
    for trends in history.by_traffic() {
        lines.push(medium.heading(&history.place(trends[0])));
        let rows: Vec<Line> = trends.iter().map(|trend| (history.runs.len(), (*trend).clone())).collect();
        lines.push(table::with_dropped(&trend_columns(), &rows, medium));
        let marked: Vec<&str> = trends.iter().filter(|it| is_marked(it)).map(|it| it.architecture.as_str()).collect();
        if !marked.is_empty() {
            lines.push(medium.prose(&tail_mark::note_of(&marked.join(", "))));
        }
        lines.push(String::new());
    }
    lines.push(medium.prose(&history.sentence));
    lines.extend(medium.legend(
        "Each character of a curve is a run, from the oldest to the newest. Each curve has its own logarithmic scale, which spans at \
         least a factor of 1.5. Values are those of the newest run. The last columns compare the newest run \
         with the run before, by the median service time or, in a closed loop, by throughput.",
    ));
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests;
