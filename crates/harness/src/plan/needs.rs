//! Requirements of an experiment's largest trial for its hosts: descriptors, memory, tasks, ports, client hosts and
//! kernel settings. They are computed from measurements per connection and per CPU, each with its source.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use server::spec::model::PerConnection;

pub use super::limits::PORTS_MAX;
use super::limits::{BYTES_PER_REQUEST, DESCRIPTORS_BESIDE, ServerResources};
use crate::host::Host;
use crate::plan::Plan;
use crate::record::{Run, Trial, VerdictKind, Workload};
use crate::spec::Candidate;
use crate::spec::transport::Transport;

/// The share of a client CPU that may be busy, so that requests are sent on time.
const CPU_SHARE: f64 = 0.5;
/// The share of a host's memory that may be in use.
const MEMORY_SHARE: f64 = 0.8;
/// The descriptors of a process of `mp`: one for its connection, and three that every process has.
const FILES_PER_PROCESS: u64 = 4;
/// The number of connections that our client establishes at once (`load/src/io/connect.rs`).
const CONNECTING: u64 = 128;
/// The backlog that our servers pass to listen(2).
const BACKLOG: u64 = 4_096;
/// The time in TIME_WAIT until a port can be reused, in seconds: by default, and if [`TW_REUSE`] is 1.
const TIME_WAIT_S: [f64; 2] = [60.0, 1.0];
/// The bytes of a packet's headers, including Ethernet's, and of its payload.
const PACKET: (f64, f64) = (66.0, 1_448.0);
/// The setting that allows the reuse of ports in TIME_WAIT. Its default, 2, allows it only over loopback.
const TW_REUSE: &str = "net.ipv4.tcp_tw_reuse";
/// The setting for the range of local ports. Its values in a [`Setting`] are numbers of ports.
const PORT_RANGE: &str = "net.ipv4.ip_local_port_range (count)";
/// The size of a memory page, the unit of `tcp_mem`.
const PAGE_BYTES: f64 = 4_096.0;

/// The source of figures that are not from a stored run.
const DOCUMENTED: &str = "docs/scale.md";
/// Memory per connection by model or architecture, in bytes: the server's user memory, and the kernel memory of both
/// ends. Measured with 10 000 connections of 128 B -> 10 KiB (docs/scale.md).
const CONNECTIONS: &[(&str, f64, f64)] =
    &[("epoll", 73.0, 8_682.0), ("io_uring", 503.0, 8_785.0), ("mt", 32_923.0, 34_731.0), ("mp", 93_905.0, 212_544.0)];
/// The fewest connections whose memory counts. Other activity of the host changes its kernel memory by hundreds of KiB.
const CONNECTIONS_MIN: u64 = 400;
/// The client's user memory per connection, in bytes.
const CLIENT_BYTES: f64 = 84.0;
/// The rate of one client CPU, in requests per second.
const CLIENT_PER_S: f64 = 138_000.0;

/// The memory of one connection on the server's host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerConnectionBytes {
    /// The measured architecture.
    pub architecture: String,
    /// User memory, in bytes.
    pub user_bytes: f64,
    /// Kernel memory, in bytes.
    pub kernel_bytes: f64,
    /// The source of the figures.
    pub origin: String,
}

/// A number with its source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measurement {
    /// The number.
    pub value: f64,
    /// The source of the number.
    pub origin: String,
}

/// The measurements from which needs are computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Memory of the server's end, by architecture.
    pub connections: Vec<PerConnectionBytes>,
    /// Memory of a client's end, including the kernel's, in bytes.
    pub client_bytes: Measurement,
    /// The rate that one client CPU handled, in requests per second.
    pub client_per_s: Measurement,
}

