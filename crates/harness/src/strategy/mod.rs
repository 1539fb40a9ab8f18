//! Strategies that choose the next trials of a run, one in each file: all trials, trials up to saturation, repeats until a decision, a
//! gate, a race, a search for the capacity, or an overload. [`Strategy`] is the stored data; it dereferences to its [`Rules`].

pub mod advise;
pub mod gate;
pub mod overload;
pub mod search;
mod sweep;
pub mod until;

use std::collections::BTreeSet;
use std::ops::Deref;

use load::config::Slices;
use load::result::SliceResult;

use crate::judge;
use crate::plan::duration_ns;
use crate::record::figures;
use crate::record::{Check, FigureMap, Run, RunHeader, Strategy, Trial, TrialOutcome, TrialRecord, VerdictKind};
use crate::spec::interleave::Interleave;

/// The repeats in which a contestant's slices must make a heat void before it runs separately in all others. One may be a disturbance
/// of the host.
const SEPARATED_MIN: usize = 2;

/// The rules of a strategy. They depend only on the plan and on finished trials, so a resumed run continues as if never interrupted.
/// By default they run the whole plan.
pub trait Rules {
    /// Adds to the outcome of a trial what later decisions need.
    fn observe(&self, _: &TrialRecord, _: &mut TrialOutcome) {}

    /// Returns the trials that may run next, in order. Those of the first one's heat run together.
    fn due(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<Trial> {
        let separated = || outcomes.iter().filter(|outcome| outcome.is_separated);
        let trial = |due: &Trial| {
            let done = separated().filter_map(|outcome| header.trials.iter().find(|done| done.index == outcome.index));
            let is_at_most = |done: &&Trial| done.workload.rate_per_s() <= due.workload.rate_per_s();
            let same = done.filter(|done| done.differs_only_in_rate(due)).filter(is_at_most);
            let is_alone = must_stay_separate(due.repeat, same.map(|done| done.repeat));
            if is_alone { due.alone() } else { due.clone() }
        };
        self.ahead(header, outcomes).into_iter().map(trial).collect()
    }

    /// Returns the planned trials that need not run, because of the outcomes of others.
    fn pruned(&self, _: &RunHeader, _: &[TrialOutcome]) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the remaining planned trials.
    fn ahead<'a>(&self, header: &'a RunHeader, outcomes: &[TrialOutcome]) -> Vec<&'a Trial> {
        let pruned = self.pruned(header, outcomes);
        let mut ahead = open(header, outcomes);
        ahead.retain(|trial| trial.infeasible.is_empty() && !pruned.contains(&trial.index));
        ahead
    }

    /// Returns what is left of a run.
    fn rest(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        let ahead = self.ahead(header, outcomes);
        let planned_ns = ahead.iter().map(|trial| duration_ns(trial)).sum();
        Rest { trials: Some(ahead.len() as u64), planned_ns, limit_ns: u64::MAX }
    }

    /// Tests whether results determine the rates of later trials, so that the plan has only the first ones.
    fn is_search(&self) -> bool {
        false
    }

    /// Tests whether a trial only searches for the rates of others, or for the result.
    fn is_probe(&self, _: &Trial) -> bool {
        false
    }

    /// Tests whether results determine the number of trials, so that a plan says nothing about it.
    fn is_open_ended(&self) -> bool {
        false
    }

    /// Tests whether a decision, rather than the plan, ends the repeats.
    fn ends_early(&self) -> bool {
        false
    }

    /// Returns the share within which the rules take architectures for equal; `None` if they do not compare them.
    fn margin(&self) -> Option<f64> {
        None
    }

    /// Returns the command that finishes and shows the run.
    fn command(&self) -> &'static str {
        "run"
    }
}

/// What is left of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The number of trials; `None` if results determine it.
    pub trials: Option<u64>,
    /// The estimated time of the trials, or the longest time if results determine them, in nanoseconds.
    pub planned_ns: u64,
    /// The time within which repeats end, in nanoseconds. The planned ones may take longer.
    pub limit_ns: u64,
}

