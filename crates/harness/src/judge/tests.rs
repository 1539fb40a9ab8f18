mod parts;
mod values;

use load::config::{Roles, Transport};
use load::result::{
    ChurnResult, ClosedResult, DatagramResult, Errors, LateSends, Measured, Outstanding, PARTS, ProcessResult,
};
use server::ServerCounters;
use stats::TestResult;
use testkit::{load_result, measured};

use super::*;
use crate::record::network::{Applied, Links, Means, RelayCounts};

/// A healthy trial of 1 000 requests in a second.
pub(crate) fn healthy() -> LoadResult {
    LoadResult { fit: Some(fit(0.02, 1.0)), completed_by_part: [31; PARTS], ..load_result() }
}

/// Returns the verdict on a trial after `add` has added checks to those of its load.
fn with(report: &LoadResult, add: impl FnOnce(&mut Judgement)) -> Verdict {
    let mut judgement = Judgement::new(report, None);
    add(&mut judgement);
    judgement.decide()
}

fn fit(effect: f64, p_value: f64) -> TestResult {
    TestResult { name: "a test".into(), statistic: effect, p_value, effect, count: 1_000 }
}

fn side(counters: &ServerCounters, cpus: usize) -> ServerSide<'_> {
    ServerSide { counters, cpus, late_ns: 0, taken: None, spins: false, took_in: None }
}

fn kind(change: impl FnOnce(&mut LoadResult)) -> VerdictKind {
    let mut report = healthy();
    change(&mut report);
    report.late = LateSends::of(&report.send_delay.histogram, &report.service.histogram);
    judge(&report, None).kind
}

/// A healthy trial of streams: 2 connections, 16 MB in a second.
fn streaming() -> LoadResult {
    let closed = ClosedResult { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
    let stream = StreamResult {
        bytes: 16_000_000,
        bytes_by_part: [500_000; PARTS],
        bytes_by_second: vec![16_000_000],
        fairness: 1.0,
        connection_bytes_min: 8_000_000,
        connection_bytes_max: 8_000_000,
        sent_bytes: 17_000_000,
        received_bytes: 96,
        ended: 2,
    };
    // A window without a complete burst is valid.
    let report = LoadResult { rate_asked_per_s: None, connections: 2, planned: 0, completed: 0, ..healthy() };
    LoadResult { closed: Some(closed), stream: Some(stream), ..report }
}

#[test]
fn healthy_trial_with_hiccup_is_valid() {
    assert_eq!(kind(|_| ()), VerdictKind::Valid);
    assert_eq!(kind(|r| r.send_delay = with_tail(200, 900, 9_000_000)), VerdictKind::Valid);
    assert_eq!(
        kind(|r| r.service.p50_by_part_ns[PARTS - 1] = 8_000_000),
        VerdictKind::Valid,
        "one slow part is not a trend"
    );
    assert_eq!(kind(|r| r.outstanding.at_end = 9), VerdictKind::Valid);
}

#[test]
fn piled_up_requests_saturate_server() {
    let kind_of = |r: &mut LoadResult| {
        r.rate_achieved_per_s = 600.0;
        r.outstanding = Outstanding { at_start: 50, at_end: 400, after_cool_down: 0 };
    };
    assert_eq!(kind(kind_of), VerdictKind::Saturated);
    let late_as_well = |r: &mut LoadResult| {
        kind_of(r);
        r.send_delay = measured([5_000_000; 10]);
    };
    let mut both = healthy();
    late_as_well(&mut both);
    let busy = |share: f64| ServerCounters {
        window_ns: 1_000_000_000,
        totals: server::metrics::counters::Totals { cpu_system_ns: (share * 1e9) as u64, ..Default::default() },
        ..Default::default()
    };
    assert_eq!(judge(&both, Some(&side(&busy(0.9), 1))).kind, VerdictKind::Saturated);
    assert_eq!(
        judge(&both, Some(&side(&busy(0.2), 1))).kind,
        VerdictKind::ClientLimited,
        "the server had spare CPU time"
    );
    assert_eq!(judge(&both, None).kind, VerdictKind::ClientLimited, "without counters the server is not blamed");
    let growing = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|ms| ms * 1_000_000);
    assert_eq!(kind(|r| r.service = measured(growing)), VerdictKind::Saturated);
    assert_eq!(kind(|r| r.outstanding.after_cool_down = 100), VerdictKind::Saturated);
}

