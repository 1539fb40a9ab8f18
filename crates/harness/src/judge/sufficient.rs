//! Checks for enough requests, for errors, and for implausible figures.

use load::LoadResult;
use load::config::Transport;
use load::result::PARTS;

use super::ServerSide;
use super::check::{at_least, at_most, none};
use super::limits::{COUNTED_LATE_NS, COUNTED_LATE_SHARE_MAX, DRIFT_PPM_MAX, SERVICE_GROWTH_PARTS, TIMEOUT_SHARE_MAX};
use crate::record::Check;
use crate::record::VerdictKind::{Failed, Unsteady};

/// Checks the clock, the histogram and the counters, on which all other figures depend.
pub(super) fn plausible(report: &LoadResult, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    let drift_ppm = report.clock.drift_ppm.abs();
    let mut checks = vec![
        none("requests in which the client's clock went backwards", report.clock.went_back),
        at_most("drift of the client's clock against the kernel's", drift_ppm, DRIFT_PPM_MAX, "ppm", Failed),
        none("response times of an hour or more, beyond the histogram", report.response.histogram.saturated()),
    ];
    checks.extend(server.map(|server| {
        let fell = &server.counters.fell;
        let names = if fell.is_empty() { String::new() } else { format!(" ({})", fell.join(", ")) };
        none(format!("server counters that decreased in the window{names}"), fell.len() as u64)
    }));
    checks
}

/// Checks that the server's counters were read at the window's edges.
pub(super) fn counted_late(report: &LoadResult, server: &ServerSide<'_>) -> Check {
    let limit_ms = COUNTED_LATE_NS.max(COUNTED_LATE_SHARE_MAX * report.window_ns as f64) / 1e6;
    at_most(Check::COUNTED_LATE, server.late_ns as f64 / 1e6, limit_ms, "ms", Unsteady)
}

/// Checks that there are enough requests, no errors, and responses to the end. These decide before the limits of the client: a late
/// client does not silence a server.
pub(super) fn failures(report: &LoadResult) -> Vec<Check> {
    let mut checks = errors(report);
    // A slow server still answers earlier requests at the end.
    checks.extend((report.errors.timeout > 0 && report.stream.is_none()).then(|| {
        let answered: u64 = report.completed_by_part[PARTS - SERVICE_GROWTH_PARTS..].iter().sum();
        at_least("responses in the last third of the window", answered as f64, 1.0, "", Failed)
    }));
    checks.push(requests(report));
    checks
}

/// Checks each class of errors, except timeouts, which [`unanswered`] checks.
pub(super) fn errors(report: &LoadResult) -> Vec<Check> {
    let classes = report.errors.by_class().into_iter().filter(|(class, _)| *class != "timeout");
    classes.map(|(class, count)| none(format!("{} {class}", Check::ERRORS), count)).collect()
}

fn requests(report: &LoadResult) -> Check {
    at_least(Check::REQUESTS, report.planned as f64, Check::REQUESTS_MIN, "", Failed)
}

pub(super) fn unanswered(report: &LoadResult) -> Check {
    let share = report.error_share(report.errors.timeout);
    let limit = match report.transport {
        Transport::Tcp | Transport::Unix => TIMEOUT_SHARE_MAX,
        Transport::Udp => 0.0,
    };
    at_most(Check::UNANSWERED, share, limit, "", Failed)
}
