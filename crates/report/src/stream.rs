//! What there is to say of streams: how many bytes went, how evenly, and what they cost the server.

use lab::record::{TrialRecord, Workload};
use load::LoadReport;
use serde::Serialize;
use wire::stream::Direction;

/// Of all repeats that count; means, where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Streams {
    /// Bytes of bursts a second, as the clients count them in the window.
    pub bytes_per_s: f64,
    /// The same as the server counts them, from a moment before the window to its end.
    pub server_bytes_per_s: Option<f64>,
    /// Jain's index of the connections, of the repeat in which it is least.
    pub fairness: f64,
    /// CPU time of the server for 10^9 bytes, in nanoseconds.
    pub cpu_ns_per_gigabyte: Option<f64>,
    /// Bytes that one read brought the server or, if it sends, one write took; `None` where nobody counts these.
    pub bytes_per_call: Option<f64>,
    /// Such reads or writes for each wait; `None` where nobody counts or waits.
    pub calls_per_wait: Option<f64>,
}

impl Streams {
    /// Of these trials; `None` if they are of something else.
    pub(crate) fn of(records: &[&TrialRecord]) -> Option<Self> {
        let direction = records.first()?.trial.workload.service.stream()?.direction;
        let loads = || records.iter().filter_map(|record| record.load.as_ref());
        let streams = || loads().filter_map(|load| Some((load.stream.as_ref()?, load.window_ns)));
        let count = streams().count() as f64;
        if count == 0.0 {
            return None;
        }
        let totals = || records.iter().filter_map(|record| record.server.as_ref());
        let (call, completion) = match direction {
            Direction::In => ("read", "receive"),
            Direction::Out => ("write", "send"),
        };
        let (mut bytes, mut window_s, mut cpu_ns, mut calls, mut waits) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for server in totals() {
            let moved = match direction {
                Direction::In => server.totals.bytes_in,
                Direction::Out => server.totals.bytes_out,
            };
            let of = |kind: &str| server.totals.syscalls.get(kind).copied().unwrap_or(0) as f64;
            bytes += moved.unwrap_or(0) as f64;
            window_s += server.window_ns as f64 / 1e9;
            cpu_ns += server.totals.cpu_ns() as f64;
            calls += of(call) + server.totals.completions.get(completion).copied().unwrap_or(0) as f64;
            waits += of("wait");
        }
        let over = |value: f64, count: f64| (count > 0.0).then(|| value / count);
        Some(Self {
            bytes_per_s: streams().map(|(stream, window_ns)| stream.bytes_per_s(window_ns)).sum::<f64>() / count,
            server_bytes_per_s: over(bytes, window_s),
            fairness: streams().map(|(stream, _)| stream.fairness).fold(1.0, f64::min),
            cpu_ns_per_gigabyte: over(cpu_ns * 1e9, bytes),
            bytes_per_call: over(bytes, calls),
            calls_per_wait: over(calls, waits).filter(|calls| *calls > 0.0),
        })
    }
}

/// Bytes of bursts a second, of one trial.
pub(crate) fn bytes_per_s(load: &LoadReport) -> Option<f64> {
    Some(load.stream.as_ref()?.bytes_per_s(load.window_ns))
}

/// Megabytes a second that so many bursts a second are; `None` of other services.
pub(crate) fn megabytes_per_s(workload: &Workload, rate_per_s: f64) -> Option<f64> {
    Some(rate_per_s * workload.service.stream()?.burst_bytes() as f64 / 1e6)
}
