//! The order in which a run goes through its plan, and where it leaves off: all of it, up to saturation, or in search of a
//! capacity. What comes next follows from the plan and what is finished, so that a run that was stopped goes on as if it had
//! not been.

use load::LoadReport;
use serde::{Deserialize, Serialize};

use crate::capacity::{self, Probe, Question};
use crate::record::{RunHeader, Trial, TrialRecord, VerdictKind};

/// A server keeps up with a rate of which it achieves this share.
const ACHIEVED_SHARE_MIN: f64 = 0.95;

/// How a run goes through its plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// Every trial, in the plan's order.
    #[default]
    Whole,
    /// By ascending rates; an architecture is left out once so many steps in a row were past saturation.
    Sweep {
        /// See above; `None`: it never is.
        past: Option<u32>,
    },
    /// The plan has one trial for each search, its first probe; the others follow from what was found.
    Capacity(Question),
}

impl Course {
    /// Whether it is that of a plan without more ado.
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// What a course needs to know of a finished trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The trial.
    pub index: u32,
    /// Its rate, in requests a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// How long it took in all, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether it was past saturation, or failed.
    pub is_past: bool,
    /// As a probe of a search.
    pub probe: Option<Probe>,
}

impl Finding {
    /// What is found in a trial of a run that has this course.
    pub fn of(record: &TrialRecord, course: &Course) -> Self {
        let probe = match course {
            Course::Capacity(question) => Some(question.probe(record)),
            Course::Whole | Course::Sweep { .. } => None,
        };
        Self {
            index: record.trial.index,
            rate_per_s: record.trial.workload.rate_per_s,
            elapsed_ns: record.elapsed_ns,
            is_past: is_past(record),
            probe,
        }
    }
}

/// Whether a trial was past what its server can do, or its client: more would tell nothing new.
fn is_past(record: &TrialRecord) -> bool {
    let too_slow = record.load.as_ref().is_none_or(|load| !keeps_up(load));
    too_slow || matches!(record.verdict.kind, VerdictKind::Saturated | VerdictKind::Failed)
}

/// Whether nearly as much was achieved as was due, which of a Poisson process may be less than was asked for. Where connections
/// come and go, a session that never got its turn is not among the planned, so that what was asked for is due.
pub(crate) fn keeps_up(load: &LoadReport) -> bool {
    let Some(asked_per_s) = load.rate_asked_per_s else { return true };
    let planned_per_s = load.planned as f64 / (load.window_ns as f64 / 1e9);
    let due_per_s = if load.churn.is_some() { asked_per_s } else { planned_per_s.min(asked_per_s) };
    load.rate_achieved_per_s >= ACHIEVED_SHARE_MIN * due_per_s
}

/// The trial to be run next; `None` at the end.
pub fn next(header: &RunHeader, findings: &[Finding]) -> Option<Trial> {
    match &header.course {
        Course::Capacity(question) => capacity::next(header, question, findings),
        Course::Whole | Course::Sweep { .. } => ahead(header, findings).first().map(|trial| (*trial).clone()),
    }
}

/// The planned trials that are still to be run, as far as is known now; those of a search are not planned.
pub fn ahead<'a>(header: &'a RunHeader, findings: &[Finding]) -> Vec<&'a Trial> {
    let left_out = left_out(header, findings);
    let is_done = |trial: &Trial| findings.iter().any(|finding| finding.index == trial.index);
    let is_ahead = |trial: &&Trial| trial.impossible.is_empty() && !is_done(trial) && !left_out.contains(&trial.index);
    match header.course {
        Course::Capacity(_) => Vec::new(),
        Course::Whole | Course::Sweep { .. } => header.trials.iter().filter(is_ahead).collect(),
    }
}

/// The trials of a sweep that are not to be run, as lower rates were past saturation already.
pub fn left_out(header: &RunHeader, findings: &[Finding]) -> Vec<u32> {
    let Course::Sweep { past: Some(past_max) } = header.course else { return Vec::new() };
    let is_open = |trial: &&Trial| !findings.iter().any(|finding| finding.index == trial.index);
    let is_left_out = |trial: &&Trial| steps_past(header, findings, trial) >= past_max;
    header.trials.iter().filter(is_open).filter(is_left_out).map(|trial| trial.index).collect()
}

