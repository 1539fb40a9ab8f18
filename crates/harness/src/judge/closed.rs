//! Checks of a closed loop. It has no rate, so its verdict is never `saturated`. It can be `client-limited`.

use load::LoadResult;
use load::result::ClosedResult;

use super::check::{at_least, at_most};
use super::limits::{
    CLIENT_BUSY_SHARE_MAX, SEND_DELAY_P50_NS, SEND_DELAY_SHARE_MAX, SERVER_BUSY_SHARE_MIN, UNSAMPLED_SHARE_MAX,
};
use super::{ServerSide, clients, steady, sufficient};
use crate::record::Check;
use crate::record::VerdictKind::{ClientLimited, Unsteady};

/// Returns the checks, and the reason shown for a valid trial.
pub(super) fn checks(
    report: &LoadResult,
    closed: &ClosedResult,
    server: Option<&ServerSide<'_>>,
) -> (Vec<Check>, String) {
    let think_ns = SEND_DELAY_SHARE_MAX * closed.think_ns as f64;
    let completed = report.completed_by_part.map(|count| count as f64);
    let checks = [
        sufficient::errors(report),
        vec![sufficient::requests(report)],
        clients::send_delay(report, SEND_DELAY_P50_NS.max(think_ns), think_ns),
        clients::stalled(report).into_iter().chain([client_busy(closed, server)]).collect(),
        vec![sufficient::unanswered(report), unsampled(report, closed)],
        if report.slices.is_some() { Vec::new() } else { steady::throughput("transactions", &completed) },
        steady::service(report, server),
    ];
    let reason = format!(
        "{} transactions, {:.0} a second, {}{}",
        report.completed,
        report.rate_achieved_per_s,
        cpu_use(closed, server),
        clients::tails(report)
    );
    (checks.concat(), reason)
}

/// CPU use of client and server in words.
pub(super) fn cpu_use(closed: &ClosedResult, server: Option<&ServerSide<'_>>) -> String {
    let server = server.map(|server| format!(", the server {:.0} %", 100.0 * server.busy_share()));
    format!("the client used {:.0} % of its CPUs{}", 100.0 * closed.busy_share, server.unwrap_or_default())
}

/// Checks that the client had spare CPU time, or that the server had none. With a busy server, a faster client would not
/// raise the throughput.
pub(super) fn client_busy(closed: &ClosedResult, server: Option<&ServerSide<'_>>) -> Check {
    let busy_server = server.filter(|server| server.has_worked(SERVER_BUSY_SHARE_MIN));
    match busy_server.filter(|_| closed.busy_share > CLIENT_BUSY_SHARE_MAX) {
        Some(server) => {
            let name = "share of the server's CPUs that it used, as the client had no spare CPU time";
            at_least(name, server.busy_share(), SERVER_BUSY_SHARE_MIN, "", ClientLimited)
        }
        None => at_most(
            "share of the client's CPUs that it used",
            closed.busy_share,
            CLIENT_BUSY_SHARE_MAX,
            "",
            ClientLimited,
        ),
    }
}

fn unsampled(report: &LoadResult, closed: &ClosedResult) -> Check {
    let share = closed.unsampled as f64 / report.planned.max(1) as f64;
    let name = "share of transactions without a sample for lack of memory (lower phases.measure)";
    match report.slices {
        // The figures of slices come from samples alone.
        Some(_) => at_most(name, share, 0.0, "", ClientLimited),
        None => at_most(name, share, UNSAMPLED_SHARE_MAX, "", Unsteady),
    }
}
