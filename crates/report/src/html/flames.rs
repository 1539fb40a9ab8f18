//! The data of flame graphs: the sampled stacks of each row, in nanoseconds per request.

use std::collections::{BTreeMap, HashMap};

use harness::record::{Run, TrialRecord};
use serde::Serialize;

use crate::analysis::profile;
use crate::analysis::profiles::rows;
use crate::analysis::summary::Comparison;

/// Calls with less than this share of the CPU time are drawn as a part of their caller.
const DRAWN_SHARE_MIN: f64 = 5e-4;

/// The flame graphs of a workload.
#[derive(Debug, Default, Serialize)]
pub(super) struct Flames {
    functions: Vec<String>,
    /// From the best row on.
    rows: Vec<Flame>,
}

/// The stacks of a row.
#[derive(Debug, Serialize)]
struct Flame {
    label: String,
    /// A call after its caller: the number of the caller's call from 1, or 0; the position of the function; the nanoseconds per request
    /// in the function itself.
    calls: Vec<(usize, usize, f64)>,
}

impl Flames {
    /// Returns the graphs of the rows with profiles; `None` without any.
    pub(super) fn of(run: &Run, comparison: &Comparison) -> Option<Self> {
        let (mut flames, mut places) = (Self::default(), HashMap::new());
        for (row, _) in rows(comparison) {
            let records = row.trials.iter().filter_map(|trial| run.records.iter().find(|it| it.trial.index == *trial));
            let stacks = stacks(&records.collect::<Vec<_>>());
            let all_ns: f64 = stacks.values().sum();
            let mut calls: Vec<(usize, usize, f64)> = Vec::new();
            let mut known: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
            let mut inclusive: BTreeMap<&[&str], f64> = BTreeMap::new();
            for (stack, ns) in &stacks {
                (1..=stack.len()).for_each(|depth| *inclusive.entry(&stack[..depth]).or_default() += ns);
            }
            for (stack, ns) in &stacks {
                let mut caller = 0;
                let is_drawn = |depth: &usize| inclusive[&stack[..*depth]] >= DRAWN_SHARE_MIN * all_ns;
                for depth in (1..=stack.len()).take_while(is_drawn) {
                    caller = *known.entry(stack[..depth].to_vec()).or_insert_with(|| {
                        let name = stack[depth - 1];
                        let place = *places.entry(name.to_owned()).or_insert_with(|| {
                            flames.functions.push(name.to_owned());
                            flames.functions.len() - 1
                        });
                        calls.push((caller, place, 0.0));
                        calls.len()
                    });
                }
                if let Some(call) = caller.checked_sub(1) {
                    calls[call].2 += ns;
                }
            }
            calls.iter_mut().for_each(|call| call.2 = (call.2 * 100.0).round() / 100.0);
            flames.rows.push(Flame { label: row.label(), calls });
        }
        (!flames.rows.is_empty()).then_some(flames)
    }
}

/// Returns the mean of several trials.
fn stacks<'a>(records: &[&'a TrialRecord]) -> BTreeMap<Vec<&'a str>, f64> {
    let known: Vec<_> = records.iter().filter_map(|record| profile::cpu_ns(record)).collect();
    let mut stacks = BTreeMap::new();
    for (profile, cpu_ns) in &known {
        let each_ns = cpu_ns / profile.stacks.samples() as f64 / known.len() as f64;
        for (stack, samples) in profile.stacks.stacks() {
            *stacks.entry(stack).or_default() += f64::from(samples) * each_ns;
        }
    }
    stacks
}

#[cfg(test)]
mod tests {
    use ::profile::Calls;
    use harness::record::Profile;

    use super::*;
    use crate::analysis::Summary;

    #[test]
    fn flames_have_the_cpu_time_of_the_row_without_rare_calls() {
        let mut run = testkit::interleaved_run();
        for record in &mut run.records {
            let stacks = Calls::from_folded("main;send_[k] 5999\nmain;send_[k];copy_[k] 4000\nmain;rare 1\n");
            record.profile = Some(Profile { stacks, idle: 0, others: 0, lost: 0, cpu_ns_per_request: None });
        }
        let without = run.records[0].profile.as_mut().unwrap();
        without.stacks = Calls::default();
        let summary = Summary::of(&run);
        let flames = Flames::of(&run, &summary.comparisons[0]).unwrap();
        assert_eq!(flames.functions, ["main", "send_[k]", "copy_[k]"]);
        let (row, flame) = (&summary.comparisons[0].rows[0], &flames.rows[0]);
        let sum_ns: f64 = flame.calls.iter().map(|call| call.2).sum();
        let cpu_ns = row.profile.as_ref().unwrap().cpu_ns_per_request;
        assert!((sum_ns / cpu_ns - 1.0).abs() < 1e-3, "{sum_ns} of {cpu_ns}");
        assert_eq!(flame.calls.iter().map(|call| (call.0, call.1)).collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 2)]);
    }
}
