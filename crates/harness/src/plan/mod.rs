//! Converts an experiment to a plan. The plan makes all defaults explicit and interleaves trials in a seeded order.
//! Infeasible trials stay, with their reasons.

mod feasibility;
pub mod grid;
mod interleaving;
mod limits;
pub mod needs;
mod servers;
pub mod stage_cpus;
#[cfg(test)]
mod tests;
mod warnings;
mod windows;

pub use feasibility::infeasible_for_workers;
pub use limits::{Limit, limit};
pub use servers::{check_files, check_targets};

use std::path::PathBuf;

use load::LoadConfig;
use load::config::{ClientConfig, Pacing, Traffic};
use netns::addresses;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::{Accept, BusyPoll, ExternalConfig, ServeConfig};
use wire::ServiceSpec;

use crate::host::{Host, idle_cpus, placement};
use crate::record::{FleetFacts, Trial, Workload};
use crate::spec::ServerSpec;
use crate::spec::interleave::Interleave;
use crate::spec::network::Network;
use crate::spec::target::TargetUrl;
use crate::spec::transport::Transport;
use crate::spec::{Candidate, Experiment};
use feasibility::Capabilities;
use limits::{BYTES_PER_REQUEST, SPARE};
use servers::ServerFacts;

/// The time to start and stop the processes of a trial, in nanoseconds. Measured as 100 to 200 ms.
const OVERHEAD_NS: u64 = 200_000_000;
/// The time to warm an external server, in nanoseconds: two rounds of a second, unless it gets faster for longer.
const WARM_UP_NS: u64 = 2_300_000_000;
/// The time to measure a lab's network, in nanoseconds.
const PROBE_NS: u64 = 1_000_000_000;
/// The time to establish, verify and close a connection, in nanoseconds: the mean of the default servers. A server with a process
/// for each connection takes longer.
const CONNECT_NS: u64 = 200_000;
/// The longest time to store one `kv` record before the ramp, in nanoseconds: that of a staged server.
const STORE_NS: u64 = 5_000;

/// The trials of a run, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The CPUs of server and client, in one sentence.
    pub placement: String,
    /// Whether idle CPUs of this host poll during the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle_cpus_poll: bool,
    /// Whether stacks of the servers are sampled after each measured heat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_profiled: bool,
    /// The network between server and client, and the means that apply it. `None` if the experiment has no network, or this
    /// host lacks the means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Whether architectures share a window.
    pub interleave: Interleave,
    /// The trials that share a window and those that do not, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interleaving: Vec<String>,
    /// Warnings about trials that can run, but may not measure what the user intends.
    pub warnings: Vec<String>,
    /// The trials in order.
    pub trials: Vec<Trial>,
}

impl Plan {
    /// Returns the estimated duration in nanoseconds. Infeasible trials take no time.
    pub fn duration_ns(&self) -> u64 {
        let profiled_ns = |trial: &Trial| if self.is_profiled { duration_ns(&trial.profiled()) } else { 0 };
        let feasible = self.trials.iter().filter(|trial| trial.infeasible.is_empty());
        feasible.map(|trial| duration_ns(trial) + profiled_ns(trial)).sum()
    }

    /// Sorts the trials by rate and renumbers them. All repeats of a rate finish before the next rate begins. Trials of one
    /// rate keep their order.
    pub fn by_rate(mut self) -> Self {
        let rate = |trial: &Trial| trial.workload.rate_per_s().unwrap_or(f64::INFINITY);
        self.trials.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        (0..).zip(&mut self.trials).for_each(|(index, trial)| trial.index = index);
        self
    }
}

/// Returns the estimated duration of a trial in nanoseconds. The servers of a heat share its window, but connect one after the other.
pub fn duration_ns(trial: &Trial) -> u64 {
    let contestants = trial.client.slices.map_or(1, |slices| u64::from(slices.contestants));
    let shared = trial.client.window_ns(&trial.workload.phases).end
        + OVERHEAD_NS
        + trial.workload.network.as_ref().map_or(0, |_| PROBE_NS);
    let own = u64::from(trial.workload.connections_and_idle()) * CONNECT_NS
        + trial.workload.kv.as_ref().map_or(0, |kv| u64::from(kv.records) * STORE_NS)
        + if matches!(trial.serve, ServerSpec::External(_)) { WARM_UP_NS } else { 0 };
    shared / contestants + own
}

