//! Experiment → plan: every default explicit, trials interleaved in seeded order, impossible ones with the reason.

pub mod needs;

use std::net::IpAddr;
use std::num::NonZeroU32;

use load::LoadConfig;
use load::config::{Pacing, Phases, Schedule};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use server::spec::mechanism::{Family, Spins};
use server::spec::model::PerConnection;
use server::{Accept, Architecture, ExternalConfig, ReadBudget, ServeConfig, ServerSpec};
use wire::ServiceSpec;

use crate::host::Host;
use crate::host::placement;
use crate::model::network::{Applied, Links};
use crate::model::{FleetFacts, Trial, Workload};
use crate::netns::addresses;
use crate::netns::conditions::{self, Found};
use crate::spec::network::Network;
use crate::spec::transport::Transport;
use crate::spec::units::{Cpus, Size};
use crate::spec::{Candidate, Experiment, Service};

/// Descriptors that a process needs besides its connections'.
pub(crate) const DESCRIPTORS_BESIDE: u64 = 64;
/// Room of a server, and workers of a pool, beyond its connections.
const SPARE: u32 = 16;
/// Ports above those that only root may have.
const PORTS_MAX: u64 = 65_535 - 1_023;
/// Tasks that exist besides a server's.
pub(crate) const TASKS_BESIDE: u64 = 256;
/// Mappings of a stack: itself, and the guard below it.
pub(crate) const MAPPINGS_PER_STACK: u64 = 2;
/// Mappings of a process besides its threads'.
pub(crate) const MAPPINGS_BESIDE: u64 = 512;
/// Connections that may be expected to wait behind another in a trial that is run all the same.
const WAITING_MAX: f64 = 0.01;
/// Memory of a planned request: its record, its sample, what summarising takes, and room for the kernel's timestamps.
pub(crate) const BYTES_PER_REQUEST: u64 = 176;
/// Memory of a connection in bytes, both its ends and the kernel's part, rounded up from what was seen at 400 and 2 000
/// connections on Linux 6: 7 kB in an event loop, 17 kB more with a stack, 48 kB with a thread, 200 kB with a process.
fn bytes_per_connection(per_connection: PerConnection) -> u64 {
    match per_connection {
        PerConnection::Nothing => 8 << 10,
        PerConnection::Stack => 32 << 10,
        PerConnection::Thread => 64 << 10,
        PerConnection::Process => 256 << 10,
    }
}

/// Memory that read budgets above the default take besides, in bytes. A thread, process or coroutine has its own room for a
/// connection; a kernel that receives by itself has a ring of as many buffers as there are connections, at most 1 024.
fn budget_bytes(serve: &ServeConfig, connections: u64) -> u64 {
    let beyond = serve.read_budget_bytes.bytes().saturating_sub(ReadBudget::default().bytes()) as u64;
    let completes = serve.architecture.mechanism.is_some_and(|row| row.family == Family::Completion);
    let rooms = match serve.architecture.model.per_connection {
        PerConnection::Nothing if completes => connections.next_power_of_two().min(1_024),
        PerConnection::Nothing => 0,
        PerConnection::Stack | PerConnection::Thread | PerConnection::Process => connections,
    };
    beyond * rooms
}

/// Memory mappings of `count` threads or coroutines, each with a stack and with room for one read budget. glibc maps room of
/// 128 KiB and more on its own (mallopt(3), M_MMAP_THRESHOLD).
pub(crate) fn mappings(count: u64, budget: ReadBudget) -> u64 {
    count * (MAPPINGS_PER_STACK + u64::from(budget.bytes() >= 128 << 10)) + MAPPINGS_BESIDE
}

/// What starting and ending the processes of a trial takes, in nanoseconds; seen to be 100 to 200 ms.
const OVERHEAD_NS: u64 = 200_000_000;
/// What a lab's network takes to be measured, in nanoseconds.
const PROBE_NS: u64 = 1_000_000_000;
/// What a connection takes to be made, verified and ended, in nanoseconds; the most, for a process each.
const CONNECT_NS: u64 = 250_000;
/// What a record takes to be stored before the ramp, in nanoseconds; the most, for a server in stages.
const STORE_NS: u64 = 5_000;

/// What will be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Where server and client run, in a sentence.
    pub placement: String,
    /// The network between server and client, if it is a lab, and how it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// What can be run here, and will not show what it should; each said once.
    pub warnings: Vec<String>,
    /// The trials in order.
    pub trials: Vec<Trial>,
}

impl Plan {
    /// How long it will take, roughly, in nanoseconds; impossible trials take none.
    pub fn duration_ns(&self) -> u64 {
        self.trials.iter().filter(|trial| trial.infeasible.is_empty()).map(duration_ns).sum()
    }

    /// The same in order of rates: each is finished, with all its repeats, before the next begins, and its trials are in the
    /// order that was drawn.
    pub fn by_rate(mut self) -> Self {
        let rate = |trial: &Trial| trial.workload.rate_per_s.unwrap_or(f64::INFINITY);
        self.trials.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        (0..).zip(&mut self.trials).for_each(|(index, trial)| trial.index = index);
        self
    }
}

/// How long a trial will take, roughly, in nanoseconds.
pub fn duration_ns(trial: &Trial) -> u64 {
    trial.workload.phases.sending_ns()
        + OVERHEAD_NS
        + trial.workload.network.as_ref().map_or(0, |_| PROBE_NS)
        + u64::from(trial.load.connections_and_idle()) * CONNECT_NS
        + trial.load.kv.as_ref().map_or(0, |kv| u64::from(kv.records) * STORE_NS)
}

/// Makes a plan for `host`.
///
/// # Errors
/// When no trial could be placed at all, or somebody else's server cannot be found. A trial that is impossible stays in the plan, with the reasons.
pub fn plan(experiment: &Experiment, host: &Host) -> Result<Plan, String> {
    let fleet = host.fleet.as_ref();
    let placement = if fleet.is_some_and(FleetFacts::are_elsewhere) {
        placement::place_server(&host.cores, &experiment.placement)?
    } else {
        placement::place(&host.cores, &experiment.placement)?
    };
    find_commands(experiment)?;
    let mut order = Xoshiro256PlusPlus::seed_from_u64(experiment.seed);
    let mut trials = Vec::new();
    for repeat in 0..experiment.repeats.get() {
        // All configurations once, in random order, then all once more: nothing is run in blocks.
        let mut round = Vec::new();
        for connections in experiment.workload.targets().iter().map(|targets| targets.get()) {
            for &idle in &experiment.workload.idle.0 {
                for active in experiment.workload.active.0.iter().map(|share| share.0) {
                    for rate_per_s in rates(experiment) {
                        for &schedule in &experiment.workload.schedule.0 {
                            let workload = workload(experiment, (connections, idle), active, rate_per_s, schedule);
                            let architectures = experiment.architectures.0.iter();
                            round.extend(architectures.map(|architecture| (workload.clone(), architecture.clone())));
                        }
                    }
                }
            }
        }
        round.shuffle(&mut order);
        for (workload, architecture) in round {
            let place = (&placement, fleet);
            trials.push(trial(experiment, place, trials.len() as u32, repeat, workload, architecture));
        }
    }
    let mut kernel = CapabilityCache::default();
    for trial in &mut trials {
        trial.infeasible = impossible(trial, host, &mut kernel);
    }
    let mut warnings = warnings(experiment, &placement, &host.cores);
    let mut network = None;
    if let (Some(asked), Some(Ok(applied))) = (&experiment.network, &kernel.network) {
        network = Some(format!("{asked}: {}", applied.words()));
        warnings.extend(warnings_of_lab(asked, applied, &placement, processes(experiment)));
    }
    Ok(Plan {
        experiment: experiment.name.clone(),
        seed: experiment.seed,
        network,
        warnings,
        placement: placement.sentence,
        trials,
    })
}

