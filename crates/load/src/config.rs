//! What the load generator is asked to do, as plain data with every default made explicit.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

/// One trial's load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadConfig {
    /// The server's address.
    pub target: SocketAddr,
    /// The service spoken, with its sizes.
    pub service: ServiceSpec,
    /// Connections held open for the whole trial, over all threads.
    pub connections: u32,
    /// Requests a second while held and measured, over all threads.
    pub rate_per_s: f64,
    /// When each request is sent.
    pub schedule: Schedule,
    /// How long each phase lasts.
    pub phases: Phases,
    /// How a sender waits for the next planned time.
    pub pacing: Pacing,
    /// Whether sending and receiving are two threads or one loop.
    pub roles: Roles,
    /// Independent clients in this process; connections and rate are divided among them.
    pub clients: u32,
    /// CPUs the client's threads are pinned to, in order, round robin; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// The clock to take timestamps from.
    pub clock: ClockChoice,
    /// Seed of the schedule and of the choice of connections.
    pub seed: u64,
    /// A connection attempt, or its first response, that takes longer than this is a timeout.
    pub timeout_ns: u64,
}

/// How long each phase of a trial lasts, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// The rate grows exponentially to its target (kawai2008: 30 s).
    pub ramp_ns: u64,
    /// The target rate is held, to reach a steady state (kawai2008: 30 s).
    pub hold_ns: u64,
    /// Requests planned in this window are the result (kawai2008: 10 min).
    pub measure_ns: u64,
    /// At most this long is waited for responses that are still due after the window.
    pub drain_ns: u64,
}

impl Phases {
    /// From the first planned request to the end of the measured window, in nanoseconds.
    pub fn sending_ns(&self) -> u64 {
        self.ramp_ns + self.hold_ns + self.measure_ns
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// One request in each slot of `1/rate`, uniformly placed inside it (kawai2008 section 4.1.1).
    SlotRandom,
}

/// How a sender waits for a planned time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// `spin` where each thread has a CPU of its own, `yield` where threads of the client share one,
    /// `sleep-spin` where the client shares its CPU with the server.
    Auto,
    /// Looks at the clock and calls `sched_yield` in turn (the semi-busy wait of kawai2008 Figure 3).
    Yield,
    /// Looks at the clock without pause.
    Spin,
    /// Sleeps until shortly before the planned time, then spins.
    SleepSpin,
}

/// How sending and receiving map to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Roles {
    /// Two threads where `cpus` has one for each, else one loop.
    Auto,
    /// One thread that sends and receives.
    OneLoop,
    /// A send thread and a receive thread (kawai2008 section 4.1).
    TwoThreads,
}

/// Where timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockChoice {
    /// The TSC where it is invariant, else the kernel's clock.
    Auto,
    /// The time stamp counter; an error where it is not invariant.
    Tsc,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}
