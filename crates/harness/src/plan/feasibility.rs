//! Checks of whether a trial can run on a host.

use std::net::IpAddr;

use server::spec::model::PerConnection;
use server::{Accept, Architecture, ReadBudget, ServeConfig};

use super::limits::{
    BYTES_PER_REQUEST, DESCRIPTORS_BESIDE, PORTS_MAX, TASKS_BESIDE, WAITING_MAX, budget_bytes, bytes_per_connection,
    mappings,
};
use crate::host::Host;
use crate::model::network::Applied;
use crate::model::{FleetFacts, Trial};
use crate::netns::addresses;
use crate::netns::conditions::{self, Found};
use crate::spec::network::Network;
use crate::spec::transport::Transport;

/// Cached answers of the kernel. Each answer needs a try, which takes descriptors and memory.
#[derive(Default)]
pub(super) struct CapabilityCache {
    can_run: Vec<(Architecture, Result<(), String>)>,
    can_count: Option<Result<(), String>>,
    transports: Vec<(Transport, Result<(), String>)>,
    pub(super) network: Option<Result<Applied, Vec<String>>>,
}

impl CapabilityCache {
    fn can_run(&mut self, architecture: Architecture) -> Result<(), String> {
        if let Some((_, answer)) = self.can_run.iter().find(|(asked, _)| *asked == architecture) {
            return answer.clone();
        }
        let answer = architecture.can_run();
        self.can_run.push((architecture, answer.clone()));
        answer
    }

    fn can_have(&mut self, transport: Transport) -> Result<(), String> {
        if let Some((_, answer)) = self.transports.iter().find(|(asked, _)| *asked == transport) {
            return answer.clone();
        }
        let answer = transport.check();
        self.transports.push((transport, answer.clone()));
        answer
    }

    /// Returns the means of the plan's network, or why this host lacks them. All trials of a plan have the same
    /// network. A distributed run may already be in its lab.
    fn can_be(&mut self, network: &Network, fleet: Option<&FleetFacts>) -> &Result<Applied, Vec<String>> {
        let there = fleet.and_then(|fleet| fleet.lab.as_ref()).filter(|(lab, _)| lab == network);
        self.network.get_or_insert_with(|| match there {
            Some((_, applied)) => Ok(*applied),
            // `infeasible_for_ranks` reports this error.
            None if fleet.is_some() => Err(Vec::new()),
            None => conditions::choose(network, &Found::here()),
        })
    }

    fn can_count(&mut self) -> Result<(), String> {
        self.can_count.get_or_insert_with(server::metrics::tracepoints::can_count).clone()
    }
}

