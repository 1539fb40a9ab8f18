//! Trials that are impossible on a host, with the reasons: the output lists them.

use std::collections::{BTreeMap, BTreeSet};

use harness::model::Run;
use serde::Serialize;

/// A reason, and what it keeps from being run.
#[derive(Clone, Debug, Serialize)]
pub struct Impossible {
    /// The experiment.
    pub experiment: String,
    /// Why, and what can be done, as the plan has it.
    pub reason: String,
    /// How many trials it is of.
    pub trials: usize,
    /// Their architectures, by name.
    pub architectures: BTreeSet<String>,
}

/// Each reason of a run's plan once. A trial that has several is counted in each.
pub fn of(run: &Run) -> Vec<Impossible> {
    let mut found: BTreeMap<&String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for trial in &run.header.trials {
        for reason in &trial.infeasible {
            let (trials, architectures) = found.entry(reason).or_default();
            *trials += 1;
            architectures.insert(trial.architecture.to_string());
        }
    }
    let of_one = |(reason, (trials, architectures)): (&String, (usize, BTreeSet<String>))| Impossible {
        experiment: run.header.experiment.clone(),
        reason: reason.clone(),
        trials,
        architectures,
    };
    found.into_iter().map(of_one).collect()
}

impl Impossible {
    /// How many trials of which architectures, and why.
    pub fn words(&self) -> String {
        let trials = if self.trials == 1 { "trial" } else { "trials" };
        let architectures = self.architectures.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{} {trials} of {architectures}: {}", self.trials, self.reason)
    }
}

/// All of them, a line each; nothing where there are none.
pub fn listed(all: &[Impossible]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let line = |it: &Impossible| format!("- {}, {}", it.experiment, it.words());
    ["Impossible here, and not run:".to_owned()].into_iter().chain(all.iter().map(line)).collect::<Vec<_>>().join("\n")
}
