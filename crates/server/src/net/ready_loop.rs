//! The loop of a network thread that serves many connections: the kernel reports ready connections, and the loop does the I/O.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Connect, ReadBuffer};
use super::datagrams;
use super::payload::{Action, HandOff, Inline, Message, Payload};
use super::staged::{self, NetworkContext, NetworkLoop};
use super::stall::Stalls;
use super::table::ConnectionTable;
use super::timers::{Timers, earlier};
use super::{ACCEPTS, ServerContext};
use crate::metrics::workers::Syscall;
use crate::platform;
use crate::readiness::{Interest, Readiness, Ready, Trigger};
use crate::service::{buffered_service, service};
use crate::socket::{Accepted, Acceptor, PAUSE, is_readable};
use crate::token::Token;

/// Runs an event-driven server over `M` until it stops. An error of a connection ends only that connection.
pub fn run<M: Readiness>(context: &ServerContext<'_>) -> io::Result<()> {
    if context.service.ports().is_some() {
        return datagrams::run::<M>(context);
    }
    run_service::<M>(context, &*service(context)?)
}

pub(crate) fn run_service<M: Readiness>(context: &ServerContext<'_>, service: &dyn Connect) -> io::Result<()> {
    staged::run(&ReadyLoops::<M>(PhantomData), context, service)
}

/// Like [`run`], with a layer between sockets and service.
pub fn run_buffered<M: Readiness>(context: &ServerContext<'_>) -> io::Result<()> {
    run_service::<M>(context, &*buffered_service(context)?)
}

struct ReadyLoops<M>(PhantomData<fn() -> M>);

impl<M: Readiness> NetworkLoop for ReadyLoops<M> {
    fn is_nonblocking(&self) -> bool {
        true
    }

    fn inline(&self, network: NetworkContext<'_>) -> io::Result<()> {
        ReadyLoop::<M, _>::new(network, Inline)?.run()
    }

    fn hand_off<'a>(&self, network: NetworkContext<'a>, payload: HandOff<'_, 'a>) -> io::Result<()> {
        ReadyLoop::<M, _>::new(network, payload)?.run()
    }
}

struct ReadyLoop<'a, M, P: Payload<'a>> {
    mechanism: M,
    payload: P,
    connections: ConnectionTable<Entry<P::Tenant>>,
    acceptor: Option<Acceptor<'a>>,
    buffer: ReadBuffer,
    /// For edge-triggered mechanisms: connections that may read or write more without an event. Each is listed once and served once
    /// a turn.
    unfinished: VecDeque<Token>,
    /// For edge-triggered mechanisms: the longest wait before the next accept; `None` to accept only after an event.
    accept_after: Option<Duration>,
    timers: Timers,
    /// Connections from the accept thread that are not yet admitted, oldest first.
    arrivals: VecDeque<OwnedFd>,
    messages: Vec<Message>,
    network: NetworkContext<'a>,
}

struct Entry<T> {
    tenant: T,
    /// The event that the loop handles. `None` while another stage has the connection.
    watched: Option<Interest>,
    is_listed: bool,
    /// Whether the connection has a timer, or a blocking call in another thread.
    is_waiting: bool,
}

