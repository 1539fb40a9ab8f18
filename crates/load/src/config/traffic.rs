//! The traffic of a load: what is sent, and when, whichever client sends it and whichever server answers.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use super::http::HttpTraffic;
use super::profile::RateProfile;
use super::request_timeout::RequestTimeout;
use super::trace::Trace;

/// The requests of one trial and their connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// The service, with its sizes.
    pub service: ServiceSpec,
    /// Whether requests are sent as datagrams (UDP) instead of on streams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datagrams: bool,
    /// Open connections, over all clients. For `udp`, the number of ports.
    pub connections: u32,
    /// Idle connections to the same address, which other processes open ([`crate::tools::idle`]).
    pub idle: u32,
    /// Requests per short-lived connection; `None` if connections stay open. At most `connections` are open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// The share of `connections` that carry requests (kawai2006 section 3.1.1): above 0, at most 1. The seed selects them.
    pub active: f64,
    /// The connection popularity: how each request selects one of the active connections.
    pub popularity: Popularity,
    /// Requests per second in the window, over all clients: the mean if the rate changes. `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// The rates over the window, scaled so that their mean is `rate_per_s`. `None` for a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<RateProfile>,
    /// The recorded arrivals that the window replays. Before the window, requests follow the schedule at the mean rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The rule that plans requests.
    pub schedule: Schedule,
    /// The think time of a closed loop.
    #[serde(default, skip_serializing_if = "Think::is_none")]
    pub think: Think,
    /// The requests that each connection of a closed loop sends at once. The next ones follow the last response.
    pub pipeline: u32,
    /// The time limit of requests of an open loop, and their retries; `None` if requests wait up to the end of the cool-down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<RequestTimeout>,
    /// Requests to a key-value store; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvTraffic>,
    /// Requests to an HTTP server; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTraffic>,
    /// The length of each phase. In an interleaved trial, ramp, warm-up and window count only the contestant's own slices.
    pub phases: Phases,
}

impl Traffic {
    /// Returns the traffic of `muxbench load` without flags.
    pub(super) fn new(service: ServiceSpec) -> Self {
        Self {
            service,
            datagrams: false,
            connections: 400,
            idle: 0,
            requests_per_connection: None,
            active: 1.0,
            popularity: Popularity::Uniform,
            rate_per_s: Some(2_000.0),
            profile: None,
            trace: None,
            schedule: Schedule::SlotRandom,
            think: Think::default(),
            pipeline: 1,
            request_timeout: None,
            kv: None,
            http: None,
            phases: Phases {
                ramp_ns: 1_000_000_000,
                warm_up_ns: 1_000_000_000,
                measure_ns: 5_000_000_000,
                cool_down_ns: 2_000_000_000,
            },
        }
    }

    /// Tests for a closed loop, whose result is its rate.
    pub fn is_closed(&self) -> bool {
        self.schedule == Schedule::Closed
    }

    /// The highest rate in requests per second, over all clients; `None` in a closed loop.
    pub fn peak_per_s(&self) -> Option<f64> {
        let rate_per_s = self.rate_per_s?;
        Some(self.profile.as_ref().map_or(rate_per_s, |profile| profile.with_mean(rate_per_s).peak_per_s()))
    }

    /// Whether the rate changes within the window.
    pub fn is_varied(&self) -> bool {
        self.profile.is_some() || self.trace.is_some()
    }

    /// The connections and the idle connections.
    pub fn connections_and_idle(&self) -> u32 {
        self.connections.saturating_add(self.idle)
    }
}

/// The length of each phase of a trial, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// The ramp: the rate grows exponentially to the first rate of the window (kawai2008: 30 s).
    pub ramp_ns: u64,
    /// The warm-up: this rate is kept to reach a steady state (kawai2008: 30 s).
    pub warm_up_ns: u64,
    /// The window: the results cover the requests planned in it (kawai2008: 10 min).
    pub measure_ns: u64,
    /// The cool-down: the longest wait for outstanding responses after the window.
    pub cool_down_ns: u64,
}

impl Phases {
    /// The length of ramp, warm-up and window together, in nanoseconds.
    pub fn sending_ns(&self) -> u64 {
        self.ramp_ns + self.warm_up_ns + self.measure_ns
    }
}

/// The rule that plans requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// One request per slot of `1/rate`, at a uniformly random time within the slot (kawai2008 section 4.1.1).
    SlotRandom,
    /// One request every `1/rate` (kawai2006 section 4.1). Several clients take turns.
    Constant,
    /// Constant intervals of independent clients: the seed draws each client's offset in its interval (kawai2008 appendix A.1).
    ConstantDrawn,
    /// Constant intervals of clients that all send at the same moment.
    ConstantTogether,
    /// A Poisson process: gaps are exponential, so requests arrive in bursts, like those of independent users.
    Poisson,
    /// A closed loop: each connection sends the next request a think time after the previous response (voras2009 section III).
    Closed,
}

/// The think time: how long a connection of a closed loop waits between a response and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Think {
    /// The mean think time, in nanoseconds.
    pub mean_ns: u64,
    /// Whether think times follow an exponential distribution; otherwise all are equal.
    pub exponential: bool,
}

impl Think {
    /// Whether the next request follows immediately.
    pub fn is_none(&self) -> bool {
        self.mean_ns == 0
    }
}

/// Requests to a key-value store. Value sizes are log-uniform. All records are stored before the ramp, and never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvTraffic {
    /// The number of records.
    pub records: u32,
    /// The smallest value, in bytes.
    pub value_bytes_min: u32,
    /// The largest value, in bytes.
    pub value_bytes_max: u32,
    /// The share of requests that get a record. All other requests set one.
    pub get_share: f64,
    /// The popularity of the records.
    pub keys: Popularity,
}

/// The popularity of connections or records: the rule that selects one for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Popularity {
    /// All are equally likely (kawai2008, kawai2006).
    #[default]
    Uniform,
    /// The `k`th most popular has a probability proportional to `1/k^exponent`. The seed ranks connections, but not records.
    Zipf {
        /// The exponent, above 0.
        exponent: f64,
    },
}

impl Popularity {
    /// Whether the exponent is valid.
    pub(crate) fn is_defined(self) -> bool {
        match self {
            Self::Uniform => true,
            Self::Zipf { exponent } => exponent > 0.0 && exponent.is_finite(),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
        }
    }
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(Self::Uniform),
            None if text == "zipf" => Some(1.0),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            _ => None,
        };
        match exponent.map(|exponent| Self::Zipf { exponent }) {
            Some(popularity) if popularity.is_defined() => Ok(popularity),
            _ => Err(format!("invalid popularity `{text}`: expected uniform, zipf (exponent 1) or zipf:0.8")),
        }
    }
}

wire::serde_as_text!(Popularity);
wire::schema_as!(Popularity, "Popularity", String);
