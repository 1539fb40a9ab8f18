//! `[client]`: the clients of an experiment.

use std::num::NonZeroU32;

use load::config::{ClockChoice, Pacing, Roles, Timestamps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{ClockName, PacingName, RolesName, TimestampsName};
use super::units::Time;

/// The options of the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Client {
    /// The way in which a sender waits for the next planned time.
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
    /// The clock of timestamps.
    #[schemars(with = "ClockName")]
    pub clock: ClockChoice,
    /// The source of timestamps: the client alone, or the kernel too.
    #[schemars(with = "TimestampsName")]
    pub timestamps: Timestamps,
    /// The time limit to connect and get the first response; for `udp`, any response. Exceeding it fails the trial.
    /// Closed loops and short-lived connections have this limit for each request, and count a timeout as an error.
    pub timeout: Time,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            pacing: Pacing::Auto,
            roles: Roles::Auto,
            clients: None,
            processes: None,
            clock: ClockChoice::Auto,
            timestamps: Timestamps::Client,
            timeout: Time(10_000_000_000),
        }
    }
}
