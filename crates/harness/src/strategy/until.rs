//! Runs that go on until each pair of architectures is either separated or known to be within a margin.
//!
//! The plan has more repeats than most comparisons need. This module prunes the remaining ones of a workload once its
//! comparison is decided, or once the time is over.

use stats::Repeat;
use stats::sequential::Looks;

use super::{Rest, Rules, elapsed_ns, is_time_over, open};
use crate::plan::duration_ns;
use crate::record::figures::{HeatLinks, metric, of_trial};
use crate::record::{RunHeader, Trial, TrialOutcome, TrialRecord, UntilGoal, Workload};

/// The number of repeats in the plan, which limits the looks at a comparison.
pub const REPEATS_MAX: u32 = 60;
/// The number of repeats with a usable trial of at most one server after which more are pointless.
const UNUSABLE_MAX: u32 = 3;

impl Rules for UntilGoal {
    /// The value is that of the metric which ranks architectures.
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        if record.verdict.belongs_in_estimates() {
            let metric = metric(&record.trial.workload);
            outcome.values[metric] = of_trial(record, metric);
        }
    }

    fn pruned(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<u32> {
        let open = open(header, outcomes);
        if is_time_over(&open, outcomes, self.time_max_ns) {
            return open.iter().map(|trial| trial.index).collect();
        }
        let mut pruned = Vec::new();
        let mut rest = open;
        while let Some(first) = rest.first() {
            let (same, others): (Vec<&Trial>, Vec<&Trial>) =
                rest.iter().partition(|trial| trial.workload == first.workload);
            let compared = compared(header, outcomes, &first.workload, self.margin);
            if compared.is_some_and(|(_, looks)| looks.is_decided()) {
                pruned.extend(same.iter().map(|trial| trial.index));
            }
            rest = others;
        }
        pruned.sort_unstable();
        pruned
    }

    fn rest(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        let ahead = self.ahead(header, outcomes);
        let planned_ns = ahead.iter().map(|trial| duration_ns(trial)).sum();
        // The first repeat always runs.
        let first_ns = ahead.iter().filter(|trial| trial.repeat == 0).map(|trial| duration_ns(trial)).sum();
        let limit_ns = self.time_max_ns.saturating_sub(elapsed_ns(outcomes)).max(first_ns);
        Rest { trials: Some(ahead.len() as u64), planned_ns, limit_ns }
    }

    fn ends_early(&self) -> bool {
        true
    }

    fn margin(&self) -> Option<f64> {
        Some(self.margin)
    }
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
        outcomes.filter_map(|outcome| Some(Repeat::new(outcome.heat, outcome.values[metric(workload)]?))).collect()
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
    use crate::record::{FigureMap, Strategy};
    use crate::spec::Experiment;

    /// A run of two workloads, three servers and four repeats.
    fn header(time_max_ns: u64) -> RunHeader {
        let text = "name = \"x\"\narchitectures = [\"epoll\", \"mt\", \"mp\"]\nrepeats = 4\n\
                    [workload]\nconnections = [10, 20]\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000\n\
                    [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"900ms\"\n";
        let plan = plan(&Experiment::of(text), &Host::made_up()).unwrap();
        RunHeader { strategy: Strategy::Until(UntilGoal { margin: 0.02, time_max_ns }), ..RunHeader::made_up(plan) }
    }

    /// Runs the strategy: a server takes `p50` microseconds, with noise of 10 %, and each trial a second. Returns the number of
    /// repeats of each workload.
    fn repeats(time_max_ns: u64, p50: impl Fn(&str, u32) -> f64) -> [u32; 2] {
        let header = header(time_max_ns);
        let (mut outcomes, mut repeats) = (Vec::new(), [0; 2]);
        while let [trial, ..] = header.strategy.due(&header, &outcomes).as_slice() {
            let value = p50(&trial.architecture.to_string(), trial.workload.connections);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(100 + u64::from(trial.index));
            outcomes.push(TrialOutcome {
                index: trial.index,
                elapsed_ns: 3_000_000_000,
                contestants: 3,
                heat: trial.repeat,
                values: FigureMap::default()
                    .with(metric(&trial.workload), (value > 0.0).then(|| value * random.random_range(0.99..1.01))),
                ..Default::default()
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
