//! The driver of all loops: starts their threads, watches the trial, and reports its progress.

mod busy;
mod hiccups;
mod placement;

use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Arrival, LoadConfig, Trace, validate};
use crate::error::LoadError;
use crate::io::platform::Pinned;
use crate::record::progress::Progress;
use crate::record::recorder::Times;
use crate::record::summary::{Trial, Usage};
use crate::result::samples::KernelFacts;
use crate::result::{LoadResult, Sample};
use crate::socket::Socket;
use crate::time::clock::{self, Clock, Wall};
use hiccups::Hiccups;

pub use busy::{Sleeper, Turns, busiest};
pub use placement::{cpu_of, cpus, resolve};

/// The time between the end of all preparations and the ramp, in nanoseconds.
pub const LEAD_NS: u64 = 5_000_000;
/// The pause between two attempts to write to a full socket, in nanoseconds.
pub const RETRY_NS: f64 = 50_000.0;
/// A server that closes a new connection sooner than this, before any request, rejects it. In nanoseconds.
pub const REJECTS_NS: i64 = 10_000_000;
/// `sleep-spin` wakes this long before a planned time: the delay of a timer on a busy machine.
pub const SPIN_NS: i64 = 60_000;
/// The longest cool-down after a window that ends before its planned end, in nanoseconds.
const CUT_COOL_DOWN_NS: u64 = 1_000_000_000;
/// The shortest window that ends before its planned end, in nanoseconds.
const CUT_WINDOW_NS: f64 = 10e6;
/// The interval between progress reports, and between comparisons of the client's clock with the wall clock, in nanoseconds.
const PROGRESS_NS: u64 = 500_000_000;

/// An event of a running load. A `load` process prints each event as a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The client makes and verifies connections.
    Connecting {
        /// Connections verified so far.
        done: u32,
        /// Connections to verify.
        total: u32,
    },
    /// The client sends requests before the load, such as those that store a data set.
    Preparing {
        /// Requests answered so far.
        done: u64,
        /// Requests to answer.
        total: u64,
    },
    /// All connections are verified and all preparations are complete.
    Connected {
        /// The number of connections.
        connections: u32,
        /// Time to connect, in nanoseconds.
        elapsed_ns: u64,
    },
    /// The client is ready and waits for the common start time.
    Ready,
    /// The ramp begins.
    Started {
        /// Start of the ramp on CLOCK_MONOTONIC, in nanoseconds; the other phases follow from it.
        start_ns: u64,
    },
    /// Progress, about twice per second.
    Progress {
        /// `ramp`, `warm-up`, `measure` or `cool-down`.
        phase: String,
        /// Time since the ramp began, in nanoseconds.
        elapsed_ns: u64,
        /// Requests sent so far.
        sent: u64,
        /// Responses completed so far.
        completed: u64,
        /// Bytes of bursts so far; 0 for services other than `stream`.
        bytes: u64,
    },
    /// The load has ended.
    Finished {
        /// The result.
        report: Box<LoadResult>,
    },
    /// The load failed.
    Failed {
        /// Cause, place and remedy.
        reason: String,
        /// Whether the load itself succeeded and only its result could not be written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_unwritten: bool,
    },
}

/// The result of a load.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: LoadResult,
    /// The samples of the window's requests, by planned time.
    pub samples: Vec<Sample>,
    /// The connections, still open, so that the server's resource usage can be read while they exist.
    pub connections: Vec<OwnedFd>,
}

impl Outcome {
    /// Keeps the connections open.
    pub fn new((report, samples): (LoadResult, Vec<Sample>), sockets: impl IntoIterator<Item = Socket>) -> Self {
        Self { report, samples, connections: sockets.into_iter().map(OwnedFd::from).collect() }
    }
}

/// Recorded arrivals in order of time. An error states file, place and remedy.
pub type Arrivals = Box<dyn Iterator<Item = Result<Arrival, String>>>;

/// Receives the events of a load, reads traces, and may set the start time.
pub trait Listener {
    /// Handles an event.
    fn on(&mut self, event: Event);

    /// Opens the file of a trace. Returns its arrivals in order of time, without collecting them.
    fn arrivals(&mut self, trace: &Trace) -> Result<Arrivals, String> {
        Err(format!("workload.trace: this client does not read {}; use `muxbench load`", trace.file.display()))
    }

    /// Returns the time at which to end the window before its planned end, on CLOCK_MONOTONIC in nanoseconds. It may be before the
    /// window: then it ends soon after its start.
    fn ends_at_ns(&mut self) -> Option<u64> {
        None
    }

