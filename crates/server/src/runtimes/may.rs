//! may: coroutines with their own stacks, which make blocking calls.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use may::coroutine;
use may::net::TcpListener;
use may::os::unix::net::UnixListener;
use wire::Wait;

use super::{AfterFailure, ConnectionLimiter, Open, REST, TaskContext, duplicate};
use crate::net::connection::{Connect, Next, WRITE_BUDGET_BYTES};
use crate::net::{OnDrop, ServerContext};
use crate::socket;
use crate::spec::model::{ModelRow, PerConnection};

pub const ROW: ModelRow = ModelRow {
    name: "may",
    about: "a coroutine per connection on may, with a stack of 32 KiB (TLS: 256 KiB), in one thread or with :N in N threads; system \
            calls not counted",
    per_connection: PerConnection::Stack,
    needs: "two memory mappings per connection (vm.max_map_count)",
    ..ModelRow::RUNTIME
};

/// The stack of a coroutine with TLS, in words: 256 KiB, as that of a thread. A handshake needs more than may's 32 KiB.
const TLS_STACK_WORDS: usize = (256 << 10) / size_of::<usize>();

/// A pause of a coroutine whose socket stays writable, in which may polls for events. A yield only runs other ready coroutines.
const PAUSE: Duration = Duration::from_micros(10);
/// The bytes before such a pause: several budgets, because another thread ends the pause.
const PAUSE_BYTES: usize = 4 * WRITE_BUDGET_BYTES;

/// The longest step of a wait, after which a coroutine checks whether the server stops.
const STEP: Duration = Duration::from_millis(100);
/// Waits are rounded up to a multiple of this time.
const ROUND_NS: u128 = 100_000;

/// The longest wait for coroutines to end after the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The state that all connections share.
#[derive(Default)]
struct Shared {
    /// The descriptors of open connections, which the stopping server shuts down.
    descriptors: HashSet<RawFd>,
    /// The buffers of ended connections. Zeroing a new buffer for each connection would cost more than its accept.
    buffers: Vec<Vec<u8>>,
}

/// Runs the server in the calling thread until it is stopped. The coroutines run in may's threads, which outlive the server.
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    let threads = context.threads.map_or(1, |threads| threads.network) as usize;
    let tasks = TaskContext::new(context, service, threads)?;
    // Only the first server of a process sets the number of threads. Do not pin each thread to one CPU.
    may::config().set_workers(threads).set_worker_pin(false);
    let listener = duplicate(context.listener, true)?;
    let tick = tasks.service.check_interval();
    macro_rules! accept {
        ($listener:ty) => {{
            // SAFETY: the new listener owns the descriptor.
            let listener = unsafe { <$listener>::from_raw_fd(listener.into_raw_fd()) };
            accept(context, tasks, || {
                let (stream, _) = listener.accept()?;
                // Setting a timeout above 0 never fails.
                let _ = (stream.set_read_timeout(tick), stream.set_write_timeout(tick));
                Ok(stream)
            })
        }};
    }
    if socket::is_tcp(&listener) { accept!(TcpListener) } else { accept!(UnixListener) }
}

/// A TCP or Unix connection.
trait Stream: Read + Write + AsRawFd + Send + 'static {}
impl<T: Read + Write + AsRawFd + Send + 'static> Stream for T {}

/// Accepts connections with `next` until the server stops.
fn accept<T: Stream>(
    context: &ServerContext<'_>,
    tasks: &'static TaskContext,
    next: impl Fn() -> io::Result<T>,
) -> io::Result<()> {
    let shared: &'static Mutex<Shared> = Box::leak(Box::default());
    let limiter = ConnectionLimiter::new(context, tasks)?;
    let stack_words = if context.tls.is_some() { TLS_STACK_WORDS } else { may::config().get_stack_size() };
    context.notify_started();
    let ended = loop {
        match next() {
            Ok(stream) => {
                let descriptor = stream.as_raw_fd();
                // SAFETY: the stream keeps the descriptor open.
                if let Some(open) = limiter.admit(unsafe { BorrowedFd::borrow_raw(descriptor) }) {
                    let mut sharing = lock(shared);
                    sharing.descriptors.insert(descriptor);
                    let buffer = sharing.buffers.pop().unwrap_or_else(|| vec![0; tasks.read_budget.bytes()]);
                    drop(sharing);
                    let coroutine = coroutine::Builder::new().stack_size(stack_words);
                    // SAFETY: no reference to thread-local storage is held across a wait, and the frames fit the coroutine's
                    // stack.
                    let spawned = unsafe { coroutine.spawn(move || serve(open, stream, buffer, shared)) };
                    drop(spawned.expect("may allocates coroutines or panics"));
                }
            }
            Err(error) => match limiter.after(error) {
                Ok(AfterFailure::Accept) => {}
                Ok(AfterFailure::Rest) => thread::sleep(REST),
                Ok(AfterFailure::Stop) => break Ok(()),
                Err(error) => break Err(error),
            },
        }
    };
    for &descriptor in &lock(shared).descriptors {
        // SAFETY: the descriptor is open, because its coroutine must take the lock before it closes the socket.
        unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
    }
    let started = Instant::now();
    while tasks.has_open_connections() && started.elapsed() < STOP_MAX {
        thread::sleep(Duration::from_millis(1));
    }
    ended
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection to its end. Each connection has a buffer, because coroutines share threads.
fn serve(open: Open, mut stream: impl Stream, mut buffer: Vec<u8>, shared: &Mutex<Shared>) {
    let Open(tasks) = open;
    let mut connection = tasks.service.connect();
    // Remove the descriptor before the stream is closed, even after a panic, because the kernel may reuse the number.
    let descriptor = stream.as_raw_fd();
    let _forget = OnDrop(|| {
        lock(shared).descriptors.remove(&descriptor);
    });
    // SAFETY: the stream outlives `io`.
    let io = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let mut next = Next::Read;
    // The bytes since the last pause.
    let mut sent_bytes = 0;
    while next != Next::End && !connection.is_overdue(io, tasks.counters()) {
        if next.is_wait()
            && let Some(Wait { until: Some(until), .. }) = connection.wait()
        {
            let left = until.saturating_duration_since(Instant::now());
            if tasks.stopping.load(Relaxed) {
                break;
            } else if left.is_zero() {
                connection.resume(tasks.counters());
                next = connection.next(io);
            } else {
                // may keeps a list for each length of a sleep, so there must be few.
                let rounded = left.as_nanos().next_multiple_of(ROUND_NS).min(STEP.as_nanos());
                sleep(Duration::from_nanos(rounded as u64));
            }
            continue;
        }
        let done = match next {
            Next::Write | Next::WriteOn => {
                let unsent = connection.unsent();
                let written = match unsent.second {
                    [] => stream.write(unsent.first),
                    _ => stream.write_vectored(&unsent.slices()),
                };
                written.map(|count| {
                    sent_bytes += count;
                    connection.sent(count, tasks.counters());
                    connection.next(io)
                })
            }
            _ => stream.read(&mut buffer).map(|count| connection.on_read(&buffer[..count], io, tasks.counters())),
        };
        next = match done {
            Ok(next) => next,
            // A tick has passed: check the limits.
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => next,
            Err(_) => Next::End,
        };
        if sent_bytes >= PAUSE_BYTES {
            sent_bytes = 0;
            sleep(PAUSE);
        }
    }
    lock(shared).buffers.push(buffer);
}

fn sleep(time: Duration) {
    coroutine::sleep(time);
    // The sleep ends in the thread of may's timers. Return to a worker.
    coroutine::yield_now();
}