/// Returns every reason why a trial cannot run on `host`.
pub(super) fn reasons(trial: &Trial, host: &Host, kernel: &mut CapabilityCache) -> Vec<String> {
    let connections = u64::from(trial.load.connections_and_idle());
    let of_targets = if trial.workload.service.ports().is_some() { "ports" } else { "connections" };
    // An external server needs at least a descriptor for each connection. Its other needs are unknown.
    let ours = trial.serve.ours();
    let mut reasons = Vec::new();
    let pool = ours.and_then(|serve| serve.architecture.pool_size(serve.connections_max)).map(u64::from);
    let named = ours.is_some_and(|serve| pool.is_some() && serve.architecture.threads.is_some());
    let per_connection = ours.map_or(PerConnection::Nothing, |serve| serve.architecture.model.per_connection);
    let budget = ours.map_or_else(ReadBudget::default, |serve| serve.read_budget_bytes);
    // The number of threads or processes: one for each connection, or the size of the pool.
    let workers = pool.unwrap_or(connections);
    let mut need = |what: &str, needed: u64, limit: u64, limit_name: &str, remedy: &str| {
        if needed > limit {
            if named {
                let server = &trial.architecture;
                reasons.push(format!(
                    "architectures: {server} needs {needed} {what}, {limit_name} is {limit}; lower it, or {remedy}"
                ));
                return;
            }
            reasons.push(format!(
                "workload.{of_targets}: {connections}{} needs {needed} {what}, {limit_name} is {limit}; lower it, or {remedy}",
                if trial.workload.idle > 0 { " (idle ones included)" } else { "" }
            ));
        }
    };
    let of_accept = ours.map_or(0, |serve| serve.accept.descriptors(serve.architecture.model, workers));
    let descriptors = connections.max(of_accept) + DESCRIPTORS_BESIDE;
    need("descriptors", descriptors, host.descriptors_max, "the hard limit", "raise the limit (ulimit -Hn)");
    // Datagrams: the client has one port for all ports of the server. The server's ports must fit into one address.
    let listened = u64::from(trial.workload.service.ports().unwrap_or(0));
    need("ports to listen on", listened, PORTS_MAX, "the number of ports of an address", "see active");
    let (tasks_max, tasks_limit) = &host.tasks_max;
    match per_connection {
        PerConnection::Nothing => {}
        PerConnection::Stack => {
            let mappings = mappings(connections, budget);
            need("mappings", mappings, host.mappings_max, "vm.max_map_count", "raise it");
        }
        PerConnection::Thread => {
            need("threads", workers + TASKS_BESIDE, *tasks_max, tasks_limit, "raise that limit");
            let mappings = mappings(workers, budget);
            need("mappings", mappings, host.mappings_max, "vm.max_map_count", "raise it");
        }
        PerConnection::Process => {
            need("processes", workers + TASKS_BESIDE, *tasks_max, tasks_limit, "raise that limit");
        }
    }
    if let Some(serve) = ours {
        if let Err(reason) = kernel.can_run(serve.architecture) {
            reasons.push(format!("architectures: {}: {reason}", trial.architecture));
        }
        if let Err(reason) = serve.accept.check(serve.architecture) {
            reasons.push(format!("server.accept: {reason}"));
        }
        if let Err(reason) = serve.accept.check_address(&serve.listen) {
            reasons.push(format!("server.accept: {reason}"));
        }
        if let Err(reason) = serve.architecture.can_listen(&serve.listen) {
            reasons.push(format!("architectures: {}: {reason}", trial.architecture));
        }
        if let Err(reason) = serve.architecture.can_serve(&serve.service) {
            reasons.push(format!("workload.service: {reason}"));
        }
        if let Err(reason) = serve.read_budget_bytes.check(&serve.service) {
            reasons.push(format!("server.read-budget: {reason}"));
        }
        if serve.count_syscalls
            && let Err(reason) = kernel.can_count()
        {
            reasons.push(format!("server.count-syscalls: {reason}; or do without"));
        }
        reasons.extend(pool.and_then(|pool| wait_for_a_pool(serve, connections, pool)));
    }
    if ours.is_none() && cfg!(not(target_os = "linux")) {
        reasons.push(format!("architectures: {} needs Linux, to be measured from outside", trial.architecture));
    }
    if ours.is_none() && trial.workload.work.is_some() {
        let server = &trial.architecture;
        reasons
            .push(format!("workload.work: {server} is not ours and knows nothing of it; leave work or {server} out"));
    }
    if let Some(fleet) = &host.fleet {
        reasons.extend(infeasible_for_ranks(trial, fleet));
    }
    if let Err(reason) = kernel.can_have(trial.workload.transport) {
        reasons.push(format!("workload.transport: {reason}"));
    }
    let ports = u32::try_from(host.ports).unwrap_or(u32::MAX);
    let sources = match &trial.workload.network {
        Some(network) => {
            reasons.extend(kernel.can_be(network, host.fleet.as_ref()).clone().err().unwrap_or_default());
            addresses::sources(&trial.load, ports)
        }
        None => load::ports::sources_with(&trial.load, ports),
    };
    if let Err(reason) = sources {
        reasons.push(format!("workload.{reason}"));
    }
    if let Err(reason) = load::check_timestamps(&trial.load) {
        reasons.push(reason);
    }
    if trial.load.parts().iter().any(|part| part.active == 0.0) {
        let processes = trial.load.processes;
        reasons.push(format!(
            "client.processes: {processes} processes need an active connection each, and of {connections} {} are {} active; \
             lower the processes, or raise workload.active",
            of_targets,
            load::schedule::active_count(trial.load.active, trial.load.connections),
        ));
    }
    let requests = trial.load.parts().iter().fold(0u64, |requests, part| {
        requests.saturating_add(load::schedule::count_max(part).saturating_mul(u64::from(part.clients)))
    });
    let memory_bytes = requests
        .saturating_mul(BYTES_PER_REQUEST)
        .saturating_add(connections.max(workers) * bytes_per_connection(per_connection))
        .saturating_add(ours.map_or(0, |serve| budget_bytes(serve, connections.max(workers))));
    if memory_bytes > host.memory_bytes {
        reasons.push(format!(
            "workload: {requests} requests over {connections} {of_targets} need {} MiB of memory, {} MiB are available; \
             lower workload.{of_targets}, {}phases.measure",
            memory_bytes >> 20,
            host.memory_bytes >> 20,
            if trial.workload.is_closed() { "or " } else { "workload.rate or " }
        ));
    }
    reasons
}

