//! What a server is asked to be, as plain data.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::Architecture;

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeConfig {
    /// How it is built.
    pub architecture: Architecture,
    /// What it does with bytes.
    pub service: ServiceSpec,
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// CPUs the server may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// Connections that room is set aside for; one more is refused.
    pub connections_max: u32,
}
