//! The page: one file with its style, its script, its data and the library that draws them.

use askama::Template;
use lab::record::{Bound, Check, Run, TrialRecord};
use serde::Serialize;
use serde_json::Value;

use super::Drawn;
use super::chart::Chart;
use super::figures::Figure;
use super::style::{self, Style};
use crate::summary::{Comparison, Row};
use crate::terminal::{self, NOTES_OF_MEMORY};
use crate::{Summary, csv, format, json, sentence};

/// plotly.js, the bundle with lines and markers alone: a quarter of the whole one.
pub(crate) const PLOTLY: &str = include_str!("../../assets/plotly-basic.min.js");

pub(crate) const CSS: &str = include_str!("../../templates/report.css");
pub(crate) const SCRIPT: &str = include_str!("../../templates/report.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    run: &'a Run,
    command: String,
    best: String,
    run_metric: &'static str,
    architectures: Vec<Switch>,
    tables: Vec<Table>,
    interval_method: &'static str,
    coverage: String,
    notes_of_memory: &'static str,
    figures: &'a [(&'static Figure, Chart)],
    trials: Vec<TrialRow>,
    finished: usize,
    possible: usize,
    data: String,
    raw: String,
    plotly: &'static str,
    css: &'static str,
    script: &'static str,
}

/// An architecture among the switches.
pub(crate) struct Switch {
    pub(crate) name: String,
    /// In the list of all.
    pub(crate) place: usize,
    pub(crate) style: Style,
    pub(crate) swatch: String,
}

/// A switch for each.
pub(crate) fn switches(architectures: &[String]) -> Vec<Switch> {
    let one = |(place, name): (usize, &String)| Switch {
        name: name.clone(),
        place,
        style: style::style(place),
        swatch: style::swatch(place),
    };
    architectures.iter().enumerate().map(one).collect()
}

/// A ranking.
struct Table {
    title: String,
    /// What its network was; empty over loopback.
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

/// What the script draws.
#[derive(Serialize)]
pub(crate) struct Data<'a> {
    architectures: &'a [String],
    styles: Vec<Style>,
    figures: Vec<Drawing<'a>>,
}

impl<'a> Data<'a> {
    /// Of these architectures.
    pub(crate) fn of(architectures: &'a [String], figures: Vec<Drawing<'a>>) -> Self {
        Self { architectures, styles: (0..architectures.len()).map(style::style).collect(), figures }
    }
}

/// One of its figures.
#[derive(Serialize)]
pub(crate) struct Drawing<'a> {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    #[serde(flatten)]
    pub(crate) chart: &'a Chart,
}

/// What is downloaded.
#[derive(Serialize)]
struct Raw<'a> {
    name: &'a str,
    csv: String,
    json: Value,
}

/// The whole document.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn render(run: &Run) -> anyhow::Result<String> {
    let summary = Summary::of(run);
    let drawn = Drawn::of(run, &summary);
    let Drawn { architectures, figures } = &drawn;
    let place = |row: &Row| architectures.iter().position(|name| *name == row.label()).unwrap_or_default();
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.name, title: figure.title, chart });
    let data = Data::of(architectures, drawings.collect());
    let raw = Raw { name: &run.header.name, csv: csv::of(run)?, json: without_histograms(json::of(run)) };
    let page = Page {
        run,
        command: command(&run.header.command),
        best: sentence::overall(&summary),
        run_metric: summary.comparisons.first().map_or(summary.metric, |comparison| comparison.metric),
        architectures: switches(architectures),
        tables: summary.comparisons.iter().map(|comparison| table(comparison, &place)).collect(),
        interval_method: summary.interval_method,
        coverage: format::coverage(summary.interval_coverage),
        notes_of_memory: NOTES_OF_MEMORY,
        figures,
        trials: run.records.iter().map(|record| trial(record, &summary)).collect(),
        finished: run.records.len(),
        possible: run.header.trials.iter().filter(|trial| trial.impossible.is_empty()).count(),
        data: embedded(&data)?,
        raw: embedded(&raw)?,
        plotly: PLOTLY,
        css: CSS,
        script: SCRIPT,
    };
    Ok(page.render()?)
}

/// JSON that no script element ends in.
pub(crate) fn embedded(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

/// Histograms are in the run's folder, as files that tools read; here they would be most of the page.
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

/// Words of a command line as a shell takes them.
pub fn command(words: &[String]) -> String {
    let is_plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c));
    let quoted = words.iter().map(|word| match is_plain(word) {
        true => word.clone(),
        // What a terminal would obey when it is pasted.
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
    let columns = terminal::columns(&comparison.workload);
    let row = |row: &Row| RankingRow {
        name: row.label(),
        swatch: style::swatch(place(row)),
        place: place(row),
        is_ranked: row.is_ranked(),
        cells: columns[1..].iter().map(|column| (column.text)(row)).collect(),
    };
    let of = |rows: &dyn Fn(&Row) -> &Vec<String>| -> Vec<String> {
        let of_row =
            |row: &Row| -> Vec<String> { rows(row).iter().map(|text| format!("{}: {text}", row.label())).collect() };
        comparison.rows.iter().flat_map(of_row).collect()
    };
    Table {
        title: comparison.title.clone(),
        network: comparison.network.clone().unwrap_or_default(),
        sentence: sentence::of(comparison),
        headings: columns.iter().map(|column| column.heading).collect(),
        rows: comparison.rows.iter().map(row).collect(),
        notes: [of(&|row| &row.reasons), of(&|row| &row.missing)].concat(),
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
        verdict: sentence::name(record.verdict.kind),
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
    fn a_command_can_be_pasted() {
        let words = ["muxbench", "compare", "--connections", "1,2", "--output", "it's mine"].map(str::to_owned);
        assert_eq!(command(&words), r"muxbench compare --connections 1,2 --output 'it'\''s mine'");
        assert_eq!(command(&["a\n'b".to_owned()]), r"$'a\u000a\'b'");
    }
}
