//! Short-lived connections: each ends after some requests, so the server accepts new ones all the time.
//!
//! In a closed loop, a new connection replaces one that has ended, after the think time. In an open loop, sessions begin at
//! planned times, as in httperf. A session connects, sends each request after the previous response, and closes.
//!
//! At most `connections` are open at once. Further sessions wait, because dropping them would lower the load. Planned requests
//! that were never sent are recorded as unsent. t1 of a connection's first request is the due time of the connection, so the
//! response time of that request includes the session's wait and the connection setup.

mod session;

use std::sync::atomic::AtomicBool;

use stats::Histogram;

use crate::config::partition::partition_indices;
use crate::config::{LoadConfig, Roles};
use crate::driver::{self, Connected, Listener, Outcome, busiest};
use crate::error::LoadError;
use crate::io::connect::Dialer;
use crate::protocol::ClientProtocol;
use crate::record::counts::Handshakes;
use crate::record::progress::Progress;
use crate::record::recorder::{Recording, Transaction};
use crate::record::summary::{Facts, Trial, transaction_samples};
use crate::result::samples::{fit, measured, response_ns, send_delay_ns, service_ns};
use crate::result::{ChurnResult, LateSends, LoadResult, Sample};
use session::{Churner, ClientResult, bytes_per_connection};

/// Runs a load of short-lived connections. The one connection in `connected` has already verified the server.
pub fn run<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, connect_ns, sockets, sources, .. } = connected;
    drop(sockets);
    let is_open = !config.is_closed();
    let pacing = is_open.then(|| driver::resolve(&config.clone().with(|it| it.client.roles = Roles::OneLoop)).1);
    let progress: Vec<Progress> = (0..config.client.clients).map(|_| Progress::default()).collect();
    let dialer = Dialer::new(config, &sources)?;
    let churner = |(number, progress)| {
        let connections = partition_indices(config.connections, config.client.clients, number);
        Churner::new((clock, protocol, config), number, connections, &dialer, pacing, progress)
    };
    let mut churners =
        (0..config.client.clients).zip(&progress).map(churner).collect::<Result<Vec<Churner<'_, P>>, _>>()?;

    // Choose the start time only after the slow initialisation of memory.
    let times = driver::begin(config, &clock, listener)?;
    churners.iter_mut().for_each(|churner| churner.begin(times.clone()));
    let loops = churners.into_iter().map(|churner| move |stop: &AtomicBool| churner.run(stop));
    let trial = Trial { pacing, ..Trial::sleeping(config, &clock, &times) };
    let (clients, usage) = driver::run_loops(&trial, &progress, loops, listener)?;
    let cut = usage.cut.map(|end| trial.until(end));
    let (config, times) = cut.as_ref().map_or((config, &times), |(config, times)| (config, times));
    let trial = Trial { config, times, ..trial };
    let facts = trial.facts(connect_ns, usage);
    let result = report(&facts, clients, sources.len().max(1), bytes_per_connection::<P>() as f64);
    Ok(Outcome::new(result, []))
}

fn report(
    facts: &Facts<'_>,
    clients: Vec<ClientResult>,
    sources: usize,
    memory_bytes_per_connection: f64,
) -> (LoadResult, Vec<Sample>) {
    let (config, window) = (facts.trial.config, &facts.trial.times.window);
    let window_ns = config.phases.measure_ns;
    let samples_of = |select: &dyn Fn(&ClientResult) -> Vec<Transaction>| {
        let transactions: Vec<_> = clients.iter().map(select).collect();
        transaction_samples(facts.trial, transactions.iter().map(Vec::as_slice))
    };
    let sessions = samples_of(&|client| {
        let due = client.sessions.iter().filter(|(due, _)| window.contains(due));
        due.map(|&(due, late)| Transaction { due, sent: due + late, ..Transaction::default() }).collect()
    });
    let opened = samples_of(&|client| client.opened.clone());
    // Use the client's delay until connecting or sending as the send delay of each transaction.
    let begun = samples_of(&|client| {
        let begun = |it: &Transaction| Transaction { sent: if it.sent == 0 { 0 } else { it.due + it.late }, ..*it };
        client.recording.transactions.iter().map(begun).collect()
    });
    let waited = clients.iter().map(|client| client.waited).sum();
    let busy: Vec<Option<f64>> = clients.iter().map(|client| client.busy_share).collect();
    let opened_count: u64 = match facts.usage.cut {
        None => clients.iter().map(|client| client.opened_count).sum(),
        Some(_) => opened.len() as u64,
    };
    let (recordings, handshakes): (Vec<Recording>, Vec<Handshakes>) =
        clients.into_iter().map(|client| (client.recording, client.handshakes)).unzip();
    let (report, samples) = facts.account(&recordings, driver::cpus(config), memory_bytes_per_connection);

    let is_open = !config.is_closed();
    let requests = f64::from(config.requests_per_connection().unwrap_or(1));
    // An open loop plans only sessions. A session's later requests follow responses, and would hide late sessions.
    let planned = if is_open { &sessions } else { &begun };
    let delays: Histogram = planned.iter().filter_map(send_delay_ns).map(|ns| ns.max(0) as u64).collect();
    // Both contain the same requests in the same order.
    let times = begun.iter().zip(&samples).map(|(begun, sample)| (send_delay_ns(begun), service_ns(sample)));
    let late = LateSends::of(&delays, &report.service.histogram).with_on_time(times);
    let report = LoadResult {
        tls: Handshakes::report(handshakes),
        late,
        receiver_busy_share: busiest(busy).filter(|_| is_open),
        fit: config.rate_per_s().and_then(|rate_per_s| fit(&sessions, 1e9 * requests / rate_per_s)),
        closed: report.closed.filter(|_| !is_open),
        send_delay: measured(&begun, window_ns, send_delay_ns),
        churn: Some(ChurnResult {
            requests_per_connection: config.requests_per_connection().unwrap_or(1),
            opened: opened_count,
            opened_per_s: opened_count as f64 / (window_ns as f64 / 1e9),
            waited,
            sources: sources as u32,
            connect: measured(&opened, window_ns, send_delay_ns),
            first_byte: measured(&opened, window_ns, response_ns),
        }),
        ..report
    };
    (report, samples)
}
