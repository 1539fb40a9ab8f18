//! What may be believed of a trial, from the client's account of it and the server's counters.
//!
//! Thresholds leave room for what a shared machine does to a healthy trial: a neighbour that takes the CPU for some
//! milliseconds must not turn it into another. What is looked for are limits, which show over the whole window.

use load::LoadReport;
use server::ServerCounters;

use crate::record::{Verdict, VerdictKind};

/// A server keeps up when it answers at least this share of the rate asked for.
const RATE_SHARE_MIN: f64 = 0.98;
/// Requests pile up when more than this share of those planned are added to the outstanding over the window.
const PILE_UP_SHARE_MAX: f64 = 0.02;
/// Service time grows without end when its median in each of the last three tenths is this many times that of the first.
const SERVICE_GROWTH_MAX: f64 = 3.0;
/// A queue that grows shows in medians of at least this, in nanoseconds; less is noise of the machine.
const SERVICE_GROWTH_FLOOR_NS: u64 = 1_000_000;
/// The client keeps up while the median lag stays below this share of the interval between requests...
const LAG_SHARE_MAX: f64 = 0.5;
/// ...or below this, in nanoseconds: five times the paper's p99 (kawai2008 section 5.3).
const LAG_P50_MAX_NS: u64 = 100_000;
/// With fewer samples there are no quartiles worth the name.
const SAMPLES_MIN: u64 = 20;
/// Of this share of requests, an answer may be missing, on a server that is not saturated.
const TIMEOUT_SHARE_MAX: f64 = 0.001;

/// What a request costs a server is taken to hold for more of them once it is this busy: batching has had its effect.
const BUSY_SHARE_MIN: f64 = 0.8;

/// Judges a trial. `server` is what the server counted and the CPUs that it can use at once, if it is ours.
pub fn judge(report: &LoadReport, server: Option<(&ServerCounters, usize)>) -> Verdict {
    let verdict = |kind, reason| Verdict { kind, reason };
    if let Some(reason) = failure(report) {
        return verdict(VerdictKind::Failed, reason);
    }
    // What piles up at the server is the server's, even when the client is late as well: its lateness may follow.
    let beyond = || server.and_then(|(counters, cpus)| beyond_capacity(report, counters, cpus));
    if let Some(reason) = saturation(report).or_else(beyond) {
        return verdict(VerdictKind::Saturated, reason);
    }
    if let Some(reason) = client_limit(report) {
        return verdict(VerdictKind::ClientLimited, reason);
    }
    let timeouts = report.errors.timeout as f64 / report.planned.max(1) as f64;
    if timeouts > TIMEOUT_SHARE_MAX {
        return verdict(
            VerdictKind::Failed,
            format!("{} of {} requests were not answered", report.errors.timeout, report.planned),
        );
    }
    verdict(
        VerdictKind::Valid,
        format!(
            "{} requests, {:.1} % of the rate asked, lag p99 {:.1} us",
            report.completed,
            100.0 * report.rate_achieved_per_s / report.rate_asked_per_s,
            report.lag.distribution.p99_ns as f64 / 1e3
        ),
    )
}

fn failure(report: &LoadReport) -> Option<String> {
    let errors: Vec<String> = report
        .errors
        .by_class()
        .into_iter()
        .filter(|&(class, count)| count > 0 && class != "timeout")
        .map(|(class, count)| format!("{count} {class}"))
        .collect();
    if !errors.is_empty() {
        return Some(format!("errors: {}", errors.join(", ")));
    }
    (report.planned < SAMPLES_MIN).then(|| {
        format!("{} requests in the window, at least {SAMPLES_MIN} are needed; measure longer", report.planned)
    })
}

