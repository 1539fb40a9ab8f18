//! `muxbench compare`: the main job. Flags make an experiment; the rest is as for a file.

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::config::{Choice, ClockChoice, Pacing, Roles, Schedule, Timestamps};
use anyhow::bail;
use harness::contender::Contender;
use harness::experiment::{Experiment, List, Phases, Service, Workload};
use harness::http::Header;
use harness::network::Network;
use harness::presets;
use harness::stream::{self, Stream};
use harness::transport::Transport;
use harness::units::{Bandwidth, Budget, Cpus, Loss, Rate, Share, Size, Sizes, Think, Time, Work};
use server::{Accept, Architecture};
use wire::ServiceSpec;
use wire::stream::Direction;

use crate::{execution, output};

/// Run one workload against several architectures and say which is best
///
/// Without flags: mp, mt, select, poll and epoll, 400 and 2 000 connections, 128 B -> 10 KiB at 2 000 requests/s, three
/// interleaved repeats, in under a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench compare
  muxbench compare --arch epoll,mt --connections 10000 --rate 500,2000 --measure 10s --repeats 5
  muxbench compare --request 1B --response 1B --rate 8000 --json > result.json
  muxbench compare --connections 10000 --active 1/64,1 --idle 5000      # locality (kawai2006)
  muxbench compare --arch epoll,symped:2 --schedule closed --connections 20,100     # transactions a second
  muxbench compare --arch epoll,mt --schedule closed --service kv --keys zipf:0.99  # of a key-value store
  muxbench compare --arch epoll,mt --service http --response 1KiB   # HTTP/1.1, a GET of /bytes/1024
  muxbench compare --arch all --calls-per-connection 1 --rate 1000  # each request on a connection of its own
  muxbench compare --arch epoll,select,mt --service udp --ports 10,1000 --rate 100  # datagrams to many ports
  muxbench compare --arch epoll,epoll-buffered,mt --service stream --connections 1,100  # bandwidth
  muxbench compare --transport unix         # over Unix sockets; tcp6 is over IPv6
  muxbench compare --network lab --delay 10ms --jitter 1ms --loss 0.1% --bandwidth 1Gbit   # hosts apart (needs root)
  muxbench compare --arch all --explain --count-syscalls  # what each really calls, runtimes too
  muxbench compare --timestamps kernel --strict      # proof of sending; only valid trials will do
  muxbench compare --measure 1min --print-experiment > mine.toml    # the same as a file, to keep")]
pub struct Args {
    #[command(flatten)]
    setup: SetupArgs,
    /// Requests a second, several with commas
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    rate: Vec<Rate>,
    /// How often each trial is run
    #[arg(long, value_name = "N")]
    repeats: Option<NonZeroU32>,
    #[command(flatten)]
    execution: execution::ExecutionArgs,
    /// Print the experiment that these flags make, as a file for `muxbench run`, and do nothing
    #[arg(long)]
    print_experiment: bool,
}

/// Flags of servers, traffic and client, for every command that makes an experiment of flags: all but the rates and how often.
#[derive(Debug, clap::Args)]
pub struct SetupArgs {
    /// Architectures: `MODEL[:THREADS][/MECHANISM]`, several with commas, or `all`; see `muxbench list`
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    arch: Vec<String>,
    /// How pools accept: single, shared, reuseport, exclusive [default: shared]
    #[arg(long, value_name = "ACCEPT", value_parser = named::<Accept>)]
    accept: Option<Accept>,
    /// Most bytes that one read takes from a connection before others have their turn, 1B to 1MiB [default: 64KiB]
    #[arg(long, value_name = "SIZE")]
    read_budget: Option<Budget>,
    #[command(flatten)]
    stages: StageArgs,
    /// Have the kernel count the servers' system calls too, of runtimes as well; each call becomes dearer, so compare times
    /// without it. Shown by --explain
    #[arg(long)]
    count_syscalls: bool,
    /// How requests get to the servers: tcp, tcp6 (over IPv6), unix (Unix sockets) [default: tcp]
    #[arg(long, value_name = "TRANSPORT", value_parser = named::<Transport>)]
    transport: Option<Transport>,
    /// Connections held open, several with commas
    #[arg(long, value_name = "N", value_delimiter = ',')]
    connections: Vec<NonZeroU32>,
    /// Ports of the server in place of connections, several with commas, of `udp` [default: 10, 1000]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    ports: Vec<NonZeroU32>,
    /// When requests are sent, several with commas: slot-random, constant, poisson; closed: when the last response came; of
    /// several clients at constant intervals constant has them take turns, constant-drawn each begin at a time of its own,
    /// constant-together all send at once [default: slot-random, of stream closed]
    #[arg(long, value_name = "SCHEDULE", value_delimiter = ',', value_parser = named::<Schedule>)]
    schedule: Vec<Schedule>,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Folder whose files the service `http` has; without it it has /bytes/N, of N bytes
    #[arg(long, value_name = "FOLDER", help_heading = "HTTP")]
    folder: Option<PathBuf>,
    /// Share of the connections that requests are sent on, as in 1/16 or 6.25%, several with commas
    #[arg(long, value_name = "SHARE", value_delimiter = ',')]
    active: Vec<Share>,
    /// Connections held open besides, by a process of their own, that nothing is sent on, several with commas
    #[arg(long, value_name = "N", value_delimiter = ',')]
    idle: Vec<u32>,
    /// How a request's connection is chosen: uniform, zipf (exponent 1), zipf:0.8 [default: uniform]
    #[arg(long, value_name = "CHOICE")]
    choice: Option<Choice>,
    /// Work that each request is for the server: cpu=50us or sleep=1ms, and with random times cpu=50us,exponential
    #[arg(long, value_name = "WORK")]
    work: Option<Work>,
    /// Seed of everything random: the order of trials, the schedules
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// The rate grows exponentially to its target for so long
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    ramp: Option<Time>,
    /// The rate is held for so long before measuring
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    hold: Option<Time>,
    /// Requests planned in this time are the result
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    measure: Option<Time>,
    /// At most this long is waited for the last responses
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    drain: Option<Time>,

