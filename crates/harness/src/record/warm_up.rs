//! The stored warm-up of an external server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load of an external server before its first trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Its length, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the server still got faster at the end.
    pub is_growing: bool,
    /// Whether the server was warmed for an earlier probe of the search.
    pub is_earlier: bool,
}
