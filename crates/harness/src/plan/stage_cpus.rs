//! Checks of the CPUs of a server's stages.

use server::spec::model::NetworkStage;
use server::{ServeConfig, StageCpus};

use crate::spec::units::Cpus;

const ACCEPT: &str = "server.accept-cpus";
const NETWORK: &str = "server.network-cpus";
const PAYLOAD: &str = "server.payload-cpus";

/// Returns the key and the CPUs of each stage that has its own.
fn stages(cpus: &StageCpus) -> impl Iterator<Item = (&'static str, &[usize])> {
    let StageCpus { accept, network, payload } = cpus;
    let stages = [(ACCEPT, accept), (NETWORK, network), (PAYLOAD, payload)];
    stages.into_iter().map(|(key, cpus)| (key, cpus.as_slice())).filter(|(_, cpus)| !cpus.is_empty())
}

/// Checks that the CPUs of each stage are among those of the server, `allowed`. An error begins with the key.
pub fn check(cpus: &StageCpus, allowed: &[usize]) -> Result<(), String> {
    let foreign = |cpus: &[usize]| cpus.iter().copied().find(|cpu| !allowed.contains(cpu));
    match stages(cpus).find_map(|(key, cpus)| Some((key, foreign(cpus)?))) {
        None => Ok(()),
        Some((key, _)) if allowed.is_empty() => Err(format!("{key}: only Linux can pin threads to CPUs; remove it")),
        Some((key, cpu)) => {
            let allowed = Cpus(allowed.to_vec());
            Err(format!(
                "{key}: the server may not use CPU {cpu}; choose from {allowed}, or give the server other CPUs"
            ))
        }
    }
}

/// Returns the reasons why the CPUs of stages do not suit an architecture. Each begins with the key.
pub fn reasons(serve: &ServeConfig) -> Vec<String> {
    let (architecture, model) = (serve.architecture, serve.architecture.model);
    let has_network = model.stages.is_some_and(|stages| stages.network == NetworkStage::Threads)
        && architecture.threads.is_some_and(|threads| threads.network > 0);
    let missing = |key| match key {
        ACCEPT if !model.multiplexes() && serve.service.ports().is_none() => {
            Some("does not place its accept thread; omit the CPUs, or choose epoll, symped or seda")
        }
        NETWORK if !has_network => Some("has no network threads; omit their CPUs, or choose symped, seda or seda-s"),
        PAYLOAD if !model.has_payload_threads() => {
            Some("has no payload threads; omit their CPUs, or choose seda, seda-s or amped")
        }
        _ => None,
    };
    let reason = |(key, _)| Some(format!("{key}: `{architecture}` {}", missing(key)?));
    stages(&serve.stage_cpus).filter_map(reason).collect()
}
