//! Idle connections, in a separate process, so that they use no time and no descriptors of the measuring client.

use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::LoadConfig;
use crate::driver;
use crate::error::LoadError;
use crate::io::{connect, source_ports};
use crate::protocol::{ClientProtocol, with_protocol};
use crate::result::{Class, Errors};

/// An event of a process that holds idle connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum IdleEvent {
    /// The process is making and verifying connections.
    Connecting {
        /// Connections verified so far.
        done: u32,
        /// Connections to make.
        total: u32,
    },
    /// All connections are open and verified.
    Held {
        /// The number of connections.
        connections: u32,
        /// The time to make and verify them, in nanoseconds.
        elapsed_ns: u64,
    },
    /// The connections were verified again at the end.
    Verified {
        /// The result.
        report: IdleResult,
    },
    /// The connections cannot be made.
    Failed {
        /// Cause, place and remedy.
        reason: String,
    },
}

/// The result of idle connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleResult {
    /// Connections made, and verified with a request.
    pub held: u32,
    /// Connections that received nothing until the end, and then the response to one more request.
    pub alive: u32,
    /// Failures of the connections that are not alive.
    pub errors: Errors,
    /// Processes that held connections.
    pub processes: u32,
    /// The time to make the connections in the slowest process, in nanoseconds.
    pub connect_ns: u64,
}

impl IdleResult {
    /// Combines the results of two processes.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            held: self.held + other.held,
            alive: self.alive + other.alive,
            errors: self.errors.and(&other.errors),
            processes: self.processes + other.processes,
            connect_ns: self.connect_ns.max(other.connect_ns),
        }
    }
}

/// Makes `config`'s connections, reports progress, holds them until `is_over` returns, and then verifies them again.
pub fn hold(
    config: &LoadConfig,
    on_event: &mut dyn FnMut(IdleEvent),
    is_over: &mut dyn FnMut(),
) -> Result<IdleResult, LoadError> {
    driver::check(config)?;
    with_protocol!(config, |protocol| hold_with(config, &protocol, on_event, is_over))
}

fn hold_with<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    on_event: &mut dyn FnMut(IdleEvent),
    is_over: &mut dyn FnMut(),
) -> Result<IdleResult, LoadError> {
    let started = Instant::now();
    let total = config.connections;
    let sources = source_ports::sources(config).map_err(LoadError::Config)?;
    let sockets =
        connect::connect(config, &sources, protocol, &mut |done| on_event(IdleEvent::Connecting { done, total }))?;
    let connect_ns = started.elapsed().as_nanos() as u64;
    on_event(IdleEvent::Held { connections: total, elapsed_ns: connect_ns });
    is_over();
    let mut report = IdleResult { held: total, processes: 1, connect_ns, ..IdleResult::default() };
    let mut failures: Vec<Option<Class>> = sockets.iter().map(|socket| check_untouched(socket).err()).collect();
    connect::verify_again(config, protocol, &sockets, &mut failures);
    report.alive = failures.iter().filter(|failure| failure.is_none()).count() as u32;
    failures.into_iter().flatten().for_each(|class| report.errors.count(class, 1));
    Ok(report)
}

/// Checks that the server neither sent bytes nor ended the connection.
fn check_untouched(socket: &impl AsFd) -> Result<(), Class> {
    match rustix::net::recv(socket, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Ok((0, _)) => Err(Class::Reset),
        Ok(_) => Err(Class::Wrong),
        Err(error) => Err(error.into()),
    }
}
