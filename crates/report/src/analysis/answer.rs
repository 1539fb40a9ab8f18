//! The result of a run by its strategy. No other file of this crate asks which strategy a run has.

use std::collections::BTreeMap;

use harness::record::{Run, Strategy, VerdictKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::conclusion::overall;
use super::{AdviceReport, Capacities, GateReport, Overloads, Summary, Sweep};

/// What a run has found besides its rankings, or instead of them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "a run has one answer")]
pub enum Answer {
    /// The curve of each server of a sweep.
    Sweep(Sweep),
    /// The result of each search, whose trials have different rates, so that they have no summary.
    Capacity(Capacities),
    /// The result of each server of an overload, in place of a summary.
    Overload(Overloads),
    /// The result of a race.
    Advice(AdviceReport),
    /// The result of a gate.
    Gate(GateReport),
}

impl Answer {
    /// Returns the result of a run; `None` if it has rankings only.
    pub fn of(run: &Run) -> Option<Self> {
        match run.header.strategy {
            Strategy::Whole | Strategy::Until(_) => None,
            Strategy::Sweep(_) => Sweep::of(run).map(Self::Sweep),
            Strategy::Capacity(_) => Capacities::of(run).map(Self::Capacity),
            Strategy::Overload(_) => Overloads::of(run).map(Self::Overload),
            Strategy::Advise(_) => AdviceReport::of(run).map(Self::Advice),
            Strategy::Gate(_) => GateReport::of(run).map(Self::Gate),
        }
    }

    /// Returns the result in words; `None` if the conclusion of the rankings is the result.
    fn sentence(self) -> Option<String> {
        match self {
            Self::Sweep(_) => None,
            Self::Capacity(capacities) => Some(capacities.sentence()),
            Self::Overload(overloads) => Some(overloads.sentence),
            Self::Advice(advice) => Some(advice.sentences.join(" ")),
            Self::Gate(gate) => Some(gate.sentence),
        }
    }
}

/// Returns the result of a run in words, or else the conclusion of its summary.
pub(crate) fn sentence(run: &Run, summary: &Summary) -> String {
    Answer::of(run).and_then(Answer::sentence).unwrap_or_else(|| overall(summary))
}

/// Returns the servers of a comparison of which each trial failed before its client had a report. The plan names those that cannot run
/// on this host.
pub fn absent(run: &Run) -> Vec<String> {
    let mut loaded: BTreeMap<String, bool> = BTreeMap::new();
    let is_comparison = matches!(run.header.strategy, Strategy::Whole | Strategy::Until(_) | Strategy::Sweep(_));
    for record in run.records.iter().filter(|_| is_comparison) {
        *loaded.entry(record.trial.architecture.to_string()).or_default() |= record.load.is_some();
    }
    loaded.into_iter().filter(|(_, is_loaded)| !is_loaded).map(|(name, _)| name).collect()
}

/// Returns whether any result is valid or, with `strict`, all are. A strict sweep also accepts trials past saturation. A strict search
/// needs a precise capacity of each server: the client must not be the limit. A strict overload needs the recovery of each server,
/// without doubts.
pub fn is_believable(run: &Run, strict: bool) -> bool {
    let count = |kind| run.records.iter().filter(|record| record.verdict.kind == kind).count();
    let (valid, planned) = (count(VerdictKind::Valid), run.header.trials.len());
    match Answer::of(run) {
        Some(Answer::Capacity(capacities)) => capacities.is_found(strict),
        Some(Answer::Overload(overloads)) => overloads.is_found(strict),
        Some(Answer::Advice(_)) if strict => valid == run.records.len(),
        _ if strict && run.header.strategy == Strategy::Whole => valid == planned,
        _ if strict => {
            let outcomes = harness::strategy::outcomes(run);
            let past = count(VerdictKind::Saturated) + run.header.strategy.pruned(&run.header, &outcomes).len();
            valid > 0 && valid + past == planned
        }
        _ => valid > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_any_load_is_absent() {
        let mut run = testkit::run();
        assert_eq!(absent(&run), [""; 0]);
        let mut fail = |repeat_max: u32| {
            let is_epoll = |name: &str| name == "epoll";
            for record in run.records.iter_mut().filter(|it| it.trial.repeat <= repeat_max) {
                if is_epoll(&record.trial.architecture.to_string()) {
                    record.load = None;
                }
            }
            absent(&run)
        };
        assert_eq!(fail(0), [""; 0], "it ran in other repeats");
        assert_eq!(fail(u32::MAX), ["epoll"]);
    }
}
