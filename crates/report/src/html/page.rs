//! The page of a run.

use askama::Template;
use harness::record::{Bound, Check, Run, TrialRecord};
use serde_json::{Value, json};

use super::flames::Flames;
use super::frame::{Drawing, Frame, embedded};
use crate::analysis::overload::{Overload, Overloads};
use crate::analysis::profiles;
use crate::analysis::summary::{Comparison, Row, missing_by_reason};
use crate::analysis::undecided;
use crate::analysis::warm_up;
use crate::analysis::workload::title as title_of;
use crate::analysis::{Summary, answer, conclusion};
use crate::export::{self, csv};
use crate::format;
use crate::list::distinct;
use crate::plot::Drawn;
use crate::plot::chart::Chart;
use crate::plot::figures::{FIRST, FigureSpec, RANKING};
use crate::text::host::counts;
use crate::text::overload;
use crate::text::profile;
use crate::text::run;
use crate::text::tail_mark;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    run: &'a Run,
    command: String,
    /// The command that decides open pairs.
    to_decide: Option<String>,
    best: String,
    run_metric: &'static str,
    frame: &'a Frame,
    tables: Vec<Table>,
    /// Whether the tables are those of an overload.
    is_overload: bool,
    interval_method: &'static str,
    /// The ranking and the figures that matter most.
    first: &'a [(&'static FigureSpec, Chart)],
    more: &'a [(&'static FigureSpec, Chart)],
    /// The finished trials, with the index of the architecture and the workload in words.
    trials: Vec<(&'a TrialRecord, Option<usize>, String)>,
    /// The verdicts of trials, each once.
    verdicts: Vec<&'static str>,
    /// The number of trials in words.
    counts: String,
    /// The warm-ups of external servers.
    warm_ups: Vec<String>,
}

/// The servers under one workload.
struct Table {
    title: String,
    /// The conclusion, and the conditions.
    sentences: Vec<String>,
    headings: Vec<String>,
    rows: Vec<TableRow>,
    /// Explanations of an overload; of a ranking, what is not valid or missing, profiles too.
    notes: Vec<String>,
    profile: Option<ProfileTable>,
}

/// Where a request's CPU time goes.
struct ProfileTable {
    headings: Vec<String>,
    lines: Vec<Vec<String>>,
    sentences: Vec<String>,
    /// The data of the flame graphs.
    flames: String,
}

/// Returns the profiles of a workload; `None` without any.
fn profile_table(run: &Run, comparison: &Comparison) -> anyhow::Result<Option<ProfileTable>> {
    let Some(flames) = Flames::of(run, comparison) else { return Ok(None) };
    let rows = profiles::rows(comparison);
    let (headings, lines) = profile::lines(&rows);
    let sentences = [profile::note(&rows)].into_iter().chain(profiles::sentences(comparison)).collect();
    Ok(Some(ProfileTable { headings, lines, sentences, flames: embedded(&flames)? }))
}

struct TableRow {
    /// The index of the architecture.
    place: usize,
    is_ranked: bool,
    /// The cells, of which the first is the name.
    cells: Vec<String>,
}

