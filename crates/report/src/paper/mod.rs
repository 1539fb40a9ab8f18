//! A run in the layout of a paper's tables, beside the published values: to see which of its claims hold here.
//!
//! A paper is one file and one row of [`PAPERS`]. A run belongs to a paper by the values of its workloads, not by its
//! name: any experiment may cover some of the cells.

mod kawai2006;

use lab::record::Run;
use serde_json::Value;

use crate::deviation::SendsOf;

/// A row of [`PAPERS`].
#[derive(Debug)]
pub struct Paper {
    /// Its name: what `--paper` takes, and that of the experiment which makes such a run.
    pub name: &'static str,
    /// What is printed, in a few words.
    pub about: &'static str,
    /// Lines a run up with the paper.
    ///
    /// # Errors
    /// When no trial of the run has a workload of the paper.
    pub of: fn(&Run, &mut SendsOf<'_>) -> anyhow::Result<Box<dyn Tables>>,
}

/// Every paper there is.
pub const PAPERS: &[Paper] = &[Paper {
    name: "kawai2006",
    about: "service time (Tables 3 and 4) and send deviation (Table 5, Figure 2)",
    of: |run, sends_of| Ok(Box::new(kawai2006::Kawai2006::of(run, sends_of)?)),
}];

/// The paper of that name.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
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
    fn every_paper_has_an_experiment_of_its_name() {
        for paper in PAPERS {
            assert!(lab::presets::find(paper.name).is_some(), "{}", paper.name);
            assert!(!paper.about.is_empty());
        }
    }
}
