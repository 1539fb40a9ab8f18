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
use crate::metrics::workers::{Gauges, Workers};
use crate::net::ServerContext;
use crate::platform;
use crate::problems::KernelAnswers;
use crate::service::identity::Identity;
use crate::service::{self, limits};
use crate::socket::Bound;
use crate::socket::ports::BoundPorts;
use crate::socket::steering::ProgramTime;
use crate::socket::unix::SocketFile;
use crate::socket::{self, ports};
use crate::spec::accept::Accept;
use crate::spec::mechanism::{BusyPolls, Family};
use crate::spec::model::PerConnection;
use crate::spec::options::Options;

/// The number of counter slots in models without a thread or process per connection; more threads get more slots.
const THREADS_MAX: u32 = 256;
/// The longest time for reading the workers' and the kernel's counts of system calls. A slower reading is repeated. At most
/// [`READINGS_MAX`] readings are made, because with thousands of processes every reading is slow.
const READING_TIME_MAX: Duration = Duration::from_millis(1);
const READINGS_MAX: u32 = 20;

/// A server that runs in threads (and, for `mp` and `mp-prefork`, children) of this process.
pub struct Server {
    address: Address,
    ports: Option<Ports>,
    /// Removes the file of a Unix socket when dropped, after the threads have ended.
    _file: Option<SocketFile>,
    /// The certificates in PEM format, with TLS.
    certificates: Option<String>,
    ready: Snapshot,
    state: Arc<ServerState>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Stops the ticks of the time limits when dropped.
    _ticking: Option<mpsc::Sender<()>>,
}

struct ServerState {
    /// The listener; for datagrams, the sockets of all ports, those of each worker together.
    sockets: Vec<OwnedFd>,
    config: ServeConfig,
    /// The read end of a pipe; a byte in it stops the server. An eventfd would not cause real-time signals.
    stop: OwnedFd,
    stopper: OwnedFd,
    /// Set when the server stops, to end simulated work and the threads of ports.
    stopping: Arc<AtomicBool>,
    workers: Workers,
    delays: Mutex<RunDelays>,
    /// The time of the kernel's program that steers connections.
    program_time: OnceLock<ProgramTime>,
    /// The kernel's counters of system calls, if requested. They cover the accept thread and its threads and children.
    outside: OnceLock<Tracepoints>,
}

const MORE_DESCRIPTORS: &str = "raise the limit of descriptors (ulimit -n)";

/// The reason why a server could not start, or failed.
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

impl ServerState {
    /// Reads the workers' counts and, at nearly the same time, the kernel's.
    fn totals(&self) -> Totals {
        let Some(outside) = self.outside.get() else { return self.workers.totals() };
        let read = || {
            let started = Instant::now();
            let mut totals = self.workers.totals();
            totals.syscalls_outside = outside.read();
            (started.elapsed(), totals)
        };
        let mut fastest = read();
        for _ in 1..READINGS_MAX {
            if fastest.0 > READING_TIME_MAX {
                fastest = std::cmp::min_by_key(read(), fastest, |(time, _)| *time);
            }
        }
        fastest.1
    }

    fn snapshot(&self) -> Snapshot {
        let snapshot = self.snapshot_at_once();
        // Read the delays last and at normal priority: with many threads this takes long and must not delay the server.
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let run_delay_ns = delays.update(&platform::serving_threads(&self.workers));
        Snapshot { totals: Totals { run_delay_ns, ..snapshot.totals }, ..snapshot }
    }

    /// Reads all figures except run delays, at nearly the same time.
    fn snapshot_at_once(&self) -> Snapshot {
        let (workers, config) = (&self.workers, &self.config);
        let _boost = usage::PriorityBoost::start();
        let mut totals = self.totals();
        usage::add_process_totals(&mut totals, workers);
        if config.service.ports().is_some() {
            totals.dropped = self.sockets.iter().map(platform::dropped).sum();
        } else {
            (totals.ignored, totals.unsent) = (None, None);
        }
        if config.controllers.admission.is_none() {
            totals.rejected = None;
        }
        if config.stall.is_none() {
            totals.hung = None;
        }
        if config.accept != Accept::Hermes {
            totals.steering_ns = None;
        }
        totals.steering_program_ns = self.program_time.get().and_then(ProgramTime::read_ns);
        if config.tls.is_none() {
            totals.tls_failed = None;
        }
        if !config.architecture.model.counts_syscalls {
            // The system calls of a runtime are not counted, and zeros would be wrong.
            totals.syscalls.clear();
        }
        Snapshot {
            at_ns: platform::monotonic_ns(),
            connections_open: workers.connections_open(),
            workers: workers.taken().count() as u64,
            network_threads: usage::network_threads(workers),
            memory_user_bytes: platform::memory_user_bytes(workers),
            memory_kernel_bytes: platform::memory_kernel_bytes(),
            batch_jobs: Gauges::read(&workers.gauges().batch_jobs),
            admitted_per_s: Gauges::read(&workers.gauges().admitted_per_s),
            totals,
        }
    }
}

