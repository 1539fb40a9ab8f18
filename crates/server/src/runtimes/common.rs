//! The parts that the runtimes share: counters of threads, admission of connections, loops that accept and serve.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::io::Errno;
use wire::Wait;

use crate::metrics::workers::Counters;
use crate::net::connection::{Connect, Next, Unsent, WRITE_BUDGET_BYTES};
use crate::net::{ACCEPTS, OnDrop, ServerContext, StartSignal};
use crate::socket::{self, Accepted, Acceptor};
use crate::spec::read_budget::ReadBudget;

/// The pause of an accept loop when no descriptor is left even to refuse a connection: without it, accept fails in a busy loop.
pub const REST: Duration = Duration::from_millis(10);

thread_local! {
    /// The counters of this thread, and the server that they belong to.
    static COUNTERS: Cell<Option<(usize, &'static Counters)>> = const { Cell::new(None) };
    /// See [`with_buffer`].
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `read` with a buffer of one read budget. The tasks of a thread share the buffer, because a read ends within one poll.
fn with_buffer<T>(budget: ReadBudget, read: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        // In tests a thread outlives a server, and the next server may have a larger budget.
        if buffer.len() < budget.bytes() {
            *buffer = vec![0; budget.bytes()];
        }
        read(&mut buffer[..budget.bytes()])
    })
}

/// The state that all tasks of a server share. It is never freed, because tasks may briefly outlive the accept loop.
pub struct TaskContext {
    pub service: Box<dyn Connect>,
    /// Counters, which threads take at their first use, and the number of counters taken.
    counters: Vec<&'static Counters>,
    taken: AtomicUsize,
    /// Counters for connections that [`ConnectionLimiter`] refuses for lack of descriptors.
    pub refusals: &'static Counters,
    connections_max: usize,
    pub read_budget: ReadBudget,
    /// Whether the server is stopping.
    pub stopping: Arc<AtomicBool>,
    open: AtomicUsize,
}

