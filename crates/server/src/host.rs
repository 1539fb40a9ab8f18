//! Starts and stops a server in this process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::io::Errno;
use wire::{Address, Ports};

use crate::config::ServeConfig;
use crate::metrics::counters::{Moved, Snapshot, Totals};
use crate::metrics::run_delays::RunDelays;
use crate::metrics::tracepoints::Tracepoints;
use crate::metrics::usage;
use crate::metrics::workers::Workers;
use crate::net::Stage;
use crate::platform;
use crate::service::{self, limits};
use crate::socket::Bound;
use crate::socket::ports::BoundPorts;
use crate::socket::unix::SocketFile;
use crate::socket::{self, ports};
use crate::spec::accept::Accept;
use crate::spec::mechanism::Family;
use crate::spec::model::PerConnection;

/// Threads that may count for themselves where connections have none of their own: a runtime's.
const THREADS_MAX: u32 = 256;
/// Two counts of the same calls are read within this time; otherwise, as on a busy machine, they are read again, ...
const READING_MAX: Duration = Duration::from_millis(1);
/// ...so often at most: of thousands of processes it takes longer.
const READINGS_MAX: u32 = 20;

/// A server that runs in threads (and, for `mp` and `mp-prefork`, children) of this process.
pub struct Server {
    address: Address,
    ports: Option<Ports>,
    /// Removed when this is dropped, which first ends everything.
    _file: Option<SocketFile>,
    ready: Snapshot,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Ticks of the limits are counted until this is dropped.
    _ticking: Option<mpsc::Sender<()>>,
}

struct Shared {
    /// The listener; of a service of datagrams, the sockets of its ports.
    sockets: Vec<OwnedFd>,
    /// Whether they are those.
    of_datagrams: bool,
    /// The reader of a pipe, which unlike an eventfd can also send signals; a byte in it is the order to stop.
    stop: OwnedFd,
    stopper: OwnedFd,
    /// The same for who is in the middle of work.
    stopping: Arc<AtomicBool>,
    workers: Workers,
    /// What threads and children waited for a CPU.
    delays: Mutex<RunDelays>,
    /// Whether the model's system calls are all counted.
    counts_syscalls: bool,
    /// What the kernel counts of the accept thread and all that it makes, where it is asked to. Who asks for a snapshot is
    /// not in it.
    outside: OnceLock<Tracepoints>,
}

/// Why a server does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}; {remedy}")]
pub struct ServerError {
    what: String,
    error: io::Error,
    remedy: &'static str,
}

impl ServerError {
    /// Whether another has the address.
    pub fn is_in_use(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}

fn failed(what: impl fmt::Display, remedy: &'static str) -> impl FnOnce(io::Error) -> ServerError {
    let what = what.to_string();
    move |error| ServerError { what, error, remedy }
}

impl Shared {
    /// What the workers have counted so far, and next to it what the kernel has, so that both are of the same calls.
    fn totals(&self) -> Totals {
        let Some(outside) = self.outside.get() else { return self.workers.totals() };
        let read = || {
            let started = Instant::now();
            let mut totals = self.workers.totals();
            totals.syscalls_outside = outside.read();
            (started.elapsed(), totals)
        };
        let mut nearest = read();
        for _ in 1..READINGS_MAX {
            if nearest.0 <= READING_MAX {
                break;
            }
            let again = read();
            if again.0 < nearest.0 {
                nearest = again;
            }
        }
        nearest.1
    }

    /// Everything counted so far.
    fn look(&self) -> Snapshot {
        let snapshot = self.look_first();
        // Last, and without precedence: of many threads it takes a while, in which requests should be served.
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let run_delay_ns = delays.look(&platform::threads_that_serve(&self.workers));
        Snapshot { totals: Totals { run_delay_ns, ..snapshot.totals }, ..snapshot }
    }

