//! Tests of verdicts on streams, the server's figures, and several client processes.

use super::*;

#[test]
fn streams_are_judged_by_their_bytes() {
    let kind = |change: &dyn Fn(&mut StreamResult)| {
        let mut report = streaming();
        report.stream.iter_mut().for_each(change);
        judge(&report, None)
    };
    assert_eq!(kind(&|_| ()).kind, VerdictKind::Valid);
    assert!(kind(&|_| ()).reason.starts_with("16 MB/s, fairness 1.000"));
    assert_eq!(kind(&|stream| stream.bytes = 0).kind, VerdictKind::Failed);
    let unended = kind(&|stream| stream.ended = 1);
    assert_eq!(
        (unended.kind, unended.reason.split(':').next().unwrap().contains("still open")),
        (VerdictKind::Failed, true)
    );
    assert_eq!(kind(&|stream| stream.bytes_by_part[16..].fill(5_000_000)).kind, VerdictKind::Unsteady);
    // If the server counts the bytes that it received, they replace those that the clients wrote.
    let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
    let took_in = |last: f64| {
        let parts = std::array::from_fn(|part| if part < 16 { 16e6 } else { last });
        judge(&streaming(), Some(&ServerSide { took_in: Some(parts), ..side(&counters, 1) }))
    };
    assert_eq!(took_in(160e6).kind, VerdictKind::Unsteady);
    let steady = took_in(16e6);
    assert!(steady.kind == VerdictKind::Valid && steady.reason.starts_with("16 MB/s"), "{}", steady.reason);
    let mut report = streaming();
    report.closed.iter_mut().for_each(|closed| closed.busy_share = 0.99);
    assert_eq!(judge(&report, None).kind, VerdictKind::ClientLimited);
}

#[test]
fn one_byte_of_difference_fails_trial() {
    let (report, sizes) = (streaming(), Stream::default());
    let kind = |idle: u32, bytes_in: Option<u64>, bytes_out: u64| {
        let totals = Totals { bytes_in, bytes_out: Some(bytes_out), ..Totals::default() };
        with(&report, |it| it.add_byte_counts(sizes, idle, report.stream.as_ref().unwrap(), &totals)).kind
    };
    assert_eq!(kind(0, Some(17_000_000), 96), VerdictKind::Valid);
    assert_eq!(kind(3, Some(17_000_000 + 3 * 8_192), 96 + 3 * 32), VerdictKind::Valid);
    for wrong in [kind(0, Some(16_999_999), 96), kind(0, Some(17_000_000), 97), kind(0, None, 96)] {
        assert_eq!(wrong, VerdictKind::Failed);
    }
    assert_eq!(kind(1, Some(17_000_000), 96), VerdictKind::Failed, "the idle connection sent a request too");
}

#[test]
fn implausible_figure_fails_trial_by_name() {
    let verdict = |change: &dyn Fn(&mut LoadResult), fell: &[&str]| {
        let fell = fell.iter().map(|&name| name.to_owned()).collect();
        let counters = ServerCounters { window_ns: 1_000_000_000, fell, ..ServerCounters::default() };
        let mut report = healthy();
        change(&mut report);
        let judged = judge(&report, Some(&side(&counters, 1)));
        (judged.kind, judged.reason)
    };
    assert_eq!(verdict(&|_| (), &[]).0, VerdictKind::Valid);
    assert_eq!(verdict(&|it| it.clock.drift_ppm = -900.0, &[]).0, VerdictKind::Valid);
    let cases = [
        (verdict(&|it| it.clock.went_back = 1, &[]), "the client's clock went backwards: 1 exceeds the limit of 0"),
        (verdict(&|it| it.clock.drift_ppm = -20_000.0, &[]), "drift of the client's clock"),
        (verdict(&|it| it.response.histogram.record(stats::histogram::VALUE_NS_MAX), &[]), "an hour or more"),
        (verdict(&|it| it.errors.wrong = 1, &[]), "errors of class wrong: 1"),
        (verdict(&|_| (), &["requests", "bytes in"]), "decreased in the window (requests, bytes in): 2"),
    ];
    for ((kind, reason), words) in cases {
        assert!(kind == VerdictKind::Failed && reason.contains(words), "{words}: {reason}");
    }
}

#[test]
fn server_counted_late_makes_trial_unsteady() {
    let judged = |report: &LoadResult, late_ns: u64| {
        let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        judge(report, Some(&ServerSide { late_ns, ..side(&counters, 1) }))
    };
    assert_eq!(judged(&healthy(), 90_000_000).kind, VerdictKind::Valid);
    let late = judged(&healthy(), 110_000_000);
    assert!(late.kind == VerdictKind::Unsteady && late.is_blameless_for_server(), "{}", late.reason);
    assert_eq!(late.reason, format!("{} 110 ms exceeds the limit of 100 ms", Check::COUNTED_LATE));
    // A longer window has a higher limit.
    let long = LoadResult { window_ns: 10_000_000_000, ..healthy() };
    assert!(judged(&long, 900_000_000).checks.iter().all(|it| it.passed || it.name != Check::COUNTED_LATE));
    // Errors and a late client take precedence over the late count.
    let wrong = LoadResult { errors: Errors { wrong: 1, ..Errors::default() }, ..healthy() };
    assert_eq!(judged(&wrong, 110_000_000).kind, VerdictKind::Failed);
    let behind = LoadResult { send_delay: measured([5_000_000; 10]), ..healthy() };
    assert_eq!(judged(&behind, 110_000_000).kind, VerdictKind::ClientLimited);
}

