//! A run as JSON. Histograms are base64 of the HdrHistogram V2 (deflate) format.

use harness::record::{Run, RunHeader, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::{AdviceReport, Capacities, FORMAT, GateReport, Overloads, Sweep, conclusion};

/// A run: its plan and host, every trial in full, and its results.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunExport<'a> {
    /// The version of this format.
    format: u32,
    /// The plan and the host.
    run: &'a RunHeader,
    /// Every finished trial.
    trials: &'a [TrialRecord],
    /// The result of each search of a capacity run, whose trials have different rates, so that they have no summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<Capacities>,
    /// The result of each server of an overload, in place of a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<Overloads>,
    /// The answer: the result of a gate or a race, or else the conclusion of the rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<String>,
    /// A sentence for each workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<Vec<String>>,
    /// The ranking of each workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    /// The curve of each server of a sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<Sweep>,
    /// The result of a race.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<AdviceReport>,
    /// The result of a gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<GateReport>,
    /// Damage to the stored run, one sentence each.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    damage: &'a [String],
}

/// Returns the whole run.
pub fn of(run: &Run) -> RunExport<'_> {
    let (capacity, overload) = (Capacities::of(run), Overloads::of(run));
    let summary = (capacity.is_none() && overload.is_none()).then(|| Summary::of(run));
    RunExport {
        format: FORMAT,
        run: &run.header,
        trials: &run.records,
        capacity,
        overload,
        best: summary.as_ref().map(|it| conclusion::answer(run, it)),
        sentences: summary.as_ref().map(|it| it.comparisons.iter().map(conclusion::of).collect()),
        summary,
        sweep: Sweep::of(run),
        advice: AdviceReport::of(run),
        gate: GateReport::of(run),
        damage: &run.damage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_of_a_race_or_a_gate_is_its_answer() {
        let (race, gate) = (testkit::advise_run(10), testkit::gate_run(20));
        assert_eq!(of(&race).best.unwrap(), AdviceReport::of(&race).unwrap().sentences.join(" "));
        assert_eq!(of(&gate).best.unwrap(), GateReport::of(&gate).unwrap().sentence);
    }
}
