#![doc = include_str!("../README.md")]
//!
//! The workloads of a run, not its name, decide whether it belongs to a paper.
//!
//! - this file: the list of papers; each paper's file has its figures, tables and claims
//! - `figure`: figures, their data and the workloads that papers have; `grid`: tables, and figures as tables and CSV
//! - `setup`: the authors' set-up, in `setup.csv`, beside the run's; `queue`: the event queue of a system in place of epoll
//! - `comparison`: runs beside a paper, and trials that a host cannot run

mod claims;
mod comparison;
mod figure;
mod grid;
mod hermes2025;
pub mod html;
mod kawai2006;
mod kawai2008;
mod maharjan2012;
mod queue;
mod setup;
mod voras2009;
mod welsh2001;

use anyhow::Context;
use harness::record::Run;
use load::config::ClientConfig;
use report::analysis::deviation::DeviationOf;

use claims::Claim;
pub use comparison::{PaperComparison, PaperExport};
use figure::PaperFigure;
use grid::{PaperTable, PaperTables};

/// A row of [`PAPERS`].
#[derive(Debug)]
pub struct Paper {
    /// The name, for `--paper` and `muxbench reproduce`.
    pub name: &'static str,
    /// Authors, title and publication.
    pub citation: &'static str,
    /// The subject in a few words.
    pub about: &'static str,
    /// The built-in experiments that produce the paper's runs.
    pub experiments: &'static [&'static str],
    /// The paper's claims.
    pub claims: &'static [Claim],
    /// The paper's word for figures.
    pub figure_word: &'static str,
    /// The figures that we draw, in the paper's order.
    pub figures: &'static [PaperFigure],
    /// The names of series in the figures.
    pub series: &'static [&'static str],
    /// The paper's tables that have results.
    pub tables: &'static [PaperTable],
    /// The function that fills the tables; `None` without tables. It returns `None` for runs that are not of the tables.
    tables_of: Option<TablesOf>,
    /// Returns whether a client is the paper's. Trials of other clients do not count.
    is_client: fn(&ClientConfig) -> bool,
}

type TablesOf = fn(&Run, &mut DeviationOf<'_>) -> anyhow::Result<Option<PaperTables>>;

/// Admits all clients.
fn any_client(_: &ClientConfig) -> bool {
    true
}

/// The part of a paper to show.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The whole paper.
    Whole,
    /// One figure.
    Figure(&'static PaperFigure),
    /// One table.
    Table(&'static PaperTable),
}

/// All papers.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "kawai2008",
        citation: "E. Kawai and S. Yamaguchi, \"A Benchmark Tool for Network I/O Management Architectures\", IPSJ Digital Courier 4 \
                   (2008)",
        about: "service time and send delay of five architectures, and clients that send simultaneously",
        experiments: &["kawai2008-http", "kawai2008-minimised", "kawai2008-saturated", "kawai2008-synchronisation"],
        claims: kawai2008::CLAIMS,
        figure_word: "Figure",
        figures: kawai2008::FIGURES,
        series: kawai2008::SERIES,
        tables: &[],
        tables_of: None,
        is_client: any_client,
    },
    Paper {
        name: "kawai2006",
        citation: "E. Kawai and S. Yamaguchi, \"An Implementation of a Benchmark Tool Considering Communication Locality\" (2006, in \
                   Japanese)",
        about: "service time with few active connections, and deviations of sends from even intervals",
        experiments: &["kawai2006"],
        claims: kawai2006::CLAIMS,
        figure_word: "Figure",
        figures: kawai2006::FIGURES,
        series: &kawai2006::ARCHITECTURES,
        tables: kawai2006::TABLES,
        tables_of: Some(kawai2006::tables_of),
        is_client: any_client,
    },
    Paper {
        name: "maharjan2012",
        citation: "P. Maharjan, \"Comparing and Measuring Network Event Dispatch Mechanisms in Virtual Hosts\" (Tampere University of \
                   Technology, 2012)",
        about: "HTTP with and without idle connections, and datagrams to many ports",
        experiments: &["maharjan2012-http", "maharjan2012-idle", "maharjan2012-udp"],
        claims: maharjan2012::CLAIMS,
        figure_word: "Figure",
        figures: maharjan2012::FIGURES,
        series: maharjan2012::ALL,
        tables: maharjan2012::TABLES,
        tables_of: Some(maharjan2012::tables_of),
        is_client: any_client,
    },
    Paper {
        name: "voras2009",
        citation: "I. Voras and M. Žagar, \"Characteristics of multithreading models for high-performance IO driven network \
                   applications\" (AFRICON 2009)",
        about: "transactions per second of five threading models",
        experiments: &["voras2009"],
        claims: voras2009::CLAIMS,
        figure_word: "Figure",
        figures: voras2009::FIGURES,
        series: voras2009::ALL,
        tables: &[],
        tables_of: None,
        is_client: voras2009::is_client,
    },
    Paper {
        name: "welsh2001",
        citation: "M. Welsh, \"SandStorm I/O Core Benchmarks\" (Harvard University, 2001)",
        about: "bandwidth of streams by numbers of connections and of idle connections",
        experiments: &["welsh2001-connections", "welsh2001-10k", "welsh2001-idle"],
        claims: welsh2001::CLAIMS,
        figure_word: "Graph",
        figures: welsh2001::FIGURES,
        series: welsh2001::ALL,
        tables: &[],
        tables_of: None,
        is_client: any_client,
    },
    Paper {
        name: "hermes2025",
        citation: "T. Pan et al., \"Hermes: Enhancing Layer-7 Cloud Load Balancers with Userspace-Directed I/O Event Notification\" \
                   (SIGCOMM 2025)",
        about: "balance of threads, latency, a thread that hangs, and the cost of steering by four accept strategies",
        experiments: &[
            "hermes2025-long",
            "hermes2025-short",
            "hermes2025-busy",
            "hermes2025-mixed",
            "hermes2025-stall",
        ],
        claims: hermes2025::CLAIMS,
        figure_word: "Figure",
        figures: hermes2025::FIGURES,
        series: hermes2025::ALL,
        tables: &[],
        tables_of: None,
        is_client: any_client,
    },
];