/// Makes a plan for `host`. An infeasible trial stays in the plan, with its reasons. Fails if the placement is impossible, a
/// load is invalid, a program or a folder of the servers is missing, or a target accepts no connection.
pub fn plan(experiment: &Experiment, host: &Host) -> Result<Plan, String> {
    let fleet = host.fleet.as_ref();
    let found = servers::find(experiment, &host.cores.concat())?;
    let placement = if fleet.is_some_and(FleetFacts::are_elsewhere) {
        placement::place_server(&host.cores, &experiment.placement)?
    } else if found.are_all_elsewhere(&experiment.architectures.0) {
        placement::place_client(&host.cores, &experiment.placement)?
    } else {
        placement::place(&host.cores, &experiment.placement)?
    };
    stage_cpus::check(&experiment.server.stage_cpus(), &placement.server)?;
    let mut sentence = placement.sentence.clone();
    if !found.targets.is_empty() && !placement.is_elsewhere {
        sentence += "; muxbench does not choose the CPUs of targets";
    }
    for (name, target) in found.targets.iter().filter(|(_, target)| !target.others.is_empty()) {
        let addresses: Vec<String> = target.addresses().map(|address| address.to_string()).collect();
        sentence += &format!("; the connections to {name} are spread over {}", addresses.join(", "));
    }
    let idle_cpus_poll = idle_cpus::decide(experiment.placement.idle_cpus, host)?;
    if idle_cpus_poll {
        sentence += "; idle CPUs poll";
    }
    let loads = experiment.loads()?;
    servers::check_pages(experiment, &loads)?;
    let mut order = Xoshiro256PlusPlus::seed_from_u64(experiment.seed);
    let mut trials = Vec::new();
    let architectures = &experiment.architectures.0;
    // Accept strategies and busy polling are options of our own servers only.
    let polls = experiment.server.busy_polls();
    let with_options = |candidate| match candidate {
        &Candidate::Ours(ours) => {
            let accepts = experiment.server.accepts(ours).into_iter();
            accepts.flat_map(|accept| polls.iter().map(move |poll| (candidate, Some(accept), *poll))).collect()
        }
        _ => vec![(candidate, None, None)],
    };
    let servers: Vec<_> = architectures.iter().flat_map(with_options).map(|it| (it, false)).collect();
    let placebo = servers.first().filter(|_| experiment.placebo).map(|(it, _)| (*it, true));
    let servers: Vec<_> = servers.iter().copied().chain(placebo).collect();
    let mut round: Vec<_> = loads.iter().flat_map(|load| servers.iter().map(move |it| (load, *it))).collect();
    for repeat in 0..experiment.repeats.get() {
        // Each repeat runs all configurations once, in random order. This spreads the repeats of a configuration over the run.
        // Of equal servers in one window, the one that starts first is slower, by up to 1 %. Each second repeat reverses the
        // order, so that the difference cancels.
        match repeat % 2 {
            0 => round.shuffle(&mut order),
            _ => round.reverse(),
        }
        for &(load, (server, is_placebo)) in &round {
            let place = (&placement, fleet, &found);
            let trial = trial(experiment, place, trials.len() as u32, repeat, load, server);
            trials.push(Trial { is_placebo, ..trial });
        }
    }
    let mut capabilities = Capabilities::default();
    for trial in &mut trials {
        trial.infeasible = feasibility::reasons(trial, host, &mut capabilities);
    }
    let interleaving = interleaving::assign(&mut trials, experiment, host)?;
    let mut warnings = experiment.unused();
    warnings.extend(warnings::of_placement(experiment, &placement, &host.cores));
    warnings.extend(warnings::of_targets(&found.targets, &placement));
    warnings.extend(warnings::of_content(experiment, &loads));
    warnings.extend(warnings::of_tls(experiment, &found.tls));
    let mut lab = None;
    if let (Some(network), Some(Ok(applied))) = (network(experiment), &capabilities.network) {
        lab = Some(format!("{network}: {}", applied.words()));
        warnings.extend(warnings::of_lab(&network, applied, &placement, experiment.processes().get()));
    }
    Ok(Plan {
        experiment: experiment.name.clone(),
        seed: experiment.seed,
        network: lab,
        idle_cpus_poll,
        is_profiled: experiment.profile,
        interleave: experiment.interleave,
        interleaving,
        warnings,
        placement: sentence,
        trials,
    })
}

