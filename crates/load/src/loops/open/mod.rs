//! The open loop: requests are sent as planned, whatever the server does.

mod free;
pub mod receive;
mod reconnect;
mod retry;
mod roles;
pub mod send;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::config::partition::partition_indices;
use crate::config::{LoadConfig, Roles, Timestamps, Trace};
use crate::driver::{self, ClientThread, Connected, Event, Listener, Outcome, StopCondition, busiest};
use crate::error::LoadError;
use crate::io::connect::Dialer;
use crate::io::stamps::Stamper;
use crate::protocol::ClientProtocol;
use crate::record::counts::Statuses;
use crate::record::progress::Progress;
use crate::record::recorder::Times;
use crate::record::request::{Link, Record, Retry, Shared, Stamp};
use crate::record::summary::{self, Facts, Recorded, Trial};
use crate::result::samples::KernelFacts;
use crate::result::{HttpResult, Measured};
use crate::socket::Socket;
use crate::sync::atomic::AtomicU32;
use crate::time::clock::{Clock, Wall};
use crate::time::schedule::{self, replay::Replay};
use crate::time::slices::OwnSlices;
use free::Free;
use receive::Receiver;
use reconnect::{Handover, Reconnects};
use retry::Attempts;
use send::Sender;

/// The number of arrivals of a trace between two reports of progress.
const REPLAY_STEP: u64 = 1 << 20;

/// One client: its part of the connections and of the requests.
pub struct Client {
    /// The planned requests, and then a record for each retry.
    pub records: Vec<Record>,
    retries: Vec<Retry>,
    /// One entry per planned request, if a trace selects the requests: see [`Shared::numbers`].
    numbers: Vec<u32>,
    /// One entry per record, if kernel timestamps are enabled.
    stamps: Vec<Stamp>,
    /// One entry per record, for HTTP: see [`Shared::transfers`].
    transfers: Vec<AtomicU32>,
    /// The client's connections, as a range of all connections.
    pub links: Range<usize>,
    pub progress: Progress,
    handover: Handover,
    /// Ends the client's threads if set.
    stop: AtomicBool,
}

impl From<Client> for Recorded {
    fn from(Client { links, records, stamps, transfers, .. }: Client) -> Self {
        Self { first: links.start as u32, records, stamps, transfers }
    }
}

