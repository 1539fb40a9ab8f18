//! Runs beside a paper: its figures and tables in its own layout with the published values, and what it claims.
//!
//! A paper is one file and one row of [`PAPERS`]. A run belongs to a paper by the values of its workloads, not by its
//! name: any experiment may cover some of the cells.
//!
//! # Layout
//! - here: the papers, and runs beside one; a file for each paper has its figures, tables and claims
//! - `figure`: what a figure is, and what it is drawn from; `grid`: its numbers, and a paper's tables

pub mod figure;
pub mod grid;
mod kawai2006;
mod kawai2008;
mod maharjan2012;
mod voras2009;
mod welsh2001;

use anyhow::{bail, ensure};
use lab::record::Run;
use serde_json::{Value, json};

use crate::claims::{self, Checked, Claim};
use crate::deviation::SendsOf;
use crate::html::chart::Chart;
use crate::terminal::wrap;
use crate::{Summary, json, sentence};
use figure::{Figure, Here};
use grid::Grid;

/// A row of [`PAPERS`].
#[derive(Debug)]
pub struct Paper {
    /// Its name: what `--paper` and `muxbench reproduce` take.
    pub name: &'static str,
    /// Who wrote it, what it is called, where it was published.
    pub citation: &'static str,
    /// What there is of it, in a few words.
    pub about: &'static str,
    /// The experiments, of those that come with the binary, that make its runs.
    pub experiments: &'static [&'static str],
    /// What it claims.
    pub claims: &'static [Claim],
    /// What it calls its figures.
    pub figure_word: &'static str,
    /// Those that are drawn, in its order.
    pub figures: &'static [Figure],
    /// What series of its figures are of.
    pub series: &'static [&'static str],
    /// Its tables of results, by their numbers.
    pub tables: &'static [&'static str],
    /// What fills them; `None` where it prints none.
    pub tables_of: Option<TablesOf>,
}

/// Lines a run up with a paper's tables.
///
/// # Errors
/// When no trial of the run has a workload of the paper.
pub type TablesOf = fn(&Run, &mut SendsOf<'_>) -> anyhow::Result<Box<dyn Tables>>;

/// Which part of a paper is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// One of its figures.
    Figure(&'static Figure),
    /// One of its tables, by its number.
    Table(&'static str),
}

/// Every paper there is.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "kawai2008",
        citation: "E. Kawai and S. Yamaguchi, \"A Benchmark Tool for Network I/O Management Architectures\", IPSJ Digital Courier 4 \
                   (2008)",
        about: "service time and lag of five architectures (Figures 6, 8, 10, 11)",
        experiments: &["kawai2008-http", "kawai2008-minimised"],
        claims: kawai2008::CLAIMS,
        figure_word: "Figure",
        figures: kawai2008::FIGURES,
        series: kawai2008::ALL,
        tables: &[],
        tables_of: None,
    },
    Paper {
        name: "kawai2006",
        citation: "E. Kawai and S. Yamaguchi, \"An Implementation of a Benchmark Tool Considering Communication Locality\" (2006, in \
                   Japanese)",
        about: "service time (Tables 3 and 4) and send deviation (Table 5, Figure 2)",
        experiments: &["kawai2006"],
        claims: kawai2006::CLAIMS,
        figure_word: "Figure",
        figures: kawai2006::FIGURES,
        series: &kawai2006::ARCHITECTURES,
        tables: &["3", "4", "5"],
        tables_of: Some(|run, sends_of| Ok(Box::new(kawai2006::Kawai2006::of(run, sends_of)?))),
    },
    Paper {
        name: "maharjan2012",
        citation: "P. Maharjan, \"Comparing and Measuring Network Event Dispatch Mechanisms in Virtual Hosts\" (Tampere University of \
                   Technology, 2012)",
        about: "HTTP with and without idle connections, datagrams to many ports (Figures 5.1 to 5.5)",
        experiments: &["maharjan2012-http", "maharjan2012-idle", "maharjan2012-udp"],
        claims: maharjan2012::CLAIMS,
        figure_word: "Figure",
        figures: maharjan2012::FIGURES,
        series: maharjan2012::ALL,
        tables: &[],
        tables_of: None,
    },
    Paper {
        name: "voras2009",
        citation: "I. Voras and M. Žagar, \"Characteristics of multithreading models for high-performance IO driven network \
                   applications\" (AFRICON 2009)",
        about: "transactions a second of five threading models (Figures 1 to 7)",
        experiments: &["voras2009"],
        claims: voras2009::CLAIMS,
        figure_word: "Figure",
        figures: voras2009::FIGURES,
        series: voras2009::ALL,
        tables: &[],
        tables_of: None,
    },
    Paper {
        name: "welsh2001",
        citation: "M. Welsh, \"SandStorm I/O Core Benchmarks\" (Harvard University, 2001)",
        about: "bandwidth of streams against connections and idle ones (three graphs)",
        experiments: &["welsh2001-connections", "welsh2001-10k", "welsh2001-idle"],
        claims: welsh2001::CLAIMS,
        figure_word: "Graph",
        figures: welsh2001::FIGURES,
        series: welsh2001::ALL,
        tables: &[],
        tables_of: None,
    },
];

