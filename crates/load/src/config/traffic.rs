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
    /// Open connections, over all clients. For `udp`, the number of ports. Of short-lived connections, the most that are open at once.
    pub connections: u32,
    /// Idle connections to the same address, which other processes open ([`crate::tools::idle`]).
    pub idle: u32,
    /// The loop that sends the requests.
    #[serde(flatten)]
    pub the_loop: Loop,
    /// Requests to a key-value store; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvTraffic>,
    /// Requests to an HTTP server; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTraffic>,
    /// The length of each phase. In an interleaved trial, ramp, warm-up and window count only the contestant's own slices.
    pub phases: Phases,
}

/// The rule by which requests follow one another, with the settings that it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "kebab-case")]
pub enum Loop {
    /// An open loop over lasting connections.
    Open {
        /// The requests.
        #[serde(flatten)]
        requests: Requests,
        /// The time limit of requests, and their retries; `None` if requests wait up to the end of the cool-down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_timeout: Option<RequestTimeout>,
        /// Whether a request waits for a connection without a request in flight. Otherwise requests may overlap on a connection.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_overlap: bool,
    },
    /// An open loop of datagrams (UDP): to the ports of the service `udp`, otherwise on a connected socket per connection.
    Datagrams(Requests),
    /// An open loop of short-lived connections. Each has a planned time, and its requests follow one another.
    Sessions {
        /// Requests per connection.
        requests_per_connection: u32,
        /// The plan, in requests per second.
        #[serde(flatten)]
        pace: Pace,
    },
    /// A closed loop: each connection sends the next request a think time after the previous response (voras2009 section III).
    Closed {
        /// The think time.
        #[serde(default, skip_serializing_if = "Think::is_none")]
        think: Think,
        /// The requests that each connection sends at once. The next ones follow the last response.
        pipeline: u32,
    },
    /// A closed loop of short-lived connections.
    ClosedSessions {
        /// Requests per connection.
        requests_per_connection: u32,
        /// The think time, also between two connections.
        #[serde(default, skip_serializing_if = "Think::is_none")]
        think: Think,
    },
    /// The bursts of the service `stream`, each of which follows the previous one.
    Stream,
}

/// The planned requests of an open loop over lasting connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// The plan.
    #[serde(flatten)]
    pub pace: Pace,
    /// The recorded arrivals that the window replays. Before the window, requests follow the schedule at the mean rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The share of `connections` that carry requests (kawai2006 section 3.1.1): above 0, at most 1. The seed selects them.
    pub active: f64,
    /// The connection popularity: how each request selects one of the active connections.
    pub popularity: Popularity,
}

/// The plan of an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// Requests per second in the window, over all clients: the mean if the rate changes. `None` only where reports describe the
    /// traffic at all rates.
    pub rate_per_s: Option<f64>,
    /// The rule that plans requests.
    pub schedule: Schedule,
    /// The rates over the window, scaled so that their mean is `rate_per_s`. `None` for a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_profile: Option<RateProfile>,
}

impl Pace {
    /// A constant rate.
    pub fn new(schedule: Schedule, rate_per_s: f64) -> Self {
        Self { rate_per_s: Some(rate_per_s), schedule, rate_profile: None }
    }
}

/// Requests on all connections alike.
impl From<Pace> for Requests {
    fn from(pace: Pace) -> Self {
        Self { pace, trace: None, active: 1.0, popularity: Popularity::Uniform }
    }
}

impl Loop {
    /// A closed loop of single requests, without think time.
    pub const CLOSED: Self = Self::Closed { think: Think { mean_ns: 0, exponential: false }, pipeline: 1 };

    /// An open loop without time limits.
    pub fn open(requests: impl Into<Requests>) -> Self {
        Self::Open { requests: requests.into(), request_timeout: None, no_overlap: false }
    }

    /// The loop of a service: 2 000 requests per second, or streams.
    pub fn of(service: &ServiceSpec) -> Self {
        let pace = Pace::new(Schedule::SlotRandom, 2_000.0);
        match service {
            ServiceSpec::Stream(_) => Self::Stream,
            ServiceSpec::Udp { .. } => Self::Datagrams(pace.into()),
            _ => Self::open(pace),
        }
    }
}

