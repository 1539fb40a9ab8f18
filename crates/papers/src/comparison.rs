//! Comparisons of runs with a paper's figures, tables and claims, as text, JSON and CSV.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use harness::record::{Run, Trial, VerdictKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::figure::{Here, PaperFigure};
use super::grid::{self, Grid, PaperTables};
use super::setup::{self, Compared};
use super::{Paper, Part, queue};
use crate::claims::{self, CheckedClaim};
use report::analysis::deviation::{self, DeviationOf, SendsOf};
use report::analysis::{self, Summary};
use report::format::counted;
use report::plot::chart::Chart;
use report::text::Medium;

/// A comparison of runs with a paper.
pub struct PaperComparison {
    /// The paper.
    pub paper: &'static Paper,
    /// The part to show.
    pub part: Part,
    /// The authors' set-up beside that of the runs.
    pub setup: Vec<Compared>,
    /// The names of series, with the event queue of the runs.
    pub series: Vec<String>,
    /// Figures for which the runs have data.
    pub figures: Vec<(&'static PaperFigure, Chart)>,
    /// Figures without data.
    pub missing: Vec<&'static PaperFigure>,
    /// Trials that a host cannot run, with the reasons.
    pub impossible: Vec<Impossible>,
    /// The paper's claims with their results.
    pub claims: Vec<CheckedClaim>,
    /// A sentence for each run with interleaved trials.
    pub interleaving: Vec<String>,
    tables: Vec<PaperTables>,
}

/// A comparison as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PaperExport<'a> {
    /// The version of this format.
    format: u32,
    /// The name of the paper.
    paper: &'static str,
    /// The tables, whose form differs from paper to paper.
    #[serde(flatten)]
    tables: Map<String, Value>,
    /// The figures, except for a single table.
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<Vec<FigureExport>>,
    setup: &'a [Compared],
    impossible: &'a [Impossible],
    interleaving: &'a [String],
    /// The claims of a whole paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<&'a Vec<CheckedClaim>>,
}

/// A figure of a paper, with the data of the runs and the published values.
#[derive(Debug, Serialize, JsonSchema)]
struct FigureExport {
    number: &'static str,
    title: &'static str,
    about: &'static str,
    series: Vec<String>,
    chart: Chart,
}

