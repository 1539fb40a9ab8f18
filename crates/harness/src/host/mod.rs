//! Facts about this host, stored with every run, and the limits that plans must respect.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod idle_cpus;
pub mod interrupts;
#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod monitors;
pub mod placement;
#[cfg(target_os = "linux")]
mod probe;
pub(crate) mod ticks;

use std::collections::{BTreeMap, BTreeSet};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::detect;
#[cfg(target_os = "linux")]
pub use linux::detect;
#[cfg(target_os = "linux")]
pub(crate) use linux::kernel_timestamps;
pub use ticks::Reading;

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

/// Facts that vary on an unchanged host. The kernel enables timestamps in the background, on a busy host perhaps after the
/// probe's timeout.
const FLEETING: &[&str] = &["kernel timestamps", "load average", "memory available bytes", "steal ticks"];

/// Returns the facts that differ, each with its value before and now. "absent" marks a missing value. Facts that vary
/// on an unchanged host are ignored.
pub fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let value = |facts: &BTreeMap<String, String>, name| facts.get(name).map_or("absent", String::as_str).to_owned();
    names
        .into_iter()
        .filter(|name| !FLEETING.contains(&name.as_str()) && before.get(*name) != now.get(*name))
        .map(|name| (name.clone(), value(before, name), value(now, name)))
        .collect()
}

/// Returns the system and its kernel, as in `Linux 6.1.0`; `None` if the facts name no kernel.
pub fn system(facts: &BTreeMap<String, String>) -> Option<String> {
    Some(format!("{} {}", facts.get("system")?, facts.get("kernel")?.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_has_its_kernel() {
        let facts = [("kernel", "14.1-RELEASE #0"), ("system", "FreeBSD")];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(system(&facts).unwrap(), "FreeBSD 14.1-RELEASE");
        assert_eq!(system(&BTreeMap::new()), None);
    }

    #[test]
    fn this_host_has_facts_and_limits() {
        let host = detect();
        assert!(host.cores.iter().flatten().count() >= 1);
        assert!(host.cpus_online().is_none_or(|count| count >= host.cores.concat().len()), "{:?}", host.facts);
        assert!(host.descriptors_max > 0 && host.tasks_max.0 > 0 && host.ports > 0 && host.memory_bytes > 0);
        assert!(host.facts.contains_key("kernel") && host.facts.contains_key("cpus allowed"));
    }

    #[test]
    fn differences_include_added_and_removed_facts() {
        let facts = |facts: &[(&str, &str)]| -> BTreeMap<String, String> {
            facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before = facts(&[("governor", "performance"), ("kernel", "6.1"), ("steal ticks", "1"), ("smt", "on")]);
        let now = facts(&[("container", "docker"), ("kernel", "6.1"), ("steal ticks", "2"), ("smt", "off")]);
        let expected = [("container", "absent", "docker"), ("governor", "performance", "absent"), ("smt", "on", "off")];
        let found = differences(&before, &now);
        let found: Vec<_> = found.iter().map(|(name, a, b)| (name.as_str(), a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(differences(&now, &now), []);
    }
}
