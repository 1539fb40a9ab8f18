//! Shared parts of the runtimes: counters of threads, admission of connections, handling of failed accepts.

use std::cell::Cell;
#[cfg(any(feature = "tokio", feature = "smol"))]
use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;

use crate::metrics::workers::Counters;
use crate::net::ServerContext;
use crate::net::connection::Next;
use crate::socket::{self, Accepted, Acceptor};
use crate::spec::read_budget::ReadBudget;

/// The pause of an accept loop without descriptors and without connections to refuse: the next accept would fail at once.
pub const REST: Duration = Duration::from_millis(10);

thread_local! {
    /// The counters of this thread, and the server that they belong to.
    static COUNTERS: Cell<Option<(usize, &'static Counters)>> = const { Cell::new(None) };
    /// See [`with_room`].
    #[cfg(any(feature = "tokio", feature = "smol"))]
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `read` with one read budget of memory. The tasks of a thread share it, because a read ends within one poll.
#[cfg(any(feature = "tokio", feature = "smol"))]
pub fn with_room<T>(budget: ReadBudget, read: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        // In tests a thread outlives a server, and the next one may have a larger budget.
        if buffer.len() < budget.bytes() {
            *buffer = vec![0; budget.bytes()];
        }
        read(&mut buffer[..budget.bytes()])
    })
}

/// State that all tasks of a server share. It lives for ever, because tasks may outlive the accept loop by a moment.
#[derive(Debug)]
pub struct TaskContext<S> {
    /// The service.
    pub service: S,
    /// Counters that threads take at their first use, and the number taken.
    counters: Vec<&'static Counters>,
    /// Counters of [`Admission`].
    refusals: &'static Counters,
    taken: AtomicUsize,
    connections_max: usize,
    /// The most bytes that one read takes from a connection.
    pub read_budget: ReadBudget,
    open: AtomicUsize,
}

impl<S> TaskContext<S> {
    /// Makes the state, with counters for the calling accept thread and for `threads` others.
    ///
    /// # Errors
    /// When there are too few counters.
    pub fn new(context: &ServerContext<'_>, service: S, threads: usize) -> io::Result<&'static Self> {
        let mut cursor = 0;
        let mut claim = || match context.workers.claim(&mut cursor) {
            Some(slot) => Ok(&slot.counters),
            None => Err(io::Error::other("more threads than counters")),
        };
        let refusals = claim()?;
        let counters = (0..threads).map(|_| claim()).collect::<io::Result<_>>()?;
        let shared = Box::leak(Box::new(Self {
            service,
            counters,
            refusals,
            taken: AtomicUsize::new(0),
            connections_max: context.connections_max,
            read_budget: context.read_budget,
            open: AtomicUsize::new(0),
        }));
        COUNTERS.set(Some((shared.id(), context.workers.accept())));
        Ok(shared)
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether any connection is open.
    #[cfg(feature = "may")]
    pub fn are_open(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    /// The counters of the calling thread. They have one writer: never hold them across a point where a task may change threads.
    // Not inlined: a coroutine may wake in another thread, where the compiler would use the old thread's address.
    #[inline(never)]
    pub fn counters(&self) -> &'static Counters {
        match COUNTERS.get() {
            Some((id, counters)) if id == self.id() => counters,
            _ => {
                let counters = self.counters[self.taken.fetch_add(1, Relaxed)];
                COUNTERS.set(Some((self.id(), counters)));
                counters
            }
        }
    }
}

/// An open connection. Dropped with its task, even after a panic.
#[derive(Debug)]
pub struct Open<S: 'static>(pub &'static TaskContext<S>);

impl<S> Drop for Open<S> {
    fn drop(&mut self) {
        self.0.counters().ended.add(1);
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// The next step of an accept loop after a failed accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Accept again.
    Accept,
    /// Pause for [`REST`], then accept again.
    Rest,
    /// End, because the server stops.
    Stop,
}

/// Admits or refuses connections. Shared by all accept loops of a server, which have one spare descriptor.
#[derive(Debug)]
pub struct Admission<'a, S: 'static> {
    shared: &'static TaskContext<S>,
    /// Accepts only connections that must be refused for lack of descriptors; the runtime accepts all others. The lock makes its
    /// counters have one writer at a time.
    acceptor: Mutex<Acceptor<'a>>,
    /// Whether connections are of TCP.
    tcp: bool,
}

impl<'a, S> Admission<'a, S> {
    /// For all loops of a server.
    pub fn new(context: &ServerContext<'a>, shared: &'static TaskContext<S>) -> io::Result<Self> {
        let acceptor = Acceptor::new(context.listener, true, shared.refusals)?;
        Ok(Self { shared, acceptor: Mutex::new(acceptor), tcp: socket::is_tcp(context.listener) })
    }

    fn acceptor(&self) -> MutexGuard<'_, Acceptor<'a>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a connection's options and counts it. `None` if there is no room: dropping the connection then resets it.
    pub fn admit(&self, connection: impl AsFd) -> Option<Open<S>> {
        let shared = self.shared;
        let has_room = self.acceptor().has_room();
        if !has_room || shared.open.fetch_add(1, Relaxed) >= shared.connections_max {
            if has_room {
                shared.open.fetch_sub(1, Relaxed);
            }
            shared.counters().refused.add(1);
            socket::reset(connection);
            return None;
        }
        shared.counters().accepted.add(1);
        let open = Open(shared);
        socket::set_options(connection, self.tcp).ok().map(|()| open)
    }

    /// Decides what to do after a failed accept.
    pub fn after(&self, error: io::Error) -> io::Result<AfterFailure> {
        let accepted = match Errno::from_io_error(&error) {
            // The runtime itself waits for the next connection.
            Some(Errno::AGAIN) => Accepted::None,
            Some(Errno::MFILE | Errno::NFILE) => self.acceptor().reject_waiting()?,
            Some(error) => socket::classify_accept_error(error)?,
            None => return Err(error),
        };
        Ok(match accepted {
            Accepted::Connection(connection) => {
                self.acceptor().refuse(connection);
                AfterFailure::Accept
            }
            Accepted::None => AfterFailure::Accept,
            Accepted::Later if self.acceptor().is_shut_down(Duration::ZERO) => AfterFailure::Stop,
            Accepted::WouldBlock | Accepted::Later => AfterFailure::Rest,
            Accepted::Shutdown => AfterFailure::Stop,
        })
    }
}

/// A listener of the standard library, to be converted to the runtime's type.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix sockets.
    Unix(UnixListener),
}

/// The server's listener with another descriptor, so that a runtime may close it. Both share the mode `nonblocking`.
pub fn listener(context: &ServerContext<'_>, nonblocking: bool) -> io::Result<Listener> {
    let listener = context.listener.try_clone()?;
    rustix::io::ioctl_fionbio(&listener, nonblocking)?;
    if !nonblocking {
        // Another loop may take the connection that this one was about to refuse.
        socket::set_accept_timeout(&listener, REST)?;
    }
    Ok(if socket::is_tcp(&listener) { Listener::Tcp(listener.into()) } else { Listener::Unix(listener.into()) })
}

/// Ends a connection that waits and is overdue. `is_time` polls a timer that fires each tick.
pub fn unless_overdue(
    polled: Poll<Next>,
    mut is_time: impl FnMut() -> bool,
    mut is_overdue: impl FnMut() -> bool,
) -> Poll<Next> {
    while polled.is_pending() && is_time() {
        if is_overdue() {
            return Poll::Ready(Next::End);
        }
    }
    polled
}
