//! The table of checks, their input and their results.
//!
//! A remedy is a command to copy, which starts in lower case, or a capitalised sentence.

use schemars::JsonSchema;
use serde::Serialize;

use super::noise::{Noise, Pauses};
use crate::exec::leftovers::Leftover;
use crate::host::placement::place;
use crate::host::{Host, idle_cpus};
use crate::spec::Placement;
use crate::spec::units::Cpus;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The check's name.
    pub name: String,
    /// The value found on this host, for the reader.
    pub value: String,
    /// The assessment of the value.
    pub severity: Severity,
    /// The effect of a bad value on results.
    pub effect: String,
    /// A command (lower case) or a sentence (capitalised). Empty if there is nothing to do.
    pub remedy: String,
}

/// The assessment of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good, or without effect.
    Good,
    /// Disturbs results, or limits the possible measurements.
    Warning,
    /// Not reported by the host.
    Unknown,
}

/// The input of the checks. Plain data, so that tests can construct it.
#[derive(Clone, Debug)]
pub struct HostSnapshot {
    /// Limits, CPUs, facts.
    pub host: Host,
    /// The load of other programs.
    pub noise: Noise,
    /// Processes and folders left behind by killed runs.
    pub leftovers: Vec<Leftover>,
}

impl HostSnapshot {
    /// Returns a fact, unless it is missing or empty.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.host.facts.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Tests whether this host is a virtual machine. Its hypervisor hides much of the machine.
    pub fn is_virtual(&self) -> bool {
        self.fact("hypervisor") == Some("true")
    }
}

/// A check.
#[derive(Debug)]
pub struct CheckRow {
    /// Its name in the report and in JSON.
    pub name: &'static str,
    /// How a bad value affects results.
    pub effect: &'static str,
    /// Assesses a host.
    pub examine: fn(&HostSnapshot) -> Outcome,
}

impl CheckRow {
    /// Runs the check.
    pub fn diagnose(&self, snapshot: &HostSnapshot) -> Diagnosis {
        let Outcome { value, severity, remedy } = (self.examine)(snapshot);
        Diagnosis { name: self.name.to_owned(), value, severity, effect: self.effect.to_owned(), remedy }
    }
}

/// The outcome of a check.
#[derive(Debug)]
pub struct Outcome {
    value: String,
    severity: Severity,
    remedy: String,
}

fn good(value: impl Into<String>) -> Outcome {
    Outcome { value: value.into(), severity: Severity::Good, remedy: String::new() }
}

fn warning(value: impl Into<String>, remedy: impl Into<String>) -> Outcome {
    Outcome { value: value.into(), severity: Severity::Warning, remedy: remedy.into() }
}

fn unknown(value: impl Into<String>, remedy: impl Into<String>) -> Outcome {
    Outcome { value: value.into(), severity: Severity::Unknown, remedy: remedy.into() }
}

fn not_reported() -> Outcome {
    unknown("not reported by the kernel", "")
}

/// The outcome for a value that the hypervisor hides.
fn hidden() -> Outcome {
    let remedy = "Repeat more (--repeats 10), and compare only consecutive runs on one virtual machine";
    unknown("hidden by the hypervisor", remedy)
}

/// Warns about a limit below `wanted`. A plan lists the trials that a limit makes infeasible.
fn at_least(number: u64, wanted: u64, suffix: &str, remedy: impl Into<String>) -> Outcome {
    let value = if number == u64::MAX { "unlimited".into() } else { number.to_string() };
    let value = format!("{value}{suffix}");
    if number >= wanted { good(value) } else { warning(format!("{value}, below the recommended {wanted}"), remedy) }
}

/// The shortest pause that shows in results: several times the latency of a small request.
const PAUSE_LONG_NS: u64 = 200_000;
/// The lowest share of a CPU's time that shows in medians.
const SHARE_HIGH: f64 = 0.01;
/// The highest share of a CPU's time that an idle host uses, including the error of the kernel's coarse ticks.
const BUSY_HIGH: f64 = 0.03;
/// The shortest wake-up time that shows in a latency of some 50 us.
const IDLE_EXIT_HIGH_US: u64 = 10;
/// The kernel's default timer slack.
const SLACK_DEFAULT_NS: u64 = 50_000;
/// The kernel's default for somaxconn since 5.4. A connection beyond the accept queue waits a second until its SYN is resent.
const BACKLOG: u64 = 4_096;
/// Clock sources that are read without a system call.
const CLOCKS_OF_USER_SPACE: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// The size of the kernel's default port range.
const PORTS: u64 = 28_232;

