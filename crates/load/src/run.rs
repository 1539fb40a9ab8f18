//! One trial's load, from connecting to the report.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;
use wire::udp::DATAGRAM_BYTES_MAX;

use crate::clock::{self, Clock, Wall};
use crate::config::{Choice, KvTraffic, LoadConfig, Pacing, Roles, Schedule, Timestamps};
use crate::error::LoadError;
use crate::hiccups::Hiccups;
use crate::open::{self, Until};
use crate::placement;
use crate::platform::{self, Pinned};
use crate::progress::Progress;
use crate::receive::{self, Receiver};
use crate::record::{Link, Record, Shared, Stamp};
use crate::report::{Errors, LoadReport, Sample};
use crate::send::{self, Sender};
use crate::speak::{Speak, with_speaker};
use crate::stamps::{self, Stamping};
use crate::summary::{self, Recorded, Usage};
use crate::{churn, closed, connect, datagrams, ports, prepare, schedule, spare, stream};

/// Between the moment that everything is ready and the beginning of the ramp.
pub const LEAD_NS: u64 = 5_000_000;
/// How often progress is reported, and our clock compared with the wall's.
const PROGRESS_NS: u64 = 500_000_000;

/// What happens while a load runs; also what a `load` process says, one JSON object a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Connections are being made and verified.
    Connecting {
        /// Verified so far.
        done: u32,
        /// To be made.
        total: u32,
    },
    /// Requests that must be answered before all others are: a data set is stored.
    Preparing {
        /// Answered so far.
        done: u64,
        /// To be answered.
        total: u64,
    },
    /// All connections are verified, and everything is prepared.
    Connected {
        /// How many.
        connections: u32,
        /// How long it took, in nanoseconds.
        elapsed_ns: u64,
    },
    /// Everything is ready: whoever waits to be told when the ramp begins is told now.
    Ready,
    /// The ramp begins.
    Started {
        /// When, on CLOCK_MONOTONIC in nanoseconds; the other phases follow from it.
        start_ns: u64,
    },
    /// About twice a second.
    Progress {
        /// `ramp`, `hold`, `measure` or `drain`.
        phase: String,
        /// Since the ramp began, in nanoseconds.
        elapsed_ns: u64,
        /// Requests sent so far.
        sent: u64,
        /// Responses completed so far.
        completed: u64,
        /// Bytes of bursts so far, of streams.
        #[serde(default)]
        bytes: u64,
    },
    /// It is over.
    Finished {
        /// What came of it.
        report: Box<LoadReport>,
    },
    /// It could not be run.
    Failed {
        /// Cause, place, remedy.
        reason: String,
        /// It was run, and what came of it could not be written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_unwritten: bool,
    },
}

/// What a load leaves.
#[derive(Debug)]
pub struct Outcome {
    /// The summary.
    pub report: LoadReport,
    /// Every request of the measured window, by planned time.
    pub samples: Vec<Sample>,
    /// The connections, still open, so that the server can be asked what it used with all of them there.
    pub connections: Vec<OwnedFd>,
}

/// One client: its share of the connections and of the requests.
struct Client {
    records: Vec<Record>,
    /// One for each record, where the kernel's timestamps are asked for.
    stamps: Vec<Stamp>,
    /// Its connections.
    links: Range<usize>,
    /// How many of these requests may be sent on.
    connections: u32,
    progress: Progress,
    /// Its threads are to end.
    stop: AtomicBool,
}

/// What is there once everything is connected and prepared.
pub struct Connected {
    /// The clock of all timestamps.
    pub clock: Clock,
    /// The connections.
    pub links: Vec<Link>,
    /// How long it took, in nanoseconds.
    pub connect_ns: u64,
    /// Where the kernel's timestamps are asked for.
    stamping: Option<Stamping>,
}

/// Who hears what happens, and may say when the ramp begins.
pub trait Listener {
    /// Something happens.
    fn on(&mut self, event: Event);

    /// Everything is ready: when the ramp is to begin, on CLOCK_MONOTONIC in nanoseconds; soon, if nothing is said.
    ///
    /// # Errors
    /// When it is not to begin at all: why.
    fn begin(&mut self) -> Result<Option<u64>, String>;
}

/// A load that waits for no other.
struct Alone<'a>(&'a mut dyn FnMut(Event));