pub fn run<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, sockets, sources, connect_ns, kernel } = connected;
    let (roles, pacing) = driver::resolve(config);
    let mut clients = divide(config)?;
    let times = plan(config, &clock, &mut clients, listener)?;
    let slices = OwnSlices::new(config, &clock, times.start);

    let dialer = Dialer::new(config, &sources)?;
    let links: Vec<Link> = sockets.iter().map(|_| Link::default()).collect();
    let mut sockets = sockets.into_iter().map(Arc::new);

    // Only kernel timestamps need the wall clock.
    let mut wall = kernel.is_some().then(Wall::default);
    wall.iter_mut().for_each(|wall| wall.compare(&clock));
    let mut threads: Vec<ClientThread<'_, _>> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let links = &links[client.links.clone()];
        let sockets: Vec<Arc<Socket>> = sockets.by_ref().take(links.len()).collect();
        let (records, progress) = (&client.records, &client.progress);
        let first = driver::first_of(config.client_number(number as u32));
        let (retries, numbers, transfers) = (&client.retries[..], &client.numbers[..], &client.transfers[..]);
        let shared = Shared { clock, protocol, first, records, retries, numbers, links, transfers, progress };
        let stamper = kernel.as_ref().map(|it| Stamper::new(config, it.hardware, &client.stamps, shared));
        let reconnects = Some(Reconnects::new(&dialer, number as u32, &client.handover));
        let mut sender = Sender::new(shared, config, &sockets, Some(&client.handover));
        sender.window = times.window.clone();
        sender.free = Free::of(config, links.len() as u32, number as u32);
        let mut receiver = Receiver::new(shared, sockets, stamper, reconnects)?;
        receiver.timeout_ticks = config.request_timeout().map(|it| clock.ticks(it.timeout_ns as f64));
        let until = StopCondition { window: &times.window, drained: times.drained, stop: &client.stop, progress };
        let mut add = |role: &str, thread: usize, run| {
            let (name, cpu) = (format!("{role} {number}"), driver::cpu_of(config, thread));
            threads.push(ClientThread { name, cpu, run });
        };
        if roles == Roles::TwoThreads {
            let (own, slices) = (slices.clone(), slices.clone());
            let receive = move || {
                let busy_share = roles::receive_loop(&clock, &until, own, &mut receiver);
                (Some((receiver.finish(), busy_share)), Vec::new())
            };
            add("receive", 2 * number + 1, Box::new(receive) as Box<dyn FnOnce() -> _ + Send>);
            let send = move || (None, roles::send_loop(&clock, pacing, &until, slices, &mut sender).pauses());
            add("send", 2 * number, Box::new(send));
        } else {
            let slices = slices.clone();
            let both = move || {
                let turns = roles::one_loop(&clock, pacing, &until, slices, &mut sender, &mut receiver);
                (Some((receiver.finish(), turns.busy_share())), turns.pauses())
            };
            add("client", number, Box::new(both));
        }
    }
    let trial = Trial { config, clock: &clock, times: &times, roles, pacing: Some(pacing) };
    let progress: Vec<&Progress> = clients.iter().map(|client| &client.progress).collect();
    let stop = || clients.iter().for_each(|client| client.stop.store(true, Relaxed));
    let (ended, usage) = driver::run_threads(&trial, &progress, threads, &stop, &mut wall, listener)?;
    wall.iter_mut().for_each(|wall| wall.compare(&clock));
    let cut = usage.cut.map(|end| trial.until(end));
    let planned_window = times.window.clone();
    let (config, times) = cut.as_ref().map_or((config, &times), |(config, times)| (config, times));
    let trial = Trial { config, times, ..trial };

    let (received, pauses): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let (received, busy_shares): (Vec<_>, Vec<_>) = received.into_iter().flatten().unzip();
    let (responses, sockets): (Vec<_>, Vec<_>) = received.into_iter().unzip();
    let wall = wall.filter(|wall| !wall.stepped(&clock));
    let kernel = kernel.map(|kernel| KernelFacts { wall_clock_stepped: wall.is_none(), ..kernel });
    let queued: u64 = clients.iter().map(|client| client.progress.queued()).sum();
    // The count of queued requests has those after a cut of the window too.
    let in_planned_window =
        |record: &&Record| planned_window.contains(&record.planned) && record.sent.load(Relaxed) != 0;
    let sent_until_the_end = cut.is_some().then(|| {
        let planned = clients.iter().flat_map(|client| &client.records[..client.records.len() - client.retries.len()]);
        planned.filter(in_planned_window).count() as u64
    });
    let attempts = settle(config, &clock, &links, times, &mut clients);
    if cut.is_some() {
        for client in &mut clients {
            let planned = client.records.partition_point(|record| record.planned < times.window.end);
            client.records.truncate(planned);
        }
    }
    let records: Vec<Recorded> = clients.into_iter().map(Recorded::from).collect();
    let samples = summary::samples(&clock, wall.as_ref(), &times.window, &records);
    let facts = Facts { kernel, ..trial.facts(connect_ns, usage) };
    let mut report = facts.report(&records, &samples, bytes_per_connection::<P>());
    report.errors = responses.iter().fold(summary::errors(&links, &records), |errors, more| errors.and(&more.errors));
    report.closed_by_server = responses.iter().map(|it| it.reconnects).sum();
    report.first_wrong = responses.iter().find_map(|it| it.first_wrong.clone());
    let of_requests = sent_until_the_end.unwrap_or(report.planned);
    report.queued_share = Some((queued as f64 / of_requests.max(1) as f64).min(1.0));
    report.http = config.http.as_ref().map(|_| HttpResult {
        statuses: Statuses::sum(responses.iter().map(|it| &it.statuses)),
        first_byte: Measured::without_parts(summary::first_bytes(&clock, &times.window, &records)),
    });
    if let (Some(goodput), Some(attempts)) = (&mut report.goodput, attempts) {
        (goodput.timeouts, goodput.retries) = (attempts.timeouts, attempts.retries);
        // The records no longer tell when a request has timed out.
        report.outstanding = attempts.outstanding;
    }
    report.receiver_busy_share = busiest(busy_shares);
    report.pauses = summary::pauses(&clock, &times.window, pauses.into_iter().flatten());
    // The roles have ended, so each socket has one owner.
    Ok(Outcome::new((report, samples), sockets.into_iter().flatten().filter_map(Arc::into_inner)))
}

/// User memory per connection in bytes: the state of both roles, and the shared state.
fn bytes_per_connection<P: ClientProtocol>() -> f64 {
    (size_of::<Link>() + size_of::<Socket>() + send::BYTES_PER_CONNECTION + receive::bytes_per_connection::<P>()) as f64
}