impl Figures {
    /// Returns the documented figures.
    pub fn documented() -> Self {
        let origin = || DOCUMENTED.to_owned();
        let end = end_bytes(CONNECTIONS.iter().map(|&(_, _, both_ends)| both_ends));
        let of = |&(name, user_bytes, both_ends): &(&str, f64, f64)| PerConnectionBytes {
            architecture: name.to_owned(),
            user_bytes,
            kernel_bytes: both_ends - end,
            origin: origin(),
        };
        Self {
            connections: CONNECTIONS.iter().map(of).collect(),
            client_bytes: Measurement { value: CLIENT_BYTES + end, origin: origin() },
            client_per_s: Measurement { value: CLIENT_PER_S, origin: origin() },
        }
    }

    /// Replaces figures with those of the stored run `name`, where that run has them. For each architecture, the trial
    /// with the most connections counts, if it has at least [`CONNECTIONS_MIN`]. Fails if the run is distributed, because its
    /// workers may have run on other hosts.
    pub fn with_run(mut self, run: &Run, name: &str) -> Result<Self, String> {
        if run.header.is_distributed {
            return Err(format!("--from {name}: it is a distributed run; name a run without --distributed"));
        }
        let mut largest: BTreeMap<String, (u64, f64, f64)> = BTreeMap::new();
        let mut client_bytes = 0.0f64;
        for record in &run.records {
            let Some(server) = &record.server else { continue };
            let user_bytes = server.memory_user_bytes_per_connection;
            let Some((user_bytes, both_ends)) = user_bytes.zip(server.memory_kernel_bytes_per_connection) else {
                continue;
            };
            // Other activity of the host can hide the kernel memory of the connections.
            if both_ends <= 0.0 || server.connections < CONNECTIONS_MIN {
                continue;
            }
            client_bytes = client_bytes.max(record.load.as_ref().map_or(0.0, |load| load.memory_bytes_per_connection));
            let found = (server.connections, user_bytes.max(0.0), both_ends);
            let known = largest.entry(record.trial.architecture.to_string()).or_insert(found);
            if found.0 > known.0 {
                *known = found;
            }
        }
        if !largest.is_empty() {
            let end = end_bytes(largest.values().map(|it| it.2));
            self.client_bytes = Measurement { value: client_bytes + end, origin: name.to_owned() };
            for (architecture, (connections, user_bytes, both_ends)) in largest {
                let origin = format!("{name}, with {connections} connections");
                self.connections.retain(|it| it.architecture != architecture);
                let kernel_bytes = both_ends - end;
                self.connections.push(PerConnectionBytes { architecture, user_bytes, kernel_bytes, origin });
            }
        }
        let per_s = |is_closed: bool| {
            let of_kind = run.records.iter().filter(|record| record.trial.workload.is_closed() == is_closed);
            of_kind.filter_map(client_per_s).fold(0.0, f64::max)
        };
        let (closed, open) = (per_s(true), per_s(false));
        // An open loop that sends on time shows only a lower bound of the possible rate. Use it only if it exceeds the
        // known rate.
        let known = if closed > 0.0 { closed } else { self.client_per_s.value };
        if closed > 0.0 || open > known {
            self.client_per_s = Measurement { value: open.max(known), origin: name.to_owned() };
        }
        Ok(self)
    }

    /// Finds the figures of an architecture, or else of one with similar memory per connection.
    fn of(&self, architecture: &Candidate) -> Option<&PerConnectionBytes> {
        let named = |name: &str| self.connections.iter().find(|it| it.architecture == name);
        let ours = architecture.ours();
        let alike = match ours.map_or(PerConnection::Nothing, |ours| ours.model.per_connection) {
            PerConnection::Nothing if ours.is_some_and(|ours| ours.to_string().contains("io_uring")) => "io_uring",
            PerConnection::Nothing => "epoll",
            PerConnection::Stack | PerConnection::Thread => "mt",
            PerConnection::Process => "mp",
        };
        named(&architecture.to_string()).or_else(|| named(alike))
    }
}

/// Estimates the kernel memory of one end of a connection, in bytes: half of the lowest value for both ends. With the
/// architecture that needs the least memory, the two ends are similar.
fn end_bytes(both_ends: impl Iterator<Item = f64>) -> f64 {
    both_ends.fold(f64::INFINITY, f64::min) / 2.0
}

