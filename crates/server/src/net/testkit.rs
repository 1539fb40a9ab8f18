//! A server for unit tests, with a service that the test supplies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use wire::{Service, ServiceSpec};

use super::ServerContext;
use super::connection::Connect;
use crate::metrics::workers::Workers;
use crate::registry;
use crate::service::limits::Limits;
use crate::socket::steering::ProgramTime;
use crate::socket::{self, Bound};
use crate::spec::accept::Accept;
use crate::spec::model::{StageCpus, Threads};
use crate::spec::options::Options;

/// Longer than any test takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A service that answers each byte with a byte. It calls the closure with the received bytes, in the serving thread.
pub(crate) struct Echo<F>(pub(crate) F);

/// The bytes of responses.
const FILL: &[u8] = &[b'.'; 64];

impl<F: Fn(&[u8])> Service for Echo<F> {
    type Conn = usize;

    fn receive(&self, unsent: &mut usize, input: &[u8]) -> u64 {
        (self.0)(input);
        *unsent += input.len();
        input.len() as u64
    }

    fn unsent<'a>(&'a self, unsent: &'a usize) -> &'a [u8] {
        &FILL[..FILL.len().min(*unsent)]
    }

    fn sent(&self, unsent: &mut usize, count: usize) -> u64 {
        *unsent -= count;
        0
    }
}

/// A service that panics on `!`. It bypasses the panic hook, which would print to the test's output.
pub(crate) fn panicking_service() -> Echo<impl Fn(&[u8])> {
    Echo(|bytes: &[u8]| {
        if bytes == b"!" {
            panic::resume_unwind(Box::new(()));
        }
    })
}

/// Checks on a server of [`panicking_service`] that a panic ends only its connection, which is then counted as ended.
pub(crate) fn check_panic_ends_one_connection(fixture: &'static Fixture, server: Running) {
    for _ in 0..3 {
        let mut client = fixture.connect();
        client.write_all(b"!").unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "the panicking connection ends");
    }
    wait_until("panicking connections are counted as ended", || fixture.workers.connections_open() == 0);
    let mut other = fixture.connect();
    other.write_all(b"?").unwrap();
    other.read_exact(&mut [0]).unwrap();
    drop(other);
    wait_until("the served connection is counted as ended", || fixture.workers.connections_open() == 0);
    assert_eq!(fixture.workers.totals().accepted, Some(4));
    server.stop().unwrap();
}

/// The clients of a flood. One more client, which sends a request, has connected before them.
const FLOOD: u64 = 150;

/// Checks that a server facing [`FLOOD`] connections serves the first client before it has accepted more than `accepts_max`.
pub(crate) fn check_flood_leaves_others_served(
    model: &str,
    threads: Option<u32>,
    accepts_max: u64,
    serve: impl FnOnce(&ServerContext<'static>, Box<dyn Fn(&[u8]) + Send + Sync>) -> io::Result<()> + Send + 'static,
) {
    let fixture = Fixture::new();
    let mut first = fixture.connect();
    first.write_all(b"?").unwrap();
    let flood: Vec<TcpStream> = (0..FLOOD).map(|_| fixture.connect()).collect();
    let (sender, taken) = mpsc::channel();
    let record = move |_: &[u8]| {
        let _ = sender.send(fixture.workers.totals().accepted.unwrap_or_default());
    };
    let server = fixture.start(model, threads, move |context| serve(context, Box::new(record)));
    let taken = taken.recv_timeout(PATIENCE).expect("the first client is served");
    assert!(taken <= accepts_max, "{taken} of {} connections were accepted before the first was served", FLOOD + 1);
    wait_until("all connections are accepted", || fixture.workers.totals().accepted == Some(FLOOD + 1));
    first.read_exact(&mut [0]).unwrap();
    drop(flood);
    server.stop().unwrap();
}

/// The response of [`Large`] to `!`.
const LARGE_BYTES: u64 = 1 << 30;
/// The most bytes of it that are sent before another client is served. Between stages, the host decides which thread runs next.
const EARLIER_BYTES_MAX: u64 = 64 << 20;

/// A service that answers `!` with [`LARGE_BYTES`], and any other byte with a byte. It reads the large response itself, at each
/// write, so that the socket always has room. At the first write, another client asks.
struct Large {
    /// The client of the large response, and another client.
    clients: Mutex<[TcpStream; 2]>,
    sent_bytes: AtomicU64,
    /// The bytes that were sent when the other client's request was received.
    answered_bytes: AtomicU64,
}

impl Service for &Large {
    /// The unsent bytes, and whether the response is large.
    type Conn = (u64, bool);

    fn receive(&self, (unsent, is_large): &mut Self::Conn, input: &[u8]) -> u64 {
        *is_large |= input == b"!";
        *unsent = if *is_large { LARGE_BYTES } else { 1 };
        self.answered_bytes.store(self.sent_bytes.load(Relaxed), Relaxed);
        1
    }

    fn unsent<'a>(&'a self, (unsent, _): &'a Self::Conn) -> &'a [u8] {
        static FILL: [u8; 1 << 20] = [b'.'; 1 << 20];
        &FILL[..FILL.len().min(*unsent as usize)]
    }

    fn sent(&self, (unsent, is_large): &mut Self::Conn, count: usize) -> u64 {
        *unsent -= count as u64;
        if *is_large {
            let mut clients = self.clients.lock().unwrap();
            let [reader, other] = &mut *clients;
            if self.sent_bytes.fetch_add(count as u64, Relaxed) == 0 {
                other.write_all(b"?").unwrap();
            }
            reader.read_exact(&mut vec![0; count]).unwrap();
        }
        0
    }
}

/// Checks that a server serves another client before it has sent much of a large response, whose reader is always ready.
pub(crate) fn check_large_response_leaves_others_served(
    model: &str,
    threads: Option<Threads>,
    serve: impl FnOnce(&ServerContext<'static>, Box<dyn Connect>) -> io::Result<()> + Send + 'static,
) {
    let fixture = Fixture::new();
    let (reader, other) = (fixture.connect(), fixture.connect());
    let [mut asking, mut answered] = [&reader, &other].map(|client| client.try_clone().unwrap());
    let large: &'static Large = Box::leak(Box::new(Large {
        clients: Mutex::new([reader, other]),
        sent_bytes: AtomicU64::new(0),
        answered_bytes: AtomicU64::new(0),
    }));
    let server = fixture.start_with(model, threads, move |context| serve(context, Box::new(large)));
    answered.write_all(b"?").unwrap();
    answered.read_exact(&mut [0]).unwrap();
    asking.write_all(b"!").unwrap();
    answered.read_exact(&mut [0]).unwrap();
    let sent_bytes = large.answered_bytes.load(Relaxed);
    assert!(sent_bytes <= EARLIER_BYTES_MAX, "{model}: {sent_bytes} bytes were sent before another client was served");
    drop((asking, answered));
    server.stop().unwrap();
}

