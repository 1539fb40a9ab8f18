//! A lab: made, measured, and gone when it is dropped, or when we die.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::LoadConfig;
use rustix::process::{Pid, Signal};

use super::addresses;
use super::conditions::{self, Found, relay_cpus};
use super::host::{TestbedHost, settings};
use super::interface::{self, DEVICE, InterfaceCounters};
use super::namespace::{Namespace, Tool};
use super::probe;
use super::relay::{Conditions, RelayConfig, RelayEvent};
use crate::model::network::{Applied, Links, Means, Measured, NetworkReport, RelayCounts};
use crate::process::child::{Child, Process};
use crate::process::stop::Stop;
use crate::spec::network::Network;

/// What the relay may take to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What runs on its hosts at the end may take so long to be gone...
const END_MAX: Duration = Duration::from_secs(5);
/// ...and is looked for so often.
const LOOK: Duration = Duration::from_millis(2);
/// A server's host and clients', linked as a [`Network`] has it.
pub struct Testbed {
    network: Network,
    applied: Applied,
    setup_ns: u64,
    server: TestbedHost,
    clients: Vec<TestbedHost>,
    /// Where the bridge is.
    _switch: Option<Namespace>,
    relay: Option<Child<RelayEvent>>,
    /// Packets that had no room in front of the relay, when it was last asked.
    overflowed: u64,
    /// How often it was measured.
    turn: usize,
}

impl Testbed {
    /// Makes one. `program` is muxbench itself, of which the relay is started if there must be one; it is kept from the CPUs
    /// of the server, and of the client where there are others. What is random comes from `seed`.
    ///
    /// # Errors
    /// When it cannot be had here: cause and remedy.
    pub fn start(
        network: &Network,
        program: &Path,
        (server, client): (&[usize], &[usize]),
        seed: u64,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let applied = conditions::choose(network, &Found::here()).map_err(|reasons| anyhow!(reasons.join("; ")))?;
        let settings = settings();
        let hosts = (0..=network.clients.get()).map(|number| TestbedHost::new(number, &settings));
        let hosts: Vec<TestbedHost> = hosts.collect::<anyhow::Result<_>>()?;
        let (switch, relay) = match applied.links {
            Links::Veth => (Some(bridge(&hosts)?), None),
            Links::Tun => {
                let order = order(network, &applied, &hosts, relay_cpus(server, client), seed);
                (None, Some(start_relay(program, &order, stop)?))
            }
        };
        for host in &hosts {
            stop.check()?;
            let set_up = || -> anyhow::Result<()> {
                host.namespace.tell(Tool::Ip, &interface::commands(host.number, network, &applied))?;
                host.namespace.tell(Tool::Tc, &conditions::tc(&applied, network, DEVICE))?;
                host.namespace.tell(Tool::Nft, &conditions::nft(&applied, network, DEVICE))
            };
            set_up().with_context(|| format!("host {} of the lab", host.number))?;
        }
        let mut hosts = hosts.into_iter();
        let server = hosts.next().context("there is a server's host")?;
        Ok(Self {
            network: network.clone(),
            applied,
            setup_ns: started.elapsed().as_nanos() as u64,
            server,
            clients: hosts.collect(),
            _switch: switch,
            relay,
            overflowed: 0,
            turn: 0,
        })
    }

    /// The server's host.
    pub fn server(&self) -> &TestbedHost {
        &self.server
    }

    /// The clients' hosts, at least one.
    pub fn clients(&self) -> &[TestbedHost] {
        &self.clients
    }

    /// The network that it was made for.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How it is made.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Where `config`'s connections come from, of the first client's host; nothing if the kernel may choose.
    ///
    /// # Errors
    /// When even all its addresses have too few ports.
    pub fn sources(&self, config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
        load::ports::sources_in(config, |ports| addresses::sources(config, ports))
    }

    /// Paths of its hosts' namespaces, the server's first, by which others can enter them while we live.
    pub fn paths(&self) -> Vec<String> {
        std::iter::once(&self.server).chain(&self.clients).map(|host| host.namespace.path()).collect()
    }

    /// How long it took to come up.
    pub fn setup(&self) -> Duration {
        Duration::from_nanos(self.setup_ns)
    }

