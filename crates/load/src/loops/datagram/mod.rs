//! The open loop over datagrams (maharjan2012). Each client has one socket. It sends each request to the port in its schedule,
//! and matches a response to its request by the id.
//!
//! # Layout
//! - `mod`: a trial, from the greetings to the report
//! - `client`: one client's loop
//! - `matcher`: matches datagrams to requests
//! - `unreachable`: ICMP reports of undelivered requests

mod client;
mod matcher;
#[cfg_attr(not(target_os = "linux"), path = "no_unreachable.rs")]
mod unreachable;

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use wire::udp::Udp;

use crate::config::partition::partition_indices;
use crate::config::{LoadConfig, Roles};
use crate::driver::{self, Event, Listener, Outcome, StopCondition, Trial, busiest};
use crate::error::LoadError;
use crate::record::progress::Progress;
use crate::record::recorder::Times;
use crate::record::request::Record;
use crate::record::summary::{self, Facts, Recorded};
use crate::report::{DatagramReport, Errors, LoadReport, Outstanding, Sample};
use crate::time::clock::Clock;
use crate::time::schedule;
use client::Client;
use matcher::{Fate, Ids, LoopResult, MatchCounts};

/// One client's part: its ports and its requests.
struct Share {
    ports: Range<usize>,
    records: Vec<Record>,
    progress: Progress,
}

/// Runs an open loop over datagrams to the ports `targets`.
pub fn run(
    config: &LoadConfig,
    clock: Clock,
    targets: &[SocketAddr],
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let (request_bytes, response_bytes) = config.fixed();
    let udp = Udp::new(request_bytes, response_bytes);
    let mut shares = divide(config)?;

    let started = Instant::now();
    let total = config.connections;
    let mut sockets = Vec::new();
    for (number, share) in shares.iter().enumerate() {
        let socket = client::open(targets)?;
        let greeted = share.ports.start as u32;
        let ids = Ids::new(config.seed, config.client(number as u32)).of_greetings();
        client::greet(&socket, config, &udp, ids, targets, share.ports.clone(), &mut |done| {
            listener.on(Event::Connecting { done: greeted + done, total });
        })?;
        sockets.push(socket);
    }
    let connect_ns = started.elapsed().as_nanos() as u64;
    listener.on(Event::Connected { connections: total, elapsed_ns: connect_ns });

    let (_, pacing) = driver::resolve(&LoadConfig { roles: Roles::OneLoop, ..config.clone() });
    let times = plan(config, &clock, &mut shares, listener)?;
    let timeout = clock.ticks(config.timeout_ns as f64);
    let (mut progress, mut recorded) = (Vec::new(), Vec::new());
    for Share { ports, records, progress: its } in shares {
        progress.push(its);
        recorded.push((ports.clone(), Recorded { first: ports.start as u32, records, stamps: Vec::new() }));
    }
    let loops =
        recorded.iter().zip(&sockets).zip(&progress).enumerate().map(|(number, ((share, socket), progress))| {
            let (ports, Recorded { records, .. }) = share;
            let ids = Ids::new(config.seed, config.client(number as u32));
            let place = (&targets[ports.clone()], records.as_slice());
            let client = Client::new(clock, udp, ids, times.window.clone(), place, socket, timeout);
            let (window, drained) = (&times.window, times.drained);
            move |stop: &AtomicBool| client.run(pacing, &StopCondition { window, drained, stop, progress })
        });
    let trial = Trial { pacing: Some(pacing), ..Trial::sleeping(config, &clock, &times) };
    let (results, usage) = driver::run_loops(&trial, &progress, loops, listener)?;

    let recorded: Vec<Recorded> = recorded.into_iter().map(|(_, recorded)| recorded).collect();
    let samples = summary::samples(&clock, None, &times.window, &recorded);
    let dropped = sockets.iter().map(unreachable::dropped).sum();
    let report = report(&trial.facts(connect_ns, usage), &recorded, &samples, &results, dropped);
    Ok(Outcome { report, samples, connections: sockets.into_iter().map(OwnedFd::from).collect() })
}

/// Divides the ports among the clients, and reserves memory for their requests.
fn divide(config: &LoadConfig) -> Result<Vec<Share>, LoadError> {
    let requests = schedule::count_max(config) as usize;
    let share = |number| {
        let mut records = Vec::new();
        records.try_reserve_exact(requests).map_err(|_| LoadError::Memory {
            requests: requests as u64 * u64::from(config.clients),
            bytes: size_of::<Record>(),
        })?;
        let ports = partition_indices(config.connections, config.clients, number);
        Ok(Share { ports, records, progress: Progress::default() })
    };
    (0..config.clients).map(share).collect()
}

/// Draws every client's schedule, which initialises all memory for records, and starts the trial.
fn plan(
    config: &LoadConfig,
    clock: &Clock,
    shares: &mut [Share],
    listener: &mut dyn Listener,
) -> Result<Times, LoadError> {
    for (number, share) in shares.iter_mut().enumerate() {
        share.records.extend(Record::planned(config, clock, share.ports.len() as u32, number as u32));
    }
    // Choose the start time only after the slow drawing.
    let times = driver::begin(config, clock, listener)?;
    for record in shares.iter_mut().flat_map(|share| &mut share.records) {
        record.planned += times.start;
    }
    Ok(times)
}

/// The history of a request, in ticks; 0 for an event that did not happen.
struct History {
    planned: u64,
    sent: u64,
    complete: u64,
    fate: Fate,
}

impl History {
    fn new(record: &Record, fate: Fate) -> Self {
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
    results: &[LoopResult],
    dropped: Option<u64>,
) -> LoadReport {
    let window = &facts.times.window;
    let count = |is: &dyn Fn(&History) -> bool| {
        let clients = recorded.iter().zip(results);
        let all = clients.flat_map(|(client, result)| client.records.iter().zip(&result.fates));
        all.map(|(record, fate)| History::new(record, *fate)).filter(is).count() as u64
    };
    // A request without a response counts as lost instead of in flight.
    let in_flight = |tick: u64| count(&|it| it.sent < tick && it.complete > tick);
    let sum = |count: fn(&MatchCounts) -> u64| results.iter().map(|result| count(&result.counts)).sum();
    let datagrams = DatagramReport {
        ports: facts.config.connections,
        lost: count(&|it| window.contains(&it.planned) && it.is_lost()),
        duplicates: sum(|counts| counts.duplicates),
        reordered: sum(|counts| counts.reordered),
        dropped,
    };
    let memory_bytes = (size_of::<SocketAddr>() + size_of::<u32>()) as f64;
    LoadReport {
        outstanding: Outstanding {
            at_start: in_flight(window.start),
            at_end: in_flight(window.end),
            after_drain: count(&History::is_lost),
        },
        errors: results.iter().fold(Errors::default(), |errors, result| errors.and(&result.counts.errors)),
        receiver_busy_share: busiest(results.iter().map(|result| result.busy_share)),
        datagrams: Some(datagrams),
        ..facts.report(recorded, samples, memory_bytes)
    }
}
