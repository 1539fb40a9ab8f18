//! Checks of a closed loop and of streams. They have no rate, so the verdict is never `saturated`. It can be `client-limited`.
//! Checks of streams count bytes, because a window may have few complete bursts.

use load::LoadResult;
use load::result::{ClosedResult, PARTS, StreamResult};
use server::metrics::counters::Totals;
use wire::stream::Stream;

use super::check::{ServerSide, at_least, at_most, none};
use super::limits::{
    CLIENT_BUSY_SHARE_MAX, SEND_DELAY_P50_NS, SEND_DELAY_SHARE_MAX, SERVER_BUSY_SHARE_MIN, UNSAMPLED_SHARE_MAX,
};
use super::{clients, steady, sufficient};
use crate::record::Check;
use crate::record::VerdictKind::{ClientLimited, Failed, Unsteady};

/// Returns the checks, and the reason shown for a valid trial.
pub(super) fn checks(
    report: &LoadResult,
    closed: &ClosedResult,
    server: Option<&ServerSide<'_>>,
) -> (Vec<Check>, String) {
    let think_ns = SEND_DELAY_SHARE_MAX * closed.think_ns as f64;
    let completed = report.completed_by_part.map(|count| count as f64);
    let checks = [
        sufficient::failures(report),
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
fn cpu_use(closed: &ClosedResult, server: Option<&ServerSide<'_>>) -> String {
    let server = server.map(|server| format!(", the server {:.0} %", 100.0 * server.busy_share()));
    format!("the client used {:.0} % of its CPUs{}", 100.0 * closed.busy_share, server.unwrap_or_default())
}

/// Checks that the client had spare CPU time, or that the server had none. With a busy server, a faster client would not
/// raise the throughput.
fn client_busy(closed: &ClosedResult, server: Option<&ServerSide<'_>>) -> Check {
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

/// Returns the checks of a stream, and the reason shown for a valid trial.
pub(super) fn of_stream(
    report: &LoadResult,
    closed: &ClosedResult,
    stream: &StreamResult,
    server: Option<&ServerSide<'_>>,
) -> (Vec<Check>, String) {
    let unended = u64::from(report.connections.saturating_sub(stream.ended));
    // Use the receiver's bytes: those of the sender may still be in socket buffers.
    let part_s = report.window_ns as f64 / 1e9 / PARTS as f64;
    let by_client = || stream.bytes_by_part.map(|bytes| bytes as f64 / part_s);
    let by_part = server.and_then(|server| server.took_in).unwrap_or_else(by_client);
    let mut checks = sufficient::errors(report);
    checks.push(at_least("bytes in the window", stream.bytes as f64, 1.0, "", Failed));
    checks.push(none("streams still open after the cool-down (raise phases.cool-down)", unended));
    checks.extend(clients::stalled(report));
    checks.push(client_busy(closed, server));
    checks.extend(steady::throughput("bandwidth", &by_part));
    checks.extend(steady::taken_cpus(report, server));
    let reason = format!(
        "{:.0} MB/s, fairness {:.3}, {}",
        by_part.iter().sum::<f64>() / PARTS as f64 / 1e6,
        stream.fairness,
        cpu_use(closed, server)
    );
    (checks, reason)
}

/// Checks that each side received every byte that the other sent. Only the server counts requests of the `idle` connections.
pub(super) fn byte_counts(sizes: Stream, idle: u32, stream: &StreamResult, server: &Totals) -> Vec<Check> {
    let (request_bytes, answer_bytes) = sizes.sizes(true);
    let difference = |name: &str, client: u64, server: Option<u64>| {
        let difference = server.map_or(f64::INFINITY, |server| client.abs_diff(server) as f64);
        at_most(name, difference, 0.0, "", Failed)
    };
    let (sent, received) = (stream.sent_bytes, stream.received_bytes);
    let idle = u64::from(idle);
    vec![
        difference("bytes sent but not counted by the server", sent + idle * request_bytes, server.bytes_in),
        difference("bytes counted by the server but not received", received + idle * answer_bytes, server.bytes_out),
    ]
}
