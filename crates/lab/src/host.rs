//! What is known of this host: facts that are stored with every run, and limits that plans are checked against.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// The host, as a planner sees it. Plain data, so that tests can make one up.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPUs that this process may use, each core's together.
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
    /// Facts by name, for the record.
    pub facts: BTreeMap<String, String>,
}

impl Host {
    /// This host.
    pub fn this() -> Self {
        let allowed = allowed_cpus();
        let ports = read("/proc/sys/net/ipv4/ip_local_port_range")
            .and_then(|text| {
                let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
                Some((ends.next()??, ends.next()??))
            })
            .map_or(28_232, |(low, high)| high.saturating_sub(low) + 1);
        Self {
            cores: cores(&allowed),
            descriptors_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            tasks_max: tasks_max(),
            mappings_max: number("/proc/sys/vm/max_map_count").unwrap_or(65_530),
            ports,
            memory_bytes: memory_bytes(),
            facts: facts(&allowed),
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

fn meminfo_bytes(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let kib: u64 = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())?;
    Some(kib * 1024)
}

/// What is available, or the cgroup's limit if that is less. It is too generous by what the cgroup uses already, much of
/// which is page cache that gives way.
fn memory_bytes() -> u64 {
    [meminfo_bytes("MemAvailable:"), cgroup_memory_max()].into_iter().flatten().min().unwrap_or(u64::MAX)
}

fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Allowed CPUs, siblings of one core together, in order.
fn cores(allowed: &[usize]) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for &cpu in allowed {
        let siblings = read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let first = siblings.as_deref().and_then(|list| list.split([',', '-']).next()?.parse().ok()).unwrap_or(cpu);
        cores.entry(format!("{first:08}")).or_default().push(cpu);
    }
    cores.into_values().collect()
}

/// The least limit that this process's cgroup, or one above it, sets: in the file `name` of version 2, or in `name_v1` of
/// version 1's `controller`.
fn cgroup_limit(controller: &str, name: &str, name_v1: &str) -> Option<u64> {
    let own = read("/proc/self/cgroup")?;
    own.lines()
        .filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let (folder, name) = match controllers {
                "" => (String::new(), name),
                _ if controllers.split(',').any(|one| one == controller) => (format!("/{controller}"), name_v1),
                _ => return None,
            };
            let groups = Path::new(path).ancestors();
            groups.filter_map(|group| number(&format!("/sys/fs/cgroup{folder}{}/{name}", group.display()))).min()
        })
        .min()
}

fn cgroup_tasks_max() -> Option<u64> {
    cgroup_limit("pids", "pids.max", "pids.max")
}

fn cgroup_memory_max() -> Option<u64> {
    // Version 1 says "no limit" with the largest number of pages.
    cgroup_limit("memory", "memory.max", "memory.limit_in_bytes").filter(|bytes| *bytes < 1 << 60)
}

/// Whether this runs in a container, by what container engines leave behind.
fn container() -> Option<String> {
    let engine = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let left = engine.iter().find(|(path, _)| Path::new(path).exists()).map(|(_, name)| (*name).to_owned());
    left.or_else(|| read("/run/systemd/container"))
}

fn tasks_max() -> (u64, String) {
    let limits = [
        (getrlimit(Resource::Nproc).maximum, "the limit of processes (ulimit -Hu)"),
        (number("/proc/sys/kernel/threads-max"), "kernel.threads-max"),
        (number("/proc/sys/kernel/pid_max"), "kernel.pid_max"),
        (cgroup_tasks_max(), "the cgroup's pids.max"),
    ];
    let (limit, name) =
        limits.into_iter().filter_map(|(limit, name)| Some((limit?, name))).min().unwrap_or((u64::MAX, "no limit"));
    (limit, name.to_owned())
}

fn facts(allowed: &[usize]) -> BTreeMap<String, String> {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let of_cpu = |name: &str| {
        cpuinfo
            .lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let flags = of_cpu("flags").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let stat = read("/proc/stat").unwrap_or_default();
    let steal = stat.lines().next().and_then(|line| line.split_whitespace().nth(8).map(str::to_owned));
    let limit = |resource| getrlimit(resource).maximum.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let uname = rustix::system::uname();
    let facts = [
        ("kernel", Some(format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy()))),
        ("machine", Some(uname.machine().to_string_lossy().into_owned())),
        ("host name", Some(uname.nodename().to_string_lossy().into_owned())),
        ("cpu", of_cpu("model name")),
        ("cpus allowed", Some(crate::units::Cpus(allowed.to_vec()).to_string())),
        ("cores", Some(format!("{:?}", cores(allowed)))),
        ("smt", read("/sys/devices/system/cpu/smt/active").map(|on| if on == "1" { "on" } else { "off" }.to_owned())),
        ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("cpufreq driver", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")),
        ("boost", read("/sys/devices/system/cpu/cpufreq/boost")),
        ("turbo disabled", read("/sys/devices/system/cpu/intel_pstate/no_turbo")),
        ("cpuidle driver", read("/sys/devices/system/cpu/cpuidle/current_driver")),
        ("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("invariant tsc", Some((has("constant_tsc") && has("nonstop_tsc")).to_string())),
        ("container", container()),
        ("cgroup memory max bytes", cgroup_memory_max().map(|bytes| bytes.to_string())),
        ("cgroup tasks max", cgroup_tasks_max().map(|tasks| tasks.to_string())),
        ("hypervisor", Some(has("hypervisor").to_string())),
        ("steal ticks", steal),
        ("memory bytes", meminfo_bytes("MemTotal:").map(|bytes| bytes.to_string())),
        ("memory available bytes", meminfo_bytes("MemAvailable:").map(|bytes| bytes.to_string())),
        ("load average", read("/proc/loadavg")),
        ("descriptors max", Some(limit(Resource::Nofile))),
        ("processes max", Some(limit(Resource::Nproc))),
        ("threads-max", read("/proc/sys/kernel/threads-max")),
        ("pid_max", read("/proc/sys/kernel/pid_max")),
        ("somaxconn", read("/proc/sys/net/core/somaxconn")),
        ("port range", read("/proc/sys/net/ipv4/ip_local_port_range").map(|range| range.replace('\t', "-"))),
        ("io_uring disabled", read("/proc/sys/kernel/io_uring_disabled")),
        ("mitigations", Some(mitigations())),
        ("network", Some("loopback: requests and responses do not pass a network interface".to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Vulnerabilities that are mitigated here, by name.
fn mitigations() -> String {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return "unknown".into() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with("Mitigation")))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_what_plans_need() {
        let host = Host::this();
        assert!(host.cores.iter().flatten().count() >= 1);
        assert!(host.descriptors_max > 0 && host.tasks_max.0 > 0 && host.ports > 0 && host.memory_bytes > 0);
        assert!(host.facts.contains_key("kernel") && host.facts.contains_key("cpus allowed"));
    }
}