impl PaperComparison {
    /// Compares runs with a paper or a part of it. Ignores trials whose client differs from the paper's. `sends_of` holds, for each
    /// run, a function that returns send times.
    ///
    /// # Errors
    /// If no finished trial belongs to the paper, if the runs lack the data of the figure or the table, or if any run has no
    /// workload of the paper's tables.
    pub fn of(
        paper: &'static Paper,
        part: Part,
        runs: &[Run],
        sends_of: &mut [&mut SendsOf<'_>],
    ) -> anyhow::Result<Self> {
        let is_client = |trial: &Trial| (paper.is_client)(&trial.client);
        let admitted: Vec<Run>;
        let runs = if runs.iter().flat_map(|run| &run.header.trials).all(is_client) {
            runs
        } else {
            admitted = runs.iter().map(|run| of_trials(run, is_client)).collect();
            &admitted
        };
        let has_tables = !matches!(part, Part::Figure(_));
        let tables_of = paper.tables_of.filter(|_| has_tables);
        let mut kept: Vec<_> = sends_of.iter_mut().map(|sends_of| deviation::kept(*sends_of)).collect();
        let mut deviation_of: Vec<&mut DeviationOf<'_>> = kept.iter_mut().map(|it| it as _).collect();
        let of_runs = runs.iter().zip(&mut deviation_of);
        let tables = of_runs.filter_map(|(run, deviation_of)| Some(tables_of?(run, *deviation_of)));
        let tables: Vec<PaperTables> = tables.filter_map(Result::transpose).collect::<anyhow::Result<_>>()?;
        let claims = match part {
            Part::Whole => claims::check(paper.claims, runs, &mut deviation_of),
            Part::Figure(_) | Part::Table(_) => Vec::new(),
        };
        let wanted = paper.figures.iter().filter(|figure| match part {
            Part::Whole => true,
            Part::Figure(one) => one.number == figure.number,
            Part::Table(_) => false,
        });
        let summaries: Vec<Summary> = runs.iter().map(Summary::of).collect();
        let (mut figures, mut missing) = (Vec::new(), Vec::new());
        for figure in wanted {
            let here = Here { names: paper.series, runs, summaries: &summaries, experiments: figure.experiments };
            match (figure.draw)(&here, &mut deviation_of) {
                Some(chart) => figures.push((figure, chart)),
                None => missing.push(figure),
            }
        }
        let mut records = runs.iter().flat_map(|run| &run.records);
        let has_any = !tables.is_empty()
            || !figures.is_empty()
            || records.any(|record| claims::concern(paper.claims, &record.trial));
        let impossible: Vec<Impossible> = runs.iter().flat_map(Impossible::of).collect();
        let why: String = listed(&impossible).lines().map(|line| format!("\n{line}")).collect();
        let these_runs_have = if runs.len() == 1 { "this run has" } else { "these runs have" };
        let again = ["muxbench", "reproduce", paper.name].map(str::to_owned).into_iter().chain(part.flags());
        let again = again.collect::<Vec<_>>().join(" ");
        ensure!(has_any, "{these_runs_have} no finished trial that belongs to {}; try `{again}`{why}", paper.name);
        let is_filled = |number: &str| {
            let mut grids = tables.iter().flat_map(|tables| &tables.grids).filter(|(other, _)| *other == number);
            grids.any(|(_, grid)| grid.has_results())
        };
        let missing_part = match part {
            Part::Figure(figure) if figures.is_empty() => Some(paper.figure_name(figure)),
            Part::Table(table) if !is_filled(table.number) => Some(format!("Table {}", table.number)),
            _ => None,
        };
        if let Some(word) = missing_part {
            bail!("{these_runs_have} no data for {word} of {}{}{why}", paper.name, no_data(paper, part, runs, &again));
        }
        let interleaving = runs.iter().filter_map(interleaving).collect();
        let (setup, series) = (setup::compared(paper, runs), queue::shown(paper.series, runs));
        Ok(Self { paper, part, setup, series, figures, missing, impossible, claims, interleaving, tables })
    }

    /// Returns the file name of the HTML page, such as `kawai2008-figure-10.html`.
    pub fn file_name(&self) -> String {
        format!("{}{}.html", self.paper.name, self.part.flags().join("-").replace("--", "-"))
    }

    /// Returns the tables with their numbers.
    pub fn grids(&self) -> Vec<(&'static str, Grid)> {
        let grids = self.tables.iter().flat_map(|tables| &tables.grids);
        let is_wanted = |number: &str| !matches!(self.part, Part::Table(one) if one.number != number);
        grids.filter(|(number, _)| is_wanted(number)).cloned().collect()
    }

    /// Renders the comparison as text that fits the medium, where possible.
    pub fn render(&self, medium: impl Into<Medium>) -> String {
        let medium = medium.into();
        let mut parts = vec![medium.prose(&format!("{}: {}.", self.paper.name, self.paper.citation))];
        parts.push(setup::text(&self.setup, medium));
        parts.extend(self.interleaving.iter().map(|sentence| medium.prose(sentence)));
        parts.extend(self.grids().iter().map(|(number, grid)| table_text(number, grid, medium)));
        parts.extend(self.figures.iter().map(|(figure, chart)| self.figure_text(figure, chart, medium)));
        if !self.missing.is_empty() {
            let missing = self.missing.iter().map(|figure| {
                format!("{} (experiment {})", self.paper.figure_name(figure), figure.experiments.join(" and "))
            });
            let missing = missing.collect::<Vec<_>>().join(", ");
            parts.push(medium.prose(&format!("No data for {missing}.")));
        }
        if !self.impossible.is_empty() {
            parts.push(medium.prose(&listed(&self.impossible)));
        }
        let mut text = parts.join("\n\n") + "\n";
        if !self.claims.is_empty() {
            text += &format!("\n{}", claims_text(&self.claims, medium));
        }
        medium.finished(text)
    }

    pub(super) fn figure_text(&self, figure: &PaperFigure, chart: &Chart, medium: impl Into<Medium>) -> String {
        let medium = medium.into();
        let mut text = medium.heading(&format!("{}. {}", self.paper.figure_name(figure), figure.title));
        text += &format!("\n{}\n{}", medium.prose(figure.about), medium.prose(&chart.words));
        let grids = grid::of(chart, &self.series);
        let notes = grids.iter().take(1).flat_map(|grid| &grid.notes);
        text += &notes.map(|note| format!("\n{}", medium.prose(note))).collect::<String>();
        for grid in grids {
            text += &format!("\n\n{}\n{}", medium.prose(&grid.title), grid.render(medium));
        }
        if report::plot::chart::points(&chart.panels).any(|point| !point.is_valid()) {
            text += &format!("\n{}", medium.prose(grid::INVALID));
        }
        text
    }

    /// Returns the set-up, the impossible trials, the interleaved runs and, for a whole paper, its tables, figures and claims; for a
    /// part, only its table or figure.
    pub fn json(&self) -> PaperExport<'_> {
        let table = |(number, table): (&'static str, Grid)| json!({ "number": number, "table": table });
        let tables = match (self.part, self.tables.first()) {
            (Part::Whole, Some(tables)) => tables.json.clone(),
            (Part::Table(_), _) => json!({ "tables": self.grids().into_iter().map(table).collect::<Vec<_>>() }),
            _ => json!({}),
        };
        let figure = |(figure, chart): &'_ (&'static PaperFigure, Chart)| FigureExport {
            number: figure.number,
            title: figure.title,
            about: figure.about,
            series: self.series.clone(),
            chart: chart.clone(),
        };
        PaperExport {
            format: analysis::FORMAT,
            paper: self.paper.name,
            tables: tables.as_object().cloned().unwrap_or_default(),
            figures: (!matches!(self.part, Part::Table(_))).then(|| self.figures.iter().map(figure).collect()),
            setup: &self.setup,
            impossible: &self.impossible,
            interleaving: &self.interleaving,
            claims: matches!(self.part, Part::Whole).then_some(&self.claims),
        }
    }