/// Generates the table from names, effects and functions.
macro_rules! checks {
    ($($name:literal: $effect:literal, $examine:expr;)+) => {
        &[$(CheckRow { name: $name, effect: $effect, examine: $examine }),+]
    };
}

/// The checks in the order of the report: those with the greatest effect on results come first.
pub const CHECKS: &[CheckRow] = checks! {
    "hypervisor": "A hypervisor decides when virtual CPUs run, shares caches and memory bandwidth with other guests, and makes \
        interrupts and wake-ups more expensive. Absolute times are valid only for this machine.",
        |snapshot| match snapshot.fact("hypervisor") {
            Some("true") => warning(
                "yes, this is a virtual machine",
                "Repeat more (--repeats 10), compare medians and intervals instead of tails, or use a physical machine",
            ),
            // Only x86 processors have a flag for hypervisors.
            _ if snapshot.fact("machine").is_some_and(|machine| machine != "x86_64") => {
                unknown("not reported by this processor", "Run systemd-detect-virt")
            }
            None => not_reported(),
            _ => good("none"),
        };
    "steal time": "While the hypervisor runs another guest instead of a CPU that has work, all requests on this CPU wait.", steal;
    "pauses": "A thread that only reads the clock was interrupted for this long. A server is interrupted as well, and its requests \
        wait. Pauses raise the tails (p99, send delay p99). Above about 1 % of the time, they raise the median too.", pauses;
    "neighbours' load": "Other programs take time and caches of the CPUs of server and client. Latencies grow, and the client \
        sends late.", neighbours;
    "memory monitors": "The kernel watches which memory is used (DAMON). Its thread `kdamond` scans all processes, so thousands of \
        processes, such as those of mp, take much of a CPU from the servers.",
        |snapshot| match snapshot.fact("memory monitors") {
            Some("on") => warning("on", "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state"),
            Some("off") => good("off"),
            Some(state) => unknown(state, "Run muxbench doctor as root"),
            None => not_reported(),
        };
    "leftovers": "Processes of killed runs use CPUs, memory and ports that later runs need.",
        |snapshot| match snapshot.leftovers.iter().map(ToString::to_string).collect::<Vec<_>>() {
            none if none.is_empty() => good("none"),
            left => warning(left.join("; "), "muxbench doctor --clean"),
        };
    "placement": "Server and client get separate cores. Sibling threads stay together. With one core, server and client disturb \
        each other. With two, interrupts and other programs share a core with one of them.", placement;
    "SMT": "Two sibling threads of a core share its execution units and caches: each slows down while the other works.",
        |snapshot| match snapshot.fact("smt") {
            Some("on") => warning("on", "echo off | sudo tee /sys/devices/system/cpu/smt/control"),
            _ if snapshot.is_virtual() => hidden(),
            Some(off) => good(off),
            None => not_reported(),
        };
    "governor": "A governor that follows the load slows down idle CPUs. Latency then falls as the rate rises, and \
        architectures that sleep more look worse.",
        |snapshot| match (snapshot.fact("governor"), snapshot.is_virtual()) {
            (Some("performance"), _) => good("performance"),
            (Some(other), _) => {
                warning(other, "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
            }
            (None, true) => hidden(),
            (None, false) => unknown("no cpufreq driver", "Choose the firmware's performance profile"),
        };
    "turbo": "The frequency depends on temperature and on the number of busy cores: the first trials are faster than the \
        last, and one busy core is faster than many.",
        |snapshot| match (snapshot.fact("turbo disabled"), snapshot.fact("boost"), snapshot.is_virtual()) {
            (Some("1"), _, _) | (None, Some("0"), _) => good("off"),
            (Some(_), _, _) => warning("on", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
            (_, Some(_), _) => warning("on", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"),
            (None, None, true) => hidden(),
            (None, None, false) => unknown("no switch", "Turn it off in the firmware, if possible"),
        };
    "C-states": "A CPU takes tens to hundreds of microseconds to leave a deep idle state. This delays requests after idle \
        moments, so low rates have high latencies.", idle_states;
    "clock source": "The kernel reads its clock from this source. With some sources, each reading needs a system call or access \
        to a slow device, which takes a microsecond or more.", clock_source;
    "invariant TSC": "The client stamps requests with the processor's counter (TSC) if its rate is constant, otherwise with the \
        kernel's clock, which is slower to read.",
        |snapshot| match (snapshot.fact("invariant tsc"), snapshot.fact("machine")) {
            (Some("true"), _) => good("yes"),
            (_, Some(machine)) if machine != "x86_64" => good(format!("none on {machine}: the kernel's clock is used")),
            (None, _) => not_reported(),
            _ if snapshot.is_virtual() => warning("no", "Start the guest with it (QEMU: -cpu host,migratable=no,+invtsc)"),
            _ => warning("no", "Use a processor with an invariant TSC if you compare differences below a microsecond"),
        };
    "timer slack": "A timed wait may end late by this time. The client sets 1 ns for itself; servers keep the inherited value, \
        as in production.",
        |snapshot| match snapshot.fact("timer slack ns").and_then(|slack| slack.parse::<u64>().ok()) {
            Some(slack_ns) if slack_ns > SLACK_DEFAULT_NS => warning(
                format!("{}, above the kernel's default", time(slack_ns as f64)),
                format!("echo {SLACK_DEFAULT_NS} > /proc/$$/timerslack_ns"),
            ),
            Some(slack_ns) => good(time(slack_ns as f64)),
            None => not_reported(),
        };
    "mitigations": "Mitigations make system calls and context switches more expensive, which favours architectures with fewer \
        of them. Results of hosts with different mitigations are not comparable.", mitigations;
    "descriptors": "A process needs a descriptor for each connection, so this hard limit also limits connections.",
        |snapshot| {
            let remedy = "sudo prlimit --pid $$ --nofile=1048576:1048576";
            at_least(snapshot.host.descriptors_max, snapshot.host.ports, " (hard limit)", remedy)
        };
    "processes and threads": "mp and mt need a process or a thread for each connection, so this limits their connections.",
        |snapshot| {
            let (limit, name) = &snapshot.host.tasks_max;
            let remedy = match name.as_str() {
                "kernel.threads-max" => "sudo sysctl kernel.threads-max=200000",
                "kernel.pid_max" => "sudo sysctl kernel.pid_max=4194304",
                name if name.contains("cgroup") => "Raise the cgroup's pids.max (systemd: TasksMax=infinity)",
                _ => "sudo prlimit --pid $$ --nproc=unlimited",
            };
            at_least(*limit, snapshot.host.ports, &format!(", by {name}"), remedy)
        };
    "vm.max_map_count": "The stack of each thread takes two mappings, so this limits the connections of mt.",
        |snapshot| {
            let remedy = "sudo sysctl vm.max_map_count=262144";
            at_least(snapshot.host.mappings_max, 2 * snapshot.host.ports, "", remedy)
        };
    "backlog": "The kernel drops connections beyond the accept queue (somaxconn) and, without SYN cookies, beyond the SYN queue \
        (tcp_max_syn_backlog). The client tries again after a second: connecting takes long, or fails.", backlog;
    "port range": "Each connection between two addresses needs a port of this range, so this limits connections.",
        |snapshot| {
            let range = snapshot.fact("port range").map(|range| format!(" ({range})")).unwrap_or_default();
            let remedy = "sudo sysctl net.ipv4.ip_local_port_range=\"1024 65535\"";
            at_least(snapshot.host.ports, PORTS, &range, remedy)
        };
    "io_uring": "If the kernel refuses io_uring, architectures that use it cannot run. Others are not affected.", io_uring;
    "system calls from outside": "If the kernel refuses to count system calls, muxbench rejects --count-syscalls, and the \
        runtimes' system calls stay unknown. Times are not affected.",
        |snapshot| match snapshot.fact("system calls from outside") {
            Some("allowed") => good("can be counted"),
            Some(refused) => warning(refused, "Start muxbench as root for runs with --count-syscalls"),
            None => unknown("not tried", ""),
        };
    "kernel timestamps": "The kernel's timestamps of packets separate the network stack's time from the server's time. Without \
        them, only user-space times are known.",
        |snapshot| match snapshot.fact("kernel timestamps") {
            Some(value @ "sent and received") => good(format!("{value}, tried on loopback")),
            Some(value) if value.contains("unreachable") => warning(value, "Enable loopback: ip link set lo up"),
            Some(value) => warning(value, "Use a kernel with SO_TIMESTAMPING; sandboxes such as gVisor lack it"),
            None => unknown("not tried", ""),
        };
    "hardware timestamps": "An interface with its own clock stamps packets at the wire. Loopback has none and needs none.",
        |snapshot| match snapshot.fact("hardware timestamps") {
            Some("none") => good("no interface has them"),
            Some(interfaces) => good(interfaces),
            None => unknown("not tried", ""),
        };
    "container": "A container adds little time to system calls on loopback. Its limits and filters apply to muxbench. Its process \
        list lacks the programs outside.", |snapshot| good(snapshot.fact("container").unwrap_or("none detected"));
    "cgroup limits": "Once a CPU limit is used up, all threads stop for the rest of the period, usually 100 ms. Limits of memory \
        and tasks limit connections.", cgroup;
};

fn steal(snapshot: &HostSnapshot) -> Outcome {
    let (Some(share), Some(since_boot)) = (snapshot.noise.steal, snapshot.noise.steal_since_boot) else {
        return not_reported();
    };
    let value =
        format!("{} of {}, {} since boot", percent(share), time(snapshot.noise.window_ns as f64), percent(since_boot));
    if share.max(since_boot) >= SHARE_HIGH {
        warning(value, "Use a machine with dedicated CPUs, or repeat more (--repeats 10) at another time of day")
    } else if snapshot.is_virtual() && since_boot == 0.0 {
        unknown("none, or not reported by the hypervisor", "Look at the pauses, which include steal time")
    } else {
        good(value)
    }
}

fn pauses(snapshot: &HostSnapshot) -> Outcome {
    let mut all = snapshot.noise.pauses.clone();
    all.sort_by_key(|pauses| std::cmp::Reverse(pauses.longest_ns));
    let describe = |pauses: &Pauses| {
        let preempted = match pauses.preempted {
            0 => "never".into(),
            1 => "once".into(),
            count => format!("{count} times"),
        };
        format!(
            "CPU {}: longest {}, {} of {:.0} ms lost, preempted {preempted}",
            pauses.cpu,
            time(pauses.longest_ns as f64),
            percent(pauses.share()),
            pauses.spun_ns as f64 / 1e6,
        )
    };
    let Some(worst) = all.first() else { return unknown("no CPU could be measured", "") };
    let value = first_few(all.iter().map(describe));
    if worst.longest_ns < PAUSE_LONG_NS && all.iter().all(|pauses| pauses.share() < SHARE_HIGH) {
        return good(value);
    }
    let is_preempted = all.iter().any(|pauses| pauses.preempted > 0);
    let remedy = match (is_preempted, snapshot.is_virtual()) {
        (true, false) => "Stop other programs (top shows them), or keep them off these CPUs",
        (true, true) => {
            "Stop other programs (top shows them). The hypervisor causes the remaining pauses: repeat more (--repeats 10) and \
             compare medians"
        }
        (false, true) => "Repeat more (--repeats 10) and compare medians: the hypervisor causes these pauses",
        (false, false) => "Boot with isolcpus=2-7 nohz_full=2-7 (for example) and run under taskset -c 2-7",
    };
    warning(value, remedy)
}

fn neighbours(snapshot: &HostSnapshot) -> Outcome {
    let mut busy = snapshot.noise.busy.clone();
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(worst) = busy.first() else { return not_reported() };
    let cpus = first_few(busy.iter().map(|(cpu, share)| format!("CPU {cpu} {} busy", percent(*share))));
    let load = snapshot.fact("load average").map(|load| load.split(' ').take(3).collect::<Vec<_>>().join(" "));
    let value = format!("{cpus}; load average {}", load.as_deref().unwrap_or("unknown"));
    if worst.1 < BUSY_HIGH {
        return good(value);
    }
    warning(value, "Stop the programs that `top` shows, or move them to other CPUs (sudo taskset -a -c -p CPUS PID)")
}

fn placement(snapshot: &HostSnapshot) -> Outcome {
    let cores = &snapshot.host.cores;
    let allowed = Cpus(cores.concat());
    let online = snapshot.fact("cpus online").filter(|online| online.parse().as_ref() != Ok(&allowed));
    let count = if cores.len() == 1 { "1 core".to_owned() } else { format!("{} cores", cores.len()) };
    let mut value = format!("{count}, CPUs {allowed}");
    if let Some(siblings) = cores.iter().find(|core| core.len() > 1) {
        value += &format!(", {} per core", siblings.len());
    }
    if let Ok(placement) = place(cores, &Placement::default()) {
        value += &format!("; {}", placement.sentence);
    }
    for (name, fact) in [("isolated", "cpus isolated"), ("without tick", "cpus nohz_full")] {
        if let Some(cpus) = snapshot.fact(fact).filter(|cpus| *cpus != "(null)") {
            value += &format!("; {name} {cpus}");
        }
    }
    value.extend(online.map(|online| format!("; online: {online}")));
    match online {
        _ if cores.len() > 2 => good(value),
        Some(online) => warning(value, format!("taskset -c {online} muxbench compare")),
        None => warning(value, "Use a machine with at least four cores, and stop other programs on this one"),
    }
}

fn idle_states(snapshot: &HostSnapshot) -> Outcome {
    let driver = snapshot.fact("cpuidle driver").unwrap_or("no driver");
    let Some(states) = snapshot.fact("cpuidle states") else {
        let is_virtual = snapshot.is_virtual();
        return if is_virtual { hidden() } else { unknown(driver, "Turn deep C-states off in the firmware") };
    };
    let exits = states.split(", ").filter_map(|state| state.split(' ').rev().nth(1)?.parse::<u64>().ok());
    let value = format!("{driver}: {states}");
    if exits.max().unwrap_or(0) >= IDLE_EXIT_HIGH_US {
        return warning(value, format!("sudo cpupower idle-set -D {IDLE_EXIT_HIGH_US}"));
    }
    if snapshot.is_virtual() {
        match snapshot.fact(idle_cpus::FACT) {
            Some(idle_cpus::ALLOWED) => return good(format!("{value}; runs let idle CPUs poll (--idle-cpus)")),
            Some(_) if states.starts_with("POLL") => {
                return warning(value, "Run muxbench as root: idle CPUs then poll during runs (--idle-cpus)");
            }
            _ => {}
        }
        let value = format!("{value}; the hypervisor hides the states of the physical CPU");
        return unknown(value, "Measure at several rates: latency that falls as the rate rises is wake-up time");
    }
    good(value)
}

fn clock_source(snapshot: &HostSnapshot) -> Outcome {
    let Some(source) = snapshot.fact("clocksource") else { return not_reported() };
    let reading_ns = snapshot.noise.pauses.iter().map(|pauses| pauses.reading_ns).reduce(f64::min);
    let value = reading_ns.map_or(source.to_owned(), |ns| format!("{source}, {} per reading", time(ns)));
    if CLOCKS_OF_USER_SPACE.contains(&source) {
        return good(value);
    }
    let others = snapshot.fact("clocksources").unwrap_or_default();
    let remedy = match CLOCKS_OF_USER_SPACE.iter().find(|clock| others.split_whitespace().any(|it| it == **clock)) {
        Some(better) => {
            format!("echo {better} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource")
        }
        None => "Boot with tsc=reliable if the TSC is invariant, and find out why the kernel rejected it".into(),
    };
    warning(value, remedy)
}

fn mitigations(snapshot: &HostSnapshot) -> Outcome {
    let on = snapshot.fact("mitigations").unwrap_or("unknown");
    match snapshot.fact("vulnerable") {
        Some("none") => good(format!("on: {on}; not vulnerable")),
        None | Some("unknown") => not_reported(),
        Some(vulnerable) => warning(
            format!("on: {on}; vulnerable: {vulnerable}"),
            "Compare only runs with the same stored mitigations; to enable all mitigations, boot with mitigations=auto and update \
             the microcode",
        ),
    }
}

fn backlog(snapshot: &HostSnapshot) -> Outcome {
    let number = |name| snapshot.fact(name).and_then(|number| number.parse::<u64>().ok());
    let (Some(accept), Some(syn)) = (number("somaxconn"), number("tcp_max_syn_backlog")) else {
        return not_reported();
    };
    let value = format!("somaxconn {accept}, tcp_max_syn_backlog {syn}");
    // With SYN cookies, the default, handshakes beyond the SYN queue succeed: only the accept queue drops connections.
    if accept >= BACKLOG { good(value) } else { warning(value, format!("sudo sysctl net.core.somaxconn={BACKLOG}")) }
}

fn io_uring(snapshot: &HostSnapshot) -> Outcome {
    let disabled = snapshot.fact("io_uring disabled");
    let sysctl = disabled.map_or(String::new(), |value| format!(" (kernel.io_uring_disabled = {value})"));
    let remedy = match disabled {
        Some("1" | "2") => "sudo sysctl kernel.io_uring_disabled=0",
        _ if snapshot.fact("container").is_some() => {
            "Start the container without the seccomp filter that refuses it (docker: --security-opt seccomp=unconfined)"
        }
        _ => "Use a kernel with CONFIG_IO_URING, and no seccomp filter that refuses it",
    };
    match snapshot.fact("io_uring") {
        Some("allowed") => good(format!("allowed{sysctl}")),
        Some(refused) => warning(format!("{refused}{sysctl}"), remedy),
        None => unknown("not tried", ""),
    }
}

fn cgroup(snapshot: &HostSnapshot) -> Outcome {
    let limit = |name: &str| Some(format!("{name} {}", snapshot.fact(&format!("cgroup {name}"))?));
    let set: Vec<String> = ["cpus max", "memory max bytes", "tasks max"].into_iter().filter_map(limit).collect();
    let value = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
    if snapshot.fact("cgroup cpus max").is_none() {
        return good(value);
    }
    warning(value, "Remove the CPU limit (docker: no --cpus; systemd: empty CPUQuota=)")
}

/// Joins the values of the first few CPUs, the most disturbed ones, and counts the other CPUs.
fn first_few(all: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 4;
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{more} less disturbed CPUs"));
    all.take(SHOWN).chain(more).collect::<Vec<_>>().join("; ")
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        zero if zero <= 0.0 => "0 %".into(),
        small if small < 0.01 => "< 0.01 %".into(),
        small if small < 10.0 => format!("{small:.2} %"),
        large => format!("{large:.0} %"),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::diagnose;
    use super::*;

    fn snapshot(facts: &[(&str, &str)], limit: u64, share: f64) -> HostSnapshot {
        let facts: BTreeMap<String, String> =
            facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let pauses = |cpu| Pauses {
            cpu,
            spun_ns: 200_000_000,
            longest_ns: (share * 1e8) as u64,
            away_ns: (share * 2e8) as u64,
            preempted: 0,
            reading_ns: 25.0,
        };
        HostSnapshot {
            host: Host {
                cores: if share > 0.0 { vec![vec![0, 1]] } else { (0..8).map(|cpu| vec![cpu]).collect() },
                descriptors_max: limit,
                tasks_max: (limit, "kernel.pid_max".into()),
                mappings_max: limit,
                ports: PORTS.min(limit * 10),
                memory_bytes: 1 << 30,
                fleet: None,
                facts,
            },
            noise: Noise {
                window_ns: 1_200_000_000,
                busy: (0..8).map(|cpu| (cpu, share)).collect(),
                steal: Some(share),
                steal_since_boot: Some(share),
                pauses: (0..8).map(pauses).collect(),
            },
            leftovers: Vec::new(),
        }
    }

    /// A host on which every check is good.
    fn quiet() -> HostSnapshot {
        let facts = [
            ("boost", "0"),
            ("clocksource", "tsc"),
            ("cpuidle driver", "intel_idle"),
            ("cpuidle states", "POLL 0 us, C1 2 us"),
            ("cpus online", "0-7"),
            ("governor", "performance"),
            ("hardware timestamps", "eth0"),
            ("hypervisor", "false"),
            ("invariant tsc", "true"),
            ("io_uring", "allowed"),
            ("kernel timestamps", "sent and received"),
            ("memory monitors", "off"),
            ("mitigations", "spectre_v2"),
            ("smt", "off"),
            ("somaxconn", "4096"),
            ("system calls from outside", "allowed"),
            ("tcp_max_syn_backlog", "4096"),
            ("timer slack ns", "50000"),
            ("vulnerable", "none"),
        ];
        snapshot(&facts, 1 << 20, 0.0)
    }

    /// A host on which every check warns.
    fn bad() -> HostSnapshot {
        let facts = [
            ("boost", "1"),
            ("cgroup cpus max", "1.500"),
            ("clocksource", "hpet"),
            ("clocksources", "tsc hpet"),
            ("cpuidle driver", "acpi_idle"),
            ("cpuidle states", "POLL 0 us, C1 2 us, C6 133 us"),
            ("cpus online", "0-7"),
            ("governor", "powersave"),
            ("hardware timestamps", "none"),
            ("hypervisor", "true"),
            ("invariant tsc", "false"),
            ("io_uring", "refused: Operation not permitted (os error 1)"),
            ("io_uring disabled", "2"),
            ("kernel timestamps", "none within 300 ms"),
            ("memory monitors", "on"),
            ("mitigations", "none"),
            ("smt", "on"),
            ("somaxconn", "128"),
            ("system calls from outside", "refused: kernel.perf_event_paranoid is 2"),
            ("tcp_max_syn_backlog", "128"),
            ("timer slack ns", "100000000"),
            ("vulnerable", "meltdown"),
        ];
        let leftovers = vec![Leftover::Folder("/tmp/muxbench-4194305-0".into())];
        HostSnapshot { leftovers, ..snapshot(&facts, 1024, 0.2) }
    }

    /// A host that reveals nothing.
    fn mute() -> HostSnapshot {
        let mut mute = snapshot(&[], 1 << 20, 0.0);
        mute.noise = Noise::default();
        mute
    }

    #[test]
    fn checks_have_unique_names_and_effect_sentences() {
        let names: BTreeSet<&str> = CHECKS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        for row in CHECKS {
            assert!(row.effect.ends_with('.') && row.effect.starts_with(char::is_alphabetic), "{}", row.name);
        }
    }

    #[test]
    fn remedy_is_a_command_or_an_instruction() {
        const COMMANDS: &[&str] = &["echo", "muxbench", "sudo", "taskset"];
        const VERBS: &[&str] = &[
            "Boot", "Choose", "Compare", "Look", "Measure", "Raise", "Remove", "Repeat", "Run", "Start", "Stop",
            "Turn", "Use",
        ];
        let mut mute_guest = mute();
        mute_guest.host.facts.insert("hypervisor".into(), "true".into());
        for finding in [quiet(), bad(), mute(), mute_guest].iter().flat_map(diagnose) {
            let first = finding.remedy.split(' ').next().unwrap();
            let is_known = COMMANDS.contains(&first) || VERBS.contains(&first);
            assert!(is_known || finding.remedy.is_empty() && finding.severity != Severity::Warning, "{finding:?}");
            assert!(!finding.value.is_empty() && !finding.remedy.ends_with('.'), "{finding:?}");
        }
    }

    #[test]
    fn quiet_host_is_good_and_bad_host_warns() {
        for finding in diagnose(&quiet()) {
            assert_eq!(finding.severity, Severity::Good, "{finding:?}");
        }
        // These checks need not warn.
        let harmless = ["hardware timestamps", "container"];
        for finding in diagnose(&bad()).iter().filter(|finding| !harmless.contains(&finding.name.as_str())) {
            assert_eq!(finding.severity, Severity::Warning, "{finding:?}");
        }
    }

    #[test]
    fn numbers_are_rounded() {
        assert_eq!([0.0, 0.00001, 0.0123, 0.5].map(percent), ["0 %", "< 0.01 %", "1.23 %", "50 %"]);
        assert_eq!([25.0, 1_500.0, 2e6, 1.2e9].map(time), ["25 ns", "1.5 µs", "2.00 ms", "1.20 s"]);
        assert_eq!(first_few((0..6).map(|number| number.to_string())), "0; 1; 2; 3; 2 less disturbed CPUs");
    }
}
