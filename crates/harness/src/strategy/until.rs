//! Runs that go on until each pair of architectures is either separated or known to be within a margin.
//!
//! The plan has more repeats than most comparisons need. This module prunes the remaining ones of a workload once its
//! comparison is decided, or once the time is over.

use stats::Repeat;
use stats::sequential::Looks;

use crate::plan::duration_ns;
use crate::record::figures::HeatLinks;
use crate::record::{RunHeader, Trial, TrialOutcome, Workload};

/// The number of repeats in the plan, which limits the looks at a comparison.
pub const REPEATS_MAX: u32 = 60;
/// The number of repeats with a usable trial of at most one server after which more are pointless.
const UNUSABLE_MAX: u32 = 3;

/// Returns the trials that need not run.
pub(super) fn pruned(header: &RunHeader, outcomes: &[TrialOutcome], margin: f64, time_max_ns: u64) -> Vec<u32> {
    let open = open(header, outcomes);
    if is_time_over(&open, outcomes, time_max_ns) {
        return open.iter().map(|trial| trial.index).collect();
    }
    let mut pruned = Vec::new();
    let mut rest = open;
    while let Some(first) = rest.first() {
        let (same, others): (Vec<&Trial>, Vec<&Trial>) =
            rest.iter().partition(|trial| trial.workload == first.workload);
        if compared(header, outcomes, &first.workload, margin).is_some_and(|(_, looks)| looks.is_decided()) {
            pruned.extend(same.iter().map(|trial| trial.index));
        }
        rest = others;
    }
    pruned.sort_unstable();
    pruned
}

/// Returns the trials without an outcome.
pub(super) fn open<'a>(header: &'a RunHeader, outcomes: &[TrialOutcome]) -> Vec<&'a Trial> {
    let is_open = |trial: &&Trial| !outcomes.iter().any(|outcome| outcome.index == trial.index);
    header.trials.iter().filter(is_open).collect()
}

/// Tests whether the next repeat would end too late. The first repeat always runs.
pub(super) fn is_time_over(open: &[&Trial], outcomes: &[TrialOutcome], time_max_ns: u64) -> bool {
    let can_run = || open.iter().filter(|trial| trial.infeasible.is_empty());
    let Some(repeat) = can_run().map(|trial| trial.repeat).min().filter(|&repeat| repeat > 0) else { return false };
    let next = can_run().filter(|trial| trial.repeat == repeat);
    let next_ns: u64 = next.map(|trial| duration_ns(trial)).sum();
    elapsed_ns(outcomes) + next_ns > time_max_ns
}

/// Returns the time of all finished trials. The contestants of a heat share its time.
pub fn elapsed_ns(outcomes: &[TrialOutcome]) -> u64 {
    outcomes.iter().map(|outcome| outcome.elapsed_ns / u64::from(outcome.contestants)).sum()
}

