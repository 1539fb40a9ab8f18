//! Checks of streams. They count bytes, because a window may have few complete bursts.

use load::LoadResult;
use load::result::{ClosedResult, PARTS, StreamResult};
use server::metrics::counters::Totals;
use wire::stream::Stream;

use super::check::{at_least, at_most, none};
use super::{ServerSide, clients, closed, steady, sufficient};
use crate::record::Check;
use crate::record::VerdictKind::Failed;

/// Returns the checks, and the reason shown for a valid trial.
pub(super) fn checks(
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
    checks.push(closed::client_busy(closed, server));
    checks.extend(steady::throughput("bandwidth", &by_part));
    checks.extend(steady::taken_cpus(report, server));
    let reason = format!(
        "{:.0} MB/s, fairness {:.3}, {}",
        by_part.iter().sum::<f64>() / PARTS as f64 / 1e6,
        stream.fairness,
        closed::cpu_use(closed, server)
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
