//! A paper's page: our figures and tables beside the published values, and the claims.

use askama::Template;
use harness::model::{Run, TrialRecord};
use serde::Serialize;
use serde_json::Value;

use crate::claims::{self, CheckedClaim, Outcome};
use crate::figure::PaperFigure;
use crate::grid::{self, Grid};
use crate::impossible::{self, Impossible};
use crate::{Paper, PaperComparison, Part, points};
use report::html::command;
use report::html::frame;
use report::html::frame::{Drawing, Frame};
use report::plot::chart::{Chart, Mark};
use report::plot::style;

/// The origin of a page.
#[derive(Debug)]
pub struct Origin<'a> {
    /// The command that makes the page.
    pub command: &'a [String],
    /// The command that shows one figure, without the figure's number.
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
    /// The number of trials that this host cannot run; empty without any.
    impossible: String,
    switches: String,
    figures: Vec<FigureView<'a>>,
    /// Figures without data.
    missing: Vec<String>,
    tables: Vec<TableView>,
    claims: Vec<ClaimView>,
    facts: Vec<(String, String)>,
    runs: Vec<RunView>,
    command: String,
    /// The content of the CSV, and whether tables have a separate file.
    csv_of: String,
    has_csv_of_tables: bool,
}

struct FigureView<'a> {
    id: String,
    /// The name of the figure with its number.
    name: String,
    heading: String,
    about: &'static str,
    chart: &'a Chart,
    panels: String,
    /// The series: index, swatch and name.
    series: Vec<(usize, String, &'static str)>,
    /// The published values: swatch and label.
    printed: Vec<(String, String)>,
    grids: Vec<Grid>,
    command: String,
}

struct TableView {
    number: &'static str,
    grid: Grid,
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
    json: Value,
}

/// Renders the whole document. `runs` are in the order of their folders.
///
/// # Errors
/// Never in practice: everything is held in memory.
pub fn render(beside: &PaperComparison, runs: &[Run], origin: &Origin<'_>) -> anyhow::Result<String> {
    let PaperComparison { paper, part, figures, missing, claims, .. } = beside;
    let names: Vec<String> = paper.series.iter().map(ToString::to_string).collect();
    let is_drawn = |place: usize| {
        let panels = figures.iter().flat_map(|(_, chart)| &chart.panels);
        panels.flat_map(|panel| &panel.series).any(|series| series.architecture == place)
    };
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.number, title: figure.title, chart });
    let drawings = drawings.collect();
    let grids = beside.grids();
    let (csv, tables) = match (figures.as_slice(), grids.as_slice()) {
        ([], _) => (beside.csv(), None),
        (_, []) => (points::csv(paper, figures), None),
        _ => (points::csv(paper, figures), Some(beside.csv())),
    };
    let raw = Raw { name: paper.name, csv, tables, json: beside.json() };
    let mut frame = Frame::new(&names, drawings, &raw)?;
    frame.architectures.retain(|it| is_drawn(it.place));
    let when = runs.iter().map(|run| run.header.started_at.clone()).max().unwrap_or_default();
    let title = match part {
        Part::Whole => paper.name.to_owned(),
        Part::Figure(figure) => format!("{}, {}", paper.name, paper.figure_name(figure)),
        Part::Table(number) => format!("{}, Table {number}", paper.name),
    };
    let views = figures.iter().enumerate().map(|(at, (figure, chart))| figure_view(paper, at, figure, chart, origin));
    let page = Page {
        paper,
        title: &title,
        when,
        result: result(beside),
        impossible: impossible_here(runs),
        switches: frame.switches()?,
        figures: views.collect::<anyhow::Result<_>>()?,
        missing: missing.iter().map(|figure| format!("{}. {}", paper.figure_name(figure), figure.title)).collect(),
        csv_of: csv_of(beside, &grids),
        has_csv_of_tables: raw.tables.is_some(),
        tables: grids.into_iter().map(|(number, grid)| TableView { number, grid }).collect(),
        claims: claims.iter().map(claim).collect(),
        facts: facts(runs),
        runs: runs.iter().zip(origin.folders).map(|(run, folder)| run_view(run, folder)).collect(),
        command: command(origin.command),
    };
    frame.document(&title, &page)
}

