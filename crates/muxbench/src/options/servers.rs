//! Flags of the servers under comparison: architectures, running servers and commands.

use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::{Context, bail};
use harness::description;
use harness::description::Description;
use harness::spec::candidate::check_name;
use harness::spec::target::{Target, TargetUrl};
use harness::spec::transport::Transport;
use harness::spec::{Candidate, Experiment, Service, Workload};
use server::Architecture;

use super::set_list;

const HEADING: &str = "Other servers";

#[derive(Debug, clap::Args)]
pub struct ServersArgs {
    /// Architectures, comma-separated: `MODEL[:THREADS][/MECHANISM]`, or `all`; see `muxbench list`
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    arch: Vec<String>,
    /// Running server, such as `nginx=http://127.0.0.1:8080/` or `cache=memcached://HOST`; also tcp://HOST:PORT and unix:/PATH.
    /// May be repeated. Without --arch, only the named servers run
    #[arg(long, value_name = "NAME=URL", help_heading = HEADING)]
    target: Vec<Named<TargetUrl>>,
    /// Process of a target on this host, whose CPU time and memory muxbench then measures
    #[arg(long, value_name = "NAME=PID", help_heading = HEADING)]
    target_pid: Vec<Named<NonZeroU32>>,
}

/// A value for the server with this name, written `NAME=VALUE`.
#[derive(Clone, Debug)]
struct Named<T> {
    name: String,
    value: T,
}

impl<T: FromStr<Err: ToString>> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |(name, _): &(&str, &str)| check_name(name).is_ok();
        let (name, value) = text.split_once('=').filter(is_name).ok_or_else(|| {
            format!("`{text}` has no name; write NAME={text}, with a name of your choice such as mine")
        })?;
        Ok(Self { name: name.to_owned(), value: value.parse().map_err(|error: T::Err| error.to_string())? })
    }
}

/// Returns the first name that two values have.
fn duplicate<T>(values: &[Named<T>]) -> Option<&str> {
    let is_later = |(at, named): &(usize, &Named<T>)| values[..*at].iter().any(|earlier| earlier.name == named.name);
    values.iter().enumerate().find(is_later).map(|(_, named)| &*named.name)
}

impl ServersArgs {
    /// Replaces the servers of an experiment.
    pub fn apply(&self, experiment: &mut Experiment) -> anyhow::Result<()> {
        let mut servers = architectures(&self.arch)?;
        for (flag, name) in [("--target", duplicate(&self.target)), ("--target-pid", duplicate(&self.target_pid))] {
            if let Some(name) = name {
                bail!("{flag} {name}: the name appears twice; give each server its own name");
            }
        }
        for Named { name, value } in &self.target {
            let pid = self.target_pid.iter().find(|pid| pid.name == *name).map(|pid| pid.value);
            experiment.target.insert(name.clone(), Target { url: value.clone(), pid, ports: None });
        }
        if let Some(pid) = self.target_pid.iter().find(|pid| !experiment.target.contains_key(&pid.name)) {
            bail!("--target-pid {}: no --target has this name; add one, or correct the name", pid.name);
        }
        for named in self.target.iter().map(|target| Candidate::Target(target.name.clone())) {
            if !servers.contains(&named) {
                servers.push(named);
            }
        }
        let is_defined = |server: &&Candidate| match server {
            Candidate::Ours(_) => true,
            Candidate::Exec(name) => experiment.exec.contains_key(name),
            Candidate::Target(name) => experiment.target.contains_key(name),
        };
        if let Some(server) = servers.iter().find(|server| !is_defined(server)) {
            let name = server.to_string();
            let (kind, name) = name.split_once(':').context("a defined server has a kind")?;
            bail!("--arch {kind}:{name}: not defined; add --{kind} {name}=...");
        }
        set_list(&mut experiment.architectures, &servers);
        Ok(())
    }

    /// Applies the service and the transport that the URL of the first target selects.
    pub fn apply_urls(&self, workload: &mut Workload) {
        let Some(Named { value: url, .. }) = self.target.first() else { return };
        workload.service = url.service().unwrap_or(workload.service);
        workload.transport = url.transport().unwrap_or(workload.transport);
        if url.service() == Some(Service::Http) {
            // The URL has the path, whose content may have any length.
            workload.response = None;
        }
    }

    /// Returns the descriptions of targets whose URL selects no service. Only `muxbench serve` has a description.
    pub fn advertised(&self, transport: Transport) -> Vec<(String, Description)> {
        let unknown = self.target.iter().filter(|target| target.value.service().is_none());
        let ask = |target: &Named<TargetUrl>| {
            let address = target.value.resolve(transport).ok()?.ip()?;
            Some((target.name.clone(), description::ask(address)?))
        };
        unknown.filter_map(ask).collect()
    }
}

/// Fails if a target advertises another service than that of the experiment.
pub fn check_advertised(experiment: &Experiment, advertised: &[(String, Description)]) -> anyhow::Result<()> {
    for (name, description) in advertised {
        let loads = experiment.loads().map_err(anyhow::Error::msg)?;
        let checked = loads.iter().try_for_each(|load| description.check(&load.service));
        checked.with_context(|| format!("--target {name}"))?;
    }
    Ok(())
}

fn architectures(names: &[String]) -> anyhow::Result<Vec<Candidate>> {
    if names == ["all"] {
        return Ok(Architecture::all().into_iter().map(Candidate::from).collect());
    }
    names.iter().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
}