/// Getters. A loop without the setting has the value that describes it: no rate, or all connections.
macro_rules! getters {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = |$it:ident| $value:expr;)+) => {$(
        $(#[$doc])+
        pub fn $name(&self) -> $type {
            let $it = self;
            $value
        }
    )+};
}

impl Traffic {
    /// Returns the traffic of `muxbench load` without flags.
    pub(super) fn new(service: ServiceSpec) -> Self {
        Self {
            the_loop: Loop::of(&service),
            service,
            connections: 400,
            idle: 0,
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

    getters! {
        /// The planned requests of an open loop over lasting connections.
        requests: Option<&Requests> = |it| match &it.the_loop {
            Loop::Open { requests, .. } | Loop::Datagrams(requests) => Some(requests),
            _ => None,
        };
        /// The plan of an open loop.
        pace: Option<&Pace> = |it| match &it.the_loop {
            Loop::Sessions { pace, .. } => Some(pace),
            _ => it.requests().map(|it| &it.pace),
        };
        /// The rate in requests per second.
        rate_per_s: Option<f64> = |it| it.pace()?.rate_per_s;
        /// The schedule of an open loop.
        schedule: Option<Schedule> = |it| Some(it.pace()?.schedule);
        /// The rate profile.
        rate_profile: Option<&RateProfile> = |it| it.pace()?.rate_profile.as_ref();
        /// The recorded arrivals.
        trace: Option<&Trace> = |it| it.requests()?.trace.as_ref();
        /// The share of the connections that carry requests.
        active: f64 = |it| it.requests().map_or(1.0, |it| it.active);
        /// The connection popularity.
        popularity: Popularity = |it| it.requests().map_or(Popularity::Uniform, |it| it.popularity);
        /// The time limit of requests.
        request_timeout: Option<RequestTimeout> = |it| match it.the_loop {
            Loop::Open { request_timeout, .. } => request_timeout,
            _ => None,
        };
        /// Whether requests wait for a connection without a request in flight.
        no_overlap: bool = |it| matches!(it.the_loop, Loop::Open { no_overlap: true, .. });
        /// Requests per short-lived connection.
        requests_per_connection: Option<u32> = |it| match it.the_loop {
            Loop::Sessions { requests_per_connection, .. } | Loop::ClosedSessions { requests_per_connection, .. } =>
                Some(requests_per_connection),
            _ => None,
        };
        /// The think time.
        think: Think = |it| match it.the_loop {
            Loop::Closed { think, .. } | Loop::ClosedSessions { think, .. } => think,
            _ => Think::default(),
        };
        /// The requests that a connection sends at once.
        pipeline: u32 = |it| if let Loop::Closed { pipeline, .. } = it.the_loop { pipeline } else { 1 };
        /// The highest rate in requests per second, over all clients; `None` in a closed loop.
        peak_per_s: Option<f64> = |it| {
            let rate_per_s = it.rate_per_s()?;
            Some(it.rate_profile().map_or(rate_per_s, |profile| profile.with_mean(rate_per_s).peak_per_s()))
        };
        /// The connections and the idle connections.
        connections_and_idle: u32 = |it| it.connections.saturating_add(it.idle);
        /// Whether the loop is closed, so that its rate is a result.
        is_closed: bool = |it| it.pace().is_none();
        /// Whether the rate changes within the window.
        is_varied: bool = |it| it.rate_profile().is_some() || it.trace().is_some();
    }

    /// The planned requests, to change.
    pub fn requests_mut(&mut self) -> Option<&mut Requests> {
        match &mut self.the_loop {
            Loop::Open { requests, .. } | Loop::Datagrams(requests) => Some(requests),
            _ => None,
        }
    }

    /// The plan of an open loop, to change.
    pub fn pace_mut(&mut self) -> Option<&mut Pace> {
        match &mut self.the_loop {
            Loop::Open { requests, .. } | Loop::Datagrams(requests) => Some(&mut requests.pace),
            Loop::Sessions { pace, .. } => Some(pace),
            _ => None,
        }
    }

    /// Sets the rate of an open loop, or clears it. A closed loop has none.
    pub fn set_rate(&mut self, rate_per_s: Option<f64>) {
        if let Some(pace) = self.pace_mut() {
            pace.rate_per_s = rate_per_s;
        }
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

/// The rule that plans requests of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
