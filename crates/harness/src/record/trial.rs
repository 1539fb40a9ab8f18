//! A planned trial: its traffic, its server and its client.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use load::config::{ClientConfig, LoadConfig, Traffic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::{Accept, ExternalConfig, Options, Work};

use crate::spec::Candidate;
use crate::spec::ServerSpec;
use crate::spec::busy_poll::BusyPolling;
use crate::spec::controllers;
use crate::spec::network::Network;
use crate::spec::stall::Stall;
use crate::spec::tls::Tls;
use crate::spec::transport::Transport;
use crate::spec::units::Budget;

/// The traffic of one trial, with what lies between client and server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The requests and their connections.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The transport of requests.
    pub transport: Transport,
    /// TLS of all connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The network between server and client in a lab. `None` for loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The simulated work of the server for each request, besides its I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

/// A workload has the fields of its traffic.
impl Deref for Workload {
    type Target = Traffic;

    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

impl DerefMut for Workload {
    fn deref_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

/// Traffic over TCP and loopback, without TLS or simulated work.
impl From<Traffic> for Workload {
    fn from(traffic: Traffic) -> Self {
        Self { traffic, transport: Transport::default(), tls: None, network: None, work: None }
    }
}

impl Workload {
    /// Returns the workload with changes.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns the plural noun for the targets: connections, or ports for datagrams.
    pub fn targets(&self) -> &'static str {
        if self.service.ports().is_some() { "ports" } else { "connections" }
    }

    /// Returns the workload without its rate, and without the length of the window, which a number of sessions makes depend on it.
    #[must_use]
    pub fn without_rate(&self) -> Self {
        self.clone().with(|it| {
            it.set_rate(None);
            it.phases.measure_ns = 0;
        })
    }
}

/// A row of a plan, with all options explicit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The position in the plan, from 0. Each probe of a capacity search is a trial. Its index is the number of earlier probes of its
    /// search, times the number of searches, plus the index of its search.
    pub index: u32,
    /// The number of the repeat, from 0.
    pub repeat: u32,
    /// The server under test.
    pub architecture: Candidate,
    /// Whether the trial is a placebo: the reference architecture a second time, to show the noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_placebo: bool,
    /// Whether the trial runs its architecture once more, as the reference of a further group of interleaved trials. It links the
    /// figures of the groups and has no row of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reference: bool,
    /// The traffic.
    pub workload: Workload,
    /// The server's complete configuration. The port or the socket's folder is chosen when the server starts.
    pub serve: ServerSpec,
    /// The client. Its way to the server is added when the server listens.
    pub client: ClientConfig,
    /// The reasons why this host cannot run the trial. Empty if it can.
    pub infeasible: Vec<String>,
}

impl Trial {
    /// Returns the architecture with `placebo` or `reference` and unusual options in parentheses, such as `mt-pool (exclusive,
    /// 256KiB reads)`.
    pub fn label(&self) -> String {
        let again = [(self.is_placebo, "placebo"), (self.is_reference, "reference")];
        let again = again.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned());
        let unusual: Vec<String> = again.chain(self.unusual_options()).collect();
        if unusual.is_empty() {
            self.architecture.to_string()
        } else {
            format!("{} ({})", self.architecture, unusual.join(", "))
        }
    }

    /// Returns the options of a built-in server that are not the defaults, in words.
    pub fn unusual_options(&self) -> Vec<String> {
        self.serve.ours().map_or_else(Vec::new, |serve| {
            let Options { accept, read_budget_bytes, controllers, stall, datagrams, busy_poll } = serve.options();
            let accept = (accept != Accept::default_of(serve.architecture.model)).then(|| accept.to_string());
            let budget = (!read_budget_bytes.is_default()).then(|| format!("{} reads", Budget(read_budget_bytes)));
            let stall = stall.map(|stall| format!("stall {}", Stall(stall)));
            let batch = (datagrams.batch > 1).then(|| format!("batches of {}", datagrams.batch));
            let datagrams = batch.into_iter().chain(datagrams.offload.then(|| "offload".to_owned()));
            let poll = busy_poll.map(|poll| format!("polls {}", BusyPolling(Some(poll))));
            let others = controllers::describe(&controllers).into_iter().chain(stall).chain(datagrams).chain(poll);
            accept.into_iter().chain(budget).chain(others).collect()
        })
    }

    /// Returns the trial as a separate one, which shares its window with no other.
    pub fn alone(&self) -> Self {
        Self { client: ClientConfig { slices: None, ..self.client.clone() }, ..self.clone() }
    }

    /// Returns the load of a server on its planned address.
    pub fn load(&self) -> LoadConfig {
        LoadConfig {
            target: self.serve.listen().clone(),
            ports: self.serve.target().and_then(|target| target.ports.clone()),
            others: self.serve.target().map(|target| target.others.clone()).unwrap_or_default(),
            sources: Vec::new(),
            traffic: self.workload.traffic.clone(),
            client: self.client.clone(),
            part: None,
        }
    }

    /// Tests whether the server counts the bytes of streams. An external server does not.
    pub fn counts_streams(&self) -> bool {
        self.workload.service.stream().is_some() && self.architecture.ours().is_some()
    }

    fn is_same_server(&self, other: &Self) -> bool {
        self.architecture == other.architecture
            && self.is_placebo == other.is_placebo
            && self.serve.options() == other.serve.options()
    }

    /// Tests whether the trial is a reference that runs the server of `original` once more.
    pub(super) fn is_reference_of(&self, original: &Self) -> bool {
        let is_one = self.is_reference && !original.is_reference;
        is_one && self.repeat == original.repeat && self.is_same_server(original) && self.workload == original.workload
    }

    /// Tests whether another trial differs only in its repeat.
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.is_reference == other.is_reference && self.is_same_server(other) && self.workload == other.workload
    }

    /// Tests whether another trial has the same architecture, options and traffic, except for the rate. Ignores the repeat.
    pub fn differs_only_in_rate(&self, other: &Self) -> bool {
        self.is_reference == other.is_reference
            && self.is_same_server(other)
            && self.workload.without_rate() == other.workload.without_rate()
    }
}

