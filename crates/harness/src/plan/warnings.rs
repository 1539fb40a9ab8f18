//! Warnings of a plan, about its placement and the limits of a lab.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use load::LoadConfig;
use load::config::TlsConfig;
use netns::conditions;
use server::spec::mechanism::Spins;
use server::{Accept, Architecture, TargetConfig};
use wire::ServiceSpec;

use crate::host::placement;
use crate::record::network::{Applied, Links};
use crate::spec::network::Network;
use crate::spec::units::Cpus;
use crate::spec::{Experiment, Service};

const REMEDY: &str = "give each its own CPUs (placement.server and placement.client, --server-cpus and --client-cpus)";

/// Returns warnings about a placement. `cores` lists the allowed CPUs, grouped by core.
pub(super) fn of_placement(
    experiment: &Experiment,
    placement: &placement::CpuPlacement,
    cores: &[Vec<usize>],
) -> Vec<String> {
    let cpus = Cpus(placement.server.clone());
    let mut warnings: Vec<String> = shared(placement, cores).into_iter().collect();
    let ours = || experiment.architectures.0.iter().filter_map(|it| it.ours());
    let threads =
        ours().filter(|it| it.model.multiplexes()).filter_map(|it| Some((it, it.threads_at_once()? as usize)));
    let crowded = threads.filter(|(_, threads)| *threads > cpus.0.len());
    let crowded: Vec<String> = crowded.map(|(architecture, threads)| format!("{architecture} ({threads})")).collect();
    if !crowded.is_empty() && !cpus.0.is_empty() {
        warnings.push(format!(
            "some architectures have more threads than the server has CPUs (CPU {cpus}), so threads wait for each other: {}; \
             add CPUs (placement.server, --server-cpus), or choose fewer threads",
            crowded.join(", ")
        ));
    }
    let accepts = experiment.server.accept.iter().flat_map(|accepts| accepts.0.iter().copied());
    for accept in accepts.filter(|accept| accept.chooses_by_cpu()) {
        warnings.extend(ours().filter_map(|it| unreached(accept, it, &placement.client)));
    }
    warnings.extend(ours().filter_map(|it| too_few_flows(experiment, it)));
    for architecture in ours() {
        let spins = architecture.mechanism.map_or(Spins::Nothing, |mechanism| mechanism.spins);
        if spins != Spins::Nothing && placement.is_shared() {
            warnings.push(format!(
                "{architecture} keeps a CPU fully busy, but server and client share CPUs, so the client will send late; \
                 {REMEDY}"
            ));
        }
        if spins == Spins::KernelThread && cpus.0.len() == 1 {
            warnings.push(format!(
                "{architecture} has a kernel thread that keeps a CPU fully busy, but the server has only CPU {cpus}, so this \
                 thread and the server wait for each other; add a CPU (placement.server, --server-cpus)"
            ));
        }
    }
    warnings
}

/// Returns a warning if some workers are on no CPU that the client sends from.
fn unreached(accept: Accept, architecture: Architecture, client: &[usize]) -> Option<String> {
    accept.check(architecture).ok()?;
    let workers = architecture.threads?.network as usize;
    let reached: BTreeSet<usize> = client.iter().map(|cpu| cpu % workers).collect();
    (!reached.is_empty() && reached.len() < workers).then(|| {
        format!(
            "{accept} gives each connection to the worker of the CPU that receives its SYN. Over loopback and in a lab this is a \
             CPU of the client ({}), so only {} of the {workers} workers of {architecture} get connections; give the client more \
             CPUs (placement.client, --client-cpus), or run it on another host",
            Cpus(client.to_owned()),
            reached.len()
        )
    })
}

/// Returns a warning if fewer flows of datagrams reach the server than it has threads. The kernel's hash gives all datagrams from a
/// client's socket to a port to one thread.
fn too_few_flows(experiment: &Experiment, architecture: Architecture) -> Option<String> {
    let ports = experiment.workload.ports.0.iter().filter(|_| experiment.workload.service == Service::Udp).min()?;
    let threads = architecture.threads.filter(|_| architecture.model.has_network_threads())?.network;
    let clients = experiment.processes().get() * experiment.client.clients.map_or(1, NonZeroU32::get);
    let flows = u64::from(clients) * u64::from(ports.get());
    (flows < threads.into()).then(|| {
        format!(
            "each client has one socket, whose datagrams to a port go to one thread: {clients} clients and {ports} ports reach at most \
             {flows} of the {threads} threads of {architecture}; raise client.clients (--clients) or workload.ports (--ports)"
        )
    })
}

