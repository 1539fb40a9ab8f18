//! Flags of servers, workload and client, shared by all commands that build an experiment.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::bail;
use harness::contender::Contender;
use harness::experiment::{Experiment, List, Phases, Service};
use harness::presets;
use harness::stream;
use harness::transport::Transport;
use harness::units::{Budget, Cpus, Share, Time, Work};
use load::config::{Choice, Schedule};
use server::{Accept, Architecture};

use super::client::ClientArgs;
use super::network::NetworkArgs;
use super::stages::StageArgs;
use super::traffic::TrafficArgs;
use super::{named, set, set_list};

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
