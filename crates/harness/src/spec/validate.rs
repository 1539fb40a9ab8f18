//! Rules that involve several keys of an experiment. The rules of a single load are a table in [`load::config::validate`].

use std::num::NonZeroU32;

use load::LoadConfig;
use load::config::validate::broken;

use super::candidate::{self, Candidate};
use super::experiment::Experiment;
use super::server::Exec;
use super::target::Target;
use super::trace::Trace;
use super::transport::Transport;
use super::workload::Service;

/// Fails with the reason of the first condition that holds.
macro_rules! reject_if {
    ($($condition:expr => $reason:literal;)+) => {
        $(if $condition {
            return Err($reason.to_owned());
        })+
    };
}

/// The highest number of repeats. A plan lists all trials, so more would take minutes to plan.
const REPEATS_MAX: u32 = 10_000;

impl Experiment {
    /// Checks the rules that involve several keys. An error begins with the key, as `workload.rate: ...`.
    pub fn check(&self) -> Result<(), String> {
        if !candidate::is_word(&self.name) || self.name.starts_with('.') {
            return Err(format!("name: `{}` cannot name a folder; use letters, digits and `-`", self.name));
        }
        if self.slice.is_some_and(|slice| slice.0 < 1_000_000) {
            return Err("slice: must be at least 1ms, several times the service time".to_owned());
        }
        if self.repeats.get() > REPEATS_MAX {
            return Err(format!("repeats: {} exceeds the limit of {REPEATS_MAX}; lower it", self.repeats));
        }
        if self.architectures.0.is_empty() {
            let reason = "architectures: missing; name servers such as \"epoll\" (--arch, --target), or add a table \
                          [target.NAME]";
            return Err(reason.to_owned());
        }
        self.check_servers()?;
        self.check_keys()?;
        let clients = self.client.clients.unwrap_or(NonZeroU32::MIN);
        let all_clients = self.processes().saturating_mul(clients);
        if let Some(few) = self.workload.targets().iter().find(|targets| **targets < all_clients) {
            let key = match self.client.processes {
                _ if *few < clients => "client.clients",
                None if self.network.is_some() => "network.clients",
                _ => "client.processes",
            };
            let targets = if self.workload.service == Service::Udp { "ports" } else { "connections" };
            return Err(format!("{key}: cannot divide {few} {targets} among {all_clients} clients; lower it"));
        }
        self.network
            .as_ref()
            .map_or(Ok(()), |network| network.check().map_err(|reason| format!("network.{reason}")))?;
        // Check the rate of one process, because each process numbers its own requests.
        let processes = f64::from(self.processes().get());
        let of_process = |load: LoadConfig| {
            let rate_per_s = load.rate_per_s().map(|rate_per_s| rate_per_s / processes);
            load.with(|it| it.set_rate(rate_per_s))
        };
        match self.unread_loads()?.into_iter().find_map(|load| broken(&of_process(load))) {
            Some(rule) => Err(rule.to_string()),
            None => self.check_quick(),
        }
    }

    /// Checks that the experiment after the changes of `[quick]` is valid.
    fn check_quick(&self) -> Result<(), String> {
        if self.quick.is_none() {
            return Ok(());
        }
        self.clone().quick().check().map_err(|reason| format!("quick: after its changes, {reason}"))
    }