impl Listener for Alone<'_> {
    fn on(&mut self, event: Event) {
        (self.0)(event);
    }

    fn begin(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }
}

/// Runs a load by itself.
///
/// # Errors
/// When it cannot be run at all: see [`LoadError`].
pub fn run(config: &LoadConfig, on_event: &mut dyn FnMut(Event)) -> Result<Outcome, LoadError> {
    run_with(config, &mut Alone(on_event))
}

/// Runs a load that may have to begin together with others.
///
/// # Errors
/// When it cannot be run at all: see [`LoadError`].
pub fn run_with(config: &LoadConfig, listener: &mut dyn Listener) -> Result<Outcome, LoadError> {
    validate(config)?;
    let mut timed = Timed { listener, late_ns: 0 };
    let outcome = if config.service.ports().is_some() {
        datagrams::run(config, &mut timed)
    } else {
        with_speaker!(config, |speaker| speak(config, &speaker, &mut timed))
    };
    outcome.map(|outcome| Outcome { report: LoadReport { begun_late_ns: timed.late_ns, ..outcome.report }, ..outcome })
}

/// One who hears and says what another does, and notes how late that was with the beginning.
struct Timed<'a> {
    listener: &'a mut dyn Listener,
    late_ns: u64,
}

impl Listener for Timed<'_> {
    fn on(&mut self, event: Event) {
        self.listener.on(event);
    }

    fn begin(&mut self) -> Result<Option<u64>, String> {
        let start_ns = self.listener.begin()?;
        self.late_ns = start_ns.map_or(0, |start_ns| clock::monotonic_ns().saturating_sub(start_ns));
        Ok(start_ns)
    }
}

/// Connects, and runs the loop that the schedule asks for.
fn speak<S: Speak>(config: &LoadConfig, speaker: &S, listener: &mut dyn Listener) -> Result<Outcome, LoadError> {
    // Inherited by all threads.
    platform::sharpen_timers();
    let clock = Clock::calibrate(config.clock)?;

    // Of connections that come and go one verifies the server.
    let churns = config.calls_per_connection.is_some();
    let staying = &LoadConfig { connections: if churns { 1 } else { config.connections }, ..config.clone() };
    let total = staying.connections;
    let started = Instant::now();
    let sources = ports::sources(config).map_err(LoadError::Config)?;
    let sockets =
        connect::connect(staying, &sources, speaker, &mut |done| listener.on(Event::Connecting { done, total }))?;
    let connect_ns = started.elapsed().as_nanos() as u64;
    // Of several processes the first does it for all; none begins before it is done.
    if config.part.is_none_or(|part| part.number == 0) {
        let total = speaker.preparations();
        prepare::prepare(config, speaker, &sockets[0], &mut |done| listener.on(Event::Preparing { done, total }))?;
    }
    // Stamps are numbered from here: what was asked before is no record's.
    let stamping = match config.timestamps {
        Timestamps::Client => None,
        Timestamps::Kernel => Some(Stamping::switch_on(config, &sockets)?),
    };
    let links: Vec<Link> = sockets.into_iter().map(Link::new).collect();
    listener.on(Event::Connected { connections: total, elapsed_ns: connect_ns });
    let connected = Connected { clock, links, connect_ns, stamping };
    if let Some(stream) = config.service.stream() {
        return stream::run(config, stream, connected, listener);
    }
    if churns {
        return churn::run(config, speaker, connected, listener);
    }
    match config.schedule {
        Schedule::Closed => closed::run(config, speaker, connected, listener),
        Schedule::SlotRandom
        | Schedule::Constant
        | Schedule::ConstantDrawn
        | Schedule::ConstantTogether
        | Schedule::Poisson => run_open(config, speaker, connected, listener),
    }
}

