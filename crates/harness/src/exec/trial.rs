//! One trial: starts its processes, measures, and ends the processes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::LoadConfig;
use load::report::PARTS;
use server::ServerSpec;

use super::event::RunEvent;
use super::idle::IdleHolders;
use super::launch::Launch;
use super::marks::{Mark, Observations};
use super::server::{SERVER_TIMEOUT, Server};
use crate::fleet::{self, Fleet};
use crate::model::{LoadOrder, Trial};
use crate::netns::Testbed;
use crate::process::stop::{POLL_INTERVAL, Stop};
use crate::spec::transport::{SocketFolder, Transport};

/// The time from the server's first mark to the window, so that the server has read its counters before the window. Each
/// connection adds time, because it may have its own process (20 to 40 µs measured).
const MARK_LEAD_NS: u64 = 200_000_000;
const MARK_LEAD_NS_PER_CONNECTION: u64 = 50_000;

pub(super) struct TrialRun<'a> {
    pub(super) trial: &'a Trial,
    pub(super) samples: &'a Path,
    pub(super) launch: &'a dyn Launch,
    pub(super) stop: &'a Stop,
    /// The hosts of the processes; `None` over loopback.
    pub(super) testbed: Option<&'a Testbed>,
    pub(super) fleet: &'a mut dyn Fleet,
    pub(super) observations: &'a mut Observations,
    pub(super) on_event: &'a mut dyn FnMut(RunEvent<'_>),
}

/// Selects the field that stores a mark.
type MarkField = fn(&mut Observations) -> &mut Option<Mark>;

