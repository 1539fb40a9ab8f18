//! What came of a trial on the client's side, as plain data.

use serde::{Deserialize, Serialize};
use stats::{Distribution, Histogram};

use crate::config::{Pacing, Roles};

/// One request of the measured window. Times are integer nanoseconds after the start of that window, on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// t1: when the schedule planned the request.
    pub planned_ns: i64,
    /// t2: taken just before the request was written.
    pub sent_ns: i64,
    /// t3: taken when the whole response had been read; [`Sample::NEVER`] if it did not come.
    pub complete_ns: i64,
    /// Which connection, from 0.
    pub connection: u32,
}

impl Sample {
    /// The completion time of a response that never came.
    pub const NEVER: i64 = i64::MAX;
}

/// What the client saw of one trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// The clock used, and how far it can be trusted.
    pub clock: ClockFacts,
    /// The pacing that was used, never `auto`.
    pub pacing: Pacing,
    /// The roles that were used, never `auto`.
    pub roles: Roles,
    /// Connections established and served once before the ramp.
    pub connections: u32,
    /// Time to connect and verify all of them, in nanoseconds.
    pub connect_ns: u64,
    /// Length of the measured window, in nanoseconds.
    pub window_ns: u64,
    /// The rate asked for, requests a second.
    pub rate_asked_per_s: f64,
    /// Requests that the schedule planned in the window. All counts below are of these.
    pub planned: u64,
    /// Requests that were given to the kernel, late ones included. What a full socket would not take is written as soon
    /// as it does, and the wait is part of the service time: it is the server that does not read.
    pub sent: u64,
    /// Requests whose whole response came, during the window or the drain.
    pub completed: u64,
    /// Responses completed inside the window, a second.
    pub rate_achieved_per_s: f64,
    /// Requests sent inside the window, a second.
    pub rate_sent_per_s: f64,
    /// Requests sent and not answered.
    pub outstanding: Outstanding,
    /// What went wrong, by class, over the whole trial.
    pub errors: Errors,
    /// t2 − t1.
    pub lag: Measured,
    /// t3 − t2.
    pub service: Measured,
    /// t3 − t1.
    pub response: Measured,
    /// User memory the client set aside per connection, in bytes (connection state, not samples).
    pub memory_bytes_per_connection: f64,
    /// CPU time of the client's process in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// Involuntary context switches of the client's process in the window.
    pub involuntary_switches: u64,
}

/// A measured time: its distribution, and the histogram it comes from, so that it can be merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Quantiles and moments.
    pub distribution: Distribution,
    /// Median in each tenth of the window, in nanoseconds, by planned time; 0 where a tenth has no sample.
    pub p50_by_tenth_ns: [u64; 10],
    /// The whole histogram.
    pub histogram: Histogram,
}

/// Requests in flight over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    /// When the window began.
    pub at_start: u64,
    /// When it ended.
    pub at_end: u64,
    /// Still unanswered after the drain.
    pub after_drain: u64,
}

/// Failures by class (the classes of httperf, and two of size): requests that were not answered, by what became of
/// their connection, whether they could still be sent or not. A connection that failed when no request needed it counts
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// No answer in time.
    pub timeout: u64,
    /// ECONNREFUSED.
    pub refused: u64,
    /// ECONNRESET, EPIPE, or the connection was closed when no response was owed.
    pub reset: u64,
    /// EMFILE, ENFILE.
    pub no_descriptors: u64,
    /// EADDRNOTAVAIL.
    pub no_addresses: u64,
    /// The connection ended before the response did.
    pub short: u64,
    /// More bytes came than were asked for.
    pub wrong: u64,
    /// Any other system error.
    pub other: u64,
}

impl Errors {
    /// Failures of every class together.
    pub fn total(&self) -> u64 {
        self.by_class().iter().map(|(_, count)| count).sum()
    }

    /// Each class's name and count.
    pub fn by_class(&self) -> [(&'static str, u64); 8] {
        [
            ("timeout", self.timeout),
            ("refused", self.refused),
            ("reset", self.reset),
            ("no-descriptors", self.no_descriptors),
            ("no-addresses", self.no_addresses),
            ("short", self.short),
            ("wrong", self.wrong),
            ("other", self.other),
        ]
    }
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
}
