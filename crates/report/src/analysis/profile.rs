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
use stats::{Estimate, Repeat, ratio};

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
    #[serde(skip)]
    pub(crate) lost_by_heat: BTreeMap<u32, u64>,
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
    /// The time less that of the best row; `None` for that row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added_ns: Option<Estimate>,
    #[serde(skip)]
    repeats: Vec<Repeat>,
}

/// The CPU time per request of a trial with samples, in nanoseconds.
pub(crate) fn cpu_ns(record: &TrialRecord) -> Option<(&Profile, f64)> {
    let requests = record.requests_answered().filter(|requests| *requests > 0.0)?;
    let profile = record.profile.as_ref().filter(|profile| profile.stacks.samples() > 0)?;
    Some((profile, record.server.as_ref()?.cpu_ns() as f64 / requests))
}

impl RowProfile {
    /// Computes it from the repeats of a row; `None` without samples.
    pub(crate) fn of(records: &[&TrialRecord]) -> Option<Self> {
        let mut classifier = Classifier::default();
        let (mut by_category, mut heats) = (BTreeMap::<Option<Category>, BTreeMap<u32, f64>>::new(), BTreeMap::new());
        let known: Vec<_> = records.iter().filter_map(|record| Some((record, cpu_ns(record)?))).collect();
        for (record, (profile, cpu_ns)) in &known {
            let (heat, samples) = (heat(&record.trial), profile.stacks.samples() as f64);
            heats.insert(heat, *cpu_ns);
            for (stack, count) in profile.stacks.stacks() {
                let times = by_category.entry(classifier.category(&stack)).or_default();
                *times.entry(heat).or_default() += cpu_ns * f64::from(count) / samples;
            }
        }
        let part = |(category, by_heat): (Option<Category>, BTreeMap<u32, f64>)| {
            let repeat = |heat: &u32| repeat(*heat, by_heat.get(heat).copied().unwrap_or(0.0));
            Part::of(category, heats.keys().map(repeat).collect())
        };
        let count = known.len() as f64;
        let profiles = || known.iter().map(|(_, (profile, _))| *profile);
        let share = |at: usize| profiles().map(|it| it.shares()[at]).sum::<f64>() / count;
        let costs: Option<Vec<f64>> =
            known.iter().map(|(_, (profile, cpu_ns))| Some(profile.cpu_ns_per_request? / cpu_ns - 1.0)).collect();
        let lost_by_heat: BTreeMap<u32, u64> =
            known.iter().map(|(record, (profile, _))| (heat(&record.trial), profile.lost)).collect();
        (!known.is_empty()).then(|| Self {
            parts: by_category.into_iter().filter_map(part).collect(),
            cpu_ns_per_request: heats.values().sum::<f64>() / heats.len() as f64,
            samples: profiles().map(|it| it.stacks.samples()).sum(),
            lost: lost_by_heat.values().sum(),
            lost_by_heat,
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
        let none = |of: &Self| -> Vec<Repeat> {
            of.parts.first().map_or(Vec::new(), |it| it.repeats.iter().map(|it| repeat(it.heat, 0.0)).collect())
        };
        let (own_none, base_none) = (none(self), none(best));
        let missing: Vec<_> = best.parts.iter().filter(|part| self.part(part.category).is_none()).collect();
        self.parts.extend(missing.into_iter().filter_map(|part| Part::of(part.category, own_none.clone())));
        for part in &mut self.parts {
            part.added_ns = ratio::added(&part.repeats, best.part(part.category).map_or(&base_none, |it| &it.repeats));
        }
    }
}

/// A repeat of a time that may be 0 and has no ratios.
fn repeat(heat: u32, ns: f64) -> Repeat {
    Repeat { heat, value: ns, log: 0.0, own: ns }
}

impl Part {
    fn of(category: Option<Category>, repeats: Vec<Repeat>) -> Option<Self> {
        let estimate = Estimate::arithmetic(&repeats.iter().map(|it| it.value).collect::<Vec<_>>())?;
        Some(Self { category, estimate, added_ns: None, repeats })
    }

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
