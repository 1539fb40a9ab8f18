//! Tests of the values and limits of checks, with figures that no formula maps to themselves: a window of two seconds.

use super::*;
use crate::spec::units::{Bandwidth, Loss, Size, Time};

/// A trial of 2 000 requests in two seconds, which a server with little spare CPU time answers slowly.
fn uneven() -> LoadResult {
    LoadResult {
        window_ns: 2_000_000_000,
        planned: 2_000,
        trial_requests: 2_000,
        completed: 1_900,
        rate_sent_per_s: 990.0,
        rate_achieved_per_s: 950.0,
        outstanding: Outstanding { at_start: 5, at_end: 60, after_cool_down: 7 },
        receiver_busy_share: Some(0.95),
        errors: Errors { timeout: 2, ..Errors::default() },
        ..healthy()
    }
}

/// The counters of a server that used this share of a CPU for 1 900 requests in two seconds.
fn counters(share: f64) -> ServerCounters {
    let mut counters = ServerCounters { window_ns: 2_000_000_000, ..ServerCounters::default() };
    counters.totals.requests = Some(1_900);
    counters.totals.cpu_system_ns = (share * 2e9) as u64;
    counters
}

/// Asserts the value and the limit of checks, each named by the beginning of its name.
fn assert_values(checks: &[Check], expected: &[(&str, f64, f64)]) {
    for &(name, value, limit) in expected {
        let check = checks.iter().find(|check| check.name.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        let is_near = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected.abs();
        assert!(is_near(check.value, value) && is_near(check.limit, limit), "{check:?}");
    }
}

#[test]
fn checks_of_an_open_loop_scale_with_the_window() {
    let counters = counters(0.9);
    let late_ns = 30_000_000;
    let verdict = judge(&uneven(), Some(&ServerSide { late_ns, taken: Some(0.1), ..side(&counters, 1) }));
    let expected = [
        ("requests in the window", 2_000.0, 20.0),
        ("requests answered", 950.0, 0.98 * 990.0 - 5.0),
        ("increase of outstanding requests", 55.0, 40.0),
        ("requests unanswered after the cool-down", 7.0, 40.0),
        ("median service time at the end", 0.05, 1.0),
        ("CPUs that the server would need", 1.8 / 1.9, 1.0),
        ("median send delay", 0.2, 500.0),
        ("share of the window in which the client's receiver", 0.95, 0.95),
        ("requests sent in time", 990.0, 975.0),
        ("share of unanswered requests", 0.001, 0.001),
        (Check::TAKEN_BY_OTHERS, 0.1, 0.25),
        (Check::COUNTED_LATE, 30.0, 200.0),
    ];
    assert_values(&verdict.checks, &expected);
    let position = |name: &str| verdict.checks.iter().position(|check| check.name.starts_with(name)).unwrap();
    assert!(position("requests answered") < position("median send delay"), "the server was busy");
    let fit = &verdict.checks[position("distance of the sends")];
    assert_eq!((fit.p_value, fit.p_value_min), (Some(1.0), Some(0.001)));
    let datagrams = DatagramResult { ports: 10, lost: 30, duplicates: 0, reordered: 0, dropped: Some(10) };
    let report = LoadResult { datagrams: Some(datagrams), transport: Transport::Udp, ..uneven() };
    let lost = [("share of requests lost", 0.015, 0.01), ("share of responses dropped", 0.005, 0.01)];
    assert_values(&judge(&report, None).checks, &lost);
    let valid = LoadResult { rate_asked_per_s: Some(500.0), rate_achieved_per_s: 499.0, ..healthy() };
    assert!(
        judge(&valid, None).reason.starts_with("1000 requests, 99.8 % of the requested rate, send delay p99 0.2 us")
    );
}

#[test]
fn needed_cpus_are_checked_only_if_a_busy_server_falls_short() {
    let is_checked = |achieved_per_s: f64, cpu_share: f64, requests: u64| {
        let mut counters = counters(cpu_share);
        counters.totals.requests = Some(requests);
        let report = LoadResult { rate_achieved_per_s: achieved_per_s, ..uneven() };
        let checks = judge(&report, Some(&side(&counters, 1))).checks;
        checks.iter().any(|check| check.name.starts_with("CPUs that the server would need"))
    };
    assert!(is_checked(979.0, 0.8, 1_900));
    for (achieved_per_s, cpu_share, requests) in [(980.0, 0.8, 1_900), (979.0, 0.79, 1_900), (979.0, 0.8, 0)] {
        assert!(!is_checked(achieved_per_s, cpu_share, requests), "{achieved_per_s} {cpu_share} {requests}");
    }
}

#[test]
fn server_comes_first_from_its_share_of_cpu_time() {
    let first_failed = |cpu_share: f64, receiver: f64| {
        let delayed = LoadResult { send_delay: measured([5_000_000; 10]), ..uneven() };
        let report = LoadResult { receiver_busy_share: Some(receiver), ..delayed };
        judge(&report, Some(&side(&counters(cpu_share), 1))).kind
    };
    let (saturated, limited) = (VerdictKind::Saturated, VerdictKind::ClientLimited);
    let rows = [(0.8, 0.95, saturated), (0.79, 0.95, limited), (0.9, 0.96, saturated), (0.89, 0.96, limited)];
    for (cpu_share, receiver, kind) in rows {
        assert_eq!(first_failed(cpu_share, receiver), kind, "{cpu_share} {receiver}");
    }
}

#[test]
fn tails_are_checked_only_with_requests_beyond_them() {
    for (requests, has_p99, has_p999) in
        [(99, false, false), (100, true, false), (9_999, true, false), (10_000, true, true)]
    {
        let mut report = healthy();
        report.send_delay.histogram = (0..requests).map(|_| 200).collect();
        report.send_delay.distribution = report.send_delay.histogram.distribution();
        let checks = judge(&report, None).checks;
        let has = |name: &str| checks.iter().any(|check| check.name == name);
        assert_eq!((has("send delay p99"), has("send delay p99.9")), (has_p99, has_p999), "{requests}");
    }
}

#[test]
fn limits_of_tails_follow_the_service_time_of_requests_on_time() {
    let mut report = LoadResult { send_delay: with_tail(200, 0, 0), ..healthy() };
    report.service.p90_by_part_ns = std::array::from_fn(|part| match part {
        0..20 => 0,
        20..26 => 5_000_000,
        _ => 7_000_000,
    });
    let late = LateSends::of(&report.send_delay.histogram, &report.service.histogram);
    let tails = |p99_ns: u64| LateSends { on_time_p99_ns: Some(p99_ns), on_time_p999_ns: Some(20_000_000), ..late };
    for (on_time_p99_ns, limit_ms) in [(90_000_000, 7.0), (6_000_000, 6.0), (100_000, 1.0)] {
        let report = LoadResult { late: tails(on_time_p99_ns), ..report.clone() };
        let expected = [("send delay p99", 0.0002, limit_ms), ("send delay p99.9", 0.0002, 20.0)];
        assert_values(&judge(&report, None).checks, &expected);
    }
}

#[test]
fn growth_compares_last_parts_with_first_parts() {
    let saturated = |completed: u64, medians_ms: &dyn Fn(usize) -> u64| {
        let mut report = LoadResult { completed, ..healthy() };
        report.service.p50_by_part_ns = std::array::from_fn(|part| medians_ms(part) * 1_000_000);
        judge(&report, None).kind == VerdictKind::Saturated
    };
    // The limit is three times the highest of the first two parts, or of the first four if parts have few requests.
    let slow_third = |part: usize| [1, 1, 4, 1].get(part).copied().unwrap_or(10);
    assert!(saturated(4 * PARTS as u64, &slow_third));
    assert!(!saturated(4 * PARTS as u64 - 1, &slow_third));
    assert!(
        !saturated(1_000, &|part| if part < 2 { 4 } else { 12 })
            && saturated(1_000, &|part| if part < 2 { 4 } else { 13 })
    );
    // All of the last three tenths of the parts must exceed it.
    let last = PARTS - PARTS * 3 / 10;
    assert!(saturated(1_000, &|part| if part < last { 1 } else { 10 }));
    assert!(!saturated(1_000, &|part| if part <= last { 1 } else { 10 }));
}

#[test]
fn closed_loop_and_stream_name_both_sides() {
    let both = ClosedResult { unsampled: 500, busy_share: 0.99, cpus: 1, think_ns: 10_000_000 };
    let report = LoadResult { closed: Some(both.clone()), window_ns: 2_000_000_000, planned: 2_000, ..closed() };
    let verdict = judge(&report, Some(&side(&counters(0.95), 1)));
    assert_eq!(verdict.kind, VerdictKind::Valid);
    let words = "1000 transactions, 999 a second, the client used 99 % of its CPUs, the server 95 %";
    assert_eq!(verdict.reason, words);
    let expected = [
        ("median send delay", 0.2, 5_000.0),
        ("send delay p99", 0.0002, 5.0),
        ("share of the server's CPUs", 0.95, 0.9),
        ("share of transactions without a sample", 0.25, 0.5),
    ];
    assert_values(&verdict.checks, &expected);
    // At the limit, the client still has spare CPU time.
    let spare = ClosedResult { busy_share: 0.95, ..both };
    let checks = judge(&LoadResult { closed: Some(spare), ..report }, Some(&side(&counters(0.99), 1))).checks;
    assert_values(&checks, &[("share of the client's CPUs", 0.95, 0.95)]);

    let mut report = LoadResult { window_ns: 2_000_000_000, ..streaming() };
    let verdict = judge(&report, None);
    assert_eq!(verdict.reason, "8 MB/s, fairness 1.000, the client used 50 % of its CPUs");
    let bytes = [("bytes in the window", 16e6, 1.0), ("streams still open", 0.0, 0.0)];
    assert_values(&verdict.checks, &bytes);
    // Missing bytes decide before a change of the bandwidth, but after an error that explains them.
    let missing = |report: &LoadResult| {
        let totals = Totals { bytes_in: Some(16_999_999), bytes_out: Some(96), ..Totals::default() };
        with(report, |it| it.add_byte_counts(Stream::default(), 0, report.stream.as_ref().unwrap(), &totals)).reason
    };
    report.stream.as_mut().unwrap().bytes_by_part[16..].fill(5_000_000);
    assert!(missing(&report).starts_with("bytes sent but not counted"));
    report.errors.wrong = 1;
    assert!(missing(&report).starts_with("errors of class wrong"));
}

#[test]
fn limits_of_a_lab_follow_from_its_conditions() {
    let configured = Network {
        delay: Time(10_000_000),
        jitter: Time(2_000_000),
        loss: Some(Loss(0.02)),
        bandwidth: Some(Bandwidth(100_000_000)),
        burst: Some(Size(12_500)),
        ..Network::default()
    };
    let report = NetworkRecord {
        applied: Applied { links: Links::Veth, delay: None, loss: None, bandwidth: None },
        setup_ns: 1,
        measured: crate::record::network::Measured {
            lost: 40,
            bandwidth_bits_per_s: Some([99e6, 98e6]),
            ..measured_network()
        },
        relay: None,
    };
    let checks = with(&healthy(), |it| it.add_network(&configured, &report)).checks;
    // Five standard deviations of 2 000 datagrams, and a refill of the burst that takes 1 ms and comes 0.1 ms late.
    let (deviations, lowest) = (5.0 * (0.02 * 0.98 / 2_000.0_f64).sqrt(), 85.0 / 1.1);
    let expected = [
        ("median round trip", 20.1, 19.2, 23.016),
        ("share of datagrams lost", 0.02, 0.02 - deviations, 0.022 + deviations),
        ("bandwidth to the lab's server", 99.0, lowest, 115.0),
        ("bandwidth from the lab's server", 98.0, lowest, 115.0),
    ];
    for (name, value, low, high) in expected {
        let of_name: Vec<Check> = checks.iter().filter(|check| check.name.starts_with(name)).cloned().collect();
        assert_values(&of_name[..1], &[(name, value, low)]);
        assert_values(&of_name[1..], &[(name, value, high)]);
    }
}

#[test]
fn reason_rounds_values_by_their_size() {
    let reason = |value: f64| {
        let check = check::at_most("it", value, 0.0, "ms", VerdictKind::Failed);
        check::in_words(&check)
    };
    let rows = [(250.4, "250"), (-250.4, "-250"), (99.94, "99.9"), (7.0, "7"), (1.5, "1.5"), (0.25, "0.250")];
    for (value, number) in rows {
        assert_eq!(reason(value), format!("it {number} ms exceeds the limit of 0 ms"));
    }
}

#[test]
fn reason_tells_a_value_from_a_limit_that_rounds_to_it() {
    let reason =
        |value: f64, limit: f64| check::in_words(&check::at_least("it", value, limit, "", VerdictKind::Saturated));
    let rows = [
        (387.6, 388.08, "387.6", "388.1"),
        (387.6, 388.0, "387.6", "388"),
        (99.96, 100.0, "99.96", "100"),
        (0.9799, 0.98, "0.9799", "0.9800"),
    ];
    for (value, limit, shown, shown_limit) in rows {
        assert_eq!(reason(value, limit), format!("it: {shown} is below the limit of {shown_limit}"));
    }
}

#[test]
fn silent_server_has_failed_whatever_the_client_did() {
    let silent = |r: &mut LoadResult| {
        (r.completed, r.rate_achieved_per_s, r.errors.timeout) = (0, 0.0, 1_011);
        r.outstanding = Outstanding { at_start: 11, at_end: 1_011, after_cool_down: 1_011 };
        r.send_delay = with_tail(200, 1_500, 3_700_000);
        (r.service, r.completed_by_part) = (Measured::default(), [0; PARTS]);
    };
    let mut report = healthy();
    silent(&mut report);
    let verdict = judge(&report, None);
    assert_eq!(verdict.kind, VerdictKind::Failed, "{}", verdict.reason);
    assert!(
        verdict.reason.starts_with("responses in the last third of the window: 0 is below the limit of 1"),
        "{}",
        verdict.reason
    );
    // A server that is only slow still answers at the end.
    report.completed_by_part[PARTS - 1] = 1;
    assert_eq!(judge(&report, None).kind, VerdictKind::ClientLimited);
}
