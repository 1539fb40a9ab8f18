//! may: coroutines with stacks of their own, which read and write as if they blocked: threads of user level.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use may::coroutine;
use may::net::{TcpListener, TcpStream};
use may::os::unix::net::{UnixListener, UnixStream};
use wire::Service;

use super::{Door, Listener, Open, REST, Shared, Then};
use crate::net::connection::{Connection, Next};
use crate::net::{OnDrop, Stage};
use crate::service::with_service;
use crate::spec::model::{ModelRow, PerConnection, ThreadSpec};

/// Its description in [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "may",
    about: "a coroutine per connection, a thread of user level with a stack of 32 KiB, on one kernel thread or, with \
            :N, on N; system calls not counted",
    stages: None,
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    per_connection: PerConnection::Stack,
    needs: "two mappings per connection of vm.max_map_count",
    can_run: || Ok(()),
};

/// The longest wait for coroutines to end once the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The descriptors that coroutines serve, so that stopping can shut them down. A lock for each connection, none for
/// each request.
type Served = Mutex<HashSet<RawFd>>;

/// Accepts in this thread; may's own threads, which serve, are the process's and stay when the server has ended.
fn run<S: Service<Conn: Send> + Send + Sync + 'static>(stage: &Stage<'_>, service: S) -> io::Result<()> {
    let threads = stage.threads.map_or(1, |threads| threads.network) as usize;
    let shared = Shared::new(stage, service, threads)?;
    // Taken by the first server of a process. The threads are to run where the server may, not each on a CPU of may's.
    may::config().set_workers(threads).set_worker_pin(false);
    match super::listener(stage, true)? {
        Listener::Tcp(listener) => {
            // SAFETY: the descriptor is a listening socket and nobody else's.
            let listener = unsafe { TcpListener::from_raw_fd(listener.into_raw_fd()) };
            accept(stage, shared, || listener.accept().map(|(stream, _)| stream))
        }
        Listener::Unix(listener) => {
            // SAFETY: the same.
            let listener = unsafe { UnixListener::from_raw_fd(listener.into_raw_fd()) };
            accept(stage, shared, || listener.accept().map(|(stream, _)| stream))
        }
    }
}

/// Runs the server in the calling thread until it is stopped.
pub(crate) fn run_server(stage: &Stage<'_>) -> io::Result<()> {
    with_service!(stage, |service| run(stage, service))
}

/// A connection of either kind.
trait Stream: Read + Write + AsRawFd + Send + 'static {
    /// Has reads and writes give up after a time.
    fn limit_waits(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit_waits(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn limit_waits(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// Accepts by `next`, until the server stops.
fn accept<S, T: Stream>(
    stage: &Stage<'_>,
    shared: &'static Shared<S>,
    next: impl Fn() -> io::Result<T>,
) -> io::Result<()>
where
    S: Service<Conn: Send> + Send + Sync,
{
    let served: &'static Served = Box::leak(Box::default());
    let door = Door::new(stage, shared)?;
    stage.say_started();
    let ended = loop {
        match next() {
            Ok(stream) => {
                let descriptor = stream.as_raw_fd();
                // SAFETY: the stream keeps it open for longer than this.
                if let Some(open) = door.admit(unsafe { BorrowedFd::borrow_raw(descriptor) }) {
                    lock(served).insert(descriptor);
                    // SAFETY: no reference into thread-local storage lives across a wait, and no frame is large.
                    unsafe { coroutine::spawn(move || serve(open, stream, served)) };
                }
            }
            Err(error) => match door.after(error) {
                Ok(Then::Accept) => {}
                Ok(Then::Rest) => thread::sleep(REST),
                Ok(Then::Stop) => break Ok(()),
                Err(error) => break Err(error),
            },
        }
    };
    for &descriptor in lock(served).iter() {
        // SAFETY: shuts a socket down whose coroutine cannot close it before the lock is released.
        unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
    }
    let started = Instant::now();
    while shared.are_open() && started.elapsed() < STOP_MAX {
        thread::sleep(Duration::from_millis(1));
    }
    ended
}

fn lock(served: &Served) -> std::sync::MutexGuard<'_, HashSet<RawFd>> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection to its end.
fn serve<S: Service>(open: Open<S>, mut stream: impl Stream, served: &Served) {
    let Open(shared) = open;
    let service = &shared.service;
    // Its own: while it waits for bytes, others run in the same thread. Zeroed memory that is new costs nothing.
    let mut inbox = vec![0; shared.read_budget.bytes()];
    let mut connection = Connection::default();
    // Before the stream is closed, by a panic too: afterwards the number may be another's.
    let descriptor = stream.as_raw_fd();
    let _forget = OnDrop(|| {
        lock(served).remove(&descriptor);
    });
    // SAFETY: the stream keeps it open for longer than this.
    let io = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    if let Some(tick) = service.looks_every() {
        // Neither fails for a tick above 0.
        let _ = stream.limit_waits(tick);
    }
    let mut next = Next::Read;
    while next != Next::End && !connection.is_overdue(io, service, shared.counters()) {
        let done = match next {
            Next::Write => stream.write(connection.unsent(service)).map(|count| {
                connection.sent(count, service, shared.counters());
                connection.next(io, service)
            }),
            _ => {
                stream.read(&mut inbox).map(|count| connection.on_read(&inbox[..count], io, service, shared.counters()))
            }
        };
        next = match done {
            Ok(next) => next,
            // Long enough waited to look.
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => next,
            Err(_) => Next::End,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testkit::{Bench, check_that_others_outlive_a_panic, panics_at_will};

    #[test]
    fn task_that_panics_is_counted_and_others_go_on() {
        let bench = Bench::new();
        let server = bench.start("may", Some(1), |stage| run(stage, panics_at_will()));
        check_that_others_outlive_a_panic(bench, server);
    }
}
