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
use rustix::thread::CpuSet;

use super::conditions::{self, Applied, Found, Links, Means};
use super::namespace::{Namespace, Tool};
use super::relay::{Conditions, Event, Order};
use super::{Account, Measured, Network, NetworkReport, address, probe};
use crate::child::Child;
use crate::stop::Stop;
use crate::transport::Transport;

/// What a host's interface is called.
pub(super) const DEVICE: &str = "eth0";
/// The bits of an address that all hosts share, of IPv4 and of IPv6...
const SHARED_BITS: [u32; 2] = [15, 32];
/// ...and those that all addresses of one host do.
const HOST_BITS: [u32; 2] = [24, 64];
/// Packets that may wait for the relay; a burst of many connections is not lost there.
const RELAY_QUEUE_PACKETS: u32 = 10_000;
/// What the relay may take to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What runs on its hosts at the end may take so long to be gone...
const END_MAX: Duration = Duration::from_secs(5);
/// ...and is looked for so often.
const LOOK: Duration = Duration::from_millis(2);
/// What a host has as this one, as far as the kernel has it for each: how it is tuned. Folders, and beginnings of names.
const AS_HERE: &[(&str, &[&str])] =
    &[("net/core", &["somaxconn", "optmem_max", "rmem_", "wmem_"]), ("net/ipv4", &["tcp_", "udp_", "ip_local_"])];
/// No setting, but a secret.
const FASTOPEN_KEY: &str = "net/ipv4/tcp_fastopen_key";
/// What is set in hosts. Ports are used again as soon as over loopback, where 2 is enough; a trial learns nothing from the
/// one before; connections over IPv6 may come from any address of the host's block.
const SET: &[(&str, &str)] =
    &[("net/ipv4/tcp_tw_reuse", "1"), ("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv6/ip_nonlocal_bind", "1")];

/// One host: what runs in it sees no other network.
#[derive(Clone, Debug)]
pub struct Host {
    number: u32,
    namespace: Namespace,
}

impl Host {
    fn new(number: u32, settings: &[(String, String)]) -> anyhow::Result<Self> {
        let namespace = Namespace::new().context("the kernel allows no hosts of their own; run as root")?;
        let set = || {
            for (path, value) in settings {
                // What is not there the kernel has for all hosts at once.
                if std::fs::read_to_string(path).is_ok_and(|it| it.trim() != value) {
                    let _ = std::fs::write(path, value);
                }
            }
        };
        namespace.within(set).context("a host's settings")?;
        for (name, value) in SET {
            let _ = namespace.set(name, value);
        }
        Ok(Self { number, namespace })
    }

    /// Has a process run in it.
    pub fn enter(&self, command: &mut Command) {
        self.namespace.enter(command);
    }

    /// Starts a command in it, which ends when the thread that started it does.
    ///
    /// # Errors
    /// As execve(2) and setns(2) have them.
    pub fn spawn(&self, command: Command) -> std::io::Result<std::process::Child> {
        self.namespace.spawn(command)
    }

    /// Does something in it.
    ///
    /// # Errors
    /// As setns(2) has them.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        self.namespace.within(work)
    }

    /// Its number: the server's is 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its first address.
    pub fn address(&self, transport: Transport) -> IpAddr {
        address(self.number, transport == Transport::Tcp6, 1)
    }

    /// The same addresses as of the first client's host, here.
    pub fn sources(&self, of_the_first: &[IpAddr]) -> Vec<IpAddr> {
        super::sources_of(self.number, of_the_first)
    }
}

/// A server's host and clients', linked as a [`Network`] has it.
pub struct Lab {
    network: Network,
    applied: Applied,
    setup_ns: u64,
    server: Host,
    clients: Vec<Host>,
    /// Where the bridge is.
    _switch: Option<Namespace>,
    relay: Option<Child<Event>>,
    /// Packets that had no room in front of the relay, when it was last asked.
    overflowed: u64,
    /// How often it was measured.
    turn: usize,
}

