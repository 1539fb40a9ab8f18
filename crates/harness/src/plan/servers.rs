//! The servers of a plan that are not built in: the programs of commands, and the addresses of targets.

use std::collections::BTreeMap;
use std::net::TcpListener;

use server::TargetConfig;
use server::external::target::cpus_of;
use wire::Address;

use crate::model::Trial;
use crate::spec::{Candidate, Experiment, Target};

/// Finds the program of each command, so that a wrong name fails before the run starts.
pub(super) fn find_commands(experiment: &Experiment) -> Result<(), String> {
    for (name, exec) in &experiment.exec {
        let directory = exec.directory.as_deref();
        if let Some(folder) = directory.filter(|folder| !folder.is_dir()) {
            return Err(format!("exec.{name}.directory: no folder `{}`; create it, or name another", folder.display()));
        }
        let path = exec.environment.get("PATH").map(String::as_str);
        server::external::config::find_program(&exec.command[0], directory, path)
            .map_err(|why| format!("exec.{name}.command: {why}; build or install it, or give its full path"))?;
    }
    Ok(())
}

/// Connects to each target, so that a wrong address fails before the run starts. `cpus` are those of this host.
pub(super) fn find_targets(experiment: &Experiment, cpus: &[usize]) -> Result<BTreeMap<String, TargetConfig>, String> {
    let find = |(name, target): (&String, &Target)| {
        let found = find_target(target, experiment, cpus).map_err(|reason| format!("target.{name}: {reason}"))?;
        Ok((name.clone(), found))
    };
    experiment.target.iter().map(find).collect()
}

fn find_target(target: &Target, experiment: &Experiment, cpus: &[usize]) -> Result<TargetConfig, String> {
    let address = target.url.resolve(experiment.workload.transport)?;
    let pid = target.pid.map(|pid| i32::try_from(pid.get()).unwrap_or(i32::MAX));
    let cpus = match pid {
        Some(pid) => cpus_of(pid).unwrap_or_default(),
        None if is_local(&address) => cpus.to_vec(),
        None => Vec::new(),
    };
    let config = TargetConfig { url: target.url.to_string(), address, ports: target.ports.clone(), pid, cpus };
    config.check()?;
    Ok(config)
}

/// Tests whether an address belongs to this host.
fn is_local(address: &Address) -> bool {
    address.ip().is_none_or(|address| TcpListener::bind((address.ip(), 0)).is_ok())
}

/// Tests whether all servers of an experiment run on other hosts.
pub(super) fn are_all_elsewhere(experiment: &Experiment, targets: &BTreeMap<String, TargetConfig>) -> bool {
    experiment.architectures.0.iter().all(|server| match server {
        Candidate::Target(name) => targets[name].pid.is_none() && !is_local(&targets[name].address),
        Candidate::Ours(_) | Candidate::Exec(_) => false,
    })
}

/// Checks that the targets of stored trials still accept connections.
pub fn check_targets(trials: &[Trial]) -> Result<(), String> {
    let mut targets: BTreeMap<String, &TargetConfig> = BTreeMap::new();
    targets.extend(trials.iter().filter_map(|trial| Some((trial.architecture.to_string(), trial.serve.target()?))));
    targets.into_iter().try_for_each(|(name, target)| target.check().map_err(|reason| format!("{name}: {reason}")))
}
