//! What all runtimes share: who counts where, who is let in, and what a failed accept means.

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
use crate::net::Stage;
use crate::net::connection::Next;
use crate::socket::{self, Accepted, Acceptor};
use crate::spec::read_budget::ReadBudget;

/// How long an accept loop rests when there is no descriptor left and no connection to turn away: the next accept would
/// fail at once, and so on.
pub const REST: Duration = Duration::from_millis(10);

thread_local! {
    /// Where this thread counts, and for which server.
    static COUNTERS: Cell<Option<(usize, &'static Counters)>> = const { Cell::new(None) };
    /// See [`with_room`].
    #[cfg(any(feature = "tokio", feature = "smol"))]
    static INBOX: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Gives `read` one read budget of room. All tasks of a thread share it, because a read ends within one poll.
#[cfg(any(feature = "tokio", feature = "smol"))]
pub fn with_room<T>(budget: ReadBudget, read: impl FnOnce(&mut [u8]) -> T) -> T {
    INBOX.with_borrow_mut(|inbox| {
        // A thread outlives a server in tests, and the next one may have a larger budget.
        if inbox.len() < budget.bytes() {
            *inbox = vec![0; budget.bytes()];
        }
        read(&mut inbox[..budget.bytes()])
    })
}

/// What all tasks of a server share. Tasks may outlive the accept loop by a moment, so it lives for ever.
#[derive(Debug)]
pub struct Shared<S> {
    /// What to do with bytes.
    pub service: S,
    /// Counters that threads take as they come, and how many are taken.
    counters: Vec<&'static Counters>,
    /// Where [`Door`] counts those that it closes.
    refusals: &'static Counters,
    taken: AtomicUsize,
    connections_max: usize,
    /// The most bytes that one read takes from a connection.
    pub read_budget: ReadBudget,
    open: AtomicUsize,
}

impl<S> Shared<S> {
    /// With counters for the calling thread, which are the accept thread's, and for `threads` others.
    ///
    /// # Errors
    /// When there are not as many counters.
    pub fn new(stage: &Stage<'_>, service: S, threads: usize) -> io::Result<&'static Self> {
        let mut cursor = 0;
        let mut claim = || match stage.workers.claim(&mut cursor) {
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
            connections_max: stage.connections_max,
            read_budget: stage.read_budget,
            open: AtomicUsize::new(0),
        }));
        COUNTERS.set(Some((shared.id(), stage.workers.accept())));
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

    /// The calling thread's counters. They have one writer: hold them across no point at which a task may change threads.
    // Not inlined: a coroutine may wake in another thread, and the compiler would keep the old thread's address.
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

/// A connection that is being served. Dropped with its task, however that ends.
#[derive(Debug)]
pub struct Open<S: 'static>(pub &'static Shared<S>);

impl<S> Drop for Open<S> {
    fn drop(&mut self) {
        self.0.counters().ended.add(1);
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// What an accept loop does after an accept that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Accepts again.
    Accept,
    /// Lets others run for [`REST`], then accepts again.
    Rest,
    /// Ends: the server stops.
    Stop,
}

/// Decides on what a runtime's accept gave. All accept loops of a server have one, for there is one reserve.
#[derive(Debug)]
pub struct Door<'a, S: 'static> {
    shared: &'static Shared<S>,
    /// Closes what comes when there is no descriptor for it; it does not accept otherwise, the runtime does. The lock
    /// makes its counters have one writer at a time.
    acceptor: Mutex<Acceptor<'a>>,
    /// Whether connections are of TCP.
    tcp: bool,
}

impl<'a, S> Door<'a, S> {
    /// For all loops of a server.
    ///
    /// # Errors
    /// When there is no descriptor for the reserve.
    pub fn new(stage: &Stage<'a>, shared: &'static Shared<S>) -> io::Result<Self> {
        let acceptor = Acceptor::new(stage.listener, true, shared.refusals)?;
        Ok(Self { shared, acceptor: Mutex::new(acceptor), tcp: socket::is_tcp(stage.listener) })
    }

    fn acceptor(&self) -> MutexGuard<'_, Acceptor<'a>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a connection's options and counts it. `None` when there is no room for it: whoever drops it resets it.
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

    /// What to do about an accept that failed.
    ///
    /// # Errors
    /// Errors that are not a connection's but the listener's.
    pub fn after(&self, error: io::Error) -> io::Result<Then> {
        let accepted = match Errno::from_io_error(&error) {
            // The runtime waits by itself until one is there.
            Some(Errno::AGAIN) => Accepted::None,
            Some(Errno::MFILE | Errno::NFILE) => self.acceptor().turn_one_away()?,
            Some(error) => socket::without_connection(error)?,
            None => return Err(error),
        };
        Ok(match accepted {
            Accepted::Connection(connection) => {
                self.acceptor().refuse(connection);
                Then::Accept
            }
            Accepted::None => Then::Accept,
            Accepted::Later if self.acceptor().is_shut_down(Duration::ZERO) => Then::Stop,
            Accepted::WouldBlock | Accepted::Later => Then::Rest,
            Accepted::Shutdown => Then::Stop,
        })
    }
}

/// A listener as the standard library has it. Runtimes have a type for each of these, as it has.
#[derive(Debug)]
pub enum Listener {
    /// Of TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// The server's listener by another descriptor: what a runtime does to it, even closing it, leaves ours alone, except that
/// both are `nonblocking` or neither.
///
/// # Errors
/// When there is no descriptor.
pub fn listener(stage: &Stage<'_>, nonblocking: bool) -> io::Result<Listener> {
    let listener = stage.listener.try_clone()?;
    rustix::io::ioctl_fionbio(&listener, nonblocking)?;
    if !nonblocking {
        // When descriptors run out, another loop may take the connection that this one was about to turn away.
        socket::limit_accept(&listener, REST)?;
    }
    Ok(if socket::is_tcp(&listener) { Listener::Tcp(listener.into()) } else { Listener::Unix(listener.into()) })
}

/// What came of a poll, unless that is nothing and the client is overdue. `is_time` polls a timer that fires each tick.
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
