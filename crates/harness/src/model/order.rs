//! The order that a `load` process receives.

use load::LoadConfig;
use serde::{Deserialize, Serialize};

use crate::model::Trial;

/// What a `load` process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOrder {
    /// What to do.
    pub config: LoadConfig,
    /// The trial that it is for, which goes with its samples.
    pub trial: Trial,
    /// Whether nobody is to be told how far it is.
    #[serde(default)]
    pub is_quiet: bool,
}

impl LoadOrder {
    /// Of a client whose progress is told.
    pub fn new(config: LoadConfig, trial: Trial) -> Self {
        Self { config, trial, is_quiet: false }
    }
}
