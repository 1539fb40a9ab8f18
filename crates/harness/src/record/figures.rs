//! The figures of trials, and of rows, which merge the trials of all repeats.

use std::collections::BTreeMap;

use server::ServerCounters;
use stats::histogram::{BEYOND_MIN, beyond};
use stats::repeats::{Heats, jackknife};
use stats::{Estimate, Histogram, Repeat, ratio};

use super::figure::{Figure, Source};
use super::{Trial, TrialRecord, Workload};

/// Returns the figure that ranks architectures under a workload.
pub fn metric(workload: &Workload) -> Figure {
    if workload.is_closed() { Figure::Rate } else { Figure::P50 }
}

/// Heats of separate trials begin here, so that none has the number of an interleaved heat.
const SEPARATE: u32 = 1 << 31;

/// Returns the heat of a trial, which contestants of interleaved trials share.
pub fn heat(trial: &Trial) -> u32 {
    trial.client.slices.map_or(SEPARATE | trial.index, |slices| slices.heat)
}

/// What a trial adds to a figure.
enum Part<'a> {
    /// Times of requests; the figure is a quantile of all of them.
    Times(&'a Histogram, f64),
    /// Two sums; the figure is their quotient.
    Sums(f64, f64),
}

impl<'a> Part<'a> {
    fn of(record: &'a TrialRecord, figure: Figure) -> Option<Self> {
        let load = record.load.as_ref()?;
        Some(match figure.source() {
            Source::Service((q, _)) => Self::Times(&load.service.histogram, q),
            Source::Response((q, _)) => Self::Times(&load.response.histogram, q),
            Source::ServiceSum => {
                let (mean_ns, count) = (load.service.distribution.mean_ns, load.service.histogram.count() as f64);
                Self::Sums(mean_ns * count, count)
            }
            Source::Answers => {
                let window_s = load.window_ns as f64 / 1e9;
                Self::Sums(record.rate_achieved_per_s()? * window_s, window_s)
            }
            Source::ServerTime => {
                let cpu_ns = record.server.as_ref().map(ServerCounters::cpu_ns)?;
                Self::Sums(cpu_ns as f64, record.requests_answered()?)
            }
            Source::ServerMemory => Self::Sums(record.server.as_ref()?.memory_user_bytes_per_connection?, 1.0),
            Source::Failures => Self::Sums(load.error_share(load.errors.total()), 1.0),
        })
    }
}

/// Returns a figure of one trial; `None` if it has none.
pub fn of_trial(record: &TrialRecord, figure: Figure) -> Option<f64> {
    Some(match Part::of(record, figure)? {
        Part::Times(times, q) => Some(times.quantile(q) as f64).filter(|_| times.count() > 0)?,
        Part::Sums(sum, per) => sum / per,
    })
}

/// Returns the contributions of heats to a quantile of all their times.
pub fn repeats_of_times(heats: &[u32], times: &[&Histogram], q: f64) -> Vec<Repeat> {
    let mut all = Histogram::new();
    times.iter().for_each(|it| all.merge(it));
    jackknife(heats, |of| match of {
        // As tables show it.
        Heats::All => all.quantile(q) as f64,
        Heats::Without(at) => all.without(times[at]).interpolated(q),
        Heats::Only(at) => times[at].interpolated(q),
    })
}

/// Returns the repeats of a figure over several trials. A quantile with too few requests beyond it has none.
fn repeats(records: &[&TrialRecord], figure: Figure) -> Vec<Repeat> {
    let (mut heats, mut times, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    let mut q = 0.5;
    for record in records {
        match Part::of(record, figure) {
            Some(Part::Times(histogram, of)) if histogram.count() > 0 => {
                times.push(histogram);
                q = of;
            }
            Some(Part::Sums(sum, per)) => sums.push([sum, per]),
            _ => continue,
        }
        heats.push(heat(&record.trial));
    }
    if times.is_empty() {
        return jackknife(&heats, |of| {
            let of_heats =
                |at: usize| sums.iter().enumerate().filter(|it| of.contains(it.0)).map(|(_, it)| it[at]).sum::<f64>();
            of_heats(0) / of_heats(1)
        });
    }
    let count = times.iter().map(|it| it.count()).sum();
    if beyond(count, q) < BEYOND_MIN { Vec::new() } else { repeats_of_times(&heats, &times, q) }
}

/// The groups of interleaved trials that a reference links, by the heat of the reference.
#[derive(Clone, Debug, Default)]
pub struct HeatLinks(BTreeMap<u32, Link>);

/// A reference, and the trial that it repeats in another heat.
#[derive(Clone, Copy, Debug)]
struct Link {
    reference: u32,
    original: u32,
    heat: u32,
}

impl HeatLinks {
    /// Finds the links between trials of a run.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial> + Clone) -> Self {
        let original = |reference: &Trial| trials.clone().find(|it| reference.is_reference_of(it));
        let link = |trial: &Trial| {
            let original = original(trial)?;
            Some((heat(trial), Link { reference: trial.index, original: original.index, heat: heat(original) }))
        };
        Self(trials.clone().filter_map(link).collect())
    }

    /// Converts repeats to the speed of the first group's heats, by the reference. `repeats_of` returns the repeats of trials by their
    /// indices. Repeats without a link remain as they are: a reference that ran separately links nothing.
    pub fn apply(&self, repeats: Vec<Repeat>, repeats_of: impl Fn(&[u32]) -> Vec<Repeat>) -> Vec<Repeat> {
        let links: Vec<Link> = repeats.iter().filter_map(|it| self.0.get(&it.heat)).copied().collect();
        if links.is_empty() {
            return repeats;
        }
        let of = |index: fn(&Link) -> u32| repeats_of(&links.iter().map(index).collect::<Vec<_>>());
        let (references, originals) = (of(|link| link.reference), of(|link| link.original));
        let in_heat = |of: &[Repeat], heat: u32| of.iter().find(|it| it.heat == heat).copied();
        let convert = |repeat: &Repeat| {
            let link = self.0.get(&repeat.heat)?;
            Some(ratio::linked(*repeat, in_heat(&references, repeat.heat)?, in_heat(&originals, link.heat)?))
        };
        repeats.iter().map(|repeat| convert(repeat).unwrap_or(*repeat)).collect()
    }
}

/// The figures of a run's rows, with the groups of interleaved trials linked.
pub struct RunFigures<'a> {
    records: &'a [TrialRecord],
    links: HeatLinks,
}

impl<'a> RunFigures<'a> {
    /// The figures of these records, which are all of a run.
    pub fn new(records: &'a [TrialRecord]) -> Self {
        Self { records, links: HeatLinks::of(records.iter().map(|record| &record.trial)) }
    }

    /// Returns the repeats of a figure over several trials of one server and workload: the figure of their merged requests, by heat.
    /// Empty if fewer than [`BEYOND_MIN`] requests lie beyond a quantile.
    pub fn of(&self, records: &[&TrialRecord], figure: Figure) -> Vec<Repeat> {
        let by_indices = |indices: &[u32]| {
            let usable = self.records.iter().filter(|it| it.verdict.belongs_in_estimates());
            repeats(&usable.filter(|it| indices.contains(&it.trial.index)).collect::<Vec<_>>(), figure)
        };
        self.links.apply(repeats(records, figure), by_indices)
    }

    /// Estimates a figure from several trials.
    pub fn estimate(&self, records: &[&TrialRecord], figure: Figure) -> Option<Estimate> {
        Estimate::of(&self.of(records, figure))
    }
}
