//! The network stage: one loop for each family of architectures.
//!
//! # Layout
//! - [`connection`]: what one connection does with its socket; the hot path that all architectures share
//! - `staged`: event-driven servers in stages: which threads there are, and who accepts
//! - [`ready`]: the loop of a network thread that serves many connections
//! - [`completion`]: the same, where the kernel does the I/O
//! - [`payload`]: who works out the responses, the network thread or others; `queue`: what threads hand each other
//! - `rounds`: whose turn it is where silent connections are looked at, a part of them with each tick
//! - `connections`: one thread's connections, by token
//! - [`blocking`]: the loop of architectures in which a connection has a thread or process of its own
//! - [`pool`]: the same with threads or processes that are there beforehand and serve one connection after the other
//! - `datagrams`: services whose requests are datagrams to many ports, and which know no connections
//! - `children`: processes made, reaped, ended

pub mod blocking;
mod children;
#[cfg(target_os = "linux")]
pub mod completion_loop;
pub mod connection;
mod datagrams;
#[cfg(target_os = "linux")]
mod idle_sweep;
pub mod payload;
#[cfg(target_os = "linux")]
pub mod pool;
mod queue;
pub mod ready_loop;
mod staged;
mod table;
#[cfg(test)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the pools' and runtimes' tests use it"))]
pub(crate) mod testkit;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use wire::ServiceSpec;
use wire::http::Content;

use crate::metrics::workers::Workers;
use crate::service::limits::Limits;
use crate::service::work::Work;
use crate::spec::accept::Accept;
use crate::spec::model::{ModelRow, StageCpus, Threads};
use crate::spec::read_budget::ReadBudget;

/// The accept budget: at most so many connections are taken in a turn by who serves others in the same thread. An accept
/// with what belongs to it takes a few microseconds, so that a flood of connections makes those that are served wait for
/// a tenth of a millisecond and not for its end; and one wait for so many accepts is a small part of their cost.
pub(crate) const ACCEPTS: usize = 32;

/// The stack of a thread that serves one connection or port: kawai2008 section 5.1.
const STACK_BYTES: usize = 256 << 10;

/// What an accept thread is given.
#[derive(Debug)]
pub struct ServerContext<'a> {
    /// The listening socket; of a service of datagrams, that of its first port.
    pub listener: &'a OwnedFd,
    /// Those of all ports, of a service of datagrams; else the listener alone.
    pub sockets: &'a [OwnedFd],
    /// How connections come to what serves them.
    pub accept: Accept,
    /// The model that runs.
    pub model: &'static ModelRow,
    /// Readable when the server is to stop.
    pub stop: BorrowedFd<'a>,
    /// A byte into this is the order to stop.
    pub stopper: BorrowedFd<'a>,
    /// Set when the server stops.
    pub stopping: &'a Arc<AtomicBool>,
    /// Where to count.
    pub workers: &'a Workers,
    /// What to do with bytes.
    pub service: &'a ServiceSpec,
    /// What `http` serves.
    pub content: Option<Arc<Content>>,
    /// How long clients may take, of `http`.
    pub limits: Limits,
    /// The work that each request is besides.
    pub work: Option<Work>,
    /// How many threads or processes to have, as the architecture's name says; `None` is the model's own default.
    pub threads: Option<Threads>,
    /// CPUs of each stage's threads.
    pub cpus: &'a StageCpus,
    /// ConnectionTable to have room for.
    pub connections_max: usize,
    /// The most bytes that one read takes from a connection.
    pub read_budget: ReadBudget,
    /// Told when all threads and processes that it begins with have what they need.
    pub started: std::sync::mpsc::Sender<()>,
}

impl ServerContext<'_> {
    /// How many threads or processes a pool has.
    #[cfg(target_os = "linux")]
    fn pool_size(&self) -> usize {
        self.threads.map_or(self.connections_max, |threads| threads.network as usize)
    }

    /// Says that all workers are there: connections may come, and take every descriptor that is left.
    pub(crate) fn notify_started(&self) {
        // Whoever started the server waits for this, or has gone.
        let _ = self.started.send(());
    }

    /// Waits for the order to stop.
    fn wait_for_stop(&self) -> io::Result<()> {
        while let Err(error) = rustix::event::poll(&mut [PollFd::from_borrowed_fd(self.stop, PollFlags::IN)], None) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Stops the server from within, because something failed. Whoever accepts, or waits for the order, returns.
    pub(crate) fn end_early(&self) {
        self.stopping.store(true, Relaxed);
        let _ = rustix::io::write(self.stopper, &[1]);
        crate::socket::shut_down(self.listener);
    }
}

/// Says that the server has started when all threads have that there are to be.
pub(crate) struct StartSignal<'a> {
    missing: AtomicUsize,
    context: &'a ServerContext<'a>,
}

impl<'a> StartSignal<'a> {
    pub(crate) fn new(context: &'a ServerContext<'a>, threads: usize) -> Self {
        Self { missing: AtomicUsize::new(threads), context }
    }

    /// Says that one thread has what it needs and is about to wait.
    pub(crate) fn thread_ready(&self) {
        if self.missing.fetch_sub(1, Relaxed) == 1 {
            self.context.notify_started();
        }
    }
}

/// Returns whether a descriptor is readable now.
fn is_readable(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    match rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Does it, however the scope ends: who waits in other threads is told.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