/// What a placement disturbs or is too small for; `cores` are the CPUs allowed, threads of one core together.
fn warnings(experiment: &Experiment, placement: &placement::Placement, cores: &[Vec<usize>]) -> Vec<String> {
    let cpus = Cpus(placement.server.clone());
    let mut warnings: Vec<String> = shared(placement, cores).into_iter().collect();
    let staged = experiment.architectures.0.iter().filter_map(|it| it.ours()).filter(|it| it.model.multiplexes());
    let crowded = staged.filter_map(|it| Some((it, it.threads_at_once()? as usize)));
    let crowded: Vec<String> = crowded
        .filter(|(_, threads)| *threads > placement.server.len().max(1))
        .map(|(architecture, threads)| format!("{architecture} ({threads})"))
        .collect();
    if !crowded.is_empty() && !placement.server.is_empty() {
        warnings.push(format!(
            "more threads that serve than CPUs of the server ({cpus}), so that they take turns: {}; give it more \
             (placement.server, --server-cpus), or lower the threads",
            crowded.join(", ")
        ));
    }
    for architecture in &experiment.architectures.0 {
        let mechanism = architecture.ours().and_then(|architecture| architecture.mechanism);
        let spins = mechanism.map_or(Spins::Nothing, |mechanism| mechanism.spins);
        if spins == Spins::Nothing {
            continue;
        }
        if placement.is_shared() {
            warnings.push(format!(
                "{architecture} keeps a whole CPU busy, and server and client share CPUs: the client will be late; give each \
                 CPUs of its own (placement.server and placement.client, --server-cpus and --client-cpus)"
            ));
        }
        if spins == Spins::KernelThread && placement.server.len() == 1 {
            warnings.push(format!(
                "{architecture} has a thread of the kernel that keeps a whole CPU busy, and the server has one CPU, {cpus}: \
                 each waits for the other's turn; give it two (placement.server, --server-cpus)"
            ));
        }
    }
    warnings
}

/// CPUs that the server and the client both use, or whose core they do.
fn shared(placement: &placement::Placement, cores: &[Vec<usize>]) -> Option<String> {
    const REMEDY: &str =
        "give each CPUs of its own (placement.server and placement.client, --server-cpus and --client-cpus)";
    let placement::Placement { server, client, .. } = placement;
    let both: Vec<usize> = server.iter().copied().filter(|cpu| client.contains(cpu)).collect();
    let uses = |cpus: &[usize], core: &[usize]| core.iter().any(|cpu| cpus.contains(cpu));
    let siblings = || cores.iter().find(|core| uses(server, core) && uses(client, core));
    if placement.is_shared() && both.is_empty() {
        return Some(
            "server and client run on CPUs that the system chooses, which they may share; to place them needs Linux"
                .into(),
        );
    }
    if !both.is_empty() {
        let cpus = Cpus(both);
        return Some(format!(
            "server and client share CPU {cpus}: each waits for the other, and times include that; {REMEDY}"
        ));
    }
    siblings().map(|core| {
        let cpus = Cpus(core.clone());
        format!("server and client share a core, whose threads are CPUs {cpus}: each slows the other; {REMEDY}")
    })
}

/// What a lab will not show.
fn warnings_of_lab(
    network: &Network,
    applied: &Applied,
    placement: &placement::Placement,
    processes: u32,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let cpus = Cpus(conditions::relay_cpus(&placement.server, &placement.client));
    if applied.links == Links::Tun && !placement.client.is_empty() && cpus.0 == placement.client {
        warnings.push(format!(
            "a process takes packets from host to host (this kernel has no netem), and no CPU is left for it: it runs on the \
             client's ({cpus}), whose lag it is part of, and the rates that can be reached are lower; leave it one \
             (placement.client, --client-cpus)"
        ));
    }
    if network.clients.get() > processes {
        warnings.push(format!(
            "{} hosts are more than the {processes} processes that measure, so that some have idle connections at most; raise \
             client.processes, or lower network.clients",
            network.clients
        ));
    }
    warnings
}

/// The rates to be tried: none in a closed loop, whose one rate is the result.
fn rates(experiment: &Experiment) -> Vec<Option<f64>> {
    match &experiment.workload.rate {
        None => vec![None],
        Some(rates) => rates.0.iter().map(|rate| Some(rate.0)).collect(),
    }
}

fn workload(
    experiment: &Experiment,
    (connections, idle): (u32, u32),
    active: f64,
    rate_per_s: Option<f64>,
    schedule: Schedule,
) -> Workload {
    let traffic = &experiment.workload;
    let bytes = |size: Option<Size>| size.expect("it has sizes, as was checked").0;
    let (mut kv, mut http) = (None, None);
    let service = match traffic.service {
        Service::Fixed => {
            let (request_bytes, response_bytes) = (bytes(traffic.request), bytes(traffic.response));
            ServiceSpec::Fixed { request_bytes, response_bytes }
        }
        Service::Kv => {
            kv = Some(experiment.kv().traffic());
            experiment.kv().service()
        }
        Service::Http => {
            // Somebody else's server may have anything at a path; one that differs in length from the first response is
            // found out all the same.
            let is_ours = experiment.exec.is_empty();
            http = Some(experiment.http().traffic(traffic.response, is_ours).expect("as was checked"));
            experiment.http().service()
        }
        Service::Udp => {
            let (request_bytes, response_bytes) = (bytes(traffic.request), bytes(traffic.response));
            ServiceSpec::Udp { ports: connections, request_bytes, response_bytes }
        }
        Service::Stream => experiment.stream().service(),
    };
    Workload {
        service,
        kv,
        http,
        transport: traffic.transport,
        network: experiment.network.clone(),
        connections,
        rate_per_s,
        schedule,
        think: traffic.think.0,
        calls_per_connection: traffic.calls_per_connection.map(NonZeroU32::get),
        active,
        idle,
        choice: traffic.choice,
        work: traffic.work.map(|work| work.0),
        phases: Phases {
            ramp_ns: experiment.phases.ramp.0,
            hold_ns: experiment.phases.hold.0,
            measure_ns: experiment.phases.measure.0,
            drain_ns: experiment.phases.drain.0,
        },
    }
}

