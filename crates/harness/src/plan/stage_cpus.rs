//! Checks of the CPUs of a server's stages.

use server::StageCpus;

use crate::spec::units::Cpus;

/// Checks that the CPUs of each stage are among those of the server, `allowed`. An error begins with the key.
pub fn check(cpus: &StageCpus, allowed: &[usize]) -> Result<(), String> {
    let StageCpus { accept, network, payload } = cpus;
    let stages = [("server.accept-cpus", accept), ("server.network-cpus", network), ("server.payload-cpus", payload)];
    let foreign = |cpus: &[usize]| cpus.iter().copied().find(|cpu| !allowed.contains(cpu));
    match stages.into_iter().find_map(|(key, cpus)| Some((key, foreign(cpus)?))) {
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
