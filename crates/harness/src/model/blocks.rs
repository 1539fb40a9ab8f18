//! The blocks of a trial's figures: the values from which all estimates and ratios come.

use load::report::{Measured, PARTS};
use server::ServerCounters;
use stats::{Block, Estimate};

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

/// Returns the blocks of a figure: the parts of the window of an interleaved trial that have a sample, or else the whole trial.
pub fn blocks_of(record: &TrialRecord, figure: Figure) -> Vec<Block> {
    let heat = heat(&record.trial);
    let parts = record.trial.load.slices.and_then(|_| parts(record, figure)).unwrap_or_default();
    let parts = (0..).zip(parts).map(|(number, value)| Block { heat, number, value });
    // A part without a sample has value 0.
    let parts: Vec<Block> = parts.filter(|block| block.value > 0.0).collect();
    let whole = || whole(record, figure).map(|value| Block { heat, number: 0, value }).into_iter().collect();
    if parts.is_empty() { whole() } else { parts }
}

/// Returns the blocks of a figure in several trials.
pub fn blocks(records: &[&TrialRecord], figure: Figure) -> Vec<Block> {
    records.iter().flat_map(|record| blocks_of(record, figure)).collect()
}

/// Estimates a figure from several trials.
pub fn estimate(records: &[&TrialRecord], figure: Figure) -> Option<Estimate> {
    Estimate::of(&blocks(records, figure))
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
    if let Some((time, percentile)) = measured(record, figure) {
        let parts: &[u64] = match percentile {
            Percentile::P50 => &time.p50_by_part_ns,
            Percentile::P90 => &time.p90_by_part_ns,
            Percentile::P99 => &time.p99_by_eighth_ns,
        };
        return Some(parts.iter().map(|&ns| ns as f64).collect());
    }
    let load = record.load.as_ref().filter(|load| figure == Figure::Rate && load.stream.is_none())?;
    let part_s = load.window_ns as f64 / 1e9 / PARTS as f64;
    Some(load.completed_by_part?.iter().map(|&count| count as f64 / part_s).collect())
}

fn whole(record: &TrialRecord, figure: Figure) -> Option<f64> {
    match (measured(record, figure), figure) {
        (Some((time, percentile)), _) => Some(match percentile {
            Percentile::P50 => time.distribution.p50_ns as f64,
            Percentile::P90 => time.distribution.p90_ns as f64,
            Percentile::P99 => time.distribution.p99_ns as f64,
        }),
        (None, Figure::Rate) => record.rate_achieved_per_s(),
        (None, _) => Some(record.server.as_ref().map(ServerCounters::cpu_ns)? as f64 / record.requests_answered()?),
    }
}
