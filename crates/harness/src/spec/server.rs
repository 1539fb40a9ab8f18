//! `[server]` and `[exec.NAME]`: the servers of an experiment.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::external::config::PLACEHOLDERS;
use server::{Accept, Architecture, BusyPoll, Controllers, DatagramOptions, StageCpus};

use super::busy_poll::BusyPolling;
use super::controllers::{Admission, BatchControl, PoolControl};
use super::one_or_many::OneOrMany;
use super::schema::AcceptName;
use super::stall::Stall;
use super::transport::Transport;
use super::units::{Budget, Cpus, Time};
use super::workload::Service;

/// The options of the servers besides their architectures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Server {
    /// The ways in which connections are accepted, each with every architecture. By default `shared` for pools of threads or
    /// processes, otherwise `single`.
    #[schemars(with = "Option<OneOrMany<AcceptName>>")]
    pub accept: Option<OneOrMany<Accept>>,
    /// The CPUs of the accept thread, a subset of the server's. By default, all of them.
    pub accept_cpus: Option<Cpus>,
    /// The CPUs of the network threads.
    pub network_cpus: Option<Cpus>,
    /// The CPUs of the payload threads.
    pub payload_cpus: Option<Cpus>,
    /// The maximum bytes of one read from a connection, 1B to 1MiB, before other connections get their turn. By default
    /// 64KiB. All architectures of a trial use the same value.
    pub read_budget: Option<Budget>,
    /// The thread-pool controller of payload threads (SEDA): `on`, or settings such as `max=20,queue=100,interval=2s,idle=5s`.
    pub pool_control: Option<PoolControl>,
    /// The batching controller of payload threads (SEDA): `on`, or settings such as `min=8,max=1000,interval=1s`.
    pub batch_control: Option<BatchControl>,
    /// Admission control of the payload stage (SEDA): the target of the 90th percentile of response times, and settings such as
    /// `target=10ms,requests=100,timeout=1s,increase=2`.
    pub admission: Option<Admission>,
    /// Periodic stalls of the first network thread, which then serves nothing, such as `every=1s,for=200ms`.
    pub stall: Option<Stall>,
    /// The most messages that a server of `udp` receives or sends with a system call (recvmmsg, sendmmsg), 1 to 1024. By default
    /// 1: recvfrom and sendto.
    pub datagram_batch: Option<NonZeroU32>,
    /// Whether the kernel coalesces the datagrams that a server of `udp` receives, and segments those that it sends (UDP_GRO,
    /// UDP_SEGMENT).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub datagram_offload: bool,
    /// Busy polling of the server's network interface: `off`, or the longest time that a waiting thread polls, such as `50us`. With
    /// several values, each architecture runs with each of them. `:budget=16` sets the most packets of a poll. `:prefer` keeps the
    /// interface's own processing off while it defers interrupts, and `:suspend=20ms` makes a lab's interface suspend them.
    pub busy_poll: Option<OneOrMany<BusyPolling>>,
    /// Whether the kernel counts the system calls of all built-in servers, including the runtimes. Counting makes each call more
    /// expensive. Do not compare figures with and without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl Server {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the accept strategies for an architecture.
    pub fn accepts(&self, architecture: Architecture) -> Vec<Accept> {
        self.accept.as_ref().map_or_else(|| vec![Accept::default_of(architecture.model)], |accepts| accepts.0.clone())
    }

    /// Returns the controllers of the payload stage.
    pub fn controllers(&self) -> Controllers {
        Controllers {
            pool: self.pool_control.map(|it| it.0),
            batch: self.batch_control.map(|it| it.0),
            admission: self.admission.map(|it| it.0),
        }
    }

    /// Returns the values of busy polling, each for every architecture.
    pub fn busy_polls(&self) -> Vec<Option<BusyPoll>> {
        self.busy_poll.as_ref().map_or_else(|| vec![None], |polls| polls.0.iter().map(|poll| poll.0).collect())
    }

    /// Returns how a server receives and sends datagrams; only that of `udp` has options.
    pub fn datagrams(&self, service: Service) -> DatagramOptions {
        if service != Service::Udp {
            return DatagramOptions::default();
        }
        DatagramOptions { batch: self.datagram_batch.map_or(1, NonZeroU32::get), offload: self.datagram_offload }
    }

    /// Returns the CPUs of each stage's threads.
    pub fn stage_cpus(&self) -> StageCpus {
        let listed = |cpus: &Option<Cpus>| cpus.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default();
        StageCpus {
            accept: listed(&self.accept_cpus),
            network: listed(&self.network_cpus),
            payload: listed(&self.payload_cpus),
        }
    }
}

