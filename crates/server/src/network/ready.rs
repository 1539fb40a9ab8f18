//! The loop of architectures in which one thread serves many connections: the kernel says which are ready,
//! we do the I/O. Written once, compiled for each mechanism.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use wire::fixed::Fixed;
use wire::{Service, ServiceSpec};

use super::Stage;
use super::connection::{Connection, Inbox, Next};
use crate::mechanism::{Interest, Readiness, Ready, Token, Trigger};
use crate::socket::{Accepted, Acceptor};
use crate::workers::{Counters, Syscall};

/// Descriptors that are not connections: standard streams, listener, reserve, stop, the mechanism's own, and those that
/// the process may have inherited.
const DESCRIPTORS_BESIDE: usize = 1024;

/// `sped`: accept and network in this thread, until the server stops.
///
/// # Errors
/// Errors of the listener and of the mechanism; those of single connections end only these.
pub fn run<M: Readiness>(stage: &Stage<'_>) -> io::Result<()> {
    match *stage.service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            ReadyLoop::<M, _>::new(stage, Fixed::new(request_bytes, response_bytes))?.run(stage)
        }
    }
}

struct ReadyLoop<'a, M, S: Service> {
    mechanism: M,
    service: S,
    connections: Connections<Connection<S::Conn>>,
    acceptor: Acceptor<'a>,
    inbox: Inbox,
    /// Of edge-triggered mechanisms: connections that may have something to read of which no event will tell. Each is in
    /// it once at most (`Entry::unread`), and gets one read budget a turn, as those with events do.
    unread: VecDeque<Token>,
    counters: &'a Counters,
}

impl<'a, M: Readiness, S: Service> ReadyLoop<'a, M, S> {
    fn new(stage: &'a Stage<'_>, service: S) -> io::Result<Self> {
        let counters = stage.workers.accept();
        Ok(Self {
            // The kernel hands out the lowest free descriptor, so none is beyond this.
            mechanism: M::new(stage.connections_max + DESCRIPTORS_BESIDE)?,
            service,
            connections: Connections::with_capacity(stage.connections_max),
            acceptor: Acceptor::new(stage.listener, true, counters)?,
            inbox: Inbox::new(),
            unread: VecDeque::with_capacity(if M::TRIGGER == Trigger::Edge { stage.connections_max } else { 0 }),
            counters,
        })
    }

    fn run(mut self, stage: &Stage<'_>) -> io::Result<()> {
        self.watch(stage.listener.as_raw_fd(), Token::LISTENER)?;
        self.watch(stage.stop.as_raw_fd(), Token::STOP)?;
        let mut ready = Vec::with_capacity(stage.connections_max + DESCRIPTORS_BESIDE);
        loop {
            // While something is left to read, the wait is only a look.
            let timeout = (M::TRIGGER == Trigger::Edge && !self.unread.is_empty()).then_some(Duration::ZERO);
            // Of a guess, which makes none, it is the look whether to stop.
            self.counters.syscall(Syscall::Wait);
            self.mechanism.wait(&mut ready, timeout)?;
            self.mechanism.count_more(self.counters);
            self.counters.events.add(ready.len() as u64);
            for &event in &ready {
                match (event.token, M::TRIGGER) {
                    (Token::LISTENER, _) => self.accept()?,
                    // A guess is no order, nor is an edge that tells of something else.
                    (Token::STOP, _) if is_readable(stage.stop)? => return Ok(()),
                    (Token::STOP, _) => {}
                    (token, Trigger::Level) => self.serve(token, event.interest)?,
                    (_, Trigger::Edge) => self.serve_edge(event)?,
                }
            }
            if M::TRIGGER == Trigger::Edge {
                self.read_on()?;
            }
        }
    }

    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()> {
        self.count_control(M::ADD_SYSCALLS);
        self.mechanism.add(descriptor, token, Interest::Read)
    }

