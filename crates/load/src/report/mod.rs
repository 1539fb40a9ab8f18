//! The client's results of a trial, as plain data.

mod errors;
pub mod late;
pub mod merge;
pub mod samples;

use serde::{Deserialize, Serialize};
use stats::{Distribution, Histogram, TestResult};

use crate::config::{Pacing, Roles, Transport};

pub use errors::{Class, Errors};
pub use late::LateSends;
pub use samples::Sample;

/// The client's report of one trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// The clock used, and how far it can be trusted.
    pub clock: ClockFacts,
    /// The pacing that was used, never `auto`; `None` in a closed loop, which sleeps until a response comes or a time to
    /// think is over.
    pub pacing: Option<Pacing>,
    /// The roles that were used, never `auto`.
    pub roles: Roles,
    /// How requests got to the server.
    pub transport: Transport,
    /// Connections established and served once before the ramp, that requests may be sent on.
    pub connections: u32,
    /// How many of them requests were sent on.
    pub active: u32,
    /// Time to connect and verify all of them, in nanoseconds.
    pub connect_ns: u64,
    /// Length of the measured window, in nanoseconds.
    pub window_ns: u64,
    /// The rate asked for, requests a second; `None` in a closed loop.
    pub rate_asked_per_s: Option<f64>,
    /// Requests that the schedule planned in the window, or of a closed loop those that were due. All counts below are of
    /// these.
    pub planned: u64,
    /// Requests that were given to the kernel, late ones included. What a full socket would not take is written as soon
    /// as it does, and the wait is part of the service time: it is the server that does not read.
    pub sent: u64,
    /// Requests whose whole response came, during the window or the drain.
    pub completed: u64,
    /// Responses completed inside the window, a second.
    pub rate_achieved_per_s: f64,
    /// How many of them in each of [`PARTS`] equal parts of the window; `None` in runs stored before
    /// this was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_by_part: Option<[u64; PARTS]>,
    /// Requests sent inside the window, a second.
    pub rate_sent_per_s: f64,
    /// Requests sent and not answered.
    pub outstanding: Outstanding,
    /// Failures of the whole trial, by class.
    pub errors: Errors,
    /// t2 − t1. Where connections come and go: of a connection's first request, from t1 to the beginning of its connecting,
    /// which is how late the client was.
    pub lag: Measured,
    /// t3 − t2.
    pub service: Measured,
    /// t3 − t1.
    pub response: Measured,
    /// Requests of the window that were sent late; `None` in runs stored before they were counted, see
    /// [`LoadReport::late_sends`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateSends>,
    /// The share of the window in which the client's receiving threads had something to do, the busiest of them: what comes to
    /// one without time to spare waits there. `None` in a closed loop, which has its own, and where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_busy_share: Option<f64>,
    /// For how much of the window the client could not have woken when it had to (the module `hiccups`), in nanoseconds; of
    /// several clients the greatest. `None` where its threads spin, which shows in the send delay, and in runs stored earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<u64>,
    /// Whether the sends followed their plan; `None` with too few to say.
    pub fit: Option<TestResult>,
    /// The part of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedReport>,
    /// The part of short-lived connections; `None` if connections stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnReport>,
    /// The part of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramReport>,
    /// The part of streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamReport>,
    /// The kernel's timestamps; `None` if they were not requested.
    pub kernel: Option<KernelReport>,
    /// User memory the client set aside per connection, in bytes (connection state, not samples).
    pub memory_bytes_per_connection: f64,
    /// Each process's own figures, where several divided the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessReport>,
    /// How long after the beginning of the ramp the client was told when that is, in nanoseconds: 0 if it was told in time. Of
    /// several, the latest.
    #[serde(default, skip_serializing_if = "is_in_time")]
    pub begun_late_ns: u64,
    /// CPU time of the client's process in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// Involuntary context switches of the client's process in the window.
    pub involuntary_switches: u64,
}