impl<'a, M: Readiness, P: Payload<'a>> ReadyLoop<'a, M, P> {
    fn new(network: NetworkContext<'a>, payload: P) -> io::Result<Self> {
        let connections_max = network.context.connections_max;
        Ok(Self {
            mechanism: M::polling(network.descriptors_max, network.context.options.busy_poll)?,
            payload,
            connections: ConnectionTable::with_capacity(connections_max),
            acceptor: network.acceptor(true)?,
            buffer: ReadBuffer::new(network.context.options.read_budget_bytes),
            unfinished: VecDeque::with_capacity(if M::TRIGGER == Trigger::Edge { connections_max } else { 0 }),
            accept_after: None,
            timers: Timers::default(),
            arrivals: VecDeque::new(),
            messages: Vec::new(),
            network,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let NetworkContext { listener, shares_listener, stop, mailbox, counters, descriptors_max, started, .. } =
            self.network;
        match listener {
            Some(listener) if shares_listener => {
                self.count_control(M::ADD_SYSCALLS);
                self.mechanism.add_exclusively(listener.as_raw_fd(), Token::LISTENER)?;
            }
            Some(listener) => self.watch(listener.as_fd(), Token::LISTENER)?,
            None => {}
        }
        if let Some(stop) = stop {
            self.watch(stop, Token::STOP)?;
        }
        if let Some(mailbox) = mailbox {
            self.watch(mailbox.descriptor(), Token::MAILBOX)?;
        }
        let mut ready = Vec::with_capacity(descriptors_max);
        counters.begin_network_thread(platform::thread_id());
        let mut state = self.network.worker_state();
        let mut stalls = Stalls::default();
        started.thread_ready();
        loop {
            // Do not block while there are connections to admit or to serve.
            let timeout = match M::TRIGGER {
                _ if !self.arrivals.is_empty() || !self.unfinished.is_empty() => Some(Duration::ZERO),
                Trigger::Edge => self.accept_after,
                Trigger::Level => None,
            };
            let timeout = earlier(timeout, self.timers.timeout());
            let timeout = match &mut state {
                Some(state) => {
                    state.end_turn(counters);
                    earlier(timeout, state.wait_max())
                }
                None => timeout,
            };
            // `spin` makes no wait call; this counts its check of the stop descriptor.
            counters.syscall(Syscall::Wait);
            self.mechanism.wait(&mut ready, timeout)?;
            self.mechanism.count_irregular(counters);
            counters.events.add(ready.len() as u64);
            if let Some(state) = &state {
                state.begin_turn(ready.len());
            }
            stalls.begin_turn(counters, || ready.iter().filter(|event| event.token.is_connection()).count() as u64);
            for &event in &ready {
                match (event.token, M::TRIGGER) {
                    (Token::LISTENER, Trigger::Level) => self.accept(ready.len() == 1)?,
                    (Token::LISTENER, Trigger::Edge) => self.accept_after = Some(Duration::ZERO),
                    // Readiness may be spurious: confirm before stopping.
                    (Token::STOP, _) => match stop {
                        Some(stop) if is_readable(stop, Some(Duration::ZERO))? => return Ok(()),
                        _ => {}
                    },
                    (Token::MAILBOX, _) => {
                        if self.handle_messages(&mut stalls)? {
                            return Ok(());
                        }
                    }
                    (token, Trigger::Level) => self.serve(token, event.interest)?,
                    (_, Trigger::Edge) => self.serve_edge(event)?,
                }
            }
            if !self.timers.is_empty() {
                self.resume_due()?;
            }
            self.admit_arrivals();
            if M::TRIGGER == Trigger::Edge {
                if self.accept_after.is_some() {
                    self.accept(false)?;
                }
                self.serve_unfinished()?;
            }
            self.payload.end_turn(counters);
            stalls.end_turn(counters, self.network.context);
        }
    }

    fn watch(&mut self, io: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.count_control(M::ADD_SYSCALLS);
        self.mechanism.add(io.as_raw_fd(), token, Interest::Read)
    }

    /// Accepts [`ACCEPTS`] times, or until no connection waits or resources run out. `alone`: no other descriptor is ready.
    fn accept(&mut self, alone: bool) -> io::Result<()> {
        self.accept_after = None;
        for _ in 0..ACCEPTS {
            let Some(acceptor) = &mut self.acceptor else { return Ok(()) };
            match acceptor.accept()? {
                // With several listeners, the limit of connections is for all threads together.
                Accepted::Connection(io) if self.network.is_full() => self.network.refuse(io),
                Accepted::Connection(io) => {
                    if self.admit(io) {
                        self.network.counters.accepted.add(1);
                        self.network.counters.assigned.add(1);
                    }
                }
                Accepted::None => {}
                // A level-triggered mechanism reports the listener again at once, so pause if nothing else is ready.
                Accepted::Later if M::TRIGGER == Trigger::Level => {
                    if alone {
                        thread::sleep(PAUSE);
                    }
                    return Ok(());
                }
                Accepted::Later => {
                    self.accept_after = Some(PAUSE);
                    return Ok(());
                }
                Accepted::WouldBlock | Accepted::Shutdown => return Ok(()),
            }
        }
        // More connections may wait. A level-triggered mechanism reports them again.
        if M::TRIGGER == Trigger::Edge {
            self.accept_after = Some(Duration::ZERO);
        }
        Ok(())
    }

    /// Admits connections from the accept thread, which has counted them.
    fn admit_arrivals(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(io) = self.arrivals.pop_front() else { return };
            self.network.counters.assigned.add(1);
            if !self.admit(io) {
                self.network.counters.ended.add(1);
            }
        }
    }

    /// Gives a connection a slot and watches it. If the table or the kernel has no room, only this connection is refused.
    fn admit(&mut self, io: OwnedFd) -> bool {
        let Some(token) = self.connections.reserve() else {
            self.network.refuse(io);
            return false;
        };
        let tenant = self.payload.admit(io, token, self.network.service.connect());
        if self.watch(P::io(&tenant), token).is_err() {
            self.network.refuse(P::io(&tenant));
            return false;
        }
        self.connections
            .fill(token, Entry { tenant, watched: Some(Interest::Read), is_listed: false, is_waiting: false });
        true
    }

    /// Returns whether to stop.
    fn handle_messages(&mut self, stalls: &mut Stalls) -> io::Result<bool> {
        let Some(mailbox) = self.network.mailbox else { return Ok(false) };
        if M::REPORTS_ALL && mailbox.is_empty() {
            return Ok(false);
        }
        let mut messages = mem::take(&mut self.messages);
        mailbox.take(&mut messages, self.network.counters);
        for message in messages.drain(..) {
            match message {
                Message::Connection(io) => self.arrivals.push_back(io),
                Message::Blocked(token) => self.settle(token, Action::Watch(Some(Interest::Write)))?,
                Message::Resume(token) => self.settle(token, Action::Watch(Some(Interest::Read)))?,
                Message::Ready(token) => self.resume(token)?,
                Message::End(token) => self.end(token)?,
                Message::CheckLimits => self.end_overdue()?,
                Message::Stall => stalls.request(),
                Message::Stop => return Ok(true),
            }
        }
        self.messages = messages;
        Ok(false)
    }

    fn end_overdue(&mut self) -> io::Result<()> {
        let counters = self.network.counters;
        // Count the tick thread's wake-up here: that thread has no counters.
        counters.syscall(Syscall::Wake);
        for slot in 0..self.connections.slots() {
            let Some((token, entry)) = self.connections.tenant_of(slot) else { continue };
            if self.payload.is_overdue(&mut entry.tenant, counters) {
                self.end(token)?;
            }
        }
        Ok(())
    }

    /// Resumes the connections whose waits have ended.
    fn resume_due(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some(token) = self.timers.pop_due(now) {
            self.resume(token)?;
        }
        Ok(())
    }

    fn resume(&mut self, token: Token) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        entry.is_waiting = false;
        let (watched, action) = (entry.watched, self.payload.on_due(&mut entry.tenant, self.network.counters));
        match action {
            // The connection was read while it waited, so no event was missed.
            Action::Watch(Some(Interest::Read)) if watched == Some(Interest::Read) => Ok(()),
            action => self.settle(token, action),
        }
    }

    fn serve(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        // The connection may have ended earlier in this batch, or another stage may have it.
        let Some(entry) = self.connections.get(token).filter(|entry| entry.watched == Some(interest)) else {
            return Ok(());
        };
        let counters = self.network.counters;
        let tenant = &mut entry.tenant;
        let action = match interest {
            Interest::Read => self.payload.on_readable(tenant, &mut self.buffer, counters),
            Interest::Write => self.payload.on_writable(tenant, counters),
        };
        match action {
            Action::Watch(Some(next)) if next == interest => Ok(()),
            // A level-triggered mechanism reports the rest of the room again.
            Action::WriteOn if interest == Interest::Write && M::TRIGGER == Trigger::Level => Ok(()),
            action => self.settle(token, action),
        }
    }

    fn serve_edge(&mut self, event: Ready) -> io::Result<()> {
        let token = event.token;
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        match (entry.watched, event.interest) {
            // A listed connection is served in its turn.
            _ if entry.is_listed => Ok(()),
            (Some(Interest::Read), Interest::Read) => self.read(token, event.drain),
            // Try to write after any event. If only requests arrived, the socket is still full.
            (Some(Interest::Write), _) => self.serve(token, Interest::Write),
            (Some(Interest::Read) | None, _) => Ok(()),
        }
    }

    fn serve_unfinished(&mut self) -> io::Result<()> {
        for _ in 0..self.unfinished.len() {
            let Some(token) = self.unfinished.pop_front() else { break };
            if let Some(entry) = self.connections.get(token) {
                entry.is_listed = false;
                match entry.watched {
                    Some(Interest::Read) => self.read(token, true)?,
                    Some(Interest::Write) => self.serve(token, Interest::Write)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Reads once, and lists the connection if it must be read again without an event. After a short read, later bytes and the
    /// end of the stream cause a new event. If `drain` is set, reads continue until one finds nothing.
    #[inline]
    fn read(&mut self, token: Token, drain: bool) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        let counters = self.network.counters;
        let action = self.payload.on_readable(&mut entry.tenant, &mut self.buffer, counters);
        if matches!(action, Action::Watch(Some(Interest::Read)) | Action::Wait) {
            let may_have_more = if drain { !self.buffer.is_empty() } else { self.buffer.is_full() };
            if may_have_more {
                self.serve_later(token);
            }
        }
        match action {
            Action::Watch(Some(Interest::Read)) => Ok(()),
            action => self.settle(token, action),
        }
    }

    fn serve_later(&mut self, token: Token) {
        if let Some(entry) = self.connections.get(token).filter(|entry| !entry.is_listed) {
            entry.is_listed = true;
            self.unfinished.push_back(token);
        }
    }

    /// Changes the interest of a connection, or ends it. If the kernel cannot change the interest, only this connection ends.
    fn settle(&mut self, token: Token, action: Action) -> io::Result<()> {
        let interest = match action {
            Action::Watch(interest) => interest,
            Action::WriteOn => Some(Interest::Write),
            Action::Wait => Some(Interest::Read),
            Action::Hold => None,
            Action::End => return self.end(token),
        };
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        if matches!(action, Action::Wait | Action::Hold)
            && !entry.is_waiting
            && let Some(wait) = P::wait(&entry.tenant)
        {
            entry.is_waiting = true;
            self.network.begin_wait(wait, token, &mut self.timers);
        }
        let descriptor = P::io(&entry.tenant).as_raw_fd();
        let before = mem::replace(&mut entry.watched, interest);
        let settled = match (before, interest) {
            _ if before == interest => Ok(()),
            (None, Some(interest)) if M::TRIGGER == Trigger::Level => {
                self.count_control(M::ADD_SYSCALLS);
                self.mechanism.add(descriptor, token, interest)
            }
            (_, Some(interest)) => {
                self.count_control(M::MODIFY_SYSCALLS);
                self.mechanism.modify(descriptor, token, interest)
            }
            (Some(_), None) if M::TRIGGER == Trigger::Level => {
                self.count_control(M::UNWATCH_SYSCALLS);
                self.mechanism.unwatch(descriptor)
            }
            // An edge-triggered mechanism watches a connection until it ends.
            (_, None) => Ok(()),
        };
        match (settled, action, M::TRIGGER) {
            (Err(_), ..) => self.end(token),
            // Bytes may have been reported while the connection was not read, and room in the socket is not reported again.
            (_, Action::Watch(Some(Interest::Read)) | Action::WriteOn, Trigger::Edge) => {
                self.serve_later(token);
                Ok(())
            }
            (_, Action::Wait, Trigger::Edge) if before != Some(Interest::Read) => {
                self.serve_later(token);
                Ok(())
            }
            // Another stage found the socket full. Room may have been reported before its message arrived, so try now.
            (_, Action::Watch(Some(Interest::Write)), Trigger::Edge) if P::IS_SHARED => {
                self.serve(token, Interest::Write)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, token: Token) -> io::Result<()> {
        let Some(entry) = self.connections.remove(token) else { return Ok(()) };
        if M::TRIGGER == Trigger::Edge || entry.watched.is_some() {
            let descriptor = P::io(&entry.tenant).as_raw_fd();
            if P::IS_SHARED {
                self.count_control(M::UNWATCH_SYSCALLS);
                self.mechanism.unwatch(descriptor)?;
            } else {
                self.count_control(M::REMOVE_SYSCALLS);
                self.mechanism.remove(descriptor)?;
            }
        }
        self.network.counters.syscall(Syscall::Close);
        self.payload.close(entry.tenant, self.network.counters);
        self.network.counters.ended.add(1);
        Ok(())
    }

    fn count_control(&self, syscalls: u64) {
        if syscalls > 0 {
            self.network.counters.syscalls_of(Syscall::Control, syscalls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_a_connection_takes_at_most_40_bytes() {
        type Tenant = <Inline as Payload<'static>>::Tenant;
        const { assert!(ConnectionTable::<Entry<Tenant>>::SLOT_BYTES <= 40) };
    }
}
