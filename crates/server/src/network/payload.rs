//! The payload stage: who works out the responses to what a network thread has read. In that thread itself, or in another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use wire::Service;

use super::connection::{Connection, Inbox, Next, READ_BYTES};
use super::queue::{Jobs, Mailbox};
use crate::mechanism::{Interest, Token};
use crate::workers::Counters;

/// What a network thread does with a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Watches it for this. For nothing, until another stage says how to go on.
    Watch(Option<Interest>),
    /// Ends it.
    End,
}

impl From<Next> for Then {
    #[inline]
    fn from(next: Next) -> Self {
        match next {
            Next::Read => Self::Watch(Some(Interest::Read)),
            Next::Write => Self::Watch(Some(Interest::Write)),
            Next::End => Self::End,
        }
    }
}

/// Where responses are worked out. One value belongs to each network thread.
pub trait Payload<S: Service> {
    /// What a network thread keeps of a connection.
    type Tenant;

    /// Whether another thread may have a connection still when the network thread gives it up.
    const IS_SHARED: bool;

    /// Takes in a connection that the network thread will know by `token`.
    fn admit(&mut self, io: OwnedFd, token: Token) -> Self::Tenant;

    /// A connection's socket.
    fn io(tenant: &Self::Tenant) -> BorrowedFd<'_>;

    /// One read, and what follows from it.
    fn on_readable(&mut self, tenant: &mut Self::Tenant, service: &S, inbox: &mut Inbox, counters: &Counters) -> Then;

    /// Writes until everything is said or the socket is full.
    fn on_writable(&mut self, tenant: &mut Self::Tenant, service: &S, counters: &Counters) -> Then;
}

/// In the network thread.
#[derive(Debug)]
pub struct Inline;

impl<S: Service> Payload<S> for Inline {
    type Tenant = (OwnedFd, Connection<S::Conn>);

    const IS_SHARED: bool = false;

    #[inline]
    fn admit(&mut self, io: OwnedFd, _token: Token) -> Self::Tenant {
        (io, Connection::default())
    }

    #[inline]
    fn io((io, _): &Self::Tenant) -> BorrowedFd<'_> {
        io.as_fd()
    }

    #[inline]
    fn on_readable(
        &mut self,
        (io, connection): &mut Self::Tenant,
        service: &S,
        inbox: &mut Inbox,
        counters: &Counters,
    ) -> Then {
        connection.on_readable(io.as_fd(), service, inbox, counters).into()
    }

    #[inline]
    fn on_writable(&mut self, (io, connection): &mut Self::Tenant, service: &S, counters: &Counters) -> Then {
        connection.on_writable(io.as_fd(), service, counters).into()
    }
}

/// What other threads tell a network thread.
#[derive(Debug)]
pub(super) enum Message {
    /// A new connection, from the accept thread.
    Connection(OwnedFd),
    /// A response did not fit into the socket: the rest is the network stage's.
    Blocked(Token),
    /// There is room again for what it reads.
    Resume(Token),
    /// The connection is over.
    End(Token),
    /// The server stops.
    Stop,
}

/// In threads of the payload stage. Bytes are handed over as they come; a connection is one thread's at a time, so that
/// its responses keep their order. The thread writes the response itself; what does not fit comes back.
pub(super) struct HandOff<'q, 'a, C> {
    /// Those of the threads, which get jobs in turn.
    queues: &'q [Jobs<Job<'a, C>>],
    turn: usize,
    home: &'a Mailbox<Message>,
}

impl<'q, 'a, C> HandOff<'q, 'a, C> {
    /// To the threads that read `queues`; they answer to `home`.
    pub(super) fn new(queues: &'q [Jobs<Job<'a, C>>], home: &'a Mailbox<Message>) -> Self {
        Self { queues, turn: 0, home }
    }

    fn send(&mut self, tenant: &Job<'a, C>, counters: &Counters) {
        self.turn = if self.turn + 1 < self.queues.len() { self.turn + 1 } else { 0 };
        self.queues[self.turn].send(tenant.clone(), counters);
    }
}

/// A connection, as a job and as what both stages keep of it.
pub(super) type Job<'a, C> = Arc<Served<'a, C>>;

pub(super) struct Served<'a, C> {
    io: OwnedFd,
    token: Token,
    home: &'a Mailbox<Message>,
    unserved: Mutex<Unserved>,
    /// Of whoever has the job; of the network thread while it is blocked. So the lock is never waited for.
    connection: Mutex<Connection<C>>,
}

