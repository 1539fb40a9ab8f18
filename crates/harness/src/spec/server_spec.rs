//! The server of a trial, resolved from the experiment: one that muxbench is, starts, or finds.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::{ExternalConfig, Options, ServeConfig, TargetConfig};
use wire::Address;

/// The server of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a plan has one for each trial, and most are servers of muxbench")]
pub enum ServerSpec {
    /// A server of muxbench.
    Ours(ServeConfig),
    /// An external server.
    External(ExternalConfig),
    /// A server that already runs.
    Target(TargetConfig),
}

impl ServerSpec {
    /// The configuration of a server of muxbench; `None` for an external server.
    pub fn ours(&self) -> Option<&ServeConfig> {
        match self {
            Self::Ours(config) => Some(config),
            Self::External(_) | Self::Target(_) => None,
        }
    }

    /// The server that already runs; `None` for a server that muxbench starts.
    pub fn target(&self) -> Option<&TargetConfig> {
        if let Self::Target(config) = self { Some(config) } else { None }
    }

    /// Whether muxbench has counters of the server's process.
    pub fn is_counted(&self) -> bool {
        self.target().is_none_or(|target| target.pid.is_some())
    }

    /// The options besides the architecture; `None` for an external server.
    pub fn options(&self) -> Option<Options> {
        self.ours().map(ServeConfig::options)
    }

    /// The address that the server listens on.
    pub fn listen(&self) -> &Address {
        match self {
            Self::Ours(ServeConfig { listen, .. }) | Self::External(ExternalConfig { listen, .. }) => listen,
            Self::Target(TargetConfig { address, .. }) => address,
        }
    }

    /// The same server on another address. A target keeps its address.
    #[must_use]
    pub fn listening_on(mut self, address: Address) -> Self {
        if let Self::Ours(ServeConfig { listen, .. }) | Self::External(ExternalConfig { listen, .. }) = &mut self {
            *listen = address;
        }
        self
    }

    /// Whether the server needs a private folder besides that of its socket.
    pub fn needs_dir(&self) -> bool {
        if let Self::External(config) = self { config.needs_dir() } else { false }
    }

    /// The same server with a private folder.
    #[must_use]
    pub fn with_dir(mut self, dir: &Path) -> Self {
        if let Self::External(config) = &mut self {
            config.dir = Some(dir.to_owned());
        }
        self
    }

    /// The CPUs that the server may run on; empty for all CPUs, or if they are unknown.
    pub fn cpus(&self) -> &[usize] {
        let (Self::Ours(ServeConfig { cpus, .. })
        | Self::External(ExternalConfig { cpus, .. })
        | Self::Target(TargetConfig { cpus, .. })) = self;
        cpus
    }

    /// The CPUs on which muxbench starts the server.
    pub fn placed_cpus(&self) -> &[usize] {
        if self.target().is_some() { &[] } else { self.cpus() }
    }
}