/// Returns a warning if the server and the client share a CPU or a core.
fn shared(placement: &placement::CpuPlacement, cores: &[Vec<usize>]) -> Option<String> {
    let placement::CpuPlacement { server, client, .. } = placement;
    let both = Cpus(server.iter().copied().filter(|cpu| client.contains(cpu)).collect());
    if !both.0.is_empty() {
        return Some(format!("server and client share CPU {both}, so times include waits for each other; {REMEDY}"));
    }
    if placement.is_shared() {
        return Some("server and client may share CPUs, because only Linux can pin processes to CPUs".into());
    }
    let uses = |cpus: &[usize], core: &[usize]| core.iter().any(|cpu| cpus.contains(cpu));
    let core = cores.iter().find(|core| uses(server, core) && uses(client, core))?;
    let cpus = Cpus(core.clone());
    Some(format!("server and client share a core (CPUs {cpus}), so each slows down the other; {REMEDY}"))
}

/// Returns warnings about targets on this host, which may use the client's CPUs.
pub(super) fn of_targets(
    targets: &BTreeMap<String, TargetConfig>,
    placement: &placement::CpuPlacement,
) -> impl Iterator<Item = String> {
    let own = Cpus(placement.server.clone());
    targets.iter().filter_map(move |(name, target)| {
        let both: Vec<usize> = target.cpus.iter().copied().filter(|cpu| placement.client.contains(cpu)).collect();
        let both = Some(Cpus(both)).filter(|cpus| !cpus.0.is_empty())?;
        Some(match target.pid {
            Some(pid) => format!(
                "target:{name} may run on CPU {both} of the client, so times include waits for each other; move it \
                 (`taskset -apc {own} {pid}`)"
            ),
            None => format!(
                "target:{name} runs on this host, where muxbench does not choose its CPUs; start it on those of the server \
                 (`taskset -c {own}`)"
            ),
        })
    })
}

/// Returns a warning if built-in servers of `http` lack the content of the other servers. All loads have the same requests.
pub(super) fn of_content(experiment: &Experiment, loads: &[LoadConfig]) -> Option<String> {
    let load = loads.first().filter(|load| load.service == ServiceSpec::HTTP)?;
    let (ours, others): (Vec<_>, Vec<_>) = experiment.architectures.0.iter().partition(|it| it.ours().is_some());
    let is_mixed = !ours.is_empty() && !others.is_empty();
    let mut requests = load.http.iter().filter(|_| is_mixed).flat_map(|http| &http.targets);
    let path = &requests.find(|request| !request.path.starts_with("/bytes/"))?.path;
    // The query does not select the content.
    let has_page = matches!(path.split('?').next(), Some("/" | "/index.html"));
    let answer = if has_page { "a small page of their own" } else { "404" };
    Some(format!(
        "without a folder, built-in servers answer {path} with {answer}, so their responses differ from those of the other \
         servers; give them the same files (workload.http.folder, --folder), or their size (workload.response, --response)"
    ))
}

/// Returns a warning if only some servers have TLS. `tls` has their names.
pub(super) fn of_tls(experiment: &Experiment, tls: &BTreeMap<String, TlsConfig>) -> Option<String> {
    let servers = experiment.architectures.0.iter().map(ToString::to_string);
    let (encrypted, plain): (Vec<String>, Vec<String>) = servers.partition(|server| tls.contains_key(server));
    let is_mixed = !encrypted.is_empty() && !plain.is_empty();
    is_mixed.then(|| {
        format!(
            "some servers have TLS ({}), and others do not ({}), so differences include the cost of TLS; give TLS to all (https://, \
             and workload.tls or --tls), or to none",
            encrypted.join(", "),
            plain.join(", ")
        )
    })
}

/// Returns warnings about the limits of a lab.
pub(super) fn of_lab(
    network: &Network,
    applied: &Applied,
    placement: &placement::CpuPlacement,
    processes: u32,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let cpus = Cpus(conditions::relay_cpus(&placement.server, &placement.client));
    if applied.links == Links::Tun && !placement.client.is_empty() && cpus.0 == placement.client {
        warnings.push(format!(
            "this kernel has no netem, so a relay process shares the client's CPUs ({cpus}): send delays rise, and the highest \
             rate falls; leave a CPU for it (placement.client, --client-cpus)"
        ));
    }
    if network.clients.get() > processes {
        warnings.push(format!(
            "{} client hosts exceed the {processes} client processes, so some hosts have no active connection; raise \
             client.processes, or lower network.clients",
            network.clients
        ));
    }
    warnings
}