impl LoadReport {
    /// Requests of the window that were sent late, or may have met a stall; where they were not counted, by the histograms.
    pub fn late_sends(&self) -> LateSends {
        let late = match self.late {
            // The bursts of a stream are not sent by any plan.
            _ if self.stream.is_some() => LateSends::default(),
            Some(late) => late,
            None => LateSends::of(&self.lag.histogram, &self.service.histogram),
        };
        late.with_stalled(self.stalled_share().unwrap_or(0.0))
    }

    /// The share of the window in which the client was stalled; `None` where that was not measured.
    pub fn stalled_share(&self) -> Option<f64> {
        self.stalled_ns.map(|ns| ns as f64 / self.window_ns as f64)
    }

    /// Whether the quantile `q` of its service and response time may be the client's doing.
    pub fn is_client_tail(&self, q: f64) -> bool {
        self.late_sends().reaches(q)
    }
}

fn is_in_time(late_ns: &u64) -> bool {
    *late_ns == 0
}

/// A measured time: its distribution, and the histogram it comes from, so that it can be merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Measured {
    /// Quantiles and moments.
    pub distribution: Distribution,
    /// Median in each of [`PARTS`] equal parts of the window, in nanoseconds, by planned time; 0 where one has no sample.
    pub p50_by_part_ns: [u64; PARTS],
    /// Its 90th percentile likewise.
    pub p90_by_part_ns: [u64; PARTS],
    /// The whole histogram.
    pub histogram: Histogram,
}

/// A measured time as it is stored: earlier versions had fewer quantiles, which its histogram has all the same.
#[derive(Deserialize)]
struct Stored {
    distribution: Distribution,
    p50_by_part_ns: [u64; PARTS],
    p90_by_part_ns: [u64; PARTS],
    histogram: Histogram,
}

impl From<Stored> for Measured {
    fn from(stored: Stored) -> Self {
        let Stored { mut distribution, p50_by_part_ns, p90_by_part_ns, histogram } = stored;
        if distribution.p95_ns == 0 {
            (distribution.p90_ns, distribution.p95_ns) = (histogram.quantile(0.90), histogram.quantile(0.95));
        }
        Self { distribution, p50_by_part_ns, p90_by_part_ns, histogram }
    }
}

/// One process's own figures of a load that several divided: whether one of them was late is not seen in all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Where it ran, in words; empty where that is where the server did.
    pub place: String,
    /// Its connections.
    pub connections: u32,
    /// Requests that its schedule planned in the window.
    pub planned: u64,
    /// Those whose response came.
    pub completed: u64,
    /// Requests that it sent inside the window, a second.
    pub rate_sent_per_s: f64,
    /// Its lag.
    pub lag: Distribution,
    /// Its service time.
    pub service: Distribution,
    /// How late it was told when to begin, in nanoseconds; 0 if in time.
    #[serde(default, skip_serializing_if = "is_in_time")]
    pub begun_late_ns: u64,
    /// Its CPU time in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// The share of its CPUs that others than the trial's clients took during the window; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_taken_by_others: Option<f64>,
}

/// The part of a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClosedReport {
    /// Transactions of the window that are in the counts and the histograms, and for which no memory was left to be kept as
    /// samples. They are the last ones.
    pub unsampled: u64,
    /// The share of the CPUs that its threads could use at once, which they did use.
    pub busy_share: f64,
    /// Those CPUs.
    pub cpus: u32,
    /// Mean time to think, in nanoseconds.
    pub think_ns: u64,
}

/// The part of short-lived connections. Times are those of connections that began in the window and brought at least a byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChurnReport {
    /// Requests on each.
    pub calls_per_connection: u32,
    /// How many.
    pub opened: u64,
    /// The same, a second.
    pub opened_per_s: f64,
    /// Sessions that had to wait for another to end, since as many were open as may, over the whole trial.
    pub waited: u64,
    /// Addresses that connections came from.
    pub sources: u32,
    /// From the SYN to the connection established.
    pub connect: Measured,
    /// From the SYN to the first byte of the first response.
    pub first_byte: Measured,
}

