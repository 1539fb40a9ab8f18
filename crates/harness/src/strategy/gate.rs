//! Gates: repeats of two builds, until each figure of the new one is known to be within its limit, or one to be beyond.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Estimate;
use stats::excess::{Excess, ExcessLooks, REPEATS_MIN, looks};

use super::{Rest, Rules, is_time_over, open};
use crate::plan::duration_ns;
use crate::record::figures::of_trial;
use crate::record::{Figure, GateGoal, GateLimit, RunHeader, Trial, TrialOutcome, TrialRecord, VerdictKind, Workload};

/// The highest number of repeats in the plan of a gate.
pub const REPEATS_MAX: u32 = 400;

/// The number of repeats after which a gate without any usable trial ends.
const UNUSABLE_MAX: u32 = 8;

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// A figure of the new build is worse by more than its tolerance.
    Slower,
    /// No figure of the new build is worse by its tolerance.
    NotSlower,
    /// The time was over before either was known, or the figures could not be measured.
    Undecided,
}

/// The knowledge about a figure under a workload.
#[derive(Clone, Debug)]
pub struct GateFinding<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The figure and its tolerance.
    pub limit: GateLimit,
    /// The values of the old and the new build in each repeat in which both are known.
    pub pairs: Vec<[f64; 2]>,
    /// The knowledge after the last look.
    pub excess: Excess,
    /// How much worse the new build is, with the interval that decides; `None` before the first look.
    pub estimate: Option<Estimate>,
}

impl GateFinding<'_> {
    /// Returns how much worse the new build was in each repeat.
    pub fn differences(&self) -> Vec<f64> {
        self.pairs.iter().map(|&pair| self.limit.figure.excess(pair)).collect()
    }

    /// Tests whether the figure is left out: it was never measured, and the gate does not need it.
    pub fn is_left_out(&self) -> bool {
        self.pairs.is_empty() && !self.limit.is_required
    }
}

/// Returns the outcome by the knowledge about all figures. Errors alone do not show that a build is fast enough.
pub fn outcome(findings: &[GateFinding<'_>]) -> GateOutcome {
    let mut counted = findings.iter().filter(|finding| !finding.is_left_out());
    let has_figure = counted.clone().any(|finding| finding.limit.figure != Figure::Errors);
    if counted.clone().any(|finding| finding.excess == Excess::Beyond) {
        GateOutcome::Slower
    } else if has_figure && counted.all(|finding| finding.excess == Excess::Within) {
        GateOutcome::NotSlower
    } else {
        GateOutcome::Undecided
    }
}

/// Returns the value of a figure in a trial; `None` if it is unknown or does not describe the server. A saturated trial counts: its
/// times show that the server is too slow. So does a trial whose only fault are errors, which have a limit of their own.
pub fn value(figure: Figure, record: &TrialRecord) -> Option<f64> {
    let verdict = &record.verdict;
    let is_usable =
        verdict.belongs_in_estimates() || verdict.kind == VerdictKind::Saturated || verdict.has_only_errors();
    let load = record.load.as_ref();
    let value = match figure {
        // In a trial that did not finish all requests have failed, although a server that fails when its clients leave has a report.
        Figure::Errors => {
            let finished = load.filter(|_| !verdict.is_unfinished());
            Some(finished.map_or(1.0, |load| load.error_share(load.errors.total())))
        }
        _ if !is_usable => None,
        _ if figure.tail().is_some_and(|q| load.is_none_or(|load| load.is_client_tail(q))) => None,
        _ => of_trial(record, figure),
    };
    value.filter(|value| value.is_finite()).map(|value| value.max(0.0))
}

/// Tests whether a record shows that the old build does not run: its first trial did not finish.
pub fn cannot_run(goal: &GateGoal, record: &TrialRecord) -> bool {
    record.trial.repeat == 0 && goal.is_old(&record.trial) && record.verdict.is_unfinished()
}

impl Rules for GateGoal {
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        for limit in &self.limits {
            outcome.values[limit.figure] = value(limit.figure, record);
        }
        outcome.is_past = record.verdict.is_unfinished();
    }

    fn pruned(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<u32> {
        let open = open(header, outcomes);
        if is_ended(header, outcomes, self) { open.iter().map(|trial| trial.index).collect() } else { Vec::new() }
    }

    /// The plan has more repeats than fit into the time.
    fn rest(&self, _: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        Rest::of_time(self.time_max_ns, outcomes)
    }

    fn ends_early(&self) -> bool {
        true
    }

    fn command(&self) -> &'static str {
        "gate"
    }
}

