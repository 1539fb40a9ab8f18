//! Checks of the clients: their send delays, stalls, CPUs and start.

use load::LoadResult;
use load::config::Phases;
use load::result::{LATE_SHARE_MAX as LATE_SENDS_SHARE_MAX, ProcessResult};

use super::check::at_most;
use super::limits::{BEYOND_P99_MIN, BEYOND_P999_MIN, DELAY_P99_NS, DELAY_P999_NS, LATE_SHARE_MAX, TAKEN_SHARE_MAX};
use crate::record::Check;
use crate::record::VerdictKind::ClientLimited;

/// Checks the median and the tails of the send delay, of all clients and of the worst one. `p50_max_ns` limits the median;
/// limits of the tails are at least `tail_ns_min`. In interleaved trials late sends delay all contestants alike: they mark the tails
/// (`LoadResult::is_client_tail`), but the medians still rank.
pub(super) fn send_delay(report: &LoadResult, p50_max_ns: f64, tail_ns_min: f64) -> Vec<Check> {
    let mut checks = vec![median("median send delay".into(), report.send_delay.distribution.p50_ns, p50_max_ns)];
    // The median over all processes hides a single late process.
    if let Some((at, worst)) = report.processes.iter().enumerate().max_by_key(|(_, process)| process.send_delay.p50_ns)
    {
        let name = format!("highest median send delay of a client, {}", place(at, worst));
        checks.push(median(name, worst.send_delay.p50_ns, p50_max_ns));
    }
    if report.slices.is_none() {
        checks.extend(tail_delays(report, tail_ns_min));
    }
    checks
}

fn median(name: String, p50_ns: u64, max_ns: f64) -> Check {
    at_most(name, p50_ns as f64 / 1e3, max_ns / 1e3, "us", ClientLimited)
}

/// Checks that the tails of the send delay stay below those of the service time.
fn tail_delays(report: &LoadResult, ns_min: f64) -> Vec<Check> {
    let late = report.late_sends();
    let service = &report.service.distribution;
    // Requests sent on time also wait behind the client's bursts. The median p90 of all parts excludes such bursts.
    let mut p90s_ns: Vec<u64> = report.service.p90_by_part_ns.iter().copied().filter(|&ns| ns > 0).collect();
    p90s_ns.sort_unstable();
    let usual_ns = p90s_ns.get(p90s_ns.len() / 2).copied().unwrap_or(u64::MAX);
    let p99_max_ns = late.on_time_p99_ns.unwrap_or(service.p99_ns).min(usual_ns) as f64;
    let p999_max_ns = late.on_time_p999_ns.unwrap_or(service.p999_ns) as f64;
    let (p99_max_ns, p999_max_ns) =
        (p99_max_ns.max(DELAY_P99_NS).max(ns_min), p999_max_ns.max(DELAY_P999_NS).max(ns_min));
    let below = |name: &str, delay_ns: u64, max_ns: f64| {
        at_most(name, delay_ns as f64 / 1e6, max_ns / 1e6, "ms", ClientLimited)
    };
    let has_p99 = |count: u64| count as f64 * 0.01 >= BEYOND_P99_MIN;
    let delay = &report.send_delay.distribution;
    let mut checks = Vec::new();
    if has_p99(delay.count) {
        checks.push(below("send delay p99", delay.p99_ns, p99_max_ns));
    }
    let known = report.processes.iter().enumerate().filter(|(_, it)| has_p99(it.send_delay.count));
    if let Some((at, worst)) = known.max_by_key(|(_, process)| process.send_delay.p99_ns) {
        let name = format!("highest send delay p99 of a client, {}", place(at, worst));
        checks.push(below(&name, worst.send_delay.p99_ns, p99_max_ns));
    }
    if delay.count as f64 * 0.001 >= BEYOND_P999_MIN {
        checks.push(below("send delay p99.9", delay.p999_ns, p999_max_ns));
    }
    checks
}

/// Returns the place of a client, or its number.
fn place(at: usize, process: &ProcessResult) -> String {
    if process.place.is_empty() { format!("client {}", at + 1) } else { process.place.clone() }
}

/// Checks the share of late sends. A share above the limit can raise even the median response time.
pub(super) fn late_sends(report: &LoadResult) -> Check {
    let late = report.late_sends();
    let share = late.count as f64 / late.sent.max(1) as f64;
    at_most("share of requests sent late", share, LATE_SENDS_SHARE_MAX, "", ClientLimited)
}

/// Checks the share of the window in which a client whose threads sleep was stalled. The client's own work also delays the
/// meter of stalls, so the share counts only if stalls and work together fit into the window.
pub(super) fn stalled(report: &LoadResult) -> Option<Check> {
    let own = report.closed.as_ref().map(|closed| closed.busy_share).or(report.receiver_busy_share).unwrap_or(0.0);
    let share = report.stalled_share().filter(|share| share + own <= 1.0)?;
    let name = "share of the window in which the client was stalled";
    Some(at_most(name, share, LATE_SENDS_SHARE_MAX, "", ClientLimited))
}

/// Returns a remark on a valid trial if the client may have caused its p99.
pub(super) fn tails(report: &LoadResult) -> String {
    if !report.is_client_tail(0.99) {
        return String::new();
    }
    let late = report.late_sends();
    if late.stalled > 0 {
        let share = 100.0 * report.stalled_share().unwrap_or(0.0);
        return format!("; the client may have caused the p99: it was stalled for {share:.2} % of the window");
    }
    let (share, bound_ms) = (100.0 * late.share(), late.bound_ns as f64 / 1e6);
    format!(
        "; the client may have caused the p99: it sent {share:.2} % of the requests more than {bound_ms:.1} ms late"
    )
}

/// Checks the highest delay of a start order, and the share of each client's CPUs that other processes took, if known.
pub(super) fn checks(report: &LoadResult, phases: Phases) -> Vec<Check> {
    let taken = |process: &ProcessResult| {
        let name = format!("share of the client's CPUs taken by others, {}", process.place);
        Some(at_most(name, process.cpu_taken_by_others?, TAKEN_SHARE_MAX, "", ClientLimited))
    };
    begun_late(report, phases).into_iter().chain(report.processes.iter().filter_map(taken)).collect()
}

fn begun_late(report: &LoadResult, phases: Phases) -> Option<Check> {
    let late_ns = Some(report.begun_late_ns).filter(|late_ns| *late_ns > 0)?;
    let worst = report.processes.iter().find(|process| process.begun_late_ns == late_ns);
    let client = worst.filter(|it| !it.place.is_empty()).map(|it| format!(", {}", it.place)).unwrap_or_default();
    let limit_ms = LATE_SHARE_MAX * (phases.ramp_ns + phases.warm_up_ns) as f64 / 1e6;
    Some(at_most(
        format!("delay of the client's start order{client}"),
        late_ns as f64 / 1e6,
        limit_ms,
        "ms",
        ClientLimited,
    ))
}
