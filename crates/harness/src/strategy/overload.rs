//! Overloads: searches for the capacities of all servers, and then one trial with a pulse for each server.

use load::config::Loop;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::search::{self, CapacityBound, RateSearch};
use super::{Rest, Rules};
use crate::plan::{self, duration_ns};
use crate::record::{CapacitySource, OverloadGoal, RunHeader, Trial, TrialOutcome, TrialRecord};

/// The state of one server of an overload.
#[derive(Clone, Debug)]
pub struct OverloadState<'a> {
    /// The first trial, as planned.
    pub first: &'a Trial,
    /// The search for the capacity; `None` if the capacity is given.
    pub search: Option<RateSearch<'a>>,
    /// The capacity, in requests per second: a lower bound if the client limited the search. `None` if it is unknown.
    pub capacity_per_s: Option<f64>,
    /// Whether the trial with the pulse has run.
    pub is_done: bool,
}

/// Returns the state of all servers of an overload.
pub fn contestants<'a>(
    header: &'a RunHeader,
    goal: &OverloadGoal,
    outcomes: &[TrialOutcome],
) -> Vec<OverloadState<'a>> {
    let count = header.trials.len() as u32;
    let contestant = |first: &'a Trial, search: Option<RateSearch<'a>>, capacity_per_s: Option<f64>| {
        let is_pulse = |it: &&TrialOutcome| it.probe.is_none() && it.index % count == first.index;
        OverloadState { first, search, capacity_per_s, is_done: outcomes.iter().any(|it| is_pulse(&it)) }
    };
    match &goal.capacity {
        CapacitySource::Given { per_s } => header.trials.iter().map(|it| contestant(it, None, Some(*per_s))).collect(),
        CapacitySource::Search(search) => {
            let found = |search: RateSearch<'a>| {
                let capacity_per_s = search.answer().map(|it| match it {
                    CapacityBound::Server { most, .. } | CapacityBound::AtLeast { most, .. } => most,
                });
                contestant(search.first, Some(search), capacity_per_s)
            };
            search::searches(header, search, outcomes).into_iter().map(found).collect()
        }
    }
}

impl Rules for OverloadGoal {
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        if let Some(search) = self.search().filter(|_| self.is_probe(&record.trial)) {
            search.observe(record, outcome);
        }
    }

    /// The next probes of the searches; after all searches, the trials with a pulse that have not run yet, in a drawn order.
    fn due(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<Trial> {
        let probes = self.search().map_or_else(Vec::new, |search| search.due(header, outcomes));
        if !probes.is_empty() {
            return probes;
        }
        let mut open = contestants(header, self, outcomes);
        open.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(header.seed));
        open.retain(|contestant| !contestant.is_done && contestant.first.infeasible.is_empty());
        open.iter().filter_map(|contestant| trial(header, self, contestant)).collect()
    }

    fn rest(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        let open = contestants(header, self, outcomes).into_iter().filter(|it| !it.is_done);
        let pulses_ns: u64 = open.map(|it| duration_ns(&pulse(it.first, 0, 0, self, 1.0))).sum();
        let search = Rest::of_time(self.search().map_or(0, |search| search.time_max_ns), outcomes);
        Rest { planned_ns: search.planned_ns + pulses_ns, ..search }
    }

    fn is_search(&self) -> bool {
        true
    }

    fn command(&self) -> &'static str {
        "overload"
    }

    fn is_open_ended(&self) -> bool {
        true
    }

    /// The trials of a search; all others have a pulse.
    fn is_probe(&self, trial: &Trial) -> bool {
        trial.workload.rate_profile().is_none()
    }
}

/// Returns the trial with the pulse; `None` if the capacity is unknown. Its index follows the last probe of its search.
fn trial(header: &RunHeader, goal: &OverloadGoal, contestant: &OverloadState<'_>) -> Option<Trial> {
    let round = contestant.search.as_ref().map_or(0, |search| search.probes.len() as u32);
    let index = round * header.trials.len() as u32 + contestant.first.index;
    Some(pulse(contestant.first, header.seed, index, goal, contestant.capacity_per_s?))
}

/// Returns a copy of a trial that loads its server with the pulse of an overload.
pub fn pulse(first: &Trial, seed: u64, index: u32, goal: &OverloadGoal, capacity_per_s: f64) -> Trial {
    let profile = goal.pulse.profile(capacity_per_s);
    let mean_per_s = profile.mean_per_s();
    let mut trial =
        plan::probe(first, seed, (index, 0), (mean_per_s, first.workload.connections), profile.length_ns()).alone();
    // The last requests get as much time as all others.
    let limit_ns = goal.request_timeout.timeout_ns.saturating_mul(u64::from(goal.request_timeout.retries) + 1);
    trial.workload.phases.cool_down_ns = trial.workload.phases.cool_down_ns.max(limit_ns);
    if let Loop::Open { requests, request_timeout, .. } = &mut trial.workload.the_loop {
        (requests.pace.rate_profile, *request_timeout) = (Some(profile), Some(goal.request_timeout));
    }
    trial
}

