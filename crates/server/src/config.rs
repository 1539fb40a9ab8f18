//! What a server is asked to be, as plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::{Accept, Architecture};

/// What is started for a trial: a server of ours, or somebody else's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// Ours.
    Ours(ServeConfig),
    /// Somebody else's.
    Exec(ExecConfig),
}

impl Subject {
    /// It, if it is ours.
    pub fn ours(&self) -> Option<&ServeConfig> {
        match self {
            Self::Ours(config) => Some(config),
            Self::Exec(_) => None,
        }
    }

    /// CPUs it may run on; empty leaves placement to the kernel.
    pub fn cpus(&self) -> &[usize] {
        match self {
            Self::Ours(config) => &config.cpus,
            Self::Exec(config) => &config.cpus,
        }
    }
}

/// One server of ours.
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
}

/// Somebody else's server: a command that is started, without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecConfig {
    /// The program and its arguments; in each, `{port}`, `{request}` and `{response}` stand for numbers.
    pub command: Vec<String>,
    /// Where it is started; without it, where we are.
    pub directory: Option<PathBuf>,
    /// What is put into its environment; the same stand for numbers there.
    pub environment: BTreeMap<String, String>,
    /// Size of a request, in bytes.
    pub request_bytes: u32,
    /// Size of a response, in bytes.
    pub response_bytes: u32,
    /// CPUs it may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// It must accept a connection within this time, in nanoseconds.
    pub start_timeout_ns: u64,
}