fn saturation(report: &LoadReport) -> Option<String> {
    let planned = report.planned as f64;
    let piled_up = report.outstanding.at_end.saturating_sub(report.outstanding.at_start);
    // A few requests are always under way: half of the connections' worth of noise would be too much, a handful is not.
    let piles_up = piled_up as f64 > (planned * PILE_UP_SHARE_MAX).max(10.0);
    // At a low rate one request more or less at the window's edges is a large share.
    let short = report.rate_achieved_per_s < RATE_SHARE_MIN * report.rate_sent_per_s.min(report.rate_asked_per_s)
        && piled_up > 10;
    let medians = report.service.p50_by_tenth_ns;
    let (first, last) = (medians[0].max(1), medians[9]);
    let grows =
        medians[7..].iter().all(|&p50| p50 > SERVICE_GROWTH_FLOOR_NS && p50 as f64 > SERVICE_GROWTH_MAX * first as f64);
    let unanswered = report.outstanding.after_drain as f64 > (planned * PILE_UP_SHARE_MAX).max(10.0);
    (piles_up || short || grows || unanswered).then(|| {
        format!(
            "{:.0} of {:.0} requests/s answered; outstanding {} -> {} over the window, {} after the drain; \
             median service time {:.1} -> {:.1} ms from its first tenth to its last",
            report.rate_achieved_per_s,
            report.rate_asked_per_s,
            report.outstanding.at_start,
            report.outstanding.at_end,
            report.outstanding.after_drain,
            first as f64 / 1e6,
            last as f64 / 1e6,
        )
    })
}

/// Where the client was late too, nothing piles up at the server. It is beyond its capacity all the same when, at what a
/// request cost it, the rate asked for would take more CPU time than there is.
fn beyond_capacity(report: &LoadReport, counters: &ServerCounters, cpus: usize) -> Option<String> {
    let requests = counters.totals.requests as f64;
    if report.rate_achieved_per_s >= RATE_SHARE_MIN * report.rate_asked_per_s || requests == 0.0 {
        return None;
    }
    let busy = counters.totals.cpu_ns() as f64 / counters.window_ns as f64 / cpus as f64;
    let needed = counters.totals.cpu_ns() as f64 / requests * report.rate_asked_per_s / 1e9;
    (busy >= BUSY_SHARE_MIN && needed > cpus as f64).then(|| {
        format!(
            "{:.0} of {:.0} requests/s answered with the server's CPUs {:.0} % busy: for all it would need {needed:.1} CPUs \
             and has {cpus}; the client was late as well (lag p99 {:.1} ms)",
            report.rate_achieved_per_s,
            report.rate_asked_per_s,
            100.0 * busy,
            report.lag.distribution.p99_ns as f64 / 1e6
        )
    })
}

