//! `[client]`: the clients of an experiment.

use std::num::NonZeroU32;

use load::config::{ClockChoice, Pacing, Roles, Timestamps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{ClockName, PacingName, RolesName, TimestampsName};
use super::units::Time;

/// How the client is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Client {
    /// How a sender waits for the next planned time.
    #[schemars(with = "PacingName")]
    pub pacing: Pacing,
    /// Whether sending and receiving are two threads or one loop.
    #[schemars(with = "RolesName")]
    pub roles: Roles,
    /// Independent clients; connections and rate are divided among them. Without it one, and in a closed loop one for each of
    /// the client's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<NonZeroU32>,
    /// Processes that divide connections and rate among themselves, each with so many clients; without it one, in a lab one on
    /// each of its clients' hosts. In a fleet there
    /// are as many as it has ranks besides the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<NonZeroU32>,
    /// The clock of timestamps.
    #[schemars(with = "ClockName")]
    pub clock: ClockChoice,
    /// Who takes timestamps: the client alone, or the kernel too.
    #[schemars(with = "TimestampsName")]
    pub timestamps: Timestamps,
    /// A connection that takes longer than this to be made and served fails the trial.
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