/// How many steps in a row, the last ones below the rate of `trial`, were past saturation by most of their repeats.
fn steps_past(header: &RunHeader, findings: &[Finding], trial: &Trial) -> u32 {
    // (rate, repeats, of them past)
    let mut steps: Vec<(f64, u32, u32)> = Vec::new();
    let rate_of = |trial: &Trial| trial.workload.rate_per_s.unwrap_or(f64::INFINITY);
    for finding in findings {
        let Some(other) = header.trials.iter().find(|other| other.index == finding.index) else { continue };
        let rate = rate_of(other);
        if !other.is_alike_but_for_the_rate(trial) || rate >= rate_of(trial) {
            continue;
        }
        let past = u32::from(finding.is_past);
        match steps.iter_mut().find(|step| step.0 == rate) {
            Some(step) => (step.1, step.2) = (step.1 + 1, step.2 + past),
            None => steps.push((rate, 1, past)),
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    steps.iter().take_while(|(_, repeats, past)| 2 * past > *repeats).count() as u32
}

#[cfg(test)]
mod tests {
    use load::report::ChurnReport;

    use super::*;

    /// A sweep of two architectures over six rates, two repeats each.
    fn header() -> RunHeader {
        let mut experiment = crate::presets::find("smoke").unwrap().experiment();
        experiment.architectures.0 = vec!["epoll".parse().unwrap(), "mt".parse().unwrap()];
        experiment.workload.connections.0.truncate(1);
        experiment.repeats = 2.try_into().unwrap();
        // As one may write them.
        let rates = [300.0, 100.0, 200.0, 600.0, 500.0, 400.0];
        experiment.workload.rate = Some(crate::experiment::List(rates.map(crate::units::Rate).to_vec()));
        let plan = crate::plan::plan(&experiment, &crate::host::Host::this()).unwrap().by_rate();
        RunHeader { course: Course::Sweep { past: Some(2) }, ..RunHeader::made_up(plan) }
    }

    /// Runs it where `is_past` says of (architecture, rate, repeat) how each trial ends: what was run, in order.
    fn run(header: &RunHeader, is_past: impl Fn(&str, f64, u32) -> bool) -> Vec<(String, f64, u32)> {
        let (mut findings, mut order) = (Vec::new(), Vec::new());
        while let Some(trial) = next(header, &findings) {
            let (name, rate) = (trial.architecture.to_string(), trial.workload.rate_per_s.unwrap());
            findings.push(Finding {
                index: trial.index,
                rate_per_s: Some(rate),
                elapsed_ns: 1,
                is_past: is_past(&name, rate, trial.repeat),
                probe: None,
            });
            order.push((name, rate, trial.repeat));
        }
        assert!(ahead(header, &findings).is_empty());
        order
    }

    #[test]
    fn rates_ascend_with_all_repeats_of_all_architectures_at_each() {
        let order = run(&header(), |_, _, _| false);
        assert_eq!(order.len(), 24);
        let keys: Vec<_> = order.iter().map(|(_, rate, repeat)| (*rate as u32, *repeat)).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for pair in order.chunks(2) {
            assert_ne!(pair[0].0, pair[1].0, "they take turns");
        }
    }

    #[test]
    fn an_architecture_stops_after_two_steps_past_and_the_others_go_on() {
        let order = run(&header(), |name, rate, _| name == "mt" && rate >= 300.0);
        let rates = |name: &str| {
            let mut rates: Vec<_> = order.iter().filter(|run| run.0 == name).map(|run| run.1).collect();
            rates.dedup();
            rates
        };
        assert_eq!(rates("mt"), [100.0, 200.0, 300.0, 400.0]);
        assert_eq!(rates("epoll"), [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]);
    }

    #[test]
    fn a_step_that_a_neighbour_spoilt_stops_nobody() {
        assert_eq!(run(&header(), |_, rate, _| rate == 200.0 || rate == 400.0).len(), 24, "never two in a row");
        assert_eq!(run(&header(), |_, _, repeat| repeat == 0).len(), 24, "half of the repeats are not most");
    }

    #[test]
    fn a_poisson_process_that_brings_less_is_kept_up_with() {
        let kept_up = |planned: u64, achieved_per_s: f64| {
            let healthy = crate::verdict::tests::healthy();
            keeps_up(&LoadReport { planned, rate_achieved_per_s: achieved_per_s, ..healthy })
        };
        assert!(kept_up(900, 899.0), "all that came, of the 1000 asked for");
        assert!(!kept_up(900, 850.0));
        assert!(!kept_up(1_000, 899.0));
        assert!(kept_up(1_100, 960.0), "more came than was asked for");
        let mut waiting = LoadReport { planned: 900, rate_achieved_per_s: 899.0, ..crate::verdict::tests::healthy() };
        waiting.churn = Some(ChurnReport {
            calls_per_connection: 1,
            opened: 900,
            opened_per_s: 900.0,
            waited: 100,
            sources: 1,
            connect: waiting.lag.clone(),
            first_byte: waiting.lag.clone(),
        });
        assert!(!keeps_up(&waiting), "others never got their turn");
    }

    #[test]
    fn a_sweep_that_does_not_stop_runs_everything() {
        let header = RunHeader { course: Course::Sweep { past: None }, ..header() };
        assert_eq!(run(&header, |_, _, _| true).len(), 24);
    }
}
