//! Checks of an open loop: whether the server or the client could not keep up with the requested rate.

use load::LoadResult;
use load::result::PARTS;

use super::check::{at_least, at_most, effect};
use super::limits::{
    BUSY_SHARE_MIN, EDGE_REQUESTS, FIT_DISTANCE_MAX, FIT_P_VALUE_MIN, LOST_SHARE_MAX, PILE_UP_SHARE_MAX,
    RATE_SHARE_MIN, RECEIVER_BUSY_SHARE_MAX, SEND_DELAY_P50_NS, SEND_DELAY_SHARE_MAX, SERVER_BUSY_SHARE_MIN,
    SERVICE_GROWTH_FIRST, SERVICE_GROWTH_FIRST_OF_FEW, SERVICE_GROWTH_FLOOR_NS, SERVICE_GROWTH_MAX,
    SERVICE_GROWTH_PARTS, SERVICE_GROWTH_REQUESTS,
};
use super::{ServerSide, clients, steady, sufficient};
use crate::record::VerdictKind::{ClientLimited, Saturated};
use crate::record::{Check, requests_answered};

/// Returns the checks, and the reason shown for a valid trial.
pub(super) fn checks(report: &LoadResult, rate_per_s: f64, server: Option<&ServerSide<'_>>) -> (Vec<Check>, String) {
    // A late client sends bursts and reads late, which looks like requests piling up at the server. Therefore the server's
    // checks come first only if the server was busy. If the client's receiver was busy too, this needs an even busier server.
    let is_receiver_busy = report.receiver_busy_share.is_some_and(|share| share > RECEIVER_BUSY_SHARE_MAX);
    let share_min = if is_receiver_busy { SERVER_BUSY_SHARE_MIN } else { BUSY_SHARE_MIN };
    let mut limits = [client_limits(report, rate_per_s), saturation(report, rate_per_s, server)];
    if server.is_some_and(|server| server.has_worked(share_min)) {
        limits.reverse();
    }
    let reason = format!(
        "{} requests, {:.1} % of the requested rate, send delay p99 {:.1} us{}",
        report.completed,
        100.0 * report.rate_achieved_per_s / rate_per_s,
        report.send_delay.distribution.p99_ns as f64 / 1e3,
        clients::tails(report)
    );
    let failures = [sufficient::failures(report), limits.concat()];
    let rest = [vec![sufficient::unanswered(report)], steady::service(report, server)];
    ([failures.concat(), rest.concat()].concat(), reason)
}

fn saturation(report: &LoadResult, rate_per_s: f64, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    let window_s = report.window_ns as f64 / 1e9;
    let pile_max = (report.planned as f64 * PILE_UP_SHARE_MAX).max(EDGE_REQUESTS);
    let piled_up = report.outstanding.at_end as f64 - report.outstanding.at_start as f64;
    let due_per_s = report.rate_sent_per_s.min(rate_per_s);
    let answered_min = RATE_SHARE_MIN * due_per_s - EDGE_REQUESTS / window_s;
    let (last_ns, grown_ns) = growth(&report.service.p50_by_part_ns, report.completed);
    let mut checks = vec![
        at_least("requests answered", report.rate_achieved_per_s, answered_min, "a second", Saturated),
        at_most("increase of outstanding requests over the window", piled_up, pile_max, "", Saturated),
    ];
    if report.datagrams.is_none() {
        let unanswered = report.outstanding.after_cool_down as f64;
        checks.push(at_most("requests unanswered after the cool-down", unanswered, pile_max, "", Saturated));
    }
    // Service times follow a rate that changes.
    if report.planned_by_part.is_none() {
        checks.push(at_most("median service time at the end", last_ns / 1e6, grown_ns / 1e6, "ms", Saturated));
    }
    if let Some(datagrams) = &report.datagrams {
        // Full buffers lose datagrams. Blame the server's buffers, unless those of the client overflowed.
        let share = datagrams.lost as f64 / report.planned.max(1) as f64;
        checks.push(at_most("share of requests lost", share, LOST_SHARE_MAX, "", Saturated));
    }
    checks.extend(server.and_then(|server| beyond_capacity(report, server)));
    checks
}

/// Returns the lowest median of the last parts, and its limit, in nanoseconds. Parts without requests have no median.
fn growth(medians_ns: &[u64; PARTS], requests: u64) -> (f64, f64) {
    let known = |parts: &[u64]| parts.iter().filter(|&&ns| ns > 0).map(|&ns| ns as f64).collect::<Vec<_>>();
    let has_few = requests < SERVICE_GROWTH_REQUESTS * PARTS as u64;
    let first_count = if has_few { SERVICE_GROWTH_FIRST_OF_FEW } else { SERVICE_GROWTH_FIRST };
    let first_ns = known(medians_ns).into_iter().take(first_count).fold(0.0, f64::max);
    let last_ns = known(&medians_ns[PARTS - SERVICE_GROWTH_PARTS..]).into_iter().reduce(f64::min).unwrap_or(0.0);
    (last_ns, (SERVICE_GROWTH_MAX * first_ns).max(SERVICE_GROWTH_FLOOR_NS))
}

/// If a busy server fell short of the planned rate, checks how many CPUs this rate needs at the measured CPU time per request.
/// Requests of a late client come in bursts, which cost less each; requests on time would need even more CPUs.
fn beyond_capacity(report: &LoadResult, server: &ServerSide<'_>) -> Option<Check> {
    let requests = requests_answered(server.counters, report);
    // A Poisson process may plan fewer requests than configured.
    let planned_per_s = report.planned as f64 / (report.window_ns as f64 / 1e9);
    let falls_short = report.rate_achieved_per_s < RATE_SHARE_MIN * planned_per_s && requests > 0.0;
    (falls_short && server.has_worked(BUSY_SHARE_MIN)).then(|| {
        let needed = server.counters.cpu_ns() as f64 / requests * planned_per_s / 1e9;
        at_most("CPUs that the server would need for the rate", needed, server.cpus as f64, "", Saturated)
    })
}

fn client_limits(report: &LoadResult, rate_per_s: f64) -> Vec<Check> {
    let mut checks = clients::send_delay(report, SEND_DELAY_P50_NS.max(SEND_DELAY_SHARE_MAX * 1e9 / rate_per_s), 0.0);
    checks.push(clients::late_sends(report));
    checks.extend(clients::stalled(report));
    let busy = "share of the window in which the client's receiver was busy";
    checks.extend(
        report.receiver_busy_share.map(|share| at_most(busy, share, RECEIVER_BUSY_SHARE_MAX, "", ClientLimited)),
    );
    // With short-lived connections, the server may delay the sends: they follow a response, or wait for a free connection.
    if report.churn.is_none() {
        let sent_min = (RATE_SHARE_MIN * report.planned as f64 - EDGE_REQUESTS) / (report.window_ns as f64 / 1e9);
        checks.push(at_least("requests sent in time", report.rate_sent_per_s, sent_min, "a second", ClientLimited));
    }
    checks.extend(report.datagrams.as_ref().and_then(|datagrams| datagrams.dropped).map(|dropped| {
        let share = dropped as f64 / report.planned.max(1) as f64;
        at_most("share of responses dropped by the client's full sockets", share, LOST_SHARE_MAX, "", ClientLimited)
    }));
    let fit =
        |fit| effect("distance of the sends from their plan", fit, FIT_DISTANCE_MAX, FIT_P_VALUE_MIN, ClientLimited);
    checks.extend(report.fit.as_ref().map(fit));
    checks
}