#[cfg(test)]
mod tests {
    use load::config::RequestTimeout;

    use super::*;
    use crate::record::{LatencyLimit, ProbeResult, Pulse, SearchGoal, Strategy, Varied};
    use crate::spec::Experiment;

    const S: u64 = 1_000_000_000;

    fn header(capacity: CapacitySource) -> RunHeader {
        let text = "name = \"x\"\nrepeats = 1\narchitectures = [\"epoll\", \"mt\"]\n[workload]\nconnections = 10\nrequest = \"1B\"\n\
                    response = \"2B\"\nrate = 1000\n[phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"1s\"\n\
                    cool-down = \"1s\"\n";
        let plan = plan::plan(&Experiment::of(text), &crate::host::Host::made_up()).unwrap();
        let pulse = Pulse { base: 0.5, peak: 2.0, before_ns: 2 * S, length_ns: S, after_ns: 3 * S };
        let request_timeout = RequestTimeout { timeout_ns: S, retries: 2, retry_budget: None };
        let strategy = Strategy::Overload(OverloadGoal { capacity, pulse, request_timeout });
        RunHeader { strategy, ..RunHeader::made_up(plan) }
    }

    fn search() -> CapacitySource {
        let limits = vec![LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }];
        let (from, most) = (1_000.0, 1e6);
        CapacitySource::Search(SearchGoal {
            limits,
            varied: Varied::Rate,
            from,
            most,
            precision: 0.1,
            time_max_ns: 600 * S,
        })
    }

    /// Runs all trials. A server meets the limits up to `capacity_per_s`; none above 0 means that all trials fail.
    fn run(header: &RunHeader, capacity_per_s: impl Fn(&Trial) -> f64) -> Vec<Trial> {
        let (mut outcomes, mut all) = (Vec::new(), Vec::new());
        while let Some(trial) = header.strategy.due(header, &outcomes).into_iter().next() {
            let rate = trial.workload.rate_per_s().unwrap();
            let result = match capacity_per_s(&trial) {
                0.0 => ProbeResult::Failed,
                capacity if rate <= capacity => ProbeResult::Met,
                _ => ProbeResult::Unmet,
            };
            outcomes.push(TrialOutcome {
                index: trial.index,
                elapsed_ns: S,
                probe: trial.workload.rate_profile().is_none().then_some((rate, result)),
                ..Default::default()
            });
            all.push(trial);
            assert!(all.len() < 200, "the run ends");
        }
        all
    }

    #[test]
    fn given_capacity_needs_no_search() {
        let header = header(CapacitySource::Given { per_s: 4_000.0 });
        let trials = run(&header, |_| 1.0);
        assert_eq!(trials.len(), 2);
        for trial in &trials {
            let rates: Vec<f64> =
                trial.workload.rate_profile().unwrap().segments.iter().map(|it| it.rate_per_s(0.0)).collect();
            assert_eq!(rates, [2_000.0, 8_000.0, 2_000.0]);
            assert_eq!((trial.workload.rate_per_s(), trial.workload.phases.measure_ns), (Some(3_000.0), 6 * S));
            assert_eq!(trial.workload.phases.cool_down_ns, 3 * S, "three attempts of a second each");
            assert_eq!(load::config::validate::check(&trial.load()), Ok(()));
        }
    }

    #[test]
    fn pulses_follow_all_searches_with_each_capacity() {
        let header = header(search());
        let of = |trial: &Trial| if trial.architecture.to_string() == "mt" { 5_000.0 } else { 20_000.0 };
        let trials = run(&header, of);
        let (probes, pulses) = trials.split_at(trials.len() - 2);
        assert!(
            probes.iter().all(|it| it.workload.rate_profile().is_none() && it.workload.request_timeout().is_none())
        );
        let mut indices: Vec<u32> = trials.iter().map(|trial| trial.index).collect();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), trials.len(), "each trial has its own index");
        for pulse in pulses {
            let peak = pulse.workload.peak_per_s().unwrap() / 2.0;
            assert!((peak / of(pulse) - 1.0).abs() < 0.1, "{peak} of {}", of(pulse));
            assert!(pulse.client.slices.is_none());
        }
    }

    #[test]
    fn server_without_capacity_gets_no_pulse() {
        let trials =
            run(&header(search()), |trial| if trial.architecture.to_string() == "mt" { 0.0 } else { 20_000.0 });
        let pulses: Vec<String> = trials
            .iter()
            .filter(|trial| trial.workload.rate_profile().is_some())
            .map(|trial| trial.architecture.to_string())
            .collect();
        assert_eq!(pulses, ["epoll"]);
    }
}
