//! Checks of whether a trial can run on a host.

use std::net::IpAddr;

use netns::addresses;
use netns::conditions::{self, HostCapabilities};
use server::problems::KernelAnswers;
use server::spec::model::PerConnection;
use server::{Accept, BusyPoll, ServeConfig};

use super::limits::{BYTES_PER_REQUEST, PORTS_MAX, ServerResources, WAITING_MAX, budget_bytes, bytes_per_connection};
use crate::host::Host;
use crate::record::network::{Applied, Links};
use crate::record::{FleetFacts, Trial};
use crate::spec::network::Network;
use crate::spec::transport::Transport;

/// Answers about this host that hold for all trials of a plan.
#[derive(Default)]
pub(super) struct Capabilities {
    kernel: KernelAnswers,
    pub(super) network: Option<Result<Applied, Vec<String>>>,
}

impl Capabilities {
    /// Returns the means of the plan's network, or why this host lacks them. All trials of a plan have the same
    /// network. A distributed run may already be in its lab.
    fn find_means(&mut self, network: &Network, fleet: Option<&FleetFacts>) -> &Result<Applied, Vec<String>> {
        let lab = fleet.and_then(|fleet| fleet.lab.as_ref()).filter(|(lab, _)| lab == network);
        self.network.get_or_insert_with(|| match lab {
            Some((_, applied)) => Ok(*applied),
            // `infeasible_for_workers` reports this error.
            None if fleet.is_some() => Err(Vec::new()),
            None => conditions::choose(network, &HostCapabilities::here()),
        })
    }
}