/// The paper of that name.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

/// The paper that an experiment is of.
pub fn of_experiment(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.experiments.contains(&name))
}

impl Part {
    /// It as flags of a command line; none for all of it.
    pub fn flags(self) -> Vec<String> {
        match self {
            Self::Whole => Vec::new(),
            Self::Figure(figure) => vec!["--figure".into(), figure.number.into()],
            Self::Table(number) => vec!["--table".into(), number.into()],
        }
    }
}

impl Paper {
    /// The figure or the table of that number, or all of the paper.
    ///
    /// # Errors
    /// When it has none: which it has.
    pub fn part(&'static self, figure: Option<&str>, table: Option<&str>) -> anyhow::Result<Part> {
        let word = self.figure_word;
        let has = || {
            let list = |word: &str, numbers: Vec<&str>| match numbers.as_slice() {
                [] => format!("no {}s", word.to_lowercase()),
                [one] => format!("{word} {one}"),
                some => format!("{word}s {}", some.join(", ")),
            };
            let figures = list(word, self.figures.iter().map(|figure| figure.number).collect());
            format!("what there is of it: {figures}; {}", list("Table", self.tables.to_vec()))
        };
        if let Some(number) = figure {
            let Some(figure) = self.figures.iter().find(|figure| figure.number == number) else {
                bail!("--figure {number}: {} has no such {word} here; {}", self.name, has())
            };
            return Ok(Part::Figure(figure));
        }
        let Some(number) = table else { return Ok(Part::Whole) };
        match self.tables.iter().find(|it| **it == number) {
            Some(table) => Ok(Part::Table(table)),
            None => bail!("--table {number}: {} has no such Table here; {}", self.name, has()),
        }
    }

    /// The experiments that a part of it needs.
    pub fn experiments_of(&self, part: Part) -> &'static [&'static str] {
        match part {
            Part::Figure(figure) => figure.experiments,
            Part::Whole | Part::Table(_) => self.experiments,
        }
    }

    /// What it calls a figure, with its number.
    pub fn figure_name(&self, figure: &Figure) -> String {
        format!("{} {}", self.figure_word, figure.number)
    }
}