/// Runs an open loop.
fn run_open<S: Speak>(
    config: &LoadConfig,
    speaker: &S,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, links, connect_ns, stamping } = connected;
    let (roles, pacing) = placement::resolve(config);
    let mut clients = divide(config)?;
    let start = draw(config, &clock, &mut clients, listener)?;
    let window = window(config, &clock, start);
    let drained = window.end + clock.ticks(config.phases.drain_ns as f64);

    // Only stamps are of the wall clock; without them it is not looked at.
    let mut wall = stamping.is_some().then(Wall::default);
    compare(&mut wall, &clock);
    let meters = placement::sleeping_cpus(config, roles, Some(pacing));
    let (receivers, usage) = thread::scope(|scope| {
        let spawn = || -> Result<Vec<_>, LoadError> {
            let mut threads = Vec::new();
            for (number, client) in clients.iter().enumerate() {
                let links = &links[client.links.clone()];
                let (records, progress) = (&client.records, &client.progress);
                let shared =
                    Shared { clock, speaker, first: first_of(config.client(number as u32)), records, links, progress };
                let stamper = stamping.as_ref().map(|it| it.stamper(config, &client.stamps, shared));
                let mut sender = Sender::new(shared, config);
                let mut receiver = Receiver::new(shared, stamper)?;
                let until = Until { window: &window, drained, stop: &client.stop, progress: &client.progress };
                let cpu = |thread: usize| config.cpus.get(thread % config.cpus.len().max(1)).copied();
                match roles {
                    Roles::TwoThreads => {
                        threads.push(start_thread(scope, "receive", number, cpu(2 * number + 1), move || {
                            let busy_share = open::receive_loop(&clock, &until, &mut receiver);
                            Some((receiver.errors(), busy_share))
                        })?);
                        threads.push(start_thread(scope, "send", number, cpu(2 * number), move || {
                            open::send_loop(&clock, pacing, &until, &mut sender);
                            None
                        })?);
                    }
                    Roles::OneLoop | Roles::Auto => {
                        threads.push(start_thread(scope, "client", number, cpu(number), move || {
                            let busy_share = open::one_loop(&clock, pacing, &until, &mut sender, &mut receiver);
                            Some((receiver.errors(), busy_share))
                        })?);
                    }
                }
            }
            Ok(threads)
        };
        // Those that have started already would run for the whole trial.
        let stop = |_: &LoadError| clients.iter().for_each(|client| client.stop.store(true, Relaxed));
        let threads = spawn().inspect_err(stop)?;
        // This thread wakes now and then, and is to disturb the client then and not the server. If it cannot, so be it.
        let _pinned = Pinned::to(&config.cpus);
        let progress: Vec<&Progress> = clients.iter().map(|client| &client.progress).collect();
        let is_over = || threads.iter().all(thread::ScopedJoinHandle::is_finished);
        let watched = watch(config, &clock, start, &progress, &meters, &is_over, &mut wall, listener);
        let usage = watched.inspect_err(stop)?;
        // The send role has nothing to tell that the records do not.
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("a role does not panic");
        Ok((threads.into_iter().filter_map(join).collect::<Vec<(Errors, Option<f64>)>>(), usage))
    })?;
    compare(&mut wall, &clock);

    let wall = wall.filter(|wall| !wall.stepped(&clock));
    let kernel = stamping.map(|stamping| stamping.facts(wall.is_none()));
    let records: Vec<Recorded> = clients
        .into_iter()
        .map(|Client { links, records, stamps, .. }| Recorded { first: links.start as u32, records, stamps })
        .collect();
    let samples = summary::samples(&clock, wall.as_ref(), &window, &records);
    let facts = summary::Facts {
        config,
        roles,
        pacing: Some(pacing),
        clock: &clock,
        connect_ns,
        window,
        usage,
        links: &links,
        kernel,
    };
    let mut report = facts.report(&records, &samples, bytes_per_connection::<S>());
    report.errors = receivers.iter().fold(report.errors, |errors, (more, _)| errors.and(more));
    report.receiver_busy_share = spare::busiest(receivers.iter().map(|(_, busy_share)| *busy_share));
    Ok(Outcome { report, samples, connections: links.into_iter().map(|link| link.io).collect() })
}

/// The number of a client's first request: no other client's numbers come to it.
pub fn first_of(client: u32) -> u64 {
    u64::from(client) << 40
}

/// The tick at which the ramp begins: soon, or when the others do. That it does is told.
///
/// # Errors
/// When it is not to begin at all.
pub fn begin(clock: &Clock, listener: &mut dyn Listener) -> Result<u64, LoadError> {
    let start = match listener.begin().map_err(LoadError::Config)? {
        None => clock.now() + clock.ticks(LEAD_NS as f64),
        Some(start_ns) => clock.at(start_ns),
    };
    listener.on(Event::Started { start_ns: clock.monotonic_ns(start) });
    Ok(start)
}

