//! The servers of a plan that are not built in: the programs of commands, and the addresses of targets.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use load::config::{HttpTarget, LoadConfig, TlsConfig};
use server::external::target::cpus_of;
use server::spec::tls::SERVER_NAME;
use server::{ConfigFile, TargetConfig};
use wire::{Address, ServiceSpec};

use crate::files;
use crate::record::Trial;
use crate::spec::ServerSpec;
use crate::spec::{Candidate, Experiment, Target};

/// The facts about the servers of an experiment, by name.
pub(super) struct ServerFacts {
    /// The configuration files of commands.
    pub(super) configs: BTreeMap<String, ConfigFile>,
    pub(super) targets: BTreeMap<String, TargetConfig>,
    /// The client's TLS, by the server's name.
    pub(super) tls: BTreeMap<String, TlsConfig>,
}

/// Finds the programs of commands and connects to targets, so that a wrong name fails before the run starts. `cpus` are those of
/// this host.
pub(super) fn find(experiment: &Experiment, cpus: &[usize]) -> Result<ServerFacts, String> {
    check_folder(experiment)?;
    let configs = find_commands(experiment)?;
    let find = |(name, target): (&String, &Target)| Ok((name.clone(), find_target(name, target, experiment, cpus)?));
    let targets = experiment.target.iter().map(find).collect::<Result<_, String>>()?;
    Ok(ServerFacts { configs, targets, tls: find_tls(experiment).map_err(|reason| format!("workload.tls.{reason}"))? })
}

fn find_tls(experiment: &Experiment) -> Result<BTreeMap<String, TlsConfig>, String> {
    let tls = experiment.workload.tls.as_ref();
    let certified_name = |server: &Candidate| match server {
        Candidate::Target(name) => experiment.target[name].url.certified_name(tls.is_some()).map(str::to_owned),
        Candidate::Ours(_) | Candidate::Exec(_) => tls.map(|_| SERVER_NAME.to_owned()),
    };
    let settings = tls.cloned().unwrap_or_default();
    let servers = experiment.architectures.0.iter();
    let certified = servers.filter_map(|server| Some((server.to_string(), certified_name(server)?)));
    certified.map(|(server, name)| Ok((server, settings.client_of(&name)?))).collect()
}

/// Finds the program of each command. Returns the configuration files.
fn find_commands(experiment: &Experiment) -> Result<BTreeMap<String, ConfigFile>, String> {
    let mut configs = BTreeMap::new();
    for (name, exec) in &experiment.exec {
        let directory = exec.directory.as_deref();
        if let Some(folder) = directory.filter(|folder| !folder.is_dir()) {
            return Err(format!("exec.{name}.directory: no folder `{}`; create it, or name another", folder.display()));
        }
        let path = exec.environment.get("PATH").map(String::as_str);
        server::external::config::find_program(&exec.command[0], directory, path)
            .map_err(|why| format!("exec.{name}.command: {why}; {}", program_remedy(&exec.command)))?;
        if let Some(path) = &exec.config {
            let path = directory.map_or_else(|| path.clone(), |directory| directory.join(path));
            let place = experiment.workload.transport.placeholder();
            let config = read_config(&path, place).map_err(|why| format!("exec.{name}.config: {why}"))?;
            configs.insert(name.clone(), config);
        }
    }
    Ok(configs)
}

/// Checks that the folder with the content of `http` exists. Targets have content of their own.
fn check_folder(experiment: &Experiment) -> Result<(), String> {
    let needs_it = experiment.architectures.0.iter().any(|server| !matches!(server, Candidate::Target(_)));
    let folder = experiment.workload.http.as_ref().and_then(|http| http.folder.as_ref());
    match folder.filter(|folder| needs_it && !folder.is_dir()) {
        Some(folder) => Err(format!(
            "workload.http.folder: no folder `{}`; create it, or name another (--folder)",
            folder.display()
        )),
        None => Ok(()),
    }
}

/// Checks that built-in servers have a file for each request, unless the request expects the status 404. All loads have the same
/// requests.
pub(super) fn check_pages(experiment: &Experiment, loads: &[LoadConfig]) -> Result<(), String> {
    let has_ours = experiment.architectures.0.iter().any(|server| server.ours().is_some());
    let Some(load) = loads.first().filter(|_| has_ours) else { return Ok(()) };
    let (ServiceSpec::Http { folder: Some(folder), .. }, Some(http)) = (&load.service, &load.http) else {
        return Ok(());
    };
    let is_missing = |request: &&HttpTarget| {
        let path = request.path.split('?').next().unwrap_or_default().trim_start_matches('/');
        let index = if path.is_empty() || path.ends_with('/') { "index.html" } else { "" };
        // Paths with encoded characters or `..` are not names of files.
        let is_there = path.contains('%')
            || path.split('/').any(|part| part == "." || part == "..")
            || Path::new(folder).join(format!("{path}{index}")).is_file();
        !is_there && !request.status.unwrap_or(http.status).accepts(404)
    };
    match http.targets.iter().find(is_missing) {
        Some(HttpTarget { path, .. }) => Err(format!(
            "workload.http.folder: `{}` has no file for {path}; correct the path (--path), or add the file",
            Path::new(folder).display()
        )),
        None => Ok(()),
    }
}

