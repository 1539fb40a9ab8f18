//! The state of idle CPUs during a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of idle CPUs of the server's host during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleCpus {
    /// Idle CPUs poll on virtual machines, if that is permitted. Otherwise they sleep.
    #[default]
    Auto,
    /// Idle CPUs poll for work, so that a wake-up takes about a microsecond.
    Poll,
    /// Idle CPUs enter idle states, as the system is configured. A wake-up takes longer.
    Sleep,
}

impl IdleCpus {
    /// Tests for the default choice.
    pub(crate) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}
