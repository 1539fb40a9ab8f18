//! A paper's page: our figures and tables beside the published values, and the claims.

use std::collections::BTreeSet;

use askama::Template;
use harness::record::{Run, TrialRecord};
use serde::Serialize;

use crate::claims::{self, CheckedClaim, Outcome};
use crate::comparison::Impossible;
use crate::figure::PaperFigure;
use crate::grid::{self, Grid};
use crate::setup::Compared;
use crate::{Paper, PaperComparison, PaperExport, Part};
use report::format::{command, counted};
use report::html::frame::{self, Drawing, Frame};
use report::plot::chart::{Chart, Mark, Published};
use report::plot::style;

/// The commands and the folders that a page names.
#[derive(Debug)]
pub struct Origin<'a> {
    /// The command that makes the page.
    pub command: &'a [String],
    /// The command to which `--figure NUMBER` is appended to show one figure.
    pub of_one: &'a [String],
    /// The folder of each run.
    pub folders: &'a [String],
}

#[derive(Template)]
#[template(path = "paper.html")]
struct Page<'a> {
    paper: &'a Paper,
    title: &'a str,
    when: String,
    result: String,
    /// See [`impossible_here`].
    impossible: String,
    interleaving: &'a [String],
    setup: &'a [Compared],
    switches: String,
    figures: Vec<FigureView<'a>>,
    missing: Vec<String>,
    tables: Vec<(&'static str, Grid)>,
    claims: Vec<ClaimView>,
    facts: Vec<(String, String)>,
    runs: Vec<RunView>,
    command: String,
    csv_of: String,
    has_csv_of_tables: bool,
}

struct FigureView<'a> {
    id: String,
    name: String,
    heading: String,
    about: &'static str,
    chart: &'a Chart,
    panels: String,
    /// Index, swatch and name of each series.
    series: Vec<(usize, String, String)>,
    /// Swatch and label of the published values.
    printed: Vec<(String, String)>,
    grids: Vec<Grid>,
    command: String,
}

struct ClaimView {
    says: &'static str,
    class: &'static str,
    outcome: &'static str,
    reason: String,
    count: String,
    /// Findings, each with its CSS class.
    findings: Vec<(&'static str, String)>,
}

struct RunView {
    name: String,
    finished: usize,
    possible: usize,
    started_at: String,
    muxbench: String,
    seed: u64,
    command: String,
    /// The trials that this host cannot run, with their reasons.
    impossible: Vec<String>,
}

/// The data that a reader may download.
#[derive(Serialize)]
struct Raw<'a> {
    name: &'a str,
    csv: String,
    /// The CSV of the tables, if the main CSV has figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<String>,
    json: PaperExport<'a>,
}

/// Renders the whole document. `runs` and `origin.folders` have the same order.
///
/// # Errors
/// If a template cannot be rendered.
pub fn render(beside: &PaperComparison, runs: &[Run], origin: &Origin<'_>) -> anyhow::Result<String> {
    let PaperComparison { paper, part, figures, missing, claims, .. } = beside;
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.number, title: figure.title, chart });
    let grids = beside.grids();
    let (csv, tables) = match (figures.as_slice(), grids.as_slice()) {
        ([], _) => (beside.csv(), None),
        (_, []) => (grid::points_csv(&beside.series, figures), None),
        _ => (grid::points_csv(&beside.series, figures), Some(beside.csv())),
    };
    let raw = Raw { name: paper.name, csv, tables, json: beside.json() };
    let mut frame = Frame::new(&beside.series, drawings.collect(), &raw)?;
    frame.architectures.retain(|it| figures.iter().any(|(_, chart)| chart.shows(it.place)));
    let when = runs.iter().map(|run| run.header.started_at.clone()).max().unwrap_or_default();
    let title = match part {
        Part::Whole => paper.name.to_owned(),
        Part::Figure(figure) => format!("{}, {}", paper.name, paper.figure_name(figure)),
        Part::Table(table) => format!("{}, Table {}", paper.name, table.number),
    };
    let views = figures.iter().enumerate().map(|(at, (figure, chart))| figure_view(beside, at, figure, chart, origin));
    let page = Page {
        paper,
        title: &title,
        when,
        result: result(beside),
        impossible: impossible_here(runs),
        interleaving: &beside.interleaving,
        setup: &beside.setup,
        switches: frame.switches()?,
        figures: views.collect::<anyhow::Result<_>>()?,
        missing: missing.iter().map(|figure| format!("{}. {}", paper.figure_name(figure), figure.title)).collect(),
        csv_of: csv_of(beside, &grids),
        has_csv_of_tables: raw.tables.is_some(),
        tables: grids,
        claims: claims.iter().map(claim).collect(),
        facts: facts(runs),
        runs: runs.iter().zip(origin.folders).map(|(run, folder)| run_view(run, folder)).collect(),
        command: command(origin.command),
    };
    frame.document(&title, &page)
}

/// Describes how many trials this host cannot run; empty if it can run all.
fn impossible_here(runs: &[Run]) -> String {
    let trials = runs.iter().flat_map(|run| &run.header.trials);
    match trials.filter(|trial| !trial.infeasible.is_empty()).count() {
        0 => String::new(),
        count => format!("This host cannot run {}", counted(count, "trial", "trials")),
    }
}