/// Looks at the comparison of a workload after each complete repeat. Returns the compared servers, and the knowledge about their
/// pairs. `None` before the first complete repeat, and before [`UNUSABLE_MAX`] of them while fewer than two servers can be compared:
/// the host may have disturbed all.
pub fn compared<'a>(
    header: &'a RunHeader,
    outcomes: &[TrialOutcome],
    workload: &Workload,
    margin: f64,
) -> Option<(Vec<&'a Trial>, Looks)> {
    let planned = || header.trials.iter().filter(|it| it.workload == *workload && it.infeasible.is_empty());
    let rivals = || planned().filter(|trial| !trial.is_reference);
    let outcome = |trial: &Trial| outcomes.iter().find(|outcome| outcome.index == trial.index);
    let complete = |repeat: &u32| planned().filter(|it| it.repeat == *repeat).all(|it| outcome(it).is_some());
    let last = rivals().map(|trial| trial.repeat).max()?;
    let repeats = (0..=last).take_while(complete).count() as u32;
    let links = HeatLinks::of(planned());
    let by_indices = |indices: &[u32]| -> Vec<Repeat> {
        let outcomes = outcomes.iter().filter(|outcome| indices.contains(&outcome.index));
        outcomes.filter_map(|outcome| Some(Repeat::new(outcome.heat, outcome.metric?))).collect()
    };
    let of = |server: &Trial, repeats: u32| -> Vec<Repeat> {
        let own = rivals().filter(|it| it.repeat < repeats && it.is_repeat_of(server));
        links.apply(by_indices(&own.map(|trial| trial.index).collect::<Vec<_>>()), by_indices)
    };
    // Servers without a usable trial are not compared.
    let servers: Vec<&Trial> = rivals().filter(|it| it.repeat == 0 && !of(it, repeats).is_empty()).collect();
    let mut looks = Looks::new(servers.len(), margin);
    for repeat in 1..=repeats {
        looks.look(&servers.iter().map(|server| of(server, repeat)).collect::<Vec<_>>());
    }
    let is_comparison = servers.len() > 1 || rivals().filter(|it| it.repeat == 0).count() < 2;
    (repeats >= if is_comparison { 1 } else { UNUSABLE_MAX }).then_some((servers, looks))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::host::Host;
    use crate::plan::plan;
    use crate::record::Strategy;
    use crate::spec::Experiment;

    /// A run of two workloads, three servers and four repeats.
    fn header(time_max_ns: u64) -> RunHeader {
        let text = "name = \"x\"\narchitectures = [\"epoll\", \"mt\", \"mp\"]\nrepeats = 4\n\
                    [workload]\nconnections = [10, 20]\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000\n\
                    [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"900ms\"\n";
        let plan = plan(&Experiment::parse(text, "x.toml").unwrap(), &Host::made_up()).unwrap();
        RunHeader { strategy: Strategy::Until { margin: 0.02, time_max_ns }, ..RunHeader::made_up(plan) }
    }

    /// Runs the strategy: a server takes `p50` microseconds, with noise of 10 %, and each trial a second. Returns the number of
    /// repeats of each workload.
    fn repeats(time_max_ns: u64, p50: impl Fn(&str, u32) -> f64) -> [u32; 2] {
        let header = header(time_max_ns);
        let (mut outcomes, mut repeats) = (Vec::new(), [0; 2]);
        while let Some(trial) = super::super::next(&header, &outcomes) {
            let value = p50(&trial.architecture.to_string(), trial.workload.connections);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(100 + u64::from(trial.index));
            outcomes.push(TrialOutcome {
                index: trial.index,
                rate_per_s: trial.workload.rate_per_s,
                elapsed_ns: 3_000_000_000,
                contestants: 3,
                heat: trial.repeat,
                is_past: false,
                is_alone: false,
                is_separated: false,
                metric: (value > 0.0).then(|| value * random.random_range(0.99..1.01)),
                times: None,
                values: Vec::new(),
                probe: None,
            });
            let workload = usize::from(trial.workload.connections == 20);
            repeats[workload] = repeats[workload].max(trial.repeat + 1);
        }
        repeats
    }

    const LONG: u64 = 3_600_000_000_000;

    #[test]
    fn each_workload_ends_when_its_pairs_are_decided() {
        let apart = |name: &str| 100.0 + 10.0 * name.len() as f64;
        assert_eq!(
            repeats(LONG, |name, _| if name == "mp" { 200.0 } else { apart(name) }),
            [3, 3],
            "all are separated"
        );
        let close = |name: &str, connections| if connections == 20 && name == "mt" { 151.5 } else { apart(name) };
        let [first, second] =
            repeats(LONG, |name, connections| if name == "mp" { 200.0 } else { close(name, connections) });
        assert!(first == 3 && second > 3, "{first} {second}");
    }

    #[test]
    fn time_limit_ends_after_the_first_repeat() {
        let equal = |_: &str, _| 100.0;
        assert_eq!(repeats(1, equal), [1, 1]);
        assert_eq!(repeats(14_000_000_000, equal), [2, 2]);
    }

    #[test]
    fn server_without_valid_trial_does_not_prolong_the_run() {
        assert_eq!(
            repeats(LONG, |name, _| match name {
                "mt" => 0.0,
                "mp" => 200.0,
                _ => 100.0,
            }),
            [3, 3]
        );
    }

    #[test]
    fn run_without_two_usable_servers_ends_after_three_repeats() {
        assert_eq!(repeats(LONG, |name, _| if name == "mt" { 100.0 } else { 0.0 }), [3, 3]);
    }
}