    /// Everything that must be of one moment.
    fn look_first(&self) -> Snapshot {
        let workers = &self.workers;
        let _precedence = usage::Precedence::take();
        let mut totals = self.totals();
        usage::add_to(&mut totals, workers);
        if self.of_datagrams {
            totals.dropped = self.sockets.iter().map(platform::dropped).sum();
        } else {
            (totals.ignored, totals.unsent) = (None, None);
        }
        if !self.counts_syscalls {
            // Absent, not none.
            totals.syscalls.clear();
        }
        Snapshot {
            at_ns: now_ns(),
            connections_open: workers.connections_open(),
            workers: workers.taken().count() as u64,
            memory_user_bytes: platform::memory_user_bytes(workers),
            memory_kernel_bytes: platform::memory_kernel_bytes(),
            totals,
        }
    }
}

impl Server {
    /// Listens and begins to accept; all threads and processes that it begins with have what they need when this returns. Soft limits
    /// of descriptors, processes and queued signals are raised as far as the hard ones allow.
    ///
    /// # Errors
    /// When the address is taken or not ours, the CPUs are not available, the model cannot accept like that or there, or memory,
    /// threads, processes or descriptors run out.
    pub fn start(config: &ServeConfig) -> Result<Self, ServerError> {
        platform::RAISED.iter().copied().for_each(platform::raise_limit);
        let model = config.architecture.model;
        let checked = config
            .accept
            .check(config.architecture)
            .and_then(|()| config.accept.check_address(&config.listen))
            .and_then(|()| config.architecture.can_serve(&config.service))
            .and_then(|()| config.read_budget_bytes.check(&config.service))
            .and_then(|()| config.architecture.can_listen(&config.listen));
        checked.map_err(|reason| {
            failed("the server cannot be built", "see `muxbench list`")(io::Error::new(
                io::ErrorKind::InvalidInput,
                reason,
            ))
        })?;
        let content = service::content(&config.service)
            .map_err(failed("the content cannot be read", "name another folder, or mend this one"))?;
        // What a port's socket takes is the port's.
        let memory_kernel_bytes = platform::memory_kernel_bytes();
        let Held { sockets, address, ports, file } = hold(config).map_err(|error| {
            let lacks_descriptors = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
            let remedy = match config.service.ports() {
                Some(_) if lacks_descriptors => "raise the limit of descriptors (ulimit -n), or ask for fewer ports",
                None if lacks_descriptors => "raise the limit of descriptors (ulimit -n)",
                _ => "choose another address or port",
            };
            failed(format_args!("cannot listen on {}", config.listen), remedy)(error)
        })?;
        let workers = match model.per_connection {
            // And one for what several threads count in turn.
            PerConnection::Nothing | PerConnection::Stack => {
                1 + THREADS_MAX.max(config.architecture.threads_at_once().unwrap_or(0))
            }
            PerConnection::Thread | PerConnection::Process => {
                config.architecture.pool_size(config.connections_max).unwrap_or(config.connections_max)
            }
        };
        let workers =
            Workers::new(workers as usize).map_err(failed("no memory for counters", "lower the connections"))?;
        let (stop, stopper) =
            platform::pipe().map_err(failed("cannot create a pipe", "raise the limit of descriptors (ulimit -n)"))?;
        let counts_syscalls = model.counts_syscalls;
        let shared = Arc::new(Shared {
            sockets,
            of_datagrams: ports.is_some(),
            stop,
            stopper,
            stopping: Arc::default(),
            workers,
            delays: Mutex::default(),
            counts_syscalls,
            outside: OnceLock::new(),
        });
        // In this thread, so that a refusal is an error here; threads and children inherit it.
        platform::pin(&config.cpus).map_err(failed(
            format_args!("cannot run on CPUs {:?}", config.cpus),
            "name CPUs that this process may use",
        ))?;
        // A model in stages counts for itself.
        let tick = content.as_ref().filter(|_| !model.multiplexes()).and_then(|_| config.limits.tick());
        // A pool's memory is its connections', as that of threads and processes made on demand is.
        let mut before = shared.look();
        if ports.is_some() {
            before.memory_kernel_bytes = memory_kernel_bytes;
        }
        let (started, is_started) = mpsc::channel();
        let (counting, is_counting) = mpsc::channel();
        let thread = {
            let (shared, config) = (shared.clone(), config.clone());
            thread::Builder::new()
                .name("accept".into())
                .spawn(move || {
                    if config.count_syscalls {
                        let opened = Tracepoints::open().map(|outside| drop(shared.outside.set(outside)));
                        let refused = opened.is_err();
                        let _ = counting.send(opened);
                        if refused {
                            return Ok(());
                        }
                    }
                    let stage = Stage {
                        listener: &shared.sockets[0],
                        sockets: &shared.sockets,
                        accept: config.accept,
                        model: config.architecture.model,
                        stop: shared.stop.as_fd(),
                        stopper: shared.stopper.as_fd(),
                        stopping: &shared.stopping,
                        workers: &shared.workers,
                        service: &config.service,
                        content,
                        limits: config.limits,
                        work: config.work,
                        threads: config.architecture.threads,
                        cpus: &config.stage_cpus,
                        connections_max: config.connections_max as usize,
                        read_budget: config.read_budget_bytes,
                        started,
                    };
                    (config.architecture.model.run)(&stage, config.architecture.mechanism)
                })
                .map_err(failed("cannot create a thread", "raise the limit of processes (ulimit -u)"))?
        };
        let ticking = tick.map(|tick| count_ticks(tick, &shared)).transpose()?;
        let has_ports = ports.is_some();
        let (thread, ready) = (Some(thread), before);
        let mut server = Self { address, ports, _file: file, ready, shared, thread, _ticking: ticking };
        if config.count_syscalls {
            let opened = is_counting.recv().unwrap_or_else(|_| Err("the accept thread ended; try again".into()));
            opened.map_err(|reason| {
                failed("its system calls cannot be counted", "or do without --count-syscalls")(io::Error::other(reason))
            })?;
        }
        if is_started.recv().is_err() {
            // It ended without a word.
            server.end()?;
        }
        if !model.is_pool() && !has_ports {
            server.ready = server.snapshot();
        }
        Ok(server)
    }

