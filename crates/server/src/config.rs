//! The configuration of a server, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Address, ServiceSpec};

use crate::Tls;
use crate::service::work::Work;
use crate::{
    Accept, Architecture, BusyPoll, Controllers, DatagramOptions, Limits, Options, ReadBudget, StageCpus, Stall,
};

/// The configuration of a server of muxbench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServeConfig {
    /// The architecture.
    pub architecture: Architecture,
    /// The accept strategy.
    pub accept: Accept,
    /// The service.
    pub service: ServiceSpec,
    /// The simulated work of each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The address to listen on; port 0 lets the kernel choose.
    pub listen: Address,
    /// The CPUs that the server may run on; empty for all CPUs.
    pub cpus: Vec<usize>,
    /// CPUs of each stage's threads, for event-driven models.
    #[serde(default, skip_serializing_if = "StageCpus::is_default")]
    pub stage_cpus: StageCpus,
    /// The most connections. Others are refused, or wait if the workers of a pool accept. Also the default size of a pool.
    pub connections_max: u32,
    /// The most bytes that one read takes from a connection.
    #[serde(default, skip_serializing_if = "ReadBudget::is_default")]
    pub read_budget_bytes: ReadBudget,
    /// Controllers of the payload stage.
    #[serde(default, skip_serializing_if = "Controllers::is_none")]
    pub controllers: Controllers,
    /// Periodic stalls of the first network thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// How a server of `udp` receives and sends.
    #[serde(default, skip_serializing_if = "DatagramOptions::is_default")]
    pub datagrams: DatagramOptions,
    /// Busy polling of the network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_poll: Option<BusyPoll>,
    /// Time limits for clients of `http`.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// TLS of all connections; `None` for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether the kernel also counts system calls, which slows each call down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl ServeConfig {
    /// Returns the configuration of a server on a free port of 127.0.0.1, on all CPUs, for up to 1 024 connections, without optional
    /// features.
    pub fn new(architecture: Architecture, service: ServiceSpec) -> Self {
        Self {
            architecture,
            accept: Accept::default_of(architecture.model),
            service,
            work: None,
            listen: ([127, 0, 0, 1], 0).into(),
            cpus: Vec::new(),
            stage_cpus: StageCpus::default(),
            connections_max: 1024,
            read_budget_bytes: ReadBudget::default(),
            controllers: Controllers::default(),
            stall: None,
            datagrams: DatagramOptions::default(),
            busy_poll: None,
            limits: Limits::default(),
            tls: None,
            count_syscalls: false,
        }
    }

    /// The options besides the architecture.
    pub fn options(&self) -> Options {
        let Self { accept, read_budget_bytes, controllers, stall, datagrams, busy_poll, .. } = *self;
        Options { accept, read_budget_bytes, controllers, stall, datagrams, busy_poll }
    }
}
