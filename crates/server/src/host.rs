//! Starts and stops a server in this process.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use rustix::event::EventfdFlags;
use rustix::process::{Resource, Rlimit};
use rustix::thread::CpuSet;

use crate::config::ServeConfig;
use crate::counters::Snapshot;
use crate::model::PerConnection;
use crate::network::Stage;
use crate::workers::Workers;
use crate::{socket, usage};

/// Threads that may count for themselves where connections have none of their own: a runtime's.
const THREADS_MAX: u32 = 256;

/// A server that runs in threads (and, for `mp`, children) of this process.
pub struct Server {
    address: SocketAddr,
    counts_syscalls: bool,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

struct Shared {
    listener: OwnedFd,
    stop: OwnedFd,
    workers: Workers,
}

/// Why a server does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}; {remedy}")]
pub struct ServerError {
    what: String,
    error: io::Error,
    remedy: &'static str,
}

fn failed(what: impl fmt::Display, remedy: &'static str) -> impl FnOnce(io::Error) -> ServerError {
    let what = what.to_string();
    move |error| ServerError { what, error, remedy }
}

impl Server {
    /// Listens and begins to accept. Soft limits of descriptors and processes are raised as far as the hard ones allow.
    ///
    /// # Errors
    /// When the address is taken or not ours, the CPUs are not available, or memory or threads run out.
    pub fn start(config: &ServeConfig) -> Result<Self, ServerError> {
        raise(Resource::Nofile);
        raise(Resource::Nproc);
        let model = config.architecture.model;
        let (listener, address) = socket::listen(config.listen, model.multiplexes)
            .map_err(failed(format_args!("cannot listen on {}", config.listen), "choose another address or port"))?;
        let workers = match model.per_connection {
            // And one for what several threads count in turn.
            PerConnection::Nothing => 1 + THREADS_MAX.max(config.architecture.threads.map_or(0, NonZeroU32::get)),
            PerConnection::Thread | PerConnection::Process => config.connections_max,
        };
        let workers =
            Workers::new(workers as usize).map_err(failed("no memory for counters", "lower the connections"))?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| failed("cannot create an eventfd", "raise the limit of descriptors (ulimit -n)")(e.into()))?;
        let shared = Arc::new(Shared { listener, stop, workers });
        // In this thread, so that a refusal is an error here; threads and children inherit it.
        pin(&config.cpus).map_err(failed(
            format_args!("cannot run on CPUs {:?}", config.cpus),
            "name CPUs that this process may use",
        ))?;
        let thread = {
            let (shared, config) = (shared.clone(), config.clone());
            thread::Builder::new()
                .name("accept".into())
                .spawn(move || {
                    let stage = Stage {
                        listener: &shared.listener,
                        stop: shared.stop.as_fd(),
                        workers: &shared.workers,
                        service: &config.service,
                        threads: config.architecture.threads,
                        connections_max: config.connections_max as usize,
                    };
                    (config.architecture.model.run)(&stage, config.architecture.mechanism)
                })
                .map_err(failed("cannot create a thread", "raise the limit of processes (ulimit -u)"))?
        };
        Ok(Self { address, counts_syscalls: model.counts_syscalls, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether its accept thread has ended, which it does not by itself unless something is wrong.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Everything it counted so far, at one instant as nearly as possible.
    pub fn snapshot(&self) -> Snapshot {
        let _precedence = usage::Precedence::take();
        let workers = &self.shared.workers;
        let mut totals = workers.totals();
        usage::add_to(&mut totals, workers);
        if !self.counts_syscalls {
            // Absent, not none.
            totals.syscalls.clear();
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Snapshot {
            at_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
            connections_open: workers.connections_open(),
            memory_user_bytes: usage::memory_user_bytes(workers),
            memory_kernel_bytes: usage::memory_kernel_bytes(),
            totals,
        }
    }

    /// Ends all connections, threads and children, and waits for them.
    ///
    /// # Errors
    /// What its accept thread failed with, if it did.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServerError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // One for loops that wait on a mechanism, one for loops that block in accept.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        ended.map_err(failed("the server failed", "see the system's log; report it if it is not the system's fault"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Raises a soft limit to the hard one. What that is worth is checked when the plan is made.
fn raise(resource: Resource) {
    let maximum = rustix::process::getrlimit(resource).maximum;
    let _ = rustix::process::setrlimit(resource, Rlimit { current: maximum, maximum });
}

fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