#[test]
fn sessions_waiting_for_connection_saturate_server() {
    let measured = measured([50_000; 10]);
    let churn = ChurnResult {
        requests_per_connection: 1,
        opened: 300,
        opened_per_s: 300.0,
        waited: 690,
        sources: 1,
        connect: measured.clone(),
        first_byte: measured,
    };
    let saturated = |churn: Option<ChurnResult>| {
        move |r: &mut LoadResult| {
            (r.rate_sent_per_s, r.rate_achieved_per_s, r.churn) = (300.0, 300.0, churn);
            (r.sent, r.completed) = (300, 300);
            r.outstanding = Outstanding { at_start: 10, at_end: 700, after_cool_down: 600 };
        }
    };
    assert_eq!(
        kind(saturated(Some(churn.clone()))),
        VerdictKind::Saturated,
        "sessions wait for a connection, so the server is the cause"
    );
    assert_eq!(
        kind(saturated(None)),
        VerdictKind::ClientLimited,
        "open connections never wait, so the client is the cause"
    );
    let late = |r: &mut LoadResult| (r.churn, r.send_delay) = (Some(churn), tests::measured([2_000_000; 10]));
    assert_eq!(kind(late), VerdictKind::ClientLimited, "the client itself is late");
}

#[test]
fn late_sends_without_piled_up_requests_limit_client() {
    assert_eq!(kind(|r| r.send_delay = measured([2_000_000; 10])), VerdictKind::ClientLimited);
    let behind = |r: &mut LoadResult| {
        r.rate_sent_per_s = 900.0;
        r.rate_achieved_per_s = 899.0;
        r.send_delay.p50_by_part_ns[PARTS - 1] = 100_000_000;
    };
    assert_eq!(kind(behind), VerdictKind::ClientLimited);
}

/// Returns times of 100 000 requests: `tail` of them took `tail_ns`, and the rest `usual_ns`.
fn with_tail(usual_ns: u64, tail: u64, tail_ns: u64) -> Measured {
    let mut measured = measured([usual_ns; 10]);
    measured.histogram = (0..100_000).map(|at| if at < tail { tail_ns } else { usual_ns }).collect();
    measured.distribution = measured.histogram.distribution();
    measured
}

#[test]
fn late_tail_of_sends_is_client_limited() {
    let verdict = |late: u64, delay_ns: u64| {
        let lag = with_tail(1_000, late, delay_ns);
        // The client's own bursts do not raise the limit.
        let late =
            LateSends { on_time_p99_ns: Some(60_000), ..LateSends::of(&lag.histogram, &healthy().service.histogram) };
        judge(&LoadResult { send_delay: lag, late, service: with_tail(50_000, 3_000, 90_000_000), ..healthy() }, None)
    };
    for delay_ns in [3_000_000, 44_000_000] {
        let late = verdict(1_100, delay_ns);
        assert_eq!(late.kind, VerdictKind::ClientLimited, "{}", late.reason);
        assert!(late.is_blameless_for_server());
    }
    let reason = verdict(1_100, 44_000_000).reason;
    assert!(reason.starts_with("send delay p99 44") && reason.contains(" ms exceeds the limit of 1 ms"), "{reason}");
    assert_eq!(verdict(90, 44_000_000).kind, VerdictKind::Valid, "a hiccup is tolerated");
    assert_eq!(
        verdict(990, 44_000_000).kind,
        VerdictKind::Valid,
        "the send delay p99.9 is below the service time p99.9"
    );
    let rare = LoadResult { send_delay: with_tail(1_000, 990, 44_000_000), ..healthy() };
    let interleaved = LoadResult { slices: Some(load::result::SliceResult::default()), ..rare.clone() };
    assert_eq!(judge(&interleaved, None).kind, VerdictKind::Valid, "the others of the heat have the same tail");
    assert!(
        judge(&rare, None).reason.starts_with("send delay p99.9 44"),
        "the send delay p99.9 is above the service time p99.9"
    );
    assert_eq!(verdict(5_001, 200_000).kind, VerdictKind::ClientLimited, "more than 5 % of the sends are late");
    assert_eq!(verdict(5_000, 200_000).kind, VerdictKind::Valid);
}

