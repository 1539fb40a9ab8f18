//! The open loop over datagrams (maharjan2012). Each client has one socket. It sends each request to the port that its schedule
//! selects, and matches a response to its request by the id.

mod client;
mod matcher;
#[cfg_attr(not(target_os = "linux"), path = "no_unreachable.rs")]
mod unreachable;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use wire::udp::Udp;

use crate::config::{LoadConfig, Roles};
use crate::driver::{self, Event, Listener, Outcome, StopCondition, busiest};
use crate::error::LoadError;
use crate::loops::open::{divide, plan};
use crate::record::request::Record;
use crate::record::summary::{self, Facts, Recorded, Trial};
use crate::result::{DatagramResult, Errors, LoadResult, Outstanding, Sample};
use crate::time::clock::Clock;
use crate::time::slices::OwnSlices;
use client::Client;
use matcher::{Ids, LoopResult};

pub fn run(
    config: &LoadConfig,
    clock: Clock,
    targets: &[SocketAddr],
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let (request_bytes, response_bytes) = config.fixed();
    let udp = Udp::new(request_bytes, response_bytes);
    let mut clients = divide(config)?;

    let started = Instant::now();
    let total = config.connections;
    let mut sockets = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let socket = client::open(targets)?;
        let greeted = client.links.start as u32;
        let ids = Ids::new(config.client.seed, config.client_number(number as u32)).of_greetings();
        client::greet(&socket, config, &udp, ids, targets, client.links.clone(), &mut |done| {
            listener.on(Event::Connecting { done: greeted + done, total });
        })?;
        sockets.push(socket);
    }
    let connect_ns = started.elapsed().as_nanos() as u64;
    listener.on(Event::Connected { connections: total, elapsed_ns: connect_ns });

    let (_, pacing) = driver::resolve(&config.clone().with(|it| it.client.roles = Roles::OneLoop));
    let times = plan(config, &clock, &mut clients, listener)?;
    let slices = OwnSlices::new(config, &clock, times.start);
    let timeout = clock.ticks(config.client.timeout_ns as f64);
    let loops = clients.iter().zip(&sockets).enumerate().map(|(number, (share, socket))| {
        let ids = Ids::new(config.client.seed, config.client_number(number as u32));
        let place = (&targets[share.links.clone()], share.records.as_slice());
        let client = Client::new(clock, udp, ids, times.window.clone(), place, socket, timeout);
        let slices = slices.clone();
        let (window, drained, progress) = (&times.window, times.drained, &share.progress);
        move |stop: &AtomicBool| client.run(pacing, slices, &StopCondition { window, drained, stop, progress })
    });
    let trial = Trial { pacing: Some(pacing), ..Trial::sleeping(config, &clock, &times) };
    let progress = clients.iter().map(|client| &client.progress);
    let (results, usage) = driver::run_loops(&trial, progress, loops, listener)?;

    let cut = usage.cut.map(|end| trial.until(end));
    let (config, times) = cut.as_ref().map_or((config, &times), |(config, times)| (config, times));
    let trial = Trial { config, times, ..trial };
    let mut recorded: Vec<Recorded> = clients.into_iter().map(Recorded::from).collect();
    for client in recorded.iter_mut().filter(|_| cut.is_some()) {
        client.records.truncate(client.records.partition_point(|record| record.planned < times.window.end));
    }
    let samples = summary::samples(&clock, None, &times.window, &recorded);
    let dropped = sockets.iter().map(unreachable::dropped).sum();
    let report = report(&trial.facts(connect_ns, usage), &recorded, &samples, &results, dropped);
    Ok(Outcome { report, samples, connections: sockets.into_iter().map(OwnedFd::from).collect() })
}

fn is_lost((record, is_failed): &(&Record, &bool)) -> bool {
    record.sent.load(Relaxed) != 0 && record.complete.load(Relaxed) == 0 && !**is_failed
}

fn report(
    facts: &Facts<'_>,
    recorded: &[Recorded],
    samples: &[Sample],
    results: &[LoopResult],
    dropped: Option<u64>,
) -> LoadResult {
    let window = &facts.trial.times.window;
    let count = |is: &dyn Fn(&(&Record, &bool)) -> bool| {
        let clients = recorded.iter().zip(results);
        clients.flat_map(|(client, result)| client.records.iter().zip(&result.failed)).filter(is).count() as u64
    };
    // A request without a response counts as lost instead of in flight.
    let in_flight = |tick| count(&|(it, _)| it.sent.load(Relaxed) < tick && it.complete.load(Relaxed) > tick);
    let sum = |count: fn(&LoopResult) -> u64| results.iter().map(count).sum();
    let datagrams = DatagramResult {
        ports: facts.trial.config.connections,
        lost: count(&|it| window.contains(&it.0.planned) && is_lost(it)),
        duplicates: sum(|it| it.duplicates),
        reordered: sum(|it| it.reordered),
        dropped,
    };
    let memory_bytes = (size_of::<SocketAddr>() + size_of::<u32>()) as f64;
    LoadResult {
        outstanding: Outstanding {
            at_start: in_flight(window.start),
            at_end: in_flight(window.end),
            after_cool_down: count(&is_lost),
        },
        errors: results.iter().fold(Errors::default(), |errors, result| errors.and(&result.errors)),
        pauses: summary::pauses(
            facts.trial.clock,
            window,
            results.iter().flat_map(|result| result.pauses.iter().cloned()),
        ),
        receiver_busy_share: busiest(results.iter().map(|result| result.busy_share)),
        datagrams: Some(datagrams),
        ..facts.report(recorded, samples, memory_bytes)
    }
}