/// Runs the server of a runtime.
#[allow(dead_code, reason = "a build may have no runtime")]
type Run = fn(&ServerContext<'_>, Box<dyn Connect>) -> io::Result<()>;

/// Checks a runtime with [`check_panic_ends_one_connection`].
#[allow(dead_code, reason = "a build may have no runtime")]
pub(crate) fn check_panicking_task(model: &str, threads: u32, run: Run) {
    let fixture = Fixture::new();
    let server = fixture.start(model, Some(threads), move |context| run(context, Box::new(panicking_service())));
    check_panic_ends_one_connection(fixture, server);
}

/// Checks one thread of a runtime with [`check_flood_leaves_others_served`].
#[allow(dead_code, reason = "a build may have no runtime")]
pub(crate) fn check_flood(model: &str, accepts_max: u64, run: Run) {
    check_flood_leaves_others_served(model, None, accepts_max, move |context, record| {
        run(context, Box::new(Echo(record)))
    });
}

/// Checks one thread of a runtime with [`check_large_response_leaves_others_served`].
#[allow(dead_code, reason = "a build may have no runtime")]
pub(crate) fn check_large_response(model: &str, run: Run) {
    check_large_response_leaves_others_served(model, None, run);
}

/// The parts of a server. They are leaked, so that a server may outlive a failed test.
pub(crate) struct Fixture {
    pub(crate) workers: Workers,
    bound: Bound,
    stop: OwnedFd,
    stopper: OwnedFd,
    stopping: Arc<AtomicBool>,
    program_time: OnceLock<ProgramTime>,
    service: ServiceSpec,
    cpus: StageCpus,
}

impl Fixture {
    pub(crate) fn new() -> &'static Self {
        let (stop, stopper) = rustix::pipe::pipe().unwrap();
        Box::leak(Box::new(Self {
            workers: Workers::new(256).unwrap(),
            bound: socket::listen(&"127.0.0.1:0".parse().unwrap(), false).unwrap(),
            stop,
            stopper,
            stopping: Arc::default(),
            program_time: OnceLock::new(),
            service: ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 },
            cpus: StageCpus::default(),
        }))
    }

    /// Connects, perhaps before a server runs.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.bound.address.ip().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Runs a server of `model` with `threads`.
    pub(crate) fn start(
        &'static self,
        model: &str,
        threads: Option<u32>,
        serve: impl FnOnce(&ServerContext<'static>) -> io::Result<()> + Send + 'static,
    ) -> Running {
        self.start_with(model, threads.map(Threads::all), serve)
    }

    /// Runs a server of `model` with the threads of its stages.
    pub(crate) fn start_with(
        &'static self,
        model: &str,
        threads: Option<Threads>,
        serve: impl FnOnce(&ServerContext<'static>) -> io::Result<()> + Send + 'static,
    ) -> Running {
        let model = registry::find_model(model).unwrap();
        let (started, is_started) = mpsc::channel();
        let context = ServerContext {
            listener: &self.bound.socket,
            sockets: &[],
            model,
            stop: self.stop.as_fd(),
            stopper: self.stopper.as_fd(),
            stopping: &self.stopping,
            workers: &self.workers,
            program_time: &self.program_time,
            service: &self.service,
            content: None,
            limits: Limits::default(),
            tls: None,
            work: None,
            threads,
            cpus: &self.cpus,
            options: Options { accept: Accept::default_of(model), ..Options::default() },
            socket_poll: None,
            connections_max: 200,
            started,
        };
        let (ends, ended) = mpsc::channel();
        thread::spawn(move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| serve(&context)));
            let _ = ends.send(outcome.unwrap_or_else(|_| Err(io::Error::other("the server panicked"))));
        });
        Running { fixture: self, is_started, ended }
    }
}

/// A running server.
pub(crate) struct Running {
    fixture: &'static Fixture,
    is_started: mpsc::Receiver<()>,
    ended: mpsc::Receiver<io::Result<()>>,
}

impl Running {
    /// Waits until the server has started.
    pub(crate) fn started(self) -> Self {
        self.is_started.recv_timeout(PATIENCE).expect("the server starts");
        self
    }

    /// Waits until the server ends.
    pub(crate) fn outcome(&self) -> io::Result<()> {
        self.ended.recv_timeout(PATIENCE).expect("the server ends")
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(self) -> io::Result<()> {
        self.fixture.stopping.store(true, Relaxed);
        rustix::io::write(&self.fixture.stopper, &[1])?;
        socket::shut_down(&self.fixture.bound.socket);
        self.outcome()
    }
}
