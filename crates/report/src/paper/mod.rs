//! A run beside a paper: in the layout of its tables with the published values, and what the paper claims.
//!
//! A paper is one file and one row of [`PAPERS`]. A run belongs to a paper by the values of its workloads, not by its
//! name: any experiment may cover some of the cells.

mod kawai2006;
mod kawai2008;
mod maharjan2012;
mod voras2009;
mod welsh2001;

use anyhow::ensure;
use lab::record::Run;
use serde_json::{Value, json};

use crate::claims::{self, Checked, Claim};
use crate::deviation::SendsOf;
use crate::json;

/// A row of [`PAPERS`].
#[derive(Debug)]
pub struct Paper {
    /// Its name: what `--paper` and `muxbench reproduce` take.
    pub name: &'static str,
    /// What there is of it, in a few words.
    pub about: &'static str,
    /// The experiments, of those that come with the binary, that make its runs.
    pub experiments: &'static [&'static str],
    /// What it claims.
    pub claims: &'static [Claim],
    /// Its tables; `None` where it prints no numbers.
    pub tables: Option<TablesOf>,
}

/// Lines a run up with a paper's tables.
///
/// # Errors
/// When no trial of the run has a workload of the paper.
pub type TablesOf = fn(&Run, &mut SendsOf<'_>) -> anyhow::Result<Box<dyn Tables>>;

/// Every paper there is.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "kawai2008",
        about: "service time and lag of five architectures (Figures 6, 8, 10, 11)",
        experiments: &["kawai2008-http", "kawai2008-minimised"],
        claims: kawai2008::CLAIMS,
        tables: None,
    },
    Paper {
        name: "kawai2006",
        about: "service time (Tables 3 and 4) and send deviation (Table 5, Figure 2)",
        experiments: &["kawai2006"],
        claims: kawai2006::CLAIMS,
        tables: Some(|run, sends_of| Ok(Box::new(kawai2006::Kawai2006::of(run, sends_of)?))),
    },
    Paper {
        name: "maharjan2012",
        about: "HTTP with and without idle connections, datagrams to many ports (Figures 5.1 to 5.5)",
        experiments: &["maharjan2012-http", "maharjan2012-idle", "maharjan2012-udp"],
        claims: maharjan2012::CLAIMS,
        tables: None,
    },
    Paper {
        name: "voras2009",
        about: "transactions a second of five threading models (Figures 1 to 7)",
        experiments: &["voras2009"],
        claims: voras2009::CLAIMS,
        tables: None,
    },
    Paper {
        name: "welsh2001",
        about: "bandwidth of streams against connections and idle ones (three graphs)",
        experiments: &["welsh2001-connections", "welsh2001-10k", "welsh2001-idle"],
        claims: welsh2001::CLAIMS,
        tables: None,
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

/// Runs beside a paper, to be shown.
pub struct Beside {
    paper: &'static Paper,
    tables: Vec<Box<dyn Tables>>,
    claims: Vec<Checked>,
}

impl Beside {
    /// Lines runs up with a paper, each with what gives its sends.
    ///
    /// # Errors
    /// When no trial of theirs has a workload of the paper.
    pub fn of(paper: &'static Paper, runs: &[Run], sends_of: &mut [&mut SendsOf<'_>]) -> anyhow::Result<Self> {
        let tables =
            runs.iter().zip(&mut *sends_of).filter_map(|(run, sends_of)| Some((paper.tables?)(run, *sends_of)));
        let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;
        let claims = claims::check(paper.claims, runs, sends_of);
        let mut records = runs.iter().flat_map(|run| &run.records);
        let is_of_it = !tables.is_empty() || records.any(|record| claims::concern(paper.claims, &record.trial));
        ensure!(is_of_it, "no trial of this run has a workload of {}", paper.name);
        Ok(Self { paper, tables, claims })
    }

    /// As text, at most `width` columns wide where that is possible.
    pub fn render(&self, width: usize) -> String {
        let mut text: String = self.tables.iter().map(|tables| tables.render(width) + "\n").collect();
        text += &claims::render(&self.claims, width);
        text
    }

    /// As JSON: what the tables have, and the claims.
    pub fn json(&self) -> Value {
        let tables = self.tables.first().map_or_else(|| json!({ "paper": self.paper.name }), |tables| tables.json());
        let mut all = json!({ "format": json::FORMAT });
        let fields = tables.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
        all.as_object_mut().expect("it is one").extend(fields);
        all["claims"] = json!(self.claims);
        all
    }

    /// As CSV: a row for each published value, or where there are none, for each figure that a claim was held against.
    ///
    /// # Errors
    /// None that is known: everything is held in memory.
    pub fn csv(&self) -> anyhow::Result<String> {
        self.tables.first().map_or_else(|| claims::csv(&self.claims), |tables| tables.csv())
    }
}

/// A run in a paper's layout, to be shown.
pub trait Tables {
    /// As text, at most `width` columns wide where that is possible.
    fn render(&self, width: usize) -> String;

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
    use super::*;

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
