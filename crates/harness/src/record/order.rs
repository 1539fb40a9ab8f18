//! The orders that client processes receive.

use load::LoadConfig;
use serde::{Deserialize, Serialize};
use wire::secret;

use crate::record::Trial;

/// The order for a `load` process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOrder {
    /// The client's configuration.
    pub config: LoadConfig,
    /// The trial, which is stored with the samples.
    pub trial: Trial,
    /// Whether the process sends no progress events.
    pub is_quiet: bool,
    /// The values of the digests in the configuration.
    pub secrets: secret::Known,
}

impl LoadOrder {
    /// An order for a process that sends progress events.
    pub fn new(config: LoadConfig, trial: Trial) -> Self {
        Self { config, trial, is_quiet: false, secrets: secret::Known }
    }
}

/// The order for an `idle` process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdleOrder {
    /// The configuration of the connections.
    pub config: LoadConfig,
    /// The values of the digests in the configuration.
    pub secrets: secret::Known,
}