    #[command(flatten)]
    network: NetworkArgs,

    /// CPUs of the server, as in 0-1,3 [default: one half]
    #[arg(long, value_name = "CPUS", help_heading = "Placement")]
    server_cpus: Option<Cpus>,
    /// CPUs of the client [default: the other half]
    #[arg(long, value_name = "CPUS", help_heading = "Placement")]
    client_cpus: Option<Cpus>,

    #[command(flatten)]
    client: ClientArgs,
    /// Processes that divide connections and rate among themselves, each with --clients [default: 1, in a lab one for each
    /// client's host]
    #[arg(long, value_name = "N", help_heading = "Client")]
    client_processes: Option<NonZeroU32>,
}

/// Flags of the network between server and client.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkArgs {
    /// A lab in place of loopback: hosts of their own on this machine for the server and its client, or for so many clients'
    /// hosts: lab, lab:clients=5
    #[arg(long, value_name = "NETWORK")]
    network: Option<Network>,
    /// How long each packet is on its way, each way, as in 10ms
    #[arg(long, value_name = "TIME", requires = "network")]
    delay: Option<Time>,
    /// By how much that may be less or more
    #[arg(long, value_name = "TIME", requires = "network")]
    jitter: Option<Time>,
    /// Share of packets that are lost, each way, as in 0.1%
    #[arg(long, value_name = "SHARE", requires = "network")]
    loss: Option<Loss>,
    /// What each host can send, as in 1Gbit
    #[arg(long, value_name = "BANDWIDTH", requires = "network")]
    bandwidth: Option<Bandwidth>,
    /// What a host that was silent sends at once, before the bandwidth holds it back, as in 11KiB [default: that of 1 ms]
    #[arg(long, value_name = "SIZE", requires = "bandwidth")]
    burst: Option<Size>,
}

impl NetworkArgs {
    /// The network that was said, if any was.
    pub fn network(&self) -> Option<Network> {
        let mut network = self.network.clone()?;
        set(&mut network.delay, self.delay);
        set(&mut network.jitter, self.jitter);
        network.loss = self.loss;
        network.bandwidth = self.bandwidth;
        network.burst = self.burst;
        Some(network)
    }
}

/// Flags of the client, for `compare` and `load`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// How a sender waits for the next planned time: auto, yield, spin, sleep-spin [default: auto]
    #[arg(long, value_name = "PACING", value_parser = named::<Pacing>)]
    pub pacing: Option<Pacing>,
    /// Send and receive in one loop or two threads: auto, one-loop, two-threads [default: auto]
    #[arg(long, value_name = "ROLES", value_parser = named::<Roles>)]
    pub roles: Option<Roles>,
    /// Independent clients, which divide connections and rate [default: 1, in a closed loop one for each CPU]
    #[arg(long, value_name = "N")]
    pub clients: Option<NonZeroU32>,
    /// Clock of timestamps: auto, tsc, monotonic [default: auto]
    #[arg(long, value_name = "CLOCK", value_parser = named::<ClockChoice>)]
    pub clock: Option<ClockChoice>,
    /// Who takes timestamps: client; kernel, which proves when a request left [default: client]
    #[arg(long, value_name = "WHO", value_parser = named::<Timestamps>)]
    pub timestamps: Option<Timestamps>,
    /// A connection that takes longer to be made and served fails the trial [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Time>,
}

