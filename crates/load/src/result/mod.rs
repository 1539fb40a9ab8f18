//! The client's results of a trial, as plain data.

mod errors;
mod http;
pub mod interleaved;
mod late;
mod measured;
pub mod merge;
pub mod samples;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Distribution, TestResult};

use crate::config::{Pacing, Roles, Transport};

pub use errors::{Class, Errors};
pub use http::HttpResult;
use late::is_zero;
pub use late::{LATE_SHARE_MAX, LateSends};
pub use measured::{GoodputBin, GoodputResult, Measured, PARTS, TlsResult};
pub use samples::Sample;

/// The client's report of one trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// The clock and its accuracy.
    pub clock: ClockFacts,
    /// The pacing in use, never `auto`; `None` in a closed loop, which only sleeps.
    pub pacing: Option<Pacing>,
    /// The roles in use, never `auto`.
    pub roles: Roles,
    /// The transport of requests.
    pub transport: Transport,
    /// The number of connections. Those that stay open were verified with one request before the ramp.
    pub connections: u32,
    /// The number of active connections.
    pub active: u32,
    /// Time to connect and verify all connections, in nanoseconds.
    pub connect_ns: u64,
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// The target rate in requests per second; `None` in a closed loop.
    pub rate_asked_per_s: Option<f64>,
    /// Requests planned in the window (in a closed loop: due in the window). `sent` and `completed` refer to these requests.
    pub planned: u64,
    /// Requests sent, including late ones. If a socket's buffer is full, service time includes the wait for the server to read.
    pub sent: u64,
    /// Requests whose whole response arrived during the window or the cool-down.
    pub completed: u64,
    /// Responses completed inside the window, per second. In an open loop with turns: requests sent in the measured parts of the
    /// turns, less those by which the outstanding requests grew.
    pub rate_achieved_per_s: f64,
    /// Responses completed in each of [`PARTS`] equal parts of the window.
    pub completed_by_part: [u64; PARTS],
    /// Requests planned in each part, if the rate changes over the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_by_part: Option<[u64; PARTS]>,
    /// Requests sent inside the window, per second, without retries.
    pub rate_sent_per_s: f64,
    /// Requests sent but not answered.
    pub outstanding: Outstanding,
    /// Failures in the whole trial, by class.
    pub errors: Errors,
    /// What is wrong with the first wrong response: the server's own line, or what the protocol does not allow; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<String>,
    /// Requests of the whole trial, sent or not.
    pub trial_requests: u64,
    /// The number of times that the client opened a lasting connection again, because the server had closed it: between two requests,
    /// instead of a response, or as a response had announced.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub closed_by_server: u64,
    /// The share of the window's requests that were sent on a connection with an unanswered request, in an open loop over lasting
    /// connections. If requests do not overlap: the share that waited for a free connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_share: Option<f64>,
    /// Send delay: t2 − t1. A short-lived connection's first request counts as sent when its connect(2) begins.
    pub send_delay: Measured,
    /// Service time: t3 − t2.
    pub service: Measured,
    /// Response time: t3 − t1.
    pub response: Measured,
    /// Requests of the window that were sent late, without those of a stall: see [`LoadResult::late_sends`].
    pub late: LateSends,
    /// The share of the window, or of an interleaved trial's active time, in which the busiest receiving thread was busy; `None` if unknown, and in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_busy_share: Option<f64>,
    /// The stalled time of the client's sleeping threads in the window, in nanoseconds; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<u64>,
    /// The share of the window in which the memory monitors of the kernel (DAMON) ran on the server's host; `None` if none is visible.
    /// The harness measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_share: Option<f64>,
    /// Pauses of the client in an interleaved trial: overlong turns of the client's loop, in nanoseconds since the start of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Range<i64>>,
    /// Test of the send times against the plan; `None` with too few samples.
    pub fit: Option<TestResult>,
    /// Figures of the slices of an interleaved trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceResult>,
    /// Requests answered in time over the window, if requests have a time limit. All other figures count a late response as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputResult>,
    /// Figures of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedResult>,
    /// Figures of short-lived connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnResult>,
    /// Figures of HTTP responses; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpResult>,
    /// The TLS handshakes; `None` for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsResult>,
    /// Figures of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramResult>,
    /// Figures of streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamResult>,
    /// The kernel's timestamps; `None` if not requested.
    pub kernel: Option<KernelResult>,
    /// User memory per connection, in bytes: connection state without samples.
    pub memory_bytes_per_connection: f64,
    /// Figures of each process, if several divided the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessResult>,
    /// The longest time from the start of the ramp to the arrival of a process's start message, in nanoseconds; 0 if in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub begun_late_ns: u64,
    /// CPU time of the client's processes in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// Involuntary context switches of the client's processes in the window.
    pub involuntary_switches: u64,
}