    /// Ends whatever still runs on its hosts, and what that starts meanwhile.
    pub fn end_processes(&self) {
        let hosts = std::iter::once(&self.server).chain(&self.clients);
        let hosts: Vec<u64> = hosts.filter_map(|host| host.namespace.number().ok()).collect();
        let deadline = Instant::now() + END_MAX;
        loop {
            let left = processes_on(&hosts);
            for pid in &left {
                // One that has ended meanwhile is what was wanted.
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// What it does, measured now; takes about a second.
    ///
    /// # Errors
    /// When nothing, or hardly anything, arrives, or `stop` is set.
    pub fn measure(&mut self, stop: &Stop) -> anyhow::Result<NetworkReport> {
        let line = probe::Line { network: &self.network, link_bytes: conditions::link_bytes(&self.applied), stop };
        let measured: Measured = probe::measure(&line, &self.server, &self.clients, self.turn)?;
        self.turn += 1;
        // What it did for the probes is not the trial's.
        self.relay_counts()?;
        Ok(NetworkReport { applied: self.applied, setup_ns: self.setup_ns, measured, relay: None })
    }

    /// What the relay did since it was last asked; `None` where there is none.
    ///
    /// # Errors
    /// When it has ended.
    pub fn relay_counts(&mut self) -> anyhow::Result<Option<RelayCounts>> {
        let Some(relay) = &mut self.relay else { return Ok(None) };
        relay.send("account")?;
        match relay.next_event(Instant::now() + PATIENCE)? {
            Some(RelayEvent::Account { mut account }) => {
                let overflowed = self.overflowed()?;
                account.dropped += overflowed.saturating_sub(std::mem::replace(&mut self.overflowed, overflowed));
                Ok(Some(account))
            }
            Some(RelayEvent::Failed { reason }) => bail!("the relay: {reason}"),
            _ => bail!("the relay does not answer"),
        }
    }

    /// Packets of all hosts that their devices dropped since there is a lab: the relay did not take them in time.
    fn overflowed(&self) -> anyhow::Result<u64> {
        let hosts = std::iter::once(&self.server).chain(&self.clients);
        let dropped = hosts.map(|host| Ok(InterfaceCounters::read(&host.namespace)?.sent_dropped));
        dropped.collect::<std::io::Result<Vec<u64>>>().map(|each| each.iter().sum()).context("the lab's hosts")
    }
}

/// Processes in these network namespaces; one that has ended is in none.
fn processes_on(hosts: &[u64]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_there =
        |path: &Path| std::fs::metadata(path.join("ns/net")).is_ok_and(|namespace| hosts.contains(&namespace.ino()));
    let processes = entries.filter(|entry| is_there(&entry.path()));
    processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// A bridge in a place of its own, and from each host a pair of veth devices to it.
fn bridge(hosts: &[TestbedHost]) -> anyhow::Result<Namespace> {
    let switch = Namespace::new().context("the kernel allows no hosts of their own; run as root")?;
    let mut lines = "link set lo up\nlink add name br0 type bridge forward_delay 0 mcast_snooping 0\n".to_owned();
    for TestbedHost { number, namespace } in hosts {
        let place = namespace.path();
        lines += &format!("link add name h{number} type veth peer name {DEVICE} netns {place}\n");
        lines += &format!("link set dev h{number} master br0 up\n");
    }
    switch.tell(Tool::Ip, &(lines + "link set dev br0 up\n")).context("the lab's bridge")?;
    Ok(switch)
}

/// What the relay is told.
fn order(network: &Network, applied: &Applied, hosts: &[TestbedHost], cpus: Vec<usize>, seed: u64) -> RelayConfig {
    let is_its = |means: Option<Means>| means == Some(Means::Tun);
    RelayConfig {
        hosts: hosts.iter().map(|host| host.namespace.path()).collect(),
        device: DEVICE.to_owned(),
        conditions: Conditions {
            delay_ns: if is_its(applied.delay) { network.delay.0 } else { 0 },
            jitter_ns: if is_its(applied.delay) { network.jitter.0 } else { 0 },
            loss: network.loss.filter(|_| is_its(applied.loss)).map_or(0.0, |loss| loss.0),
            seed,
        },
        cpus,
    }
}

/// Starts the process that takes packets from host to host.
fn start_relay(program: &Path, order: &RelayConfig, stop: &Stop) -> anyhow::Result<Child<RelayEvent>> {
    let mut command = Command::new(program);
    command.args(["relay", "--control"]);
    let mut relay: Child<RelayEvent> = Child::start("the relay", command, order)?;
    match relay.wait_event(stop, Instant::now() + PATIENCE)? {
        Some(RelayEvent::Ready) => Ok(relay),
        Some(RelayEvent::Failed { reason }) => bail!("the relay: {reason}"),
        _ => bail!("the relay is not ready after {} s", PATIENCE.as_secs()),
    }
}