/// What the network thread has read and no payload thread has taken yet.
#[derive(Debug, Default)]
struct Unserved {
    bytes: Vec<u8>,
    /// Whether the connection is a job in a queue, in work, or blocked. It is in no queue twice.
    is_job: bool,
    /// Nothing more is read before what is here is taken.
    full: bool,
    /// The peer will send no more.
    finished: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, S: Service> Payload<S> for HandOff<'_, 'a, S::Conn> {
    type Tenant = Job<'a, S::Conn>;

    const IS_SHARED: bool = true;

    fn admit(&mut self, io: OwnedFd, token: Token) -> Self::Tenant {
        let (home, unserved, connection) = (self.home, Mutex::default(), Mutex::default());
        Arc::new(Served { io, token, home, unserved, connection })
    }

    fn io(tenant: &Self::Tenant) -> BorrowedFd<'_> {
        tenant.io.as_fd()
    }

    fn on_readable(&mut self, tenant: &mut Self::Tenant, _service: &S, inbox: &mut Inbox, counters: &Counters) -> Then {
        let bytes = match inbox.read(tenant.io.as_fd(), counters) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Then::Watch(Some(Interest::Read)),
            Err(_) => return Then::End,
        };
        let mut unserved = lock(&tenant.unserved);
        unserved.finished |= bytes.is_empty();
        unserved.bytes.extend_from_slice(bytes);
        unserved.full = unserved.bytes.len() >= READ_BYTES;
        let then = match (unserved.finished, unserved.is_job) {
            // Nothing is asked and nothing unsaid.
            (true, false) => return Then::End,
            (true, true) => Then::Watch(None),
            (false, _) if unserved.full => Then::Watch(None),
            (false, _) => Then::Watch(Some(Interest::Read)),
        };
        let is_new = !std::mem::replace(&mut unserved.is_job, true);
        drop(unserved);
        if is_new {
            self.send(tenant, counters);
        }
        then
    }

    fn on_writable(&mut self, tenant: &mut Self::Tenant, service: &S, counters: &Counters) -> Then {
        let next = lock(&tenant.connection).on_writable(tenant.io.as_fd(), service, counters);
        if next != Next::Read {
            return next.into();
        }
        let mut unserved = lock(&tenant.unserved);
        let then = match (unserved.finished, unserved.bytes.is_empty()) {
            (true, true) => return Then::End,
            (true, false) => Then::Watch(None),
            (false, _) if unserved.full => Then::Watch(None),
            (false, _) => Then::Watch(Some(Interest::Read)),
        };
        unserved.is_job = !unserved.bytes.is_empty();
        let goes_on = unserved.is_job;
        drop(unserved);
        if goes_on {
            self.send(tenant, counters);
        }
        then
    }
}

/// A thread of the payload stage, until its queue is closed.
pub(super) fn work<S: Service>(jobs: &Jobs<Job<'_, S::Conn>>, service: &S, counters: &Counters) {
    let (mut taken, mut bytes) = (Vec::new(), Vec::new());
    while jobs.take(&mut taken, counters) {
        counters.events.add(taken.len() as u64);
        for job in taken.drain(..) {
            serve(&job, service, &mut bytes, counters);
        }
    }
}

/// Answers what has come of one connection, until nothing is left or the socket is full.
fn serve<S: Service>(job: &Served<'_, S::Conn>, service: &S, bytes: &mut Vec<u8>, counters: &Counters) {
    let mut connection = lock(&job.connection);
    loop {
        bytes.clear();
        let mut unserved = lock(&job.unserved);
        if unserved.bytes.is_empty() {
            unserved.is_job = unserved.finished;
            if unserved.finished {
                job.home.send(Message::End(job.token), counters);
            }
            return;
        }
        bytes.extend_from_slice(&unserved.bytes);
        unserved.bytes.clear();
        let was_full = std::mem::take(&mut unserved.full);
        drop(unserved);
        if was_full {
            job.home.send(Message::Resume(job.token), counters);
        }
        connection.receive(bytes, service, counters);
        match connection.on_writable(job.io.as_fd(), service, counters) {
            Next::Read => {}
            Next::Write => return job.home.send(Message::Blocked(job.token), counters),
            Next::End => return job.home.send(Message::End(job.token), counters),
        }
    }
}