/// Returns the requests per second that one client CPU can handle. The rate of a closed loop is divided by the CPUs that were
/// busy. An open loop shows only a lower bound. `None` for streams, and if the verdict makes the rate useless.
fn client_per_s(record: &crate::record::TrialRecord) -> Option<f64> {
    let load = record.load.as_ref().filter(|_| record.trial.workload.service.stream().is_none())?;
    match (&load.closed, record.verdict.kind) {
        (Some(closed), VerdictKind::Valid | VerdictKind::ClientLimited) => {
            Some(load.rate_achieved_per_s / (closed.busy_share * f64::from(closed.cpus)).max(0.01))
        }
        (None, VerdictKind::Valid) => Some(load.rate_achieved_per_s / record.trial.client.cpus.len().max(1) as f64),
        _ => None,
    }
}

/// The resources of each client host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClientHost {
    /// CPUs for clients.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Source addresses for connections.
    pub addresses: u64,
    /// Ports of each address.
    pub ports: u64,
}

/// The requirements of an experiment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Needs {
    /// The name of the experiment.
    pub experiment: String,
    /// The requirements of each architecture under its largest workload.
    pub servers: Vec<ServerNeeds>,
    /// The requirements of the clients, the same for all architectures.
    pub clients: ClientNeeds,
    /// Required settings, with their values on this host.
    pub settings: Vec<Setting>,
    /// The figures behind the requirements.
    pub figures: Figures,
}

/// The requirements of an architecture for the server's host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServerNeeds {
    /// The architecture.
    pub architecture: String,
    /// The workload.
    pub workload: Workload,
    /// Connections, including idle ones.
    pub connections: u64,
    /// Descriptors of the process that needs the most.
    pub descriptors: u64,
    /// Open files of all processes.
    pub files: u64,
    /// Threads or processes.
    pub tasks: u64,
    /// Memory mappings of the process: stacks of threads or coroutines, with their guard pages. 0 without such stacks.
    pub mappings: u64,
    /// User memory, in bytes.
    pub user_bytes: f64,
    /// Kernel memory, in bytes.
    pub kernel_bytes: f64,
    /// The bandwidth of the busier direction, headers included, in bits per second. `None` for closed loops and
    /// unknown sizes.
    pub bits_per_s: Option<f64>,
    /// The source of the memory figures.
    pub origin: String,
    /// The architecture that was measured. If it differs from `architecture`, its memory per connection is similar.
    pub figures_of: String,
}

/// The requirements for the client hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClientNeeds {
    /// The resources of each host.
    pub host: ClientHost,
    /// The number of hosts.
    pub hosts: u64,
    /// The resource that requires so many hosts: ports, memory or rate.
    pub limit: String,
    /// The number of hosts that each resource requires.
    pub hosts_by: [(String, u64); 3],
    /// Connections of each host.
    pub connections: u64,
    /// Local ports of all hosts, including those in TIME_WAIT.
    pub ports: u64,
    /// Source addresses of all hosts.
    pub addresses: u64,
    /// The rate of each host in requests per second. `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Client CPUs of all hosts. 1 for a closed loop, because its rate is unknown.
    pub cpus: u64,
    /// Memory of each host, in bytes.
    pub memory_bytes: f64,
}

/// A kernel setting or a resource limit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// The name.
    pub name: &'static str,
    /// The host: `server` or `client`.
    pub whose: &'static str,
    /// The lowest sufficient value; for `net.ipv4.tcp_tw_reuse`, the only one.
    pub needed: u64,
    /// The value on this host. `None` if this host lacks the setting.
    pub here: Option<u64>,
    /// The reason.
    pub about: &'static str,
}

impl Setting {
    /// Tests whether this host's value is sufficient.
    pub fn suffices(&self) -> bool {
        self.here.is_none_or(|here| if self.name == TW_REUSE { here == self.needed } else { here >= self.needed })
    }
}

