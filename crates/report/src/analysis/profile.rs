//! Where a request's CPU time goes: the sampled stacks of servers, by category.
//!
//! A category's time is its share of the samples, times the CPU time per request of the measured heat, so that the times of a row add up
//! to the cost that its tables show, and what sampling costs is in none of them.

use std::collections::BTreeMap;

use harness::record::figures::heat;
use harness::record::{Profile, TrialRecord};
use profile::{Category, Classifier};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Estimate;

/// Where the CPU time of a row's requests goes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RowProfile {
    /// The CPU time per request by category, in nanoseconds. Those without a sample have none.
    pub(crate) parts: Vec<Part>,
    /// The CPU time per request, in nanoseconds, of the repeats with samples.
    pub(crate) cpu_ns_per_request: f64,
    /// Samples of the server.
    pub(crate) samples: u64,
    /// Lost samples of all servers in its heats.
    pub(crate) lost: u64,
    /// The shares of the time in which the server's CPUs executed it, were idle, and executed other processes.
    pub(crate) running_share: f64,
    pub(crate) idle_share: f64,
    pub(crate) others_share: f64,
    /// By which share a request costs more CPU time while stacks are sampled; `None` without requests in that heat.
    pub(crate) sampling_cost: Option<f64>,
}

/// The CPU time of a category.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Part {
    /// `None` for stacks that no rule explains.
    pub(crate) category: Option<Category>,
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    /// The time less that of the best row; `None` for that row, and for rows that have no heat in common with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added_ns: Option<Estimate>,
    /// The time by heat.
    #[serde(skip)]
    by_heat: BTreeMap<u32, f64>,
}

/// The CPU time per request of a trial with a profile, in nanoseconds.
pub(crate) fn cpu_ns(record: &TrialRecord) -> Option<(&Profile, f64)> {
    let requests = record.requests_answered().filter(|requests| *requests > 0.0)?;
    Some((record.profile.as_ref()?, record.server.as_ref()?.cpu_ns() as f64 / requests))
}

impl RowProfile {
    /// Computes it from the repeats of a row; `None` without samples.
    pub(crate) fn of(records: &[&TrialRecord]) -> Option<Self> {
        let mut classifier = Classifier::default();
        let (mut by_category, mut heats) = (BTreeMap::<Option<Category>, BTreeMap<u32, f64>>::new(), BTreeMap::new());
        let known: Vec<_> = records.iter().filter_map(|record| Some((record, cpu_ns(record)?))).collect();
        let known: Vec<_> = known.into_iter().filter(|(_, (profile, _))| profile.stacks.samples() > 0).collect();
        for (record, (profile, cpu_ns)) in &known {
            let (heat, samples) = (heat(&record.trial), profile.stacks.samples() as f64);
            heats.insert(heat, *cpu_ns);
            for (stack, count) in profile.stacks.stacks() {
                let times = by_category.entry(classifier.category(&stack)).or_default();
                *times.entry(heat).or_default() += cpu_ns * f64::from(count) / samples;
            }
        }
        let part = |(category, mut by_heat): (Option<Category>, BTreeMap<u32, f64>)| {
            for heat in heats.keys() {
                by_heat.entry(*heat).or_default();
            }
            let estimate = Estimate::arithmetic(&by_heat.values().copied().collect::<Vec<_>>())?;
            Some(Part { category, estimate, added_ns: None, by_heat })
        };
        let count = known.len() as f64;
        let profiles = || known.iter().map(|(_, (profile, _))| *profile);
        let share = |at: usize| profiles().map(|it| it.shares()[at]).sum::<f64>() / count;
        let costs: Option<Vec<f64>> =
            known.iter().map(|(_, (profile, cpu_ns))| Some(profile.cpu_ns_per_request? / cpu_ns - 1.0)).collect();
        (!known.is_empty()).then(|| Self {
            parts: by_category.into_iter().filter_map(part).collect(),
            cpu_ns_per_request: heats.values().sum::<f64>() / heats.len() as f64,
            samples: profiles().map(|it| it.stacks.samples()).sum(),
            lost: profiles().map(|it| it.lost).sum(),
            running_share: share(0),
            idle_share: share(1),
            others_share: share(2),
            sampling_cost: costs.map(|costs| costs.iter().sum::<f64>() / count),
        })
    }

    /// Returns the part of a category; `None` without a sample.
    pub(crate) fn part(&self, category: Option<Category>) -> Option<&Part> {
        self.parts.iter().find(|part| part.category == category)
    }

    /// Adds the differences to the best row.
    pub(super) fn compare(&mut self, best: &Self) {
        let none = BTreeMap::new();
        for part in &best.parts {
            if self.part(part.category).is_none()
                && let Some(heats) = self.parts.first().map(|it| it.by_heat.keys().map(|heat| (*heat, 0.0)).collect())
            {
                let estimate = Estimate { value: 0.0, interval: None };
                self.parts.push(Part { category: part.category, estimate, added_ns: None, by_heat: heats });
            }
        }
        for part in &mut self.parts {
            let base = best.part(part.category).map_or(&none, |it| &it.by_heat);
            let heats = best.parts.first().map_or(&none, |it| &it.by_heat);
            let common = part.by_heat.iter().filter(|(heat, _)| heats.contains_key(heat));
            let differences: Vec<f64> = common.map(|(heat, ns)| ns - base.get(heat).copied().unwrap_or(0.0)).collect();
            part.added_ns = Estimate::arithmetic(&differences);
        }
    }
}

impl Part {
    /// Returns whether the time differs significantly from that of the best row.
    pub(crate) fn differs(&self) -> bool {
        let interval = self.added_ns.and_then(|added| added.interval);
        interval.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
    }
}

/// Returns why trials have no profile, each reason once.
pub(crate) fn problems<'a>(records: impl Iterator<Item = &'a TrialRecord>) -> Vec<String> {
    let mut problems: Vec<String> = records
        .filter_map(|record| {
            Some(format!("{} has no samples: {}", record.trial.label(), record.profile_error.as_ref()?))
        })
        .collect();
    problems.sort();
    problems.dedup();
    problems
}