/// Returns the paper with this name.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

/// Returns the paper that an experiment belongs to.
pub fn of_experiment(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.experiments.contains(&name))
}

impl Part {
    /// Returns the part as command-line flags; empty for the whole paper.
    pub fn flags(self) -> Vec<String> {
        match self {
            Self::Whole => Vec::new(),
            Self::Figure(figure) => vec!["--figure".into(), figure.number.into()],
            Self::Table(table) => vec!["--table".into(), table.number.into()],
        }
    }
}

impl Paper {
    /// Returns the figure or the table with this number, or the whole paper.
    ///
    /// # Errors
    /// If the paper has no such part; the error lists the parts.
    pub fn part(&'static self, figure: Option<&str>, table: Option<&str>) -> anyhow::Result<Part> {
        let found = match (figure, table) {
            (Some(number), _) => self.figures.iter().find(|figure| figure.number == number).map(Part::Figure),
            (_, Some(number)) => self.tables.iter().find(|table| table.number == number).map(Part::Table),
            (None, None) => Some(Part::Whole),
        };
        found.with_context(|| {
            let (flag, number) = figure.map_or(("--table", table), |_| ("--figure", figure));
            let none = if self.tables.is_empty() { "; no tables" } else { "" };
            format!("invalid {flag} `{}`: {} has {}{none}", number.unwrap_or_default(), self.name, self.parts())
        })
    }

    /// Returns the numbers of the figures and tables in words.
    pub fn parts(&self) -> String {
        let list = |word: &str, numbers: Vec<&str>| match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("{word} {one}")),
            some => Some(format!("{word}s {}", some.join(", "))),
        };
        let figures = list(self.figure_word, self.figures.iter().map(|figure| figure.number).collect());
        let tables = list("Table", self.tables.iter().map(|table| table.number).collect());
        figures.into_iter().chain(tables).collect::<Vec<_>>().join("; ")
    }

    /// Returns the experiments that a part needs.
    pub fn experiments_of(&self, part: Part) -> &'static [&'static str] {
        match part {
            Part::Figure(figure) => figure.experiments,
            Part::Table(table) => table.experiments,
            Part::Whole => self.experiments,
        }
    }

    /// Returns the name of a figure, with its number.
    pub fn figure_name(&self, figure: &PaperFigure) -> String {
        format!("{} {}", self.figure_word, figure.number)
    }
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;

#[cfg(test)]
extern crate self as muxbench_papers;
#[cfg(test)]
#[expect(dead_code, reason = "a test has no folder of a run for `main`")]
#[path = "../examples/claims.rs"]
mod example;