/// Returns every reason why a trial cannot run on `host`.
pub(super) fn reasons(trial: &Trial, host: &Host, capabilities: &mut Capabilities) -> Vec<String> {
    let (workload, load, server) = (&trial.workload, &trial.load(), &trial.architecture);
    let connections = u64::from(load.connections_and_idle());
    let targets = workload.targets();
    let ours = trial.serve.ours();
    let needs = ServerResources::of(trial);
    let mut reasons = Vec::new();
    let subject = if needs.pool.is_some() && ours.is_some_and(|serve| serve.architecture.threads.is_some()) {
        format!("architectures: {server} needs")
    } else {
        let idle = if workload.idle > 0 { " (including idle ones)" } else { "" };
        format!("workload.{targets}: {connections} {targets}{idle} need")
    };
    let of_accept = ours.map_or(0, |serve| match serve.architecture.threads {
        // Each thread has a socket on each port.
        Some(threads) if workload.service.ports().is_some() => connections * u64::from(threads.network.max(1)),
        _ => serve.accept.descriptors(serve.architecture.model, needs.workers),
    });
    let tasks = if needs.per_connection == PerConnection::Process { "processes" } else { "threads" };
    for (needed, what, limit, limit_name, remedy) in [
        (
            // An external server needs at least a descriptor for each connection. Its other needs are unknown.
            connections.max(of_accept) + needs.descriptors_beside,
            "descriptors",
            host.descriptors_max,
            "the hard limit",
            "raise the limit (ulimit -Hn)",
        ),
        (needs.tasks, tasks, host.tasks_max.0, &host.tasks_max.1, "raise that limit"),
        (needs.mappings, "mappings", host.mappings_max, "vm.max_map_count", "raise it"),
    ] {
        if needed > limit {
            reasons.push(format!("{subject} {needed} {what}, but {limit_name} is {limit}; use fewer, or {remedy}"));
        }
    }
    // Check only the server's ports, because the client of `udp` needs a single one.
    if let Some(ports) = workload.service.ports().filter(|&ports| u64::from(ports) > PORTS_MAX) {
        reasons.push(format!("workload.ports: {ports} exceeds the {PORTS_MAX} ports of an address; lower it"));
    }
    if let Some(serve) = ours {
        for (option, reason) in serve.problems(&mut capabilities.kernel) {
            reasons.push(match option {
                "architecture" => format!("architectures: {server}: {reason}"),
                "service" | "simulated-work" | "tls" => format!("workload.{option}: {reason}"),
                _ => format!("server.{option}: {reason}"),
            });
        }
        if let Some(poll) = serve.busy_poll {
            let has_lab = workload.network.is_some() && host.fleet.is_none();
            let can_suspend = || if poll.suspend_ns.is_some() { netns::can_suspend() } else { Ok(()) };
            let checked = check_suspension(poll, has_lab).and_then(|()| can_suspend());
            reasons.extend(checked.err().map(|reason| format!("server.busy-poll: {reason}")));
        }
        if serve.count_syscalls {
            let checked = capabilities.kernel.get(&"count-syscalls", server::metrics::tracepoints::can_count);
            reasons.extend(checked.err().map(|reason| format!("server.count-syscalls: {reason}; or remove it")));
        }
        reasons.extend(needs.pool.and_then(|pool| wait_for_a_pool(serve, connections, pool)));
    } else {
        if cfg!(not(target_os = "linux")) && trial.serve.target().is_none() {
            reasons.push(format!("architectures: {server} is external, and only Linux can measure it"));
        }
        if workload.work.is_some() {
            reasons.push(format!(
                "workload.simulated-work: {server} is external and cannot simulate work; remove the key or the server"
            ));
        }
    }
    if let Some(fleet) = &host.fleet {
        reasons.extend(infeasible_for_workers(trial, fleet));
    }
    let has_server = trial.serve.target().is_none() && workload.network.is_none() && host.fleet.is_none();
    let checked = capabilities.kernel.get(&(workload.transport, has_server), || workload.transport.check(has_server));
    reasons.extend(checked.err().map(|reason| format!("workload.transport: {reason}")));
    let ports = u32::try_from(host.ports).unwrap_or(u32::MAX);
    let sources = match &workload.network {
        Some(network) => {
            let means = capabilities.find_means(network, host.fleet.as_ref()).clone();
            reasons.extend(means.as_ref().err().cloned().unwrap_or_default());
            if network.napi && means.is_ok_and(|applied| applied.links == Links::Tun) {
                reasons.push(
                    "network.napi: the lab's links are TUN devices, which have no NAPI, because this kernel has no netem; remove the \
                     delay and `napi` (busy polling), or use a kernel with sch_netem"
                        .into(),
                );
            }
            addresses::sources(load, ports)
        }
        None => load::io::source_ports::sources_with(load, ports),
    };
    reasons.extend(sources.err().map(|reason| format!("workload.{reason}")));
    reasons.extend(load::config::validate::check_timestamps(load).err());
    let parts = load.parts();
    if parts.iter().any(|part| part.active() == 0.0) {
        reasons.push(format!(
            "client.processes: {} processes need an active connection each, but {} of {connections} {targets} are active; \
             lower client.processes, or raise workload.active",
            load.client.processes,
            load::config::active_count(load.active(), load.connections),
        ));
    }
    let requests = parts.iter().fold(0u64, |requests, part| {
        requests.saturating_add(load::time::schedule::records_max(part).saturating_mul(u64::from(part.client.clients)))
    });
    let served = connections.max(needs.workers);
    let memory_bytes = requests
        .saturating_mul(BYTES_PER_REQUEST)
        .saturating_add(served * bytes_per_connection(needs.per_connection))
        .saturating_add(ours.map_or(0, |serve| budget_bytes(serve, served)));
    if memory_bytes > host.memory_bytes {
        reasons.push(format!(
            "workload: {requests} requests over {connections} {targets} need {} MiB of memory, but {} MiB are available; \
             lower workload.{targets}, {}phases.measure",
            memory_bytes >> 20,
            host.memory_bytes >> 20,
            if workload.is_closed() { "or " } else { "workload.rate or " }
        ));
    }
    reasons
}

/// Checks whether muxbench may set the interface that suspends its interrupts.
fn check_suspension(poll: BusyPoll, has_lab: bool) -> Result<(), String> {
    if poll.suspend_ns.is_none() || has_lab {
        return Ok(());
    }
    Err("muxbench sets the suspension of interrupts only in a lab of its own, because the setting would outlast the run; set \
         irq-suspend-timeout of your interface, and write `prefer` instead of `suspend`"
        .into())
}