/// Runs beside a paper, to be shown.
pub struct Beside {
    /// The paper.
    pub paper: &'static Paper,
    /// What is shown of it.
    pub part: Part,
    /// Its figures that runs have something of.
    pub figures: Vec<(&'static Figure, Chart)>,
    /// Those that they have nothing of.
    pub missing: Vec<&'static Figure>,
    /// Its claims, and what became of them.
    pub claims: Vec<Checked>,
    tables: Vec<Box<dyn Tables>>,
}

impl Beside {
    /// Lines runs up with a paper or a part of it, each with what gives its sends.
    ///
    /// # Errors
    /// When no trial of theirs is of it.
    pub fn of(
        paper: &'static Paper,
        part: Part,
        runs: &[Run],
        sends_of: &mut [&mut SendsOf<'_>],
    ) -> anyhow::Result<Self> {
        let has_tables = !matches!(part, Part::Figure(_));
        let tables_of = paper.tables_of.filter(|_| has_tables);
        let tables = runs.iter().zip(&mut *sends_of).filter_map(|(run, sends_of)| Some(tables_of?(run, *sends_of)));
        let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;
        let claims = match part {
            Part::Whole => claims::check(paper.claims, runs, sends_of),
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
            match (figure.draw)(&here, sends_of) {
                Some(chart) => figures.push((figure, chart)),
                None => missing.push(figure),
            }
        }
        let mut records = runs.iter().flat_map(|run| &run.records);
        let is_of_it = !tables.is_empty()
            || !figures.is_empty()
            || records.any(|record| claims::concern(paper.claims, &record.trial));
        ensure!(is_of_it, "no trial of this run has a workload of {}", paper.name);
        if let (Part::Figure(figure), []) = (part, figures.as_slice()) {
            let (name, word, experiments) = (paper.name, paper.figure_name(figure), figure.experiments.join(" and "));
            bail!(
                "no finished trial of this run is in {word} of {name}, which is of {experiments}; make it with `muxbench \
                 reproduce {name} --figure {}`",
                figure.number
            );
        }
        Ok(Self { paper, part, figures, missing, claims, tables })
    }

    /// What its page is called.
    pub fn file_name(&self) -> String {
        format!("{}{}.html", self.paper.name, self.part.flags().join("-").replace("--", "-"))
    }

    /// Its tables, with their numbers.
    pub fn grids(&self) -> Vec<(&'static str, Grid)> {
        let tables = self.tables.iter().flat_map(|tables| tables.tables());
        let is_wanted = |number: &str| !matches!(self.part, Part::Table(one) if one != number);
        tables.filter(|(number, _)| is_wanted(number)).collect()
    }

    /// As text, at most `width` columns wide where that is possible.
    pub fn render(&self, width: usize) -> String {
        let mut parts: Vec<String> = self.tables.iter().map(|tables| wrap(&tables.about(), width)).collect();
        if parts.is_empty() {
            parts.push(wrap(&format!("{}: {}.", self.paper.name, self.paper.citation), width));
        }
        parts.extend(self.grids().iter().map(|(number, grid)| table_text(number, grid, width)));
        parts.extend(self.figures.iter().map(|(figure, chart)| self.figure_text(figure, chart, width)));
        if !self.missing.is_empty() {
            let missing = self
                .missing
                .iter()
                .map(|figure| format!("{} (of {})", self.paper.figure_name(figure), figure.experiments.join(" and ")));
            let missing = missing.collect::<Vec<_>>().join(", ");
            parts.push(wrap(&format!("Of these there is nothing to show: {missing}."), width));
        }
        let mut text = parts.join("\n\n") + "\n";
        if !self.claims.is_empty() {
            text += &format!("\n{}", claims::render(&self.claims, width));
        }
        text
    }

    fn figure_text(&self, figure: &Figure, chart: &Chart, width: usize) -> String {
        let mut text = wrap(&format!("{}. {}", self.paper.figure_name(figure), figure.title), width);
        text += &format!("\n{}\n{}", wrap(figure.about, width), wrap(&chart.words, width));
        for Grid { notes, .. } in grid::of(figure, chart, self.paper.series).iter().take(1) {
            text += &notes.iter().map(|note| format!("\n{}", wrap(note, width))).collect::<String>();
        }
        for grid in grid::of(figure, chart, self.paper.series) {
            text += &format!("\n\n{}\n{}", wrap(&grid.title, width), grid.render(width));
        }
        let mut points = chart.panels.iter().flat_map(|it| &it.series).flat_map(|series| &series.points);
        if points.any(|point| !point.is_valid()) {
            text += &format!("\n{}", wrap("In brackets: not valid, and not ranked.", width));
        }
        text
    }

    /// As JSON: what the tables have, the figures, and the claims.
    pub fn json(&self) -> Value {
        let mut all = json!({ "format": json::FORMAT, "paper": self.paper.name });
        let fields = match (self.part, self.tables.first()) {
            (Part::Whole, Some(tables)) => tables.json(),
            (Part::Table(_), _) => {
                let table = |(number, grid): &(&str, Grid)| json!({ "number": number, "table": grid });
                json!({ "tables": self.grids().iter().map(table).collect::<Vec<_>>() })
            }
            _ => json!({}),
        };
        let fields = fields.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
        all.as_object_mut().expect("it is one").extend(fields);
        let figure = |(figure, chart): &(&Figure, Chart)| {
            json!({ "number": figure.number, "title": figure.title, "about": figure.about, "series": self.paper.series,
                    "chart": chart })
        };
        if !matches!(self.part, Part::Table(_)) {
            all["figures"] = json!(self.figures.iter().map(figure).collect::<Vec<_>>());
        }
        if matches!(self.part, Part::Whole) {
            all["claims"] = json!(self.claims);
        }
        all
    }

    /// As CSV: of a figure, a row for each point; of a table, its rows. Of all, a row for each published value, or where there are
    /// no tables, for each figure that a claim was held against.
    ///
    /// # Errors
    /// None that is known: everything is held in memory.
    pub fn csv(&self) -> anyhow::Result<String> {
        match (self.part, self.tables.first()) {
            (Part::Figure(_), _) => self.points_csv(),
            (Part::Table(_), _) => self.grids().first().map_or_else(|| Ok(String::new()), |(_, grid)| grid.csv()),
            (Part::Whole, Some(tables)) => tables.csv(),
            (Part::Whole, None) => claims::csv(&self.claims),
        }
    }

    /// Every point of its figures, and what the paper prints, in units of the axes: nanoseconds, where these are of time.
    ///
    /// # Errors
    /// None that is known: everything is held in memory.
    pub fn points_csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let heading = "figure,panel,whose,series,x,y,p1_or_low,p25,p75,p99_or_high,verdict";
        writer.write_record(heading.split(','))?;
        for (figure, chart) in &self.figures {
            for panel in &chart.panels {
                let (x_axis, _) = chart.axes(panel);
                let place = |x: f64| match x_axis.form {
                    crate::html::chart::Form::Names => x_axis.ticks[x as usize].1.clone(),
                    _ => x.to_string(),
                };
                for series in &panel.series {
                    let name = self.paper.series[series.architecture];
                    for point in &series.points {
                        let spread = match point.spread.as_slice() {
                            [low, high] => [Some(*low), None, None, Some(*high)],
                            [p1, p25, p75, p99] => [Some(*p1), Some(*p25), Some(*p75), Some(*p99)],
                            _ => [None; 4],
                        };
                        let spread = spread.map(|it| it.map_or_else(String::new, |it| it.to_string()));
                        let (x, y, verdict) = (place(point.x), point.y.to_string(), sentence::name(point.verdict));
                        let [low, p25, p75, high] = &spread;
                        writer.write_record([
                            figure.number,
                            &panel.title,
                            "here",
                            name,
                            &x,
                            &y,
                            low,
                            p25,
                            p75,
                            high,
                            verdict,
                        ])?;
                    }
                }
                for published in &panel.published {
                    for &(x, y) in &published.points {
                        let (x, y) = match published.mark {
                            crate::html::chart::Mark::Points => (place(x), y.to_string()),
                            crate::html::chart::Mark::Level => (String::new(), y.to_string()),
                            crate::html::chart::Mark::Limit => (x.to_string(), String::new()),
                        };
                        let label = published.label.as_str();
                        writer.write_record([
                            figure.number,
                            &panel.title,
                            "paper",
                            label,
                            &x,
                            &y,
                            "",
                            "",
                            "",
                            "",
                            "",
                        ])?;
                    }
                }
            }
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }
}

/// A table with its number and its notes.
fn table_text(number: &str, grid: &Grid, width: usize) -> String {
    let mut text = format!("{}\n{}", wrap(&format!("Table {number}. {}", grid.title), width), grid.render(width));
    if !grid.notes.is_empty() {
        text += &format!("\n{}", wrap(&grid.notes.join("\n"), width));
    }
    text
}

/// All that a paper's tables have to say.
#[cfg(test)]
fn tables_text(tables: &dyn Tables, width: usize) -> String {
    let texts = tables.tables().into_iter().map(|(number, grid)| table_text(number, &grid, width));
    [wrap(&tables.about(), width)].into_iter().chain(texts).collect::<Vec<_>>().join("\n\n") + "\n"
}

/// A run in the layout of a paper's tables, to be shown.
pub trait Tables {
    /// Whose numbers are beside whose.
    fn about(&self) -> String;

