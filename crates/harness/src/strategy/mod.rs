//! Strategies that choose the next trial of a run: all trials, trials up to saturation, a race, or a search for the capacity.
//! The choice depends only on the plan and on finished trials, so a resumed run continues as if never interrupted.

pub mod advise;
pub mod gate;
pub mod overload;
pub mod search;
mod separate;
mod sweep;
pub mod until;

use load::config::Slices;
use load::result::SliceResult;

use crate::judge;
use crate::record::figures;
use crate::record::{Check, GateFigure, Run, RunHeader, Strategy, Trial, TrialOutcome, TrialRecord, VerdictKind};
use crate::spec::interleave::Interleave;
use separate::must_stay_separate;

impl TrialOutcome {
    /// Summarises a trial for the strategy of its run.
    pub fn new(record: &TrialRecord, strategy: &Strategy) -> Self {
        let search = match strategy {
            Strategy::Capacity(goal) => Some(goal),
            Strategy::Overload(goal) => goal.search().filter(|_| record.trial.workload.profile.is_none()),
            _ => None,
        };
        let probe = search.and_then(|goal| goal.value(&record.trial.workload).zip(Some(goal.probe(record))));
        let slices = record.trial.load.slices;
        let is_usable = record.verdict.belongs_in_estimates();
        let is_until = matches!(strategy, Strategy::Until { .. });
        let metric = || figures::of_trial(record, figures::metric(&record.trial.workload));
        let is_race = matches!(strategy, Strategy::Advise(_));
        let times = || record.load.as_ref().map(|load| load.service.histogram.clone());
        let values = match strategy {
            Strategy::Gate(goal) => goal.limits.iter().map(|limit| gate::value(limit.figure, record)).collect(),
            Strategy::Advise(_) => GateFigure::ALL.map(|(figure, ..)| gate::value(figure, record)).into(),
            _ => Vec::new(),
        };
        Self {
            index: record.trial.index,
            rate_per_s: record.trial.workload.rate_per_s,
            elapsed_ns: record.elapsed_ns,
            is_past: match strategy {
                // A race blames a server only for its own faults.
                Strategy::Advise(_) => matches!(record.verdict.kind, VerdictKind::Saturated | VerdictKind::Failed),
                _ => sweep::is_past(record),
            },
            // A contestant that did not finish ended its heat, whose time no other record has.
            contestants: slices
                .filter(|_| record.load.is_some() && !record.verdict.is_unfinished())
                .map_or(1, |slices| slices.contestants),
            heat: figures::heat(&record.trial),
            metric: if is_until && is_usable { metric() } else { None },
            values,
            times: if is_race { times() } else { None },
            is_alone: slices.is_none() && record.verdict.kind != VerdictKind::Failed,
            is_separated: record.separated.is_some(),
            probe,
        }
    }
}

/// Summarises the finished trials of a run.
pub fn outcomes(run: &Run) -> Vec<TrialOutcome> {
    run.records.iter().map(|record| TrialOutcome::new(record, &run.header.strategy)).collect()
}

/// Returns the next trial to run. `None` at the end.
pub fn next(header: &RunHeader, outcomes: &[TrialOutcome]) -> Option<Trial> {
    match &header.strategy {
        Strategy::Capacity(goal) => search::probes(header, goal, outcomes).into_iter().next(),
        Strategy::Overload(goal) => overload::next(header, goal, outcomes).into_iter().next(),
        Strategy::Advise(goal) => advise::heats(header, goal, outcomes).into_iter().flatten().next(),
        _ => ahead(header, outcomes).first().map(|trial| (*trial).clone()),
    }
}