fn trial(
    experiment: &Experiment,
    (placement, fleet): (&placement::Placement, Option<&FleetFacts>),
    index: u32,
    repeat: u32,
    workload: Workload,
    architecture: Candidate,
) -> Trial {
    let any_address = match &workload.network {
        Some(_) => addresses::server_address(workload.transport),
        None => workload.transport.any_address(),
    };
    let client = &experiment.client;
    let load = LoadConfig {
        connections: workload.connections,
        idle: workload.idle,
        active: workload.active,
        choice: workload.choice,
        rate_per_s: workload.rate_per_s,
        schedule: workload.schedule,
        think: workload.think,
        calls_per_connection: workload.calls_per_connection,
        kv: workload.kv.clone(),
        http: workload.http.clone(),
        phases: workload.phases,
        pacing: match client.pacing {
            // A client that spins would keep the server from their CPU. A closed loop never does.
            Pacing::Auto if placement.is_shared() && !workload.is_closed() => Pacing::SleepSpin,
            pacing => pacing,
        },
        roles: client.roles,
        clients: clients(experiment, placement, fleet, &workload),
        processes: processes(experiment),
        cpus: placement.client.clone(),
        clock: client.clock,
        timestamps: client.timestamps,
        // The same for all architectures of one comparison: they see the same requests at the same times.
        seed: trial_seed(experiment.seed, &workload, repeat),
        timeout_ns: client.timeout.0,
        ..LoadConfig::new(any_address.clone(), workload.service.clone())
    };
    let serve = match &architecture {
        Candidate::Ours(architecture) => ServerSpec::Ours(ServeConfig {
            architecture: *architecture,
            accept: experiment.server.accept.unwrap_or_else(|| Accept::default_of(architecture.model)),
            service: workload.service.clone(),
            listen: any_address,
            cpus: placement.server.clone(),
            stage_cpus: experiment.server.stage_cpus(),
            work: workload.work,
            connections_max: connections_max(&load),
            read_budget_bytes: experiment.server.read_budget.map_or_else(Default::default, |budget| budget.0),
            // Idle connections are part of what is measured.
            limits: server::Limits::default(),
            count_syscalls: experiment.server.count_syscalls,
        }),
        Candidate::Exec(name) => {
            let exec = &experiment.exec[name];
            ServerSpec::External(ExternalConfig {
                command: exec.command.clone(),
                listen: any_address,
                directory: exec.directory.clone(),
                environment: exec.environment.clone(),
                request_bytes: workload.service.fixed().map(|(request_bytes, _)| request_bytes),
                response_bytes: workload.service.fixed().map(|(_, response_bytes)| response_bytes),
                cpus: placement.server.clone(),
                start_timeout_ns: exec.start_timeout.0,
            })
        }
    };
    Trial { index, repeat, architecture, workload, serve, load, infeasible: Vec::new() }
}

/// The client's, and some to spare, so that the limit under test is the system's and not ours. Where connections come and go,
/// the next one is there before the server has heard of the end of the last.
fn connections_max(load: &LoadConfig) -> u32 {
    let besides = load.calls_per_connection.map_or(0, |_| load.connections);
    load.connections_and_idle().saturating_add(besides).saturating_add(SPARE)
}

/// How many clients there are in a process: in a closed loop, when nothing is said, one for each CPU of its own; of ranks as many
/// as the one has that has the fewest, for all have as many.
fn clients(
    experiment: &Experiment,
    placement: &placement::Placement,
    fleet: Option<&FleetFacts>,
    workload: &Workload,
) -> u32 {
    match experiment.client.clients {
        Some(clients) => clients.get(),
        None if workload.is_closed() => {
            let (processes, planned) = (processes(experiment), placement.client.len() as u32);
            let cpus = fleet.map_or(planned / processes, |fleet| fleet.cpus_each(planned));
            cpus.clamp(1, workload.connections / processes)
        }
        None => 1,
    }
}

fn processes(experiment: &Experiment) -> u32 {
    experiment.processes().get()
}

/// A trial as `first`, at another rate, measured for another time, and of a schedule of its own.
pub fn probe(first: &Trial, seed: u64, index: u32, repeat: u32, rate_per_s: f64, measure_ns: u64) -> Trial {
    let mut probe = Trial { index, repeat, ..first.clone() };
    for rate in [&mut probe.workload.rate_per_s, &mut probe.load.rate_per_s] {
        *rate = Some(rate_per_s);
    }
    for phases in [&mut probe.workload.phases, &mut probe.load.phases] {
        phases.measure_ns = measure_ns;
    }
    probe.load.seed = trial_seed(seed, &probe.workload, repeat);
    probe
}

/// The highest rate at which the requests of a trial as `trial` fit into half of the memory that `host` has available.
pub fn rate_max_per_s(trial: &Trial, host: &Host) -> f64 {
    let bytes_per_rate = BYTES_PER_REQUEST as f64 * trial.workload.phases.sending_ns() as f64 / 1e9;
    host.memory_bytes as f64 / 2.0 / bytes_per_rate
}

/// Looks for the program of each command: a name that is mistyped is found before anything starts.
fn find_commands(experiment: &Experiment) -> Result<(), String> {
    for (name, exec) in &experiment.exec {
        let directory = exec.directory.as_deref();
        if let Some(folder) = directory.filter(|folder| !folder.is_dir()) {
            return Err(format!(
                "exec.{name}.directory: `{}` is no folder; make it, or name another",
                folder.display()
            ));
        }
        let path = exec.environment.get("PATH").map(String::as_str);
        server::external::config::find_program(&exec.command[0], directory, path)
            .map_err(|why| format!("exec.{name}.command: {why}; build or install it, or give its full path"))?;
    }
    Ok(())
}

