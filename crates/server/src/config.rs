//! What a server is asked to be, as plain data.

use serde::{Deserialize, Serialize};
use wire::{Address, ServiceSpec};

use crate::service::work::Work;
use crate::{Accept, Architecture, ExternalConfig, Limits, ReadBudget, StageCpus};

/// What is started for a trial: a server of ours, or somebody else's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ServerSpec {
    /// Ours.
    Ours(ServeConfig),
    /// Somebody else's.
    External(ExternalConfig),
}

impl ServerSpec {
    /// It, if it is ours.
    pub fn ours(&self) -> Option<&ServeConfig> {
        match self {
            Self::Ours(config) => Some(config),
            Self::External(_) => None,
        }
    }

    /// Its options besides its architecture; `None` for an external server.
    pub fn options(&self) -> Option<Options> {
        self.ours().map(ServeConfig::options)
    }

    /// Where it listens.
    pub fn listen(&self) -> &Address {
        match self {
            Self::Ours(config) => &config.listen,
            Self::External(config) => &config.listen,
        }
    }

    /// The same elsewhere.
    #[must_use]
    pub fn listening_on(mut self, address: Address) -> Self {
        match &mut self {
            Self::Ours(config) => config.listen = address,
            Self::External(config) => config.listen = address,
        }
        self
    }

    /// CPUs it may run on; empty leaves placement to the kernel.
    pub fn cpus(&self) -> &[usize] {
        match self {
            Self::Ours(config) => &config.cpus,
            Self::External(config) => &config.cpus,
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
    /// The work that each request is besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: Address,
    /// CPUs the server may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// CPUs of each stage's threads, for models in stages.
    #[serde(default, skip_serializing_if = "StageCpus::is_default")]
    pub stage_cpus: StageCpus,
    /// ConnectionTable that room is set aside for; one more is refused. The size of a pool that names none; what is beyond a
    /// pool waits.
    pub connections_max: u32,
    /// The most bytes that one read takes from a connection.
    #[serde(default, skip_serializing_if = "ReadBudget::is_default")]
    pub read_budget_bytes: ReadBudget,
    /// How long clients may take, of `http`.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether the kernel counts its system calls too, which makes each of them dearer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl ServeConfig {
    /// Its options besides its architecture.
    pub fn options(&self) -> Options {
        Options { accept: self.accept, read_budget_bytes: self.read_budget_bytes }
    }
}

/// Options that change what an architecture does. Figures of different options are never merged, and tables name options
/// that are not the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Options {
    /// How connections are accepted.
    pub accept: Accept,
    /// The most bytes that one read takes from a connection.
    pub read_budget_bytes: ReadBudget,
}