    /// Each with its number.
    fn tables(&self) -> Vec<(&'static str, Grid)>;

    /// As JSON.
    fn json(&self) -> Value;

    /// As CSV: a row for each published value.
    ///
    /// # Errors
    /// None that is known: everything is held in memory.
    fn csv(&self) -> anyhow::Result<String>;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::html::still;
    use crate::made_up;

    fn made_up_runs(paper: &Paper) -> Vec<Run> {
        paper.experiments.iter().map(|name| made_up::run_of_experiment(name)).collect()
    }

    /// Every send is on time, but for every tenth, late by its trial.
    fn sends(runs: &[Run]) -> Vec<impl FnMut(u32) -> anyhow::Result<Vec<i64>> + use<'_>> {
        let of = |run: &Run, trial: u32| {
            let rate_per_s =
                run.header.trials.iter().find(|it| it.index == trial).and_then(|it| it.workload.rate_per_s);
            let late_ns = |at: i64| if at % 10 == 3 { 300 * i64::from(trial) } else { at % 7 * 100 };
            Ok((0..200).map(|at| (at as f64 * 1e9 / rate_per_s.unwrap_or(1.0)) as i64 + late_ns(at)).collect())
        };
        runs.iter().map(|run| move |trial| of(run, trial)).collect()
    }