/// An external server, started by a command without a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exec {
    /// The program and its arguments, with these placeholders:
    ///
    /// - `{port}`: the port to listen on, at `{address}`.
    /// - `{address}`: 127.0.0.1, or ::1 with the transport tcp6. With a network, the address of the server's host.
    /// - `{socket}`: the path of the socket to listen on, with the transport unix.
    /// - `{request}` and `{response}`: the sizes in bytes.
    /// - `{cpus}`: the number of the server's CPUs.
    /// - `{folder}`: the absolute path of `workload.http.folder`.
    /// - `{dir}`: a private folder, which is removed after the trial.
    /// - `{config}`: the path of the configuration file.
    pub command: Vec<String>,
    /// A template of the server's configuration file, such as nginx.conf.in. It contains the same placeholders as `command`.
    /// muxbench writes the file without `.in` to `{dir}`. The path is relative to `directory`.
    pub config: Option<PathBuf>,
    /// The working directory; by default, that of muxbench. A program path such as `./server` is relative to it.
    pub directory: Option<PathBuf>,
    /// Environment variables. Their values can contain the same placeholders as `command`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The time limit until the server accepts its first connection.
    #[serde(default = "ten_seconds")]
    pub start_timeout: Time,
}

impl Exec {
    /// A command with the defaults of all other keys.
    pub fn of(command: Vec<String>) -> Self {
        Self { command, config: None, directory: None, environment: BTreeMap::new(), start_timeout: ten_seconds() }
    }

    /// Checks the command, the environment and the timeout. An error begins with the key, as `command: ...`.
    pub(super) fn check(&self, transport: Transport) -> Result<(), String> {
        let texts = || {
            let variables = self.environment.iter().map(|(name, value)| (format!("environment.{name}"), value));
            self.command.iter().map(|word| ("command".to_owned(), word)).chain(variables)
        };
        // Returns the key of the first text that has `part`.
        let with = |part: &str| texts().find(|(_, text)| text.contains(part)).map(|(key, _)| key);
        let has_argument = |parts: &[&str]| texts().skip(1).any(|(_, text)| parts.iter().any(|it| text.contains(it)));
        let unknown = texts().find_map(|(key, text)| Some((key, unknown_placeholder(text)?)));
        let place = transport.placeholder();
        let socket = Transport::Unix.placeholder();
        let bad_name = self.environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0']));
        if self.command.first().is_none_or(String::is_empty) {
            Err("command: missing program; write it like [\"python3\", \"server.py\", \"{port}\"]".into())
        } else if let Some((key, name)) = unknown {
            let known = PLACEHOLDERS.join("}, {");
            Err(format!("{key}: unknown placeholder `{{{name}}}`; known: {{{known}}}"))
        } else if self.config.is_some() && !has_argument(&["{config}", "{dir}"]) {
            Err("command: no argument contains `{config}`, the path of the configuration file; add it".into())
        } else if let (None, Some(key)) = (&self.config, with("{config}")) {
            Err(format!("{key}: `{{config}}` needs the key `config`, a template of the configuration file; add it"))
        } else if self.config.is_none() && !has_argument(&[place]) && self.command[0].contains(place) {
            Err(format!(
                "command: `{place}` is in the program's name; commands run without a shell, so write sh -c '...'"
            ))
        } else if self.config.is_none() && !has_argument(&[place]) {
            Err(format!("command: no argument contains `{place}`, the place to listen on; add it"))
        } else if let (true, Some(key)) = (transport != Transport::Unix, with(socket)) {
            Err(format!(
                "{key}: `{socket}` needs `transport = \"unix\"` in [workload]; add that, or use only `{{port}}`"
            ))
        } else if self.start_timeout.0 == 0 {
            Err("start-timeout: must be longer than 0, such as 10s".into())
        } else if let Some(name) = bad_name {
            Err(format!("environment.{name}: invalid name of a variable"))
        } else if let Some(key) = with("\0") {
            Err(format!("{key}: contains a zero byte; remove it"))
        } else {
            Ok(())
        }
    }
}

/// Returns the first unknown placeholder. Only braces around lower-case letters and `_` are a placeholder.
fn unknown_placeholder(text: &str) -> Option<&str> {
    let names = text.match_indices('{').filter_map(|(at, _)| Some(text[at + 1..].split_once('}')?.0));
    let mut names = names.filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    names.find(|name| !PLACEHOLDERS.contains(name))
}

fn ten_seconds() -> Time {
    Time(10_000_000_000)
}