impl Rest {
    /// What is left within a time limit, if results determine the trials.
    fn of_time(time_max_ns: u64, outcomes: &[TrialOutcome]) -> Self {
        let planned_ns = time_max_ns.saturating_sub(elapsed_ns(outcomes));
        Self { trials: None, planned_ns, limit_ns: u64::MAX }
    }
}

struct Whole;

impl Rules for Whole {}

impl Deref for Strategy {
    type Target = dyn Rules;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Whole => &Whole,
            Self::Sweep(goal) => goal,
            Self::Until(goal) => goal,
            Self::Gate(goal) => goal,
            Self::Advise(goal) => goal,
            Self::Capacity(goal) => goal,
            Self::Overload(goal) => goal,
        }
    }
}

impl TrialOutcome {
    /// Summarises a trial for the strategy of its run.
    pub fn new(record: &TrialRecord, strategy: &Strategy) -> Self {
        let slices = record.trial.client.slices;
        let mut outcome = Self {
            index: record.trial.index,
            rate_per_s: record.trial.workload.rate_per_s(),
            elapsed_ns: record.elapsed_ns,
            is_past: false,
            // A contestant that did not finish ended its heat, whose time no other record has.
            contestants: slices
                .filter(|_| record.load.is_some() && !record.verdict.is_unfinished())
                .map_or(1, |slices| slices.contestants),
            heat: figures::heat(&record.trial),
            values: FigureMap::default(),
            times: None,
            is_alone: slices.is_none() && record.verdict.kind != VerdictKind::Failed,
            is_separated: record.separated.is_some(),
            probe: None,
        };
        strategy.observe(record, &mut outcome);
        outcome
    }
}

/// Summarises the finished trials of a run.
pub fn outcomes(run: &Run) -> Vec<TrialOutcome> {
    run.records.iter().map(|record| TrialOutcome::new(record, &run.header.strategy)).collect()
}

/// Returns the time of all finished trials. The contestants of a heat share its time.
pub fn elapsed_ns(outcomes: &[TrialOutcome]) -> u64 {
    outcomes.iter().map(|outcome| outcome.elapsed_ns / u64::from(outcome.contestants)).sum()
}

/// Returns the planned trials without an outcome.
fn open<'a>(header: &'a RunHeader, outcomes: &[TrialOutcome]) -> Vec<&'a Trial> {
    let is_open = |trial: &&Trial| !outcomes.iter().any(|outcome| outcome.index == trial.index);
    header.trials.iter().filter(is_open).collect()
}

/// Tests whether the next repeat would end too late. The first repeat always runs.
fn is_time_over(open: &[&Trial], outcomes: &[TrialOutcome], time_max_ns: u64) -> bool {
    let can_run = || open.iter().filter(|trial| trial.infeasible.is_empty());
    let Some(repeat) = can_run().map(|trial| trial.repeat).min().filter(|&repeat| repeat > 0) else { return false };
    let next_ns: u64 = can_run().filter(|trial| trial.repeat == repeat).map(|trial| duration_ns(trial)).sum();
    elapsed_ns(outcomes) + next_ns > time_max_ns
}

/// Whether a contestant runs separately in `repeat`, given the repeats in which its slices made a heat void.
fn must_stay_separate(repeat: u32, separated: impl Iterator<Item = u32>) -> bool {
    let separated: BTreeSet<u32> = separated.collect();
    separated.contains(&repeat) || separated.len() >= SEPARATED_MIN
}

/// Returns those of the due trials that run together with the first one. Empty at the end.
pub fn first_heat(mut due: Vec<Trial>) -> Vec<Trial> {
    let Some(slices) = due.first().and_then(|first| first.client.slices) else {
        due.truncate(1);
        return due;
    };
    due.retain(|trial| trial.client.slices.is_some_and(|it| it.heat == slices.heat));
    if let [only] = due.as_slice() {
        return vec![only.alone()];
    }
    let contestants = due.len() as u32;
    for (contestant, trial) in (0..).zip(&mut due) {
        trial.client.slices = Some(Slices { contestants, contestant, ..slices });
    }
    due
}

