//! The replay of recorded arrivals.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a file of recorded arrivals, which the window replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// The file.
    pub file: PathBuf,
    /// The start of the part after the file's first arrival, in nanoseconds of the recording.
    pub from_ns: u64,
    /// The length of the part, in nanoseconds of the recording.
    pub length_ns: u64,
    /// The speed of the replay relative to the recording.
    pub speed: f64,
    /// The number of arrivals in the part.
    pub requests: u64,
    /// Whether the file has the connection of each arrival.
    pub has_connections: bool,
    /// The different sizes in the part, ascending. The HTTP requests are in the same order. Empty if the file has no sizes, or if
    /// they are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Sizes>,
}

impl Trace {
    /// The length of the replay, in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        (self.length_ns as f64 / self.speed).round() as u64
    }

    /// The mean rate of the replay, in requests per second.
    pub fn rate_per_s(&self) -> f64 {
        self.requests as f64 / (self.window_ns().max(1) as f64 / 1e9)
    }

    /// Returns the number of the HTTP request of an arrival; `None` if the trace does not select requests.
    pub(crate) fn request(&self, arrival: &Arrival) -> Option<u32> {
        Some(self.sizes.binary_search(&arrival.sizes).ok()? as u32)
    }

    /// The number of requests for which each of the `clients` of a process reserves memory. A file may have all requests on the
    /// connections of one process.
    pub(crate) fn count_max(&self, clients: u32, all_clients: u32) -> u64 {
        let clients = if self.has_connections { clients } else { all_clients };
        self.requests.div_ceil(clients.into())
    }
}

/// A recorded arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// The time after the start of the window, in nanoseconds of the replay.
    pub at_ns: f64,
    /// The number of the connection, if the file has it. Numbers beyond the connections start again at the first.
    pub connection: Option<u64>,
    /// The sizes of its messages.
    pub sizes: Sizes,
}

/// The sizes of a recorded request and its response, as far as the file has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// The bytes of the request's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u64>,
    /// The bytes of the response's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<u64>,
}
