//! The loops of the server, one for each family of architectures. All share the hot path in [`connection`].

pub mod blocking;
mod children;
#[cfg(target_os = "linux")]
pub mod completion_loop;
pub mod connection;
mod controllers;
mod datagrams;
#[cfg(target_os = "linux")]
mod idle_sweep;
mod offload;
pub mod payload;
#[cfg(target_os = "linux")]
pub mod pool;
mod queue;
pub mod ready_loop;
mod staged;
mod stall;
mod table;
#[cfg(test)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the pools' and runtimes' tests use it"))]
pub(crate) mod testkit;
mod timers;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;
use wire::ServiceSpec;
use wire::http::Content;

use crate::metrics::workers::Workers;
use crate::platform;
use crate::service::limits::Limits;
use crate::service::work::Work;
use crate::socket::steering::ProgramTime;
use crate::socket::{self, Accepted, Acceptor, is_readable};
use crate::spec::busy_poll::BusyPoll;
use crate::spec::model::{ModelRow, StageCpus, Threads};
use crate::spec::options::Options;

/// The most connections that a serving thread accepts in a turn. A full turn delays other connections by about 0.1 ms.
pub(crate) const ACCEPTS: usize = 32;

/// The stack size of a thread that serves one connection or port, as in kawai2008, section 5.1.
const STACK_BYTES: usize = 256 << 10;

/// The parts of a running server that its threads share.
#[derive(Debug)]
pub struct ServerContext<'a> {
    /// The listening socket; for datagrams, the socket of the first port.
    pub listener: &'a OwnedFd,
    /// For datagrams: the sockets of all ports, those of each worker together; otherwise unused.
    pub sockets: &'a [OwnedFd],
    pub model: &'static ModelRow,
    /// Readable when the server must stop.
    pub stop: BorrowedFd<'a>,
    /// A byte written here stops the server.
    pub stopper: BorrowedFd<'a>,
    pub stopping: &'a Arc<AtomicBool>,
    pub workers: &'a Workers,
    /// The time of the kernel's program that steers connections, if it has one and its time is measured.
    pub(crate) program_time: &'a OnceLock<ProgramTime>,
    pub service: &'a ServiceSpec,
    pub content: Option<Arc<Content>>,
    pub limits: Limits,
    /// TLS of all connections; `None` for plain text.
    pub tls: Option<Arc<ServerConfig>>,
    pub work: Option<Work>,
    /// The numbers of threads or processes, as in `Architecture::threads`.
    pub threads: Option<Threads>,
    pub cpus: &'a StageCpus,
    pub connections_max: usize,
    /// The options. With a stream by packets, the read budget is at most one packet. `busy_poll` applies to waits.
    pub options: Options,
    /// Busy polling by receives, in architectures whose waits cannot poll.
    pub socket_poll: Option<BusyPoll>,
    /// The channel that gets a message once all initial workers are ready.
    pub started: std::sync::mpsc::Sender<()>,
}

impl ServerContext<'_> {
    #[cfg(target_os = "linux")]
    fn pool_size(&self) -> usize {
        self.threads.map_or(self.connections_max, |threads| threads.most.unwrap_or(threads.network) as usize)
    }

    /// Reports that all initial workers have their descriptors: from now on connections may take all others.
    pub(crate) fn notify_started(&self) {
        let _ = self.started.send(());
    }

    /// Makes another listener at the address of `listener`, which already listens. The kernel distributes connections over both.
    #[cfg(target_os = "linux")]
    #[allow(dead_code, reason = "only some runtimes need it")]
    pub(crate) fn listen_beside(&self) -> io::Result<OwnedFd> {
        platform::set_socket_reuseport(self.listener, true)?;
        self.listen_reuseport()
    }

    /// Makes another listener at the address of `listener`. It polls the network interface if that one does.
    fn listen_reuseport(&self) -> io::Result<OwnedFd> {
        let listener = socket::listen_reuseport(self.listener)?;
        if let Some(poll) = self.socket_poll {
            platform::busy_poll::set_socket(listener.as_fd(), poll)?;
        }
        Ok(listener)
    }

    fn wait_for_stop(&self) -> io::Result<()> {
        while !is_readable(self.stop, None)? {}
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.workers.connections_open() >= self.connections_max as u64
    }

    /// Passes each connection to `serve` until the listener is shut down. Refuses a connection that `serve` returns.
    fn accept_each(
        &self,
        mut acceptor: Acceptor<'_>,
        mut serve: impl FnMut(OwnedFd) -> Result<(), OwnedFd>,
    ) -> io::Result<()> {
        while platform::may_accept(self.listener, self.stop, self.workers.accept())? {
            match acceptor.accept()? {
                Accepted::Connection(connection) => {
                    let _ = serve(connection).map_err(|connection| acceptor.refuse(connection));
                }
                // A blocking accept has no timeout, so `WouldBlock` means that the client has gone.
                Accepted::None | Accepted::WouldBlock | Accepted::Later => {}
                Accepted::Shutdown => break,
            }
        }
        Ok(())
    }

    /// Stops the server after a failure: ends every accept, and every wait for the stop descriptor.
    pub(crate) fn end_early(&self) {
        self.stopping.store(true, Relaxed);
        let _ = rustix::io::write(self.stopper, &[1]);
        socket::shut_down(self.listener);
    }
}

pub(crate) struct StartSignal<'a> {
    missing: AtomicUsize,
    context: &'a ServerContext<'a>,
}

impl<'a> StartSignal<'a> {
    pub(crate) fn new(context: &'a ServerContext<'a>, threads: usize) -> Self {
        Self { missing: AtomicUsize::new(threads), context }
    }

    pub(crate) fn thread_ready(&self) {
        if self.missing.fetch_sub(1, Relaxed) == 1 {
            self.context.notify_started();
        }
    }
}

/// Runs a closure when its scope ends, even by a panic.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
