//! What is known of this host: facts that are stored with every run, and limits that plans are checked against.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::Facts;
use crate::units::Cpus;
#[cfg(not(target_os = "linux"))]
use elsewhere::this;
#[cfg(target_os = "linux")]
pub(crate) use linux::kernel_timestamps;
#[cfg(target_os = "linux")]
use linux::this;

/// Facts that change by themselves. Stamps are among them because a busy host may not begin to stamp in the time given.
const FLEETING: &[&str] = &["kernel timestamps", "load average", "memory available bytes", "steal ticks"];

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
    pub fleet: Option<Facts>,
    /// Facts by name, for the record.
    pub facts: BTreeMap<String, String>,
}

impl Host {
    /// This host.
    pub fn this() -> Self {
        this()
    }

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

/// Facts that differ between two hosts, or between two times of one, of those that do not change by themselves: each
/// with its value before and now, "absent" where there is none.
pub fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let value = |facts: &BTreeMap<String, String>, name| facts.get(name).map_or("absent", String::as_str).to_owned();
    names
        .into_iter()
        .filter(|name| !FLEETING.contains(&name.as_str()) && before.get(*name) != now.get(*name))
        .map(|name| (name.clone(), value(before, name), value(now, name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_what_plans_need() {
        let host = Host::this();
        assert!(host.cores.iter().flatten().count() >= 1);
        assert!(host.cpus_online().is_none_or(|count| count >= host.cores.concat().len()), "{:?}", host.facts);
        assert!(host.descriptors_max > 0 && host.tasks_max.0 > 0 && host.ports > 0 && host.memory_bytes > 0);
        assert!(host.facts.contains_key("kernel") && host.facts.contains_key("cpus allowed"));
    }

    #[test]
    fn differences_show_what_came_and_what_went() {
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