impl TaskContext {
    /// Makes the state. The calling thread gets the counters of the accept thread; `threads` other threads get their own.
    pub fn new(context: &ServerContext<'_>, service: Box<dyn Connect>, threads: usize) -> io::Result<&'static Self> {
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
            taken: AtomicUsize::new(0),
            refusals,
            connections_max: context.connections_max,
            read_budget: context.options.read_budget_bytes,
            stopping: context.stopping.clone(),
            open: AtomicUsize::new(0),
        }));
        COUNTERS.set(Some((shared.id(), context.workers.accept())));
        Ok(shared)
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether any connection is open.
    pub fn has_open_connections(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    /// The counters of the calling thread, their only writer. Do not keep them across a wait: the thread may change.
    // Not inlined: a coroutine may wake in another thread, where inlined code could use the old thread's storage.
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

/// An open connection. The end of its task drops this value, even after a panic.
pub struct Open(pub &'static TaskContext);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters().ended.add(1);
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// The next step of an accept loop after a failed accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    Accept,
    /// Pause for [`REST`], then accept again.
    Rest,
    Stop,
}

/// Admits or refuses connections. All accept loops of a listener share one value and its spare descriptor.
pub struct ConnectionLimiter<'a, L = &'a OwnedFd> {
    shared: &'static TaskContext,
    /// Accepts the connections that must be refused for lack of descriptors; the runtime accepts all others. The lock gives its
    /// counters one writer at a time.
    acceptor: Mutex<Acceptor<'a, L>>,
    tcp: bool,
}

impl<'a> ConnectionLimiter<'a> {
    pub fn new(context: &ServerContext<'a>, shared: &'static TaskContext) -> io::Result<Self> {
        Self::of_listener(context.listener, shared, shared.refusals)
    }
}

impl<'a, L: Borrow<OwnedFd>> ConnectionLimiter<'a, L> {
    /// Admits the connections of `listener`. The caller's thread must be the only other one that writes to the counters `refusals`.
    pub fn of_listener(listener: L, shared: &'static TaskContext, refusals: &'static Counters) -> io::Result<Self> {
        let tcp = socket::is_tcp(listener.borrow());
        Ok(Self { shared, acceptor: Mutex::new(Acceptor::new(listener, true, refusals)?), tcp })
    }

    fn acceptor(&self) -> MutexGuard<'_, Acceptor<'a, L>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection and sets its options. Returns `None` if the peer has gone, or without room: closing then resets it.
    pub fn admit(&self, connection: impl AsFd) -> Option<Open> {
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

    /// Decides how to continue after a failed accept.
    pub fn after(&self, error: io::Error) -> io::Result<AfterFailure> {
        let accepted = match Errno::from_io_error(&error) {
            // The runtime waits for the next connection.
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

/// Accepts connections with `next` and passes them to `spawn`, until the server stops. `rest` pauses for [`REST`].
pub async fn accept<'a, T: AsFd, L: Borrow<OwnedFd> + 'a>(
    limiter: impl Deref<Target = ConnectionLimiter<'a, L>>,
    next: impl AsyncFn() -> io::Result<T>,
    spawn: impl Fn(Open, T),
    rest: impl AsyncFn(),
) -> io::Result<()> {
    loop {
        match next().await {
            Ok(stream) => {
                if let Some(open) = limiter.admit(&stream) {
                    spawn(open, stream);
                }
            }
            Err(error) => match limiter.after(error)? {
                AfterFailure::Accept => {}
                AfterFailure::Rest => rest().await,
                AfterFailure::Stop => return Ok(()),
            },
        }
    }
}

/// Calls `pause`, which must let other tasks run, before every [`ACCEPTS`]th call of `next`. For a runtime whose accept never suspends
/// its task while connections wait.
pub fn in_turns<T>(next: impl AsyncFn() -> io::Result<T>, pause: impl AsyncFn()) -> impl AsyncFn() -> io::Result<T> {
    let accepts = Cell::new(0);
    async move || {
        if accepts.replace(accepts.get() + 1) % ACCEPTS == ACCEPTS - 1 {
            pause().await;
        }
        next().await
    }
}

/// Serves one connection to its end with the runtime's calls `read` and `write`. `pause` lets other tasks run. `wait` does so
/// until a time, or else until another thread has called [`Connect::block`]. `is_time` polls a timer that fires at each tick of the time limits.
pub async fn serve<T: AsFd + Unpin, P: Future<Output = ()>>(
    open: Open,
    mut stream: T,
    read: impl Fn(Pin<&mut T>, &mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
    write: impl Fn(Pin<&mut T>, &mut Context<'_>, Unsent<'_>) -> Poll<io::Result<usize>>,
    pause: impl Fn() -> P,
    wait: impl AsyncFn(Option<Instant>),
    mut is_time: impl FnMut(&mut Context<'_>) -> bool,
) {
    let Open(tasks) = open;
    let mut connection = tasks.service.connect();
    let mut next = Next::Read;
    // The bytes since other tasks could run last.
    let mut moved_bytes = 0;
    while next != Next::End {
        if next.is_wait()
            && let Some(Wait { until, .. }) = connection.wait()
        {
            wait(until).await;
            moved_bytes = 0;
            connection.resume(tasks.counters());
            next = connection.next(stream.as_fd());
            continue;
        }
        next = poll_fn(|context| {
            let polled = match next {
                Next::Write | Next::WriteOn => {
                    write(Pin::new(&mut stream), context, connection.unsent()).map_ok(|count| {
                        moved_bytes += count;
                        connection.sent(count, tasks.counters());
                        connection.next(stream.as_fd())
                    })
                }
                _ => with_buffer(tasks.read_budget, |buffer| {
                    read(Pin::new(&mut stream), context, buffer).map_ok(|count| {
                        moved_bytes += count;
                        connection.on_read(&buffer[..count], stream.as_fd(), tasks.counters())
                    })
                }),
            };
            if polled.is_pending() {
                moved_bytes = 0;
            }
            while polled.is_pending() && is_time(context) {
                if connection.is_overdue(stream.as_fd(), tasks.counters()) {
                    return Poll::Ready(Next::End);
                }
            }
            polled.map(|next| next.unwrap_or(Next::End))
        })
        .await;
        // Few runtimes interrupt a task whose socket stays ready.
        if moved_bytes >= WRITE_BUDGET_BYTES {
            moved_bytes = 0;
            pause().await;
        }
    }
}

/// Runs `run_one` in the calling thread and in the others that the server needs, until it is stopped. They share one listener,
/// unless the model needs one for each thread.
pub fn run_alike(
    name: &str,
    context: &ServerContext<'_>,
    service: Box<dyn Connect>,
    run_one: fn(&OwnedFd, &ConnectionLimiter<'_>, &StartSignal<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let others = context.threads.map_or(0, |threads| threads.network as usize - 1);
    let tasks = TaskContext::new(context, service, others)?;
    let limiter = ConnectionLimiter::new(context, tasks)?;
    let own = if context.model.has_own_listeners { others } else { 0 };
    let listeners = (0..own).map(|_| context.listen_beside()).collect::<io::Result<Vec<_>>>()?;
    let started = StartSignal::new(context, others + 1);
    // When one thread ends, even by a panic, the other threads must stop accepting. The server shuts down only its own listener.
    let end_all = || {
        socket::shut_down(context.listener);
        listeners.iter().for_each(socket::shut_down);
    };
    let run_one = |own: Option<&OwnedFd>| {
        let _end = OnDrop(end_all);
        let Some(listener) = own else { return run_one(context.listener, &limiter, &started) };
        run_one(listener, &ConnectionLimiter::of_listener(listener, tasks, tasks.counters())?, &started)
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let spawned = (0..others).try_for_each(|at| {
            let thread = thread::Builder::new().name(name.into());
            let own = listeners.get(at);
            threads.push(thread.spawn_scoped(scope, move || run_one(own))?);
            Ok(())
        });
        let own = spawned.inspect_err(|_| end_all()).and_then(|()| run_one(None));
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        threads.into_iter().map(join).fold(own, Result::and)
    })
}

/// Ends a task that panics, for a runtime that does not catch panics: there one would end the thread with all its connections.
pub async fn contain_panic(task: impl Future<Output = ()>) {
    let mut task = pin!(task);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(()))
    })
    .await;
}

/// A stream of a runtime whose streams have no `AsFd`.
pub struct Socket<T>(pub T);

impl<T: AsRawFd> AsFd for Socket<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream keeps its descriptor open.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

/// A duplicate of the descriptor of `listener`, which the runtime may close. Both descriptors share the mode `nonblocking`.
pub fn duplicate(listener: &OwnedFd, nonblocking: bool) -> io::Result<OwnedFd> {
    let listener = listener.try_clone()?;
    rustix::io::ioctl_fionbio(&listener, nonblocking)?;
    if !nonblocking {
        // The accept that refuses a connection must not block if another loop has taken this connection.
        socket::set_accept_timeout(&listener, REST)?;
    }
    Ok(listener)
}

/// Evaluates `$body` with a function that accepts the next connection from the runtime's TCP or Unix listener.
macro_rules! with_listener {
    ($listener:expr, $nonblocking:expr, $tcp:path, $unix:path, |$next:ident| $body:expr) => {{
        let listener = $crate::runtimes::duplicate($listener, $nonblocking)?;
        if $crate::socket::is_tcp(&listener) {
            let listener = $tcp(std::net::TcpListener::from(listener))?;
            let $next = async || listener.accept().await.map(|(stream, _)| stream);
            $body
        } else {
            let listener = $unix(std::os::unix::net::UnixListener::from(listener))?;
            let $next = async || listener.accept().await.map(|(stream, _)| stream);
            $body
        }
    }};
}

pub(super) use with_listener;
