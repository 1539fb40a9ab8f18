//! The payload stage, which makes responses in the network thread or in other threads.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use wire::Wait;

use super::connection::{Connection, Next, ReadBuffer};
use super::controllers::{Admission, Pool, ThreadControl};
use super::queue::{Jobs, Mailbox, WaitResult, lock};
use crate::metrics::workers::Counters;
use crate::readiness::Interest;
use crate::service::work::sleep_until;
use crate::spec::read_budget::ReadBudget;
use crate::sync::{Mutex, MutexGuard};
use crate::token::Token;

#[cfg(all(test, loom))]
mod interleavings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Watches the connection for this event. `None` watches nothing until another stage sends a message.
    Watch(Option<Interest>),
    /// Writes on in the next turn.
    WriteOn,
    /// See [`Next::Wait`].
    Wait,
    /// See [`Next::Hold`].
    Hold,
    End,
}

impl From<Next> for Action {
    fn from(next: Next) -> Self {
        match next {
            Next::Read => Self::Watch(Some(Interest::Read)),
            Next::Write => Self::Watch(Some(Interest::Write)),
            Next::WriteOn => Self::WriteOn,
            Next::Wait => Self::Wait,
            Next::Hold => Self::Hold,
            Next::End => Self::End,
        }
    }
}