/// Computes the requirements of `plan`. `setting` reads a kernel setting of this host. Fails for Unix sockets, which cannot
/// connect two hosts, and for the service `udp`, which has no connections.
pub fn of(
    plan: &Plan,
    figures: Figures,
    client: ClientHost,
    host: &Host,
    setting: impl Fn(&str) -> Option<u64>,
) -> Result<Needs, String> {
    if plan.trials.iter().any(|trial| trial.workload.transport == Transport::Unix) {
        return Err("workload.transport: a Unix socket cannot connect two hosts; choose tcp".into());
    }
    if plan.trials.iter().any(|trial| trial.workload.service.ports().is_some()) {
        return Err("workload.service: `udp` has no connections; `plan` without --hosts checks its ports".into());
    }
    let mut largest: Vec<&Trial> = plan.trials.iter().collect();
    largest.sort_by(|a, b| size(b).partial_cmp(&size(a)).unwrap_or(Ordering::Equal));
    let most = *largest.first().ok_or("the plan has no trials")?;
    let mut architectures = BTreeSet::new();
    largest.retain(|trial| architectures.insert(trial.architecture.to_string()));
    let mut servers: Vec<ServerNeeds> = largest.iter().filter_map(|trial| server(trial, &figures)).collect();
    let bytes = |it: &ServerNeeds| it.user_bytes + it.kernel_bytes;
    servers.sort_by(|a, b| bytes(a).total_cmp(&bytes(b)).then_with(|| a.architecture.cmp(&b.architecture)));
    let reuses = setting(&TW_REUSE.replace('.', "/")) == Some(1);
    let clients = clients(most, &figures, client, reuses);
    let settings = settings(&servers, &clients, most, host, setting);
    Ok(Needs { experiment: plan.experiment.clone(), servers, clients, settings, figures })
}

/// Returns a key that orders trials by their requirements.
fn size(trial: &Trial) -> (u32, f64) {
    (trial.workload.connections_and_idle(), trial.workload.rate_per_s().unwrap_or(f64::INFINITY))
}

/// Returns the bytes of a request and of its response, if known. For `http`: a head of 128 bytes with the longest body, and the
/// longest known content.
fn sizes(workload: &Workload) -> Option<(f64, f64)> {
    let targets = || workload.http.iter().flat_map(|http| &http.targets);
    let content = targets().map(|it| it.body_bytes).max().flatten();
    let body = targets().filter_map(|it| it.body.as_ref()).map(|body| body.len()).max().unwrap_or(0);
    let fixed = workload.service.fixed().map(|(request, response)| (f64::from(request), f64::from(response)));
    fixed.or_else(|| content.map(|bytes| (128.0 + body as f64, bytes as f64)))
}

fn server(trial: &Trial, figures: &Figures) -> Option<ServerNeeds> {
    let connections = u64::from(trial.workload.connections_and_idle());
    let ServerResources { per_connection, descriptors_beside, workers, tasks, mappings, .. } =
        ServerResources::of(trial);
    let of_accept = trial.serve.ours().map_or(0, |serve| serve.accept.descriptors(serve.architecture.model, workers));
    let figure = figures.of(&trial.architecture)?;
    let descriptors = connections.max(of_accept) + descriptors_beside;
    let (descriptors, files) = match per_connection {
        PerConnection::Process => (descriptors_beside, workers * FILES_PER_PROCESS),
        PerConnection::Nothing | PerConnection::Stack | PerConnection::Thread => (descriptors, descriptors),
    };
    let on_the_way = |bytes: f64| bytes + (bytes / PACKET.1).ceil() * PACKET.0;
    let bits = |(request, response): (f64, f64)| on_the_way(request).max(on_the_way(response)) * 8.0;
    let bits_per_s = trial.workload.peak_per_s().zip(sizes(&trial.workload).map(bits)).map(|(rate, bits)| rate * bits);
    Some(ServerNeeds {
        architecture: trial.architecture.to_string(),
        workload: trial.workload.clone(),
        connections,
        descriptors,
        files,
        tasks,
        mappings,
        user_bytes: connections as f64 * figure.user_bytes,
        kernel_bytes: connections as f64 * figure.kernel_bytes,
        bits_per_s,
        origin: figure.origin.clone(),
        figures_of: figure.architecture.clone(),
    })
}