impl Lab {
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
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let applied = conditions::choose(network, &Found::here()).map_err(|reasons| anyhow!(reasons.join("; ")))?;
        let settings = settings();
        let hosts = (0..=network.clients.get()).map(|number| Host::new(number, &settings));
        let hosts: Vec<Host> = hosts.collect::<anyhow::Result<_>>()?;
        let (switch, relay) = match applied.links {
            Links::Veth => (Some(bridge(&hosts)?), None),
            Links::Tun => {
                let order = order(network, &applied, &hosts, relay_cpus(server, client), seed);
                (None, Some(relay(program, &order)?))
            }
        };
        for host in &hosts {
            let set_up = || -> anyhow::Result<()> {
                host.namespace.tell(Tool::Ip, &interface(host.number, network, &applied))?;
                host.namespace.tell(Tool::Tc, &applied.tc(network, DEVICE))?;
                host.namespace.tell(Tool::Nft, &applied.nft(network, DEVICE))
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
    pub fn server(&self) -> &Host {
        &self.server
    }

    /// The clients' hosts, at least one.
    pub fn clients(&self) -> &[Host] {
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
        load::ports::sources_in(config, |ports| Network::sources(config, ports))
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
        let line = probe::Line { network: &self.network, link_bytes: self.applied.link_bytes(), stop };
        let measured: Measured = probe::measure(&line, &self.server, &self.clients, self.turn)?;
        self.turn += 1;
        // What it did for the probes is not the trial's.
        self.account()?;
        Ok(NetworkReport { applied: self.applied, setup_ns: self.setup_ns, measured, relay: None })
    }

    /// What the relay did since it was last asked; `None` where there is none.
    ///
    /// # Errors
    /// When it has ended.
    pub fn account(&mut self) -> anyhow::Result<Option<Account>> {
        let Some(relay) = &mut self.relay else { return Ok(None) };
        relay.say("account")?;
        match relay.next(Instant::now() + PATIENCE)? {
            Some(Event::Account { mut account }) => {
                let overflowed = self.overflowed()?;
                account.dropped += overflowed.saturating_sub(std::mem::replace(&mut self.overflowed, overflowed));
                Ok(Some(account))
            }
            Some(Event::Failed { reason }) => bail!("the relay: {reason}"),
            _ => bail!("the relay does not answer"),
        }
    }

    /// Packets of all hosts that their devices dropped since there is a lab: the relay did not take them in time.
    fn overflowed(&self) -> anyhow::Result<u64> {
        let hosts = std::iter::once(&self.server).chain(&self.clients);
        let dropped = hosts.map(|host| Ok(Counted::of(host)?.sent_dropped));
        dropped.collect::<std::io::Result<Vec<u64>>>().map(|each| each.iter().sum()).context("the lab's hosts")
    }
}

/// Files of /proc/sys by which this host is tuned, and what is in them.
fn settings() -> Vec<(String, String)> {
    let is_set = |name: &str| name == FASTOPEN_KEY || SET.iter().any(|(set, _)| *set == name);
    let of = |(folder, beginnings): &(&str, &[&str])| -> Vec<(String, String)> {
        let entries = std::fs::read_dir(format!("/proc/sys/{folder}")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)));
        let paths = names.map(|name| format!("{folder}/{name}")).filter(|name| !is_set(name));
        let is_writable = |path: &String| std::fs::metadata(path).is_ok_and(|it| it.mode() & 0o200 != 0);
        let paths = paths.map(|name| format!("/proc/sys/{name}")).filter(is_writable);
        let found = paths.filter_map(|path| {
            let value = std::fs::read_to_string(&path).ok()?;
            Some((path, value.trim().to_owned()))
        });
        found.collect()
    };
    AS_HERE.iter().flat_map(of).collect()
}

