//! The choice between interleaved and separate trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the architectures of a workload are up at the same time and take turns to be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interleave {
    /// Interleaves all trials that can share a window, and runs the others separately.
    #[default]
    Auto,
    /// Interleaves all trials. Reports an error if one cannot share a window.
    Always,
    /// Runs each trial separately.
    Never,
}

impl Interleave {
    /// Tests for the default choice.
    pub(crate) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }

    /// Tests for separate trials.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}