fn clients(trial: &Trial, figures: &Figures, host: ClientHost, reuses: bool) -> ClientNeeds {
    let time_wait_s = TIME_WAIT_S[usize::from(reuses)];
    let ports = load::io::source_ports::needed(&trial.load(), time_wait_s).ceil() as u64;
    let connections = u64::from(trial.workload.connections_and_idle());
    let rate_per_s = trial.workload.rate_per_s();
    let addresses = ports.div_ceil(host.ports.max(1)).max(1);
    let requests = rate_per_s.unwrap_or(0.0) * trial.workload.phases.sending_ns() as f64 / 1e9;
    let memory_bytes = connections as f64 * figures.client_bytes.value + requests * BYTES_PER_REQUEST as f64;
    let of_cpu = figures.client_per_s.value * CPU_SHARE;
    let cpus = trial.workload.peak_per_s().map_or(1, |peak_per_s| (peak_per_s / of_cpu).ceil().max(1.0) as u64);
    let by_memory = (memory_bytes / (host.memory_bytes as f64 * MEMORY_SHARE).max(1.0)).ceil().max(1.0) as u64;
    let hosts_by = [
        ("ports".to_owned(), addresses.div_ceil(host.addresses.max(1))),
        ("memory".to_owned(), by_memory),
        ("rate".to_owned(), cpus.div_ceil(host.cpus.max(1))),
    ];
    let (limit, hosts) = hosts_by.iter().rev().max_by_key(|(_, hosts)| *hosts).cloned().unwrap_or_default();
    ClientNeeds {
        host,
        hosts,
        limit,
        hosts_by,
        connections: connections.div_ceil(hosts),
        ports,
        addresses,
        rate_per_s: rate_per_s.map(|rate_per_s| rate_per_s / hosts as f64),
        cpus,
        memory_bytes: memory_bytes / hosts as f64,
    }
}

fn settings(
    servers: &[ServerNeeds],
    clients: &ClientNeeds,
    trial: &Trial,
    host: &Host,
    setting: impl Fn(&str) -> Option<u64>,
) -> Vec<Setting> {
    let most = |of: fn(&ServerNeeds) -> u64| servers.iter().map(of).max().unwrap_or(0);
    let (connections, descriptors, tasks) = (most(|it| it.connections), most(|it| it.descriptors), most(|it| it.tasks));
    let (request, response) = sizes(&trial.workload).unwrap_or((0.0, 0.0));
    let bytes_per_s = trial.workload.peak_per_s().unwrap_or(0.0) * (request + response);
    let pages =
        (f64::from(trial.workload.connections) * trial.workload.active() + bytes_per_s / PAGE_BYTES).ceil() as u64;
    let backlog = (CONNECTING * clients.hosts).min(BACKLOG).min(connections);
    let client_descriptors = clients.connections + DESCRIPTORS_BESIDE;
    let ports = clients.ports.div_ceil(clients.addresses);
    let reuse = u64::from(trial.workload.requests_per_connection().is_some());
    let response = 2 * response as u64;
    let rows = [
        ("ulimit -Hn", "server", descriptors, "descriptors of a process"),
        ("ulimit -Hu", "server", tasks, "threads or processes of the user"),
        ("pids.max (of the cgroup)", "server", tasks, "threads or processes of the cgroup"),
        ("fs.nr_open", "server", descriptors, "descriptors of a process"),
        ("fs.file-max", "server", most(|it| it.files), "open files of all processes"),
        ("kernel.pid_max", "server", tasks, "a thread or process per connection"),
        ("kernel.threads-max", "server", tasks, "a thread or process per connection"),
        ("vm.max_map_count", "server", most(|it| it.mappings), "stacks of threads or coroutines, with guard pages"),
        ("net.core.somaxconn", "server", backlog, "connections established at once"),
        ("net.ipv4.tcp_max_syn_backlog", "server", backlog, "connections established at once"),
        ("net.ipv4.tcp_mem (third value, pages)", "server", pages, "a page per active connection, and 1 s of traffic"),
        ("net.ipv4.tcp_wmem (second value)", "server", response, "a response in one write"),
        ("net.netfilter.nf_conntrack_max", "server", connections, "only if a firewall tracks connections"),
        ("ulimit -Hn", "client", client_descriptors, "descriptors of a process"),
        ("fs.nr_open", "client", client_descriptors, "descriptors of a process"),
        (PORT_RANGE, "client", ports, "connections from one address"),
        ("net.ipv4.tcp_rmem (second value)", "client", response, "an unread response"),
        ("net.netfilter.nf_conntrack_max", "client", clients.connections, "only if a firewall tracks connections"),
        (TW_REUSE, "client", reuse, "reuse of a port after 1 s instead of 60 s"),
    ];
    let fact = |name: &str| host.facts.get(name).map(|limit| limit.parse().unwrap_or(u64::MAX));
    let here = |name: &str| match name.split(' ').next().unwrap_or_default() {
        "ulimit" if name.ends_with('n') => Some(host.descriptors_max),
        "ulimit" => fact("processes max"),
        "pids.max" => fact("cgroup tasks max"),
        _ if name == PORT_RANGE => Some(host.ports),
        name => setting(&name.replace('.', "/")),
    };
    let rows = rows.into_iter().filter(|(_, _, needed, _)| *needed > 0);
    rows.map(|(name, whose, needed, about)| Setting { name, whose, needed, here: here(name), about }).collect()
}

