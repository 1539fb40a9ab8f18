//! A testbed: its hosts and the network between them. The testbed ends when it is dropped, or when this process ends.

use std::fs::DirEntry;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::LoadConfig;
use process::child::{Child, Process};
use process::stop::Stop;
use rustix::process::{Pid, Signal};

use super::addresses;
use super::conditions::{self, HostCapabilities, relay_cpus};
use super::host::{TestbedHost, settings};
use super::interface::{self, DEVICE};
use super::namespace::{Namespace, Tool};
use super::napi;
use super::probe;
use super::relay::{RelayConfig, RelayEvent};
use crate::forward::Conditions;
use crate::network::Network;
use crate::record::{Applied, Links, Means, NetworkRecord, RelayCounts};

/// The timeout for the relay to start or to answer.
const RELAY_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for killed processes to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which [`Testbed::end_processes`] searches for processes.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// The hosts of a server and its clients, linked by a [`Network`].
pub struct Testbed {
    network: Network,
    applied: Applied,
    setup_ns: u64,
    /// The server's host, then the clients'.
    hosts: Vec<TestbedHost>,
    /// The namespace of the bridge, which ends with this value.
    _bridge: Option<Namespace>,
    relay: Option<Child<RelayEvent>>,
    /// The packets that full queues to the relay had dropped when the counts were last read.
    overflowed: u64,
    measurements: usize,
    /// The time for which the server's interface suspends its interrupts; 0 for never.
    suspend_ns: u64,
}

impl Testbed {
    /// Creates a testbed. `program`, the muxbench binary, runs as the relay if one is needed, on CPUs that the server and, if
    /// possible, the client do not use. `seed` determines the relay's random numbers.
    pub fn start(
        network: &Network,
        program: &Path,
        (server, client): (&[usize], &[usize]),
        seed: u64,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let applied = conditions::choose(network, &HostCapabilities::here());
        let applied = applied.map_err(|reasons| anyhow!(reasons.join("; ")))?;
        let settings = settings();
        let hosts = (0..=network.clients.get()).map(|number| TestbedHost::new(number, &settings));
        let hosts: Vec<TestbedHost> = hosts.collect::<anyhow::Result<_>>()?;
        let (bridge, relay) = match applied.links {
            Links::Veth => (Some(create_bridge(&hosts)?), None),
            Links::Tun => {
                let paths = hosts.iter().map(|host| host.namespace.path()).collect();
                let conditions = relay_conditions(network, &applied, seed);
                let config = RelayConfig { hosts: paths, conditions, cpus: relay_cpus(server, client) };
                (None, Some(start_relay(program, &config, stop)?))
            }
        };
        for host in &hosts {
            stop.check()?;
            let set_up = || -> anyhow::Result<()> {
                host.namespace.run_tool(Tool::IP, &interface::commands(host.number, network, &applied))?;
                host.namespace.run_tool(Tool::TC, &conditions::tc(&applied, network, DEVICE))?;
                host.namespace.run_tool(Tool::NFT, &conditions::nft(&applied, network, DEVICE))
            };
            set_up().with_context(|| format!("cannot set up host {} of the lab", host.number))?;
        }
        if let (Some(bridge), true) = (&bridge, network.napi) {
            napi::enable(&hosts[0].namespace, bridge, &port_of(&hosts[0]))?;
        }
        let setup_ns = started.elapsed().as_nanos() as u64;
        let network = network.clone();
        Ok(Self {
            network,
            applied,
            setup_ns,
            hosts,
            _bridge: bridge,
            relay,
            overflowed: 0,
            measurements: 0,
            suspend_ns: 0,
        })
    }

    /// The server's host.
    pub fn server(&self) -> &TestbedHost {
        &self.hosts[0]
    }

    /// The client hosts, at least one.
    pub fn clients(&self) -> &[TestbedHost] {
        &self.hosts[1..]
    }

    /// The specification of the network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The means of the network's conditions.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Makes the server's interface suspend its interrupts for this time after polls by the server; 0 for never.
    pub fn suspend(&mut self, suspend_ns: u64) -> anyhow::Result<()> {
        // Older kernels lack the setting, so change it only if needed.
        if suspend_ns != self.suspend_ns {
            napi::suspend(&self.server().namespace, suspend_ns)?;
            self.suspend_ns = suspend_ns;
        }
        Ok(())
    }

    /// The source addresses of `config`'s connections, for the first client host; none if the kernel can choose.
    pub fn sources(&self, config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
        load::io::source_ports::sources_in(config, |ports| addresses::sources(config, ports))
    }