    fn beside(paper: &'static Paper, part: Part, runs: &[Run]) -> anyhow::Result<Beside> {
        let mut sends = sends(runs);
        let mut sends_of: Vec<&mut SendsOf<'_>> = sends.iter_mut().map(|sends_of| sends_of as _).collect();
        Beside::of(paper, part, runs, &mut sends_of)
    }

    #[test]
    fn every_figure_of_every_paper_is_drawn_from_its_experiments() {
        for paper in PAPERS {
            let runs = made_up_runs(paper);
            let all = beside(paper, Part::Whole, &runs).unwrap();
            assert!(all.missing.is_empty(), "{}: {:?}", paper.name, all.missing);
            let names: Vec<String> = paper.series.iter().map(ToString::to_string).collect();
            assert_eq!(paper.series.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", paper.name);
            let mut numbers = BTreeSet::new();
            for (figure, chart) in &all.figures {
                let name = format!("{} {}", paper.name, figure.number);
                assert!(numbers.insert(figure.number), "{name} is there twice");
                assert!(figure.experiments.iter().all(|it| paper.experiments.contains(it)), "{name}");
                assert!(!figure.experiments.is_empty() && !chart.words.is_empty(), "{name}");
                assert!(chart.panels.iter().flat_map(|it| &it.series).all(|it| !it.points.is_empty()), "{name}");
                let svg = still::svg(figure.title, chart, &names).unwrap();
                let svg = resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default());
                svg.unwrap_or_else(|error| panic!("{name}: {error}"));
                // By itself, from its experiments alone, it is the same.
                let part = paper.part(Some(figure.number), None).unwrap();
                let needed: Vec<Run> =
                    paper.experiments_of(part).iter().map(|name| made_up::run_of_experiment(name)).collect();
                let alone = beside(paper, part, &needed).unwrap();
                let text = serde_json::to_string(&alone.figures[0].1).unwrap();
                assert_eq!(text, serde_json::to_string(chart).unwrap(), "{name}");
                assert!(alone.figures.len() == 1 && alone.claims.is_empty() && alone.grids().is_empty(), "{name}");
            }
            let grids: Vec<&str> = all.grids().iter().map(|(number, _)| *number).collect();
            assert_eq!(grids, paper.tables, "{}", paper.name);
        }
    }

    #[test]
    fn figures_are_tables_in_a_terminal() {
        for paper in PAPERS {
            let runs = made_up_runs(paper);
            let all = beside(paper, Part::Whole, &runs).unwrap();
            let text: Vec<String> =
                all.figures.iter().map(|(figure, chart)| all.figure_text(figure, chart, 160)).collect();
            insta::assert_snapshot!(format!("figures_of_{}", paper.name), text.join("\n\n"));
            for (figure, chart) in &all.figures {
                let narrow = all.figure_text(figure, chart, 80);
                assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
            }
        }
    }

    #[test]
    fn what_is_not_valid_is_marked_in_every_form() {
        let paper = find("maharjan2012").unwrap();
        let mut runs = made_up_runs(paper);
        for record in &mut runs[1].records {
            record.verdict.kind = lab::record::VerdictKind::ClientLimited;
        }
        let part = paper.part(Some("5.2"), None).unwrap();
        let beside = beside(paper, part, &runs[1..2]).unwrap();
        let (figure, chart) = &beside.figures[0];
        assert!(beside.render(160).contains("In brackets: not valid, and not ranked."));
        let grids = grid::of(figure, chart, paper.series);
        assert!(grids[0].rows.iter().flat_map(|row| &row.cells).all(|cell| cell.starts_with('(')), "{grids:?}");
        let csv = beside.csv().unwrap();
        assert_eq!(csv.lines().filter(|line| line.ends_with("client-limited")).count(), 18, "{csv}");
        assert_eq!(beside.json()["figures"][0]["chart"]["panels"][0]["series"][0]["points"][0][3], "client-limited");
    }

