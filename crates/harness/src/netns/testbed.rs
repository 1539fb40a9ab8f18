//! A testbed: its hosts and the network between them. Dropping it, or the death of this process, removes everything.

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

/// The time for the relay to start or to answer.
const RELAY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for killed processes to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which [`Testbed::end_processes`] looks for processes.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// The hosts of a server and its clients, linked by a [`Network`].
pub struct Testbed {
    network: Network,
    applied: Applied,
    setup_ns: u64,
    /// The server's host, then the clients'.
    hosts: Vec<TestbedHost>,
    /// The namespace of the bridge.
    _bridge: Option<Namespace>,
    relay: Option<Child<RelayEvent>>,
    /// The packets dropped in front of the relay until it was last asked.
    overflowed: u64,
    /// The number of measurements so far.
    measurements: usize,
}

impl Testbed {
    /// Creates a testbed. If it needs a relay, it starts `program`, the muxbench binary, on CPUs that the server does not use,
    /// nor the client if possible. `seed` determines the relay's random numbers.
    ///
    /// # Errors
    /// When this host lacks the means, with a remedy, or `stop` aborts.
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
        let (bridge, relay) = match applied.links {
            Links::Veth => (Some(create_bridge(&hosts)?), None),
            Links::Tun => {
                let config = relay_config(network, &applied, &hosts, relay_cpus(server, client), seed);
                (None, Some(start_relay(program, &config, stop)?))
            }
        };
        for host in &hosts {
            stop.check()?;
            let set_up = || -> anyhow::Result<()> {
                host.namespace.run_tool(Tool::Ip, &interface::commands(host.number, network, &applied))?;
                host.namespace.run_tool(Tool::Tc, &conditions::tc(&applied, network, DEVICE))?;
                host.namespace.run_tool(Tool::Nft, &conditions::nft(&applied, network, DEVICE))
            };
            set_up().with_context(|| format!("cannot set up host {} of the lab", host.number))?;
        }
        let setup_ns = started.elapsed().as_nanos() as u64;
        let network = network.clone();
        Ok(Self { network, applied, setup_ns, hosts, _bridge: bridge, relay, overflowed: 0, measurements: 0 })
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

    /// The source addresses of `config`'s connections, for the first client host; none if the kernel can choose.
    ///
    /// # Errors
    /// When all addresses of a host have too few ports together.
    pub fn sources(&self, config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
        load::io::source_ports::sources_in(config, |ports| addresses::sources(config, ports))
    }

    /// Paths of the hosts' namespaces, the server's first, by which other processes can enter them while this one lives.
    pub fn paths(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.namespace.path()).collect()
    }

    /// The time that the testbed took to start.
    pub fn setup(&self) -> Duration {
        Duration::from_nanos(self.setup_ns)
    }

    /// Kills all processes on the hosts, including those that they start meanwhile.
    pub fn end_processes(&self) {
        let hosts: Vec<u64> = self.hosts.iter().filter_map(|host| host.namespace.inode().ok()).collect();
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let left = processes_on(&hosts);
            for pid in &left {
                // The error means that the process has ended.
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            thread::sleep(END_INTERVAL);
        }
    }

    /// Measures the network, which takes about a second.
    ///
    /// # Errors
    /// When a host receives nothing or hardly anything, or `stop` aborts.
    pub fn measure(&mut self, stop: &Stop) -> anyhow::Result<NetworkReport> {
        let link = probe::Link { network: &self.network, link_bytes: conditions::link_bytes(&self.applied), stop };
        let measured: Measured = probe::measure(&link, self.server(), self.clients(), self.measurements)?;
        self.measurements += 1;
        // Discard the relay's counts of the probes.
        self.relay_counts()?;
        Ok(NetworkReport { applied: self.applied, setup_ns: self.setup_ns, measured, relay: None })
    }

    /// The relay's counts since it was last asked; `None` if there is no relay.
    ///
    /// # Errors
    /// When the relay has ended or does not answer.
    pub fn relay_counts(&mut self) -> anyhow::Result<Option<RelayCounts>> {
        let Some(relay) = &mut self.relay else { return Ok(None) };
        relay.send("counts")?;
        match relay.next_event(Instant::now() + RELAY_TIMEOUT)? {
            Some(RelayEvent::Counts { mut counts }) => {
                let overflowed = self.overflowed()?;
                counts.dropped += overflowed.saturating_sub(std::mem::replace(&mut self.overflowed, overflowed));
                Ok(Some(counts))
            }
            Some(RelayEvent::Failed { reason }) => bail!("the relay: {reason}"),
            _ => bail!("the relay does not answer within {} s", RELAY_TIMEOUT.as_secs()),
        }
    }

    /// The packets of all hosts that the relay did not read in time, since the testbed started.
    fn overflowed(&self) -> anyhow::Result<u64> {
        let dropped = self.hosts.iter().map(|host| Ok(InterfaceCounters::read(&host.namespace)?.sent_dropped));
        dropped.sum::<std::io::Result<u64>>().context("cannot read the interface counters of the lab's hosts")
    }
}

/// The processes in these network namespaces. An ended process is in none.
fn processes_on(hosts: &[u64]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_there =
        |path: &Path| std::fs::metadata(path.join("ns/net")).is_ok_and(|namespace| hosts.contains(&namespace.ino()));
    let processes = entries.filter(|entry| is_there(&entry.path()));
    processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Creates a bridge in a namespace of its own, with a pair of veth devices for each host.
fn create_bridge(hosts: &[TestbedHost]) -> anyhow::Result<Namespace> {
    let bridge = Namespace::new().context("cannot create a network namespace; run as root")?;
    let mut lines = "link set lo up\nlink add name br0 type bridge forward_delay 0 mcast_snooping 0\n".to_owned();
    for TestbedHost { number, namespace } in hosts {
        let path = namespace.path();
        lines += &format!("link add name h{number} type veth peer name {DEVICE} netns {path}\n");
        lines += &format!("link set dev h{number} master br0 up\n");
    }
    bridge.run_tool(Tool::Ip, &(lines + "link set dev br0 up\n")).context("cannot create the lab's bridge")?;
    Ok(bridge)
}

fn relay_config(
    network: &Network,
    applied: &Applied,
    hosts: &[TestbedHost],
    cpus: Vec<usize>,
    seed: u64,
) -> RelayConfig {
    let by_relay = |means: Option<Means>| means == Some(Means::Tun);
    RelayConfig {
        hosts: hosts.iter().map(|host| host.namespace.path()).collect(),
        device: DEVICE.to_owned(),
        conditions: Conditions {
            delay_ns: if by_relay(applied.delay) { network.delay.0 } else { 0 },
            jitter_ns: if by_relay(applied.delay) { network.jitter.0 } else { 0 },
            loss: network.loss.filter(|_| by_relay(applied.loss)).map_or(0.0, |loss| loss.0),
            seed,
        },
        cpus,
    }
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
