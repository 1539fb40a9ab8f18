//! Rules that involve several keys of an experiment.

use std::num::NonZeroU32;

use load::config::{Pacing, Roles, Timestamps};

use super::candidate::{self, Candidate};
use super::experiment::Experiment;
use super::server::Exec;
use super::transport::Transport;
use super::units::Size;
use super::workload::{Service, is_all, is_none, is_nothing, is_uniform};

/// A key, whether the user set it, and why it must not be set.
type Conflict<'a> = (&'a str, bool, &'a str);

/// Fails with the first key that conflicts.
fn reject(conflicts: &[Conflict<'_>]) -> Result<(), String> {
    match conflicts.iter().find(|(_, is_set, _)| *is_set) {
        Some((key, _, why)) => Err(format!("{key}: {why}")),
        None => Ok(()),
    }
}

impl Experiment {
    /// Checks the rules that involve several keys.
    ///
    /// # Errors
    /// Names the key, its value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || !self.name.chars().all(good) || self.name.starts_with('.') {
            return Err(format!("name: `{}` cannot name a folder; use letters, digits and `-`", self.name));
        }
        if self.phases.measure.0 == 0 {
            return Err("phases.measure: 0 measures nothing; write a time above 0, like 10s".into());
        }
        for (name, exec) in &self.exec {
            candidate::check_name(name).map_err(|why| format!("exec.{name}.command: {why}"))?;
            exec.check(self.workload.transport).map_err(|why| format!("exec.{name}.{why}"))?;
            if !self.architectures.0.contains(&Candidate::Exec(name.clone())) {
                return Err(format!(
                    "exec.{name}.command: nobody runs it; add exec:{name} to `architectures`, or remove it"
                ));
            }
        }
        for contender in &self.architectures.0 {
            if let Candidate::Exec(name) = contender
                && !self.exec.contains_key(name)
            {
                return Err(format!(
                    "architectures: {contender} is not defined; add a table [exec.{name}] with its `command` to the file"
                ));
            }
        }
        if self.server.read_budget.is_some() && !self.architectures.0.iter().any(|it| it.ours().is_some()) {
            return Err(
                "server.read-budget: external servers do not know it; remove it, or add an architecture, like epoll"
                    .into(),
            );
        }
        let clients = self.client.clients.unwrap_or(NonZeroU32::MIN);
        let processes = self.processes();
        let what = if self.workload.service == Service::Udp { "ports" } else { "connections" };
        if let Some(few) = self.workload.targets().iter().find(|targets| **targets < clients) {
            return Err(format!("client.clients: {clients} clients cannot share {few} {what}; lower the clients"));
        }
        // Each process gets the same number of connections or ports, or one less.
        let is_few = |targets: &&NonZeroU32| targets.get() / processes < clients.get();
        if let Some(few) = self.workload.targets().iter().find(is_few) {
            return Err(format!(
                "client.processes: {processes} processes of {clients} clients each cannot share {few} {what}; lower the \
                 processes"
            ));
        }
        if processes > NonZeroU32::MIN && !is_uniform(&self.workload.popularity) {
            return Err(
                "client.processes: several processes each have a most popular connection of their own; remove it, \
                        or workload.popularity"
                    .into(),
            );
        }
        self.check_schedule()?;
        self.check_churn()?;
        self.check_network()?;
        self.check_service()
    }

    /// Rejects keys that make no sense between hosts.
    fn check_network(&self) -> Result<(), String> {
        let Some(network) = &self.network else { return Ok(()) };
        if self.workload.transport == Transport::Unix {
            return Err(
                "workload.transport: a Unix socket joins processes of one host; take tcp or tcp6, or leave the \
                        network out"
                    .into(),
            );
        }
        network.check().map_err(|why| format!("network.{why}"))
    }

    /// Rejects keys that only the other kind of loop supports: open or closed.
    fn check_schedule(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if workload.schedule.0.len() > 1 && workload.is_closed() {
            return Err("workload.schedule: a closed loop has no rate, and others have; write \"closed\" alone".into());
        }
        if !workload.is_closed() {
            if workload.rate.is_none() {
                return Err(
                    "workload.rate: missing; write requests a second, like 2000, or take the schedule \"closed\""
                        .into(),
                );
            }
            if !workload.think.0.is_none() {
                return Err(
                    "workload.think: only a closed loop thinks; remove it, or take the schedule \"closed\"".into()
                );
            }
            return Ok(());
        }
        if workload.rate.is_some() {
            return Err(
                "workload.rate: a closed loop has none, its rate is the result; remove it, or take another schedule"
                    .into(),
            );
        }
        reject(&[
            (
                "workload.active",
                !is_all(&workload.active),
                "every connection sends in a closed loop; remove it, or see idle",
            ),
            (
                "workload.popularity",
                !is_uniform(&workload.popularity),
                "every connection sends in a closed loop; remove it",
            ),
            (
                "client.pacing",
                client.pacing != Pacing::Auto,
                "a closed loop waits for responses, not for times; remove it",
            ),
            ("client.roles", client.roles != Roles::Auto, "each client of a closed loop is one loop; remove it"),
            (
                "client.timestamps",
                client.timestamps != Timestamps::Client,
                "a closed loop has only the client's; remove it",
            ),
        ])
    }

    /// Rejects keys that make no sense with short-lived connections.
    fn check_churn(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if workload.requests_per_connection.is_none() {
            return Ok(());
        }
        reject(&[
            ("workload.active", !is_all(&workload.active), "connections that come and go all send; remove it"),
            (
                "workload.popularity",
                !is_uniform(&workload.popularity),
                "connections that come and go all send; remove it",
            ),
            (
                "client.roles",
                client.roles == Roles::TwoThreads,
                "a client whose connections come and go is one loop; remove it",
            ),
            (
                "client.timestamps",
                client.timestamps != Timestamps::Client,
                "the kernel's are of connections that stay; remove it, or workload.requests-per-connection",
            ),
        ])
    }

    /// Checks the keys that each service requires or rejects.
    fn check_service(&self) -> Result<(), String> {
        let workload = &self.workload;
        let sizes = [("workload.request", &workload.request), ("workload.response", &workload.response)];
        for (table, is_there, service) in [
            ("kv", workload.kv.is_some(), Service::Kv),
            ("http", workload.http.is_some(), Service::Http),
            ("stream", workload.stream.is_some(), Service::Stream),
        ] {
            if is_there && workload.service != service {
                return Err(format!(
                    "workload.{table}: the service is another; remove the table, or take the service \"{table}\""
                ));
            }
        }
        if workload.service != Service::Udp && !is_nothing(&workload.ports) {
            return Err("workload.ports: only udp has ports; remove it, or take the service \"udp\"".into());
        }
        if workload.service != Service::Udp && is_nothing(&workload.connections) {
            return Err("workload.connections: missing; write how many, like 400".into());
        }
        match workload.service {
            Service::Fixed | Service::Udp => {
                if workload.service == Service::Udp {
                    self.check_udp()?;
                }
                if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_none()) {
                    return Err(format!("{key}: missing; write a size, like \"128B\""));
                }
            }
            Service::Kv => {
                if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_some()) {
                    return Err(format!(
                        "{key}: kv's sizes are those of its records, workload.kv.value-size; remove it"
                    ));
                }
                self.kv().check().map_err(|why| format!("workload.kv.{why}"))?;
            }
            Service::Http => {
                if workload.request.is_some() {
                    return Err(
                        "workload.request: a request of http is what its path and headers make; remove it".into()
                    );
                }
                self.http().traffic(workload.response, true).map_err(|why| format!("workload.http.{why}"))?;
            }
            Service::Stream => {}
        }
        if workload.service == Service::Stream {
            self.check_stream(&sizes)?;
        }
        let needs_sizes = |exec: &Exec| {
            let texts = exec.command.iter().chain(exec.environment.values());
            texts.into_iter().any(|text| text.contains("{request}") || text.contains("{response}"))
        };
        let has_sizes = workload.service == Service::Fixed;
        if let Some((name, _)) = self.exec.iter().find(|(_, exec)| !has_sizes && needs_sizes(exec)) {
            let service = self.service_name();
            return Err(format!(
                "exec.{name}.command: {service} has no sizes for {{request}} and {{response}}; remove them"
            ));
        }
        Ok(())
    }

    fn service_name(&self) -> &'static str {
        match self.workload.service {
            Service::Fixed => "fixed",
            Service::Kv => "kv",
            Service::Http => "http",
            Service::Udp => "udp",
            Service::Stream => "stream",
        }
    }

    /// Checks the keys that streams require or reject.
    fn check_stream(&self, sizes: &[(&str, &Option<Size>)]) -> Result<(), String> {
        let workload = &self.workload;
        if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_some()) {
            return Err(format!("{key}: stream's sizes are workload.stream.packet, packets and ack; remove it"));
        }
        if let Some(name) = self.exec.keys().next() {
            return Err(format!("exec.{name}.command: a command knows nothing of bursts; remove it, or take fixed"));
        }
        reject(&[
            ("workload.schedule", !workload.is_closed(), "a burst follows the one before; write schedule = \"closed\""),
            ("workload.think", !workload.think.0.is_none(), "streams do not pause; remove it"),
            ("workload.requests-per-connection", workload.requests_per_connection.is_some(), "streams stay; remove it"),
            (
                "phases.cool-down",
                self.phases.cool_down.0 == 0,
                "streams are ended in it, and counted; write a time like 5s",
            ),
        ])
    }

    /// Checks the keys that datagrams require or reject.
    fn check_udp(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if is_nothing(&workload.ports) {
            return Err("workload.ports: missing; write how many the server listens on, like [10, 1000]".into());
        }
        if let Some(name) = self.exec.keys().next() {
            return Err(format!("exec.{name}.command: a command cannot be told of many ports; remove it, or udp"));
        }
        reject(&[
            ("workload.connections", !is_nothing(&workload.connections), "udp has none; write ports in its place"),
            (
                "workload.idle",
                !is_none(&workload.idle),
                "udp has no connections; see active, the share of the ports in use",
            ),
            (
                "workload.requests-per-connection",
                workload.requests_per_connection.is_some(),
                "udp has no connections; remove it",
            ),
            ("workload.transport", workload.transport != Transport::Tcp, "udp goes over IPv4 alone so far; remove it"),
            (
                "workload.schedule",
                workload.is_closed(),
                "a datagram that is lost would end a closed loop; \
              take another",
            ),
            ("client.roles", client.roles == Roles::TwoThreads, "each client of udp is one loop; remove it"),
            ("client.timestamps", client.timestamps != Timestamps::Client, "udp has only the client's; remove it"),
        ])?;
        for (key, size) in [("workload.request", workload.request), ("workload.response", workload.response)] {
            if let Some(size) = size.filter(|size| !wire::udp::is_size(size.0)) {
                let most = wire::udp::DATAGRAM_BYTES_MAX;
                return Err(format!("{key}: a datagram has from 8 to {most} bytes, not {size}; choose another size"));
            }
        }
        Ok(())
    }
}