    /// Accepts until nothing waits.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.acceptor.accept()? {
                Accepted::Connection(io) => {
                    let descriptor = io.as_raw_fd();
                    match self.connections.insert(io) {
                        Ok(token) if self.watch(descriptor, token).is_ok() => self.counters.accepted.add(1),
                        Ok(token) => {
                            // No room in the mechanism, or the kernel's: this one is turned away, the others go on.
                            if let Some(io) = self.connections.remove(token) {
                                self.acceptor.refuse(io);
                            }
                        }
                        Err(io) => self.acceptor.refuse(io),
                    }
                }
                Accepted::None => {}
                Accepted::WouldBlock | Accepted::Shutdown => return Ok(()),
            }
        }
    }

    #[inline]
    fn serve(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        // An event of a connection that ended earlier in this batch: its slot may have a new tenant.
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        let io = entry.io.as_fd();
        let next = match interest {
            Interest::Read => entry.connection.on_readable(io, &self.service, &mut self.inbox, self.counters),
            Interest::Write => entry.connection.on_writable(io, &self.service, self.counters),
        };
        match (interest, next) {
            (Interest::Read, Next::Read) | (Interest::Write, Next::Write) => Ok(()),
            (Interest::Read, Next::Write) => self.turn(token, Interest::Write),
            (Interest::Write, Next::Read) => self.turn(token, Interest::Read),
            (_, Next::End) => self.end(token),
        }
    }

    /// An event says that something changed; what to do follows from what the connection waits for.
    #[inline]
    fn serve_edge(&mut self, event: Ready) -> io::Result<()> {
        let token = event.token;
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        match (entry.connection.next(&self.service), event.interest) {
            // What is on the list is read from there; and room to write is no news to who waits for requests.
            (Next::Read, Interest::Read) if !entry.unread => self.read(token, event.drain),
            (Next::Read, _) => Ok(()),
            // It may be only that more requests came: the write then finds the socket full still.
            (Next::Write, _) => match entry.connection.on_writable(entry.io.as_fd(), &self.service, self.counters) {
                Next::Write => Ok(()),
                Next::Read => {
                    // What came in the meantime was reported when nobody would read.
                    self.turn(token, Interest::Read)?;
                    self.read_later(token);
                    Ok(())
                }
                Next::End => self.end(token),
            },
            (Next::End, _) => self.end(token),
        }
    }

    /// One read budget of what is left to each connection on the list.
    fn read_on(&mut self) -> io::Result<()> {
        for _ in 0..self.unread.len() {
            let Some(token) = self.unread.pop_front() else { break };
            if let Some(entry) = self.connections.get(token) {
                entry.unread = false;
                self.read(token, true)?;
            }
        }
        Ok(())
    }

    /// One read, and whether to read on later without an event.
    ///
    /// A read that falls short of its room has emptied the socket, and what comes after it gives an event of its own. So
    /// does an end of the stream that comes after the event in hand was taken from the kernel; one from before is in that
    /// event, which then says `drain`. A drained connection leaves the list by a read that finds nothing, or the end; or
    /// by a response that falls short, after which it is on the list again.
    #[inline]
    fn read(&mut self, token: Token, drain: bool) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        match entry.connection.on_readable(entry.io.as_fd(), &self.service, &mut self.inbox, self.counters) {
            Next::Read => {
                let may_have_more = if drain { !self.inbox.is_empty() } else { self.inbox.is_full() };
                if may_have_more {
                    self.read_later(token);
                }
                Ok(())
            }
            Next::Write => self.turn(token, Interest::Write),
            Next::End => self.end(token),
        }
    }

    fn read_later(&mut self, token: Token) {
        if let Some(entry) = self.connections.get(token) {
            entry.unread = true;
            self.unread.push_back(token);
        }
    }

    fn turn(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.count_control(M::MODIFY_SYSCALLS);
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        self.mechanism.modify(entry.io.as_raw_fd(), token, interest)
    }

    fn end(&mut self, token: Token) -> io::Result<()> {
        let Some(io) = self.connections.remove(token) else { return Ok(()) };
        self.count_control(M::REMOVE_SYSCALLS);
        self.mechanism.remove(io.as_raw_fd())?;
        self.counters.syscall(Syscall::Close);
        self.counters.ended.add(1);
        Ok(())
    }

    fn count_control(&self, syscalls: u64) {
        if syscalls > 0 {
            self.counters.syscalls_of(Syscall::Control, syscalls);
        }
    }
}

/// A look, without waiting.
fn is_readable(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    match rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One thread's connections, by token. Memory is set aside once; a slot's generation grows with each tenant, so that a
/// token of an earlier tenant finds nothing.
pub(super) struct Connections<C> {
    slots: Vec<Slot<C>>,
    /// Slots that had a tenant and have none now.
    free: Vec<u32>,
}

pub(super) struct Slot<C> {
    generation: u32,
    entry: Option<Entry<C>>,
}

pub(super) struct Entry<C> {
    pub(super) io: OwnedFd,
    pub(super) connection: C,
    /// Whether it is in the list of [`ReadyLoop::unread`].
    unread: bool,
}

impl<C: Default> Connections<C> {
    pub(super) fn with_capacity(count: usize) -> Self {
        // Never filled in beforehand: pages that no connection reaches cost nothing.
        Self { slots: Vec::with_capacity(count), free: Vec::with_capacity(count) }
    }

    /// Gives `io` a slot; or gives it back when all are taken.
    pub(super) fn insert(&mut self, io: OwnedFd) -> Result<Token, OwnedFd> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.slots.len() < self.slots.capacity() => {
                self.slots.push(Slot { generation: 0, entry: None });
                (self.slots.len() - 1) as u32
            }
            None => return Err(io),
        };
        let slot = &mut self.slots[at as usize];
        slot.entry = Some(Entry { io, connection: C::default(), unread: false });
        Ok(Token::new(at, slot.generation))
    }

    #[inline]
    pub(super) fn get(&mut self, token: Token) -> Option<&mut Entry<C>> {
        let slot = self.slots.get_mut(token.slot() as usize)?;
        if slot.generation == token.generation() { slot.entry.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<OwnedFd> {
        self.get(token)?;
        let slot = &mut self.slots[token.slot() as usize];
        slot.generation = Token::next_generation(slot.generation);
        self.free.push(token.slot());
        slot.entry.take().map(|entry| entry.io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn a_late_event_never_reaches_a_reused_slot() {
        let mut connections = Connections::<()>::with_capacity(1);
        let first = connections.insert(descriptor()).unwrap();
        assert!(connections.insert(descriptor()).is_err(), "room for one");
        connections.remove(first).unwrap();
        let second = connections.insert(descriptor()).unwrap();
        assert_eq!(first.slot(), second.slot());
        assert!(connections.get(first).is_none());
        assert!(connections.remove(first).is_none());
        assert!(connections.get(second).is_some());
    }

    #[test]
    fn a_connection_costs_at_most_48_bytes_here() {
        assert!(size_of::<Slot<Connection<<Fixed as Service>::Conn>>>() <= 48);
    }
}
