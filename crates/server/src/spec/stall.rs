//! Periodic stalls of a network thread, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Periodic stalls of the first network thread, which then serves nothing, as if a request held it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The time from the start of a stall to the start of the next one.
    pub every_ns: u64,
    /// The duration of a stall.
    pub for_ns: u64,
}
