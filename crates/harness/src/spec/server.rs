//! `[server]` and `[exec.NAME]`: the servers of an experiment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::external::config::PLACEHOLDERS;
use server::{Accept, StageCpus};

use super::schema::AcceptName;
use super::transport::Transport;
use super::units::{Budget, Cpus, Time};

/// The options of the servers besides their architectures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Server {
    /// The way in which connections are accepted. By default, thread pools use shared and all other models use single.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AcceptName>")]
    pub accept: Option<Accept>,
    /// The CPUs of the accept thread, a subset of the server's. By default, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_cpus: Option<Cpus>,
    /// The CPUs of the network threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_cpus: Option<Cpus>,
    /// The CPUs of the payload threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_cpus: Option<Cpus>,
    /// The maximum bytes of one read from a connection, 1B to 1MiB, before other connections get their turn. By default
    /// 64KiB. All architectures of a trial use the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_budget: Option<Budget>,
    /// Whether the kernel counts the system calls of all servers, including the runtimes. Counting makes each call more
    /// expensive. Do not compare figures with and without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl Server {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
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
    /// The program and its arguments. Each placeholder is replaced:
    ///
    /// - `{port}`: the port to listen on, at `{address}`.
    /// - `{address}`: 127.0.0.1, or ::1 with the transport tcp6. With a network, the address of the server's host.
    /// - `{socket}`: the path of the socket to listen on, with the transport unix.
    /// - `{request}` and `{response}`: the sizes in bytes.
    pub command: Vec<String>,
    /// The working directory; by default, that of muxbench. A program path with a `/` is relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Environment variables. Their values can contain the same placeholders as `command`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The time limit until the server accepts its first connection.
    #[serde(default = "ten_seconds")]
    pub start_timeout: Time,
}

impl Exec {
    /// Checks the command, the environment and the timeout.
    ///
    /// # Errors
    /// Names the first wrong key, as `command: ...`.
    pub(super) fn check(&self, transport: Transport) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command: names no program; write it like [\"python3\", \"server.py\", \"{port}\"]".into());
        }
        let texts = || self.command.iter().chain(self.environment.values());
        for text in texts() {
            // Only braces around lower-case letters and `_` are a placeholder.
            for (at, _) in text.match_indices('{') {
                let Some((name, _)) = text[at + 1..].split_once('}') else { continue };
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                if is_name && !PLACEHOLDERS.contains(&name) {
                    let known = PLACEHOLDERS.join("}, {");
                    return Err(format!("command: unknown placeholder `{{{name}}}`; there are {{{known}}}"));
                }
            }
        }
        let place = transport.placeholder();
        if !texts().skip(1).any(|text| text.contains(place)) {
            return Err(format!(
                "command: no argument has `{place}` in it, which is where the server must listen; add it"
            ));
        }
        if transport != Transport::Unix && texts().any(|text| text.contains(Transport::Unix.placeholder())) {
            return Err(
                "command: `{socket}` has a path only with `transport = \"unix\"` in [workload]; add that, or use \
                        `{port}` alone"
                    .into(),
            );
        }
        if self.start_timeout.0 == 0 {
            return Err("start-timeout: 0 lets no server start; write a time above 0, like 10s".into());
        }
        if let Some(name) = self.environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(format!("environment.{name}: that cannot name a variable"));
        }
        if texts().any(|text| text.contains('\0')) {
            return Err("command: a program can be given no text with a zero byte in it".into());
        }
        Ok(())
    }
}

fn ten_seconds() -> Time {
    Time(10_000_000_000)
}