impl LoadResult {
    /// Counts the requests of the window that were sent late or that a stall may have delayed.
    pub fn late_sends(&self) -> LateSends {
        // Bursts of a stream have no planned time.
        let late = if self.stream.is_some() { LateSends::default() } else { self.late };
        late.with_stalled(self.stalled_share().unwrap_or(0.0))
    }

    /// The share of the whole trial's requests that `errors`, a part of [`Self::errors`], are.
    pub fn error_share(&self, errors: u64) -> f64 {
        // A connection without a request may fail too.
        let requests = self.trial_requests.max(errors);
        errors as f64 / requests.max(1) as f64
    }

    /// The share of the window in which the client was stalled; `None` if not measured.
    pub fn stalled_share(&self) -> Option<f64> {
        self.stalled_ns.map(|ns| ns as f64 / self.window_ns as f64)
    }

    /// Whether the client may have caused the quantile `q` of service and response time.
    pub fn is_client_tail(&self, q: f64) -> bool {
        self.late_sends().reaches(q)
    }

    /// Counts the requests that the client, or the host's memory monitors, may have made slow.
    pub fn disturbed(&self) -> LateSends {
        self.late_sends().with_monitored(self.monitor_share.unwrap_or(0.0))
    }

    /// Whether the client, or the host's memory monitors, may have caused the quantile `q` of service and response time.
    pub fn is_foreign_tail(&self, q: f64) -> bool {
        self.disturbed().reaches(q)
    }
}

/// Figures of one process of a divided load. A sum over all processes would hide a single late process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessResult {
    /// The worker and, unless it is the server's host, its host; empty if the run is not distributed.
    pub place: String,
    /// Connections of this process.
    pub connections: u32,
    /// Requests that the process's schedule planned in the window.
    pub planned: u64,
    /// Planned requests with a response.
    pub completed: u64,
    /// Requests that the process sent inside the window, per second.
    pub rate_sent_per_s: f64,
    /// Send delay.
    pub send_delay: Distribution,
    /// Service time.
    pub service: Distribution,
    /// The time from the start of the ramp to the arrival of the start message, in nanoseconds; 0 if in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub begun_late_ns: u64,
    /// CPU time of the process in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// The share of this process's CPUs used by other programs during the window; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_taken_by_others: Option<f64>,
}

/// Figures of a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClosedResult {
    /// Transactions without a sample, because the memory for samples was full. Counts and histograms include them.
    pub unsampled: u64,
    /// The share of `cpus` that the threads used in the window, or in an interleaved trial's active time.
    pub busy_share: f64,
    /// The number of CPUs that the threads could use at once.
    pub cpus: u32,
    /// Mean think time, in nanoseconds.
    pub think_ns: u64,
}

/// Facts about the slices of one contestant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceResult {
    /// The number of rounds of the window without a pause of a client.
    pub rounds: u64,
    /// The number of rounds in which some contestant's client paused. They are left out for all contestants, unless they are
    /// more than half of the rounds: then all rounds are measured, and the verdict names the pauses.
    pub left_out: u64,
    /// The number of measured rounds with a request of this contestant that was outstanding beyond the next slice's guard.
    pub overrun: u64,
    /// The share of the window in which the contestant was active: its own slices, each until its last response.
    pub active_share: f64,
    /// The CPU time of the server in the turns of others, as a share of the length of its own turns; `None` if unknown. The harness
    /// measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_share: Option<f64>,
    /// The time in which a queue of Poisson arrivals forgets its start, as a multiple of the guard, before which the queue is empty;
    /// `None` for other schedules, or if the server's CPU time is unknown. The harness measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling_guards: Option<f64>,
    /// The median service time in the first and in the second halves of the measured parts, in nanoseconds.
    pub p50_by_half_ns: [u64; 2],
    /// In a closed loop: the number of responses in the measured parts by the interactive response time law, window * connections /
    /// (mean response time + mean think time) (Denning and Buzen 1978, "The operational analysis of queueing network models").
    /// `None` in other loops, and in pipelines.
    pub law_responses: Option<f64>,
    /// The responses that arrived in the measured parts.
    pub responses: u64,
}

impl SliceResult {
    /// Returns the number of measured rounds. With pauses in most rounds, all are measured.
    pub fn measured_rounds(&self) -> u64 {
        self.rounds + if self.left_out > self.rounds { self.left_out } else { 0 }
    }
}