    /// Checks that the external servers and the targets are defined, used, and suitable for the workload.
    fn check_servers(&self) -> Result<(), String> {
        let service = self.workload.service;
        let is_used = |server: &Candidate| self.architectures.0.contains(server);
        for (name, exec) in &self.exec {
            let error = |reason: &str| Err(format!("exec.{name}.command: {reason}"));
            candidate::check_name(name).or_else(|reason| error(&reason))?;
            exec.check(self.workload.transport).map_err(|reason| format!("exec.{name}.{reason}"))?;
            if !is_used(&Candidate::Exec(name.clone())) {
                return error(&format!("not used; add exec:{name} to `architectures`, or remove the table"));
            }
            if service == Service::Udp {
                return error("external servers serve no datagrams; choose another service than `udp`");
            }
            if uses(exec, "{folder}") && self.workload.http.as_ref().is_none_or(|http| http.folder.is_none()) {
                return error("`{folder}` needs `folder` in [workload.http] (--folder); add it");
            }
            if service != Service::Fixed && (uses(exec, "{request}") || uses(exec, "{response}")) {
                return error("only the service `fixed` has sizes for {request} and {response}; remove them");
            }
        }
        for (name, target) in &self.target {
            let error = |reason: &str| Err(format!("target.{name}.{reason}"));
            candidate::check_name(name).or_else(|reason| error(&format!("url: {reason}")))?;
            if !is_used(&Candidate::Target(name.clone())) {
                return error(&format!("url: not used; add target:{name} to `architectures`, or remove the table"));
            }
            if self.network.is_some() {
                return error(
                    "url: a lab cannot contain a server that already runs; remove [network] (--network), or let muxbench start \
                     the server (--exec)",
                );
            }
            let checked = target.check(service, self.workload.transport, &self.workload.ports.0);
            checked.or_else(|reason| error(&reason))?;
        }
        let key = |it: &Candidate| match it {
            Candidate::Exec(name) if !self.exec.contains_key(name) => Some("command"),
            Candidate::Target(name) if !self.target.contains_key(name) => Some("url"),
            _ => None,
        };
        match self.architectures.0.iter().find_map(|server| Some((server, key(server)?))) {
            Some((server, key)) => {
                let server = server.to_string();
                let (kind, name) = server.split_once(':').unwrap_or_default();
                Err(format!(
                    "architectures: {server} is not defined; add a table [{kind}.{name}] with its `{key}` to the file \
                     (--{kind} {name}={})",
                    key.to_uppercase()
                ))
            }
            None => self.check_paths(),
        }
    }

    /// Checks that all servers of `http` get the same requests, unless all are targets.
    fn check_paths(&self) -> Result<(), String> {
        let own = self.target.iter().find(|(_, target)| target.url.path().is_some_and(|path| path != "/"));
        if let (true, Some((name, Target { url, .. }))) = (self.has_requests(), own) {
            return Err(format!(
                "target.{name}.url: `{url}` has a path, but workload.http (--path, --requests-file) has those of all servers; \
                 omit one of the two"
            ));
        }
        match self.target_paths() {
            Some(paths) if paths.len() > 1 && self.architectures.0.len() > self.target.len() => Err(format!(
                "workload.http.paths: the targets have different paths ({}), so those of the other servers are unknown; set the paths \
                 of all servers (--path)",
                paths.join(", ")
            )),
            _ => Ok(()),
        }
    }

    /// Rejects keys that contradict each other. Keys without effect are no errors: [`Experiment::unused`] lists them.
    fn check_keys(&self) -> Result<(), String> {
        let workload = &self.workload;
        workload.trace.as_ref().map_or(Ok(()), Trace::check).map_err(|reason| format!("workload.trace.{reason}"))?;
        reject_if! {
            self.placement.shared && (self.placement.server.is_some() || self.placement.client.is_some()) =>
                "placement.shared: the server or the client has CPUs of its own; remove those, or remove it";
            workload.schedule.0.len() > 1 && workload.is_closed() =>
                "workload.schedule: a closed loop has no rate, but open loops need one; write \"closed\" alone";
            workload.service == Service::Udp && workload.transport != Transport::Tcp =>
                "workload.transport: the service `udp` supports only IPv4; remove it";
            self.network.is_some() && workload.transport == Transport::Unix =>
                "workload.transport: a Unix socket cannot connect two hosts; choose tcp or tcp6, or remove [network]";
        }
        Ok(())
    }
}

fn uses(exec: &Exec, placeholder: &str) -> bool {
    exec.command.iter().chain(exec.environment.values()).any(|text| text.contains(placeholder))
}
