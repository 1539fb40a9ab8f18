//! The messages from a `serve` process to the program that started it: one JSON object a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Address, Ports};

use crate::{Moved, Snapshot};

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServerEvent {
    /// The server listens.
    Ready {
        /// The address. If the configured port was 0, it holds the port that the kernel chose.
        address: Address,
        /// All ports, for datagrams.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ports: Option<Ports>,
        /// The certificates in PEM format, which clients must trust, if the server uses TLS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificates: Option<String>,
        /// The figures before the first connection, the base of memory figures.
        snapshot: Snapshot,
    },
    /// The answer to the line `mark`. `serve --json` also sends it once, when it stops.
    Mark {
        /// The figures so far.
        snapshot: Snapshot,
    },
    /// The answer to the line `moved`. It is cheaper than a snapshot.
    Moved {
        /// The bytes so far.
        moved: Moved,
    },
    /// The server could not start, or failed.
    Failed {
        /// The cause and the remedy.
        reason: String,
    },
}