    #[test]
    fn a_number_that_a_paper_has_not_is_an_error_that_lists_those_it_has() {
        let error = |paper: &str, figure: Option<&str>, table: Option<&str>| {
            find(paper).unwrap().part(figure, table).unwrap_err().to_string()
        };
        let said = error("maharjan2012", Some("5.9"), None);
        assert!(said.contains("--figure 5.9") && said.contains("Figures 5.1, 5.2, 5.3, 5.4, 5.5; no tables"), "{said}");
        let said = error("kawai2006", None, Some("2"));
        assert!(said.contains("--table 2") && said.contains("Figure 2; Tables 3, 4, 5"), "{said}");
        assert!(error("welsh2001", Some("4"), None).contains("no such Graph here"));
    }

    #[test]
    fn a_figure_of_other_runs_is_an_error_that_says_how_to_make_it() {
        let paper = find("kawai2008").unwrap();
        let part = paper.part(Some("8"), None).unwrap();
        let Err(error) = beside(paper, part, &[made_up::run_of_experiment("kawai2008-http")]) else { panic!() };
        assert!(error.to_string().contains("muxbench reproduce kawai2008 --figure 8"), "{error}");
        let whole = beside(paper, Part::Whole, &[made_up::run_of_experiment("kawai2008-http")]).unwrap();
        let said = whole.render(160);
        assert!(said.contains("nothing to show: Figure 8 (of kawai2008-minimised), Figure 11"), "{said}");
    }

    #[test]
    fn a_page_has_all_of_a_paper_and_loads_nothing() {
        let words = ["muxbench", "reproduce", "it"].map(str::to_owned);
        for paper in PAPERS {
            let runs = made_up_runs(paper);
            let all = beside(paper, Part::Whole, &runs).unwrap();
            let folders: Vec<String> = paper.experiments.iter().map(|name| format!("results/{name}")).collect();
            let origin = crate::html::paper::Origin { command: &words, folders: &folders };
            let page = crate::html::paper::render(&all, &runs, &origin).unwrap();
            assert!(page.len() < 4_000_000, "{}: {} bytes", paper.name, page.len());
            let head = page.split_once("<script type=\"application/json\"").unwrap().0;
            let ids: Vec<&str> = head.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
            for link in head.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0) {
                assert!(ids.contains(&link), "#{link} leads nowhere");
            }
            for (figure, _) in &all.figures {
                assert!(head.contains(&format!("<h3>{} {}. ", paper.figure_word, figure.number)), "{}", figure.number);
            }
            for number in paper.tables {
                assert!(head.contains(&format!("<h3>Table {number}. ")), "{number}");
            }
            assert_eq!(head.matches("here</strong>").count(), paper.claims.len(), "{}", paper.name);
            assert!(folders.iter().all(|it| head.contains(&format!("muxbench report {it} --html"))), "{}", paper.name);
            assert!(!head.contains("src=\"") && !head.contains("href=\"http"), "{}", paper.name);
        }
    }

    #[test]
    fn every_paper_has_experiments_and_claims_of_what_they_run() {
        for paper in PAPERS {
            assert!(!paper.about.is_empty());
            let experiments = paper.experiments.iter().map(|name| lab::presets::find(name).expect(name).experiment());
            let mut architectures: Vec<String> = Vec::new();
            for experiment in experiments {
                let plan = lab::plan::plan(&experiment, &lab::host::Host::this()).unwrap();
                let concern = |trial| claims::concern(paper.claims, trial);
                assert!(plan.trials.iter().any(concern), "{}: no claim is about it", experiment.name);
                architectures.extend(experiment.architectures.0.iter().map(ToString::to_string));
            }
            let is_run = |name: &&str| architectures.iter().any(|architecture| architecture == name);
            for (at, claim) in paper.claims.iter().enumerate() {
                assert_eq!(claim.number as usize, at + 1, "{}", paper.name);
                for statement in claim.statements {
                    assert!(statement.architectures.iter().all(is_run), "{} {}", paper.name, claim.number);
                }
            }
        }
    }
}