    /// What it had counted before its first connection, and before its pool or its ports' workers were there: what memory is measured against.
    pub fn ready(&self) -> &Snapshot {
        &self.ready
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// All ports, of a service of datagrams.
    pub fn ports(&self) -> Option<&Ports> {
        self.ports.as_ref()
    }

    /// Whether its accept thread has ended, which it does not by itself unless something is wrong.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Everything it counted so far, at one instant as nearly as possible.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.look()
    }

    /// What has gone by now. It is asked for many times in a window, and so does without what makes snapshots dear.
    pub fn moved(&self) -> Moved {
        // Bytes and time are of one moment only if nobody comes between.
        let _precedence = usage::Precedence::take();
        let (bytes_in, bytes_out) = self.shared.workers.bytes();
        Moved { at_ns: now_ns(), bytes_in, bytes_out }
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
        self.shared.stopping.store(true, Relaxed);
        // One for loops that wait on a mechanism, one for loops that block in accept.
        let _ = rustix::io::write(&self.shared.stopper, &[1]);
        socket::shut_down(&self.shared.sockets[0]);
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        ended.map_err(failed(
            "the server failed",
            "raise the limit it names, or make the server smaller; see the system's log for others",
        ))
    }
}

/// CLOCK_MONOTONIC, in nanoseconds.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Counts ticks of the limits in a thread beside, until what this gives is dropped.
fn count_ticks(tick: Duration, shared: &Shared) -> Result<mpsc::Sender<()>, ServerError> {
    let (sender, running) = mpsc::channel();
    let ticks = shared.workers.ticks();
    let count = move || limits::count_ticks(tick, ticks, &running, || {});
    thread::Builder::new()
        .name("limits".into())
        .spawn(count)
        .map_err(failed("cannot create a thread", "raise the limit of processes (ulimit -u)"))?;
    Ok(sender)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What a server listens on.
struct Held {
    sockets: Vec<OwnedFd>,
    address: Address,
    ports: Option<Ports>,
    file: Option<SocketFile>,
}

fn hold(config: &ServeConfig) -> io::Result<Held> {
    if let Some(count) = config.service.ports() {
        // The kernel, and who blocks, waits for a socket only if the socket itself would.
        let nonblocking = config.architecture.mechanism.is_some_and(|row| row.family == Family::Readiness);
        let BoundPorts { sockets, ports, address } = ports::bind(&config.listen, count, nonblocking)?;
        return Ok(Held { sockets, address, ports: Some(ports), file: None });
    }
    let Bound { socket, address, file } = match config.accept {
        Accept::Reuseport => socket::hold(&config.listen),
        accept => {
            let blocks = accept != Accept::Exclusive && platform::SHUTDOWN_WAKES_ACCEPT;
            socket::listen(&config.listen, !blocks)
        }
    }?;
    Ok(Held { sockets: vec![socket], address, ports: None, file })
}
