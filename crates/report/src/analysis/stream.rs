//! Statistics of streams: bandwidth, fairness, and the cost for the server.

use harness::record::{TrialRecord, Workload, rates};
use load::result::PARTS;
use schemars::JsonSchema;
use serde::Serialize;
use stats::interval;
use wire::stream::Direction;

use crate::list::mean;

/// Statistics of streams over several repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Streams {
    /// Bytes of bursts per second in the window, counted at the receiver.
    pub bytes_per_s: f64,
    /// Bytes of bursts per second by the client's count. If the client sends, bytes in socket buffers make it differ
    /// from `bytes_per_s`.
    pub(crate) client_bytes_per_s: f64,
    /// Bytes of bursts per second that the server counts.
    pub(crate) server_bytes_per_s: Option<f64>,
    /// The server's bytes per second in each part of the window: the median over repeats. `None` if the server was
    /// not sampled in each part.
    pub(crate) server_bytes_per_s_by_part: Option<[f64; PARTS]>,
    /// Jain's fairness index of the connections in the least fair repeat.
    pub(crate) fairness: f64,
    /// CPU time of the server per 10^9 bytes, in nanoseconds.
    pub cpu_ns_per_gigabyte: Option<f64>,
    /// CPU time of the client per 10^9 bytes that it moved, in nanoseconds. Over loopback it includes the network
    /// stack's work, except for data that waited in a full socket.
    pub client_cpu_ns_per_gigabyte: Option<f64>,
    /// Bytes per read of the server or, if it sends, per write; `None` if calls are not counted.
    pub(crate) bytes_per_call: Option<f64>,
    /// Reads or writes of bursts per wait; `None` if calls are not counted or the server never waits.
    pub(crate) calls_per_wait: Option<f64>,
}

impl Streams {
    /// Summarises trials of streams with this rate of bursts; `None` for other services.
    pub(crate) fn of(records: &[&TrialRecord], rate_per_s: Option<f64>) -> Option<Self> {
        let workload = &records.first()?.trial.workload;
        let direction = workload.service.stream()?.direction;
        let loads = || records.iter().filter_map(|record| record.load.as_ref());
        let streams = || loads().filter_map(|load| Some((load.stream.as_ref()?, load.window_ns)));
        let (call, completion) = match direction {
            Direction::In => ("read", "receive"),
            Direction::Out => ("write", "send"),
        };
        let client_bytes: u64 = streams().map(|(stream, _)| stream.bytes).sum();
        let client_cpu_ns: u64 = loads().filter(|load| load.stream.is_some()).map(|load| load.cpu_ns).sum();
        let (mut bytes, mut cpu_ns, mut calls, mut waits) = (0.0, 0.0, 0.0, 0.0);
        for record in records {
            let Some(server) = &record.server else { continue };
            let of = |kind: &str| server.totals.syscalls.get(kind).copied().unwrap_or(0) as f64;
            bytes += moved(record).unwrap_or(0) as f64;
            cpu_ns += server.cpu_ns() as f64;
            calls += of(call) + server.totals.completions.get(completion).copied().unwrap_or(0) as f64;
            waits += of("wait");
        }
        let over = |value: f64, count: f64| (count > 0.0).then(|| value / count);
        Some(Self {
            bytes_per_s: megabytes_per_s(workload, rate_per_s?)? * 1e6,
            client_bytes_per_s: mean(streams().map(|(stream, window_ns)| stream.bytes_per_s(window_ns)))?,
            server_bytes_per_s: mean(records.iter().filter_map(|record| server_bytes_per_s(record))),
            server_bytes_per_s_by_part: by_part(records),
            fairness: streams().map(|(stream, _)| stream.fairness).fold(1.0, f64::min),
            cpu_ns_per_gigabyte: over(cpu_ns * 1e9, bytes),
            client_cpu_ns_per_gigabyte: over(client_cpu_ns as f64 * 1e9, client_bytes as f64),
            bytes_per_call: over(bytes, calls),
            calls_per_wait: over(calls, waits).filter(|calls| *calls > 0.0),
        })
    }
}

/// Returns the bytes of bursts that the server counted in one trial.
fn moved(record: &TrialRecord) -> Option<u64> {
    let totals = &record.server.as_ref()?.totals;
    match record.trial.workload.service.stream()?.direction {
        Direction::In => totals.bytes_in,
        Direction::Out => totals.bytes_out,
    }
}

/// Returns the bytes of bursts per second of server CPU time in one trial.
pub fn bytes_per_cpu_s(record: &TrialRecord) -> Option<f64> {
    let cpu_ns = record.server.as_ref()?.cpu_ns();
    (cpu_ns > 0).then_some(moved(record)? as f64 * 1e9 / cpu_ns as f64)
}

/// Returns the server's bytes per second in the window. If the server was not sampled at the edges of the window, the
/// rate covers a slightly longer time.
fn server_bytes_per_s(record: &TrialRecord) -> Option<f64> {
    let (server, direction) = (record.server.as_ref()?, record.trial.workload.service.stream()?.direction);
    let in_longer_time = || Some(moved(record)? as f64 * 1e9 / server.window_ns as f64);
    rates::server_bytes_per_s(direction, &server.moved).or_else(in_longer_time)
}

/// Returns the server's bytes per second in each part of the window: the median over trials with samples of the server.
pub(crate) fn by_part(records: &[&TrialRecord]) -> Option<[f64; PARTS]> {
    let parts = |record: &&TrialRecord| {
        let direction = record.trial.workload.service.stream()?.direction;
        rates::server_bytes_per_s_by_part(direction, &record.server.as_ref()?.moved)
    };
    let all: Vec<[f64; PARTS]> = records.iter().filter_map(parts).collect();
    let median = |part: usize| interval::median(&all.iter().map(|parts| parts[part]).collect::<Vec<_>>());
    (!all.is_empty()).then(|| std::array::from_fn(|part| median(part).unwrap_or_default()))
}

/// Converts bursts per second to megabytes per second; `None` unless the service is a stream.
pub(crate) fn megabytes_per_s(workload: &Workload, rate_per_s: f64) -> Option<f64> {
    Some(rate_per_s * workload.service.stream()?.burst_bytes() as f64 / 1e6)
}