/// Returns the reasons why a trial cannot run with the workers of a distributed run.
pub fn infeasible_for_ranks(trial: &Trial, fleet: &FleetFacts) -> Vec<String> {
    let mut reasons = Vec::new();
    match (&trial.workload.network, &fleet.lab) {
        (Some(network), None) => reasons.push(format!(
            "network: ranks are where their engine started them, and that is no lab; start the engine in one (`muxbench lab {} \
             -- ENGINE...`, deploy/slurm-in-lab.sh), or leave the network out",
            network.flags()
        )),
        (Some(network), Some((lab, _))) if lab != network => reasons.push(format!(
            "network: the fleet is {lab}, and the trial wants to be {network}; start the engine by `muxbench lab {}`",
            network.flags()
        )),
        (None, Some((lab, _))) => reasons
            .push(format!("network: the fleet is {lab}, and the trial wants none; start the engine without `muxbench lab`")),
        _ => {}
    }
    if let (Some((lab, _)), Some(rank)) = (&fleet.lab, fleet.beside_server.first()) {
        reasons.push(format!(
            "network: rank {rank} is on the server's host of the lab, none of whose links its requests would pass; start one \
             rank a host (srun -N{} --ntasks-per-node=1, or a hostfile)",
            lab.clients.get() + 1
        ));
    }
    let (name, is_met_otherwise): (&str, fn(&IpAddr) -> bool) = match trial.workload.transport {
        Transport::Tcp => ("tcp is TCP over IPv4", IpAddr::is_ipv6),
        Transport::Tcp6 => ("tcp6 is TCP over IPv6", IpAddr::is_ipv4),
        Transport::Unix if fleet.elsewhere_cpus.is_some() => {
            reasons.push(
                "workload.transport: a Unix socket is of one machine, and clients are on others; use tcp or tcp6"
                    .into(),
            );
            return reasons;
        }
        Transport::Unix => return reasons,
    };
    if let Some(way) = fleet.ways.iter().find(|way| is_met_otherwise(way)) {
        let (other, like) = if way.is_ipv4() { ("tcp", "[ADDRESS]:PORT") } else { ("tcp6", "ADDRESS:PORT") };
        reasons.push(format!(
            "workload.transport: {name}, and ranks reach this host at {way}; set MUXBENCH_RENDEZVOUS to {like} of it in all ranks, \
             or use {other}"
        ));
    }
    reasons
}

/// Returns why connections would wait for a pool worker during the whole trial. A worker is busy until its connection
/// ends, and no connection ends before all are served.
fn wait_for_a_pool(serve: &ServeConfig, connections: u64, pool: u64) -> Option<String> {
    let server = serve.architecture;
    if pool < connections {
        return Some(format!(
            "architectures: {server} serves {pool} connections at a time, and workload.connections is {connections}: the \
             others would wait until the client gives up; name a larger pool, or none to have one that fits, or lower \
             workload.connections"
        ));
    }
    if serve.accept == Accept::Reuseport {
        // A connection misses a given listener with probability 1 - 1/pool. On each listener, all connections but the
        // first wait.
        let size = pool as f64;
        let hit = size * (1.0 - (1.0 - 1.0 / size).powf(connections as f64));
        let waiting = connections as f64 - hit;
        if waiting > WAITING_MAX {
            return Some(format!(
                "server.accept: reuseport divides {connections} connections among the {pool} listeners of {server} by a \
                 hash, so that about {waiting:.0} would wait behind a busy worker while others are idle; choose shared or \
                 exclusive, or see it with `muxbench serve --accept reuseport`"
            ));
        }
    }
    None
}
