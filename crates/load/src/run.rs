//! The load of one trial, from connecting to the report.

use std::time::Instant;

use crate::config::validate::targets;
use crate::config::{LoadConfig, Timestamps};
use crate::driver::{self, Connected, Event, Listener, Outcome};
use crate::error::LoadError;
use crate::io::{connect, platform, prepare, source_ports, stamps};
use crate::loops::{churn, closed, datagram, open, stream};
use crate::protocol::{ClientProtocol, with_protocol};
use crate::record::counts::Handshakes;
use crate::socket::Socket;
use crate::time::clock::Clock;

/// Runs a load that starts when its preparations are complete.
pub fn run(config: &LoadConfig, mut on_event: &mut dyn FnMut(Event)) -> Result<Outcome, LoadError> {
    run_with(config, &mut on_event)
}

/// Runs a load whose listener may set the start time.
pub fn run_with(config: &LoadConfig, listener: &mut dyn Listener) -> Result<Outcome, LoadError> {
    driver::check(config)?;
    // Threads that start later inherit the timer setting.
    platform::sharpen_timers();
    let clock = Clock::calibrate(config.client.clock)?;
    if config.service.ports().is_some() {
        let targets = targets(config).map_err(LoadError::Config)?;
        return datagram::run(config, clock, &targets, listener);
    }
    with_protocol!(config, |protocol| run_protocol(config, &protocol, clock, listener))
}

/// Connects, and runs the loop for the schedule.
fn run_protocol<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    clock: Clock,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    // One connection verifies the server if all others are short-lived.
    let is_churn = config.requests_per_connection().is_some();
    let lasting = &config.clone().with(|it| it.connections = if is_churn { 1 } else { config.connections });
    let total = lasting.connections;
    let started = Instant::now();
    let sources = source_ports::sources(config).map_err(LoadError::Config)?;
    let mut on_connected = |done| listener.on(Event::Connecting { done, total });
    let sockets = connect::connect(lasting, &sources, protocol, &mut on_connected)?;
    let connect_ns = started.elapsed().as_nanos() as u64;
    // The first process prepares the server for all processes, which start their loads together afterwards.
    if config.part.is_none_or(|part| part.number == 0) {
        let total = protocol.preparations();
        prepare::prepare(config, protocol, &sockets[0], &mut |done| listener.on(Event::Preparing { done, total }))?;
    }
    // The kernel numbers timestamps from here on, so earlier requests have none.
    let is_stamped = config.client.timestamps == Timestamps::Kernel;
    let kernel = is_stamped.then(|| stamps::enable(config, &sockets)).transpose()?;
    let mut handshakes = Handshakes::default();
    handshakes.extend(sockets.iter().filter_map(Socket::take_handshake));
    listener.on(Event::Connected { connections: total, elapsed_ns: connect_ns });
    let connected = Connected { clock, sockets, sources, connect_ns, kernel };
    if let Some(stream) = config.service.stream() {
        return stream::run(config, stream, connected, listener);
    }
    if is_churn {
        return churn::run(config, protocol, connected, listener);
    }
    let run = if config.is_closed() { closed::run } else { open::run };
    let mut outcome = run(config, protocol, connected, listener)?;
    outcome.report.tls = Handshakes::report([handshakes]);
    Ok(outcome)
}
