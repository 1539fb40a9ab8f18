//! Warnings of a plan, about its placement and the limits of a lab.

use server::spec::mechanism::Spins;

use crate::host::placement;
use crate::model::network::{Applied, Links};
use crate::netns::conditions;
use crate::spec::Experiment;
use crate::spec::network::Network;
use crate::spec::units::Cpus;

/// Returns warnings about a placement. `cores` lists the allowed CPUs, grouped by core.
pub(super) fn of_placement(
    experiment: &Experiment,
    placement: &placement::Placement,
    cores: &[Vec<usize>],
) -> Vec<String> {
    let cpus = Cpus(placement.server.clone());
    let mut warnings: Vec<String> = shared(placement, cores).into_iter().collect();
    let staged = experiment.architectures.0.iter().filter_map(|it| it.ours()).filter(|it| it.model.multiplexes());
    let crowded = staged.filter_map(|it| Some((it, it.threads_at_once()? as usize)));
    let crowded: Vec<String> = crowded
        .filter(|(_, threads)| *threads > placement.server.len().max(1))
        .map(|(architecture, threads)| format!("{architecture} ({threads})"))
        .collect();
    if !crowded.is_empty() && !placement.server.is_empty() {
        warnings.push(format!(
            "more threads that serve than CPUs of the server ({cpus}), so that they take turns: {}; give it more \
             (placement.server, --server-cpus), or lower the threads",
            crowded.join(", ")
        ));
    }
    for architecture in &experiment.architectures.0 {
        let mechanism = architecture.ours().and_then(|architecture| architecture.mechanism);
        let spins = mechanism.map_or(Spins::Nothing, |mechanism| mechanism.spins);
        if spins == Spins::Nothing {
            continue;
        }
        if placement.is_shared() {
            warnings.push(format!(
                "{architecture} keeps a whole CPU busy, and server and client share CPUs: the client will be late; give each \
                 CPUs of its own (placement.server and placement.client, --server-cpus and --client-cpus)"
            ));
        }
        if spins == Spins::KernelThread && placement.server.len() == 1 {
            warnings.push(format!(
                "{architecture} has a thread of the kernel that keeps a whole CPU busy, and the server has one CPU, {cpus}: \
                 each waits for the other's turn; give it two (placement.server, --server-cpus)"
            ));
        }
    }
    warnings
}

/// Returns a warning if the server and the client share a CPU or a core.
fn shared(placement: &placement::Placement, cores: &[Vec<usize>]) -> Option<String> {
    const REMEDY: &str =
        "give each CPUs of its own (placement.server and placement.client, --server-cpus and --client-cpus)";
    let placement::Placement { server, client, .. } = placement;
    let both: Vec<usize> = server.iter().copied().filter(|cpu| client.contains(cpu)).collect();
    let uses = |cpus: &[usize], core: &[usize]| core.iter().any(|cpu| cpus.contains(cpu));
    let siblings = || cores.iter().find(|core| uses(server, core) && uses(client, core));
    if placement.is_shared() && both.is_empty() {
        return Some(
            "server and client run on CPUs that the system chooses, which they may share; to place them needs Linux"
                .into(),
        );
    }
    if !both.is_empty() {
        let cpus = Cpus(both);
        return Some(format!(
            "server and client share CPU {cpus}: each waits for the other, and times include that; {REMEDY}"
        ));
    }
    siblings().map(|core| {
        let cpus = Cpus(core.clone());
        format!("server and client share a core, whose threads are CPUs {cpus}: each slows the other; {REMEDY}")
    })
}

/// Returns warnings about the limits of a lab.
pub(super) fn of_lab(
    network: &Network,
    applied: &Applied,
    placement: &placement::Placement,
    processes: u32,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let cpus = Cpus(conditions::relay_cpus(&placement.server, &placement.client));
    if applied.links == Links::Tun && !placement.client.is_empty() && cpus.0 == placement.client {
        warnings.push(format!(
            "a process takes packets from host to host (this kernel has no netem), and no CPU is left for it: it runs on the \
             client's ({cpus}), whose lag it is part of, and the rates that can be reached are lower; leave it one \
             (placement.client, --client-cpus)"
        ));
    }
    if network.clients.get() > processes {
        warnings.push(format!(
            "{} hosts are more than the {processes} processes that measure, so that some have idle connections at most; raise \
             client.processes, or lower network.clients",
            network.clients
        ));
    }
    warnings
}
