//! Trials that a host cannot run, with the reasons, for the report.

use std::collections::{BTreeMap, BTreeSet};

use harness::record::Run;
use report::format::counted;
use schemars::JsonSchema;
use serde::Serialize;

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

/// Returns each reason in a run's plan once. A trial with several reasons counts for each of them.
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
    /// Describes how many trials of which architectures are affected, and why.
    pub fn words(&self) -> String {
        let trials = counted(self.trials, "trial", "trials");
        let architectures = self.architectures.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{trials} of {architectures}: {}", self.reason)
    }
}

/// Lists all reasons, one per line; empty without any.
pub fn listed(all: &[Impossible]) -> String {
    let lines: String = all.iter().map(|it| format!("\n- {}, {}", it.experiment, it.words())).collect();
    if lines.is_empty() { lines } else { format!("Trials that this host cannot run:{lines}") }
}