/// Runs clients that are one loop each, in threads of their own on their CPUs, until all are done: what each kept, and what the
/// process used in the window. A loop ends early when it is told to stop. Without `pacing` the loops sleep when they have nothing
/// to do.
pub fn run_threads<T: Send>(
    config: &LoadConfig,
    (clock, start): (&Clock, u64),
    progress: &[&Progress],
    pacing: Option<Pacing>,
    loops: impl Iterator<Item = impl FnOnce(&AtomicBool) -> T + Send>,
    listener: &mut dyn Listener,
) -> Result<(Vec<T>, Usage), LoadError> {
    let stop = &AtomicBool::new(false);
    let meters = placement::sleeping_cpus(config, Roles::OneLoop, pacing);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, run) in loops.enumerate() {
            let cpu = config.cpus.get(number % config.cpus.len().max(1)).copied();
            let thread = start_thread(scope, "client", number, cpu, move || run(stop));
            // Those that have started already would run for the whole trial.
            threads.push(thread.inspect_err(|_| stop.store(true, Relaxed))?);
        }
        // This thread wakes now and then, and is to disturb the client then and not the server. If it cannot, so be it.
        let _pinned = Pinned::to(&config.cpus);
        let is_over = || threads.iter().all(thread::ScopedJoinHandle::is_finished);
        let watched = watch(config, clock, start, progress, &meters, &is_over, &mut None, listener);
        // The loops would run for the whole trial.
        let usage = watched.inspect_err(|_| stop.store(true, Relaxed))?;
        let join = |thread: thread::ScopedJoinHandle<'_, T>| thread.join().expect("a client does not panic");
        Ok((threads.into_iter().map(join).collect(), usage))
    })
}

/// Starts a role's thread on its CPU.
pub fn start_thread<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    role: &str,
    client: usize,
    cpu: Option<usize>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, LoadError> {
    let _pinned = Pinned::to(cpu.as_slice())?;
    thread::Builder::new()
        .name(format!("{role} {client}"))
        .spawn_scoped(scope, run)
        .map_err(|error| LoadError::System { what: "cannot start a thread of the client", error })
}

/// User memory for each connection: what both roles keep, and what they share.
fn bytes_per_connection<S: Speak>() -> f64 {
    (size_of::<Link>() + send::BYTES_PER_CONNECTION + receive::bytes_per_connection::<S>()) as f64
}

/// What makes no sense.
pub fn validate(config: &LoadConfig) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    if config.clients == 0 || config.connections < config.clients {
        return wrong("clients: at least 1, and at most as many as connections");
    }
    if config.schedule == Schedule::Closed {
        closed::validate(config)?;
    } else if !config.rate_per_s.is_some_and(|rate_per_s| rate_per_s.is_finite() && rate_per_s > 0.0) {
        return wrong("rate: a number of requests a second above 0");
    } else if !config.think.is_none() {
        return wrong("think: only a closed loop thinks; leave it out, or take the schedule `closed`");
    }
    if config.phases.measure_ns == 0 {
        return wrong("measure: longer than 0");
    }
    validate_service(config)?;
    churn::validate(config)?;
    if !(config.active > 0.0 && config.active <= 1.0) {
        return wrong("active: a share of the connections, above 0 and at most 1");
    }
    if schedule::active_count(config.active, config.connections) < config.clients {
        return wrong(
            "clients: each needs an active connection; lower the clients, or raise active or the connections",
        );
    }
    if !config.choice.is_defined() {
        return wrong("choice: an exponent is a finite number above 0; try zipf:1");
    }
    if config.all_clients() > 1 && config.choice != Choice::Uniform {
        return wrong("choice: several clients each have a most popular connection of their own; use one client");
    }
    stamps::check(config).map_err(LoadError::Config)?;
    // Each on its own: of several, the kernel takes those that it can.
    for &cpu in &config.cpus {
        Pinned::to(&[cpu])?;
    }
    // Records are numbered with 32 bits, of which 0 is none.
    if schedule::count_max(config) >= u64::from(u32::MAX) {
        return wrong(
            "rate: more than 4 294 967 294 requests for one client; lower it, or the duration, or take more clients",
        );
    }
    Ok(())
}

