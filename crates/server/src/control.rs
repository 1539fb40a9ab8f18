//! What a `serve` process says to the program that started it: one JSON object a line.

use serde::{Deserialize, Serialize};
use wire::{Address, Ports};

use crate::{Moved, Snapshot};

/// A line from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// It listens.
    Ready {
        /// The address, with the port that the kernel chose.
        address: Address,
        /// All ports, of a service of datagrams.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ports: Option<Ports>,
        /// Before the first connection: what memory is measured against.
        snapshot: Snapshot,
    },
    /// The answer to a line `mark`.
    Mark {
        /// Now.
        snapshot: Snapshot,
    },
    /// The answer to a line `moved`, which costs less.
    Moved {
        /// Now.
        moved: Moved,
    },
    /// It could not start, or cannot go on.
    Failed {
        /// Cause, place, remedy.
        reason: String,
    },
}