/// Returns the network. If a server polls its interface, the lab of all servers has interfaces that can be polled.
fn network(experiment: &Experiment) -> Option<Network> {
    let polls = experiment.server.busy_polls().iter().any(Option::is_some);
    experiment.network.clone().map(|network| Network { napi: network.napi || polls, ..network })
}

fn workload(experiment: &Experiment, load: &LoadConfig) -> Workload {
    Workload {
        transport: experiment.workload.transport,
        tls: experiment.workload.tls.clone(),
        network: network(experiment),
        work: experiment.workload.simulated_work.clone().map(|work| work.0),
        traffic: load.traffic.clone(),
    }
}

fn trial(
    experiment: &Experiment,
    (placement, fleet, found): (&placement::CpuPlacement, Option<&FleetFacts>, &ServerFacts),
    index: u32,
    repeat: u32,
    load: &LoadConfig,
    (architecture, accept, busy_poll): (&Candidate, Option<Accept>, Option<BusyPoll>),
) -> Trial {
    let workload = workload(experiment, load);
    let target = if let Candidate::Target(name) = architecture { Some(&found.targets[name]) } else { None };
    let url = if let Candidate::Target(name) = architecture { Some(&experiment.target[name].url) } else { None };
    // The host and the path of its own URL, for a target of `http`.
    let own_url = url.filter(|_| workload.http.is_some());
    let listen = match (&workload.network, target) {
        (_, Some(target)) => target.address.clone(),
        (Some(_), None) => addresses::server_address(workload.transport == Transport::Tcp6),
        (None, None) => workload.transport.any_address(),
    };
    let client = ClientConfig {
        tls: found.tls.get(&architecture.to_string()).cloned(),
        host: own_url.and_then(|url| url.authority().map(str::to_owned)),
        login: url.and_then(TargetUrl::login).cloned(),
        path: own_url
            .filter(|_| experiment.target_paths().is_some_and(|paths| paths.len() > 1))
            .map(|url| url.path().unwrap_or("/").to_owned()),
        pacing: match load.client.pacing {
            // A client that never sleeps would take CPU time from the server. A closed loop has no pacing.
            Pacing::Auto if placement.is_shared() && !workload.is_closed() => Pacing::SleepSpin,
            pacing => pacing,
        },
        clients: match experiment.client.clients {
            None if workload.is_closed() => {
                // One client for each CPU of a client process. In a distributed run, the worker with the fewest CPUs sets the
                // number for all workers.
                let (planned, processes) = (placement.client.len() as u32, load.client.processes);
                let cpus = fleet.map_or(planned / processes, |fleet| fleet.cpus_each(planned));
                cpus.clamp(1, load.connections / processes)
            }
            _ => load.client.clients,
        },
        // On shared CPUs the kernel places the client's threads, because a server's thread may be on any of these CPUs.
        cpus: if experiment.placement.shared { Vec::new() } else { placement.client.clone() },
        // For one workload and repeat, all architectures get the same seed, and so the same requests at the same times.
        seed: trial_seed(experiment.seed, &workload, repeat),
        ..load.client.clone()
    };
    let serve = match architecture {
        Candidate::Ours(architecture) => ServerSpec::Ours(ServeConfig {
            architecture: *architecture,
            accept: accept.unwrap_or_else(|| Accept::default_of(architecture.model)),
            service: match content(&workload.service) {
                // A run may be resumed in another directory.
                folder @ Some(_) => ServiceSpec::Http { folder, response_bytes: None },
                None => workload.service.clone(),
            },
            listen,
            cpus: placement.server.clone(),
            stage_cpus: experiment.server.stage_cpus(),
            work: workload.work.clone(),
            connections_max: connections_max(&workload),
            read_budget_bytes: experiment.server.read_budget.map_or_else(Default::default, |budget| budget.0),
            controllers: experiment.server.controllers(),
            stall: experiment.server.stall.map(|stall| stall.0),
            datagrams: experiment.server.datagrams(experiment.workload.service),
            busy_poll,
            // Idle connections are part of the measurement, so the server must not close them.
            limits: server::Limits::default(),
            tls: workload.tls.as_ref().map(|_| server::Tls::default()),
            count_syscalls: experiment.server.count_syscalls,
        }),
        Candidate::Exec(name) => {
            let exec = &experiment.exec[name];
            ServerSpec::External(ExternalConfig {
                command: exec.command.clone(),
                config: found.configs.get(name).cloned(),
                dir: None,
                folder: content(&workload.service),
                listen,
                directory: exec.directory.clone(),
                environment: exec.environment.clone(),
                request_bytes: workload.service.fixed().map(|(request_bytes, _)| request_bytes),
                response_bytes: workload.service.fixed().map(|(_, response_bytes)| response_bytes),
                cpus: placement.server.clone(),
                start_timeout_ns: exec.start_timeout.0,
            })
        }
        Candidate::Target(name) => ServerSpec::Target(found.targets[name].clone()),
    };
    Trial {
        index,
        repeat,
        architecture: architecture.clone(),
        is_placebo: false,
        is_reference: false,
        workload,
        serve,
        client,
        infeasible: Vec::new(),
    }
}