/// Processes in these network namespaces; one that has ended is in none.
fn processes_on(hosts: &[u64]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_there =
        |path: &Path| std::fs::metadata(path.join("ns/net")).is_ok_and(|namespace| hosts.contains(&namespace.ino()));
    let processes = entries.filter(|entry| is_there(&entry.path()));
    processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// What the kernel has counted of a host's interface.
pub(super) struct Counted {
    /// Bytes that came, headers included.
    pub(super) received_bytes: u64,
    /// Packets that its device did not take.
    pub(super) sent_dropped: u64,
}

impl Counted {
    /// As it is now.
    pub(super) fn of(host: &Host) -> std::io::Result<Self> {
        let text = host.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
        // Eight numbers of what came, of which the first is bytes, then as many of what was sent, of which the fourth is drops.
        let number = |at: usize| line?.split_whitespace().nth(at)?.parse().ok();
        let counted = || Some(Self { received_bytes: number(0)?, sent_dropped: number(11)? });
        counted().ok_or_else(|| std::io::Error::other("the kernel does not count what a host receives and sends"))
    }
}

/// A bridge in a place of its own, and from each host a pair of veth devices to it.
fn bridge(hosts: &[Host]) -> anyhow::Result<Namespace> {
    let switch = Namespace::new().context("the kernel allows no hosts of their own; run as root")?;
    let mut lines = "link set lo up\nlink add name br0 type bridge forward_delay 0 mcast_snooping 0\n".to_owned();
    for Host { number, namespace } in hosts {
        let place = namespace.path();
        lines += &format!("link add name h{number} type veth peer name {DEVICE} netns {place}\n");
        lines += &format!("link set dev h{number} master br0 up\n");
    }
    switch.tell(Tool::Ip, &(lines + "link set dev br0 up\n")).context("the lab's bridge")?;
    Ok(switch)
}

/// What the relay is told.
fn order(network: &Network, applied: &Applied, hosts: &[Host], cpus: Vec<usize>, seed: u64) -> Order {
    let is_its = |means: Option<Means>| means == Some(Means::Tun);
    Order {
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
fn relay(program: &Path, order: &Order) -> anyhow::Result<Child<Event>> {
    let mut command = Command::new(program);
    command.args(["relay", "--control"]);
    let mut relay: Child<Event> = Child::start("the relay", command, order)?;
    match relay.next(Instant::now() + PATIENCE)? {
        Some(Event::Ready) => Ok(relay),
        Some(Event::Failed { reason }) => bail!("the relay: {reason}"),
        _ => bail!("the relay is not ready after {} s", PATIENCE.as_secs()),
    }
}

/// CPUs that neither side has; where there are none, the client's, as the server is what is measured.
pub(crate) fn relay_cpus(server: &[usize], client: &[usize]) -> Vec<usize> {
    let free = allowed_cpus().into_iter().filter(|cpu| !server.contains(cpu) && !client.contains(cpu));
    let free: Vec<usize> = free.collect();
    match (server, free.as_slice()) {
        // Placed nowhere.
        ([], _) => Vec::new(),
        (_, []) => client.to_vec(),
        _ => free,
    }
}

fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// What ip(8) is told of a host's interface: its addresses, and how others are reached.
fn interface(number: u32, network: &Network, applied: &Applied) -> String {
    let mut lines = "link set lo up\n".to_owned();
    if network.loss.is_some() && applied.links == Links::Veth {
        // Each packet is lost by itself, and not the many that a veth device would take as one.
        lines += &format!("link set dev {DEVICE} gso_max_segs 1\n");
    }
    if applied.links == Links::Tun {
        lines += &format!("link set dev {DEVICE} txqueuelen {RELAY_QUEUE_PACKETS}\n");
    }
    lines += &format!("link set dev {DEVICE} up\n");
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    for (is_v6, shared, own) in [(false, SHARED_BITS[0], HOST_BITS[0]), (true, SHARED_BITS[1], HOST_BITS[1])] {
        if is_v6 && !has_v6 {
            continue;
        }
        let first = address(number, is_v6, 1);
        // Nobody else can have it, so nobody need be asked.
        let nodad = if is_v6 { " nodad" } else { "" };
        lines += &format!("addr add {first}/{shared} dev {DEVICE}{nodad}\n");
        // Every address of its block is this host's.
        lines += &format!("route add local {}/{own} dev lo\n", address(number, is_v6, 0));
        if is_v6 && applied.links == Links::Veth {
            // For IPv4 a host answers who asks for any of them; for IPv6 for its first alone.
            let others = (0..=network.clients.get()).filter(|other| *other != number);
            for other in others.filter(|other| number == 0 || *other == 0) {
                let (block, by) = (address(other, true, 0), address(other, true, 1));
                lines += &format!("route add {block}/{own} via {by} dev {DEVICE} onlink\n");
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_is_told() {
        let network: Network = "lab:clients=2".parse().unwrap();
        let lossy = Network { loss: Some(crate::units::Loss(0.5)), ..network.clone() };
        let applied = |links| Applied { links, delay: None, loss: None, bandwidth: None };
        insta::assert_snapshot!(format!(
            "server, veth\n{}\nclient 2, veth, loss\n{}\nclient 1, TUN\n{}",
            interface(0, &network, &applied(Links::Veth)),
            interface(2, &lossy, &applied(Links::Veth)),
            interface(1, &network, &applied(Links::Tun)),
        ));
    }

    #[test]
    fn a_host_is_tuned_as_the_one_it_is_made_on() {
        let outer = match Namespace::new() {
            Ok(outer) => outer,
            Err(error) => {
                server::skipped::skipped(&format!("hosts: {error}"));
                return;
            }
        };
        let tuned =
            [("tcp_rmem", "8192\t100000\t2000000"), ("tcp_slow_start_after_idle", "0"), ("tcp_notsent_lowat", "16384")];
        for (name, value) in tuned {
            outer.set(&format!("net/ipv4/{name}"), value).unwrap();
        }
        let (settings, host) = outer.within(|| (settings(), Host::new(1, &settings()).unwrap())).unwrap();
        let there = |path: String| host.within(|| std::fs::read_to_string(path)).unwrap();
        for (name, value) in tuned {
            let path = format!("/proc/sys/net/ipv4/{name}");
            assert!(settings.contains(&(path.clone(), value.to_owned())), "{settings:?}");
            assert_eq!(there(path).unwrap().trim(), value);
        }
        assert!(settings.len() > 50, "{settings:?}");
        for (path, value) in settings {
            // What is of all hosts is not to be seen there.
            assert!(there(path.clone()).map_or(true, |it| it.trim() == value), "{path}");
        }
        for (name, value) in SET {
            assert!(there(format!("/proc/sys/{name}")).map_or(true, |it| it.trim() == *value), "{name}");
        }
    }

    #[test]
    fn the_relay_is_kept_from_what_is_measured() {
        let all = allowed_cpus();
        let (first, rest) = all.split_first().unwrap();
        assert_eq!(relay_cpus(&[*first], rest), rest, "with none to spare it has the client's");
        assert_eq!(relay_cpus(&[*first], &[*first]), if rest.is_empty() { vec![*first] } else { rest.to_vec() });
        assert_eq!(relay_cpus(&[], &[]), [0; 0]);
    }
}