fn client_limit(report: &LoadReport) -> Option<String> {
    let interval_ns = 1e9 / report.rate_asked_per_s;
    let p50_ns = report.lag.distribution.p50_ns;
    let late = p50_ns > LAG_P50_MAX_NS && p50_ns as f64 > LAG_SHARE_MAX * interval_ns;
    let behind = report.rate_sent_per_s < RATE_SHARE_MIN * report.planned as f64 * 1e9 / report.window_ns as f64
        && report.lag.p50_by_tenth_ns[9] > LAG_P50_MAX_NS;
    (late || behind).then(|| {
        format!(
            "{:.0} of {:.0} requests/s sent in time; lag p50 {:.1} us, p99 {:.1} us: the client could not keep its schedule",
            report.rate_sent_per_s,
            report.rate_asked_per_s,
            p50_ns as f64 / 1e3,
            report.lag.distribution.p99_ns as f64 / 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use load::config::{Pacing, Roles};
    use load::report::{ClockFacts, Errors, Measured, Outstanding};
    use stats::Histogram;

    use super::*;

    fn measured(tenths_ns: [u64; 10]) -> Measured {
        let histogram: Histogram = tenths_ns.iter().flat_map(|&ns| [ns; 10]).collect();
        Measured { distribution: histogram.distribution(), p50_by_tenth_ns: tenths_ns, histogram }
    }

    /// A healthy trial of 1 000 requests in a second.
    fn healthy() -> LoadReport {
        LoadReport {
            clock: ClockFacts { source: "tsc".into(), reason: String::new(), frequency_hz: 1e9, drift_ppm: 0.0 },
            pacing: Pacing::Spin,
            roles: Roles::OneLoop,
            connections: 10,
            connect_ns: 0,
            window_ns: 1_000_000_000,
            rate_asked_per_s: 1_000.0,
            planned: 1_000,
            sent: 1_000,
            completed: 1_000,
            rate_achieved_per_s: 999.0,
            rate_sent_per_s: 1_000.0,
            outstanding: Outstanding { at_start: 1, at_end: 2, after_drain: 0 },
            errors: Errors::default(),
            lag: measured([200; 10]),
            service: measured([50_000; 10]),
            response: measured([50_200; 10]),
            memory_bytes_per_connection: 48.0,
            cpu_ns: 0,
            involuntary_switches: 0,
        }
    }

    fn kind(change: impl FnOnce(&mut LoadReport)) -> VerdictKind {
        let mut report = healthy();
        change(&mut report);
        judge(&report, None).kind
    }

    #[test]
    fn a_healthy_trial_is_valid_and_so_is_one_with_a_hiccup() {
        assert_eq!(kind(|_| ()), VerdictKind::Valid);
        assert_eq!(
            kind(|r| r.lag = measured([200, 200, 200, 9_000_000, 200, 200, 200, 200, 200, 200])),
            VerdictKind::Valid
        );
        assert_eq!(kind(|r| r.service.p50_by_tenth_ns[9] = 8_000_000), VerdictKind::Valid, "one tenth is no trend");
        assert_eq!(kind(|r| r.outstanding.at_end = 9), VerdictKind::Valid);
    }

    #[test]
    fn requests_that_pile_up_are_the_server_s() {
        let kind_of = |r: &mut LoadReport| {
            r.rate_achieved_per_s = 600.0;
            r.outstanding = Outstanding { at_start: 50, at_end: 400, after_drain: 0 };
        };
        assert_eq!(kind(kind_of), VerdictKind::Saturated);
        let late_as_well = |r: &mut LoadReport| {
            kind_of(r);
            r.lag = measured([5_000_000; 10]);
        };
        assert_eq!(kind(late_as_well), VerdictKind::Saturated);
        let growing = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|ms| ms * 1_000_000);
        assert_eq!(kind(|r| r.service = measured(growing)), VerdictKind::Saturated);
        assert_eq!(kind(|r| r.outstanding.after_drain = 100), VerdictKind::Saturated);
    }

    #[test]
    fn lateness_without_a_pile_is_the_client_s() {
        assert_eq!(kind(|r| r.lag = measured([2_000_000; 10])), VerdictKind::ClientLimited);
        let behind = |r: &mut LoadReport| {
            r.rate_sent_per_s = 900.0;
            r.rate_achieved_per_s = 899.0;
            r.lag.p50_by_tenth_ns[9] = 100_000_000;
        };
        assert_eq!(kind(behind), VerdictKind::ClientLimited);
    }

    #[test]
    fn a_server_beyond_its_capacity_is_saturated_though_the_client_is_late_too() {
        let mut report = healthy();
        report.rate_asked_per_s = 2_000.0;
        report.lag = measured([100_000_000; 10]);
        let counters = |busy: f64| {
            let mut counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
            counters.totals.requests = 1_000;
            counters.totals.cpu_system_ns = (busy * 1e9) as u64;
            counters
        };
        assert_eq!(judge(&report, Some((&counters(0.9), 1))).kind, VerdictKind::Saturated);
        assert_eq!(judge(&report, Some((&counters(0.3), 1))).kind, VerdictKind::ClientLimited, "it had time to spare");
        assert_eq!(judge(&report, Some((&counters(0.9), 2))).kind, VerdictKind::ClientLimited, "on one of two CPUs");
        report.rate_asked_per_s = 1_000.0;
        report.lag = measured([200; 10]);
        assert_eq!(judge(&report, Some((&counters(0.99), 1))).kind, VerdictKind::Valid, "busy, and keeps up");
    }

    #[test]
    fn errors_and_too_little_fail() {
        assert_eq!(kind(|r| r.errors.reset = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.errors.wrong = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.errors.timeout = 5), VerdictKind::Failed);
        assert_eq!(kind(|r| r.planned = 5), VerdictKind::Failed);
    }

    #[test]
    fn reasons_carry_the_numbers() {
        let mut report = healthy();
        report.outstanding = Outstanding { at_start: 50, at_end: 400, after_drain: 7 };
        let reason = judge(&report, None).reason;
        assert!(reason.contains("50 -> 400") && reason.contains("7 after the drain"), "{reason}");
    }
}
