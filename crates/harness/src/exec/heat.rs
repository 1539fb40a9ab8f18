//! One heat: the trials that run at the same time. A separate trial is a heat of one. The contestants of an interleaved heat are
//! up together, and their clients take turns.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::LoadConfig;
use load::config::Schedule;
use load::result::interleaved::{joined, rounds_with_pauses};
use load::result::merge::Account;
use load::result::{LoadResult, PARTS, SliceResult};
use netns::Testbed;
use process::folder::PrivateFolder;
use process::stop::{POLL_INTERVAL, Stop};
#[cfg(target_os = "linux")]
use server::external::procfs_stats::Root;

use super::event::RunEvent;
use super::idle::IdleHolders;
use super::kept::{KeptServers, StartedServer, end_leftovers};
use super::launch::Launch;
use super::marks::{Mark, Observations, TurnFigures};
use super::outcome;
#[cfg(target_os = "linux")]
use super::profiling::{Profiling, Turns};
use super::server::{Listening, RunningServer, SERVER_TIMEOUT};
#[cfg(target_os = "linux")]
use super::turns::{TurnWatch, Watched, root_of};
use super::warm_up::{self, Warmth};
use crate::clients::{self, Fleet};
use crate::judge::{self, TAKEN_SHARE_MAX_INTERLEAVED};
use crate::record::{LoadOrder, Trial, WarmUp, requests_answered};
use crate::spec::ServerSpec;
use crate::spec::transport::Transport;

/// The time for a server to read its counters. Each connection adds time, because it may have its own process (20 to 40 µs
/// measured).
const MARK_NS: u64 = 200_000_000;
const MARK_NS_PER_CONNECTION: u64 = 50_000;

/// A trial of a heat.
pub(super) struct Contestant<'a> {
    pub(super) trial: &'a Trial,
    /// The file for its samples.
    pub(super) samples: PathBuf,
    pub(super) observations: Observations,
    server: Option<StartedServer>,
    order: Option<LoadOrder>,
    idle: Option<IdleHolders>,
}

impl<'a> Contestant<'a> {
    pub(super) fn new(trial: &'a Trial, samples: PathBuf, observations: Observations) -> Self {
        Self { trial, samples, observations, server: None, order: None, idle: None }
    }

    /// The facts about its slices.
    pub(super) fn slices(&self) -> Option<&SliceResult> {
        self.observations.load.as_ref()?.slices.as_ref()
    }

    /// The time in which its queue of Poisson arrivals settles, in guards. `None` for other arrivals, or without counters.
    fn settling_guards(&self) -> Option<f64> {
        let slices = self.trial.client.slices.filter(|_| self.trial.workload.schedule() == Some(Schedule::Poisson))?;
        let (counters, load) = (self.observations.counters()?, self.observations.load.as_ref()?);
        let cpu_ns = counters.cpu_ns() as f64 / outcome::cpus_at_once(self.trial) as f64;
        let service_ns = cpu_ns / requests_answered(&counters, load).max(1.0);
        Some(judge::settling_ns(cpu_ns / counters.window_ns.max(1) as f64, service_ns) / slices.guard_ns as f64)
    }

    /// Whether other processes took too much of the server's CPUs for a contestant of a heat.
    pub(super) fn lost_cpus(&self, are_clients_remote: bool) -> bool {
        let beside = self.observations.cpu_beside_server(self.trial, are_clients_remote);
        beside.is_some_and(|(taken, _)| taken > TAKEN_SHARE_MAX_INTERLEAVED)
    }

    fn started(&mut self) -> &mut StartedServer {
        self.server.as_mut().expect("the server has started")
    }

    fn server(&mut self) -> &mut RunningServer {
        &mut self.started().running
    }
}

/// The means of a heat.
pub(super) struct HeatRun<'a, 'b> {
    pub(super) launch: &'a dyn Launch,
    pub(super) stop: &'a Stop,
    /// The hosts of the processes; `None` over loopback.
    pub(super) testbed: Option<&'b Testbed>,
    pub(super) fleet: &'b mut dyn Fleet,
    /// The external servers that a search keeps; `None` for other strategies.
    pub(super) kept: Option<&'b mut KeptServers>,
    /// Whether stacks of the servers are sampled.
    pub(super) is_profiled: bool,
    pub(super) on_event: &'b mut dyn FnMut(RunEvent<'_>),
}