/// Returns the external commands of trials without duplicates, as `exec:NAME: COMMAND`, with environment and folder.
pub fn commands<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<String> {
    let command = |trial: &Trial| match &trial.serve {
        ServerSpec::External(exec) => Some(format!("{}: {}", trial.architecture, line(exec))),
        ServerSpec::Ours(_) | ServerSpec::Target(_) => None,
    };
    trials.into_iter().filter_map(command).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Formats a command for display, similar to a shell's command line: environment, command, folder.
fn line(exec: &ExternalConfig) -> String {
    let mut words: Vec<String> =
        exec.environment.iter().map(|(name, value)| quoted(&format!("{name}={value}"))).collect();
    words.extend(exec.command.iter().map(|argument| quoted(argument)));
    let mut line = words.join(" ");
    if let Some(config) = &exec.config {
        line += &format!(" (with {})", quoted(&config.name));
    }
    match &exec.directory {
        Some(directory) => format!("{line} (in {})", quoted(&directory.to_string_lossy())),
        None => line,
    }
}

/// Quotes a word that contains spaces or special characters. The escapes protect a terminal from control characters.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("{word:?}") }
}

#[cfg(test)]
mod tests {
    use server::ConfigFile;

    use super::*;

    #[test]
    fn shown_command_hides_nothing() {
        let exec = ExternalConfig {
            command: ["serve it", "{port}", "a\u{1b}[2Jb", ""].map(Into::into).into(),
            config: Some(ConfigFile { name: "it.conf".into(), text: String::new() }),
            dir: None,
            folder: None,
            directory: Some("/srv".into()),
            environment: [("A".to_owned(), "1".to_owned())].into(),
            listen: ([127, 0, 0, 1], 0).into(),
            request_bytes: Some(1),
            response_bytes: Some(1),
            cpus: Vec::new(),
            start_timeout_ns: 1,
        };
        assert_eq!(line(&exec), r#"A=1 "serve it" {port} "a\u{1b}[2Jb" "" (with it.conf) (in /srv)"#);
        let hidden = ExternalConfig { directory: Some("/srv\u{1b}[8m".into()), ..exec };
        assert!(line(&hidden).ends_with(r#"(in "/srv\u{1b}[8m")"#), "{}", line(&hidden));
    }

    #[test]
    fn planned_trials_read_back() {
        let text = "name = \"x\"\narchitectures = [\"epoll\", \"exec:it\"]\n\
                    [exec.it]\ncommand = [\"sh\", \"{port}\"]\nenvironment = { PORT = \"{port}\" }\n\
                    [workload]\nconnections = 1\nrate = 1\nrequest = \"1B\"\nresponse = \"2B\"\n\
                    [phases]\nramp = \"0\"\nwarm-up = \"0\"\nmeasure = \"1s\"\n";
        let experiment = crate::spec::Experiment::of(text);
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(crate::spec::Experiment::parse(&again, "again").unwrap(), experiment);
        let plan = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap();
        assert_eq!(commands(&plan.trials), ["exec:it: PORT={port} sh {port}"]);
        for trial in &plan.trials {
            let stored = serde_json::to_value(trial).unwrap();
            assert_eq!(serde_json::from_value::<Trial>(stored).unwrap(), *trial);
        }
    }
}