    /// Returns the start time of the ramp on CLOCK_MONOTONIC, in nanoseconds; `None` to start after 5 ms.
    fn begin(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }
}

impl<F: FnMut(Event)> Listener for F {
    fn on(&mut self, event: Event) {
        self(event);
    }
}

/// A client with verified connections, after its preparations.
pub struct Connected {
    pub clock: Clock,
    pub sockets: Vec<Socket>,
    /// The source addresses of the connections, to use in turn; empty if the system chooses.
    pub sources: Vec<IpAddr>,
    pub connect_ns: u64,
    pub kernel: Option<KernelFacts>,
}

/// Checks a configuration, and the availability of its CPUs.
pub fn check(config: &LoadConfig) -> Result<(), LoadError> {
    validate::check(config).map_err(LoadError::Config)?;
    // Check one by one: from a set, the kernel silently uses only the available CPUs.
    config.client.cpus.iter().try_for_each(|&cpu| Pinned::to(&[cpu]).map(drop))
}

/// The number of a client's first request. The request numbers of two clients never overlap.
pub fn first_of(client: u32) -> u64 {
    u64::from(client) << 40
}

/// Plans the phases from the listener's start time, and announces the start.
pub fn begin(config: &LoadConfig, clock: &Clock, listener: &mut dyn Listener) -> Result<Times, LoadError> {
    let planned_ns = listener.begin().map_err(LoadError::Config)?;
    let begun_late_ns = planned_ns.map_or(0, |start_ns| clock::monotonic_ns().saturating_sub(start_ns));
    let start = planned_ns.map_or_else(|| clock.now() + clock.ticks(LEAD_NS as f64), |start_ns| clock.at(start_ns));
    listener.on(Event::Started { start_ns: clock.monotonic_ns(start) });
    let at = |ns: u64| start + clock.ticks(ns as f64);
    let window = config.window_ns();
    let window = at(window.start)..at(window.end);
    let drained = window.end + clock.ticks(config.phases.cool_down_ns as f64);
    Ok(Times { start, window, drained, begun_late_ns })
}

#[derive(Clone, Copy, Debug)]
pub struct StopCondition<'a> {
    pub window: &'a Range<u64>,
    /// The end of the cool-down, in ticks. A client that is far behind its schedule sends no requests after it.
    pub drained: u64,
    /// Ends the loop immediately if set.
    pub stop: &'a AtomicBool,
    pub progress: &'a Progress,
}

impl StopCondition<'_> {
    /// Whether the loop must end at `now`, even with outstanding requests.
    #[inline]
    pub fn is_over(&self, now: u64) -> bool {
        now >= self.drained || self.stop.load(Relaxed)
    }

    /// Whether the loop may end at `now`: it must, or the window has ended and no request is outstanding.
    #[inline]
    pub fn may_end(&self, now: u64) -> bool {
        self.is_over(now) || (now >= self.window.end && !self.progress.is_outstanding())
    }
}

pub struct ClientThread<'a, T> {
    pub name: String,
    /// The CPU, if the client has its own CPUs.
    pub cpu: Option<usize>,
    pub run: Box<dyn FnOnce() -> T + Send + 'a>,
}

/// Runs the client's threads until all have ended. Returns their results and the process's resource usage in the window.
pub fn run_threads<T: Send>(
    trial: &Trial<'_>,
    progress: &[&Progress],
    threads: Vec<ClientThread<'_, T>>,
    stop: &dyn Fn(),
    wall: &mut Option<Wall>,
    listener: &mut dyn Listener,
) -> Result<(Vec<T>, Usage), LoadError> {
    let meters_stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let spawn = |ClientThread { name, cpu, run }| placement::start_thread(scope, name, cpu, run);
        let threads: Result<Vec<_>, LoadError> = threads.into_iter().map(spawn).collect();
        let threads = threads.inspect_err(|_| stop())?;
        // Pin this thread too, so that its progress reports do not disturb the server.
        let _pinned = Pinned::to(&trial.config.client.cpus);
        let is_over = || threads.iter().all(thread::ScopedJoinHandle::is_finished);
        let end_meters = || meters_stop.store(true, Relaxed);
        let meters = placement::sleeping_cpus(trial.config, trial.roles, trial.pacing);
        let hiccups = Hiccups::start(scope, &meters, trial.clock, &trial.times.window, &meters_stop);
        let hiccups = hiccups.inspect_err(|_| {
            stop();
            end_meters();
        })?;
        let mut usage = watch(trial, progress, &is_over, stop, wall, listener);
        end_meters();
        usage.stalled_ns = hiccups.stalled_ns();
        let join = |thread: thread::ScopedJoinHandle<'_, T>| thread.join().expect("a client's thread does not panic");
        Ok((threads.into_iter().map(join).collect(), usage))
    })
}