/// The failure of a heat, and the contestant that caused it.
type Failure = (usize, anyhow::Error);

/// Selects the field that stores a mark.
type MarkField = fn(&mut Observations) -> &mut Option<Mark>;

impl<'a> HeatRun<'a, '_> {
    /// Runs the contestants and ends all their processes. Returns an outcome for each contestant, `None` if another one ended the
    /// heat.
    pub(super) fn run(mut self, contestants: &mut [Contestant<'a>]) -> Vec<Option<anyhow::Result<()>>> {
        let outcome = self.measure(contestants);
        contestants.iter_mut().for_each(|contestant| contestant.idle = None);
        self.fleet.dismiss();
        let mut failure = outcome.err();
        for (number, contestant) in contestants.iter_mut().enumerate() {
            let own = failure.take_if(|(culprit, _)| *culprit == number).map_or(Ok(()), |(_, error)| Err(error));
            if failure.is_none() && own.is_ok() && self.keeps(contestant) {
                continue;
            }
            if let Err(error) = contestant.end(own) {
                // The first failure explains later ones.
                failure.get_or_insert((number, error));
            }
        }
        let culprit = failure.as_ref().map(|(culprit, _)| *culprit);
        let mut error = failure.map(|(_, error)| error);
        (0..contestants.len())
            .map(|number| match culprit {
                None => Some(Ok(())),
                Some(culprit) if culprit == number => error.take().map(Err),
                Some(_) => None,
            })
            .collect()
    }

    /// Keeps a contestant's external server for the next probe of its search. Returns whether it did.
    fn keeps(&mut self, contestant: &mut Contestant<'_>) -> bool {
        let is_external = matches!(contestant.trial.serve, ServerSpec::External(_));
        // In a lab the server belongs to the host of a testbed.
        let is_here = is_external && self.testbed.is_none();
        let Some(kept) = self.kept.as_deref_mut().filter(|_| is_here) else { return false };
        let server = contestant.server.take_if(|server| !server.running.process.has_ended());
        server.map(|server| kept.keep(&contestant.trial.serve, server)).is_some()
    }

    /// Starts all servers and clients, and waits until all clients have reported.
    fn measure(&mut self, contestants: &mut [Contestant<'a>]) -> Result<(), Failure> {
        // Before all connections, because the end of a warm-up ends all clients.
        for (number, contestant) in contestants.iter_mut().enumerate() {
            if matches!(contestant.trial.serve, ServerSpec::External(_)) {
                self.start(contestant).and_then(|()| self.warm_up(contestant)).map_err(|error| (number, error))?;
            }
        }
        // One after the other, so that the kernel memory of each contestant's connections is known.
        let is_interleaved = contestants.len() > 1;
        for (number, contestant) in contestants.iter_mut().enumerate() {
            self.connect(contestant, is_interleaved).map_err(|error| (number, error))?;
        }
        let mut hook = |_: Option<&load::Event>| self.stop.check().map(|()| Instant::now() + POLL_INTERVAL);
        let start_ns = self.fleet.begin(&mut hook).map_err(|error| (0, contestants[0].cause_of_client_error(error)))?;
        #[cfg(target_os = "linux")]
        let turns = watch_turns(contestants, start_ns);
        #[cfg(target_os = "linux")]
        let profiling = self.is_profiled.then(|| profile(contestants, start_ns)).transpose();
        #[cfg(target_os = "linux")]
        let profiling = profiling.map_err(|error| (0, error))?;
        let reports = self.watch(contestants, start_ns)?;
        #[cfg(target_os = "linux")]
        if let Some(profiling) = profiling {
            // The processes must exist, because their memory tells the names of functions.
            let profiles = profiling.end().into_iter();
            contestants.iter_mut().zip(profiles).for_each(|(it, profile)| it.observations.profile = Some(profile));
        }
        #[cfg(target_os = "linux")]
        let turns = turns.map_or_else(Vec::new, TurnWatch::end);
        #[cfg(not(target_os = "linux"))]
        let turns = Vec::new();
        for (number, contestant) in contestants.iter_mut().enumerate() {
            contestant.finish(self.stop).map_err(|error| (number, error))?;
        }
        self.fleet.dismiss();
        merge(contestants, reports, turns, self.fleet.are_all_remote())
    }

    /// Starts a contestant's server, unless an earlier probe left it.
    fn start(&mut self, contestant: &mut Contestant<'a>) -> anyhow::Result<()> {
        let trial = contestant.trial;
        if let Some(mut server) =
            self.kept.as_mut().filter(|_| self.testbed.is_none()).and_then(|kept| kept.take(&trial.serve))
        {
            server.warm_up.iter_mut().for_each(|warm_up| warm_up.is_earlier = true);
            contestant.server = Some(server);
            return Ok(());
        }
        let needs_socket = trial.workload.transport == Transport::Unix && trial.serve.target().is_none();
        let folder = (needs_socket || trial.serve.needs_dir()).then(PrivateFolder::new).transpose();
        let folder = folder.context("cannot create a private folder for the server")?;
        let address = match folder.as_ref().filter(|_| needs_socket) {
            Some(folder) => Some(folder.address().map_err(anyhow::Error::msg)?),
            None => self.fleet.server_ip().map(|ip| (ip, 0).into()),
        };
        let config = address.into_iter().fold(trial.serve.clone(), ServerSpec::listening_on);
        let config = folder.iter().fold(config, |config, folder| config.with_dir(folder.path()));
        let process = self.launch.server(&config, self.testbed.map(Testbed::server))?;
        let running = RunningServer { process, stop: self.stop.clone() };
        let server = StartedServer { running, listening: None, folder, warm_up: None, first_connections: None };
        let server = contestant.server.insert(server);
        let start_timeout = match &trial.serve {
            ServerSpec::Ours(_) | ServerSpec::Target(_) => SERVER_TIMEOUT,
            ServerSpec::External(exec) => SERVER_TIMEOUT + Duration::from_nanos(exec.start_timeout_ns),
        };
        server.listening = Some(server.running.wait_ready(start_timeout)?);
        Ok(())
    }

    /// Returns the configuration of the clients of a started contestant.
    fn load(&self, contestant: &mut Contestant<'a>) -> anyhow::Result<LoadConfig> {
        let trial = contestant.trial;
        let listening = contestant.started().listening.clone();
        let Listening { address, ports, certificates, .. } = listening.expect("the server listens");
        let mut config = trial.load().with(|it| (it.target, it.ports) = (address, ports));
        if let (Some(tls), Some(certificates)) = (&mut config.client.tls, certificates) {
            tls.ca = Some(certificates);
        }
        if let Some(testbed) = self.testbed {
            config.sources = testbed.sources(&config).map_err(anyhow::Error::msg)?;
        }
        Ok(config)
    }

    /// Loads an external server until it no longer gets faster. Reads its counters at its first connections.
    fn warm_up(&mut self, contestant: &mut Contestant<'a>) -> anyhow::Result<()> {
        if contestant.started().warm_up.is_some() {
            return Ok(());
        }
        let Some(config) = warm_up::warming(&self.load(contestant)?) else { return Ok(()) };
        let Self { stop, testbed, fleet, on_event, .. } = self;
        let trial = contestant.trial;
        let order = LoadOrder::new(config, trial.clone());
        let server = contestant.server.as_mut().expect("the server has started");
        fleet.set_client_hosts(testbed.map_or(&[][..], Testbed::clients))?;
        let begun = Instant::now();
        let mut warmth = Warmth::default();
        while !warmth.is_over() {
            let mut on_client = |event: Option<&load::Event>| {
                event.into_iter().for_each(|event| on_event(RunEvent::Load(event)));
                stop.check().map(|()| Instant::now() + POLL_INTERVAL)
            };
            let mut round = || {
                fleet.broadcast(&order, &contestant.samples)?;
                fleet.await_ready(&mut on_client)?;
                if server.first_connections.is_none() {
                    let ready = server.listening.as_ref().map(|listening| listening.snapshot.clone());
                    server.first_connections = ready.zip(Some(server.running.mark()?.server)).map(Into::into);
                }
                fleet.begin(&mut on_client)?;
                fleet.gather(0, &mut on_client)
            };
            let gathered = round();
            fleet.dismiss();
            let gathered = gathered.map_err(|error| server.running.cause_of_client_error(trial, error))?;
            warmth.add(gathered.iter().map(|client| &client.account.report));
        }
        let elapsed_ns = begun.elapsed().as_nanos() as u64;
        server.warm_up = Some(WarmUp { elapsed_ns, is_growing: warmth.is_growing(), is_earlier: false });
        Ok(())
    }

    /// Starts the server unless it runs, the idle connections and the clients of a contestant, and waits until all are connected.
    fn connect(&mut self, contestant: &mut Contestant<'a>, is_interleaved: bool) -> anyhow::Result<()> {
        let trial = contestant.trial;
        if contestant.server.is_none() {
            self.start(contestant)?;
        }
        let server = contestant.started();
        let ready = match &server.listening {
            Some(listening) if server.warm_up.is_none() => listening.snapshot.clone(),
            _ => server.running.mark()?.server,
        };
        let (warm_up, first_connections) = (server.warm_up, server.first_connections.clone());
        // Without a first snapshot, a trial has no counters.
        contestant.observations.ready = trial.serve.is_counted().then_some(ready);
        (contestant.observations.warm_up, contestant.observations.first_connections) = (warm_up, first_connections);
        let config = self.load(contestant)?;
        let Self { launch, stop, testbed, fleet, on_event, .. } = self;
        let server = &mut contestant.server.as_mut().expect("the server has started").running;
        let hosts = testbed.map_or(&[][..], Testbed::clients);
        let mut connecting = |done, total| on_event(RunEvent::Load(&load::Event::Connecting { done, total }));
        let idle = IdleHolders::start(*launch, &config, hosts, stop, &mut connecting)
            .map_err(|error| server.cause_of_client_error(trial, error))?;
        contestant.idle = Some(idle);
        let order = contestant.order.insert(LoadOrder::new(config, trial.clone()));
        fleet.set_client_hosts(hosts)?;
        fleet.broadcast(order, &contestant.samples).map_err(|error| server.cause(error))?;
        let mut on_connecting = |event: Option<&load::Event>| {
            event.into_iter().for_each(|event| on_event(RunEvent::Load(event)));
            stop.check().map(|()| Instant::now() + POLL_INTERVAL)
        };
        fleet.await_ready(&mut on_connecting).map_err(|error| server.cause_of_client_error(trial, error))?;
        if is_interleaved {
            contestant.observations.connected = Some(server.mark()?.server);
        }
        Ok(())
    }

    /// Waits until all clients have reported. Reads the servers' counters at the edges of the window.
    fn watch(
        &mut self,
        contestants: &mut [Contestant<'a>],
        start_ns: u64,
    ) -> Result<Vec<Vec<clients::Gathered>>, Failure> {
        let Self { stop, fleet, on_event, .. } = self;
        let Trial { client, workload, .. } = contestants[0].trial;
        let window = client.window_ns(&workload.phases);
        let warm_up_ns = client.elapsed_ns(workload.phases.warm_up_ns);
        let started = clients::instant_of(start_ns);
        let at = |ns: u64| started + Duration::from_nanos(ns);
        let mut marks: Vec<(Instant, usize, MarkField)> = Vec::new();
        // The marks take at most nine tenths of the warm-up, so that the clients have reached the rate.
        let count = contestants.len() as u64;
        let marking =
            |trial: &Trial| MARK_NS + MARK_NS_PER_CONNECTION * u64::from(trial.workload.connections_and_idle());
        let lead_ns = marking(contestants[0].trial).min(warm_up_ns * 9 / 10 / count);
        for (number, contestant) in contestants.iter_mut().enumerate() {
            let place = number as u64;
            contestant.observations.contestants = count as u32;
            let late_ns =
                (place + 1) * MARK_NS_PER_CONNECTION * u64::from(contestant.trial.workload.connections_and_idle());
            contestant.observations.due_ns = [window.start, window.end + late_ns].map(|ns| start_ns + ns);
            let begin = at(window.start - (count - place) * lead_ns);
            marks.push((begin, number, |observations| &mut observations.start));
            marks.push((at(window.end), number, |observations| &mut observations.end));
        }
        marks.sort_by_key(|(at, number, _)| std::cmp::Reverse((*at, *number)));
        let part = Duration::from_nanos((window.end - window.start) / PARTS as u64);
        // Streams are not interleaved: the only contestant reports its moved bytes at the edges of the window's parts.
        let is_counted = contestants[0].trial.counts_streams();
        // The remaining edges, in reverse order.
        let edges = (0..=PARTS as u32).rev().filter(|_| is_counted).map(|edge| at(window.start) + part * edge);
        let mut edges: Vec<Instant> = edges.collect();
        let culprit = Cell::new(None);
        let blame = |number: usize| move |error: anyhow::Error| (number, error);
        let mut reports = Vec::new();
        for number in 0..contestants.len() {
            let mut on_measuring = |event: Option<&load::Event>| {
                event.into_iter().for_each(|event| on_event(RunEvent::Load(event)));
                for (number, contestant) in contestants.iter_mut().enumerate() {
                    if contestant.server().process.has_ended() {
                        culprit.set(Some(number));
                        // The processes of an external server may continue after the end of their supervisor.
                        bail!("the server ended");
                    }
                }
                // Request moved bytes before the mark at the end of the window, because the mark takes longer.
                while edges.last().is_some_and(|edge| Instant::now() >= *edge) {
                    edges.retain(|edge| Instant::now() < *edge);
                    let moved = contestants[0].server().moved()?;
                    contestants[0].observations.moved.push(moved);
                }
                while let Some((_, number, field)) = marks.pop_if(|(at, ..)| Instant::now() >= *at) {
                    culprit.set(Some(number));
                    let mark = contestants[number].server().mark()?;
                    *field(&mut contestants[number].observations) = Some(mark);
                    culprit.set(None);
                }
                stop.check()?;
                let due = marks.last().map(|(at, ..)| *at).into_iter().chain(edges.last().copied());
                Ok(due.fold(Instant::now() + POLL_INTERVAL, Instant::min))
            };
            let gathered = fleet.gather(number, &mut on_measuring).map_err(blame(culprit.get().unwrap_or(number)));
            let gathered =
                gathered.map_err(|(number, error)| (number, contestants[number].cause_of_client_error(error)));
            reports.push(gathered?);
        }
        // A busy machine may have delayed marks. The clients still hold their connections.
        while let Some((_, number, field)) = marks.pop() {
            let mark = contestants[number].server().mark().map_err(blame(number))?;
            *field(&mut contestants[number].observations) = Some(mark);
        }
        Ok(reports)
    }
}

impl Contestant<'_> {
    fn cause_of_client_error(&mut self, error: anyhow::Error) -> anyhow::Error {
        let trial = self.trial;
        match &mut self.server {
            Some(server) => server.running.cause_of_client_error(trial, error),
            None => error,
        }
    }

    /// Reads what can only be read after the window.
    fn finish(&mut self, stop: &Stop) -> anyhow::Result<()> {
        if self.trial.counts_streams() {
            self.observations.last = Some(self.server().mark()?.server);
        }
        if let Some(idle) = self.idle.take().filter(|_| self.trial.workload.idle > 0) {
            self.observations.idle = Some(idle.verify(stop)?);
        }
        Ok(())
    }

    /// Ends the processes of a contestant with this outcome.
    fn end(&mut self, outcome: anyhow::Result<()>) -> anyhow::Result<()> {
        // Its folder is removed at the end of this function.
        let Some(StartedServer { running: mut server, folder: _folder, .. }) = self.server.take() else {
            return outcome;
        };
        let outcome = match outcome {
            Ok(()) if server.process.has_ended() => Err(server.cause(anyhow!("the server ended"))),
            outcome => outcome,
        };
        // `end` gives the supervisor of an external server time to end the server's processes.
        server.process.end();
        // A server may fail when its clients leave. The kernel closes the connections of a killed server before it reports the
        // server's death.
        let outcome = match outcome {
            Ok(()) if server.process.has_failed() => {
                let error = server.process.end_error();
                Err(server.cause(error))
            }
            outcome => outcome,
        };
        match (outcome, end_leftovers(&self.trial.serve, &server)) {
            (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
            (outcome, ended) => outcome.and(ended),
        }
    }
}

/// Begins to read the CPU times of the servers in the turns of others.
#[cfg(target_os = "linux")]
fn watch_turns(contestants: &mut [Contestant<'_>], start_ns: u64) -> Option<TurnWatch> {
    let Trial { client, workload, .. } = contestants[0].trial;
    let (slices, window) = (client.slices?, client.window_ns(&workload.phases));
    let watched = |it: &mut Contestant<'_>| {
        let pid = it.server().process.pid().as_raw_nonzero().get();
        Watched::find(&it.trial.serve, pid, outcome::cpus_at_once(it.trial))
    };
    let servers = contestants.iter_mut().map(watched).collect();
    // Without the thread, the share is unknown.
    TurnWatch::start(servers, slices, window, start_ns, contestants[0].trial.serve.cpus()).ok()
}

/// Begins to sample the stacks of the servers.
#[cfg(target_os = "linux")]
fn profile(contestants: &mut [Contestant<'_>], start_ns: u64) -> anyhow::Result<Profiling> {
    let Trial { client, workload, .. } = contestants[0].trial;
    let turns = Turns::new(client.slices, client.window_ns(&workload.phases), start_ns);
    let root = |it: &mut Contestant<'_>| {
        let pid = it.server().process.pid().as_raw_nonzero().get();
        root_of(&it.trial.serve, pid)
    };
    let roots: Vec<Option<Root>> = contestants.iter_mut().map(root).collect();
    let cpus: BTreeSet<usize> = contestants.iter().flat_map(|it| it.trial.serve.cpus()).copied().collect();
    Profiling::start(roots, turns, cpus.into_iter().collect()).map_err(anyhow::Error::msg)
}

/// Merges the reports of each contestant's clients. Leaves out rounds in which any client paused, alike for all contestants.
fn merge(
    contestants: &mut [Contestant<'_>],
    mut reports: Vec<Vec<clients::Gathered>>,
    turns: Vec<TurnFigures>,
    are_clients_remote: bool,
) -> Result<(), Failure> {
    subtract_rivals(&mut reports);
    let mut merged: Vec<LoadResult> = Vec::new();
    for (number, (contestant, gathered)) in contestants.iter().zip(reports).enumerate() {
        let order = contestant.order.as_ref().expect("the contestant has an order");
        merged.push(clients::merge(order, gathered, &contestant.samples).map_err(|error| (number, error))?);
    }
    // A server on the client's CPU makes the client pause too. These pauses belong to its figures.
    let load = contestants[0].trial.load();
    let is_shared = |cpu: &usize| contestants.iter().any(|it| it.trial.serve.cpus().contains(cpu));
    let have_own_cpus = !load.client.cpus.is_empty() && !load.client.cpus.iter().any(is_shared);
    let left_out = rounds_with_pauses(&load, merged.iter().filter(|_| are_clients_remote || have_own_cpus));
    for (number, (contestant, report)) in contestants.iter_mut().zip(merged).enumerate() {
        contestant.observations.load = Some(match contestant.trial.client.slices {
            None => report,
            Some(_) => {
                let file = &contestant.samples;
                let mut samples = traffic::samples::read(file).map_err(|error| (number, error))?;
                let mut report = joined(&contestant.trial.load(), report, &mut samples, &left_out);
                crate::samples::rewrite(file, &samples).map_err(|error| (number, error))?;
                let (observations, slices) = (&mut contestant.observations, report.slices.as_mut());
                if let Some((slices, figures)) = slices.zip(turns.get(number)) {
                    let none = BTreeSet::new();
                    let left_out = if slices.left_out > slices.rounds { &none } else { &left_out };
                    slices.outside_share = figures.outside_share;
                    observations.waits_ns = figures.waits_in(left_out, slices.measured_rounds());
                }
                report
            }
        });
        let settling_guards = contestant.settling_guards();
        let slices = contestant.observations.load.as_mut().and_then(|load| load.slices.as_mut());
        slices.into_iter().for_each(|slices| slices.settling_guards = settling_guards);
    }
    add_rivals(contestants);
    Ok(())
}

/// Tells each contestant the median service times of the others.
fn add_rivals(contestants: &mut [Contestant<'_>]) {
    let medians = |it: &Contestant<'_>| it.observations.load.as_ref().map(|load| load.service.p50_by_part_ns);
    let medians: Vec<Option<[u64; PARTS]>> = contestants.iter().map(medians).collect();
    for (number, contestant) in contestants.iter_mut().enumerate() {
        let rivals: Vec<&[u64; PARTS]> = medians
            .iter()
            .enumerate()
            .filter(|(rival, _)| *rival != number)
            .filter_map(|(_, it)| it.as_ref())
            .collect();
        let mean_ln = |part: usize| rivals.iter().map(|it| (it[part] as f64).ln()).sum::<f64>() / rivals.len() as f64;
        contestant.observations.rivals_ns =
            (!rivals.is_empty()).then(|| std::array::from_fn(|part| mean_ln(part).exp()));
    }
}

/// Removes the clients of other contestants from the utilisation of each client's CPUs.
fn subtract_rivals(reports: &mut [Vec<clients::Gathered>]) {
    let share = |it: &clients::Gathered| {
        let Account { config, machine, .. } = &it.account;
        (machine.clone(), config.client.cpus.clone(), it.account.cpu_share())
    };
    let shares: Vec<Vec<_>> = reports.iter().map(|clients| clients.iter().map(share).collect()).collect();
    for (contestant, clients) in reports.iter_mut().enumerate() {
        for Account { config, machine, cpus_used, .. } in clients.iter_mut().map(|client| &mut client.account) {
            let rivals = shares.iter().enumerate().filter(|(rival, _)| *rival != contestant).flat_map(|(_, it)| it);
            let beside = rivals.filter(|(place, cpus, _)| place == machine && *cpus == config.client.cpus);
            let rivals: f64 = beside.map(|(_, _, used)| used).sum();
            *cpus_used = cpus_used.map(|used| (used - rivals).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Draft, Gathered};

    #[test]
    fn clients_of_other_contestants_are_no_other_programs() {
        let gathered = |machine: &str, cpus: &[usize], cpu_ns, cpus_used| {
            let phases = load::config::Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 1_000, cool_down_ns: 0 };
            let config = LoadConfig::small(([127, 0, 0, 1], 80))
                .with(|it| (it.client.cpus, it.phases) = (cpus.to_vec(), phases));
            let report = LoadResult { cpu_ns, ..crate::judge::tests::healthy() };
            let account = Account { config, machine: machine.into(), place: String::new(), report, cpus_used };
            Gathered { account, samples: Draft { path: "/nonexistent".into(), is_kept: true } }
        };
        let contestant = |cpu_ns| vec![gathered("a", &[1, 2], cpu_ns, Some(0.5)), gathered("b", &[1], cpu_ns, None)];
        let mut reports = vec![contestant(100), contestant(200), contestant(300)];
        subtract_rivals(&mut reports);
        let used: Vec<Option<f64>> = reports.iter().map(|clients| clients[0].account.cpus_used).collect();
        let others = [0.5 - 0.25, 0.5 - 0.2, 0.5 - 0.15];
        assert!(used.iter().zip(others).all(|(used, other)| (used.unwrap() - other).abs() < 1e-9), "{used:?}");
        assert_eq!(reports[0][1].account.cpus_used, None);
    }
}