/// Returns why a contestant must run separately: it disturbed others, or its slices make it unsteady. The heat is then void.
pub fn reason_to_separate(header: &RunHeader, slices: &SliceResult) -> Option<String> {
    // A search must not charge a server with responses that another server delayed.
    let is_search = header.strategy.is_search();
    if is_search && slices.overrun > 0 {
        return Some(format!("its responses overran {} slices", slices.overrun));
    }
    let fails = |check: &Check| !check.passed && check.decides == VerdictKind::Unsteady;
    let failed = judge::slice_checks(slices).into_iter().find(fails);
    failed.filter(|_| is_search || header.interleave == Interleave::Auto).as_ref().map(judge::in_words)
}

#[cfg(test)]
mod tests {
    use load::LoadResult;
    use load::result::ChurnResult;

    use super::sweep::keeps_up;
    use super::*;
    use crate::record::{SearchGoal, SweepGoal, Varied};

    /// A sweep of two architectures over six rates, two repeats each.
    fn header() -> RunHeader {
        let mut experiment = crate::spec::presets::find("smoke").unwrap().experiment();
        experiment.architectures.0 = vec!["epoll".parse().unwrap(), "mt".parse().unwrap()];
        experiment.workload.connections.0.truncate(1);
        experiment.repeats = 2.try_into().unwrap();
        // Unsorted, as a user may write them.
        let rates = [300.0, 100.0, 200.0, 600.0, 500.0, 400.0];
        experiment.workload.rate = Some(crate::spec::OneOrMany(rates.map(crate::spec::units::Rate).to_vec()));
        let plan = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap().by_rate();
        RunHeader { strategy: Strategy::Sweep(SweepGoal { past: Some(2) }), ..RunHeader::made_up(plan) }
    }

    /// The outcome of a trial that ran separately, as planned.
    fn finished(trial: &Trial) -> TrialOutcome {
        TrialOutcome {
            index: trial.index,
            rate_per_s: trial.workload.rate_per_s(),
            elapsed_ns: 1,
            ..Default::default()
        }
    }

    /// Runs the sweep, where `is_past` decides by (architecture, rate, repeat). Returns the trials in order of
    /// execution.
    fn run(header: &RunHeader, is_past: impl Fn(&str, f64, u32) -> bool) -> Vec<(String, f64, u32)> {
        let (mut outcomes, mut order) = (Vec::new(), Vec::new());
        while let [trial, ..] = header.strategy.due(header, &outcomes).as_slice() {
            let (name, rate) = (trial.architecture.to_string(), trial.workload.rate_per_s().unwrap());
            outcomes.push(TrialOutcome { is_past: is_past(&name, rate, trial.repeat), ..finished(trial) });
            order.push((name, rate, trial.repeat));
        }
        assert!(header.strategy.ahead(header, &outcomes).is_empty());
        order
    }

    #[test]
    fn rates_ascend_and_each_runs_all_repeats_of_all_architectures() {
        let order = run(&header(), |_, _, _| false);
        assert_eq!(order.len(), 24);
        let keys: Vec<_> = order.iter().map(|(_, rate, repeat)| (*rate as u32, *repeat)).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for pair in order.chunks(2) {
            assert_ne!(pair[0].0, pair[1].0, "architectures take turns");
        }
    }

