//! Sweeps by ascending rate. Trials past saturation prune the higher rates of configurations that differ only in the rate.

use load::LoadResult;

use super::{Rules, open};
use crate::record::figures;
use crate::record::{RunHeader, SweepGoal, Trial, TrialOutcome, TrialRecord, VerdictKind};

/// The share of the rate that a server must achieve to keep up.
const ACHIEVED_SHARE_MIN: f64 = 0.95;

impl Rules for SweepGoal {
    /// A trial is past if it failed, or its rate exceeded the capacity of server or client. Higher rates would show nothing new.
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        let is_too_slow = record.load.as_ref().is_none_or(|load| !keeps_up(load));
        outcome.is_past = is_too_slow || matches!(record.verdict.kind, VerdictKind::Saturated | VerdictKind::Failed);
    }

    fn pruned(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<u32> {
        let Some(past_max) = self.past else { return Vec::new() };
        let open = open(header, outcomes);
        let is_past = |trial: &Trial| steps_past(header, outcomes, trial) >= past_max;
        // A reference without other servers to link need not run.
        let is_needed = |trial: &Trial| {
            let is_rival = |it: &&&Trial| figures::heat(it) == figures::heat(trial) && !it.is_reference;
            !trial.is_reference || open.iter().filter(is_rival).any(|it| !is_past(it))
        };
        let pruned = open.iter().filter(|trial| is_past(trial) || !is_needed(trial));
        pruned.map(|trial| trial.index).collect()
    }
}

/// Tests whether the server achieved nearly the rate that was due. Normally the lower of the planned and the configured rate is
/// due, because a Poisson process may plan fewer requests than configured. With short-lived connections the configured rate is
/// due, because `planned` omits sessions that never started.
pub(super) fn keeps_up(load: &LoadResult) -> bool {
    let Some(configured_per_s) = load.rate_asked_per_s else { return true };
    let planned_per_s = load.planned as f64 / (load.window_ns as f64 / 1e9);
    let due_per_s = if load.churn.is_some() { configured_per_s } else { planned_per_s.min(configured_per_s) };
    load.rate_achieved_per_s >= ACHIEVED_SHARE_MIN * due_per_s
}

/// Counts the consecutive rates directly below that of `trial` that were past saturation in most repeats.
fn steps_past(header: &RunHeader, outcomes: &[TrialOutcome], trial: &Trial) -> u32 {
    // The rate, its repeats, and the number of repeats past saturation.
    let mut steps: Vec<(f64, u32, u32)> = Vec::new();
    let rate_of = |trial: &Trial| trial.workload.rate_per_s().unwrap_or(f64::INFINITY);
    for outcome in outcomes {
        let Some(other) = header.trials.iter().find(|other| other.index == outcome.index) else { continue };
        let rate = rate_of(other);
        if !other.differs_only_in_rate(trial) || rate >= rate_of(trial) {
            continue;
        }
        let past = u32::from(outcome.is_past);
        match steps.iter_mut().find(|step| step.0 == rate) {
            Some(step) => (step.1, step.2) = (step.1 + 1, step.2 + past),
            None => steps.push((rate, 1, past)),
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    steps.iter().take_while(|(_, repeats, past)| 2 * past > *repeats).count() as u32
}