/// Returns the trials that need not run, because of the outcomes of others.
pub fn pruned(header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<u32> {
    match &header.strategy {
        Strategy::Whole
        | Strategy::Capacity(_)
        | Strategy::Overload(_)
        | Strategy::Advise(_)
        | Strategy::Sweep { past: None } => Vec::new(),
        Strategy::Sweep { past: Some(past) } => sweep::pruned(header, outcomes, *past),
        Strategy::Until { margin, time_max_ns } => until::pruned(header, outcomes, *margin, *time_max_ns),
        Strategy::Gate(goal) => gate::pruned(header, outcomes, goal),
    }
}

/// Returns the trials that run together with `first`: those of its heat that are not done, or the next probes of several searches.
/// Leaves out a contestant that [`must_stay_separate`] because of its slices at this rate or a lower one.
pub fn heat(header: &RunHeader, outcomes: &[TrialOutcome], first: Trial) -> Vec<Trial> {
    let Some(slices) = first.load.slices else { return vec![first] };
    if let Strategy::Advise(goal) = &header.strategy {
        let mut heats = advise::heats(header, goal, outcomes).into_iter();
        return heats.find(|heat| heat.iter().any(|trial| trial.index == first.index)).unwrap_or_else(|| vec![first]);
    }
    let stays_alone = |trial: &Trial| {
        let separated = outcomes.iter().filter(|outcome| outcome.is_separated);
        let separated = separated.filter_map(|outcome| header.trials.iter().find(|done| done.index == outcome.index));
        let is_at_most = |done: &&Trial| done.workload.rate_per_s <= trial.workload.rate_per_s;
        let same = separated.filter(|done| done.differs_only_in_rate(trial)).filter(is_at_most);
        must_stay_separate(trial.repeat, same.map(|done| done.repeat))
    };
    let is_rival = |trial: &Trial| trial.load.slices.is_some_and(|it| it.heat == slices.heat);
    let mut heat: Vec<Trial> = match &header.strategy {
        Strategy::Capacity(goal) => search::probes(header, goal, outcomes).into_iter().filter(is_rival).collect(),
        Strategy::Overload(goal) => overload::next(header, goal, outcomes).into_iter().filter(is_rival).collect(),
        _ => {
            let rivals = ahead(header, outcomes).into_iter().filter(|trial| is_rival(trial));
            rivals.filter(|trial| !stays_alone(trial)).cloned().collect()
        }
    };
    if heat.len() < 2 || heat.iter().all(|trial| trial.index != first.index) {
        return vec![first.alone()];
    }
    let contestants = heat.len() as u32;
    for (contestant, trial) in (0..).zip(&mut heat) {
        trial.load.slices = Some(Slices { contestants, contestant, ..slices });
    }
    heat
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

/// Returns the remaining planned trials. A search and a race have none: results determine their trials.
pub fn ahead<'a>(header: &'a RunHeader, outcomes: &[TrialOutcome]) -> Vec<&'a Trial> {
    let pruned = pruned(header, outcomes);
    let is_done = |trial: &Trial| outcomes.iter().any(|outcome| outcome.index == trial.index);
    let is_ahead = |trial: &&Trial| trial.infeasible.is_empty() && !is_done(trial) && !pruned.contains(&trial.index);
    match header.strategy {
        Strategy::Capacity(_) | Strategy::Overload(_) | Strategy::Advise(_) => Vec::new(),
        _ => header.trials.iter().filter(is_ahead).collect(),
    }
}

#[cfg(test)]
mod tests {
    use load::LoadResult;
    use load::result::ChurnResult;

    use super::sweep::keeps_up;
    use super::*;
    use crate::record::{SearchGoal, Varied};

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
        RunHeader { strategy: Strategy::Sweep { past: Some(2) }, ..RunHeader::made_up(plan) }
    }

    /// The outcome of a trial that ran separately, as planned.
    fn finished(trial: &Trial) -> TrialOutcome {
        TrialOutcome {
            index: trial.index,
            rate_per_s: trial.workload.rate_per_s,
            elapsed_ns: 1,
            is_past: false,
            is_alone: true,
            is_separated: false,
            contestants: 1,
            heat: 0,
            metric: None,
            times: None,
            values: Vec::new(),
            probe: None,
        }
    }

    /// Runs the sweep, where `is_past` decides by (architecture, rate, repeat). Returns the trials in order of
    /// execution.
    fn run(header: &RunHeader, is_past: impl Fn(&str, f64, u32) -> bool) -> Vec<(String, f64, u32)> {
        let (mut outcomes, mut order) = (Vec::new(), Vec::new());
        while let Some(trial) = next(header, &outcomes) {
            let (name, rate) = (trial.architecture.to_string(), trial.workload.rate_per_s.unwrap());
            outcomes.push(TrialOutcome { is_past: is_past(&name, rate, trial.repeat), ..finished(&trial) });
            order.push((name, rate, trial.repeat));
        }
        assert!(ahead(header, &outcomes).is_empty());
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
            let heat = 1_000 * trial.repeat + trial.workload.rate_per_s.unwrap() as u32;
            let slices = Slices { heat, contestants: 2, contestant: 0, slice_ns: 10, gap_ns: 0, guard_ns: 2, seed: 1 };
            trial.load.slices = Some(slices);
        }
        let of = |rate: f64, name: &str, repeat: u32| {
            let is_it = |it: &&Trial| it.architecture.to_string() == name && it.repeat == repeat;
            header.trials.iter().filter(is_it).find(|it| it.workload.rate_per_s == Some(rate)).unwrap()
        };
        let separated = |trial: &Trial| TrialOutcome { is_separated: true, ..finished(trial) };
        // The sizes of the heats of `epoll` at 300 requests/s, in both repeats.
        let sizes = |outcomes: &[TrialOutcome]| {
            [0, 1].map(|repeat| heat(&header, outcomes, of(300.0, "epoll", repeat).clone()).len())
        };
        assert_eq!(sizes(&[]), [2, 2]);
        assert_eq!(sizes(&[separated(of(200.0, "mt", 0))]), [1, 2], "the next repeat tries again");
        assert_eq!(sizes(&[separated(of(400.0, "mt", 0))]), [2, 2], "lower rates share a window");
        assert_eq!(sizes(&[separated(of(100.0, "mt", 0)), separated(of(200.0, "mt", 1))]), [1, 1]);
    }

    #[test]
    fn sweep_without_limit_runs_everything() {
        let header = RunHeader { strategy: Strategy::Sweep { past: None }, ..header() };
        assert_eq!(run(&header, |_, _, _| true).len(), 24);
    }
}