#[test]
fn window_mostly_without_samples_is_unsteady() {
    let of = |unsampled: u64| {
        let closed = ClosedResult { unsampled, busy_share: 0.5, cpus: 1, think_ns: 0 };
        let parts = [31; PARTS];
        let report = LoadResult { rate_asked_per_s: None, closed: Some(closed), ..healthy() };
        judge(&LoadResult { completed_by_part: parts, ..report }, None)
    };
    assert_eq!(of(500).kind, VerdictKind::Valid);
    let beyond = of(501);
    assert_eq!(beyond.kind, VerdictKind::Unsteady);
    assert!(beyond.reason.contains("for lack of memory"), "{}", beyond.reason);
}

#[test]
fn one_late_process_of_five_limits_client() {
    let of = |delays_ns: [u64; 5]| {
        let mut report = healthy();
        report.processes = delays_ns
            .into_iter()
            .map(|delay_ns| ProcessResult {
                place: format!("worker {}", delay_ns % 10),
                connections: 2,
                planned: 200,
                completed: 200,
                rate_sent_per_s: 200.0,
                send_delay: measured([delay_ns; 10]).distribution,
                service: report.service.distribution,
                cpu_ns: 0,
                begun_late_ns: 0,
                cpu_taken_by_others: None,
            })
            .collect();
        judge(&report, None)
    };
    assert_eq!(of([1_001, 1_002, 1_003, 1_004, 1_005]).kind, VerdictKind::Valid);
    let late = of([1_001, 1_002, 9_000_003, 1_004, 1_005]);
    assert_eq!(late.kind, VerdictKind::ClientLimited);
    assert!(late.reason.contains("of a client, worker 3"), "{}", late.reason);
}

#[test]
fn worker_whose_cpus_others_took_is_named() {
    let judged = |taken: [Option<f64>; 2]| {
        let mut report = healthy();
        let process = |(number, cpu_taken_by_others): (usize, Option<f64>)| ProcessResult {
            place: format!("worker {number} on node{number}"),
            connections: 5,
            planned: 500,
            completed: 500,
            rate_sent_per_s: 500.0,
            send_delay: report.send_delay.distribution,
            service: report.service.distribution,
            begun_late_ns: 0,
            cpu_ns: 0,
            cpu_taken_by_others,
        };
        report.processes = taken.into_iter().enumerate().map(process).collect();
        with(&report, |it| it.add_clients(&report, PHASES))
    };
    assert_eq!(judged([None, None]).kind, VerdictKind::Valid);
    let quiet = judged([None, Some(0.2)]);
    assert_eq!((quiet.kind, &*quiet.checks.last().unwrap().name), (VerdictKind::Valid, TAKEN_FROM_WORKER_1));
    let crowded = judged([Some(0.0), Some(0.4)]);
    assert!(crowded.kind == VerdictKind::ClientLimited && crowded.is_blameless_for_server());
    assert_eq!(crowded.reason, format!("{TAKEN_FROM_WORKER_1}: 0.400 exceeds the limit of 0.250"));
    let without_schedule = LoadResult { rate_asked_per_s: None, ..healthy() };
    let failed = with(&without_schedule, |it| it.add_clients(&healthy(), PHASES));
    assert_eq!((failed.kind, failed.checks), (VerdictKind::Failed, Vec::new()));
}

/// Half a second before the window.
const PHASES: Phases = Phases { ramp_ns: 200_000_000, warm_up_ns: 300_000_000, measure_ns: 1, cool_down_ns: 0 };

#[test]
fn late_start_order_is_listed_and_limits_client() {
    let judged = |begun_late_ns: u64, phases: Phases| {
        let report = LoadResult { begun_late_ns, ..healthy() };
        with(&report, |it| it.add_clients(&report, phases))
    };
    let is_it = |check: &&Check| check.name.contains("start order");
    assert_eq!(judged(0, PHASES).checks.iter().find(is_it), None);
    let late = judged(250_000_000, PHASES);
    assert_eq!((late.kind, late.checks.iter().find(is_it).unwrap().value), (VerdictKind::Valid, 250.0));
    let late = judged(251_000_000, PHASES);
    assert_eq!(late.kind, VerdictKind::ClientLimited);
    assert!(late.reason.ends_with("start order 251 ms exceeds the limit of 250 ms"), "{}", late.reason);
    // The window begins at once.
    assert_eq!(judged(1, Phases { ramp_ns: 0, warm_up_ns: 0, ..PHASES }).kind, VerdictKind::ClientLimited);
}

const TAKEN_FROM_WORKER_1: &str = "share of the client's CPUs taken by others, worker 1 on node1";