impl Server {
    /// Starts to listen and accept, and waits until all initial threads and processes are ready. Raises the soft limits of
    /// descriptors, processes and queued signals to the hard ones.
    ///
    /// # Errors
    /// A configuration that the architecture does not support, an unavailable address or CPU, or a lack of resources.
    pub fn start(config: &ServeConfig) -> Result<Self, ServerError> {
        platform::RAISED.iter().copied().for_each(platform::raise_limit);
        let model = config.architecture.model;
        if let Some((_, reason)) = config.problems(&mut KernelAnswers::default()).into_iter().next() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, reason);
            return Err(failed("cannot build the server", "see `muxbench list`")(error));
        }
        let content = service::content(&config.service)
            .map_err(failed("cannot read the content", "name another folder, or repair this one"))?;
        let identity = config.tls.as_ref().map(|tls| Identity::new(tls, &config.listen)).transpose();
        let identity = identity.map_err(failed("cannot use TLS", "correct --tls-cert and --tls-key, or omit --tls"))?;
        let (tls, certificates) = identity.map(|it| (it.config, it.certificates)).unzip();
        // Read this before the sockets exist: the sockets of a datagram service count as memory of its ports.
        let memory_kernel_bytes = platform::memory_kernel_bytes();
        let socket_poll = config.busy_poll.filter(|_| config.architecture.busy_polls() == BusyPolls::Receives);
        let opened = open_sockets(config).and_then(|opened| {
            let set = |(socket, poll): (&OwnedFd, _)| platform::busy_poll::set_socket(socket.as_fd(), poll);
            opened.sockets.iter().filter_map(|socket| Some((socket, socket_poll?))).try_for_each(set)?;
            Ok(opened)
        });
        let Listening { sockets, address, ports, file } = opened.map_err(|error| {
            let lacks_descriptors = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
            let remedy = match config.service.ports() {
                Some(_) if lacks_descriptors => "raise the limit of descriptors (ulimit -n), or serve fewer ports",
                None if lacks_descriptors => MORE_DESCRIPTORS,
                _ => "choose another address or port",
            };
            failed(format_args!("cannot listen on {}", config.listen), remedy)(error)
        })?;
        let workers = match model.per_connection {
            // One more slot counts the connections that a runtime refuses for lack of descriptors.
            PerConnection::Nothing | PerConnection::Stack => {
                let (threads, pool) = (config.architecture.threads.unwrap_or_default(), config.controllers.pool);
                // In models with pairs of threads, each network thread has a pool.
                let pools = if threads.payload.is_some() { 1 } else { threads.network };
                let added = pool.map_or(0, |pool| pools * pool.threads_max);
                1 + THREADS_MAX.max(config.architecture.threads_at_once().unwrap_or(0) + added)
            }
            PerConnection::Thread | PerConnection::Process => {
                config.architecture.pool_size(config.connections_max).unwrap_or(config.connections_max)
            }
        };
        let workers =
            Workers::new(workers as usize).map_err(failed("no memory for counters", "lower the connections"))?;
        let (stop, stopper) = platform::pipe().map_err(failed("cannot create a pipe", MORE_DESCRIPTORS))?;
        let state = Arc::new(ServerState {
            sockets,
            config: config.clone(),
            stop,
            stopper,
            stopping: Arc::default(),
            workers,
            delays: Mutex::default(),
            program_time: OnceLock::new(),
            outside: OnceLock::new(),
        });
        // Pin this thread, so that an error is reported here. Threads and children inherit the CPUs.
        let on_cpus = format_args!("cannot run on CPUs {:?}", config.cpus);
        platform::pin(&config.cpus).map_err(failed(on_cpus, "name CPUs that this process may use"))?;
        // An event-driven model starts a thread of its own that counts ticks (`staged::run`).
        let tick = content.as_ref().filter(|_| !model.multiplexes()).and_then(|_| config.limits.tick());
        // Read the memory base before a pool starts: its workers count as memory of connections, like threads made on accept.
        let mut before = state.snapshot();
        if ports.is_some() {
            before.memory_kernel_bytes = memory_kernel_bytes;
        }
        let (started, is_started) = mpsc::channel();
        let (counting, is_counting) = mpsc::channel();
        let accept = {
            let state = state.clone();
            move || {
                let config = &state.config;
                if config.count_syscalls {
                    let opened = Tracepoints::open().map(|outside| drop(state.outside.set(outside)));
                    let refused = opened.is_err();
                    let _ = counting.send(opened);
                    if refused {
                        return Ok(());
                    }
                }
                let read_budget_bytes = config.read_budget_bytes.of(&config.service);
                let context = ServerContext {
                    listener: &state.sockets[0],
                    sockets: &state.sockets,
                    model: config.architecture.model,
                    stop: state.stop.as_fd(),
                    stopper: state.stopper.as_fd(),
                    stopping: &state.stopping,
                    workers: &state.workers,
                    program_time: &state.program_time,
                    service: &config.service,
                    content,
                    limits: config.limits,
                    tls,
                    work: config.work.clone(),
                    threads: config.architecture.threads,
                    cpus: &config.stage_cpus,
                    connections_max: config.connections_max as usize,
                    options: Options { read_budget_bytes, ..config.options() },
                    socket_poll,
                    started,
                };
                (config.architecture.model.run)(&context, config.architecture.mechanism)
            }
        };
        let thread = Some(spawn("accept", accept)?);
        let ticking = tick.map(|tick| count_ticks(tick, &state)).transpose()?;
        let keeps_base = model.is_pool() || ports.is_some();
        let mut server =
            Self { address, ports, _file: file, certificates, ready: before, state, thread, _ticking: ticking };
        if config.count_syscalls {
            let opened = is_counting.recv().unwrap_or_else(|_| Err("the accept thread ended; try again".into()));
            let cannot_count = failed("cannot count the server's system calls", "or omit --count-syscalls");
            opened.map_err(io::Error::other).map_err(cannot_count)?;
        }
        if is_started.recv().is_err() {
            // The accept thread ended without reporting the start.
            server.end()?;
        }
        if !keeps_base {
            server.ready = server.snapshot();
        }
        Ok(server)
    }

    /// The figures before the first connection, and before the workers of a pool or of ports: the base of memory figures.
    pub fn ready(&self) -> &Snapshot {
        &self.ready
    }

    /// The address that the server listens on.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The certificates in PEM format, with TLS.
    pub fn certificates(&self) -> Option<&str> {
        self.certificates.as_deref()
    }

    /// All ports, for datagrams.
    pub fn ports(&self) -> Option<&Ports> {
        self.ports.as_ref()
    }

    /// Whether the accept thread has ended, which happens only after a failure.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// All figures so far, read at nearly the same time, except for run delays, which are read last.
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// The bytes so far. Cheaper than a snapshot, because it is read many times in a window.
    pub fn moved(&self) -> Moved {
        // No serving thread may run between the readings of bytes and time.
        let _boost = usage::PriorityBoost::start();
        let (bytes_in, bytes_out) = self.state.workers.bytes();
        Moved { at_ns: platform::monotonic_ns(), bytes_in, bytes_out }
    }

    /// Ends all connections, serving threads and children, and waits for them.
    ///
    /// # Errors
    /// The error of the accept thread.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServerError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.state.stopping.store(true, Relaxed);
        // The byte stops loops that wait on a mechanism. The shutdown stops loops that block in accept.
        let _ = rustix::io::write(&self.state.stopper, &[1]);
        socket::shut_down(&self.state.sockets[0]);
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("the accept thread panicked")));
        ended.map_err(failed(
            "the server failed",
            "raise the limit in the error, or reduce threads or connections; see the system's log",
        ))
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServerError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(failed("cannot create a thread", "raise the limit of processes (ulimit -u)"))
}