fn validate_service(config: &LoadConfig) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    if config.datagrams && config.service.fixed().is_none() {
        return wrong("transport: datagrams hold requests of fixed sizes; use tcp or unix, or the service `fixed`");
    }
    match (&config.service, &config.kv, &config.http) {
        (&ServiceSpec::Fixed { request_bytes, response_bytes }, None, None) => {
            if request_bytes == 0 || response_bytes == 0 {
                return wrong("service: a request and a response have at least one byte");
            }
            if config.datagrams && config.target.path().is_some() {
                return wrong("transport: datagrams go to an address with a port; a Unix socket is a stream");
            }
            if config.datagrams && request_bytes.max(response_bytes) > DATAGRAM_BYTES_MAX {
                return wrong("transport: a datagram holds at most 65507 bytes; lower the sizes, or use tcp");
            }
            Ok(())
        }
        (ServiceSpec::Udp { .. }, None, None) => datagrams::validate(config),
        (&ServiceSpec::Stream(sizes), None, None) => stream::validate(config, sizes),
        (ServiceSpec::Kv { .. }, Some(traffic), None) => validate_kv(traffic),
        // Its paths and headers are checked as requests are made of them.
        (ServiceSpec::Http { .. }, None, Some(traffic)) if (100..=999).contains(&traffic.status) => Ok(()),
        (ServiceSpec::Http { .. }, None, Some(_)) => wrong("http: a status has three digits"),
        (ServiceSpec::Kv { .. }, None, None) => wrong("kv: say which records to ask for"),
        (ServiceSpec::Http { .. }, None, None) => wrong("http: say what to ask for"),
        (_, Some(_), _) => wrong("kv: the service is another, which has no records; leave it out"),
        (_, _, Some(_)) => wrong("http: the service is another, which has no paths; leave it out"),
    }
}

fn validate_kv(traffic: &KvTraffic) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    if traffic.records == 0 {
        return wrong("records: at least 1");
    }
    if traffic.value_bytes_min == 0 || traffic.value_bytes_min > traffic.value_bytes_max {
        return wrong("value size: from at least 1 byte to no less than that");
    }
    if !traffic.keys.is_defined() {
        return wrong("keys: an exponent is a finite number above 0; try zipf:1");
    }
    if !(0.0..=1.0).contains(&traffic.get_share) {
        return wrong("get share: a share of the requests, from 0 to 1");
    }
    Ok(())
}

/// Each client's share, with memory for its records set aside.
fn divide(config: &LoadConfig) -> Result<Vec<Client>, LoadError> {
    let clients = u64::from(config.clients);
    let requests = schedule::count_max(config) as usize;
    let share = |total: u32, number: u64| (u64::from(total) * number / clients) as usize;
    (0..clients)
        .map(|number| {
            let mut records = Vec::new();
            let mut stamps = Vec::new();
            let stamped = if config.timestamps == Timestamps::Kernel { requests } else { 0 };
            records.try_reserve_exact(requests).and_then(|()| stamps.try_reserve_exact(stamped)).map_err(|_| {
                LoadError::Memory {
                    requests: requests as u64 * clients,
                    bytes: size_of::<Record>() + size_of::<Stamp>(),
                }
            })?;
            let first = |number| share(config.connections, number);
            Ok(Client {
                records,
                stamps,
                links: first(number)..first(number + 1),
                connections: (first(number + 1) - first(number)) as u32,
                progress: Progress::default(),
                stop: AtomicBool::new(false),
            })
        })
        .collect()
}

/// Draws every client's schedule, which also touches all memory for records; answers the tick at which the ramp begins.
fn draw(
    config: &LoadConfig,
    clock: &Clock,
    clients: &mut [Client],
    listener: &mut dyn Listener,
) -> Result<u64, LoadError> {
    for (number, client) in clients.iter_mut().enumerate() {
        let planned = schedule::planned(config, client.connections, number as u32);
        client.records.extend(planned.map(|planned| Record::new(clock.ticks(planned.at_ns), planned.connection)));
        if config.timestamps == Timestamps::Kernel {
            client.stamps.resize_with(client.records.len(), Stamp::default);
        }
    }
    // Known only now that the drawing is done.
    let start = begin(clock, listener)?;
    for record in clients.iter_mut().flat_map(|client| &mut client.records) {
        record.planned += start;
    }
    Ok(start)
}

