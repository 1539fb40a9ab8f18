//! The blocks of a trial's figures: the values from which all estimates and ratios come.

use harness::model::{Trial, TrialRecord};
use load::report::{Measured, PARTS};
use server::ServerCounters;
use stats::{Block, Estimate};

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

#[cfg(test)]
mod tests {
    use load::config::Slices;
    use stats::Ratio;

    use super::*;

    /// Returns the first records of two architectures, in one heat of interleaved trials.
    fn interleaved() -> [TrialRecord; 2] {
        let run = testkit::run();
        let first = run.records[0].clone();
        let other = run.records.iter().find(|it| it.trial.architecture != first.trial.architecture).unwrap().clone();
        [(0, first), (1, other)].map(|(contestant, mut record)| {
            let slices = Slices { heat: 7, contestants: 2, contestant, slice_ns: 10, guard_ns: 2, seed: 1 };
            record.trial.load.slices = Some(slices);
            record
        })
    }

    #[test]
    fn separate_trials_share_no_block() {
        let run = testkit::run();
        let blocks: Vec<Block> = run.records.iter().flat_map(|it| blocks_of(it, Figure::Rate)).collect();
        let mut heats: Vec<u32> = blocks.iter().map(|block| block.heat).collect();
        heats.sort_unstable();
        heats.dedup();
        assert_eq!(heats.len(), run.records.len());
        assert!(blocks.iter().all(|block| block.number == 0));
    }

    #[test]
    fn parts_of_interleaved_trials_are_paired() {
        let [mut one, other] = interleaved();
        let count = |record: &TrialRecord, figure| blocks_of(record, figure).len();
        assert_eq!(count(&one, Figure::Service(Percentile::P50)), PARTS);
        assert_eq!(count(&one, Figure::Response(Percentile::P99)), 8);
        assert_eq!(count(&one, Figure::CpuPerRequest), 1, "the counters cover the whole trial");
        let load = one.load.as_mut().unwrap();
        load.service.p50_by_part_ns[3] = 0;
        load.completed_by_part = Some([4; PARTS]);
        let p50 = |record| blocks_of(record, Figure::Service(Percentile::P50));
        assert_eq!(p50(&one).len(), PARTS - 1);
        assert_eq!(p50(&one)[3].number, 4, "the other parts keep their numbers");
        let ratio = Ratio::of(&p50(&one), &p50(&other)).unwrap();
        assert!(ratio.interval.is_some(), "one trial each has an interval: {ratio:?}");
        assert_eq!(blocks_of(&one, Figure::Rate)[PARTS - 1].value, 4.0 * PARTS as f64);
        // Older runs have no percentiles of eighths.
        one.load.as_mut().unwrap().service.p99_by_eighth_ns = [0; 8];
        assert_eq!(count(&one, Figure::Service(Percentile::P99)), 1);
    }
}