/// The part of datagrams: requests of the window, except for those in [`Errors`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramReport {
    /// Ports of the server, each of which answered before the ramp.
    pub ports: u32,
    /// Requests that were sent, and not answered by the end of the drain or within the timeout, and of which no error is
    /// known.
    pub lost: u64,
    /// Responses to what had been answered already.
    pub duplicates: u64,
    /// First responses that were overtaken: from the port they came from, the response to a later request had come before.
    pub reordered: u64,
    /// Responses, of the whole trial, for which the client's own sockets had no room; they are among the lost. `None` where
    /// the system does not say.
    pub dropped: Option<u64>,
}

/// The part of streams. The other figures of the trial are of whole bursts; only the rate contains fractions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Bytes of bursts that were written in the window or, if the server sends, read in it.
    pub bytes: u64,
    /// The same in each of the parts of the window.
    pub bytes_by_part: [u64; PARTS],
    /// The same in each second of it; the last may be a part of one.
    pub bytes_by_second: Vec<u64>,
    /// Jain's index of the connections' bytes in the window: 1 where all have the same, 1/n where one has everything.
    pub fairness: f64,
    /// Bytes of the connection with the fewest.
    pub connection_bytes_min: u64,
    /// Bytes of the connection with the most.
    pub connection_bytes_max: u64,
    /// Everything that was written on all connections, from the first to the last of them.
    pub sent_bytes: u64,
    /// Everything that was read likewise.
    pub received_bytes: u64,
    /// Connections that the server ended after all was said; only if that is all of them, both sides' bytes can be compared.
    pub ended: u32,
}

impl StreamReport {
    /// Bytes a second, with the length of the window in nanoseconds.
    pub fn bytes_per_s(&self, window_ns: u64) -> f64 {
        self.bytes as f64 / (window_ns as f64 / 1e9)
    }
}

/// Parts that a window is looked at in: enough for a test of its steadiness.
pub const PARTS: usize = 32;

/// The kernel's view of the requests of the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelReport {
    /// The interface that requests left by.
    pub interface: String,
    /// Whether that takes timestamps of its own.
    pub hardware: Hardware,
    /// From t2 to the scheduler.
    pub to_scheduler: Measured,
    /// t2k − t2: from the client's timestamp to the driver.
    pub to_driver: Measured,
    /// t3 − t3k: from the response's arrival to the client's timestamp.
    pub from_arrival: Measured,
    /// t3k − t2k: service time as the kernel saw it.
    pub service: Measured,
    /// Service time as the interface saw it, from wire to wire.
    pub hardware_service: Option<Measured>,
    /// Requests sent for which no t2k came.
    pub unstamped_sent: u64,
    /// Responses completed for which no t3k came.
    pub unstamped_arrived: u64,
    /// Stamps that lie before what they must follow by more than the two clocks can be compared. Such a stamp is not to be
    /// believed, nor are others of that trial if there are many.
    pub out_of_order: u64,
    /// The wall clock, which the kernel's stamps are of, was set during the trial: nothing could be converted.
    pub wall_clock_stepped: bool,
}

/// Whether an interface takes timestamps of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hardware {
    /// It cannot.
    None,
    /// It can, and is not told to: `hwstamp_ctl -i NAME -t 1 -r 1` does.
    Off,
    /// It does.
    On,
}

/// Requests in flight over the window. Where connections come and go in an open loop, those of sessions that wait for a
/// connection are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    /// When the window began.
    pub at_start: u64,
    /// When it ended.
    pub at_end: u64,
    /// Still unanswered after the drain.
    pub after_drain: u64,
}

/// The clock that timestamps came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// `tsc` or `monotonic`.
    pub source: String,
    /// Why that one, in a few words.
    pub reason: String,
    /// Ticks a second.
    pub frequency_hz: f64,
    /// Difference to CLOCK_MONOTONIC over the trial, in parts per million.
    pub drift_ppm: f64,
    /// Requests of the window of which a later time is before an earlier one: so often the clock was seen to go backwards.
    #[serde(default)]
    pub went_back: u64,
}