/// The measured window, in ticks, of a trial whose ramp begins at `start`.
pub fn window(config: &LoadConfig, clock: &Clock, start: u64) -> Range<u64> {
    let at = |ns: u64| start + clock.ticks(ns as f64);
    at(config.phases.ramp_ns + config.phases.hold_ns)..at(config.phases.sending_ns())
}

/// Compares our clock with the wall's, if that is wanted.
fn compare(wall: &mut Option<Wall>, clock: &Clock) {
    if let Some(wall) = wall {
        wall.compare(clock);
    }
}

/// Watches the trial: see [`watch_alone`]. Threads on `meters` measure meanwhile for how long the client is stalled.
#[expect(clippy::too_many_arguments)]
fn watch(
    config: &LoadConfig,
    clock: &Clock,
    start: u64,
    progress: &[&Progress],
    meters: &[Option<usize>],
    is_over: &dyn Fn() -> bool,
    wall: &mut Option<Wall>,
    listener: &mut dyn Listener,
) -> Result<Usage, LoadError> {
    let (window, stop) = (window(config, clock, start), AtomicBool::new(false));
    thread::scope(|scope| {
        let hiccups = Hiccups::start(scope, meters, clock, &window, &stop);
        // Those that have started would beat until the window ends.
        let hiccups = hiccups.inspect_err(|_| stop.store(true, Relaxed))?;
        let mut usage = watch_alone(config, clock, start, progress, is_over, wall, listener);
        stop.store(true, Relaxed);
        usage.stalled_ns = hiccups.stalled_ns();
        Ok(usage)
    })
}

/// Sleeps through the trial, and wakes to report progress and to take the process's usage at the window's edges.
fn watch_alone(
    config: &LoadConfig,
    clock: &Clock,
    start: u64,
    progress: &[&Progress],
    is_over: &dyn Fn() -> bool,
    wall: &mut Option<Wall>,
    listener: &mut dyn Listener,
) -> Usage {
    let phases = config.phases;
    let window = window(config, clock, start);
    let edges = [
        ("ramp", phases.ramp_ns),
        ("hold", phases.ramp_ns + phases.hold_ns),
        ("measure", phases.sending_ns()),
        ("drain", phases.sending_ns() + phases.drain_ns),
    ];
    let mut usage = [Usage::default(); 2];
    let mut taken = [false; 2];
    let mut next_ns = 0;
    while !is_over() {
        let now = clock.now();
        for (edge, tick) in [window.start, window.end].into_iter().enumerate() {
            if now >= tick && !taken[edge] {
                usage[edge] = Usage::now();
                taken[edge] = true;
            }
        }
        let elapsed_ns = clock.between_ns(start, now).max(0) as u64;
        if elapsed_ns >= next_ns {
            next_ns = elapsed_ns + PROGRESS_NS;
            compare(wall, clock);
            let sum = |figure: fn(&Progress) -> u64| progress.iter().map(|progress| figure(progress)).sum();
            let phase = edges.iter().find(|(_, end_ns)| elapsed_ns < *end_ns).map_or("drain", |(phase, _)| phase);
            listener.on(Event::Progress {
                phase: phase.to_owned(),
                elapsed_ns,
                sent: sum(Progress::sent),
                completed: sum(Progress::completed),
                bytes: sum(Progress::bytes),
            });
        }
        let edge_ns = edges.iter().map(|&(_, ns)| ns).find(|&ns| ns > elapsed_ns);
        // After the window only the end of the drain is left, which comes early when nothing is outstanding.
        let sleep_ns = match edge_ns {
            Some(ns) if !taken[1] => (ns - elapsed_ns).min(next_ns - elapsed_ns),
            _ => 1_000_000,
        };
        thread::sleep(Duration::from_nanos(sleep_ns.max(100_000)));
    }
    // The run may have ended before the window did, or even before it began.
    for edge in [1, 0] {
        if !taken[edge] {
            usage[edge] = if edge == 1 { Usage::now() } else { usage[1] };
        }
    }
    usage[1].since(&usage[0])
}