/// Gives each request of the clients the first response in time; `None` if requests have no time limit.
fn settle(
    config: &LoadConfig,
    clock: &Clock,
    links: &[Link],
    times: &Times,
    clients: &mut [Client],
) -> Option<Attempts> {
    let timeout_ticks = clock.ticks(config.request_timeout()?.timeout_ns as f64);
    let mut all = Attempts::default();
    for Client { records, retries, transfers, links: own, .. } in clients {
        let has_failed = |connection: u32| links[own.start + connection as usize].failure().is_some();
        let attempts = retry::settle(records, transfers, retries, timeout_ticks, times, has_failed);
        all.add(&attempts);
    }
    Some(all)
}

/// Divides the connections among the clients, and reserves memory for their records.
pub fn divide(config: &LoadConfig) -> Result<Vec<Client>, LoadError> {
    let requests = schedule::records_max(config) as usize;
    let client = |number| {
        let (mut records, mut stamps) = (Vec::new(), Vec::new());
        let stamped = if config.client.timestamps == Timestamps::Kernel { requests } else { 0 };
        records.try_reserve_exact(requests).and_then(|()| stamps.try_reserve_exact(stamped)).map_err(|_| {
            let bytes = size_of::<Record>() + size_of::<Stamp>();
            LoadError::Memory { requests: requests as u64 * u64::from(config.client.clients), bytes }
        })?;
        let links = partition_indices(config.connections, config.client.clients, number);
        Ok(Client {
            records,
            retries: Vec::new(),
            numbers: Vec::new(),
            stamps,
            transfers: Vec::new(),
            links,
            progress: Progress::default(),
            handover: Handover::default(),
            stop: AtomicBool::new(false),
        })
    };
    (0..config.client.clients).map(client).collect()
}

/// Draws every client's schedule and reads the trace, which initialises all memory for records. Then plans the phases.
pub fn plan(
    config: &LoadConfig,
    clock: &Clock,
    clients: &mut [Client],
    listener: &mut dyn Listener,
) -> Result<Times, LoadError> {
    for (number, client) in clients.iter_mut().enumerate() {
        client.records.extend(Record::planned(config, clock, client.links.len() as u32, number as u32));
    }
    if let Some(trace) = config.trace() {
        replay(config, trace, clock, clients, listener)?;
    }
    for client in &mut *clients {
        let retries = config.request_timeout().map_or(0, |it| it.retries_max(client.records.len() as u64)) as usize;
        client.retries.resize_with(retries, Retry::default);
        client.records.extend((0..retries).map(|_| Record::new(0, 0)));
        if config.client.timestamps == Timestamps::Kernel {
            client.stamps.resize_with(client.records.len(), Stamp::default);
        }
        if config.http.is_some() {
            client.transfers.resize_with(client.records.len(), AtomicU32::default);
        }
    }
    // Choose the start time only after the slow drawing.
    let times = driver::begin(config, clock, listener)?;
    for record in clients.iter_mut().flat_map(|client| &mut client.records) {
        record.planned += times.start;
    }
    Ok(times)
}

/// Adds the arrivals of a trace to the records of the clients.
fn replay(
    config: &LoadConfig,
    trace: &Trace,
    clock: &Clock,
    clients: &mut [Client],
    listener: &mut dyn Listener,
) -> Result<(), LoadError> {
    let mut replay = Replay::new(config);
    // Before the window, the requests are sent in turn.
    let kinds = trace.sizes.len();
    for client in clients.iter_mut().filter(|_| kinds > 0) {
        client.numbers = (0..client.records.len()).map(|record| (record % kinds) as u32).collect();
    }
    let mut read = 0;
    for arrival in listener.arrivals(trace).map_err(LoadError::Config)? {
        let arrival = arrival.map_err(LoadError::Config)?;
        let number = trace.request(&arrival);
        read += 1;
        if read > trace.requests || number.is_some() != (kinds > 0) {
            read = 0;
            break;
        }
        if let Some((client, planned)) = replay.assign(arrival) {
            clients[client].records.push(Record::new(clock.ticks(planned.at_ns), planned.connection));
            clients[client].numbers.extend(number);
        }
        if read.is_multiple_of(REPLAY_STEP) {
            listener.on(Event::Preparing { done: read, total: trace.requests });
        }
    }
    // Other arrivals would be another load than the planned one.
    if read == trace.requests {
        return Ok(());
    }
    let file = trace.file.display();
    Err(LoadError::Config(format!("workload.trace: {file} has changed since the plan was made; start a new run")))
}