/// Tests whether the outcome is known, will not be known because the old build does not run or no trial is usable, or the time is over.
fn is_ended(header: &RunHeader, outcomes: &[TrialOutcome], goal: &GateGoal) -> bool {
    let open = open(header, outcomes);
    let is_first = |index: u32| header.trials.iter().any(|it| it.index == index && it.repeat == 0 && goal.is_old(it));
    if open.is_empty()
        || outcomes.iter().any(|it| it.is_past && is_first(it.index))
        || is_time_over(&open, outcomes, goal.time_max_ns)
    {
        return true;
    }
    let repeats = repeats(header, outcomes);
    let findings = judged(header, outcomes, goal, looks().take_while(|&look| look <= repeats));
    let is_unknown = |it: &GateFinding<'_>| it.limit.figure == Figure::Errors || it.pairs.is_empty();
    outcome(&findings) != GateOutcome::Undecided || repeats >= UNUSABLE_MAX && findings.iter().all(is_unknown)
}

/// Returns the estimated time of a repeat, in nanoseconds.
pub fn repeat_ns(trials: &[Trial]) -> u64 {
    trials.iter().filter(|trial| trial.repeat == 0 && trial.infeasible.is_empty()).map(duration_ns).sum()
}

/// Returns the number of complete repeats from the first on.
pub fn repeats(header: &RunHeader, outcomes: &[TrialOutcome]) -> u32 {
    let planned = || header.trials.iter().filter(|trial| trial.infeasible.is_empty());
    let is_done = |trial: &Trial| outcomes.iter().any(|outcome| outcome.index == trial.index);
    let last = planned().map(|trial| trial.repeat).max();
    let is_complete = |repeat: &u32| planned().filter(|trial| trial.repeat == *repeat).all(is_done);
    last.map_or(0, |last| (0..=last).take_while(is_complete).count() as u32)
}

/// Looks at a gate after its repeats, and once more at its end. Returns the findings, workload by workload.
pub fn findings<'a>(header: &'a RunHeader, outcomes: &[TrialOutcome], goal: &GateGoal) -> Vec<GateFinding<'a>> {
    let repeats = repeats(header, outcomes);
    let due: Vec<u32> = looks().take_while(|&look| look <= repeats).collect();
    let is_ended = is_ended(header, outcomes, goal);
    let last = Some(repeats).filter(|repeats| is_ended && *repeats >= REPEATS_MIN && !due.contains(repeats));
    judged(header, outcomes, goal, due.into_iter().chain(last))
}

/// Looks at a gate after these numbers of repeats, until its outcome is known.
fn judged<'a>(
    header: &'a RunHeader,
    outcomes: &[TrialOutcome],
    goal: &GateGoal,
    looks: impl Iterator<Item = u32>,
) -> Vec<GateFinding<'a>> {
    let mut workloads: Vec<&Workload> = Vec::new();
    for trial in &header.trials {
        if !workloads.contains(&&trial.workload) {
            workloads.push(&trial.workload);
        }
    }
    let value = |workload: &Workload, repeat: u32, is_old: bool, at: usize| {
        let is_its = |it: &&Trial| it.repeat == repeat && it.workload == *workload && goal.is_old(it) == is_old;
        let trial = header.trials.iter().find(|trial| is_its(trial) && !trial.is_reference)?;
        outcomes.iter().find(|outcome| outcome.index == trial.index)?.values[goal.limits[at].figure]
    };
    let pairs = |workload: &Workload, at: usize, repeats: u32| -> Vec<[f64; 2]> {
        let pair = |repeat| Some([value(workload, repeat, true, at)?, value(workload, repeat, false, at)?]);
        // A time or a rate of 0 has no ratio.
        let has_ratio = |pair: &[f64; 2]| {
            let may_be_zero = matches!(goal.limits[at].figure, Figure::Errors | Figure::Memory);
            may_be_zero || pair.iter().all(|value| *value > 0.0)
        };
        (0..repeats).filter_map(pair).filter(has_ratio).collect()
    };
    let all = || workloads.iter().flat_map(|workload| goal.limits.iter().enumerate().map(move |it| (*workload, it)));
    let found = |repeats: u32| -> Vec<GateFinding<'a>> {
        let finding = |(workload, (at, limit)): (&'a Workload, (usize, &GateLimit))| GateFinding {
            workload,
            limit: *limit,
            pairs: pairs(workload, at, repeats),
            excess: Excess::Open,
            estimate: None,
        };
        all().map(finding).collect()
    };
    let mut series = ExcessLooks::new(all().map(|(_, (_, it))| it.figure.limit(it.tolerance)).collect());
    let mut findings = found(repeats(header, outcomes));
    for look in looks {
        findings = found(look);
        series.look(&findings.iter().map(GateFinding::differences).collect::<Vec<_>>());
        for (finding, (excess, estimate)) in findings.iter_mut().zip(series.decisions().iter().zip(series.estimates()))
        {
            (finding.excess, finding.estimate) = (*excess, *estimate);
        }
        if outcome(&findings) != GateOutcome::Undecided {
            break;
        }
    }
    findings
}

#[cfg(test)]
mod tests;