/// Renders the whole document.
pub fn render(run: &Run) -> anyhow::Result<String> {
    let summary = Summary::of(run);
    let overloads = Overloads::of(run);
    let drawn = Drawn::of(run, &summary);
    let Drawn { architectures, figures } = &drawn;
    let place = |row: &Row| architectures.iter().position(|name| *name == row.label()).unwrap_or_default();
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.name, title: figure.title, chart });
    let whole = without_histograms(serde_json::to_value(export::json::of(run))?);
    let raw = json!({ "name": run.header.name, "csv": csv::of_rows(&run.records), "json": whole });
    let frame = Frame::new(architectures, drawings.collect(), &raw)?;
    let title = |record: &TrialRecord| {
        let comparison = summary.comparisons.iter().find(|it| it.workload == record.trial.workload);
        comparison.map_or_else(|| title_of(&record.trial.workload), |comparison| comparison.title.clone())
    };
    let place_of = |record: &TrialRecord| architectures.iter().position(|name| *name == record.trial.label());
    let is_ranking = figures.first().is_some_and(|(figure, _)| figure.name == RANKING);
    let (first, more) = figures.split_at(figures.len().min(usize::from(is_ranking) + FIRST));
    let page = Page {
        run,
        command: format::command(&run.header.command),
        to_decide: summary.to_decide.as_deref().map(format::command),
        best: answer::sentence(run, &summary),
        run_metric: summary.comparisons.first().map_or(summary.metric, |comparison| comparison.metric),
        frame: &frame,
        is_overload: overloads.is_some(),
        tables: match &overloads {
            Some(overloads) => overload_tables(overloads, architectures),
            None => {
                let table =
                    |comparison| Ok(Table { profile: profile_table(run, comparison)?, ..table(comparison, &place) });
                summary.comparisons.iter().map(table).collect::<anyhow::Result<_>>()?
            }
        },
        interval_method: summary.interval_method,
        first,
        more,
        trials: run.records.iter().map(|record| (record, place_of(record), title(record))).collect(),
        verdicts: distinct(run.records.iter().map(verdict)),
        counts: counts(run),
        warm_ups: warm_up::sentences(run),
    };
    frame.document(&run.header.name, &page)
}

/// Removes histograms, which would be most of the page; the run's folder contains them.
fn without_histograms(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("histogram");
                fields.remove("stacks");
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

fn table(comparison: &Comparison, place: &impl Fn(&Row) -> usize) -> Table {
    let Comparison { title, rows, workload, network, interleaving, profile_problems, .. } = comparison;
    let mut columns = run::columns(workload);
    // The verdict follows the name, so that a narrow screen shows it.
    let verdict = columns.pop().expect("a table ends with the verdict");
    columns.insert(1, verdict);
    let row = |row: &Row| TableRow {
        place: place(row),
        is_ranked: row.is_ranked(),
        cells: columns.iter().map(|column| (column.text)(row)).collect(),
    };
    let reasons = rows.iter().flat_map(|row| row.reasons.iter().map(|it| format!("{}: {it}", row.label)));
    let tail = tail_mark::notes(rows).into_iter();
    let conditions = network.iter().chain(interleaving).cloned();
    Table {
        title: title.clone(),
        sentences: conclusion::sentences(comparison).into_iter().chain(conditions).collect(),
        headings: columns.iter().map(|column| column.heading.clone()).collect(),
        rows: rows.iter().map(row).collect(),
        notes: tail.chain(reasons).chain(missing_by_reason(rows)).chain(profile_problems.iter().cloned()).collect(),
        profile: None,
    }
}

fn overload_tables(overloads: &Overloads, architectures: &[String]) -> Vec<Table> {
    let columns = overload::columns();
    let row = |row: &Overload| TableRow {
        place: architectures.iter().position(|name| *name == row.architecture).unwrap_or_default(),
        is_ranked: true,
        cells: columns.iter().map(|column| (column.text)(row)).collect(),
    };
    let table = |rows: Vec<&Overload>| Table {
        title: rows[0].workload.clone(),
        sentences: vec![overloads.conditions(), overload::NOTES.to_owned()],
        headings: columns.iter().map(|column| column.heading.clone()).collect(),
        rows: rows.iter().copied().map(row).collect(),
        notes: overload::problems(&rows),
        profile: None,
    };
    overloads.workloads().into_iter().map(table).collect()
}

fn verdict(record: &TrialRecord) -> &'static str {
    format::verdict(record.verdict.kind)
}

/// Describes a check: its name, its value and its limit.
fn words(check: &Check) -> String {
    let [value, limit] =
        check.numbers(format::decimals).map(|number| format!("{number} {}", check.unit).trim_end().to_owned());
    let side = match check.bound {
        Bound::AtLeast => "at least",
        Bound::AtMost => "at most",
    };
    let p_value = check.p_value.map_or_else(String::new, |p_value| format!(" (p {p_value:.1e})"));
    format!("{}: {value}, {side} {limit}{p_value}", check.name)
}
