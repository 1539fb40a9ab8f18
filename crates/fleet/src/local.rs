//! Clients that are processes of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use harness::clients::{Draft, Fleet, Gathered, WaitHook, draft_of_client};
use harness::record::LoadOrder;
use load::Event;
use load::config::LoadConfig;
use load::result::merge::Account;
use load::time::clock::monotonic_ns;
use netns::TestbedHost;
use process::child::{Child, Input, Process};

use super::assign_cpus;
use super::client::{
    ClientLink, ClientMessage, SINGLE, Timeouts, await_ready, await_report, ready_timeout, report_deadline,
};

/// The time from the `begin` message to the start, in nanoseconds: a constant part, and a part for each client.
const LEAD_NS: u64 = 5_000_000;
const LEAD_NS_PER_CLIENT: u64 = 2_000_000;

/// The time from an `end` message to the end of the window, in nanoseconds. A client looks for the message twice per second.
const END_LEAD_NS: u64 = 600_000_000;

/// Clients on this machine, which are started for each trial.
pub struct Local {
    program: PathBuf,
    /// The clients' hosts in a testbed; empty without a testbed.
    hosts: Vec<TestbedHost>,
    /// The clients of each contestant of the heat.
    contestants: Vec<Vec<LocalClient>>,
    deadline: Instant,
    /// Ends the windows of all clients if set, unless several contestants share them: see `load::Listener::ends_at_ns`.
    pub ends_window: Arc<AtomicBool>,
}

struct LocalClient {
    child: Child<Event>,
    config: LoadConfig,
    samples: Option<Draft>,
}

impl Local {
    /// Clients that are processes of `program`, the muxbench binary.
    pub fn new(program: PathBuf) -> Self {
        let deadline = Instant::now();
        Self { program, hosts: Vec::new(), contestants: Vec::new(), deadline, ends_window: Arc::default() }
    }
}

pub(super) fn command(program: &Path, samples: &Path) -> Command {
    let mut command = Command::new(program);
    // A word that begins with a hyphen would be a flag.
    let is_like_flag = samples.as_os_str().as_encoded_bytes().starts_with(b"-");
    let samples = if is_like_flag { &Path::new(".").join(samples) } else { samples };
    command.args(["load", "--control", "--samples"]).arg(samples);
    command
}

impl Fleet for Local {
    fn set_client_hosts(&mut self, hosts: &[TestbedHost]) -> anyhow::Result<()> {
        self.hosts = hosts.to_vec();
        Ok(())
    }

    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        let mut clients = Vec::new();
        let parts = order.config.parts();
        let count = parts.len();
        let sources = match self.hosts.as_slice() {
            // Choose sources for all clients together. If each client chose alone, all would begin with the first address.
            [] if count > 1 => load::io::source_ports::sources(&order.config).map_err(anyhow::Error::msg)?,
            // In a testbed, the order's sources belong to the first client host. Without a testbed, a single client chooses.
            _ => order.config.sources.clone(),
        };
        for (number, config) in parts.into_iter().enumerate() {
            let host = self.hosts.get(number % self.hosts.len().max(1));
            let sources = host.map_or_else(|| sources.clone(), |host| host.sources(&sources));
            let (name, path, config) = if count == 1 {
                (SINGLE.to_owned(), draft.to_owned(), config)
            } else {
                let config = config.with(|it| it.sources = sources);
                let config = assign_cpus(config, &order.config.client.cpus, number, count);
                (format!("client {} of {count}", number + 1), draft_of_client(draft, number), config)
            };
            let is_quiet = !self.contestants.is_empty();
            let order = LoadOrder { is_quiet, ..LoadOrder::new(config.clone(), order.trial.clone()) };
            let mut command = command(&self.program, &path);
            if let Some(host) = host {
                host.enter(&mut command);
            }
            // A single client writes to `draft` itself, which must remain.
            let samples = Some(Draft { path, is_kept: count == 1 });
            clients.push(LocalClient { child: Child::start(name, command, &order)?, config, samples });
        }
        self.contestants.push(clients);
        Ok(())
    }

    fn await_ready(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<()> {
        for client in self.contestants.last_mut().into_iter().flatten() {
            await_ready(&mut client.child, ready_timeout(&client.config, Timeouts::DEFAULT.client), hook)?;
        }
        Ok(())
    }

    fn begin(&mut self, _: &mut WaitHook<'_>) -> anyhow::Result<u64> {
        let count: usize = self.contestants.iter().map(Vec::len).sum();
        let start_ns = monotonic_ns() + LEAD_NS + LEAD_NS_PER_CLIENT * count as u64;
        for client in self.contestants.iter_mut().flatten() {
            client.child.send(&format!("begin {start_ns}"))?;
        }
        let configs = self.contestants.iter().flatten().map(|client| &client.config);
        self.deadline = report_deadline(configs, Timeouts::DEFAULT.client);
        Ok(start_ns)
    }

    fn gather(&mut self, contestant: usize, hook: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>> {
        let mut gathered = Vec::new();
        let mut ends_early = (self.contestants.len() == 1).then(|| self.ends_window.clone());
        let inputs: Vec<Input> = self.contestants[contestant].iter().map(|client| client.child.input.clone()).collect();
        for client in &mut self.contestants[contestant] {
            let mut hook = |event: Option<&Event>| {
                if ends_early.take_if(|it| it.load(Relaxed)).is_some() {
                    let end = format!("end {}", monotonic_ns() + END_LEAD_NS);
                    // A client that has ended is noticed when its report is missing.
                    inputs.iter().for_each(|input| drop(input.send(&end)));
                }
                hook(event)
            };
            let report = await_report(&mut client.child, self.deadline, &mut hook)?;
            let samples = client.samples.take().expect("a report is gathered once");
            let (config, unnamed) = (client.config.clone(), String::new());
            let account = Account { config, machine: unnamed.clone(), place: unnamed, report, cpus_used: None };
            gathered.push(Gathered { account, samples });
        }
        Ok(gathered)
    }

    fn dismiss(&mut self) {
        // End the clients that have reported. `clear` drops all clients, which kills the remaining ones.
        for client in self.contestants.iter_mut().flatten().filter(|client| client.samples.is_none()) {
            client.child.end();
        }
        self.contestants.clear();
    }
}

impl ClientLink for Child<Event> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>> {
        Ok(self.next_event(deadline)?.map(ClientMessage::Event))
    }

    fn give_up(&mut self) -> String {
        self.kill();
        self.exit_report()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failing_client_of_several_is_named_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("client");
        // The program fails as the second of three clients and as a single client.
        let script = r#"#!/bin/sh
            read order
            case "$order" in
                *'"part":{"number":0,'* | *'"part":{"number":2,'*) echo '{"event":"ready"}'; read begin ;;
                *) echo '{"event":"failed","reason":"out of luck"}' ;;
            esac"#;
        crate::tests::write_program(&program, script);
        let experiment = harness::spec::presets::find("smoke").unwrap().experiment();
        let trial = harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap().trials.remove(0);
        let mut hook = |_: Option<&Event>| Ok(Instant::now() + Duration::from_secs(1));
        for (processes, expected) in [(3, "client 2 of 3: out of luck"), (1, "out of luck")] {
            let mut fleet = Local::new(program.clone());
            let order = LoadOrder::new(trial.load().with(|it| it.client.processes = processes), trial.clone());
            fleet.broadcast(&order, &folder.path().join("draft")).unwrap();
            assert_eq!(fleet.await_ready(&mut hook).unwrap_err().to_string(), expected);
        }
    }
}
