//! The page of a run: one file with its style, its script, its data and the plotting library.

use askama::Template;
use harness::model::{Bound, Check, Run, TrialRecord};
use serde_json::{Value, json};

use super::frame::{Drawing, Frame};
use crate::export::{self, csv};
use crate::format;
use crate::model::summary::{Comparison, Row};
use crate::model::{Summary, conclusion};
use crate::plot::Drawn;
use crate::plot::chart::Chart;
use crate::plot::figures::FigureSpec;
use crate::plot::style;
use crate::text::run::{self, NOTES_OF_MEMORY};
use crate::text::tail_mark;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    run: &'a Run,
    command: String,
    best: String,
    run_metric: &'static str,
    frame: &'a Frame,
    tables: Vec<Table>,
    interval_method: &'static str,
    coverage: String,
    notes_of_memory: &'static str,
    figures: &'a [(&'static FigureSpec, Chart)],
    trials: Vec<TrialRow>,
    finished: usize,
    possible: usize,
}

/// A ranking.
struct Table {
    title: String,
    /// The conditions of the network; empty over loopback.
    network: String,
    sentence: String,
    headings: Vec<&'static str>,
    rows: Vec<RankingRow>,
    notes: Vec<String>,
}

struct RankingRow {
    name: String,
    swatch: String,
    place: usize,
    is_ranked: bool,
    cells: Vec<String>,
}

/// A finished trial.
struct TrialRow {
    index: u32,
    repeat: u32,
    architecture: String,
    workload: String,
    verdict: &'static str,
    reason: String,
    checks: Vec<CheckRow>,
}

struct CheckRow {
    name: String,
    found: String,
    limit: String,
    p_value: String,
    passed: bool,
}

/// Renders the whole document.
pub fn render(run: &Run) -> anyhow::Result<String> {
    let summary = Summary::of(run);
    let drawn = Drawn::of(run, &summary);
    let Drawn { architectures, figures } = &drawn;
    let place = |row: &Row| architectures.iter().position(|name| *name == row.label()).unwrap_or_default();
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.name, title: figure.title, chart });
    let raw =
        json!({ "name": run.header.name, "csv": csv::of(run), "json": without_histograms(export::json::of(run)) });
    let frame = Frame::new(architectures, drawings.collect(), &raw)?;
    let page = Page {
        run,
        command: command(&run.header.command),
        best: conclusion::overall(&summary),
        run_metric: summary.comparisons.first().map_or(summary.metric, |comparison| comparison.metric),
        frame: &frame,
        tables: summary.comparisons.iter().map(|comparison| table(comparison, &place)).collect(),
        interval_method: summary.interval_method,
        coverage: format::coverage(summary.interval_coverage),
        notes_of_memory: NOTES_OF_MEMORY,
        figures,
        trials: run.records.iter().map(|record| trial(record, &summary)).collect(),
        finished: run.records.len(),
        possible: run.header.trials.iter().filter(|trial| trial.infeasible.is_empty()).count(),
    };
    frame.document(&run.header.name, &page)
}

/// Removes histograms, which would be most of the page; the run's folder contains them.
fn without_histograms(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("histogram");
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

/// Formats the words of a command line for a shell.
pub fn command(words: &[String]) -> String {
    let is_plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c));
    let quoted = words.iter().map(|word| match is_plain(word) {
        true => word.clone(),
        // Escape control characters, which a terminal would execute in pasted text.
        false if word.contains(char::is_control) => {
            let escape = |c: char| match c {
                '\\' | '\'' => format!("\\{c}"),
                c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            };
            format!("$'{}'", word.chars().map(escape).collect::<String>())
        }
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn table(comparison: &Comparison, place: &impl Fn(&Row) -> usize) -> Table {
    let columns = run::columns(&comparison.workload);
    let row = |row: &Row| RankingRow {
        name: row.label(),
        swatch: style::swatch(place(row)),
        place: place(row),
        is_ranked: row.is_ranked(),
        cells: columns[1..].iter().map(|column| (column.text)(row)).collect(),
    };
    let notes = |texts: fn(&Row) -> &Vec<String>| -> Vec<String> {
        let texts = comparison.rows.iter().flat_map(|row| texts(row).iter().map(move |text| (row.label(), text)));
        texts.map(|(name, text)| format!("{name}: {text}")).collect()
    };
    Table {
        title: comparison.title.clone(),
        network: comparison.network.clone().unwrap_or_default(),
        sentence: conclusion::of(comparison),
        headings: columns.iter().map(|column| column.heading).collect(),
        rows: comparison.rows.iter().map(row).collect(),
        notes: [
            tail_mark::note(&comparison.rows).into_iter().collect(),
            notes(|row| &row.reasons),
            notes(|row| &row.missing),
        ]
        .concat(),
    }
}

fn trial(record: &TrialRecord, summary: &Summary) -> TrialRow {
    let trial = &record.trial;
    let title = summary.comparisons.iter().find(|it| it.workload == trial.workload).map(|it| it.title.clone());
    TrialRow {
        index: trial.index,
        repeat: trial.repeat,
        architecture: trial.architecture.to_string(),
        workload: title.unwrap_or_default(),
        verdict: format::verdict(record.verdict.kind),
        reason: record.verdict.reason.clone(),
        checks: record.verdict.checks.iter().map(check).collect(),
    }
}

fn check(check: &Check) -> CheckRow {
    let number = |value: f64| format!("{} {}", format::significant(value), check.unit).trim_end().to_owned();
    let side = match check.bound {
        Bound::AtLeast => "at least",
        Bound::AtMost => "at most",
    };
    CheckRow {
        name: check.name.clone(),
        found: number(check.value),
        limit: format!("{side} {}", number(check.limit)),
        p_value: check.p_value.map_or_else(String::new, |p_value| format!("{p_value:.1e}")),
        passed: check.passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_with_special_characters_is_quoted() {
        let words = ["muxbench", "compare", "--connections", "1,2", "--output", "it's mine"].map(str::to_owned);
        assert_eq!(command(&words), r"muxbench compare --connections 1,2 --output 'it'\''s mine'");
        assert_eq!(command(&["a\n'b".to_owned()]), r"$'a\u000a\'b'");
    }
}
