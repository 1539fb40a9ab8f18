//! The blocks of a trial's figures: the values from which all estimates and ratios come.

use std::collections::BTreeMap;

use load::report::{BlockReport, Measured};
use server::ServerCounters;
use stats::{Block, Estimate, ratio};

use super::{Trial, TrialRecord, Workload};

/// A figure with an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A percentile of service time in nanoseconds.
    Service(Percentile),
    /// A percentile of response time in nanoseconds.
    Response(Percentile),
    /// Requests, transactions or bursts per second.
    Rate,
    /// CPU time of the server per request, in nanoseconds.
    CpuPerRequest,
}

/// A percentile with blocks. Reports merge the histograms of all repeats for the other percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
}

/// Returns the figure that ranks architectures under a workload.
pub fn metric(workload: &Workload) -> Figure {
    if workload.is_closed() { Figure::Rate } else { Figure::Service(Percentile::P50) }
}

/// Heats of separate trials begin here, so that none has the number of an interleaved heat.
const SEPARATE: u32 = 1 << 31;

/// Returns the heat of a trial, which contestants of interleaved trials share.
pub fn heat(trial: &Trial) -> u32 {
    trial.load.slices.map_or(SEPARATE | trial.index, |slices| slices.heat)
}

/// Returns the blocks of a figure: those of an interleaved trial that have a response, or else the whole trial.
pub fn blocks_of(record: &TrialRecord, figure: Figure) -> Vec<Block> {
    let heat = heat(&record.trial);
    let parts = record.trial.load.slices.and_then(|_| parts(record, figure)).unwrap_or_default();
    let parts = (0..).zip(parts).map(|(number, value)| Block { heat, number, value });
    // A part without a sample has value 0.
    let parts: Vec<Block> = parts.filter(|block| block.value > 0.0).collect();
    let whole = || whole(record, figure).map(|value| Block { heat, number: 0, value }).into_iter().collect();
    if parts.is_empty() { whole() } else { parts }
}

/// The groups of interleaved trials that a reference links: for each heat with a reference, the indices of the reference and of
/// the trial that it repeats.
#[derive(Clone, Debug, Default)]
pub struct HeatLinks(BTreeMap<u32, [u32; 2]>);

impl HeatLinks {
    /// Finds the links between trials of a run.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial> + Clone) -> Self {
        let original = |reference: &Trial| trials.clone().find(|it| reference.is_reference_of(it));
        let link = |trial: &Trial| Some((heat(trial), [trial.index, original(trial)?.index]));
        Self(trials.clone().filter_map(link).collect())
    }

    /// Converts blocks of one trial to the times of the first group, by the reference. `blocks_of` returns the blocks of a trial by its
    /// index. Blocks without a link remain as they are.
    pub fn apply(&self, blocks: Vec<Block>, blocks_of: impl Fn(u32) -> Vec<Block>) -> Vec<Block> {
        let heat = blocks.first().map_or(SEPARATE, |block| block.heat);
        let Some(&[reference, original]) = self.0.get(&heat) else { return blocks };
        let (reference, original) = (blocks_of(reference), blocks_of(original));
        // A reference that ran separately links nothing.
        let is_linked = reference.iter().all(|it| it.heat == heat) && original.iter().all(|it| it.heat < SEPARATE);
        let linked = if is_linked { ratio::linked(&blocks, &reference, &original) } else { Vec::new() };
        if linked.is_empty() { blocks } else { linked }
    }
}

/// The blocks of a run's trials, with the groups of interleaved trials linked.
pub struct RunBlocks<'a> {
    records: &'a [TrialRecord],
    links: HeatLinks,
}

impl<'a> RunBlocks<'a> {
    /// The blocks of these records, which are all of a run.
    pub fn new(records: &'a [TrialRecord]) -> Self {
        Self { records, links: HeatLinks::of(records.iter().map(|record| &record.trial)) }
    }

    /// Returns the blocks of a figure in several trials.
    pub fn of(&self, records: &[&TrialRecord], figure: Figure) -> Vec<Block> {
        let by_index = |index: u32| {
            let usable = self.records.iter().filter(|it| it.verdict.belongs_in_estimates());
            usable.filter(|it| it.trial.index == index).flat_map(|it| blocks_of(it, figure)).collect()
        };
        records.iter().flat_map(|record| self.links.apply(blocks_of(record, figure), by_index)).collect()
    }

    /// Estimates a figure from several trials.
    pub fn estimate(&self, records: &[&TrialRecord], figure: Figure) -> Option<Estimate> {
        Estimate::of(&self.of(records, figure))
    }
}

fn measured(record: &TrialRecord, figure: Figure) -> Option<(&Measured, Percentile)> {
    let load = record.load.as_ref()?;
    match figure {
        Figure::Service(percentile) => Some((&load.service, percentile)),
        Figure::Response(percentile) => Some((&load.response, percentile)),
        Figure::Rate | Figure::CpuPerRequest => None,
    }
}

fn parts(record: &TrialRecord, figure: Figure) -> Option<Vec<f64>> {
    let load = record.load.as_ref()?;
    let blocks = &load.slices.as_ref()?.blocks;
    let of_blocks = |value: fn(&BlockReport) -> u64| blocks.iter().map(|block| value(block) as f64).collect();
    Some(match figure {
        Figure::Service(Percentile::P50) => of_blocks(|block| block.service_p50_ns),
        Figure::Service(Percentile::P90) => of_blocks(|block| block.service_p90_ns),
        Figure::Service(Percentile::P95) => of_blocks(|block| block.service_p95_ns),
        Figure::Response(Percentile::P50) => of_blocks(|block| block.response_p50_ns),
        Figure::Response(Percentile::P90) => of_blocks(|block| block.response_p90_ns),
        Figure::Response(Percentile::P95) => of_blocks(|block| block.response_p95_ns),
        Figure::Service(Percentile::P99) => load.service.p99_by_eighth_ns.map(|ns| ns as f64).into(),
        Figure::Response(Percentile::P99) => load.response.p99_by_eighth_ns.map(|ns| ns as f64).into(),
        Figure::Rate if load.stream.is_some() => return None,
        Figure::Rate => {
            let block_s = load.window_ns as f64 / 1e9 / blocks.len() as f64;
            // A block without a response counts as half of one: its rate is low, not unknown.
            let least = if blocks.iter().any(|block| block.completed > 0) { 0.5 } else { 0.0 };
            blocks.iter().map(|block| (block.completed as f64).max(least) / block_s).collect()
        }
        Figure::CpuPerRequest => return None,
    })
}

fn whole(record: &TrialRecord, figure: Figure) -> Option<f64> {
    match (measured(record, figure), figure) {
        (Some((time, percentile)), _) => Some(match percentile {
            Percentile::P50 => time.distribution.p50_ns as f64,
            Percentile::P90 => time.distribution.p90_ns as f64,
            Percentile::P95 => time.distribution.p95_ns as f64,
            Percentile::P99 => time.distribution.p99_ns as f64,
        }),
        (None, Figure::Rate) => record.rate_achieved_per_s(),
        (None, _) => Some(record.server.as_ref().map(ServerCounters::cpu_ns)? as f64 / record.requests_answered()?),
    }
}