#[test]
fn receiver_that_is_always_busy_limits_the_client() {
    let piled_up = |busy: f64, server: f64, spins: bool| {
        let mut report = healthy();
        report.outstanding = Outstanding { at_start: 5, at_end: 400, after_cool_down: 0 };
        report.receiver_busy_share = Some(busy);
        let counters = used(server);
        judge(&report, Some(&ServerSide { spins, ..side(&counters, 1) })).kind
    };
    assert_eq!(piled_up(0.5, 0.5, false), VerdictKind::Saturated);
    assert_eq!(piled_up(0.99, 0.5, false), VerdictKind::ClientLimited);
    assert_eq!(
        piled_up(0.99, 0.85, false),
        VerdictKind::ClientLimited,
        "the server has more spare CPU time than the client"
    );
    assert_eq!(piled_up(0.99, 0.99, false), VerdictKind::Saturated, "client and server have no spare CPU time");
    assert_eq!(piled_up(0.99, 0.99, true), VerdictKind::ClientLimited);
    assert_eq!(
        kind(|r| r.receiver_busy_share = Some(0.99)),
        VerdictKind::ClientLimited,
        "responses wait for the receiver"
    );
}

#[test]
fn late_process_is_not_hidden_in_the_p99_of_all() {
    let mut report = healthy();
    let process = |lag: Measured| ProcessResult {
        place: String::new(),
        connections: 2,
        planned: 200,
        completed: 200,
        rate_sent_per_s: 200.0,
        send_delay: lag.distribution,
        service: report.service.distribution,
        cpu_ns: 0,
        begun_late_ns: 0,
        cpu_taken_by_others: None,
    };
    report.processes = vec![process(with_tail(200, 0, 0)), process(with_tail(200, 2_000, 44_000_000))];
    let verdict = judge(&report, None);
    assert_eq!(verdict.kind, VerdictKind::ClientLimited);
    assert!(verdict.reason.starts_with("highest send delay p99 of a client, client 2 44"), "{}", verdict.reason);
}

#[test]
fn valid_trial_states_that_the_client_caused_its_tail() {
    let send_delay = with_tail(200, 900, 900_000);
    let late = LateSends::of(&send_delay.histogram, &healthy().service.histogram);
    let verdict = judge(&LoadResult { send_delay, late, ..healthy() }, None);
    assert_eq!(verdict.kind, VerdictKind::Valid);
    assert!(
        verdict
            .reason
            .ends_with("the client may have caused the p99: it sent 0.90 % of the requests more than 0.1 ms late")
    );
    assert!(!judge(&healthy(), None).reason.contains("may have"));
}