/// Returns the number of trials that this host cannot run.
fn impossible_here(runs: &[Run]) -> String {
    let trials = runs.iter().flat_map(|run| &run.header.trials);
    match trials.filter(|trial| !trial.infeasible.is_empty()).count() {
        0 => String::new(),
        1 => "1 trial is impossible here".into(),
        several => format!("{several} trials are impossible here"),
    }
}

/// Describes the content of the CSV.
fn csv_of(beside: &PaperComparison, grids: &[(&'static str, Grid)]) -> String {
    let of_tables = "every published value of its tables, beside ours";
    let of_figures =
        || format!("every point of the {}s, ours and the paper's", beside.paper.figure_word.to_lowercase());
    match (beside.part, beside.figures.as_slice(), grids) {
        (Part::Table(_), ..) => "the table".into(),
        (_, [], []) => "every figure that a claim was held against".into(),
        (_, [], _) => of_tables.into(),
        (_, _, []) => of_figures(),
        _ => format!("{}, and in a file of its own {of_tables}", of_figures()),
    }
}

/// Returns the result in a sentence.
fn result(beside: &PaperComparison) -> String {
    let PaperComparison { paper, part, claims, .. } = beside;
    match part {
        Part::Whole => {
            let count = |outcome| match claims.iter().filter(|claim| claim.outcome == outcome).count() {
                0 => None,
                1 => Some((1, outcome.words())),
                several => Some((several, outcome.words_of_several())),
            };
            let outcomes =
                [Outcome::HoldsHere, Outcome::DoesNotHoldHere, Outcome::Inconclusive, Outcome::NotTestableHere];
            let counts: Vec<String> =
                outcomes.into_iter().filter_map(count).map(|(count, words)| format!("{count} {words}")).collect();
            format!("Of {} claims of {} {}", claims.len(), paper.name, counts.join(", "))
        }
        Part::Figure(figure) => format!("{} of {}: {}", paper.figure_name(figure), paper.name, figure.title),
        Part::Table(number) => format!("Table {number} of {}", paper.name),
    }
}

fn figure_view<'a>(
    paper: &Paper,
    at: usize,
    figure: &PaperFigure,
    chart: &'a Chart,
    origin: &Origin<'_>,
) -> anyhow::Result<FigureView<'a>> {
    let number = ["--figure", figure.number].map(str::to_owned);
    let only: Vec<String> = origin.of_one.iter().cloned().chain(number).collect();
    let mut printed: Vec<(String, String)> = Vec::new();
    for published in chart.panels.iter().flat_map(|panel| &panel.published) {
        let swatch = style::drawn(&style::published(published.mark == Mark::Points));
        let entry = (swatch, published.label.clone());
        if !printed.contains(&entry) {
            printed.push(entry);
        }
    }
    let name = paper.figure_name(figure);
    let heading = format!("{name}. {}", figure.title);
    let panels = || chart.panels.iter().flat_map(|panel| &panel.series);
    let is_drawn = |place: &usize| panels().any(|series| series.architecture == *place);
    let series = (0..paper.series.len()).filter(is_drawn);
    Ok(FigureView {
        series: series.map(|place| (place, style::swatch(place), paper.series[place])).collect(),
        id: format!("figure-{}", figure.number.replace('.', "-")),
        panels: frame::panels(at, &heading, chart)?,
        heading,
        name,
        about: figure.about,
        chart,
        printed,
        grids: grid::of(figure, chart, paper.series),
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
        outcome: claim.outcome.words(),
        reason: claim.reason.clone().unwrap_or_default(),
        count: format!("{} figures, {against} against it", findings.len()),
        findings: findings.iter().map(|it| (class(it.holds), format!("{}: {}", it.what, it.words))).collect(),
    }
}

/// Returns the facts of the hosts, with a value for each run if they differ.
fn facts(runs: &[Run]) -> Vec<(String, String)> {
    let of = |run: &Run| {
        let mut facts = run.header.host.clone();
        facts.insert("placement".into(), run.header.placement.clone());
        facts
    };
    let all: Vec<_> = runs.iter().map(|run| (run.header.experiment.as_str(), of(run))).collect();
    let mut names: Vec<&String> = all.iter().flat_map(|(_, facts)| facts.keys()).collect();
    names.sort();
    names.dedup();
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
        command: command(&["muxbench", "report", folder, "--html"].map(str::to_owned)),
        impossible: impossible::of(run).iter().map(Impossible::words).collect(),
    }
}