    /// Returns CSV: the points of a figure or the rows of a table. For a whole paper, returns the published values of its
    /// tables beside ours, or the findings on its claims if it has no tables.
    pub fn csv(&self) -> String {
        match (self.part, self.tables.first()) {
            (Part::Figure(_), _) => grid::points_csv(&self.series, &self.figures),
            (Part::Table(_), _) => self.grids().first().map_or_else(String::new, |(_, grid)| grid.csv()),
            (Part::Whole, Some(tables)) => tables.csv.clone(),
            (Part::Whole, None) => claims::csv(&self.claims),
        }
    }
}

/// A reason, and the trials that it prevents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Impossible {
    pub experiment: String,
    /// The reason and the remedy, as in the plan.
    pub reason: String,
    /// Number of affected trials.
    pub trials: usize,
    /// The architectures of these trials.
    pub architectures: BTreeSet<String>,
}

impl Impossible {
    /// Returns each reason in a run's plan once. A trial with several reasons counts for each of them.
    pub fn of(run: &Run) -> Vec<Self> {
        let mut found: BTreeMap<&String, (usize, BTreeSet<String>)> = BTreeMap::new();
        for trial in &run.header.trials {
            for reason in &trial.infeasible {
                let (trials, architectures) = found.entry(reason).or_default();
                *trials += 1;
                architectures.insert(trial.architecture.to_string());
            }
        }
        let of_one = |(reason, (trials, architectures)): (&String, (usize, BTreeSet<String>))| Self {
            experiment: run.header.experiment.clone(),
            reason: reason.clone(),
            trials,
            architectures,
        };
        found.into_iter().map(of_one).collect()
    }

    /// Describes how many trials of which architectures are affected, and why.
    pub fn words(&self) -> String {
        let trials = counted(self.trials, "trial", "trials");
        let architectures = self.architectures.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{trials} of {architectures}: {}", self.reason)
    }
}

/// Lists all reasons, one per line; empty without any.
fn listed(all: &[Impossible]) -> String {
    let lines: String = all.iter().map(|it| format!("\n- {}, {}", it.experiment, it.words())).collect();
    if lines.is_empty() { lines } else { format!("Trials that this host cannot run:{lines}") }
}

/// Returns why runs have no data for a part of a paper, and a remedy; `again` is the command that runs the part.
fn no_data(paper: &Paper, part: Part, runs: &[Run], again: &str) -> String {
    let experiments = paper.experiments_of(part);
    let runs = runs.iter().filter(|run| experiments.contains(&run.header.experiment.as_str()));
    let kinds: Vec<VerdictKind> = runs.flat_map(|run| &run.records).map(|record| record.verdict.kind).collect();
    let valid = kinds.iter().filter(|kind| **kind == VerdictKind::Valid).count();
    let (total, experiments) = (kinds.len(), experiments.join(" and "));
    if total > 0 && valid == 0 {
        format!(
            ": none of the {total} trials of {experiments} is valid; try `muxbench report RUN` for the reasons, or `{again}`"
        )
    } else {
        format!(", which uses trials of {experiments}; try `{again}`")
    }
}

/// Returns a run without other trials.
fn of_trials(run: &Run, is_wanted: impl Fn(&Trial) -> bool) -> Run {
    let mut run = run.clone();
    run.header.trials.retain(&is_wanted);
    run.records.retain(|record| is_wanted(&record.trial));
    run
}

/// States how many trials of a run were interleaved; `None` if its servers ran one at a time, as in the paper.
fn interleaving(run: &Run) -> Option<String> {
    let (name, trials, interleaved) = (&run.header.experiment, run.records.len(), setup::interleaved(run));
    (interleaved > 0).then(|| {
        format!(
            "{name}: {interleaved} of {trials} trials are interleaved: all servers of a workload were up at once, and the load \
             rotated among them. The authors measured one server at a time."
        )
    })
}

/// Formats a table with its number and its notes.
pub(super) fn table_text(number: &str, grid: &Grid, medium: Medium) -> String {
    let mut text = format!("{}\n{}", medium.heading(&format!("Table {number}. {}", grid.title)), grid.render(medium));
    if !grid.notes.is_empty() {
        text += &format!("\n{}", medium.prose(&grid.notes.join("\n")));
    }
    text
}

/// Formats claims with their results. Indentation marks the findings below each claim, so Markdown must preserve it.
fn claims_text(claims: &[CheckedClaim], medium: Medium) -> String {
    /// The width of a code block that GitHub shows without scrolling, in columns.
    const VERBATIM_COLUMNS: usize = 110;
    let Medium::Terminal(terminal) = medium else {
        let text = claims::render(claims, VERBATIM_COLUMNS);
        let text = text.strip_prefix("Claims\n").unwrap_or(&text);
        return format!("{}\n{}", medium.heading("Claims"), medium.verbatim(text));
    };
    claims::render(claims, terminal.columns)
}