/// Returns the reasons why a trial cannot run with the workers of a distributed run.
pub fn infeasible_for_workers(trial: &Trial, fleet: &FleetFacts) -> Vec<String> {
    let mut reasons = Vec::new();
    if let (Some(trace), Some(_)) = (trial.workload.trace(), fleet.elsewhere_cpus) {
        let file = trace.file.display();
        reasons.push(format!("workload.trace: workers on other hosts cannot read {file}; start the run without them"));
    }
    match (&trial.workload.network, &fleet.lab) {
        (Some(network), None) => reasons.push(format!(
            "network: the workers are not in a lab; start the launcher in one (`muxbench lab {} -- LAUNCHER...`, \
             deploy/slurm-in-lab.sh), or remove [network]",
            network.flags()
        )),
        (Some(network), Some((lab, _))) if lab != network => reasons.push(format!(
            "network: the workers are {lab}, but the trial must be {network}; start the launcher by `muxbench lab {}`",
            network.flags()
        )),
        (None, Some((lab, _))) => reasons.push(format!(
            "network: the workers are {lab}, but the trial has no network; start the launcher without `muxbench lab`"
        )),
        _ => {}
    }
    if let (Some((lab, _)), Some(worker)) = (&fleet.lab, fleet.beside_server.first()) {
        reasons.push(format!(
            "network: worker {worker} is on the server's host of the lab, so its requests would cross no link; start one \
             worker per host (srun -N{} --ntasks-per-node=1, or a hostfile)",
            lab.clients.get() + 1
        ));
    }
    if let Some(target) = trial.serve.target() {
        let is_here = target.address.ip().is_none_or(|address| address.ip().is_loopback());
        let reason =
            "only this host can reach it, but workers run on other hosts; write an address that all hosts reach";
        reasons.extend(fleet.elsewhere_cpus.filter(|_| is_here).map(|_| format!("{}: {reason}", trial.architecture)));
        return reasons;
    }
    let (transport, is_wrong): (&str, fn(&IpAddr) -> bool) = match trial.workload.transport {
        Transport::Tcp => ("tcp is TCP over IPv4", IpAddr::is_ipv6),
        Transport::Tcp6 => ("tcp6 is TCP over IPv6", IpAddr::is_ipv4),
        Transport::Unix => {
            let reason = "workload.transport: a Unix socket cannot connect two machines; use tcp or tcp6";
            reasons.extend(fleet.elsewhere_cpus.map(|_| reason.to_owned()));
            return reasons;
        }
    };
    if let Some(address) = fleet.addresses.iter().find(|address| is_wrong(address)) {
        let (other, form) = if address.is_ipv4() { ("tcp", "[ADDRESS]:PORT") } else { ("tcp6", "ADDRESS:PORT") };
        reasons.push(format!(
            "workload.transport: {transport}, but workers reach this host at {address}; set MUXBENCH_RENDEZVOUS to this host's \
             {form} for all workers, or use {other}"
        ));
    }
    reasons
}

/// Returns why connections would wait for a pool worker during the whole trial. A worker is busy until its connection ends. The
/// client ends no connection before the server has served all.
fn wait_for_a_pool(serve: &ServeConfig, connections: u64, pool: u64) -> Option<String> {
    let server = serve.architecture;
    if pool < connections {
        return Some(format!(
            "architectures: {server} serves {pool} connections at a time, but workload.connections is {connections}: the \
             others would wait until the client gives up; choose a larger pool, omit its size, or lower \
             workload.connections"
        ));
    }
    // A connection misses a given listener with probability 1 - 1/pool. On each listener, all connections but the
    // first wait.
    let size = pool as f64;
    let hit = size * (1.0 - (1.0 - 1.0 / size).powf(connections as f64));
    let waiting = connections as f64 - hit;
    // Rounded up, so that the number also exceeds the limit.
    let scale = if waiting < 1.0 { 1e4 } else { 1.0 };
    let shown = (waiting * scale).ceil() / scale;
    (serve.accept == Accept::Reuseport && waiting > WAITING_MAX).then(|| {
        format!(
            "server.accept: reuseport divides {connections} connections among the {pool} listeners of {server} by a hash, \
             so that on average {shown} would wait for a busy worker while others are idle, which exceeds the \
             limit of {WAITING_MAX}; choose shared or exclusive, or try `muxbench serve --accept reuseport`"
        )
    })
}