/// Runs one loop per client, each in its own thread.
pub fn run_loops<'a, T: Send>(
    trial: &Trial<'_>,
    progress: impl IntoIterator<Item = &'a Progress>,
    loops: impl Iterator<Item = impl FnOnce(&AtomicBool) -> T + Send + 'a>,
    listener: &mut dyn Listener,
) -> Result<(Vec<T>, Usage), LoadError> {
    let stop = &AtomicBool::new(false);
    let mut threads: Vec<ClientThread<'_, T>> = Vec::new();
    for (number, run) in loops.enumerate() {
        let cpu = cpu_of(trial.config, number);
        threads.push(ClientThread { name: format!("client {number}"), cpu, run: Box::new(move || run(stop)) });
    }
    let progress: Vec<&Progress> = progress.into_iter().collect();
    run_threads(trial, &progress, threads, &|| stop.store(true, Relaxed), &mut None, listener)
}

/// Sleeps through a trial. Wakes to report progress, and to read the process's usage at the edges of the window. If the listener ends
/// the window, stops the client after the cool-down of an open loop.
fn watch(
    trial: &Trial<'_>,
    progress: &[&Progress],
    is_over: &dyn Fn() -> bool,
    stop: &dyn Fn(),
    wall: &mut Option<Wall>,
    listener: &mut dyn Listener,
) -> Usage {
    let Trial { config, clock, times, .. } = trial;
    let (phases, window) = (config.phases, config.window_ns());
    let ends = [
        ("ramp", config.client.elapsed_ns(phases.ramp_ns)),
        ("warm-up", window.start),
        ("measure", window.end),
        ("cool-down", window.end + phases.cool_down_ns),
    ];
    // The parts of a stream's window have no other lengths than the planned ones.
    let may_cut = config.service.stream().is_none();
    let cut_cool_down_ns = if config.is_closed() { 0 } else { phases.cool_down_ns.min(CUT_COOL_DOWN_NS) };
    let (mut asked, mut cut) = (None, None);
    let mut usage = [None; 2];
    let mut next_ns = 0;
    while !is_over() {
        let now = clock.now();
        for (usage, edge) in usage.iter_mut().zip([times.window.start, times.window.end]) {
            if now >= edge && usage.is_none() {
                *usage = Some(Usage::now());
            }
        }
        if asked.is_none() && may_cut && now < times.window.end {
            let earliest = times.window.start + clock.ticks(CUT_WINDOW_NS);
            let at = listener.ends_at_ns().map(|at_ns| clock.at(at_ns).max(earliest));
            asked = at.filter(|at| *at < times.window.end);
        }
        if let Some(at) = asked.filter(|at| cut.is_none() && now >= *at) {
            (cut, usage[1]) = (Some(at), Some(Usage::now()));
        }
        if cut.is_some_and(|cut| clock.between_ns(cut, now) as u64 >= cut_cool_down_ns) {
            stop();
        }
        let elapsed_ns = clock.between_ns(times.start, now).max(0) as u64;
        if elapsed_ns >= next_ns {
            next_ns = elapsed_ns + PROGRESS_NS;
            wall.iter_mut().for_each(|wall| wall.compare(clock));
            let sum = |count: fn(&Progress) -> u64| progress.iter().map(|progress| count(progress)).sum();
            let phase = ends.iter().find(|(_, end_ns)| elapsed_ns < *end_ns).map_or("cool-down", |(phase, _)| phase);
            listener.on(Event::Progress {
                phase: phase.to_owned(),
                elapsed_ns,
                sent: sum(Progress::sent),
                completed: sum(Progress::completed),
                bytes: sum(Progress::bytes),
            });
        }
        let edge_ns = ends.iter().map(|&(_, ns)| ns).find(|&ns| ns > elapsed_ns);
        // After the window, wake often: the cool-down ends early if no request is outstanding.
        let sleep_ns = match edge_ns {
            Some(ns) if usage[0].is_none() || (usage[1].is_none() && asked.is_none()) => {
                (ns - elapsed_ns).min(next_ns - elapsed_ns)
            }
            _ => 1_000_000,
        };
        thread::sleep(Duration::from_nanos(sleep_ns.max(100_000)));
    }
    // The threads may end before the window ends, or even before it begins.
    let end = usage[1].unwrap_or_else(Usage::now);
    let mut usage = end.since(&usage[0].unwrap_or(end));
    usage.cut = cut;
    usage
}