fn trial_seed(seed: u64, workload: &Workload, repeat: u32) -> u64 {
    let Workload { connections, rate_per_s, active, idle, .. } = workload;
    let numbers = [
        u64::from(*connections),
        rate_per_s.map_or(0, f64::to_bits),
        active.to_bits(),
        u64::from(*idle),
        repeat.into(),
    ];
    // SplitMix64's finaliser (Steele, Lea and Flood 2014) mixes each number in.
    numbers.into_iter().fold(seed, |mixed, number| {
        let mut z = (mixed ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// What the kernel says that only a try shows, each asked once: a try takes descriptors and memory of its own.
#[derive(Default)]
struct CapabilityCache {
    can_run: Vec<(Architecture, Result<(), String>)>,
    can_count: Option<Result<(), String>>,
    transports: Vec<(Transport, Result<(), String>)>,
    network: Option<Result<Applied, Vec<String>>>,
}

impl CapabilityCache {
    fn can_run(&mut self, architecture: Architecture) -> Result<(), String> {
        if let Some((_, answer)) = self.can_run.iter().find(|(asked, _)| *asked == architecture) {
            return answer.clone();
        }
        let answer = architecture.can_run();
        self.can_run.push((architecture, answer.clone()));
        answer
    }

    fn can_have(&mut self, transport: Transport) -> Result<(), String> {
        if let Some((_, answer)) = self.transports.iter().find(|(asked, _)| *asked == transport) {
            return answer.clone();
        }
        let answer = transport.check();
        self.transports.push((transport, answer.clone()));
        answer
    }

    /// How a plan's network can be had, or why not: all its trials have the same one. The lab that a fleet is in is there.
    fn can_be(&mut self, network: &Network, fleet: Option<&FleetFacts>) -> &Result<Applied, Vec<String>> {
        let there = fleet.and_then(|fleet| fleet.lab.as_ref()).filter(|(lab, _)| lab == network);
        self.network.get_or_insert_with(|| match there {
            Some((_, applied)) => Ok(*applied),
            // What is wrong with that is said of the ranks.
            None if fleet.is_some() => Err(Vec::new()),
            None => conditions::choose(network, &Found::here()),
        })
    }

    fn can_count(&mut self) -> Result<(), String> {
        self.can_count.get_or_insert_with(server::metrics::tracepoints::can_count).clone()
    }
}

/// Most connections that an architecture can have on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// So many.
    pub connections: u64,
    /// What there is no more of, and what says so.
    pub by: String,
}

/// The tightest of what is needed for each connection, as a plan counts it; of a pool, for each of its workers.
pub fn limit(architecture: Architecture, host: &Host) -> Limit {
    let per_connection = architecture.model.per_connection;
    // A pool has some workers to spare, of which each has a descriptor too if they are threads.
    let spare = if architecture.model.is_pool() { u64::from(SPARE) } else { 0 };
    let most = |limit: u64, beside: u64, each: u64, by: &str| (limit.saturating_sub(beside) / each, by.to_owned());
    let of_threads = if per_connection == PerConnection::Thread { spare } else { 0 };
    let descriptors = most(host.descriptors_max, DESCRIPTORS_BESIDE + of_threads, 1, "the hard limit");
    let mappings =
        most(host.mappings_max, MAPPINGS_BESIDE + spare * MAPPINGS_PER_STACK, MAPPINGS_PER_STACK, "vm.max_map_count");
    let tasks = most(host.tasks_max.0, TASKS_BESIDE + spare, 1, &host.tasks_max.1);
    let of_model = match per_connection {
        PerConnection::Nothing => vec![],
        PerConnection::Stack => vec![mappings],
        PerConnection::Thread => vec![tasks, mappings],
        PerConnection::Process => vec![tasks],
    };
    let (connections, by) = of_model.into_iter().fold(descriptors, |least, it| if it.0 < least.0 { it } else { least });
    Limit { connections, by }
}

/// Every reason why a trial cannot be run on `host`.
fn impossible(trial: &Trial, host: &Host, kernel: &mut CapabilityCache) -> Vec<String> {
    let connections = u64::from(trial.load.connections_and_idle());
    let of_targets = if trial.workload.service.ports().is_some() { "ports" } else { "connections" };
    // Of somebody else's server only the client's needs are known, and that each connection takes a descriptor.
    let ours = trial.serve.ours();
    let mut reasons = Vec::new();
    let pool = ours.and_then(|serve| serve.architecture.pool_size(serve.connections_max)).map(u64::from);
    let named = ours.is_some_and(|serve| pool.is_some() && serve.architecture.threads.is_some());
    let per_connection = ours.map_or(PerConnection::Nothing, |serve| serve.architecture.model.per_connection);
    let budget = ours.map_or_else(ReadBudget::default, |serve| serve.read_budget_bytes);
    // What has a thread or process: a connection each, or a pool's workers.
    let workers = pool.unwrap_or(connections);
    let mut need = |what: &str, needed: u64, limit: u64, limit_name: &str, remedy: &str| {
        if needed > limit {
            if named {
                let server = &trial.architecture;
                reasons.push(format!(
                    "architectures: {server} needs {needed} {what}, {limit_name} is {limit}; lower it, or {remedy}"
                ));
                return;
            }
            reasons.push(format!(
                "workload.{of_targets}: {connections}{} needs {needed} {what}, {limit_name} is {limit}; lower it, or {remedy}",
                if trial.workload.idle > 0 { " (idle ones included)" } else { "" }
            ));
        }
    };
    let of_accept = ours.map_or(0, |serve| serve.accept.descriptors(serve.architecture.model, workers));
    let descriptors = connections.max(of_accept) + DESCRIPTORS_BESIDE;
    need("descriptors", descriptors, host.descriptors_max, "the hard limit", "raise the limit (ulimit -Hn)");
    // Of datagrams: one for all of the server's is the client's, and those are the host's.
    let listened = u64::from(trial.workload.service.ports().unwrap_or(0));
    need("ports to listen on", listened, PORTS_MAX, "the number of ports of an address", "see active");
    let (tasks_max, tasks_limit) = &host.tasks_max;
    match per_connection {
        PerConnection::Nothing => {}
        PerConnection::Stack => {
            let mappings = mappings(connections, budget);
            need("mappings", mappings, host.mappings_max, "vm.max_map_count", "raise it");
        }
        PerConnection::Thread => {
            need("threads", workers + TASKS_BESIDE, *tasks_max, tasks_limit, "raise that limit");
            let mappings = mappings(workers, budget);
            need("mappings", mappings, host.mappings_max, "vm.max_map_count", "raise it");
        }
        PerConnection::Process => {
            need("processes", workers + TASKS_BESIDE, *tasks_max, tasks_limit, "raise that limit");
        }
    }
    if let Some(serve) = ours {
        if let Err(reason) = kernel.can_run(serve.architecture) {
            reasons.push(format!("architectures: {}: {reason}", trial.architecture));
        }
        if let Err(reason) = serve.accept.check(serve.architecture) {
            reasons.push(format!("server.accept: {reason}"));
        }
        if let Err(reason) = serve.accept.check_address(&serve.listen) {
            reasons.push(format!("server.accept: {reason}"));
        }
        if let Err(reason) = serve.architecture.can_listen(&serve.listen) {
            reasons.push(format!("architectures: {}: {reason}", trial.architecture));
        }
        if let Err(reason) = serve.architecture.can_serve(&serve.service) {
            reasons.push(format!("workload.service: {reason}"));
        }
        if let Err(reason) = serve.read_budget_bytes.check(&serve.service) {
            reasons.push(format!("server.read-budget: {reason}"));
        }
        if serve.count_syscalls
            && let Err(reason) = kernel.can_count()
        {
            reasons.push(format!("server.count-syscalls: {reason}; or do without"));
        }
        reasons.extend(pool.and_then(|pool| wait_for_a_pool(serve, connections, pool)));
    }
    if ours.is_none() && cfg!(not(target_os = "linux")) {
        reasons.push(format!("architectures: {} needs Linux, to be measured from outside", trial.architecture));
    }
    if ours.is_none() && trial.workload.work.is_some() {
        let server = &trial.architecture;
        reasons
            .push(format!("workload.work: {server} is not ours and knows nothing of it; leave work or {server} out"));
    }
    if let Some(fleet) = &host.fleet {
        reasons.extend(infeasible_for_ranks(trial, fleet));
    }
    if let Err(reason) = kernel.can_have(trial.workload.transport) {
        reasons.push(format!("workload.transport: {reason}"));
    }
    let ports = u32::try_from(host.ports).unwrap_or(u32::MAX);
    let sources = match &trial.workload.network {
        Some(network) => {
            reasons.extend(kernel.can_be(network, host.fleet.as_ref()).clone().err().unwrap_or_default());
            addresses::sources(&trial.load, ports)
        }
        None => load::ports::sources_with(&trial.load, ports),
    };
    if let Err(reason) = sources {
        reasons.push(format!("workload.{reason}"));
    }
    if let Err(reason) = load::check_timestamps(&trial.load) {
        reasons.push(format!("client.{reason}"));
    }
    if trial.load.parts().iter().any(|part| part.active == 0.0) {
        let processes = trial.load.processes;
        reasons.push(format!(
            "client.processes: {processes} processes need an active connection each, and of {connections} {} are {} active; \
             lower the processes, or raise workload.active",
            of_targets,
            load::schedule::active_count(trial.load.active, trial.load.connections),
        ));
    }
    let requests = trial.load.parts().iter().fold(0u64, |requests, part| {
        requests.saturating_add(load::schedule::count_max(part).saturating_mul(u64::from(part.clients)))
    });
    let memory_bytes = requests
        .saturating_mul(BYTES_PER_REQUEST)
        .saturating_add(connections.max(workers) * bytes_per_connection(per_connection))
        .saturating_add(ours.map_or(0, |serve| budget_bytes(serve, connections.max(workers))));
    if memory_bytes > host.memory_bytes {
        reasons.push(format!(
            "workload: {requests} requests over {connections} {of_targets} need {} MiB of memory, {} MiB are available; \
             lower workload.{of_targets}, {}phases.measure",
            memory_bytes >> 20,
            host.memory_bytes >> 20,
            if trial.workload.is_closed() { "or " } else { "workload.rate or " }
        ));
    }
    reasons
}

/// Why a trial cannot be run with such ranks for clients.
pub fn infeasible_for_ranks(trial: &Trial, fleet: &FleetFacts) -> Vec<String> {
    let mut reasons = Vec::new();
    match (&trial.workload.network, &fleet.lab) {
        (Some(network), None) => reasons.push(format!(
            "network: ranks are where their engine started them, and that is no lab; start the engine in one (`muxbench lab {} \
             -- ENGINE...`, deploy/slurm-in-lab.sh), or leave the network out",
            network.flags()
        )),
        (Some(network), Some((lab, _))) if lab != network => reasons.push(format!(
            "network: the fleet is {lab}, and the trial wants to be {network}; start the engine by `muxbench lab {}`",
            network.flags()
        )),
        (None, Some((lab, _))) => reasons
            .push(format!("network: the fleet is {lab}, and the trial wants none; start the engine without `muxbench lab`")),
        _ => {}
    }
    if let (Some((lab, _)), Some(rank)) = (&fleet.lab, fleet.beside_server.first()) {
        reasons.push(format!(
            "network: rank {rank} is on the server's host of the lab, none of whose links its requests would pass; start one \
             rank a host (srun -N{} --ntasks-per-node=1, or a hostfile)",
            lab.clients.get() + 1
        ));
    }
    let (name, is_met_otherwise): (&str, fn(&IpAddr) -> bool) = match trial.workload.transport {
        Transport::Tcp => ("tcp is TCP over IPv4", IpAddr::is_ipv6),
        Transport::Tcp6 => ("tcp6 is TCP over IPv6", IpAddr::is_ipv4),
        Transport::Unix if fleet.elsewhere_cpus.is_some() => {
            reasons.push(
                "workload.transport: a Unix socket is of one machine, and clients are on others; use tcp or tcp6"
                    .into(),
            );
            return reasons;
        }
        Transport::Unix => return reasons,
    };
    if let Some(way) = fleet.ways.iter().find(|way| is_met_otherwise(way)) {
        let (other, like) = if way.is_ipv4() { ("tcp", "[ADDRESS]:PORT") } else { ("tcp6", "ADDRESS:PORT") };
        reasons.push(format!(
            "workload.transport: {name}, and ranks reach this host at {way}; set MUXBENCH_RENDEZVOUS to {like} of it in all ranks, \
             or use {other}"
        ));
    }
    reasons
}

/// Why connections of a trial would wait for a worker of a pool, which no trial outlasts: none ends before all are served.
fn wait_for_a_pool(serve: &ServeConfig, connections: u64, pool: u64) -> Option<String> {
    let server = serve.architecture;
    if pool < connections {
        return Some(format!(
            "architectures: {server} serves {pool} connections at a time, and workload.connections is {connections}: the \
             others would wait until the client gives up; name a larger pool, or none to have one that fits, or lower \
             workload.connections"
        ));
    }
    if serve.accept == Accept::Reuseport {
        // Each listener is missed by all connections with probability (1 - 1/pool)^connections; what falls to a listener
        // beyond its first connection waits.
        let size = pool as f64;
        let hit = size * (1.0 - (1.0 - 1.0 / size).powf(connections as f64));
        let waiting = connections as f64 - hit;
        if waiting > WAITING_MAX {
            return Some(format!(
                "server.accept: reuseport divides {connections} connections among the {pool} listeners of {server} by a \
                 hash, so that about {waiting:.0} would wait behind a busy worker while others are idle; choose shared or \
                 exclusive, or see it with `muxbench serve --accept reuseport`"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::spec::presets::PRESETS;
    use crate::spec::units::Rate;

    fn line(trial: &Trial) -> String {
        let Trial { index, repeat, architecture, workload, infeasible, .. } = trial;
        let Workload { connections, rate_per_s, active, .. } = workload;
        let active = crate::spec::units::Share(*active);
        let rate = rate_per_s.map_or("closed".into(), |rate_per_s| format!("{rate_per_s}/s"));
        format!("{index} repeat {repeat}: {architecture} {connections} x {rate} active {active} {infeasible:?}")
    }

    /// A lab is root's to make, and whoever runs tests need not be.
    fn without_lab(experiment: Experiment) -> Experiment {
        Experiment { network: None, ..experiment }
    }

    #[test]
    fn what_presets_plan() {
        for preset in PRESETS {
            let experiment = without_lab(preset.experiment());
            let plan = plan(&experiment, &Host::made_up()).unwrap();
            let quick = super::plan(&experiment.quick(), &Host::made_up()).unwrap();
            let minutes = |plan: &Plan| plan.duration_ns() as f64 / 60e9;
            let lines: Vec<String> = plan.trials.iter().map(line).collect();
            insta::assert_snapshot!(
                preset.name,
                format!(
                    "{}\n{:.1} min, quick {:.1} min\n{}",
                    plan.placement,
                    minutes(&plan),
                    minutes(&quick),
                    lines.join("\n")
                )
            );
        }
    }

    #[test]
    fn presets_plan_every_configuration_once_a_repeat() {
        for preset in PRESETS {
            let experiment = without_lab(preset.experiment());
            let plan = plan(&experiment, &Host::made_up()).unwrap();
            let workload = &experiment.workload;
            let configurations = workload.targets().len()
                * workload.idle.0.len()
                * workload.active.0.len()
                * rates(&experiment).len()
                * workload.schedule.0.len()
                * experiment.architectures.0.len();
            assert_eq!(plan.trials.len(), configurations * experiment.repeats.get() as usize, "{}", preset.name);
            assert!(plan.trials.iter().all(|trial| trial.infeasible.is_empty()), "{}", preset.name);
        }
        assert_eq!(
            plan(&crate::spec::presets::find("kawai2008-http").unwrap().experiment(), &Host::made_up())
                .unwrap()
                .trials
                .len(),
            45
        );
    }

    #[test]
    fn a_closed_loop_has_a_client_for_each_cpu_unless_told_otherwise() {
        let mut experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
        let clients = |experiment: &Experiment, cpus: usize| {
            let cores = (0..cpus).map(|cpu| vec![cpu]).collect();
            let plan = plan(experiment, &Host { cores, ..Host::made_up() }).unwrap();
            let mut clients: Vec<u32> = plan.trials.iter().map(|trial| trial.load.clients).collect();
            clients.dedup();
            clients
        };
        assert_eq!(clients(&experiment, 2), [4], "as it says");
        experiment.client.clients = None;
        assert_eq!((clients(&experiment, 2), clients(&experiment, 8)), (vec![1], vec![4]));
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(3).unwrap()];
        assert_eq!(clients(&experiment, 8), [3]);
        let open = crate::spec::presets::find("compare").unwrap().experiment();
        assert_eq!(clients(&open, 8), [1]);
    }

    /// So many on this machine, and nothing else known of them.
    fn ranks(here: u32) -> FleetFacts {
        FleetFacts { here, elsewhere_cpus: None, ways: Vec::new(), lab: None, beside_server: Vec::new() }
    }

    #[test]
    fn ranks_in_a_lab_are_planned_by_what_it_is_and_where_in_it_they_are() {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.client.processes = std::num::NonZeroU32::new(2);
        let network: Network = "lab:clients=2".parse().unwrap();
        // No kernel was ever asked for this.
        let applied =
            Applied { links: Links::Tun, delay: None, loss: Some(crate::model::network::Means::Tbf), bandwidth: None };
        let lossy = Network { loss: Some(crate::spec::units::Loss(0.01)), bandwidth: None, ..network.clone() };
        let delayed = Network { delay: crate::spec::units::Time(1_000_000), ..lossy.clone() };
        let planned = |asked: &Network, beside_server: &[u32]| {
            let lab = Some((lossy.clone(), applied));
            let fleet = FleetFacts { lab, beside_server: beside_server.to_vec(), ..ranks(2) };
            let experiment = Experiment { network: Some(asked.clone()), ..experiment.clone() };
            let plan = plan(&experiment, &Host { fleet: Some(fleet), ..Host::made_up() }).unwrap();
            (plan.network, plan.trials[0].infeasible.join("\n"))
        };
        let (words, why) = planned(&lossy, &[]);
        assert!(why.is_empty() && words.unwrap().contains("loss by TBF"), "{why}");
        let (_, why) = planned(&lossy, &[1, 2]);
        assert!(why.contains("rank 1 is on the server's host of the lab") && why.contains("srun -N3"), "{why}");
        let (_, why) = planned(&delayed, &[]);
        assert!(why.contains("the fleet is in a lab of 2 client hosts, 1 % lost each way, and"), "{why}");
        assert!(why.ends_with("`muxbench lab --network lab:clients=2 --delay 1ms --loss 1/100`"), "{why}");
    }

    #[test]
    fn a_closed_loop_of_ranks_has_a_client_for_each_cpu_that_all_of_them_have() {
        let mut experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
        (experiment.client.clients, experiment.client.processes) = (None, std::num::NonZeroU32::new(3));
        let clients = |experiment: &Experiment, here, elsewhere_cpus| {
            let cores = (0..8).map(|cpu| vec![cpu]).collect();
            let fleet = FleetFacts { elsewhere_cpus, ..ranks(here) };
            let plan = plan(experiment, &Host { cores, fleet: Some(fleet), ..Host::made_up() }).unwrap();
            plan.trials[0].load.clients
        };
        assert_eq!(clients(&experiment, 0, Some(6)), 6, "of the server's host they have none");
        assert_eq!(clients(&experiment, 3, None), 1, "three divide four of this host's");
        assert_eq!((clients(&experiment, 1, Some(6)), clients(&experiment, 1, Some(2))), (4, 2));
        experiment.client.clients = std::num::NonZeroU32::new(5);
        assert_eq!(clients(&experiment, 0, Some(6)), 5, "as it says");
    }

    #[test]
    fn what_ranks_cannot_have_is_refused_if_any_of_them_cannot() {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.client.processes = std::num::NonZeroU32::new(2);
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let reasons = |experiment: &Experiment, here, ways: &[IpAddr]| {
            let fleet = FleetFacts { elsewhere_cpus: (here < 2).then_some(2), ways: ways.to_vec(), ..ranks(here) };
            let host = Host { cores: vec![vec![0], vec![1]], ..Host::made_up() };
            let trial = &plan(experiment, &host).unwrap().trials[0];
            infeasible_for_ranks(trial, &fleet)
        };
        assert_eq!(reasons(&experiment, 0, &[v4]), [""; 0]);
        let why = reasons(&experiment, 1, &[v4, v6]).join("\n");
        assert!(
            why.contains("tcp is TCP over IPv4") && why.contains("at fd00::1") && why.contains("use tcp6"),
            "{why}"
        );
        experiment.workload.transport = Transport::Tcp6;
        assert_eq!(reasons(&experiment, 0, &[v6]), [""; 0]);
        let why = reasons(&experiment, 2, &[v4]).join("\n");
        assert!(why.contains("tcp6 is TCP over IPv6") && why.contains("at 192.0.2.1"), "{why}");
        experiment.workload.transport = Transport::Unix;
        assert_eq!(reasons(&experiment, 2, &[v4]), [""; 0]);
        for here in [0, 1] {
            assert!(reasons(&experiment, here, &[v4])[0].contains("a Unix socket is of one machine"));
        }
        experiment.workload.transport = Transport::Tcp;
        experiment.network = Some(Network::default());
        for here in 0..=2 {
            assert!(reasons(&experiment, here, &[v4])[0].starts_with("network: "));
        }
    }

    #[test]
    fn a_closed_loop_of_kv_is_planned_whole() {
        let experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
        let plan = plan(&experiment, &Host::made_up()).unwrap();
        assert_eq!(plan.trials.len(), 19 * 6 * 5);
        for trial in &plan.trials {
            assert_eq!((trial.workload.rate_per_s, trial.load.rate_per_s), (None, None));
            assert_eq!(trial.serve.ours().unwrap().service, trial.workload.service);
            assert_eq!(trial.load.kv, trial.workload.kv);
            assert_eq!(trial.load.kv.as_ref().unwrap().records, 30_000);
            // As it is stored, and read back.
            let text = serde_json::to_string(trial).unwrap();
            assert!(!text.contains("\"think\""), "{text}");
            assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), *trial);
        }
    }

    #[test]
    fn what_an_earlier_version_stored_is_read() {
        let plan = plan(&crate::spec::presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
        let text = serde_json::to_string(&plan.trials[0]).unwrap();
        // As before there were closed loops: a rate was a number, and there was no more.
        assert!(text.contains("\"rate_per_s\":2000.0") && !text.contains("kv") && !text.contains("think"), "{text}");
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), plan.trials[0]);
    }

    #[test]
    fn the_order_is_seeded() {
        let experiment = crate::spec::presets::find("compare").unwrap().experiment();
        let plan = |seed| super::plan(&Experiment { seed, ..experiment.clone() }, &Host::made_up()).unwrap();
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1).trials, plan(2).trials);
    }

    #[test]
    fn architectures_of_one_comparison_see_the_same_schedule() {
        let plan = plan(&crate::spec::presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
        let mut seeds: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        for trial in &plan.trials {
            seeds.entry((trial.workload.connections, trial.repeat)).or_default().push(trial.load.seed);
        }
        assert_eq!(seeds.len(), 6);
        assert!(seeds.values().all(|seeds| seeds.iter().all(|seed| *seed == seeds[0])));
        let mut distinct: Vec<u64> = seeds.values().map(|seeds| seeds[0]).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 6, "repeats and workloads differ");
    }

    #[test]
    fn impossible_trials_say_why() {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(40_000).unwrap()];
        experiment.repeats = std::num::NonZeroU32::MIN;
        let mut plan = plan(&experiment, &Host { memory_bytes: 4 << 30, ..Host::made_up() }).unwrap();
        plan.trials.sort_by_key(|trial| trial.architecture.to_string());
        let reasons: Vec<String> = plan
            .trials
            .iter()
            .map(|trial| format!("{}:\n{}", trial.architecture, trial.infeasible.join("\n")))
            .collect();
        insta::assert_snapshot!(reasons.join("\n"));
        assert_eq!(plan.duration_ns(), 0);
    }

    #[test]
    fn the_limit_of_an_architecture_is_where_plans_become_impossible() {
        let preset = crate::spec::presets::find("compare").unwrap().experiment();
        let hosts = [
            Host::made_up(),
            Host { tasks_max: (700, "ulimit -u".into()), memory_bytes: 1 << 40, ..Host::made_up() },
            Host { mappings_max: 1_000, memory_bytes: 1 << 40, ..Host::made_up() },
        ];
        for (host, architecture) in
            hosts.iter().flat_map(|host| Architecture::all().into_iter().map(move |it| (host, it)))
        {
            let Limit { connections, by } = limit(architecture, host);
            let reasons = |connections: u64| -> Vec<String> {
                let mut experiment = preset.clone();
                experiment.architectures.0 = vec![architecture.to_string().parse().unwrap()];
                experiment.workload.connections.0 = vec![u32::try_from(connections).unwrap().try_into().unwrap()];
                let trial = plan(&experiment, host).unwrap().trials.remove(0);
                trial.infeasible.into_iter().filter(|reason| reason.contains(&by)).collect()
            };
            assert_eq!(reasons(connections), [""; 0], "{architecture}");
            assert!(!reasons(connections + 1).is_empty(), "{architecture}: {by} at {connections}");
        }
    }

    #[test]
    fn pools_and_accept_strategies_that_cannot_work_say_why() {
        let preset = crate::spec::presets::find("compare").unwrap().experiment();
        let tried = [
            ("mt-pool", None, 400),
            ("mt-pool:64", None, 400),
            ("mp-prefork:400", None, 400),
            ("mp-prefork:40000", None, 400),
            ("mt-pool:40000", None, 400),
            ("mt-pool", Some(Accept::Exclusive), 15_000),
            ("mt-pool", Some(Accept::Single), 400),
            ("mp-prefork", Some(Accept::Single), 400),
            ("mp-prefork", Some(Accept::Reuseport), 400),
            ("mt-pool:1000", Some(Accept::Reuseport), 2),
            ("epoll", Some(Accept::Shared), 400),
            ("epoll", Some(Accept::Single), 400),
            ("symped:2", Some(Accept::Exclusive), 400),
            ("symped:2/poll", Some(Accept::Exclusive), 400),
        ];
        let lines = tried.map(|(architecture, accept, connections)| {
            let mut experiment = preset.clone();
            experiment.architectures.0 = vec![architecture.parse().unwrap()];
            experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(connections).unwrap()];
            experiment.server.accept = accept;
            let plan = plan(&experiment, &Host::made_up()).unwrap();
            let accept = accept.map(|accept| format!(" {accept}")).unwrap_or_default();
            format!("{architecture}{accept} {connections}: {:#?}", plan.trials[0].infeasible)
        });
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn what_a_transport_cannot_do_is_said_and_what_it_does_not_need_is_not() {
        use load::config::Timestamps;

        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.repeats = std::num::NonZeroU32::MIN;
        let reasons =
            |experiment: &Experiment| plan(experiment, &Host::made_up()).unwrap().trials[0].infeasible.clone();
        let seed = |experiment: &Experiment| plan(experiment, &Host::made_up()).unwrap().trials[0].load.seed;
        experiment.architectures.0 = vec!["epoll".parse().unwrap()];
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(19_900).unwrap()];
        let few_ports = Host { ports: 50, ..Host::made_up() };
        assert_eq!(plan(&experiment, &few_ports).unwrap().trials[0].infeasible.len(), 1);
        let of_tcp = seed(&experiment);
        experiment.workload.transport = Transport::Unix;
        assert_eq!(plan(&experiment, &few_ports).unwrap().trials[0].infeasible, [""; 0]);
        assert_eq!(seed(&experiment), of_tcp, "the same requests at the same times over each transport");
        experiment.client.timestamps = Timestamps::Kernel;
        assert!(reasons(&experiment)[0].starts_with("client.timestamps: "), "{:?}", reasons(&experiment));
        experiment.client.timestamps = Timestamps::Client;
        experiment.architectures.0 = vec!["mt-pool:30000".parse().unwrap()];
        experiment.server.accept = Some(Accept::Reuseport);
        let found = reasons(&experiment);
        assert!(found.iter().any(|reason| reason.starts_with("server.accept: `reuseport`")), "{found:?}");
        for name in server::spec::mechanism::NEEDS_NETWORK {
            let Ok(contender) = name.parse() else { continue };
            experiment.architectures.0 = vec![contender];
            experiment.server.accept = None;
            let found = reasons(&experiment);
            assert!(found.iter().any(|reason| reason.contains("Unix sockets")), "{name}: {found:?}");
        }
    }

    #[test]
    fn datagrams_need_a_server_that_knows_them_and_no_ports_of_the_client() {
        let mut experiment = crate::spec::presets::find("maharjan2012-udp").unwrap().experiment();
        experiment.repeats = std::num::NonZeroU32::MIN;
        experiment.architectures.0 =
            ["epoll", "mt", "mp", "mt-pool", "symped:2", "seda:1+1"].map(|name| name.parse().unwrap()).into();
        let planned = |experiment: &Experiment, host: &Host| {
            let mut trials = plan(experiment, host).unwrap().trials;
            trials.sort_by_key(|trial| trial.architecture.to_string());
            let of = |trial: &Trial| format!("{}: {:#?}", trial.architecture, trial.infeasible);
            trials.iter().map(of).collect::<Vec<_>>().join("\n")
        };
        let (list, rate) = (|count| vec![std::num::NonZeroU32::new(count).unwrap()], vec![Rate(100.0)]);
        experiment.workload.rate = Some(crate::spec::OneOrMany(rate));
        experiment.workload.ports.0 = list(5_000);
        let few_ports = planned(&experiment, &Host { ports: 100, ..Host::made_up() });
        experiment.workload.ports.0 = list(65_000);
        let many = planned(&experiment, &Host::made_up());
        insta::assert_snapshot!(format!("{few_ports}\n\n{many}"));
    }

    #[test]
    fn read_budget_reaches_each_server_or_says_why_not() {
        let budget = crate::spec::units::Budget(ReadBudget::new(256 << 10).unwrap());
        let planned = |preset: &str, architectures: &[&str]| {
            let mut experiment = crate::spec::presets::find(preset).unwrap().experiment();
            experiment.architectures.0 = architectures.iter().map(|name| name.parse().unwrap()).collect();
            experiment.server.read_budget = Some(budget);
            let again = Experiment::parse(&toml::to_string(&experiment).unwrap(), "again").unwrap();
            assert_eq!(again, experiment);
            plan(&experiment, &Host::made_up()).unwrap().trials
        };
        for trial in planned("welsh2001-connections", &["epoll", "mt", "mp"]) {
            assert_eq!(trial.serve.ours().unwrap().read_budget_bytes, budget.0);
            assert_eq!(trial.label(), format!("{} (256KiB reads)", trial.architecture));
            assert!(trial.infeasible.is_empty(), "{:?}", trial.infeasible);
            let text = serde_json::to_string(&trial).unwrap();
            assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
            // A run from before there was a choice.
            let old = text.replace(",\"read_budget_bytes\":262144", "");
            let old = serde_json::from_str::<Trial>(&old).unwrap();
            assert_eq!(old.serve.ours().unwrap().read_budget_bytes, ReadBudget::default());
            assert!(!old.is_alike_but_for_the_rate(&trial), "another budget is another row");
        }
        for trial in planned("maharjan2012-udp", &["epoll"]) {
            let is_told =
                |reason: &String| reason.starts_with("server.read-budget: cannot set the read budget of `udp`");
            assert!(trial.infeasible.iter().any(is_told), "{:?}", trial.infeasible);
        }
        let few = |preset: &str, host: Host| {
            let mut experiment = crate::spec::presets::find(preset).unwrap().experiment();
            experiment.architectures.0 = vec!["mt".parse().unwrap()];
            experiment.server.read_budget = Some(budget);
            plan(&experiment, &host).unwrap().trials.into_iter().flat_map(|trial| trial.infeasible).collect::<Vec<_>>()
        };
        // Three mappings for each of 1 000 threads, and 512; 1 000 times 192 KiB more than by default.
        let said = few("welsh2001-connections", Host { mappings_max: 3_000, ..Host::made_up() });
        assert!(said.iter().any(|reason| reason.contains("1000 needs 3512 mappings")), "{said:?}");
        let said = few("welsh2001-connections", Host { memory_bytes: 256 << 20, ..Host::made_up() });
        assert!(said.iter().any(|reason| reason.contains("MiB of memory, 256 MiB are available")), "{said:?}");
    }

    #[test]
    fn streams_are_planned_whole_and_a_limit_of_threads_is_said_to_be_one() {
        let mut experiment = crate::spec::presets::find("welsh2001-connections").unwrap().experiment();
        let plan = |experiment: &Experiment| {
            plan(experiment, &Host { tasks_max: (700, "ulimit -u".into()), ..Host::made_up() }).unwrap()
        };
        for trial in plan(&experiment).trials {
            let stream = trial.workload.service.stream().unwrap();
            assert_eq!((stream, trial.load.rate_per_s), (wire::stream::Stream::default(), None));
            assert_eq!(trial.serve.ours().unwrap().service, trial.load.service);
            let text = serde_json::to_string(&trial).unwrap();
            assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
            let is_beyond = trial.architecture.to_string() == "mt" && trial.workload.connections >= 700;
            let expected = is_beyond.then(|| {
                let connections = trial.workload.connections;
                let needed = connections + 256;
                format!(
                    "workload.connections: {connections} needs {needed} threads, ulimit -u is 700; lower it, or raise that limit"
                )
            });
            assert_eq!(trial.infeasible, Vec::from_iter(expected), "{}", trial.architecture);
        }
        experiment.workload.stream = None;
        assert_eq!(
            plan(&experiment).trials[0].workload.service,
            ServiceSpec::Stream(wire::stream::Stream::default()),
            "the paper's is what there is without a word"
        );
    }

    #[test]
    fn who_keeps_a_cpu_busy_is_warned_of_where_that_hurts() {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.architectures.0 = ["epoll", "spin", "io_uring-sqpoll", "amped:1+2", "symped:4/io_uring"]
            .map(|name| name.parse().unwrap())
            .into();
        let cases = [("one CPU", 1), ("two CPUs", 2), ("four CPUs", 4)].map(|(name, cpus)| {
            let cores = (0..cpus).map(|cpu| vec![cpu]).collect();
            let plan = plan(&experiment, &Host { cores, ..Host::made_up() }).unwrap();
            format!("{name}: {:#?}", plan.warnings)
        });
        insta::assert_snapshot!(cases.join("\n"));
    }

    #[test]
    fn shared_cpu_or_core_is_warned_of_before_the_run() {
        let warnings = |cores: &[&[usize]], server: &str, client: &str| {
            let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
            experiment.placement.server = Some(server.parse().unwrap());
            experiment.placement.client = Some(client.parse().unwrap());
            let cores = cores.iter().map(|core| core.to_vec()).collect();
            plan(&experiment, &Host { cores, ..Host::made_up() }).unwrap().warnings.join("\n")
        };
        assert!(warnings(&[&[0], &[1]], "0", "0").contains("share CPU 0: "));
        assert!(warnings(&[&[0], &[1], &[2]], "0-1", "1-2").contains("share CPU 1: "));
        assert!(warnings(&[&[0, 2], &[1, 3]], "0", "2").contains("share a core, whose threads are CPUs 0,2: "));
        assert!(!warnings(&[&[0, 2], &[1, 3]], "0,2", "1,3").contains("share"));
    }

    #[test]
    fn a_stack_a_connection_takes_mappings() {
        let Some(model) = server::registry::MODELS.iter().find(|row| row.per_connection == PerConnection::Stack) else {
            println!("no model with a stack per connection is compiled in");
            return;
        };
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.architectures.0 = vec![format!("{}:2", model.name).parse().unwrap()];
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(19_000).unwrap()];
        let plan = |mappings_max| {
            plan(&experiment, &Host { mappings_max, ..Host::made_up() }).unwrap().trials[0].infeasible.clone()
        };
        assert_eq!(plan(65_530), [""; 0]);
        let why = "workload.connections: 19000 needs 38512 mappings, vm.max_map_count is 30000; lower it, or raise it";
        assert_eq!(plan(30_000), [why]);
    }

    #[test]
    fn the_default_comparison_takes_less_than_a_minute() {
        let plan = plan(&crate::spec::presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
        assert!(plan.duration_ns() < 60_000_000_000, "{}", plan.duration_ns());
    }
}