/// Reads a kernel setting from its path below /proc/sys. From several numbers, returns the last one; for buffer sizes,
/// the middle one.
pub fn setting_here(path: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match path {
        "net/ipv4/tcp_wmem" | "net/ipv4/tcp_rmem" => numbers.get(1).copied(),
        _ => numbers.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunHeader;
    use crate::spec::presets;

    fn client(addresses: u64) -> ClientHost {
        ClientHost { cpus: 16, memory_bytes: 64 << 30, addresses, ports: PORTS_MAX }
    }

    fn needs(connections: u32, rate: f64, addresses: u64) -> Needs {
        let mut experiment = presets::find("compare").unwrap().experiment();
        experiment.architectures.0 = ["epoll", "io_uring", "mt", "mp"].map(|name| name.parse().unwrap()).into();
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(connections).unwrap()];
        experiment.workload.rate = Some(crate::spec::OneOrMany(vec![crate::spec::units::Rate(rate)]));
        let plan = crate::plan::plan(&experiment, &Host::made_up()).unwrap();
        of(&plan, Figures::documented(), client(addresses), &Host::made_up(), |path| {
            (path == "fs/nr_open").then_some(1 << 20)
        })
        .unwrap()
    }

    #[test]
    fn million_connections_need_many_addresses() {
        let needs = needs(1_000_000, 100_000.0, 1);
        assert_eq!((needs.clients.hosts, needs.clients.limit.as_str()), (16, "ports"), "{:?}", needs.clients);
        assert_eq!((needs.clients.addresses, needs.clients.connections), (16, 62_500));
        let of = |name: &str| needs.servers.iter().find(|it| it.architecture == name).unwrap();
        assert_eq!((of("epoll").descriptors, of("epoll").tasks), (1_000_064, 0));
        assert_eq!((of("mt").tasks, of("mp").descriptors), (1_000_256, 64));
        assert!(of("mp").kernel_bytes > of("mt").kernel_bytes && of("mt").user_bytes > of("epoll").user_bytes);
        let setting = |name: &str, whose: &str| needs.settings.iter().find(|it| it.name == name && it.whose == whose);
        let files = setting("fs.nr_open", "server").unwrap();
        assert!(files.needed == 1_000_064 && files.suffices(), "{files:?}");
        assert!(!setting("ulimit -Hn", "server").unwrap().suffices());
        assert_eq!(setting("vm.max_map_count", "server").unwrap().needed, 2_000_512);
        assert!(setting("net.ipv4.tcp_tw_reuse", "client").is_none(), "connections stay open, so no port is reused");
        let tasks = setting("ulimit -Hu", "server").unwrap();
        assert_eq!((tasks.needed, tasks.here), (1_000_256, None), "the made-up host lacks this fact");
    }

    #[test]
    fn task_limits_are_compared_with_required_tasks() {
        let facts = [("processes max", "unlimited"), ("cgroup tasks max", "1000")];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let host = Host { facts, ..Host::made_up() };
        let settings = |architecture: &str| {
            let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
            experiment.architectures.0 = vec![architecture.parse().unwrap()];
            experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(900).unwrap()];
            let plan = crate::plan::plan(&experiment, &host).unwrap();
            of(&plan, Figures::documented(), client(1), &host, |_| None).unwrap().settings
        };
        let limits = |architecture: &str| {
            let is_one = |it: &Setting| it.name == "ulimit -Hu" || it.name.starts_with("pids.max");
            settings(architecture).into_iter().filter(is_one).map(|it| it.suffices()).collect::<Vec<_>>()
        };
        assert_eq!((limits("mt"), limits("mp"), limits("epoll")), (vec![true, false], vec![true, false], vec![]));
    }

    #[test]
    fn port_reuse_over_loopback_alone_does_not_suffice() {
        let mut experiment = presets::find("compare").unwrap().experiment();
        experiment.workload.requests_per_connection = std::num::NonZeroU32::new(1);
        experiment.phases.measure = crate::spec::units::Time(800_000_000);
        let plan = crate::plan::plan(&experiment, &Host::made_up()).unwrap();
        let with = |reuse: u64| {
            let setting = |path: &str| (path == "net/ipv4/tcp_tw_reuse").then_some(reuse);
            let needs = of(&plan, Figures::documented(), client(1), &Host::made_up(), setting).unwrap();
            let setting = needs.settings.iter().find(|it| it.name == TW_REUSE).unwrap();
            (setting.suffices(), needs.clients.ports)
        };
        let [never, always, loopback] = [0, 1, 2].map(with);
        assert!(always.0 && never.1 > always.1, "{always:?} {never:?}");
        assert_eq!(loopback, (false, never.1));
        assert_eq!(never.0, loopback.0);
    }

    #[test]
    fn distributed_run_is_rejected_as_source_of_figures() {
        let of = |is_distributed| {
            let plan = crate::plan::plan(&presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
            let header = RunHeader { is_distributed, ..RunHeader::made_up(plan) };
            let run = Run { header, records: Vec::new(), damage: Vec::new() };
            Figures::documented().with_run(&run, "results/x")
        };
        assert_eq!(of(false), Ok(Figures::documented()), "a run without trials replaces no figure");
        assert_eq!(
            of(true).unwrap_err(),
            "--from results/x: it is a distributed run; name a run without --distributed"
        );
    }

    #[test]
    fn clients_with_many_addresses_are_limited_by_rate_or_memory() {
        let of_rate = needs(1_000_000, 4_000_000.0, 64).clients;
        assert_eq!((of_rate.limit.as_str(), of_rate.hosts), ("rate", of_rate.cpus.div_ceil(16)), "{of_rate:?}");
        let of_memory = needs(100_000_000, 1_000.0, 1_000).clients;
        assert_eq!(of_memory.limit, "memory", "{of_memory:?}");
        assert!(of_memory.memory_bytes <= 0.8 * (64u64 << 30) as f64, "{of_memory:?}");
    }

    #[test]
    fn udp_is_rejected() {
        let plan =
            crate::plan::plan(&presets::find("maharjan2012-udp").unwrap().experiment(), &Host::made_up()).unwrap();
        let error = of(&plan, Figures::documented(), client(1), &Host::made_up(), |_| None).unwrap_err();
        assert!(error.starts_with("workload.service: "), "{error}");
    }
}
