//! The open loop over datagrams (maharjan2012): each client has one socket, sends each request to the port that its schedule
//! says, and finds the request of a response by its id.
//!
//! # Layout
//! - here: what makes sense, and a trial from the first greeting to the report
//! - `client`: one client's loop
//! - `ledger`: what a datagram that comes says of which request
//! - `unreachable`: what ICMP says of requests that did not get there

mod client;
mod ledger;
#[cfg_attr(not(target_os = "linux"), path = "no_unreachable.rs")]
mod unreachable;

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use wire::Ports;
use wire::udp::{Udp, is_size};

use crate::clock::Clock;
use crate::config::{LoadConfig, Roles, Schedule, Timestamps};
use crate::error::LoadError;
use crate::platform;
use crate::progress::Progress;
use crate::record::Record;
use crate::report::{DatagramReport, Errors, LoadReport, Outstanding, Sample};
use crate::run::{self, Event, Listener, Outcome};
use crate::summary::{self, Facts, Recorded, Seen};
use crate::{placement, schedule, spare};
use client::{Client, Until};
use ledger::{Fate, Tally};

/// What makes no sense with datagrams, or is missing.
pub fn validate(config: &LoadConfig) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    let (request_bytes, response_bytes) = config.fixed();
    if !is_size(request_bytes) || !is_size(response_bytes) {
        return wrong("service: a datagram has from 8 to 65507 bytes; choose other sizes");
    }
    if config.service.ports() != Some(config.connections) {
        return wrong("connections: with datagrams, they are the ports; give the number of these");
    }
    if config.schedule == Schedule::Closed {
        return wrong("schedule: a datagram that is lost would end a closed loop; take another");
    }
    if config.calls_per_connection.is_some() {
        return wrong("calls per connection: datagrams have no connections that could end; leave it out");
    }
    if config.idle > 0 {
        return wrong("idle: with datagrams there are no connections; see active, the share of the ports in use");
    }
    if config.timestamps == Timestamps::Kernel {
        return wrong("timestamps: of datagrams with ids there are only the client's; use `client`");
    }
    if config.roles == Roles::TwoThreads {
        return wrong("roles: each client of datagrams is one loop; leave them out");
    }
    targets(config).map(drop)
}

/// Where the server's ports are, in their order.
fn targets(config: &LoadConfig) -> Result<Vec<SocketAddr>, LoadError> {
    let wrong = |text: String| Err(LoadError::Config(text));
    let Some(target) = config.target.ip() else {
        return wrong("target: datagrams go to an address with a port; a Unix socket has none".to_owned());
    };
    let ports = match &config.ports {
        Some(ports) if ports.count() == config.connections => ports.clone(),
        Some(ports) => {
            return wrong(format!("ports: {ports} are {}, not {}; give them all", ports.count(), config.connections));
        }
        None => match Ports::consecutive(target.port(), config.connections) {
            Some(ports) => ports,
            None => {
                let (count, first) = (config.connections, target.port());
                return wrong(format!("ports: there are no {count} from {first} on; give fewer, or another address"));
            }
        },
    };
    Ok(ports.iter().map(|port| SocketAddr::new(target.ip(), port)).collect())
}

/// One client's share: its ports, and its requests.
struct Share {
    ports: Range<usize>,
    records: Vec<Record>,
    progress: Progress,
}

/// Runs an open loop over datagrams.
pub fn run(config: &LoadConfig, listener: &mut dyn Listener) -> Result<Outcome, LoadError> {
    // Inherited by all threads.
    platform::sharpen_timers();
    let clock = Clock::calibrate(config.clock)?;
    let (request_bytes, response_bytes) = config.fixed();
    let udp = Udp::new(request_bytes, response_bytes);
    let targets = targets(config)?;
    let mut shares = divide(config)?;

    let started = Instant::now();
    let total = config.connections;
    let mut sockets = Vec::new();
    for (number, share) in shares.iter().enumerate() {
        let socket = client::open(&targets)?;
        let greeted = share.ports.start as u32;
        client::greet(&socket, config, &udp, number as u32, &targets, share.ports.clone(), &mut |done| {
            listener.on(Event::Connecting { done: greeted + done, total });
        })?;
        sockets.push(socket);
    }
    let connect_ns = started.elapsed().as_nanos() as u64;
    listener.on(Event::Connected { connections: total, elapsed_ns: connect_ns });

    let (_, pacing) = placement::resolve(&LoadConfig { roles: Roles::OneLoop, ..config.clone() });
    let start = draw(config, &clock, &mut shares, listener)?;
    let window = run::window(config, &clock, start);
    let drained = window.end + clock.ticks(config.phases.drain_ns as f64);

    let timeout = clock.ticks(config.timeout_ns as f64);
    let loops = shares.iter().zip(&sockets).enumerate().map(|(number, (share, socket))| {
        let Share { ports, records, progress } = share;
        let targets = &targets[ports.clone()];
        let ids = ledger::Ids::new(config.seed, config.client(number as u32));
        let client = Client::new(clock, udp, ids, window.clone(), (targets, records), socket, progress);
        let window = window.clone();
        move |stop: &AtomicBool| client.run(pacing, &Until { window, drained, timeout, stop })
    });
    let progress: Vec<&Progress> = shares.iter().map(|share| &share.progress).collect();
    let (kept, usage) = run::run_threads(config, (&clock, start), &progress, Some(pacing), loops, listener)?;

    let recorded: Vec<Recorded> = shares
        .into_iter()
        .map(|Share { ports, records, .. }| Recorded { first: ports.start as u32, records, stamps: Vec::new() })
        .collect();
    let samples = summary::samples(&clock, None, &window, &recorded);
    let facts = Facts {
        config,
        roles: Roles::OneLoop,
        pacing: Some(pacing),
        clock: &clock,
        connect_ns,
        window,
        usage,
        links: &[],
        kernel: None,
    };
    let dropped = sockets.iter().map(unreachable::dropped).sum();
    let report = report(&facts, &recorded, &samples, &kept, dropped);
    Ok(Outcome { report, samples, connections: sockets.into_iter().map(OwnedFd::from).collect() })
}

