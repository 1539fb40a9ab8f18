//! The servers under comparison: architectures, running servers and commands.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::bail;
use harness::spec::candidate::{UNNAMED_TARGET, check_name};
use harness::spec::target::{Target, TargetUrl};
use harness::spec::{Candidate, Exec, Experiment, Server, Service, WorkloadSpec};
use server::Architecture;
use wire::{Address, names};

use super::set_list;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Servers")]
pub struct ServersArgs {
    /// Architectures or groups, see `muxbench list`
    ///
    /// Comma-separated. An architecture is `MODEL[:THREADS][/MECHANISM]`, and a group is all, processes, threads or runtimes
    /// [default: mp, mt, select, poll, epoll, io_uring, tokio; advise: all]
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    arch: Vec<String>,
    /// Running server, as in nginx=http://localhost:8080/
    ///
    /// Also https://HOST, memcached://HOST, redis://HOST, tcp://HOST:PORT, udp://HOST:PORT and unix:/PATH. May be repeated. Without --arch, only
    /// the named servers run; `advise` adds all architectures
    #[arg(long, value_name = "NAME=URL")]
    target: Vec<Named<TargetUrl>>,
    /// Process of a target on this host, whose CPU time and kernel memory muxbench then measures
    #[arg(long, value_name = "NAME=PID", hide_short_help = true)]
    target_pid: Vec<Named<ProcessId>>,
    /// Server to start, as in go='./server {port}'
    ///
    /// A command that runs without a shell. May be repeated; needs --allow-exec. Placeholders are {port}, {address}, {socket}, {request}, {response}, {cpus} (their number), {folder} (that of --folder)
    /// and {dir} (a private folder)
    #[arg(long, value_name = "NAME=COMMAND", hide_short_help = true)]
    exec: Vec<Named<Words>>,
    /// Template of a command's configuration file, such as `nginx=nginx.conf.in`. It contains the same placeholders; {config} in
    /// the command is the path of the file
    #[arg(long, value_name = "NAME=FILE", hide_short_help = true)]
    exec_config: Vec<Named<PathBuf>>,
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
        let named = text.split_once('=').filter(|(name, _)| check_name(name).is_ok());
        let (name, value) = named.ok_or_else(|| {
            // A command or a URL may contain `=`.
            let is_value = text.split_once('=').is_none_or(|(name, _)| name.contains(['/', ':']));
            let example = if is_value { format!(", as in mine={text}") } else { String::new() };
            format!(
                "`{text}` does not begin with NAME=; write a name of letters, digits, `-`, `_` and `.` first{example}"
            )
        })?;
        Ok(Self { name: name.to_owned(), value: value.parse().map_err(|error: T::Err| error.to_string())? })
    }
}

/// A process ID.
#[derive(Clone, Copy, Debug)]
struct ProcessId(NonZeroU32);

impl FromStr for ProcessId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|_| format!("invalid process ID `{text}`: expected a number above 0, such as 1234"))
    }
}

/// The words of a command, split as a shell splits them.
#[derive(Clone, Debug)]
struct Words(Vec<String>);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        shlex::split(text).map(Self).ok_or_else(|| format!("invalid command `{text}`: a quotation mark has no partner"))
    }
}

/// Returns the first name that two values have.
fn duplicate<T>(values: &[Named<T>]) -> Option<&str> {
    let is_later = |(at, named): &(usize, &Named<T>)| values[..*at].iter().any(|earlier| earlier.name == named.name);
    values.iter().enumerate().find(is_later).map(|(_, named)| &*named.name)
}

/// Two builds of a server.
#[derive(Clone, Debug)]
pub struct Builds {
    /// The old build.
    pub old: Candidate,
    /// Whether the new build is the same server.
    pub are_same: bool,
    /// The flags with both builds.
    pub servers: ServersArgs,
    /// The experiment that the flags change.
    pub base: Experiment,
}

impl ServersArgs {
    /// Whether the user chose architectures.
    pub fn has_architectures(&self) -> bool {
        !self.arch.is_empty()
    }

