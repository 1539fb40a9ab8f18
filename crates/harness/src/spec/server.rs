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

/// How the servers are built, besides their architectures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Server {
    /// How connections are accepted; without it each model does as it always does: shared in pools, else single.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AcceptName>")]
    pub accept: Option<Accept>,
    /// CPUs of the accept thread, among the server's; without it, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_cpus: Option<Cpus>,
    /// CPUs of the network threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_cpus: Option<Cpus>,
    /// CPUs of the payload threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_cpus: Option<Cpus>,
    /// The most bytes that one read takes from a connection, 1B to 1MiB, before other connections have their turn; without it
    /// 64KiB. It is the same in every architecture of a trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_budget: Option<Budget>,
    /// Whether the kernel counts the servers' system calls too, of runtimes as well. That makes each call dearer, so that
    /// figures with it and without are not comparable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl Server {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// CPUs of each stage's threads.
    pub fn stage_cpus(&self) -> StageCpus {
        let listed = |cpus: &Option<Cpus>| cpus.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default();
        StageCpus {
            accept: listed(&self.accept_cpus),
            network: listed(&self.network_cpus),
            payload: listed(&self.payload_cpus),
        }
    }
}

/// Somebody else's server: a command. No shell is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exec {
    /// The program and its arguments. In each, `{port}`, `{request}` and `{response}` are replaced: the port of 127.0.0.1 (or,
    /// with the transport tcp6, ::1) to listen on, and the sizes in bytes; with the transport unix also `{socket}`, the path
    /// of the socket to listen on. `{address}` is where the port is of: 127.0.0.1, ::1, or with a network the server's host.
    pub command: Vec<String>,
    /// Where it is started; without it, where muxbench is. A program with a `/` in its name is looked for from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// What is put into its environment, with the same replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// It must accept a connection within this time.
    #[serde(default = "ten_seconds")]
    pub start_timeout: Time,
}

impl Exec {
    /// # Errors
    /// What is wrong in it, as `command: ...`.
    pub(super) fn check(&self, transport: Transport) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command: names no program; write it like [\"python3\", \"server.py\", \"{port}\"]".into());
        }
        let texts = || self.command.iter().chain(self.environment.values());
        for text in texts() {
            // What looks like a placeholder; braces around anything else are the text's own.
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
