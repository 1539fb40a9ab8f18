//! Overloads: a server is loaded below its capacity, beyond it for a pulse, and below it again.

use std::ops::Range;

use load::config::{RateProfile, RequestTimeout, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::search::SearchGoal;

/// The goal of an overload: to know how each server behaves beyond its capacity, and how long it takes to recover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadGoal {
    /// The capacity of the servers.
    pub capacity: CapacitySource,
    /// The rates relative to the capacity, over time.
    pub pulse: Pulse,
    /// The time limit of requests, and their retries. A search for the capacity has neither.
    pub request_timeout: RequestTimeout,
}

impl OverloadGoal {
    /// Returns the search for the capacity of each server; `None` if the capacity is given.
    pub fn search(&self) -> Option<&SearchGoal> {
        match &self.capacity {
            CapacitySource::Search(search) => Some(search),
            CapacitySource::Given { .. } => None,
        }
    }
}

/// The source of a capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacitySource {
    /// The user knows it.
    Given {
        /// The capacity of all servers, in requests per second.
        per_s: f64,
    },
    /// The run searches for the capacity of each server first.
    Search(SearchGoal),
}

/// The rates of an overload, relative to the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pulse {
    /// The rate before and after the pulse.
    pub base: f64,
    /// The rate during the pulse.
    pub peak: f64,
    /// The time at the base rate before the pulse, in nanoseconds.
    pub before_ns: u64,
    /// The length of the pulse, in nanoseconds.
    pub length_ns: u64,
    /// The time at the base rate after the pulse, in nanoseconds.
    pub after_ns: u64,
}

impl Pulse {
    /// Returns the rates of the window for a server of this capacity, in requests per second.
    pub fn profile(&self, capacity_per_s: f64) -> RateProfile {
        let hold = |share: f64, ns: u64| Segment::hold(share * capacity_per_s, ns);
        let segments =
            vec![hold(self.base, self.before_ns), hold(self.peak, self.length_ns), hold(self.base, self.after_ns)];
        RateProfile { segments }
    }

    /// The pulse, in nanoseconds since the start of the window.
    pub fn range_ns(&self) -> Range<u64> {
        self.before_ns..self.before_ns + self.length_ns
    }
}
