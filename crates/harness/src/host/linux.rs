//! Facts and limits of a Linux host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use load::io::interface;
use load::result::Hardware;
use rustix::process::{Resource, getrlimit};

use super::{Host, idle_cpus, interrupts, probe};

/// The time to wait for the kernel's timestamps while planning. They usually arrive immediately.
const STAMPS_TIMEOUT: Duration = Duration::from_millis(8);

/// Reads the facts and limits of this host.
pub fn detect() -> Host {
    let allowed = server::platform::cpus();
    let ports = read("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| {
        let (low, high) = text.split_once(char::is_whitespace)?;
        Some(high.trim().parse::<u64>().ok()?.saturating_sub(low.parse().ok()?) + 1)
    });
    Host {
        cores: cores(&allowed),
        descriptors_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        tasks_max: tasks_max(),
        mappings_max: number("/proc/sys/vm/max_map_count").unwrap_or(65_530),
        ports: ports.unwrap_or(28_232),
        memory_bytes: memory_bytes(),
        fleet: None,
        facts: facts(&allowed),
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

/// Returns the available memory in bytes, or the cgroup's limit if lower. Does not subtract the memory that the cgroup uses,
/// because much of it is page cache that the kernel can reclaim.
fn memory_bytes() -> u64 {
    [meminfo_bytes("MemAvailable:"), cgroup_memory_max()].into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// Groups the allowed CPUs by core, in order.
fn cores(allowed: &[usize]) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for &cpu in allowed {
        let siblings = read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let first = siblings.as_deref().and_then(|list| list.split([',', '-']).next()?.parse().ok()).unwrap_or(cpu);
        cores.entry(format!("{first:08}")).or_default().push(cpu);
    }
    cores.into_values().collect()
}

/// Returns the lowest limit that `controller` sets for this process's cgroup and its parents. `limit` reads it from the folder
/// of one cgroup. Its second argument is true for version 1 of the cgroup interface, and false for version 2.
fn cgroup_min(controller: &str, limit: impl Fn(&str, bool) -> Option<u64>) -> Option<u64> {
    let limit_of_line = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (folder, is_v1) = match controllers {
            "" => (String::new(), false),
            _ if controllers.split(',').any(|one| one == controller) => (format!("/{controller}"), true),
            _ => return None,
        };
        let groups = Path::new(path).ancestors();
        groups.filter_map(|group| limit(&format!("/sys/fs/cgroup{folder}{}", group.display()), is_v1)).min()
    };
    read("/proc/self/cgroup")?.lines().filter_map(limit_of_line).min()
}

/// Returns the limit of CPU time, in thousandths of a CPU.
fn cgroup_milli_cpus_max() -> Option<u64> {
    cgroup_min("cpu", |group, is_v1| {
        let (quota, period): (u64, u64) = if is_v1 {
            // Without a limit the quota is -1, which does not parse as `u64`.
            (number(&format!("{group}/cpu.cfs_quota_us"))?, number(&format!("{group}/cpu.cfs_period_us"))?)
        } else {
            let max = read(&format!("{group}/cpu.max"))?;
            let (quota, period) = max.split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        };
        (quota * 1000).checked_div(period)
    })
}

fn cgroup_tasks_max() -> Option<u64> {
    cgroup_min("pids", |group, _| number(&format!("{group}/pids.max")))
}

fn cgroup_memory_max() -> Option<u64> {
    let name = |is_v1| if is_v1 { "memory.limit_in_bytes" } else { "memory.max" };
    let limit = cgroup_min("memory", |group, is_v1| number(&format!("{group}/{}", name(is_v1))));
    // Without a limit, version 1 reports almost 2^63 bytes.
    limit.filter(|bytes| *bytes < 1 << 60)
}

/// Returns the container engine, detected by the files that it creates.
fn container() -> Option<String> {
    let engine = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let left = engine.iter().find(|(path, _)| Path::new(path).exists()).map(|(_, name)| (*name).to_owned());
    left.or_else(|| read("/run/systemd/container"))
}

