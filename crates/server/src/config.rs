//! What a server is asked to be, as plain data.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::work::Work;
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
    /// The work that each request is besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// CPUs the server may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// CPUs of each stage's threads, for models in stages.
    #[serde(default, skip_serializing_if = "StageCpus::is_default")]
    pub stage_cpus: StageCpus,
    /// Connections that room is set aside for; one more is refused. The size of a pool that names none; what is beyond a
    /// pool waits.
    pub connections_max: u32,
}

/// CPUs that the threads of each stage may run on; empty is all of the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageCpus {
    /// The accept thread's, and what runs in it.
    pub accept: Vec<usize>,
    /// The network threads'.
    pub network: Vec<usize>,
    /// The payload threads'.
    pub payload: Vec<usize>,
}

impl StageCpus {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