    /// Paths of the hosts' namespaces, the server's first, for other processes. They are valid while this testbed exists.
    pub fn paths(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.namespace.path()).collect()
    }

    /// The time that the testbed took to start.
    pub fn setup(&self) -> Duration {
        Duration::from_nanos(self.setup_ns)
    }

    /// Kills all processes on the hosts, and the processes that they start meanwhile.
    pub fn end_processes(&self) {
        let hosts: Vec<u64> = self.hosts.iter().filter_map(|host| host.namespace.inode().ok()).collect();
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let left = processes_on(&hosts);
            for pid in &left {
                // An error means that the process has ended.
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            thread::sleep(END_INTERVAL);
        }
    }

    /// Measures the network, which takes about a second.
    pub fn measure(&mut self, stop: &Stop) -> anyhow::Result<NetworkRecord> {
        // A TUN device has no Ethernet header.
        let link_bytes = if self.applied.links == Links::Veth { 14 } else { 0 };
        let link = probe::Link { network: &self.network, link_bytes, stop };
        let measured = probe::measure(&link, self.server(), self.clients(), self.measurements)?;
        self.measurements += 1;
        // Discard the relay's counts of the measurement's packets.
        self.relay_counts()?;
        Ok(NetworkRecord { applied: self.applied, setup_ns: self.setup_ns, measured, relay: None })
    }

    /// The relay's counts since the last call; `None` without a relay.
    pub fn relay_counts(&mut self) -> anyhow::Result<Option<RelayCounts>> {
        let Some(relay) = &mut self.relay else { return Ok(None) };
        relay.send("counts")?;
        match relay.next_event(Instant::now() + RELAY_TIMEOUT)? {
            Some(RelayEvent::Counts { mut counts }) => {
                let dropped = self.hosts.iter().map(|it| interface::counter(&it.namespace, interface::SENT_DROPPED));
                let overflowed = dropped.sum::<std::io::Result<u64>>();
                let overflowed = overflowed.context("cannot read the interface counters of the lab's hosts")?;
                counts.dropped += overflowed.saturating_sub(std::mem::replace(&mut self.overflowed, overflowed));
                Ok(Some(counts))
            }
            Some(RelayEvent::Failed { reason }) => bail!("the relay: {reason}"),
            _ => bail!("the relay does not answer within {} s", RELAY_TIMEOUT.as_secs()),
        }
    }
}

/// The running processes in these network namespaces.
fn processes_on(hosts: &[u64]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let namespace = |entry: &DirEntry| std::fs::metadata(entry.path().join("ns/net"));
    let processes = entries.filter(|entry| namespace(entry).is_ok_and(|it| hosts.contains(&it.ino())));
    processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The bridge's device that is linked to a host.
fn port_of(host: &TestbedHost) -> String {
    format!("h{}", host.number)
}

/// Creates a namespace with a bridge, and a pair of veth devices for each host.
fn create_bridge(hosts: &[TestbedHost]) -> anyhow::Result<Namespace> {
    let bridge = Namespace::new().context("cannot create a network namespace; run as root")?;
    let mut lines = "link set lo up\nlink add name br0 type bridge forward_delay 0 mcast_snooping 0\n".to_owned();
    for host in hosts {
        let (port, path) = (port_of(host), host.namespace.path());
        lines += &format!("link add name {port} type veth peer name {DEVICE} netns {path}\n");
        lines += &format!("link set dev {port} master br0 up\n");
    }
    bridge.run_tool(Tool::IP, &(lines + "link set dev br0 up\n")).context("cannot create the lab's bridge")?;
    Ok(bridge)
}

fn relay_conditions(network: &Network, applied: &Applied, seed: u64) -> Conditions {
    let by_relay = |means: Option<Means>| means == Some(Means::Tun);
    let (delay_ns, jitter_ns) = if by_relay(applied.delay) { (network.delay.0, network.jitter.0) } else { (0, 0) };
    let loss = network.loss.filter(|_| by_relay(applied.loss)).map_or(0.0, |loss| loss.0);
    Conditions { delay_ns, jitter_ns, loss, seed }
}

fn start_relay(program: &Path, config: &RelayConfig, stop: &Stop) -> anyhow::Result<Child<RelayEvent>> {
    let mut command = Command::new(program);
    command.args(["relay", "--control"]);
    let mut relay: Child<RelayEvent> = Child::start("the relay", command, config)?;
    match relay.wait_event(stop, Instant::now() + RELAY_TIMEOUT)? {
        Some(RelayEvent::Ready) => Ok(relay),
        Some(RelayEvent::Failed { reason }) => bail!("the relay: {reason}"),
        _ => bail!("the relay is not ready after {} s", RELAY_TIMEOUT.as_secs()),
    }
}