#[test]
fn stalled_client_is_limited_or_its_tails_are_marked() {
    let closed = ClosedResult { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
    let closed = LoadResult { rate_asked_per_s: None, closed: Some(closed), ..healthy() };
    let two_threads = LoadResult { roles: Roles::TwoThreads, ..healthy() };
    for report in [closed, two_threads] {
        let stalled = |share: f64| LoadResult { stalled_ns: Some((share * 1e9) as u64), ..report.clone() };
        let verdict = judge(&stalled(0.1), None);
        assert_eq!(verdict.kind, VerdictKind::ClientLimited);
        let reason = "share of the window in which the client was stalled: 0.100 exceeds the limit of 0.050";
        assert_eq!(verdict.reason, reason);
        let (marked, clean) = (stalled(0.01), stalled(0.0));
        assert_eq!(judge(&marked, None).kind, VerdictKind::Valid);
        let reason = judge(&marked, None).reason;
        assert!(
            reason.ends_with("the client may have caused the p99: it was stalled for 1.00 % of the window"),
            "{reason}"
        );
        assert!(marked.is_client_tail(0.99) && !marked.is_client_tail(0.5));
        assert!(!clean.is_client_tail(0.99) && !judge(&clean, None).reason.contains("may have"));
    }
    let mut working = LoadResult {
        rate_asked_per_s: None,
        closed: Some(ClosedResult { unsampled: 0, busy_share: 0.94, cpus: 1, think_ns: 0 }),
        stalled_ns: Some(300_000_000),
        ..healthy()
    };
    assert_eq!(judge(&working, None).kind, VerdictKind::Valid, "stalls include the client's own work");
    working.stalled_ns = Some(60_000_000);
    assert_eq!(judge(&working, None).kind, VerdictKind::ClientLimited);
    let streams = |share: f64| LoadResult { stalled_ns: Some((share * 1e9) as u64), ..streaming() };
    assert_eq!(
        [0.1, 0.01].map(|share| judge(&streams(share), None).kind),
        [VerdictKind::ClientLimited, VerdictKind::Valid]
    );
}

#[test]
fn spinning_server_is_not_blamed_for_a_late_client() {
    let mut report = healthy();
    report.send_delay = measured([5_000_000; 10]);
    report.outstanding = Outstanding { at_start: 5, at_end: 400, after_cool_down: 0 };
    report.rate_achieved_per_s = 600.0;
    let counters = used(0.99);
    let of = |report: &LoadResult, spins: bool| judge(report, Some(&ServerSide { spins, ..side(&counters, 1) })).kind;
    assert_eq!(of(&report, false), VerdictKind::Saturated);
    assert_eq!(of(&report, true), VerdictKind::ClientLimited, "spinning is not work");
    report.send_delay = measured([200; 10]);
    assert_eq!(of(&report, true), VerdictKind::Saturated, "the client was on time");
}

#[test]
fn parts_without_requests_are_not_a_fast_beginning() {
    let judged = |parts: &dyn Fn(usize) -> u64| {
        let mut report = healthy();
        report.service.p50_by_part_ns = std::array::from_fn(parts);
        report.service.p90_by_part_ns = report.service.p50_by_part_ns;
        judge(&report, None)
    };
    let sparse = judged(&|part| if part < 2 { 0 } else { 20_000_000 });
    assert_eq!(sparse.kind, VerdictKind::Valid, "{}", sparse.reason);
    assert_eq!(judged(&|part| if part < 2 { 0 } else { 20_000_000 * part as u64 }).kind, VerdictKind::Saturated);
    assert_ne!(judged(&|part| if part < 23 { 20_000_000 } else { 0 }).kind, VerdictKind::Saturated);
    assert_eq!(judged(&|_| 0).kind, VerdictKind::Valid, "no part has requests");
    // With few requests, two fast parts in a row occur by chance.
    let few = judged(&|part| [0, 900_000, 800_000, 9_000_000, 0][part % 5] + 100_000 * u64::from(part > 25));
    assert_ne!(few.kind, VerdictKind::Saturated, "{}", few.reason);
}

#[test]
fn server_beyond_capacity_is_saturated_despite_late_client() {
    let mut report = healthy();
    report.rate_asked_per_s = Some(2_000.0);
    report.planned = 2_000;
    report.send_delay = measured([100_000_000; 10]);
    let counters = |busy: f64| {
        let mut counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        counters.totals.requests = Some(1_000);
        counters.totals.cpu_system_ns = (busy * 1e9) as u64;
        counters
    };
    assert_eq!(judge(&report, Some(&side(&counters(0.9), 1))).kind, VerdictKind::Saturated);
    assert_eq!(
        judge(&report, Some(&side(&counters(0.3), 1))).kind,
        VerdictKind::ClientLimited,
        "the server had spare CPU time"
    );
    assert_eq!(
        judge(&report, Some(&side(&counters(0.9), 2))).kind,
        VerdictKind::ClientLimited,
        "the server used one of two CPUs"
    );
    report.rate_asked_per_s = Some(1_000.0);
    report.planned = 1_000;
    report.send_delay = measured([200; 10]);
    assert_eq!(
        judge(&report, Some(&side(&counters(0.99), 1))).kind,
        VerdictKind::Valid,
        "a busy server that keeps up is valid"
    );
}

#[test]
fn errors_and_few_requests_fail_trial() {
    assert_eq!(kind(|r| r.errors.reset = 1), VerdictKind::Failed);
    assert_eq!(kind(|r| r.errors.wrong = 1), VerdictKind::Failed);
    assert_eq!(kind(|r| r.errors.timeout = 5), VerdictKind::Failed);
    // Errors are those of the whole trial, so the share is, too.
    assert_eq!(kind(|r| (r.errors.timeout, r.trial_requests) = (5, 5_000)), VerdictKind::Valid);
    assert_eq!(kind(|r| r.planned = 5), VerdictKind::Failed);
}

#[test]
fn reason_quotes_the_first_wrong_response() {
    let reason = |wrong: u64| {
        let mut report = LoadResult { first_wrong: Some("the server answered `-OOM`".into()), ..healthy() };
        report.errors.wrong = wrong;
        judge(&report, None).reason
    };
    assert_eq!(reason(2), "errors of class wrong: 2 exceeds the limit of 0; the server answered `-OOM`");
    assert!(!reason(0).contains("OOM"));
}

#[test]
fn reason_states_value_and_limit() {
    let mut report = healthy();
    report.outstanding = Outstanding { at_start: 50, at_end: 400, after_cool_down: 7 };
    let reason = judge(&report, None).reason;
    assert_eq!(reason, "increase of outstanding requests over the window: 350 exceeds the limit of 20");
}

#[test]
fn sends_off_their_plan_limit_client() {
    assert_eq!(kind(|r| r.fit = Some(fit(0.4, 1e-9))), VerdictKind::ClientLimited);
    assert_eq!(kind(|r| r.fit = Some(fit(0.4, 0.2))), VerdictKind::Valid, "the p-value is too high");
    assert_eq!(kind(|r| r.fit = Some(fit(0.1, 1e-9))), VerdictKind::Valid, "the effect is too small");
    assert_eq!(kind(|r| r.fit = None), VerdictKind::Valid, "without a test the trial is valid");
}

#[test]
fn server_that_slows_down_is_unsteady() {
    let slower = |factor: u64| {
        move |r: &mut LoadResult| {
            let tenths = std::array::from_fn(|tenth| 50_000 + 100 * tenth as u64 * if tenth < 5 { 1 } else { factor });
            r.service = measured(tenths);
        }
    };
    assert_eq!(kind(slower(1)), VerdictKind::Valid, "a trend of 2 % is tolerated");
    assert_eq!(kind(slower(100)), VerdictKind::Unsteady);
    let step = [50, 51, 50, 49, 50, 90, 91, 90, 89, 90].map(|us| us * 1_000);
    let mut report = healthy();
    report.service = measured(step);
    let verdict = judge(&report, None);
    assert_eq!(verdict.kind, VerdictKind::Unsteady);
    assert!(verdict.reason.contains("Pettitt change-point test): 0.800 (p "), "{}", verdict.reason);
}

#[test]
fn service_time_may_follow_a_rate_that_changes() {
    let peak = |r: &mut LoadResult| {
        r.service.p50_by_part_ns = std::array::from_fn(|part| if part < 8 { 50_000 } else { 9_000_000 });
    };
    assert_eq!(kind(peak), VerdictKind::Saturated);
    let varied = |r: &mut LoadResult| {
        peak(r);
        r.planned_by_part = Some([30; PARTS]);
    };
    assert_eq!(kind(varied), VerdictKind::Valid);
}

#[test]
fn server_slow_for_a_while_is_unsteady() {
    // Slow for a third of the window in the middle, a quarter at the end, or an eighth at the beginning.
    for slow in [11..21, 24..32, 0..4] {
        let mut report = healthy();
        report.service.p50_by_part_ns =
            std::array::from_fn(|part| if slow.contains(&part) { 500_000 } else { 50_000 + 500 * (part as u64 % 3) });
        assert_eq!(judge(&report, None).kind, VerdictKind::Unsteady, "{slow:?}");
    }
}

#[test]
fn shift_of_p90_alone_is_unsteady() {
    let mut report = healthy();
    report.service.p90_by_part_ns = std::array::from_fn(|part| if part < PARTS / 2 { 60_000 } else { 500_000 });
    let verdict = judge(&report, None);
    assert_eq!(verdict.kind, VerdictKind::Unsteady);
    assert!(verdict.reason.starts_with("shift of the 90th percentile"), "{}", verdict.reason);
}

#[test]
fn effects_of_the_machine_do_not_count_against_server() {
    let mut late = healthy();
    late.send_delay = measured([2_000_000; 10]);
    assert!(judge(&late, None).is_blameless_for_server());
    let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
    assert!(judge(&healthy(), Some(&ServerSide { taken: Some(0.6), ..side(&counters, 1) })).is_blameless_for_server());
    late.outstanding.at_end = 500;
    assert!(!judge(&late, None).is_blameless_for_server(), "the server may be a cause too");
    assert!(!judge(&healthy(), None).is_blameless_for_server(), "a valid trial has no failed check");
}

#[test]
fn server_whose_cpus_others_take_is_unsteady() {
    let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
    let of = |taken| judge(&healthy(), Some(&ServerSide { taken, ..side(&counters, 1) })).kind;
    assert_eq!(
        [of(None), of(Some(0.1)), of(Some(0.6))],
        [VerdictKind::Valid, VerdictKind::Valid, VerdictKind::Unsteady]
    );
    // In an interleaved trial they take as much from each contestant.
    let interleaved = LoadResult { slices: Some(load::result::SliceResult::default()), ..healthy() };
    let of = |taken| judge(&interleaved, Some(&ServerSide { taken: Some(taken), ..side(&counters, 1) })).kind;
    assert_eq!([of(0.4), of(0.6)], [VerdictKind::Valid, VerdictKind::Unsteady]);
}

#[test]
fn unanswered_datagram_fails_trial() {
    let one = |r: &mut LoadResult| r.errors.timeout = 1;
    assert_eq!(kind(one), VerdictKind::Valid);
    let mut report = healthy();
    report.transport = Transport::Udp;
    one(&mut report);
    assert_eq!(judge(&report, None).kind, VerdictKind::Failed);
}

#[test]
fn one_lost_datagram_in_a_hundred_is_valid() {
    let report = |lost: u64, dropped: Option<u64>| {
        let mut report = healthy();
        report.transport = Transport::Udp;
        report.outstanding.after_cool_down = lost;
        report.datagrams = Some(DatagramResult { ports: 10, lost, duplicates: 0, reordered: 0, dropped });
        report
    };
    let planned = healthy().planned;
    let kind = |lost, dropped| judge(&report(lost, dropped), None).kind;
    assert_eq!(kind(planned / 100, Some(0)), VerdictKind::Valid);
    assert_eq!(kind(planned / 100 + 1, None), VerdictKind::Saturated);
    assert_eq!(
        kind(planned / 100 + 1, Some(planned)),
        VerdictKind::ClientLimited,
        "the client's full sockets dropped the responses"
    );
    let mut unreachable = report(0, None);
    unreachable.errors.unreachable = 1;
    assert_eq!(judge(&unreachable, None).kind, VerdictKind::Failed);
}

#[test]
fn missing_idle_connections_fail_trial() {
    let with = |alive| {
        let idle = IdleResult { held: 30, alive, processes: 1, ..IdleResult::default() };
        with(&healthy(), |it| it.add_idle(&idle))
    };
    assert_eq!(with(30).kind, VerdictKind::Valid);
    let dead = with(29);
    assert_eq!(dead.kind, VerdictKind::Failed);
    assert_eq!(dead.reason, "idle connections alive at the end: 29 is below the limit of 30");
}

/// A network with 10 ms each way.
fn measured_network() -> crate::record::network::Measured {
    crate::record::network::Measured {
        round_trips: 200,
        round_trip_p50_ns: 20_100_000,
        round_trip_p99_ns: 20_500_000,
        host: None,
        sent: 2_000,
        lost: 0,
        bandwidth_bits_per_s: None,
    }
}

#[test]
fn relay_that_falls_behind_fails_trial() {
    let configured = Network { delay: crate::spec::units::Time(10_000_000), ..Network::default() };
    let with_links = |links, relay| {
        let report = NetworkRecord {
            applied: Applied { links, delay: Some(Means::Tun), loss: None, bandwidth: None },
            setup_ns: 1,
            measured: measured_network(),
            relay,
        };
        with(&healthy(), |it| it.add_network(&configured, &report))
    };
    let with = |relay| with_links(Links::Tun, relay);
    let account = RelayCounts { packets: 20_000, lost: 0, dropped: 2, late_p50_ns: 60_000, late_p99_ns: 400_000 };
    let kept_up = with(Some(account));
    assert_eq!(kept_up.kind, VerdictKind::Valid);
    let of_relay: Vec<Check> = kept_up.checks.into_iter().filter(|it| it.name.contains("relay")).collect();
    insta::assert_snapshot!(listed(&of_relay));
    let by_kernel = with_links(Links::Veth, None);
    assert_eq!(by_kernel.kind, VerdictKind::Valid, "a lab without a relay needs no relay report");
    let silent = with(None);
    assert_eq!(silent.kind, VerdictKind::Failed, "{}", silent.reason);
    for (worse, why) in [
        (
            RelayCounts { dropped: 57, ..account },
            "packets dropped by the lab's relay besides the configured loss: 57 exceeds the limit of 2",
        ),
        (
            RelayCounts { late_p50_ns: 2_500_000, ..account },
            "median of the delay added by the lab's relay 2.5 ms exceeds the limit of 1.5 ms",
        ),
        (
            RelayCounts { late_p99_ns: 90_000_000, ..account },
            "p99 of the delay added by the lab's relay 90 ms exceeds the limit of 15 ms",
        ),
    ] {
        let verdict = with(Some(worse));
        assert_eq!((verdict.kind, verdict.reason.as_str()), (VerdictKind::Failed, why));
    }
}

#[test]
fn disturbed_client_host_is_named_by_number() {
    let bandwidth = crate::spec::units::Bandwidth(100_000_000);
    let configured = Network { bandwidth: Some(bandwidth), .."lab:clients=5".parse().unwrap() };
    let reason = |host, lost, from_server| {
        let report = NetworkRecord {
            applied: Applied { links: Links::Veth, delay: None, loss: None, bandwidth: Some(Means::Tbf) },
            setup_ns: 1,
            measured: crate::record::network::Measured {
                round_trips: 200,
                round_trip_p50_ns: 100_000,
                round_trip_p99_ns: 200_000,
                host,
                sent: 2_000,
                lost,
                bandwidth_bits_per_s: Some([99e6, from_server]),
            },
            relay: None,
        };
        with(&healthy(), |it| it.add_network(&configured, &report)).reason
    };
    assert!(!reason(Some(3), 0, 99e6).contains("lab"), "the lab meets its conditions");
    let reason_found = reason(Some(3), 200, 99e6);
    assert!(
        reason_found.starts_with("share of datagrams lost in the lab (client host 3): 0.100 exceeds the limit of "),
        "{reason_found}"
    );
    let reason_found = reason(Some(4), 0, 50e6);
    assert!(
        reason_found.starts_with("bandwidth from the lab's server (client host 4) 50 Mbit/s is below the limit of"),
        "{reason_found}"
    );
    let reason_found = reason(None, 0, 50e6);
    assert!(
        reason_found.starts_with("bandwidth from the lab's server 50 Mbit/s is below the limit of"),
        "{reason_found}"
    );
}

/// A healthy trial of a closed loop.
fn closed() -> LoadResult {
    let closed = ClosedResult { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
    LoadResult {
        rate_asked_per_s: None,
        pacing: None,
        fit: None,
        completed_by_part: std::array::from_fn(|part| 1_000 + part as u64 % 3),
        closed: Some(closed),
        ..healthy()
    }
}

/// Returns the counters of a server that used this share of its only CPU.
fn used(share: f64) -> ServerCounters {
    let mut counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
    counters.totals.cpu_system_ns = (share * 1e9) as u64;
    counters
}

#[test]
fn closed_loop_is_client_limited_when_only_client_is_busy() {
    let of = |client: f64, server: Option<f64>| {
        let mut report = closed();
        report.closed.as_mut().unwrap().busy_share = client;
        let counters = server.map(used);
        judge(&report, counters.as_ref().map(|counters| side(counters, 1)).as_ref()).kind
    };
    assert_eq!(of(0.5, None), VerdictKind::Valid);
    assert_eq!(of(0.5, Some(0.99)), VerdictKind::Valid, "the server is the limit");
    assert_eq!(of(0.5, Some(0.5)), VerdictKind::Valid, "neither side is short of CPU time");
    assert_eq!(of(0.99, Some(0.5)), VerdictKind::ClientLimited);
    assert_eq!(of(0.99, Some(0.99)), VerdictKind::Valid, "both sides are busy");
    assert_eq!(of(0.99, None), VerdictKind::ClientLimited, "without counters the client is the limit");
}

#[test]
fn closed_loop_is_never_saturated() {
    let kind = |change: fn(&mut LoadResult)| {
        let mut report = closed();
        change(&mut report);
        judge(&report, Some(&side(&used(0.99), 1))).kind
    };
    assert_eq!(
        kind(|r| r.outstanding = Outstanding { at_start: 10, at_end: 500, after_cool_down: 0 }),
        VerdictKind::Valid
    );
    assert_eq!(kind(|r| r.send_delay = measured([200_000; 10])), VerdictKind::ClientLimited);
    let thinking = |r: &mut LoadResult| {
        r.send_delay = measured([200_000; 10]);
        r.closed.as_mut().unwrap().think_ns = 1_000_000;
    };
    assert_eq!(kind(thinking), VerdictKind::Valid, "the delay is short compared with the think time");
    assert_eq!(kind(|r| r.errors.miss = 1), VerdictKind::Failed);
    assert_eq!(kind(|r| r.errors.rejected = 1), VerdictKind::Failed);
    assert_eq!(kind(|r| r.planned = 5), VerdictKind::Failed);
}

#[test]
fn closed_loop_with_changing_rate_is_unsteady() {
    let kind = |change: fn(usize) -> u64| {
        let mut report = closed();
        report.completed_by_part = std::array::from_fn(change);
        judge(&report, None).kind
    };
    assert_eq!(kind(|part| 1_000 + part as u64), VerdictKind::Valid);
    assert_eq!(kind(|part| 1_000 + 40 * part as u64), VerdictKind::Unsteady, "the rate doubles");
    assert_eq!(kind(|part| if part < 16 { 1_000 } else { 600 }), VerdictKind::Unsteady, "the rate falls by 40 %");
    assert_eq!(kind(|part| if part < 16 { 1_000 } else { 800 }), VerdictKind::Valid);
    assert_eq!(kind(|part| if (11..21).contains(&part) { 300 } else { 1_000 }), VerdictKind::Unsteady);
    assert_eq!(kind(|part| if part == 7 { 100 } else { 1_000 }), VerdictKind::Valid, "one slow part is tolerated");
}

#[test]
fn closed_loop_lists_all_checks_with_limits() {
    insta::assert_snapshot!(listed(&judge(&closed(), None).checks));
}

#[test]
fn open_loop_lists_all_checks_with_limits() {
    let checks = judge(&healthy(), None).checks;
    insta::assert_snapshot!(listed(&checks));
    assert!(checks.iter().all(|check| check.passed));
    let mut names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks.len());
}

fn listed(checks: &[Check]) -> String {
    let shown = checks
        .iter()
        .map(|c| format!("{}: {} {:?} {} {} -> {:?}", c.name, c.value, c.bound, c.limit, c.unit, c.decides));
    shown.collect::<Vec<_>>().join("\n")
}
