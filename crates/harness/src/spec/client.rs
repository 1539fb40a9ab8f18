//! `[client]`: the clients of an experiment.

use std::num::NonZeroU32;

use load::config::{ClientConfig, ClockChoice, LoadConfig, Pacing, RequestTimeout, Roles, Timestamps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{ClockName, PacingName, RolesName, TimestampsName};
use super::units::{Share, Time};

/// The options of the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Client {
    /// The way in which a sender waits for the next planned time. `spin` reads the clock without pause, `yield` offers the CPU to
    /// other threads between readings, `sleep-spin` sleeps until shortly before. `auto` is `spin` if each thread has its own CPU,
    /// `yield` if threads share assigned CPUs, and otherwise `sleep-spin`.
    #[schemars(with = "PacingName")]
    pub pacing: Pacing,
    /// One loop for sending and receiving, or two threads.
    #[schemars(with = "RolesName")]
    pub roles: Roles,
    /// The number of independent clients of a process, which divide connections and rate among themselves. By default 1,
    /// or in a closed loop one for each CPU of the process, but no more than connections.
    pub clients: Option<NonZeroU32>,
    /// The number of processes, which divide connections and rate among themselves. Each has `clients` clients. By
    /// default 1, or in a lab one for each client host. A distributed run has one for each worker besides the first.
    pub processes: Option<NonZeroU32>,
    /// Whether TCP sockets send small requests at once (TCP_NODELAY). Otherwise they wait for the acknowledgement of earlier ones
    /// (Nagle's algorithm).
    pub tcp_nodelay: bool,
    /// The clock of timestamps.
    #[schemars(with = "ClockName")]
    pub clock: ClockChoice,
    /// The source of timestamps: the client alone, or the kernel too.
    #[schemars(with = "TimestampsName")]
    pub timestamps: Timestamps,
    /// The time limit to connect and get the first response; for `udp`, any response. Exceeding it fails the trial.
    /// Closed loops and short-lived connections have this limit for each request, and count a timeout as an error.
    pub timeout: Time,
    /// The time limit of each request of an open loop, from its send to the last byte of the response. A later response counts as
    /// a timeout. By default, requests wait up to the end of the cool-down.
    pub request_timeout: Option<Time>,
    /// The number of times that the client sends a request again, on the next connection that works, after a timeout or after the
    /// failure of its connection. By default 0. Needs `request-timeout`.
    pub retries: Option<u32>,
    /// The retry budget: the most retries, as a share of the requests. By default without limit. Needs `retries`.
    pub retry_budget: Option<Share>,
}

impl Client {
    /// Returns a load with these options of its client.
    pub fn configure(&self, mut load: LoadConfig) -> LoadConfig {
        load.client = ClientConfig {
            pacing: self.pacing,
            roles: self.roles,
            clients: self.clients.map_or(1, NonZeroU32::get),
            tcp_nodelay: self.tcp_nodelay,
            clock: self.clock,
            timestamps: self.timestamps,
            timeout_ns: self.timeout.0,
            ..load.client
        };
        load
    }

    /// Returns the time limit of requests, and their retries.
    pub fn request_timeout(&self) -> Option<RequestTimeout> {
        Some(RequestTimeout {
            timeout_ns: self.request_timeout?.0,
            retries: self.retries.unwrap_or(0),
            retry_budget: self.retry_budget.map(|share| share.0),
        })
    }
}

impl Default for Client {
    fn default() -> Self {
        Self {
            pacing: Pacing::Auto,
            roles: Roles::Auto,
            clients: None,
            processes: None,
            tcp_nodelay: true,
            clock: ClockChoice::Auto,
            timestamps: Timestamps::Client,
            timeout: Time(10_000_000_000),
            request_timeout: None,
            retries: None,
            retry_budget: None,
        }
    }
}