/// Flags of the service and of closed loops, for `compare` and `load`.
#[derive(Debug, clap::Args)]
pub struct TrafficArgs {
    /// How long a connection of a closed loop thinks: 1ms, and with random times 1ms,exponential [default: 0]
    #[arg(long, value_name = "THINK")]
    think: Option<Think>,
    /// Requests on each connection, after which another takes its place; in an open loop sessions of so many requests begin
    /// by the schedule, and --connections is the most that are open at once [default: connections stay]
    #[arg(long, value_name = "N")]
    calls_per_connection: Option<NonZeroU32>,
    /// What the server does with bytes: fixed; kv, a key-value store; http; udp, datagrams to many ports; stream, bursts
    /// as fast as they go [default: fixed]
    #[arg(long, value_name = "SERVICE", value_parser = named::<Service>)]
    service: Option<Service>,
    /// Size of a request, of `fixed` and `udp` [default: 128B]
    #[arg(long, value_name = "SIZE")]
    request: Option<Size>,
    /// Size of a response, of `fixed` and `udp`; of `http`, of its content [default: 10KiB, of udp 128B]
    #[arg(long, value_name = "SIZE")]
    response: Option<Size>,
    /// Path that `http` asks for; several are asked for in turn [default: /bytes/N, N as --response says]
    #[arg(long, value_name = "PATH", help_heading = "HTTP")]
    pub path: Vec<String>,
    /// Header sent with each request, as in `Accept: text/html`; may be given several times
    #[arg(long, value_name = "HEADER", help_heading = "HTTP")]
    header: Vec<Header>,
    /// What each response's status must be [default: 200]
    #[arg(long, value_name = "STATUS", help_heading = "HTTP")]
    expect_status: Option<NonZeroU16>,
    /// Records of `kv`, all of them stored before the ramp [default: 30000]
    #[arg(long, value_name = "N", help_heading = "Key-value store")]
    records: Option<NonZeroU32>,
    /// Sizes of their values, even over the logarithm [default: 10B..1000B]
    #[arg(long, value_name = "SIZE..SIZE", help_heading = "Key-value store")]
    value_size: Option<Sizes>,
    /// Share of requests that get a record; the others set one [default: 90%]
    #[arg(long, value_name = "SHARE", help_heading = "Key-value store")]
    get_share: Option<Share>,
    /// How a request's record is chosen: uniform, zipf (exponent 1), zipf:0.99 [default: uniform]
    #[arg(long, value_name = "CHOICE", help_heading = "Key-value store")]
    keys: Option<Choice>,
    /// The server's memory for records [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    memory: Option<Size>,
    /// Most that a record may take of it, at most a quarter [default: 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    item_max: Option<Size>,
    #[command(flatten)]
    stream: StreamArgs,
}

/// Flags of the service `stream`, for the server's side and the client's.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub struct StreamArgs {
    /// Size of a packet of `stream` [default: 8KiB]
    #[arg(long, value_name = "SIZE")]
    packet: Option<Size>,
    /// Packets of a burst [default: 1000]
    #[arg(long, value_name = "N")]
    packets: Option<NonZeroU32>,
    /// What each burst is answered with or, if the server sends, asked for with [default: 32B]
    #[arg(long, value_name = "SIZE")]
    ack: Option<Size>,
    /// Who sends the bursts: in, the clients; out, the server [default: in]
    #[arg(long, value_name = "DIRECTION", value_parser = named::<Direction>)]
    direction: Option<Direction>,
}

impl StreamArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, stream: &mut Stream) {
        set(&mut stream.packet, self.packet);
        set(&mut stream.packets, self.packets);
        set(&mut stream.ack, self.ack);
        set(&mut stream.direction, self.direction);
    }
}

impl TrafficArgs {
    /// Whether the sizes of what is sent were said.
    pub fn says_sizes(&self) -> bool {
        self.request.is_some() || self.stream.packet.is_some() && self.stream.ack.is_some()
    }

