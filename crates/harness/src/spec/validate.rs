//! Rules that involve several keys of an experiment. The rules of a single load are a table in [`load::config::validate`].

use std::num::NonZeroU32;

use load::LoadConfig;
use load::config::Schedule;
use load::config::validate::broken;

use super::candidate::{self, Candidate};
use super::experiment::Experiment;
use super::server::Exec;
use super::target::Target;
use super::trace::Trace;
use super::transport::Transport;
use super::workload::{Kv, Service};

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
        let of_process = |load: LoadConfig| LoadConfig { rate_per_s: load.rate_per_s.map(|it| it / processes), ..load };
        match self.unread_loads()?.into_iter().find_map(|load| broken(&of_process(load))) {
            Some(rule) => Err(rule.to_string()),
            None => self.check_quick(),
        }
    }

    /// Checks that `[quick]` only leaves out servers, and that the experiment after its changes is valid.
    fn check_quick(&self) -> Result<(), String> {
        let Some(quick) = &self.quick else { return Ok(()) };
        let mut servers = quick.architectures.iter().flat_map(|servers| &servers.0);
        if let Some(other) = servers.find(|it| !self.architectures.0.contains(it)) {
            return Err(format!("quick.architectures: `{other}` is not in `architectures`; add it there"));
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
                let table = server.to_string().replacen(':', ".", 1);
                Err(format!(
                    "architectures: {server} is not defined; add a table [{table}] with its `{key}` to the file"
                ))
            }
            None => self.check_paths().and_then(|()| self.check_tls()),
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

    /// Rejects TLS that no server uses.
    fn check_tls(&self) -> Result<(), String> {
        let Some(tls) = &self.workload.tls else { return Ok(()) };
        if tls.insecure && tls.cacert.is_some() {
            let reason = "workload.tls.cacert: `insecure` (--insecure) accepts any certificate; remove one of the two";
            return Err(reason.to_owned());
        }
        let is_plain = |server: &Candidate| match server {
            Candidate::Target(name) => self.target[name].url.certified_name(true).is_none(),
            Candidate::Ours(_) | Candidate::Exec(_) => false,
        };
        if self.architectures.0.iter().all(is_plain) {
            let reason = "workload.tls: http:// is plain text; write https://, or remove the TLS settings (--tls, --cacert, \
                          --insecure, --full-handshakes)";
            return Err(reason.to_owned());
        }
        Ok(())
    }

    /// Rejects missing keys, and keys that the service, the schedule, the network or the servers cannot use.
    fn check_keys(&self) -> Result<(), String> {
        let (workload, service) = (&self.workload, self.workload.service);
        workload.trace.as_ref().map_or(Ok(()), Trace::check).map_err(|reason| format!("workload.trace.{reason}"))?;
        let (has_ports, has_connections) = (!workload.ports.0.is_empty(), !workload.connections.0.is_empty());
        let (is_udp, is_http, is_stream) =
            (service == Service::Udp, service == Service::Http, service == Service::Stream);
        let has_own_sizes = is_stream || service.has_records();
        let has_only_external = self.architectures.0.iter().all(|it| it.ours().is_none());
        if let Some((key, architecture)) = self.server.first_option().filter(|_| has_only_external) {
            return Err(format!(
                "server.{key}: external servers do not support it; remove it, or add an architecture such as {architecture}"
            ));
        }
        let (kv, default) = (workload.kv.as_ref().filter(|_| has_only_external), Kv::default());
        reject_if! {
            kv.is_some_and(|kv| kv.memory != default.memory) =>
                "workload.kv.memory: external servers do not support it; remove it, or add an architecture such as epoll";
            kv.is_some_and(|kv| kv.item_max != default.item_max) =>
                "workload.kv.item-max: external servers do not support it; remove it, or add an architecture such as epoll";
            self.placement.shared && (self.placement.server.is_some() || self.placement.client.is_some()) =>
                "placement.shared: the server or the client has CPUs of its own; remove those, or remove it";
            workload.schedule.0.len() > 1 && workload.is_closed() =>
                "workload.schedule: a closed loop has no rate, but open loops need one; write \"closed\" alone";
            workload.rate.is_none() && workload.profile.is_none() && workload.trace.is_none() && !workload.is_closed() =>
                "workload.rate: missing; add requests per second such as 2000, or choose the schedule \"closed\"";
            workload.rate.is_some() && workload.trace.is_some() =>
                "workload.rate: the trace has the times of the requests; remove it, or set `speed` of the trace";
            workload.trace.is_some() && !workload.is_closed() && workload.schedule.0 != [Schedule::SlotRandom] =>
                "workload.schedule: the trace has the times of the requests; remove it, or write slot-random, the default";
            self.phases.sessions.is_some() && (workload.profile.is_some() || workload.trace.is_some()) =>
                "phases.sessions: the window lasts as long as the rate profile or the trace; remove it";
            self.phases.sessions.is_some() && (workload.requests_per_connection.is_none() || workload.is_closed()) =>
                "phases.sessions: only an open loop with requests-per-connection has sessions; remove it";
            self.client.request_timeout.is_none() && self.client.retries.is_some() =>
                "client.retries: without a time limit of requests, none fails in time; add request-timeout, such as 1s";
            self.client.request_timeout.is_none() && self.client.retry_budget.is_some() =>
                "client.retry-budget: there are no retries to limit; remove it, or add request-timeout and retries";
            !is_udp && has_ports => "workload.ports: only the service `udp` has ports; remove it";
            is_udp && !has_ports => "workload.ports: missing; add the number of ports, such as 1000";
            is_udp && has_connections => "workload.connections: the service `udp` has `ports` instead; remove it";
            !is_udp && !has_connections => "workload.connections: missing; add their number, such as 400";
            is_udp && workload.transport != Transport::Tcp =>
                "workload.transport: the service `udp` supports only IPv4; remove it";
            self.network.is_some() && workload.transport == Transport::Unix =>
                "workload.transport: a Unix socket cannot connect two hosts; choose tcp or tcp6, or remove [network]";
            !is_stream && workload.stream.is_some() =>
                "workload.stream: only the service `stream` has bursts; remove it";
            has_own_sizes && workload.request.is_some() =>
                "workload.request: not used; set value-size of [workload.kv], or packet of [workload.stream]";
            has_own_sizes && workload.response.is_some() =>
                "workload.response: not used; set value-size of [workload.kv], or ack of [workload.stream]";
            is_http && workload.request.is_some() =>
                "workload.request: paths and headers determine the requests of `http`; remove it";
        }
        Ok(())
    }
}

fn uses(exec: &Exec, placeholder: &str) -> bool {
    exec.command.iter().chain(exec.environment.values()).any(|text| text.contains(placeholder))
}