impl TrialRun<'_> {
    /// Runs the trial and ends all its processes.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        // The folder exists until the server has ended, and is removed with everything in it.
        let is_unix = self.trial.workload.transport == Transport::Unix;
        let folder = is_unix.then(SocketFolder::new).transpose();
        let folder = folder.context("cannot create a folder for the server's socket")?;
        let address = match &folder {
            Some(folder) => Some(folder.address().map_err(anyhow::Error::msg)?),
            None => self.fleet.server_ip().map(|ip| (ip, 0).into()),
        };
        let config = self.trial.serve.clone();
        let config = address.into_iter().fold(config, ServerSpec::listening_on);
        let process = self.launch.server(&config, self.testbed.map(Testbed::server))?;
        let mut server = Server { process, stop: self.stop };
        let outcome = self.measure(&mut server);
        self.fleet.dismiss();
        let outcome = match outcome {
            Ok(()) if server.process.has_ended() => Err(server.cause(anyhow!("the server ended"))),
            outcome => outcome,
        };
        // `end` gives the supervisor of an external server time to end the server's processes.
        server.process.end();
        // The kernel closes the connections of a killed server before it reports the server's death.
        let outcome = match outcome {
            Ok(()) if server.process.was_killed() => Err(server.process.end_error()),
            outcome => outcome,
        };
        match (outcome, end_leftovers(self.trial, &server)) {
            (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
            (outcome, ended) => outcome.and(ended),
        }
    }

    /// Runs the clients against the server until all have reported.
    fn measure(&mut self, server: &mut Server<'_>) -> anyhow::Result<()> {
        let Self { trial, samples, launch, stop, testbed, fleet, observations, on_event } = self;
        let start_timeout = match &trial.serve {
            ServerSpec::Ours(_) => SERVER_TIMEOUT,
            ServerSpec::External(exec) => SERVER_TIMEOUT + Duration::from_nanos(exec.start_timeout_ns),
        };
        let (address, ports, snapshot) = server.wait_ready(start_timeout)?;
        observations.ready = Some(snapshot);
        let mut config = LoadConfig { target: address, ports, ..trial.load.clone() };
        if let Some(testbed) = testbed {
            config.sources = testbed.sources(&config).map_err(anyhow::Error::msg)?;
        }
        let hosts = testbed.map_or(&[][..], Testbed::clients);
        let mut connecting = |done, total| on_event(RunEvent::Load(&load::Event::Connecting { done, total }));
        let idle = IdleHolders::start(*launch, &config, hosts, stop, &mut connecting)
            .map_err(|error| server.cause_of_client_error(trial, error))?;
        let order = LoadOrder::new(config, trial.clone());
        fleet.set_client_hosts(hosts)?;
        fleet.broadcast(&order, samples).map_err(|error| server.cause(error))?;
        let mut on_connecting = |event: Option<&load::Event>| {
            event.into_iter().for_each(|event| on_event(RunEvent::Load(event)));
            stop.check().map(|()| Instant::now() + POLL_INTERVAL)
        };
        let start_ns = fleet.barrier(&mut on_connecting).map_err(|error| server.cause_of_client_error(trial, error))?;

        let phases = trial.workload.phases;
        let to_window_ns = phases.ramp_ns + phases.warm_up_ns;
        // The lead takes at most nine tenths of the warm-up, so that the clients have reached the rate.
        let marking_ns = MARK_LEAD_NS_PER_CONNECTION * u64::from(trial.load.connections_and_idle());
        let mark_ns = to_window_ns - (MARK_LEAD_NS + marking_ns).min(phases.warm_up_ns * 9 / 10);
        observations.due_ns = [to_window_ns, phases.sending_ns() + marking_ns].map(|ns| start_ns + ns);
        let started = fleet::instant_of(start_ns);
        let at = |ns: u64| started + Duration::from_nanos(ns);
        let mut marks: Vec<(Instant, MarkField)> = vec![
            (at(phases.sending_ns()), |observations| &mut observations.end),
            (at(mark_ns), |observations| &mut observations.start),
        ];
        let part = Duration::from_nanos(phases.measure_ns / PARTS as u64);
        let is_stream = trial.workload.service.stream().is_some();
        // The remaining edges of the window's parts, in reverse order. At each edge a stream server reports its moved bytes.
        let edges = (0..=PARTS as u32).rev().filter(|_| is_stream).map(|edge| at(to_window_ns) + part * edge);
        let mut edges: Vec<Instant> = edges.collect();
        let mut on_measuring = |event: Option<&load::Event>| {
            event.into_iter().for_each(|event| on_event(RunEvent::Load(event)));
            if server.process.has_ended() {
                // The clients may not notice: an external server's processes can outlive their supervisor.
                bail!("the server ended");
            }
            // Request moved bytes before the mark at the end of the window, because the mark takes longer.
            while edges.last().is_some_and(|edge| Instant::now() >= *edge) {
                edges.retain(|edge| Instant::now() < *edge);
                observations.moved.push(server.moved()?);
            }
            while let Some((_, field)) = marks.pop_if(|(at, _)| Instant::now() >= *at) {
                *field(observations) = Some(server.mark()?);
            }
            stop.check()?;
            let due = marks.last().map(|(at, _)| *at).into_iter().chain(edges.last().copied());
            Ok(due.fold(Instant::now() + POLL_INTERVAL, Instant::min))
        };
        let gathered = fleet.gather(&mut on_measuring);
        let reports = gathered.map_err(|error| server.cause_of_client_error(trial, error))?;
        // A busy machine may have delayed marks. The clients still hold their connections.
        while let Some((_, field)) = marks.pop() {
            *field(observations) = Some(server.mark()?);
        }
        if is_stream {
            observations.last = Some(server.mark()?.server);
        }
        if trial.workload.idle > 0 {
            observations.idle = Some(idle.verify(stop)?);
        }
        fleet.dismiss();
        observations.load = Some(fleet::merge(&order, reports, samples)?);
        Ok(())
    }
}

/// Ends the processes that an external server left behind: a killed supervisor cannot end them.
fn end_leftovers(trial: &Trial, server: &Server<'_>) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    if matches!(trial.serve, ServerSpec::External(_)) {
        return super::leftovers::end_all_of(server.process.pid());
    }
    let _ = (trial, server);
    Ok(())
}