/// Returns the remedy for a command whose program is missing, which may be written for a shell.
fn program_remedy(command: &[String]) -> &'static str {
    let program = command.first().map_or("", String::as_str);
    let is_assignment = program.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let is_builtin = ["cd", "export", "source", "."].contains(&program);
    let is_operator = |word: &String| ["&&", "||", "|", ";", "&", ">", ">>", "<"].contains(&word.as_str());
    if is_assignment || is_builtin || command.iter().any(is_operator) {
        "commands run without a shell; write sh -c '...'"
    } else {
        "build or install it, or give its full path"
    }
}

/// Reads the template of a configuration file, which must contain `place`, the place to listen on.
fn read_config(path: &Path, place: &str) -> Result<ConfigFile, String> {
    let shown = path.display();
    let bytes = files::read(path).map_err(|error| format!("cannot read {shown}: {error}; correct the path"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8; convert it"))?;
    if !text.contains(place) {
        return Err(format!("{shown} does not contain `{place}`, the place to listen on; add it"));
    }
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| format!("{shown} names no file"))?;
    Ok(ConfigFile { name: name.strip_suffix(".in").unwrap_or(name).to_owned(), text })
}

/// Finds the process of a target, and connects to its address.
fn find_target(name: &str, target: &Target, experiment: &Experiment, cpus: &[usize]) -> Result<TargetConfig, String> {
    // The reason identifies the only server, and `load` has no name for it.
    let is_only = experiment.architectures.0.len() == 1;
    let place = |reason: String| if is_only { reason } else { format!("target.{name}: {reason}") };
    let addresses = target.url.resolve(experiment.workload.transport).map_err(place)?;
    let others = addresses[1..].iter().filter_map(Address::ip).collect();
    let address = addresses[0].clone();
    let pid = target.pid.map(|pid| i32::try_from(pid.get()).unwrap_or(i32::MAX));
    let cpus = match pid {
        Some(pid) => cpus_of(pid).map_err(|reason| format!("target.{name}.pid: {reason}"))?,
        None if is_local(&address) => cpus.to_vec(),
        None => Vec::new(),
    };
    let (url, ports) = (target.url.to_string(), target.url.ports().cloned());
    let found = TargetConfig { url, address, others, ports, pid, cpus };
    found.check_address().map_err(place)?;
    Ok(found)
}

/// Tests whether an address belongs to this host.
fn is_local(address: &Address) -> bool {
    address.ip().is_none_or(|address| TcpListener::bind((address.ip(), 0)).is_ok())
}

impl ServerFacts {
    /// Tests whether all servers run on other hosts.
    pub(super) fn are_all_elsewhere(&self, servers: &[Candidate]) -> bool {
        servers.iter().all(|server| match server {
            Candidate::Target(name) => self.targets[name].pid.is_none() && !is_local(&self.targets[name].address),
            Candidate::Ours(_) | Candidate::Exec(_) => false,
        })
    }
}

/// Checks that the targets of stored trials still accept connections.
pub fn check_targets(trials: &[Trial]) -> Result<(), String> {
    let mut targets: BTreeMap<String, &TargetConfig> = BTreeMap::new();
    targets.extend(trials.iter().filter_map(|trial| Some((trial.architecture.to_string(), trial.serve.target()?))));
    targets.into_iter().try_for_each(|(name, target)| target.check().map_err(|reason| format!("{name}: {reason}")))
}

/// Checks that the folders and the keys of stored trials still exist, and that their traces still have the planned arrivals.
pub fn check_files(trials: &[Trial]) -> Result<(), String> {
    let mut traces: Vec<_> = trials.iter().filter_map(|trial| trial.workload.trace()).collect();
    traces.dedup();
    for trace in traces {
        traffic::trace::check(trace)
            .map_err(|error| format!("workload.trace.file: {error:#}; restore the file, or begin a new run"))?;
    }
    // A run does not store keys of certificates.
    let mut tls: Vec<_> = trials.iter().filter_map(|trial| trial.workload.tls.as_ref()).collect();
    tls.dedup();
    for tls in tls {
        tls.identity().map_err(|reason| format!("workload.tls.{reason}"))?;
    }
    match trials.iter().filter_map(|trial| folder(&trial.serve)).find(|folder| !folder.is_dir()) {
        Some(folder) => Err(format!(
            "workload.http.folder: no folder `{}`; restore it, or resume in the directory where the run began",
            folder.display()
        )),
        None => Ok(()),
    }
}

/// Returns the folder with the content of a server.
fn folder(serve: &ServerSpec) -> Option<&PathBuf> {
    match serve {
        ServerSpec::Ours(serve) => match &serve.service {
            ServiceSpec::Http { folder, .. } => folder.as_ref(),
            _ => None,
        },
        ServerSpec::External(exec) => exec.folder.as_ref(),
        ServerSpec::Target(_) => None,
    }
}

#[cfg(test)]
mod tests;