    /// Puts what a server says that it serves in place of what was there, and then what was said.
    pub fn apply_served(&self, workload: &mut Workload, served: &ServiceSpec) {
        let served_as = match served {
            ServiceSpec::Fixed { .. } => Service::Fixed,
            ServiceSpec::Kv { .. } => Service::Kv,
            ServiceSpec::Http { .. } => Service::Http,
            ServiceSpec::Udp { .. } => Service::Udp,
            ServiceSpec::Stream(_) => Service::Stream,
        };
        workload.service = served_as;
        if self.service.unwrap_or(served_as) == served_as {
            workload.stream = served.stream().map(Stream::from);
        }
        self.apply(workload);
        if workload.service == served_as
            && let Some((request_bytes, response_bytes)) = served.fixed()
        {
            workload.request = self.request.or(Some(Size(request_bytes)));
            workload.response = self.response.or(Some(Size(response_bytes)));
        }
    }

    /// Whether it was said which service that is, or how large its messages are.
    pub fn says_what_is_served(&self) -> bool {
        self.service.is_some() || self.request.is_some() || self.response.is_some()
    }

    /// Puts what was said in place of what was there.
    pub fn apply(&self, workload: &mut Workload) {
        set(&mut workload.think, self.think);
        set(&mut workload.service, self.service);
        workload.calls_per_connection = self.calls_per_connection.or(workload.calls_per_connection);
        if matches!(workload.service, Service::Kv | Service::Stream) {
            // What was there is of another service; what was said is refused.
            (workload.request, workload.response) = (None, None);
        }
        if workload.service == Service::Http {
            workload.request = None;
            if !self.path.is_empty() {
                workload.response = None;
            }
        }
        if workload.service == Service::Udp {
            // What fits in one packet of any network.
            workload.response = workload.request;
        }
        workload.request = self.request.or(workload.request);
        workload.response = self.response.or(workload.response);
        let mut http = workload.http.clone().unwrap_or_default();
        let before = http.clone();
        http.paths = (!self.path.is_empty()).then(|| List(self.path.clone())).or(http.paths);
        http.headers.extend(self.header.iter().cloned());
        http.status = self.expect_status.or(http.status);
        if http != before {
            workload.http = Some(http);
        }
        let mut bursts = workload.stream.clone().unwrap_or_default();
        let before = bursts.clone();
        self.stream.apply(&mut bursts);
        if workload.service == Service::Stream || bursts != before {
            workload.stream = Some(bursts);
        }
        let mut kv = workload.kv.clone().unwrap_or_default();
        let before = kv.clone();
        set(&mut kv.records, self.records);
        set(&mut kv.value_size, self.value_size);
        set(&mut kv.get_share, self.get_share);
        set(&mut kv.keys, self.keys);
        set(&mut kv.memory, self.memory);
        set(&mut kv.item_max, self.item_max);
        if workload.service == Service::Kv || kv != before {
            workload.kv = Some(kv);
        }
    }
}

/// Where the threads of each stage run, of models in stages.
#[derive(Debug, clap::Args)]
pub struct StageArgs {
    /// CPUs of the accept thread, among the server's [default: all of them]
    #[arg(long, value_name = "CPUS")]
    accept_cpus: Option<Cpus>,
    /// CPUs of the network threads
    #[arg(long, value_name = "CPUS")]
    network_cpus: Option<Cpus>,
    /// CPUs of the payload threads
    #[arg(long, value_name = "CPUS")]
    payload_cpus: Option<Cpus>,
}

impl StageArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, server: &mut harness::experiment::Server) {
        let stages = [
            (&self.accept_cpus, &mut server.accept_cpus),
            (&self.network_cpus, &mut server.network_cpus),
            (&self.payload_cpus, &mut server.payload_cpus),
        ];
        for (said, cpus) in stages {
            if said.is_some() {
                cpus.clone_from(said);
            }
        }
    }
}

/// Reads a name as experiment files have it. The error lists the names there are.
pub fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| error.to_string())
}

impl ClientArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, client: &mut harness::experiment::Client) {
        set(&mut client.pacing, self.pacing);
        set(&mut client.roles, self.roles);
        client.clients = self.clients.or(client.clients);
        set(&mut client.clock, self.clock);
        set(&mut client.timestamps, self.timestamps);
        set(&mut client.timeout, self.timeout);
    }
}

/// Puts what was said, if anything, in place of what was there.
pub fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn set_list<T>(place: &mut List<T>, values: Vec<T>) {
    if !values.is_empty() {
        place.0 = values;
    }
}

