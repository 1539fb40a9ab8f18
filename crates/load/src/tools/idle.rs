//! Connections that are held and on which nothing is sent, as a server of many users has them: they cost it memory, and what
//! looks at every connection time. A process of their own holds them, so that they cost the client that measures nothing, and
//! use none of its descriptors.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use serde::{Deserialize, Serialize};

use crate::config::LoadConfig;
use crate::driver;
use crate::error::LoadError;
use crate::io::connect;
use crate::io::source_ports;
use crate::protocol::{ClientProtocol, with_protocol};
use crate::report::Class;
use crate::report::Errors;

/// An event of a process that holds connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Connections are being made and verified.
    Connecting {
        /// Verified so far.
        done: u32,
        /// To be made.
        total: u32,
    },
    /// All are there.
    Held {
        /// How many.
        connections: u32,
        /// How long it took, in nanoseconds.
        elapsed_ns: u64,
    },
    /// The connections were verified again at the end.
    Verified {
        /// It.
        report: IdleReport,
    },
    /// They cannot be made.
    Failed {
        /// Cause, place, remedy.
        reason: String,
    },
}

/// The result of idle connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleReport {
    /// Connections that were made, and verified by a request.
    pub held: u32,
    /// Those that had heard nothing until the end, and then were served once more.
    pub alive: u32,
    /// Why the others were not.
    pub errors: Errors,
    /// Processes that held them.
    pub processes: u32,
    /// The longest that one of them took to make its connections, in nanoseconds.
    pub connect_ns: u64,
}

impl IdleReport {
    /// Both together.
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

/// Makes `config`'s connections, says so, and holds them until `is_over` returns; then answers what became of them.
///
/// # Errors
/// The first connection that cannot be made or is not served.
pub fn hold(
    config: &LoadConfig,
    on_event: &mut dyn FnMut(Event),
    is_over: &mut dyn FnMut(),
) -> Result<IdleReport, LoadError> {
    driver::check(config)?;
    with_protocol!(config, |protocol| hold_with(config, &protocol, on_event, is_over))
}

fn hold_with<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    on_event: &mut dyn FnMut(Event),
    is_over: &mut dyn FnMut(),
) -> Result<IdleReport, LoadError> {
    let started = Instant::now();
    let total = config.connections;
    let sources = source_ports::sources(config).map_err(LoadError::Config)?;
    let sockets =
        connect::connect(config, &sources, protocol, &mut |done| on_event(Event::Connecting { done, total }))?;
    let connect_ns = started.elapsed().as_nanos() as u64;
    on_event(Event::Held { connections: total, elapsed_ns: connect_ns });
    is_over();
    let mut report = IdleReport { held: total, processes: 1, connect_ns, ..IdleReport::default() };
    let mut failures: Vec<Option<Class>> = sockets.iter().map(|socket| unasked(socket).err()).collect();
    connect::verify_again(config, protocol, &sockets, &mut failures);
    report.alive = failures.iter().filter(|failure| failure.is_none()).count() as u32;
    failures.into_iter().flatten().for_each(|class| report.errors.count(class, 1));
    Ok(report)
}

/// Whether nothing came that was not asked for: neither bytes nor an end.
fn unasked(socket: &OwnedFd) -> Result<(), Class> {
    match rustix::net::recv(socket, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Ok((0, _)) => Err(Class::Reset),
        Ok(_) => Err(Class::Wrong),
        Err(error) => Err(Class::of(&error.into())),
    }
}
