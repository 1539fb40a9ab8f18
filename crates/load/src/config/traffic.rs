//! The traffic of a load: what is sent, and when, whichever client sends it and whichever server answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use super::{HttpTraffic, KvTraffic, Phases, Popularity, RateProfile, RequestTimeout, Schedule, Think, Trace};

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