/// Figures of short-lived connections that began in the window and received at least one byte.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChurnResult {
    /// Requests per connection.
    pub requests_per_connection: u32,
    /// The number of these connections.
    pub opened: u64,
    /// `opened` per second of the window.
    pub opened_per_s: f64,
    /// Sessions of the whole trial that waited for a free connection.
    pub waited: u64,
    /// The number of source addresses.
    pub sources: u32,
    /// The time from the SYN until the connection is established.
    pub connect: Measured,
    /// The time from the SYN to the first byte of the first response.
    pub first_byte: Measured,
}

/// Figures of datagrams, for the requests of the window. [`Errors`] counts failed requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatagramResult {
    /// The server's ports. Each answered before the ramp.
    pub ports: u32,
    /// Sent requests without a response by the timeout or the end of the cool-down, and without a known error.
    pub lost: u64,
    /// Responses to requests that already had a response.
    pub duplicates: u64,
    /// Responses that arrived after the response to a later request to the same port.
    pub reordered: u64,
    /// Responses of the whole trial that the client's sockets dropped for lack of buffer space; `None` if unknown.
    pub dropped: Option<u64>,
}

/// Figures of streams. The trial's other figures cover whole bursts; only the rate includes partial ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamResult {
    /// Bytes of bursts written in the window, or read in it if the server sends.
    pub bytes: u64,
    /// `bytes` in each part of the window.
    pub bytes_by_part: [u64; PARTS],
    /// `bytes` in each second of the window. The last second may be shorter.
    pub bytes_by_second: Vec<u64>,
    /// Jain's index of the bytes per connection in the window: 1 if all are equal, 1/n if one connection has everything.
    pub fairness: f64,
    /// The fewest bytes of any connection.
    pub connection_bytes_min: u64,
    /// The most bytes of any connection.
    pub connection_bytes_max: u64,
    /// Bytes written on all connections over their whole life.
    pub sent_bytes: u64,
    /// Bytes read on all connections over their whole life.
    pub received_bytes: u64,
    /// Connections that the server closed after all data. Both sides' bytes are comparable only if it closed all.
    pub ended: u32,
}

impl StreamResult {
    /// Bytes per second, for a window of `window_ns` nanoseconds.
    pub fn bytes_per_s(&self, window_ns: u64) -> f64 {
        self.bytes as f64 / (window_ns as f64 / 1e9)
    }
}

/// The kernel's view of the window's requests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KernelResult {
    /// The interface that sent the requests.
    pub interface: String,
    /// The state of the interface's hardware timestamps.
    pub hardware: Hardware,
    /// From t2 to the packet scheduler.
    pub to_scheduler: Measured,
    /// t2k − t2: from the client's timestamp to the driver.
    pub to_driver: Measured,
    /// t3 − t3k: from the response's arrival in the kernel to the client's timestamp.
    pub from_arrival: Measured,
    /// t3k − t2k: service time as the kernel measured it.
    pub service: Measured,
    /// Service time as the interface measured it, on the wire; `None` without hardware timestamps.
    pub hardware_service: Option<Measured>,
    /// Requests sent without a t2k.
    pub unstamped_sent: u64,
    /// Responses completed without a t3k.
    pub unstamped_arrived: u64,
    /// Requests whose timestamps are out of order by more than 5 µs, the largest error between the two clocks.
    pub out_of_order: u64,
    /// Whether the wall clock was set during the trial, which makes the kernel's timestamps unusable.
    pub wall_clock_stepped: bool,
}

/// The hardware timestamps of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hardware {
    /// Not supported.
    None,
    /// Supported but disabled: `hwstamp_ctl -i NAME -t 1 -r 1` enables them.
    Off,
    /// Enabled.
    On,
}

/// Requests in flight at three times. In an open loop of short-lived connections, requests of waiting sessions count too. With a
/// time limit, a request that has timed out is not in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outstanding {
    /// Requests in flight at the start of the window.
    pub at_start: u64,
    /// Requests in flight at the end of the window.
    pub at_end: u64,
    /// Requests without a response after the cool-down.
    pub after_cool_down: u64,
}

/// The clock of the timestamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// `tsc` or `monotonic`.
    pub source: String,
    /// The reason for the source, in a few words.
    pub reason: String,
    /// Ticks per second.
    pub frequency_hz: f64,
    /// Drift against CLOCK_MONOTONIC over the trial, in parts per million.
    pub drift_ppm: f64,
    /// Requests of the window during which the clock went backwards.
    pub went_back: u64,
}
