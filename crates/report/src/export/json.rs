//! A run as JSON. Histograms are base64 of the HdrHistogram V2 (deflate) format.

use harness::record::{Run, RunHeader, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::{Answer, FORMAT, answer, conclusion};

/// A run: its plan and host, every trial in full, and its results.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunExport<'a> {
    /// The version of this format.
    format: u32,
    /// The plan and the host.
    run: &'a RunHeader,
    /// Every finished trial.
    trials: &'a [TrialRecord],
    /// The answer: the result of a gate or a race, or else the conclusion of the rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<String>,
    /// A sentence for each workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<Vec<String>>,
    /// The ranking of each workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    /// The result by the strategy of the run.
    #[serde(flatten)]
    answer: Option<Answer>,
    /// Damage to the stored run, one sentence each.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    damage: &'a [String],
}

/// Returns the whole run.
pub fn of(run: &Run) -> RunExport<'_> {
    let summary = (!run.header.strategy.is_search()).then(|| Summary::of(run));
    RunExport {
        format: FORMAT,
        run: &run.header,
        trials: &run.records,
        best: summary.as_ref().map(|it| answer::sentence(run, it)),
        sentences: summary.as_ref().map(|it| it.comparisons.iter().map(conclusion::of).collect()),
        summary,
        answer: Answer::of(run),
        damage: &run.damage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{AdviceReport, GateReport};

    #[test]
    fn best_of_a_race_or_a_gate_is_its_answer() {
        let (race, gate) = (testkit::advise_run(10), testkit::gate_run(20));
        assert_eq!(of(&race).best.unwrap(), AdviceReport::of(&race).unwrap().sentences.join(" "));
        assert_eq!(of(&gate).best.unwrap(), GateReport::of(&gate).unwrap().sentence);
    }
}