/// What one client's loop leaves: what became of each request that was not answered, the counts, and in what share of the
/// window it had something to do.
type Kept = (Vec<Fate>, Tally, Option<f64>);

/// Each client's ports, with memory for its requests set aside.
fn divide(config: &LoadConfig) -> Result<Vec<Share>, LoadError> {
    let (clients, ports) = (u64::from(config.clients), u64::from(config.connections));
    let requests = schedule::count_max(config) as usize;
    let first = |number: u64| (ports * number / clients) as usize;
    let share = |number| {
        let mut records = Vec::new();
        records
            .try_reserve_exact(requests)
            .map_err(|_| LoadError::Memory { requests: requests as u64 * clients, bytes: size_of::<Record>() })?;
        Ok(Share { ports: first(number)..first(number + 1), records, progress: Progress::default() })
    };
    (0..clients).map(share).collect()
}

/// Draws every client's schedule, which also touches all memory for records; answers the tick at which the ramp begins.
fn draw(
    config: &LoadConfig,
    clock: &Clock,
    shares: &mut [Share],
    listener: &mut dyn Listener,
) -> Result<u64, LoadError> {
    for (number, share) in shares.iter_mut().enumerate() {
        let planned = schedule::planned(config, share.ports.len() as u32, number as u32);
        share.records.extend(planned.map(|planned| Record::new(clock.ticks(planned.at_ns), planned.connection)));
    }
    // Known only now that the drawing is done.
    let start = run::begin(clock, listener)?;
    for record in shares.iter_mut().flat_map(|share| &mut share.records) {
        record.planned += start;
    }
    Ok(start)
}

/// What became of a request, in ticks. 0 stands for what did not happen.
struct Past {
    planned: u64,
    sent: u64,
    complete: u64,
    fate: Fate,
}

impl Past {
    fn of(record: &Record, fate: Fate) -> Self {
        let (sent, complete) = (record.sent.load(Relaxed), record.complete.load(Relaxed));
        Self { planned: record.planned, sent, complete, fate }
    }

    fn is_lost(&self) -> bool {
        self.sent != 0 && self.complete == 0 && self.fate == Fate::Unknown
    }
}

fn report(
    facts: &Facts<'_>,
    recorded: &[Recorded],
    samples: &[Sample],
    kept: &[Kept],
    dropped: Option<u64>,
) -> LoadReport {
    let window_s = facts.config.phases.measure_ns as f64 / 1e9;
    let count = |is: &dyn Fn(&Past) -> bool| {
        let clients = recorded.iter().zip(kept);
        let all = clients.flat_map(|(client, (fates, ..))| client.records.iter().zip(fates));
        all.map(|(record, fate)| Past::of(record, *fate)).filter(is).count() as u64
    };
    let in_window = |tick: u64| facts.window.contains(&tick);
    // What is never answered is not in flight for ever: it is lost.
    let in_flight = |tick: u64| count(&|it| it.sent < tick && it.complete > tick);
    let seen = Seen {
        rate_achieved_per_s: count(&|it| in_window(it.complete)) as f64 / window_s,
        rate_sent_per_s: count(&|it| in_window(it.sent)) as f64 / window_s,
        outstanding: Outstanding {
            at_start: in_flight(facts.window.start),
            at_end: in_flight(facts.window.end),
            after_drain: count(&Past::is_lost),
        },
        errors: kept.iter().fold(Errors::default(), |errors, (_, tally, _)| errors.and(&tally.errors)),
    };
    let sum = |figure: fn(&Tally) -> u64| kept.iter().map(|(_, tally, _)| figure(tally)).sum();
    let datagrams = DatagramReport {
        ports: facts.config.connections,
        lost: count(&|it| in_window(it.planned) && it.is_lost()),
        duplicates: sum(|tally| tally.duplicates),
        reordered: sum(|tally| tally.reordered),
        dropped,
    };
    let fit = facts.config.rate_per_s.and_then(|rate_per_s| summary::fit(samples, 1e9 / rate_per_s));
    let memory = (size_of::<SocketAddr>() + size_of::<u32>()) as f64;
    let complete = recorded.iter().flat_map(|client| &client.records).map(|record| record.complete.load(Relaxed));
    let completed_by_part = Some(summary::by_part(&facts.window, complete));
    let receiver_busy_share = spare::busiest(kept.iter().map(|(.., busy_share)| *busy_share));
    let report = facts.of(samples, seen, memory);
    LoadReport { fit, completed_by_part, receiver_busy_share, datagrams: Some(datagrams), ..report }
}