/// Compares.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.execution.is_resume() {
        return execution::resume(&args.execution);
    }
    let experiment = || {
        let mut experiment = args.setup.experiment()?;
        if !args.rate.is_empty() {
            experiment.workload.rate = Some(List(args.rate.clone()));
        }
        set(&mut experiment.repeats, args.repeats);
        checked(&experiment)
    };
    if args.print_experiment {
        output::print(&experiment()?.1)?;
        return Ok(ExitCode::SUCCESS);
    }
    execution::start(|| Ok(experiment()?.0), &args.execution)
}

impl SetupArgs {
    /// The preset `compare` with what was said in place of what was there.
    ///
    /// # Errors
    /// When an architecture is none.
    pub fn experiment(&self) -> anyhow::Result<Experiment> {
        let mut experiment = presets::find("compare").expect("it is in the table").experiment();
        set_list(&mut experiment.architectures, architectures(&self.arch)?);
        set(&mut experiment.workload.transport, self.transport);
        set_list(&mut experiment.workload.connections, self.connections.clone());
        set_list(&mut experiment.workload.schedule, self.schedule.clone());
        self.traffic.apply(&mut experiment.workload);
        experiment.workload.ports = List(self.ports.clone());
        if experiment.workload.service == Service::Udp {
            // The preset's; if some were given, they are refused.
            if self.connections.is_empty() {
                experiment.workload.connections = List(Vec::new());
            }
            if experiment.workload.ports.0.is_empty() {
                experiment.workload.ports = List([10, 1_000].into_iter().filter_map(NonZeroU32::new).collect());
            }
        }
        if self.folder.is_some() {
            experiment.workload.http.get_or_insert_default().folder.clone_from(&self.folder);
        }
        if experiment.workload.service == Service::Stream {
            if self.schedule.is_empty() {
                experiment.workload.schedule = List(vec![Schedule::Closed]);
            }
            experiment.phases.drain = stream::DRAIN;
        }
        if experiment.workload.is_closed() {
            // The preset's is of an open loop; one that was given is refused.
            experiment.workload.rate = None;
        }
        set_list(&mut experiment.workload.active, self.active.clone());
        set_list(&mut experiment.workload.idle, self.idle.clone());
        set(&mut experiment.workload.choice, self.choice);
        set(&mut experiment.seed, self.seed);
        set(&mut experiment.phases.ramp, self.ramp);
        set(&mut experiment.phases.hold, self.hold);
        set(&mut experiment.phases.measure, self.measure);
        set(&mut experiment.phases.drain, self.drain);
        experiment.network = self.network.network();
        experiment.placement.server.clone_from(&self.server_cpus);
        experiment.placement.client.clone_from(&self.client_cpus);
        experiment.server.accept = self.accept.or(experiment.server.accept);
        experiment.server.read_budget = self.read_budget.or(experiment.server.read_budget);
        self.stages.apply(&mut experiment.server);
        experiment.workload.work = self.work.or(experiment.workload.work);
        experiment.server.count_syscalls = self.count_syscalls;
        self.client.apply(&mut experiment.client);
        experiment.client.processes = self.client_processes.or(experiment.client.processes);
        Ok(experiment)
    }

    /// For trials at many rates: other phases and the fewer connections of the preset, where nothing was said of them.
    pub fn set_many_rates(&self, experiment: &mut Experiment, phases: &Phases) {
        experiment.phases = Phases {
            ramp: self.ramp.unwrap_or(phases.ramp),
            hold: self.hold.unwrap_or(phases.hold),
            measure: self.measure.unwrap_or(phases.measure),
            drain: self.drain.unwrap_or(phases.drain),
        };
        if self.connections.is_empty() {
            experiment.workload.connections.0.truncate(1);
        }
    }
}

/// Takes an experiment that flags made through a file's own checks, and gives it as a file too: a list with a value twice is as
/// wrong here as there.
///
/// # Errors
/// What a file would be refused for.
pub fn checked(experiment: &Experiment) -> anyhow::Result<(Experiment, String)> {
    let text = toml::to_string(experiment)?;
    Ok((Experiment::parse(&text, "flags")?, text))
}

fn architectures(names: &[String]) -> anyhow::Result<Vec<Contender>> {
    if names == ["all"] {
        return Ok(Architecture::all().into_iter().map(Contender::from).collect());
    }
    let read = |name: &String| {
        let contender = name.parse().map_err(anyhow::Error::msg)?;
        if let Contender::Exec(exec) = &contender {
            bail!(
                "--arch {name}: a flag cannot define a command; write an experiment file with a table [exec.{exec}] \
                 (`--print-experiment` makes one to begin with) and use `muxbench run FILE --allow-exec`"
            );
        }
        Ok(contender)
    };
    names.iter().map(read).collect()
}