    /// Adds two builds. Each is the URL of a running server, a command with placeholders, the name of a server that other flags
    /// or the experiment define, or an architecture.
    pub fn with_builds(&self, old: &str, new: &str, mut base: Experiment) -> anyhow::Result<Builds> {
        if !self.arch.is_empty() {
            bail!("--arch: a gate compares OLD with NEW; omit it");
        }
        let mut servers = self.clone();
        for (name, text) in [("old", old), ("new", new)] {
            let named = |kind: &str, name: &str| format!("{kind}:{name}");
            let server = if text.contains("://") || text.starts_with("unix:") {
                let value = text.parse().map_err(anyhow::Error::msg)?;
                servers.target.push(Named { name: name.to_owned(), value });
                named("target", name)
            } else if text.contains(['{', ' ']) {
                let value = text.parse().map_err(anyhow::Error::msg)?;
                servers.exec.push(Named { name: name.to_owned(), value });
                named("exec", name)
            } else if self.exec.iter().any(|exec| exec.name == text) || base.exec.contains_key(text) {
                named("exec", text)
            } else if self.target.iter().any(|target| target.name == text) || base.target.contains_key(text) {
                named("target", text)
            } else if let Some(remedy) = build_remedy(text) {
                bail!("{} `{text}`: {remedy}", name.to_uppercase());
            } else {
                text.to_owned()
            };
            servers.arch.push(server);
        }
        let candidates = architectures(&servers.arch)?;
        if candidates.iter().all(|it| it.ours().is_none()) {
            // The options in FILE are those of its built-in servers.
            base.server = Server::default();
        }
        let are_same = candidates[0] == candidates[1];
        let has_new_name = servers.exec.len() + servers.target.len() > self.exec.len() + self.target.len();
        if are_same && has_new_name {
            bail!("OLD and NEW are both named {}; rename the server that FILE or a flag defines", candidates[0]);
        }
        servers.arch.truncate(if are_same { 1 } else { 2 });
        let commands = servers.exec.iter().map(|exec| Candidate::Exec(exec.name.clone()));
        let mut named = servers.target.iter().map(|it| Candidate::Target(it.name.clone())).chain(commands);
        if let Some(other) = named.find(|it| !candidates.contains(it)) {
            bail!("{other} is neither OLD nor NEW; omit it");
        }
        Ok(Builds { old: candidates[0].clone(), are_same, servers, base })
    }

    /// Returns the servers. Each is an architecture, or the flags or the experiment define it.
    pub fn parse(&self, experiment: &Experiment) -> anyhow::Result<Servers> {
        for (flag, name) in [
            ("target", duplicate(&self.target)),
            ("target-pid", duplicate(&self.target_pid)),
            ("exec", duplicate(&self.exec)),
            ("exec-config", duplicate(&self.exec_config)),
        ] {
            if let Some(name) = name {
                bail!("--{flag} {name}: the name appears twice; give each server its own name");
            }
        }
        let is_target = |name: &str| self.target.iter().any(|target| target.name == name);
        if let Some(Named { name, .. }) = self.target_pid.iter().find(|pid| !is_target(&pid.name)) {
            let suggestion = names::suggestion(name, self.target.iter().map(|target| target.name.as_str()));
            bail!("--target-pid {name}: no --target has this name; add one, or correct the name{suggestion}");
        }
        let target = |Named { name, value: url }: &Named<TargetUrl>| {
            let pid = self.target_pid.iter().find(|pid| pid.name == *name).map(|pid| pid.value.0);
            (name.clone(), Target { url: url.clone(), pid })
        };
        let targets: Vec<(String, Target)> = self.target.iter().map(target).collect();
        let is_command = |name: &str| self.exec.iter().any(|exec| exec.name == name);
        if let Some(Named { name, .. }) = self.exec_config.iter().find(|config| !is_command(&config.name)) {
            let suggestion = names::suggestion(name, self.exec.iter().map(|exec| exec.name.as_str()));
            bail!("--exec-config {name}: no --exec has this name; add one, or correct the name{suggestion}");
        }
        let command = |exec: &Named<Words>| {
            let config = self.exec_config.iter().find(|config| config.name == exec.name);
            let config = config.map(|config| config.value.clone());
            (exec.name.clone(), Exec { config, ..Exec::of(exec.value.0.clone()) })
        };
        let commands: Vec<(String, Exec)> = self.exec.iter().map(command).collect();
        let mut servers = Servers { architectures: architectures(&self.arch)?, targets, commands };
        let is_defined = |server: &&Candidate| match server {
            Candidate::Ours(_) => true,
            Candidate::Exec(name) => is_command(name) || experiment.exec.contains_key(name),
            Candidate::Target(name) => is_target(name) || experiment.target.contains_key(name),
        };
        if let Some(server) = servers.architectures.iter().find(|server| !is_defined(server)) {
            let kind = if matches!(server, Candidate::Exec(_)) { "exec NAME=COMMAND" } else { "target NAME=URL" };
            bail!("--arch {server}: not defined; add --{kind} with this name");
        }
        let commands = servers.commands.iter().map(|(name, _)| Candidate::Exec(name.clone()));
        let named: Vec<Candidate> =
            servers.targets.iter().map(|(name, _)| Candidate::Target(name.clone())).chain(commands).collect();
        for server in named {
            if !servers.architectures.contains(&server) {
                servers.architectures.push(server);
            }
        }
        Ok(servers)
    }
}

/// The servers of an experiment.
#[derive(Debug)]
pub struct Servers {
    /// All servers in order; empty for those of the preset.
    architectures: Vec<Candidate>,
    targets: Vec<(String, Target)>,
    commands: Vec<(String, Exec)>,
}