/// Describes the content of the CSV.
fn csv_of(beside: &PaperComparison, grids: &[(&'static str, Grid)]) -> String {
    let of_tables = "every published value of the tables beside ours";
    let of_figures =
        || format!("every point of the {}s, ours and the paper's", beside.paper.figure_word.to_lowercase());
    match (beside.part, beside.figures.as_slice(), grids) {
        (Part::Table(_), ..) => "the table".into(),
        (_, [], []) => "all findings on the claims".into(),
        (_, [], _) => of_tables.into(),
        (_, _, []) => of_figures(),
        _ => format!("{}; a second CSV has {of_tables}", of_figures()),
    }
}

/// Returns the result in a sentence.
fn result(beside: &PaperComparison) -> String {
    let PaperComparison { paper, part, claims, .. } = beside;
    match part {
        Part::Whole => {
            let count = |outcome: Outcome| {
                let count = claims.iter().filter(|claim| claim.outcome == outcome).count();
                (count > 0).then(|| format!("{count} {}", outcome.words()[usize::from(count > 1)]))
            };
            let outcomes =
                [Outcome::HoldsHere, Outcome::DoesNotHoldHere, Outcome::Inconclusive, Outcome::NotTestableHere];
            let counts: Vec<String> = outcomes.into_iter().filter_map(count).collect();
            format!("{} claims of {}: {}", claims.len(), paper.name, counts.join(", "))
        }
        Part::Figure(figure) => format!("{} of {}: {}", paper.figure_name(figure), paper.name, figure.title),
        Part::Table(table) => format!("Table {} of {}", table.number, paper.name),
    }
}

fn figure_view<'a>(
    PaperComparison { paper, series: names, .. }: &PaperComparison,
    at: usize,
    figure: &PaperFigure,
    chart: &'a Chart,
    origin: &Origin<'_>,
) -> anyhow::Result<FigureView<'a>> {
    let number = ["--figure", figure.number].map(str::to_owned);
    let only: Vec<String> = origin.of_one.iter().cloned().chain(number).collect();
    let mut printed: Vec<(String, String)> = Vec::new();
    for Published { mark, label, .. } in chart.panels.iter().flat_map(|panel| &panel.published) {
        if printed.iter().all(|(_, other)| other != label) {
            printed.push((style::drawn(&style::published(*mark == Mark::Points)), label.clone()));
        }
    }
    let name = paper.figure_name(figure);
    let heading = format!("{name}. {}", figure.title);
    let series = (0..names.len()).filter(|place| chart.shows(*place));
    Ok(FigureView {
        series: series.map(|place| (place, style::swatch(place), names[place].clone())).collect(),
        id: format!("figure-{}", figure.number.replace('.', "-")),
        panels: frame::panels(at, &heading, chart)?,
        heading,
        name,
        about: figure.about,
        chart,
        printed,
        grids: grid::of(chart, names),
        command: command(&only),
    })
}

fn claim(claim: &CheckedClaim) -> ClaimView {
    let findings = claims::decisive_first(claim);
    let against = findings.iter().filter(|finding| finding.holds == Some(false)).count();
    let class = |holds: Option<bool>| match holds {
        Some(true) => "passed",
        Some(false) => "failed",
        None => "open",
    };
    ClaimView {
        says: claim.says,
        class: match claim.outcome {
            Outcome::HoldsHere => "passed",
            Outcome::DoesNotHoldHere => "failed",
            Outcome::Inconclusive | Outcome::NotTestableHere => "open",
        },
        outcome: claim.outcome.words()[0],
        reason: claim.reason.clone().unwrap_or_default(),
        count: format!("{} findings, {against} against the claim", findings.len()),
        findings: findings.iter().map(|it| (class(it.holds), format!("{}: {}", it.what, it.words))).collect(),
    }
}

/// Returns the facts of the hosts. A fact in which the runs differ has the value of each run.
fn facts(runs: &[Run]) -> Vec<(String, String)> {
    let of = |run: &Run| {
        let mut facts = run.header.host.clone();
        facts.insert("placement".into(), run.header.placement.clone());
        facts
    };
    let all: Vec<_> = runs.iter().map(|run| (run.header.experiment.as_str(), of(run))).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, facts)| facts.keys()).collect();
    let value = |name: &String| {
        let values: Vec<(&str, &str)> =
            all.iter().map(|(run, facts)| (*run, facts.get(name).map_or("unknown", String::as_str))).collect();
        if values.iter().all(|(_, value)| *value == values[0].1) {
            return values[0].1.to_owned();
        }
        values.iter().map(|(run, value)| format!("{value} ({run})")).collect::<Vec<_>>().join("; ")
    };
    names.into_iter().map(|name| (name.clone(), value(name))).collect()
}

fn run_view(run: &Run, folder: &str) -> RunView {
    let finished = |record: &&TrialRecord| run.header.trials.iter().any(|trial| trial.index == record.trial.index);
    RunView {
        name: run.header.experiment.clone(),
        finished: run.records.iter().filter(finished).count(),
        possible: run.header.trials.iter().filter(|trial| trial.infeasible.is_empty()).count(),
        started_at: run.header.started_at.clone(),
        muxbench: run.header.muxbench.clone(),
        seed: run.header.seed,
        command: command(&["muxbench", "report", folder, "--html"]),
        impossible: Impossible::of(run).iter().map(Impossible::words).collect(),
    }
}