    #[test]
    fn architecture_stops_after_two_steps_past_saturation() {
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
    fn isolated_rates_and_half_of_the_repeats_prune_nothing() {
        assert_eq!(
            run(&header(), |_, rate, _| rate == 200.0 || rate == 400.0).len(),
            24,
            "no two consecutive rates are past saturation"
        );
        assert_eq!(run(&header(), |_, _, repeat| repeat == 0).len(), 24, "half of the repeats are not a majority");
    }

    #[test]
    fn server_keeps_up_with_a_poisson_process_of_fewer_requests() {
        let kept_up = |planned: u64, achieved_per_s: f64| {
            let healthy = crate::judge::tests::healthy();
            keeps_up(&LoadResult { planned, rate_achieved_per_s: achieved_per_s, ..healthy })
        };
        assert!(kept_up(900, 899.0), "all planned requests, of 1000 configured");
        assert!(!kept_up(900, 850.0));
        assert!(!kept_up(1_000, 899.0));
        assert!(kept_up(1_100, 960.0), "more requests than configured");
        let mut waiting = LoadResult { planned: 900, rate_achieved_per_s: 899.0, ..crate::judge::tests::healthy() };
        waiting.churn = Some(ChurnResult {
            requests_per_connection: 1,
            opened: 900,
            opened_per_s: 900.0,
            waited: 100,
            sources: 1,
            connect: waiting.send_delay.clone(),
            first_byte: waiting.send_delay.clone(),
        });
        assert!(!keeps_up(&waiting), "some sessions never started");
    }

    #[test]
    fn overruns_and_responses_longer_than_slices_void_heats() {
        let (varied, limits) = (Varied::Rate, Vec::new());
        let goal = SearchGoal { varied, limits, from: 1.0, most: 1.0, precision: 0.1, time_max_ns: 1 };
        let separates = |strategy: &Strategy, interleave, overrun, law_responses| {
            let header = RunHeader { strategy: strategy.clone(), interleave, ..header() };
            let slices =
                SliceResult { rounds: 100, overrun, law_responses, responses: 1_000_000, ..SliceResult::default() };
            reason_to_separate(&header, &slices).is_some()
        };
        let capacity = Strategy::Capacity(goal);
        let interleave = [Interleave::Auto, Interleave::Always];
        assert_eq!(interleave.map(|it| separates(&capacity, it, 1, None)), [true, true]);
        assert_eq!(interleave.map(|it| separates(&capacity, it, 0, None)), [false, false]);
        assert!(separates(&capacity, Interleave::Always, 0, Some(2e6)), "a search repeats an unsteady probe");
        assert_eq!([25, 26].map(|overrun| separates(&Strategy::Whole, interleave[0], overrun, None)), [false, true]);
        assert!(!separates(&Strategy::Whole, Interleave::Always, 100, Some(2e6)));
        assert_eq!([1.2e6, 1.3e6].map(|law| separates(&Strategy::Whole, interleave[0], 0, Some(law))), [false, true]);
    }

    #[test]
    fn one_void_heat_does_not_end_interleaving() {
        let mut header = header();
        header.strategy = Strategy::Whole;
        for trial in &mut header.trials {
            let heat = 1_000 * trial.repeat + trial.workload.rate_per_s().unwrap() as u32;
            let slices = Slices { heat, contestants: 2, contestant: 0, slice_ns: 10, gap_ns: 0, guard_ns: 2, seed: 1 };
            trial.client.slices = Some(slices);
        }
        let of = |rate: f64, name: &str, repeat: u32| {
            let is_it = |it: &&Trial| it.architecture.to_string() == name && it.repeat == repeat;
            header.trials.iter().filter(is_it).find(|it| it.workload.rate_per_s() == Some(rate)).unwrap()
        };
        let separated = |trial: &Trial| TrialOutcome { is_separated: true, ..finished(trial) };
        // The sizes of the heats of `epoll` at 300 requests/s, in both repeats.
        let sizes = |outcomes: &[TrialOutcome]| {
            [0, 1].map(|repeat| {
                let mut due = header.strategy.due(&header, outcomes);
                let first = due.iter().position(|trial| trial.index == of(300.0, "epoll", repeat).index);
                due.rotate_left(first.unwrap());
                first_heat(due).len()
            })
        };
        assert_eq!(sizes(&[]), [2, 2]);
        assert_eq!(sizes(&[separated(of(200.0, "mt", 0))]), [1, 2], "the next repeat tries again");
        assert_eq!(sizes(&[separated(of(400.0, "mt", 0))]), [2, 2], "lower rates share a window");
        assert_eq!(sizes(&[separated(of(100.0, "mt", 0)), separated(of(200.0, "mt", 1))]), [1, 1]);
    }

    #[test]
    fn second_repeat_that_a_contestant_voids_separates_it() {
        let separated: [&[u32]; 5] = [&[], &[1], &[2], &[0, 1], &[0, 0]];
        let stays = separated.map(|repeats| must_stay_separate(2, repeats.iter().copied()));
        assert_eq!(stays, [false, false, true, true, false]);
    }

    #[test]
    fn sweep_without_limit_runs_everything() {
        let header = RunHeader { strategy: Strategy::Sweep(SweepGoal { past: None }), ..header() };
        assert_eq!(run(&header, |_, _, _| true).len(), 24);
    }
}