impl Servers {
    /// A single target.
    pub fn target(url: &TargetUrl) -> Self {
        let name = UNNAMED_TARGET.to_owned();
        let architectures = vec![Candidate::Target(name.clone())];
        let target = Target { url: url.clone(), pid: None };
        Self { architectures, targets: vec![(name, target)], commands: Vec::new() }
    }

    /// A single target at an address.
    pub fn at(address: &Address, service: Option<Service>) -> anyhow::Result<Self> {
        let url = match address {
            Address::Unix(_) => address.to_string(),
            Address::Ip(_) if service == Some(Service::Udp) => format!("udp://{address}"),
            Address::Ip(_) => format!("tcp://{address}"),
        };
        Ok(Self::target(&url.parse().map_err(anyhow::Error::msg)?))
    }

    /// Replaces the servers of an experiment, if there are any. A server of the experiment that is among them keeps its definition,
    /// unless a flag defines it too.
    pub fn apply(&self, experiment: &mut Experiment) {
        if !self.architectures.is_empty() {
            experiment.target.retain(|name, _| self.architectures.contains(&Candidate::Target(name.clone())));
            experiment.exec.retain(|name, _| self.architectures.contains(&Candidate::Exec(name.clone())));
        }
        set_list(&mut experiment.architectures, &self.architectures);
        experiment.target.extend(self.targets.iter().cloned());
        experiment.exec.extend(self.commands.iter().cloned());
    }

    /// Applies the service and the transport that the URL of the first target selects.
    pub fn apply_urls(&self, workload: &mut WorkloadSpec) {
        let Some((_, Target { url, .. })) = self.targets.first() else { return };
        workload.service = url.service().unwrap_or(workload.service);
        workload.transport = url.transport().or_else(|| url.reachable_transport()).unwrap_or(workload.transport);
    }

    /// Tests whether a flag defines a target.
    pub fn have_target(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The number of ports that the URL of a target lists.
    pub fn ports(&self) -> Option<u32> {
        self.targets.iter().find_map(|(_, target)| Some(target.url.ports()?.count()))
    }
}

/// Returns the remedy for a build that is a path or an address without the rest of a command or URL; `None` if it may be the name
/// of an architecture.
fn build_remedy(text: &str) -> Option<String> {
    let is_path = || text.starts_with(['.', '/', '~']) || text.contains('/') && Path::new(text).is_file();
    if text.parse::<Candidate>().is_ok() {
        None
    } else if is_address(text) {
        let end = if text.contains('/') { "" } else { "/" };
        Some(format!("a URL needs its scheme, as in http://{text}{end}"))
    } else if text.ends_with(".toml") {
        Some(format!("an experiment file follows OLD and NEW, as in muxbench gate epoll mt {text}"))
    } else {
        is_path().then(|| format!("a command needs {{port}}, as in '{text} {{port}}'"))
    }
}

/// Tests whether a text begins with HOST:PORT, where HOST is `localhost` or contains a dot or a bracket.
fn is_address(text: &str) -> bool {
    let place = text.split_once('/').map_or(text, |(place, _)| place);
    let is_host = |host: &str| host == "localhost" || host.contains(['.', '[']);
    place.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

/// Replaces groups by their members, unless these are listed already.
fn architectures(names: &[String]) -> anyhow::Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for name in names {
        match Architecture::group(name) {
            Some(group) => {
                let new: Vec<_> = group.into_iter().map(Candidate::from).filter(|it| !all.contains(it)).collect();
                all.extend(new);
            }
            None => all.push(name.parse().map_err(anyhow::Error::msg)?),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_replaced_by_their_architectures() {
        let all = |names: &[&str]| architectures(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let threads = Architecture::group("threads").unwrap();
        assert_eq!(all(&["mt", "threads", "poll"]).unwrap().len(), threads.len() + 1);
        assert_eq!(all(&["all"]).unwrap().len(), Architecture::all().len());
        assert_eq!(all(&["mt", "mt"]).unwrap().len(), 2, "the check of the experiment names the duplicate");
        assert!(all(&["thread"]).unwrap_err().to_string().contains("did you mean `threads`?"));
    }

    #[test]
    fn build_without_placeholder_or_scheme_gets_a_remedy() {
        for (build, words) in [
            ("./old", "needs {port}, as in './old {port}'"),
            ("/opt/old", "as in '/opt/old {port}'"),
            ("127.0.0.1:8081", "as in http://127.0.0.1:8081/"),
            ("localhost:80/a", "as in http://localhost:80/a"),
            ("[::1]:80", "as in http://[::1]:80/"),
            ("profile.toml", "follows OLD and NEW"),
        ] {
            let remedy = build_remedy(build).unwrap_or_else(|| panic!("{build}"));
            assert!(remedy.contains(words), "{build}: {remedy}");
        }
        for build in ["old", "epol", "threads", "symped:2/poll", "symped/pol", "symped:0", "localhost"] {
            assert_eq!(build_remedy(build), None, "{build}");
        }
    }
}