/// The payload stage of one network thread: [`Inline`] or [`HandOff`].
pub trait Payload<'a> {
    /// The network thread's record of a connection.
    type Tenant;

    /// Whether another thread may still use a connection that the network thread drops.
    const IS_SHARED: bool;

    /// Admits a connection, which messages to the network thread identify by `token`.
    fn admit(&mut self, io: OwnedFd, token: Token, connection: Box<dyn Connection + 'a>) -> Self::Tenant;

    fn io(tenant: &Self::Tenant) -> BorrowedFd<'_>;

    fn on_readable(&mut self, tenant: &mut Self::Tenant, buffer: &mut ReadBuffer, counters: &Counters) -> Action;

    fn on_writable(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> Action;

    /// The connection's wait, if the network thread must resume it.
    fn wait(_tenant: &Self::Tenant) -> Option<Wait> {
        None
    }

    /// Ends the connection's wait.
    fn on_due(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> Action {
        self.on_writable(tenant, counters)
    }

    fn is_overdue(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> bool;

    /// Ends a turn of the network thread, which has handled all reported events.
    #[inline]
    fn end_turn(&mut self, _counters: &Counters) {}

    /// Closes a connection, unless another thread still uses it.
    fn close(&mut self, tenant: Self::Tenant, _counters: &Counters) {
        drop(tenant);
    }
}

#[derive(Debug)]
pub struct Inline;

impl<'a> Payload<'a> for Inline {
    type Tenant = (OwnedFd, Box<dyn Connection + 'a>);

    const IS_SHARED: bool = false;

    fn admit(&mut self, io: OwnedFd, _token: Token, connection: Box<dyn Connection + 'a>) -> Self::Tenant {
        (io, connection)
    }

    fn io((io, _): &Self::Tenant) -> BorrowedFd<'_> {
        io.as_fd()
    }

    #[inline]
    fn on_readable(
        &mut self,
        (io, connection): &mut Self::Tenant,
        buffer: &mut ReadBuffer,
        counters: &Counters,
    ) -> Action {
        connection.on_readable(io.as_fd(), buffer, counters).into()
    }

    #[inline]
    fn on_writable(&mut self, (io, connection): &mut Self::Tenant, counters: &Counters) -> Action {
        connection.on_writable(io.as_fd(), counters).into()
    }

    fn wait((_, connection): &Self::Tenant) -> Option<Wait> {
        connection.wait()
    }

    fn on_due(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> Action {
        tenant.1.resume(counters);
        self.on_writable(tenant, counters)
    }

    fn is_overdue(&mut self, (io, connection): &mut Self::Tenant, counters: &Counters) -> bool {
        connection.is_overdue(io.as_fd(), counters)
    }
}

/// Messages from other threads to a network thread.
#[derive(Debug)]
pub(super) enum Message {
    /// A new connection, from the accept thread.
    Connection(OwnedFd),
    /// A response did not fit into the socket or into the write budget: the network thread sends the rest.
    Blocked(Token),
    /// The connection's buffer has room again: the network thread reads on.
    Resume(Token),
    /// The connection's blocking call has returned.
    Ready(Token),
    End(Token),
    CheckLimits,
    Stall,
    Stop,
}

/// The payload stage in payload threads. At most one of them serves a connection at a time, so its responses keep their order.
/// The payload thread writes a response; the network thread sends the part that fits neither the socket nor the write budget.
pub(super) struct HandOff<'q, 'a> {
    queues: &'q [Jobs<Job<'a>>],
    turn: usize,
    /// The network thread's mailbox, for messages from the payload threads.
    home: &'a Mailbox<Message>,
    budget: ReadBudget,
    /// The new jobs of this turn, by queue; `None` to queue each job at once.
    batches: Option<Vec<Vec<Job<'a>>>>,
    /// The accept thread's queue of connections to close; `None` to close them here.
    closings: Option<&'q Mailbox<Job<'a>>>,
    admission: Option<&'q Admission<'q>>,
}

impl<'q, 'a> HandOff<'q, 'a> {
    pub(super) fn new(queues: &'q [Jobs<Job<'a>>], home: &'a Mailbox<Message>, budget: ReadBudget) -> Self {
        Self { queues, turn: 0, home, budget, batches: None, closings: None, admission: None }
    }

    /// Rejects the jobs that admission control does not admit.
    pub(super) fn admitted_by(self, admission: Option<&'q Admission<'q>>) -> Self {
        Self { admission, ..self }
    }

    /// Queues the jobs of each turn together, and leaves connections to `closings` to close.
    pub(super) fn coalesced(self, closings: Option<&'q Mailbox<Job<'a>>>) -> Self {
        Self { batches: Some(self.queues.iter().map(|_| Vec::new()).collect()), closings, ..self }
    }

    /// Queues the connection as a job if it has unserved bytes and is not yet a job.
    fn advance(&mut self, tenant: &Job<'a>, mut unserved: MutexGuard<'_, Unserved>, counters: &Counters) -> Action {
        let action = unserved.action();
        let is_new = !unserved.is_job && !unserved.bytes.is_empty();
        if is_new && let Some(admission) = self.admission {
            unserved.queued_ns = admission.now_ns();
            if !admission.admit(unserved.queued_ns) {
                return reject(tenant, unserved, counters);
            }
        }
        unserved.is_job |= is_new;
        drop(unserved);
        if is_new {
            self.queue(tenant, counters);
        }
        action
    }

    fn queue(&mut self, tenant: &Job<'a>, counters: &Counters) {
        self.turn = if self.turn + 1 < self.queues.len() { self.turn + 1 } else { 0 };
        match &mut self.batches {
            None => self.queues[self.turn].send(tenant.clone(), counters),
            Some(batches) => batches[self.turn].push(tenant.clone()),
        }
    }
}

/// Rejects the requests of a connection that is no job, so that no other thread uses it.
fn reject(tenant: &Job<'_>, mut unserved: MutexGuard<'_, Unserved>, counters: &Counters) -> Action {
    let mut connection = lock(&tenant.connection);
    let next = connection.reject(&unserved.bytes, tenant.io.as_fd(), counters);
    unserved.clear();
    // Like a blocked job, the connection is read only after the rest of its response is sent.
    unserved.is_job = matches!(next, Next::Write | Next::WriteOn);
    if next == Next::Read { unserved.action() } else { next.into() }
}

/// A connection that both stages share; also a job in the queue of a payload thread.
pub(super) type Job<'a> = Arc<SharedConnection<'a>>;

pub(super) struct SharedConnection<'a> {
    io: OwnedFd,
    token: Token,
    home: &'a Mailbox<Message>,
    unserved: Mutex<Unserved>,
    /// Locked by the thread that has the job, or by the network thread while the job is blocked, so no thread waits long.
    connection: Mutex<Box<dyn Connection + 'a>>,
}

/// Bytes that the network thread has read and that no payload thread has taken yet.
#[derive(Debug, Default)]
struct Unserved {
    bytes: Vec<u8>,
    budget: ReadBudget,
    /// Whether the connection is queued, being served, or blocked. It is never queued twice.
    is_job: bool,
    finished: bool,
    /// The time of the queueing, with admission control.
    queued_ns: u64,
}

/// The capacity that an idle connection keeps. The rest, allocated for larger requests, is freed.
const KEPT_BYTES: usize = 4 << 10;

impl Unserved {
    /// Whether a payload thread must take the bytes before the network thread reads more.
    fn is_full(&self) -> bool {
        self.bytes.len() >= self.budget.bytes()
    }

    /// The network thread's next step, unless it must send the rest of a response.
    fn action(&self) -> Action {
        match (self.finished, self.is_full()) {
            // No request is left, and no response is pending.
            (true, _) if !self.is_job && self.bytes.is_empty() => Action::End,
            (true, _) | (_, true) => Action::Watch(None),
            (false, false) => Action::Watch(Some(Interest::Read)),
        }
    }

    fn take(&mut self, bytes: &mut Vec<u8>) -> bool {
        let was_full = self.is_full();
        bytes.clear();
        bytes.extend_from_slice(&self.bytes);
        self.clear();
        was_full
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

impl<'a> Payload<'a> for HandOff<'_, 'a> {
    type Tenant = Job<'a>;

    const IS_SHARED: bool = true;

    fn admit(&mut self, io: OwnedFd, token: Token, connection: Box<dyn Connection + 'a>) -> Self::Tenant {
        let unserved = Mutex::new(Unserved { budget: self.budget, ..Unserved::default() });
        let (home, connection) = (self.home, Mutex::new(connection));
        Arc::new(SharedConnection { io, token, home, unserved, connection })
    }

    fn io(tenant: &Self::Tenant) -> BorrowedFd<'_> {
        tenant.io.as_fd()
    }

    fn on_readable(&mut self, tenant: &mut Self::Tenant, buffer: &mut ReadBuffer, counters: &Counters) -> Action {
        let bytes = match buffer.read(tenant.io.as_fd(), counters) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Action::Watch(Some(Interest::Read)),
            Err(_) => return Action::End,
        };
        let mut unserved = lock(&tenant.unserved);
        unserved.finished |= bytes.is_empty();
        unserved.bytes.extend_from_slice(bytes);
        self.advance(tenant, unserved, counters)
    }

    fn on_writable(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> Action {
        let next = lock(&tenant.connection).on_writable(tenant.io.as_fd(), counters);
        if next.is_wait() {
            // The next request of the connection, which is still a job, waits in a payload thread.
            self.queue(tenant, counters);
            return lock(&tenant.unserved).action();
        }
        if next != Next::Read {
            return next.into();
        }
        let mut unserved = lock(&tenant.unserved);
        // The connection was blocked, and thus a job.
        unserved.is_job = false;
        self.advance(tenant, unserved, counters)
    }

    fn is_overdue(&mut self, tenant: &mut Self::Tenant, counters: &Counters) -> bool {
        // A locked connection is being served, so it does not wait for its client.
        let Ok(mut connection) = tenant.connection.try_lock() else { return false };
        let is_queued = lock(&tenant.unserved).is_job && connection.unsent().is_empty();
        !is_queued && connection.is_overdue(tenant.io.as_fd(), counters)
    }

    #[inline]
    fn end_turn(&mut self, counters: &Counters) {
        for (queue, batch) in self.queues.iter().zip(self.batches.iter_mut().flatten()) {
            queue.send_all(batch, counters);
        }
    }

    fn close(&mut self, tenant: Self::Tenant, counters: &Counters) {
        match self.closings {
            None => drop(tenant),
            Some(closings) => closings.send(tenant, counters),
        }
    }
}

/// The reason why a payload thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Stopped,
    /// The pool is larger than its jobs require.
    Idle,
}

pub(super) fn work(jobs: &Jobs<Job<'_>>, control: ThreadControl<'_>, counters: &Counters) -> Ended {
    let (mut taken, mut bytes) = (VecDeque::new(), Vec::new());
    loop {
        match jobs.take(&mut taken, control.jobs_max(), control.idle(), counters) {
            WaitResult::Jobs => {}
            WaitResult::Nothing if control.pool.is_some_and(Pool::shrink) => return Ended::Idle,
            WaitResult::Nothing => continue,
            WaitResult::Closed => return Ended::Stopped,
        }
        counters.events.add(taken.len() as u64);
        for job in taken.drain(..) {
            if jobs.is_closed() {
                return Ended::Stopped;
            }
            serve(jobs, job, control.admission, &mut bytes, counters);
        }
    }
}

fn serve<'a>(
    jobs: &Jobs<Job<'a>>,
    job: Job<'a>,
    admission: Option<&Admission<'_>>,
    bytes: &mut Vec<u8>,
    counters: &Counters,
) {
    let mut unserved = lock(&job.unserved);
    let queued_ns = unserved.queued_ns;
    let was_full = unserved.take(bytes);
    drop(unserved);
    if was_full {
        job.home.send(Message::Resume(job.token), counters);
    }
    let mut connection = lock(&job.connection);
    connection.receive(bytes, counters);
    let mut next = connection.on_writable(job.io.as_fd(), counters);
    // A payload thread is there to wait.
    while next.is_wait()
        && let Some(Wait { until: Some(until), .. }) = connection.wait()
    {
        if !sleep_until(until, || jobs.is_closed()) {
            return;
        }
        connection.resume(counters);
        next = connection.on_writable(job.io.as_fd(), counters);
    }
    // Unlock before the next user is notified.
    drop(connection);
    if let Some(admission) = admission {
        admission.complete(queued_ns);
    }
    let message = match next {
        Next::Write | Next::WriteOn => Message::Blocked(job.token),
        Next::End => Message::End(job.token),
        Next::Read | Next::Wait | Next::Hold => {
            let mut unserved = lock(&job.unserved);
            match (unserved.bytes.is_empty(), unserved.finished) {
                (true, true) => Message::End(job.token),
                (true, false) => {
                    unserved.is_job = false;
                    return;
                }
                // More bytes came meanwhile. Queue the job behind the other jobs: a turn serves about one read budget.
                (false, _) => {
                    unserved.queued_ns = admission.map_or(0, Admission::now_ns);
                    drop(unserved);
                    return jobs.send(job, counters);
                }
            }
        }
    };
    job.home.send(message, counters);
}
