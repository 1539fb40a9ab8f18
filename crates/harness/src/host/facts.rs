//! A host as a planner sees it.

use std::collections::BTreeMap;

use crate::model::FleetFacts;
use crate::spec::units::Cpus;

/// The host, as a planner sees it. Plain data, so that tests can make one up.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPUs that this process may use, each core's together; none where nobody can be kept to any.
    pub cores: Vec<Vec<usize>>,
    /// Hard limit of descriptors of a process.
    pub descriptors_max: u64,
    /// Processes and threads that may exist: the least of all limits there are, and which one it is.
    pub tasks_max: (u64, String),
    /// Mappings of a process (vm.max_map_count).
    pub mappings_max: u64,
    /// Ports for outgoing connections to one address.
    pub ports: u64,
    /// Memory that may be used, in bytes.
    pub memory_bytes: u64,
    /// Where clients are that are ranks; without them, clients run here.
    pub fleet: Option<FleetFacts>,
    /// Facts by name, for the record.
    pub facts: BTreeMap<String, String>,
}

impl Host {
    /// How many CPUs it has, whichever of them this process may use; `None` where that is not known.
    pub fn cpus_online(&self) -> Option<usize> {
        Some(self.facts.get("cpus online")?.parse::<Cpus>().ok()?.0.len())
    }

    /// One that never was, of two CPUs and what Linux has by default, to plan for.
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
