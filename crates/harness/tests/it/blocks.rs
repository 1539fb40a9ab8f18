use load::config::Slices;
use load::report::{BlockReport, SliceReport};
use stats::Block;
use stats::Ratio;

use muxbench_harness::model::TrialRecord;
use muxbench_harness::model::blocks::{Figure, Percentile, blocks_of};

const BLOCKS: usize = 40;

/// Returns the first records of two architectures, in one heat of interleaved trials.
fn interleaved() -> [TrialRecord; 2] {
    let run = testkit::run();
    let first = run.records[0].clone();
    let other = run.records.iter().find(|it| it.trial.architecture != first.trial.architecture).unwrap().clone();
    [(0, first), (1, other)].map(|(contestant, mut record)| {
        let slices = Slices { heat: 7, contestants: 2, contestant, slice_ns: 10, gap_ns: 0, guard_ns: 2, seed: 1 };
        record.trial.load.slices = Some(slices);
        let block = BlockReport { service_p50_ns: 1_000 + u64::from(contestant), ..BlockReport::default() };
        let blocks = vec![block; BLOCKS];
        record.load.as_mut().unwrap().slices = Some(SliceReport { blocks, ..SliceReport::default() });
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
fn blocks_of_interleaved_trials_are_paired() {
    let [mut one, other] = interleaved();
    let count = |record: &TrialRecord, figure| blocks_of(record, figure).len();
    assert_eq!(count(&one, Figure::Service(Percentile::P50)), BLOCKS);
    assert_eq!(count(&one, Figure::Response(Percentile::P99)), 8);
    assert_eq!(count(&one, Figure::CpuPerRequest), 1, "the counters cover the whole trial");
    let load = one.load.as_mut().unwrap();
    let blocks = &mut load.slices.as_mut().unwrap().blocks;
    blocks[3].service_p50_ns = 0;
    blocks.iter_mut().for_each(|block| block.completed = 4);
    let p50 = |record| blocks_of(record, Figure::Service(Percentile::P50));
    assert_eq!(p50(&one).len(), BLOCKS - 1);
    assert_eq!(p50(&one)[3].number, 4, "the other blocks keep their numbers");
    let ratio = Ratio::of(&p50(&one), &p50(&other)).unwrap();
    assert!(ratio.interval.is_some(), "one trial each has an interval: {ratio:?}");
    assert_eq!(blocks_of(&one, Figure::Rate)[BLOCKS - 1].value, 4.0 * BLOCKS as f64);
    // Older runs have no percentiles of eighths.
    one.load.as_mut().unwrap().service.p99_by_eighth_ns = [0; 8];
    assert_eq!(count(&one, Figure::Service(Percentile::P99)), 1);
}