fn tasks_max() -> (u64, String) {
    // The limit of processes does not bind the host's root.
    let map = read("/proc/self/uid_map").unwrap_or_default();
    let is_root = rustix::process::getuid().is_root() && map.split_whitespace().take(2).eq(["0", "0"]);
    let limits = [
        (getrlimit(Resource::Nproc).maximum.filter(|_| !is_root), "the limit of processes (ulimit -Hu)"),
        (number("/proc/sys/kernel/threads-max"), "kernel.threads-max"),
        (number("/proc/sys/kernel/pid_max"), "kernel.pid_max"),
        (cgroup_tasks_max(), "the cgroup's pids.max"),
    ];
    let lowest = limits.into_iter().filter_map(|(limit, name)| Some((limit?, name.to_owned()))).min();
    lowest.unwrap_or((u64::MAX, "no limit".to_owned()))
}

fn facts(allowed: &[usize]) -> BTreeMap<String, String> {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let of_cpu = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let idle_states = idle_states(allowed);
    let flags = of_cpu("flags");
    let has = |flag: &str| flags.as_ref().map(|flags| flags.split_whitespace().any(|word| word == flag));
    let stat = read("/proc/stat").unwrap_or_default();
    let steal = stat.lines().next().and_then(|line| line.split_whitespace().nth(8).map(str::to_owned));
    let limit = |resource| getrlimit(resource).maximum.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let uname = rustix::system::uname();
    let facts = [
        ("system", Some(uname.sysname().to_string_lossy().into_owned())),
        ("kernel", Some(format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy()))),
        ("machine", Some(uname.machine().to_string_lossy().into_owned())),
        ("host name", Some(uname.nodename().to_string_lossy().into_owned())),
        ("cpu", of_cpu("model name")),
        ("cpus allowed", Some(crate::spec::units::Cpus(allowed.to_vec()).to_string())),
        ("cores", Some(format!("{:?}", cores(allowed)))),
        ("cpus online", read("/sys/devices/system/cpu/online")),
        ("cpus isolated", read("/sys/devices/system/cpu/isolated")),
        ("cpus nohz_full", read("/sys/devices/system/cpu/nohz_full")),
        ("smt", read("/sys/devices/system/cpu/smt/active").map(|on| if on == "1" { "on" } else { "off" }.to_owned())),
        ("governor", of_all(allowed, "cpufreq/scaling_governor")),
        ("cpufreq driver", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")),
        ("boost", read("/sys/devices/system/cpu/cpufreq/boost")),
        ("turbo disabled", read("/sys/devices/system/cpu/intel_pstate/no_turbo")),
        ("cpuidle driver", read("/sys/devices/system/cpu/cpuidle/current_driver")),
        ("cpuidle governor", read("/sys/devices/system/cpu/cpuidle/current_governor")),
        (idle_cpus::FACT, Some(idle_cpus::fact(idle_states.as_deref()))),
        ("cpuidle states", idle_states),
        ("timer slack ns", rustix::thread::current_timer_slack().ok().map(|ns| ns.to_string())),
        ("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("clocksources", read("/sys/devices/system/clocksource/clocksource0/available_clocksource")),
        ("invariant tsc", has("constant_tsc").zip(has("nonstop_tsc")).map(|(one, other)| (one && other).to_string())),
        ("container", container()),
        ("cgroup memory max bytes", cgroup_memory_max().map(|bytes| bytes.to_string())),
        ("cgroup cpus max", cgroup_milli_cpus_max().map(|milli| format!("{}.{:03}", milli / 1000, milli % 1000))),
        ("cgroup tasks max", cgroup_tasks_max().map(|tasks| tasks.to_string())),
        ("hypervisor", has("hypervisor").map(|has| has.to_string())),
        ("steal ticks", steal),
        ("memory bytes", meminfo_bytes("MemTotal:").map(|bytes| bytes.to_string())),
        ("memory available bytes", meminfo_bytes("MemAvailable:").map(|bytes| bytes.to_string())),
        ("memory monitors", memory_monitors()),
        ("load average", read("/proc/loadavg")),
        ("descriptors max", Some(limit(Resource::Nofile))),
        ("processes max", Some(limit(Resource::Nproc))),
        ("threads-max", read("/proc/sys/kernel/threads-max")),
        ("pid_max", read("/proc/sys/kernel/pid_max")),
        ("max_map_count", read("/proc/sys/vm/max_map_count")),
        ("somaxconn", read("/proc/sys/net/core/somaxconn")),
        ("tcp_max_syn_backlog", read("/proc/sys/net/ipv4/tcp_max_syn_backlog")),
        ("port range", read("/proc/sys/net/ipv4/ip_local_port_range").map(|range| range.replace('\t', "-"))),
        ("io_uring disabled", read("/proc/sys/kernel/io_uring_disabled")),
        ("io_uring", Some(probe::io_uring().map_or_else(|error| format!("refused: {error}"), |()| "allowed".into()))),
        (interrupts::FACT, Some(interrupts::fact())),
        ("kernel timestamps", Some(kernel_timestamps(STAMPS_TIMEOUT))),
        ("hardware timestamps", Some(hardware_timestamps())),
        ("mitigations", Some(vulnerabilities("Mitigation"))),
        ("vulnerable", Some(vulnerabilities("Vulnerable"))),
        ("network", Some("loopback: requests and responses do not pass a network interface".to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Tells whether the kernel monitors accesses to memory (DAMON): `on`, `off`, or `unreadable` for this user; `None` without sysfs.
fn memory_monitors() -> Option<String> {
    let monitors = match fs::read_dir("/sys/kernel/mm/damon/admin/kdamonds") {
        Err(_) if Path::new("/sys/kernel/mm").is_dir() => return Some("off".to_owned()),
        monitors => monitors.ok()?.flatten().filter(|it| it.path().is_dir()),
    };
    let states: Vec<Option<String>> = monitors.map(|it| read(&format!("{}/state", it.path().display()))).collect();
    Some(match states.iter().flatten().any(|state| state == "on") {
        true => "on".to_owned(),
        false if states.iter().all(Option::is_some) => "off".to_owned(),
        false => "unreadable".to_owned(),
    })
}

/// Returns the distinct contents of the file `name` of all `cpus`.
fn of_all(cpus: &[usize], name: &str) -> Option<String> {
    let values = cpus.iter().filter_map(|cpu| read(&format!("/sys/devices/system/cpu/cpu{cpu}/{name}")));
    let values: Vec<String> = values.collect::<BTreeSet<_>>().into_iter().collect();
    (!values.is_empty()).then(|| values.join(" "))
}

/// Returns the enabled idle states of the first CPU with their exit latencies, as in `POLL 0 us, C1 2 us`.
fn idle_states(allowed: &[usize]) -> Option<String> {
    let folder = format!("/sys/devices/system/cpu/cpu{}/cpuidle", allowed.first()?);
    let states: Vec<String> = (0..)
        .map(|number| format!("{folder}/state{number}"))
        .map_while(|state| Some((read(&format!("{state}/name"))?, state)))
        .filter(|(_, state)| number(&format!("{state}/disable")) != Some(1))
        .filter_map(|(name, state)| Some(format!("{name} {} us", number(&format!("{state}/latency"))?)))
        .collect();
    (!states.is_empty()).then(|| states.join(", "))
}

/// Returns in words which packets on loopback the kernel timestamps. Waits at most `timeout` for timestamps.
pub(crate) fn kernel_timestamps(timeout: Duration) -> String {
    match load::io::stamps::on_loopback(timeout) {
        Ok(load::io::stamps::Stamped { sent: true, received: true }) => "sent and received".into(),
        Ok(load::io::stamps::Stamped { sent: true, .. }) => "sent only".into(),
        Ok(load::io::stamps::Stamped { received: true, .. }) => "received only".into(),
        Ok(_) => format!("none within {} ms", timeout.as_millis()),
        Err(error) => format!("refused: {error}"),
    }
}

/// Returns the interfaces with hardware timestamps.
fn hardware_timestamps() -> String {
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let interfaces = interfaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
    words(interfaces.filter(|name| interface::hardware(name) != Hardware::None))
}

/// Returns the names of the vulnerabilities whose status begins with `state`.
fn vulnerabilities(state: &str) -> String {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return "unknown".into() };
    let entries = entries.flatten();
    let entries = entries.filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with(state)));
    words(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

/// Joins the words in sorted order, or returns `none`.
fn words(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect::<BTreeSet<_>>().into_iter().collect();
    if words.is_empty() { "none".into() } else { words.join(" ") }
}