/// Starts a thread that counts ticks of the time limits until the returned sender is dropped.
fn count_ticks(tick: Duration, state: &ServerState) -> Result<mpsc::Sender<()>, ServerError> {
    let (sender, running) = mpsc::channel();
    let ticks = state.workers.ticks();
    spawn("limits", move || limits::count_ticks(tick, ticks, &running, || {}))?;
    Ok(sender)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The sockets of a server.
struct Listening {
    sockets: Vec<OwnedFd>,
    address: Address,
    ports: Option<Ports>,
    file: Option<SocketFile>,
}

fn open_sockets(config: &ServeConfig) -> io::Result<Listening> {
    if let Some(count) = config.service.ports() {
        // Completion mechanisms and blocking threads wait inside a receive, so their sockets must block.
        let nonblocking = config.architecture.mechanism.is_some_and(|row| row.family == Family::Readiness);
        let workers = match config.accept {
            Accept::Reuseport => config.architecture.threads_at_once().unwrap_or(1),
            _ => 1,
        };
        let BoundPorts { sockets, ports, address } = ports::bind(&config.listen, count, nonblocking, workers)?;
        if config.datagrams.offload {
            sockets.iter().try_for_each(platform::coalesce_datagrams)?;
        }
        return Ok(Listening { sockets, address, ports: Some(ports), file: None });
    }
    let Bound { socket, address, file } = match config.accept {
        accept if accept.has_own_listeners() => socket::reserve_address(&config.listen),
        accept => {
            let blocks = accept != Accept::Exclusive && platform::SHUTDOWN_WAKES_ACCEPT;
            socket::listen(&config.listen, !blocks)
        }
    }?;
    Ok(Listening { sockets: vec![socket], address, ports: None, file })
}
