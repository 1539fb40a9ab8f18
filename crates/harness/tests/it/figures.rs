use load::config::Slices;
use stats::{Estimate, Histogram, Ratio, Repeat};

use muxbench_harness::record::figures::{RunFigures, heat};
use muxbench_harness::record::{Figure, Run, TrialRecord};

/// Returns the records of an architecture under the first workload.
fn of<'a>(run: &'a Run, architecture: &str) -> Vec<&'a TrialRecord> {
    let first = &run.records[0].trial.workload;
    let is_its = |it: &&TrialRecord| it.trial.architecture.to_string() == architecture && it.trial.workload == *first;
    run.records.iter().filter(is_its).filter(|it| !it.trial.is_placebo && !it.trial.is_reference).collect()
}

const P99: Figure = Figure::P99;

#[test]
fn separate_trials_share_no_heat() {
    let run = testkit::run();
    let mut heats: Vec<u32> = run.records.iter().map(|it| heat(&it.trial)).collect();
    heats.sort_unstable();
    heats.dedup();
    assert_eq!(heats.len(), run.records.len());
}

#[test]
fn percentile_of_a_row_is_that_of_its_merged_requests() {
    let mut run = testkit::interleaved_run();
    // In the first repeat, 40 of 400 requests wait for a stall: 1.7 % of all.
    let stalled = run.records.iter_mut().find(|it| it.trial.architecture.to_string() == "epoll").unwrap();
    let times = &mut stalled.load.as_mut().unwrap().service.histogram;
    *times = (0..400).map(|at| if at < 40 { 5_000_000 } else { 40_000 }).collect();
    let mut merged = Histogram::new();
    of(&run, "epoll").iter().for_each(|it| merged.merge(&it.load.as_ref().unwrap().service.histogram));
    let figures = RunFigures::new(&run.records);
    let p99 = figures.estimate(&of(&run, "epoll"), P99).unwrap();
    assert!((p99.value / merged.quantile(0.99) as f64 - 1.0).abs() < 1e-9 && p99.value > 4.9e6, "{p99:?}");
    assert!(p99.interval.unwrap().low < 1e6, "five of six repeats have no such request");
}

#[test]
fn quantile_with_few_requests_beyond_has_no_estimate() {
    let run = testkit::interleaved_run();
    let figures = RunFigures::new(&run.records);
    let all = of(&run, "epoll");
    assert_eq!(figures.of(&all, P99).len(), 6, "24 of 2 400 requests are beyond");
    assert_eq!(figures.of(&all[..2], P99), [], "8 of 800 requests are beyond");
    assert_eq!(figures.of(&all[..4], Figure::P95).len(), 4);
    assert_eq!(figures.of(&all[..4], Figure::Rate).len(), 4);
}

#[test]
fn groups_are_linked_by_their_reference() {
    // The second group runs in other heats, in which the host is slower by a half. Its reference repeats `epoll`.
    let mut run = testkit::interleaved_run();
    let group: Vec<usize> = (0..run.records.len()).filter(|at| at % 4 == 2).collect();
    for at in group {
        let mut reference = run.records[at - 2].clone();
        reference.trial.index += 1_000;
        reference.trial.is_reference = true;
        let mut records = [reference, run.records[at].clone()];
        for record in &mut records {
            let slices = record.trial.client.slices.unwrap();
            record.trial.client.slices = Some(Slices { heat: 100 + slices.heat, ..slices });
            let times = &mut record.load.as_mut().unwrap().service.histogram;
            *times = times.cumulative().map(|(ns, _)| ns * 3 / 2).collect();
        }
        let [reference, poll] = records;
        run.records[at] = poll;
        run.records.push(reference);
    }
    let figures = RunFigures::new(&run.records);
    let p50 = |name: &str| -> Vec<Repeat> { figures.of(&of(&run, name), Figure::P50) };
    let ratio = Ratio::of(&p50("poll"), &p50("epoll")).unwrap();
    assert!((ratio.ratio - 2.0).abs() < 0.05 && ratio.interval.unwrap().low > 1.9, "{ratio:?}");
    let unlinked = Estimate::of(&p50("poll")).unwrap().value;
    assert!((unlinked / Estimate::of(&p50("epoll")).unwrap().value - 2.0).abs() < 0.05);
}