/// Returns the absolute path of the folder with the content of `http`.
fn content(service: &ServiceSpec) -> Option<PathBuf> {
    let ServiceSpec::Http { folder: Some(folder), .. } = service else { return None };
    std::path::absolute(folder).ok()
}

/// Returns the maximum number of connections that the server accepts. It exceeds the client's number, so that this maximum
/// refuses none. A short-lived connection may arrive before the server sees the end of the previous one.
fn connections_max(traffic: &Traffic) -> u32 {
    let besides = traffic.requests_per_connection().map_or(0, |_| traffic.connections);
    traffic.connections_and_idle().saturating_add(besides).saturating_add(SPARE)
}

/// Returns a copy of the trial `first` with another index, repeat, rate, number of connections and window, and thus another seed.
pub fn probe(
    first: &Trial,
    seed: u64,
    (index, repeat): (u32, u32),
    (rate_per_s, connections): (f64, u32),
    measure_ns: u64,
) -> Trial {
    let mut probe = Trial { index, repeat, ..first.clone() };
    probe.workload.set_rate(Some(rate_per_s));
    probe.workload.connections = connections;
    if let ServerSpec::Ours(config) = &mut probe.serve {
        config.connections_max = connections_max(&probe.workload);
    }
    probe.workload.phases.measure_ns = measure_ns;
    probe.client.seed = trial_seed(seed, &probe.workload, repeat);
    probe
}

/// Returns a copy of the trial `first` with another index and repeat, and thus another seed.
pub fn repeated(first: &Trial, seed: u64, (index, repeat): (u32, u32)) -> Trial {
    let mut trial = Trial { index, repeat, ..first.clone() };
    trial.client.seed = trial_seed(seed, &trial.workload, repeat);
    trial
}

/// Returns the highest rate at which the requests of `trial`, and of others that share its window, fit into half of the available
/// memory of `host`.
pub fn rate_max_per_s(trial: &Trial, host: &Host) -> f64 {
    let contestants = trial.client.slices.map_or(1, |slices| slices.contestants);
    let requests = trial.workload.phases.sending_ns() as f64 / 1e9;
    let retries = trial.workload.request_timeout().map_or(0, |it| it.retries_max(requests.ceil() as u64)) as f64;
    let bytes_per_rate = BYTES_PER_REQUEST as f64 * (requests + retries);
    host.memory_bytes as f64 / 2.0 / bytes_per_rate / f64::from(contestants)
}

fn trial_seed(seed: u64, traffic: &Traffic, repeat: u32) -> u64 {
    let numbers = [
        u64::from(traffic.connections),
        traffic.rate_per_s().map_or(0, f64::to_bits),
        traffic.active().to_bits(),
        u64::from(traffic.idle),
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
