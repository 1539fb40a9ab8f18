//! What a server is asked to be, as plain data.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::{Accept, Architecture};

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeConfig {
    /// How it is built.
    pub architecture: Architecture,
    /// How connections come to what serves them. Runs stored before there was a choice had one accept thread.
    #[serde(default)]
    pub accept: Accept,
    /// What it does with bytes.
    pub service: ServiceSpec,
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// CPUs the server may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// Connections that room is set aside for; one more is refused. The size of a pool that names none; what is beyond a
    /// pool waits.
    pub connections_max: u32,
    /// Whether the kernel counts its system calls too, which makes each of them dearer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}
