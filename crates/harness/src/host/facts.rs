//! Facts and limits of a host, for the planner.

use std::collections::BTreeMap;

use crate::record::FleetFacts;
use crate::spec::units::Cpus;

/// Facts and limits of a host, for the planner. Plain data, so that tests can construct one.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// The CPUs that this process may use, grouped by core. Empty if this system cannot place processes.
    pub cores: Vec<Vec<usize>>,
    /// The hard limit of descriptors per process.
    pub descriptors_max: u64,
    /// The lowest limit of processes and threads, and its name.
    pub tasks_max: (u64, String),
    /// The maximum number of memory mappings of a process (vm.max_map_count).
    pub mappings_max: u64,
    /// The number of local ports that the system chooses from for outgoing connections.
    pub ports: u64,
    /// The available memory, in bytes.
    pub memory_bytes: u64,
    /// Facts about the workers of a distributed run. `None` if all clients run here.
    pub fleet: Option<FleetFacts>,
    /// Facts by name, for the stored run.
    pub facts: BTreeMap<String, String>,
}

impl Host {
    /// Returns the number of online CPUs, whether this process may use them or not. `None` if unknown.
    pub fn cpus_online(&self) -> Option<usize> {
        Some(self.facts.get("cpus online")?.parse::<Cpus>().ok()?.0.len())
    }

    /// Returns a fictional host with two CPUs, 20 000 descriptors, 16 GiB, and otherwise the default limits of Linux.
    pub fn made_up() -> Self {
        Self {
            cores: vec![vec![0], vec![1]],
            descriptors_max: 20_000,
            tasks_max: (32_768, "kernel.pid_max".into()),
            mappings_max: 65_530,
            ports: 28_232,
            memory_bytes: 16 << 30,
            fleet: None,
            facts: BTreeMap::new(),
        }
    }
}
