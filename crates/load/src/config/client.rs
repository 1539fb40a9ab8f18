//! The client of a load: how it sends the traffic and measures the responses.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::login::Login;
use super::slices::Slices;
use super::tls::TlsConfig;
use super::traffic::Phases;

/// The client of one trial, and its way to the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientConfig {
    /// The TLS of the connections; `None` for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    /// The `Host` header of HTTP requests; the server's address by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What each connection must send before its first request, or each request of HTTP; `None` if the server lets everybody in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    /// The only path to request, if the servers of a workload have different ones; by default, all of its paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The slices of an interleaved trial, outside of which the client sends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
    /// The way a sender waits for the next planned time.
    pub pacing: Pacing,
    /// The threads that send and receive: one loop or two threads.
    pub roles: Roles,
    /// Independent clients in this process. They divide the connections and the rate.
    pub clients: u32,
    /// Processes that divide the connections and the rate. Each has `clients` clients.
    pub processes: u32,
    /// CPUs to pin the client's threads to, in order, round robin. If empty, the kernel places the threads.
    pub cpus: Vec<usize>,
    /// Whether TCP sockets send small requests at once (TCP_NODELAY), without Nagle's algorithm.
    pub tcp_nodelay: bool,
    /// The clock of the timestamps.
    pub clock: ClockChoice,
    /// The origin of timestamps.
    pub timestamps: Timestamps,
    /// The seed of the schedule and of the connection popularity.
    pub seed: u64,
    /// The longest time to connect and get the first response (for `udp`, closed loops and short-lived connections: any response),
    /// in ns.
    pub timeout_ns: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            tls: None,
            host: None,
            login: None,
            path: None,
            slices: None,
            pacing: Pacing::Auto,
            roles: Roles::Auto,
            clients: 1,
            processes: 1,
            cpus: Vec::new(),
            tcp_nodelay: true,
            clock: ClockChoice::Auto,
            timestamps: Timestamps::Client,
            seed: 1,
            timeout_ns: 10_000_000_000,
        }
    }
}

impl ClientConfig {
    /// Returns the nanoseconds after the start at which `phase_ns` of the phases have passed.
    pub fn elapsed_ns(&self, phase_ns: u64) -> u64 {
        self.slices.as_ref().map_or(phase_ns, |slices| slices.edge_ns(phase_ns))
    }

    /// The window, in nanoseconds after the start.
    pub fn window_ns(&self, phases: &Phases) -> Range<u64> {
        let sending_ns = phases.sending_ns();
        self.elapsed_ns(sending_ns - phases.measure_ns)..self.elapsed_ns(sending_ns)
    }

    /// The number of clients in all processes.
    pub fn all_clients(&self) -> u32 {
        self.clients.saturating_mul(self.processes)
    }
}

/// The way a sender of an open loop waits for a planned time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// `sleep-spin` if `cpus` is empty; otherwise `spin` if each thread has its own CPU, or `yield` if threads share CPUs.
    Auto,
    /// Alternates between reading the clock and `sched_yield` (the semi-busy wait of kawai2008 Figure 3).
    Yield,
    /// Reads the clock without pause.
    Spin,
    /// Sleeps until shortly before the planned time, then spins.
    SleepSpin,
}

/// The threads that send and receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Roles {
    /// Two threads if each has its own CPU (of `cpus`, or of the machine if `cpus` is empty); otherwise one loop.
    #[default]
    Auto,
    /// One thread that sends and receives.
    OneLoop,
    /// A send thread and a receive thread (kawai2008 section 4.1).
    TwoThreads,
}

/// The clock of the timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockChoice {
    /// The TSC if it is invariant, otherwise the kernel's clock.
    Auto,
    /// The time stamp counter; an error if it is not invariant.
    Tsc,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

/// The origin of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// The client: t2 and t3.
    #[default]
    Client,
    /// The client and the kernel (`SO_TIMESTAMPING`), which adds t2k (request at the driver) and t3k (response's arrival).
    Kernel,
}
