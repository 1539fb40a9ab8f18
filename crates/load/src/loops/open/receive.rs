//! The receive role: reads responses and records their completion. It neither allocates nor locks, except to reconnect.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::driver::{REJECTS_NS, RETRY_NS};
use crate::error::LoadError;
use crate::io::poller::{Events, Flags, Poller};
use crate::io::stamps::Stamper;
use crate::io::verify::{fault, unrequested};
use crate::loops::open::reconnect::{Reconnected, Reconnects};
use crate::protocol::{ClientProtocol, Reply};
use crate::record::counts::Statuses;
use crate::record::request::{Head, REJECTED, Record, Shared};
use crate::result::{Class, Errors};
use crate::socket::Socket;
use crate::socket::tls::Awaits;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

const READ_BYTES: usize = 64 << 10;

pub struct Receiver<'a, P: ClientProtocol> {
    shared: Shared<'a, P>,
    connections: Vec<Connection<P>>,
    poller: Poller,
    inbox: Vec<u8>,
    alive: usize,
    responses: Responses,
    stamper: Option<Stamper<'a, P>>,
    /// `None` if the end of a connection is an error.
    reconnects: Option<Reconnects<'a>>,
    /// The time limit of requests in ticks, if the trial counts goodput. A wrong response within it is none, and completes nothing.
    pub timeout_ticks: Option<u64>,
}

/// Counts of complete responses.
#[derive(Debug, Default)]
pub struct Responses {
    /// Responses that are wrong.
    pub errors: Errors,
    pub statuses: Statuses,
    /// Connections that were established again.
    pub reconnects: u64,
    /// What is wrong with the first wrong response, if known.
    pub first_wrong: Option<String>,
}

impl Responses {
    #[cold]
    fn note_wrong(&mut self, why: impl FnOnce() -> Option<String>) {
        if self.first_wrong.is_none() {
            self.first_wrong = why();
        }
    }
}

struct Connection<P: ClientProtocol> {
    io: Arc<Socket>,
    /// The event that a reconnect waits for; `None` while the connection is established.
    reconnecting: Option<Awaits>,
    has_ended: bool,
    head: Head,
    /// The last reconnect: its time in ticks, 0 without one, and the requests answered before.
    reopened: (u64, Head),
    reader: P::Reader,
    /// The arrival of the first part of an incomplete response, in ticks; 0 without one.
    first: u64,
}

impl<P: ClientProtocol> Connection<P> {
    /// Stores the time since the first part of a response, if it took several reads.
    #[inline]
    fn note_transfer(&mut self, transfers: &[AtomicU32], record: usize, now: u64) {
        if self.first != 0 {
            let transfer = now.saturating_sub(std::mem::take(&mut self.first)) as f32;
            transfers.get(record).into_iter().for_each(|it| it.store(transfer.to_bits(), Relaxed));
        }
    }
}

pub const fn bytes_per_connection<P: ClientProtocol>() -> usize {
    size_of::<Connection<P>>()
}

/// Counts a wrong response, and returns the completion to record.
#[cold]
fn wrong(
    responses: &mut Responses,
    (class, why): (Class, impl FnOnce() -> Option<String>),
    record: &Record,
    now: u64,
    timeout_ticks: Option<u64>,
) -> u64 {
    responses.errors.count(class, 1);
    if class == Class::Wrong {
        responses.note_wrong(why);
    }
    let is_in_time = |timeout: u64| now.saturating_sub(record.sent.load(Relaxed)) <= timeout;
    if timeout_ticks.map_or(class == Class::Rejected, is_in_time) { REJECTED } else { now }
}

impl<'a, P: ClientProtocol> Receiver<'a, P> {
    pub fn new(
        shared: Shared<'a, P>,
        sockets: Vec<Arc<Socket>>,
        stamper: Option<Stamper<'a, P>>,
        reconnects: Option<Reconnects<'a>>,
    ) -> Result<Self, LoadError> {
        let poller = Poller::new().map_err(LoadError::waiting)?;
        for (at, io) in sockets.iter().enumerate() {
            poller.add(io.as_fd(), at).map_err(LoadError::waiting)?;
        }
        let connection = |io| {
            let (head, reader) = (Head::default(), P::Reader::default());
            Connection { io, reconnecting: None, has_ended: false, head, reopened: (0, head), reader, first: 0 }
        };
        Ok(Self {
            alive: sockets.len(),
            connections: sockets.into_iter().map(connection).collect(),
            poller,
            inbox: Vec::with_capacity(READ_BYTES),
            responses: Responses::default(),
            timeout_ticks: None,
            stamper,
            reconnects,
            shared,
        })
    }

    /// Returns the counts, and the sockets of all connections.
    pub fn finish(self) -> (Responses, Vec<Arc<Socket>>) {
        (self.responses, self.connections.into_iter().map(|it| it.io).collect())
    }

    pub fn alive(&self) -> usize {
        self.alive
    }

    /// Waits for ready connections. The caller then passes each of `events` to [`Receiver::handle`].
    #[inline]
    pub fn wait(&mut self, events: &mut Events, timeout_ms: u64) {
        if self.reconnects.as_ref().is_some_and(|it| !it.waiting.is_empty()) {
            self.dial();
        }
        // The wait cannot fail with a valid descriptor.
        let _ = self.poller.wait(events, Duration::from_millis(timeout_ms));
    }

    pub fn sleep_precise(&self, timeout_ns: i64) {
        self.poller.sleep_precise(timeout_ns);
    }

    #[inline]
    pub fn handle(&mut self, (index, flags): (usize, Flags)) {
        self.inbox.clear();
        let connection = &self.connections[index];
        if connection.reconnecting.is_some() {
            return self.establish(index);
        }
        let io = &*connection.io;
        let read = match &mut self.stamper {
            None => io.receive(&mut self.inbox),
            Some(stamper) => {
                if stamper.is_all(flags, index, io.as_fd()) {
                    return;
                }
                stamper.read(io.as_fd(), &mut self.inbox)
            }
        };
        match read {
            // t3: right after the read that may complete a response.
            Ok(count) if count > 0 => {
                let now = self.shared.clock.now();
                match io.decrypt(&mut self.inbox) {
                    Ok(goes_on) => {
                        if self.received(index, now) && !goes_on {
                            self.ended(index);
                        }
                    }
                    Err(error) => self.end(index, Class::of(&error)),
                }
            }
            Ok(_) => self.ended(index),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::CONNRESET) => {
                let owes = self.connections[index].head.peek(&self.shared.links[index], self.shared.records).is_some();
                self.closed(index, owes, Class::Reset);
            }
            Err(error) => self.end(index, error.into()),
        }
    }

    /// Reads the responses in the inbox. Returns whether the connection still works.
    #[inline]
    fn received(&mut self, index: usize, now: u64) -> bool {
        let Shared { protocol, records, links, transfers, progress, .. } = self.shared;
        let (link, connection) = (&links[index], &mut self.connections[index]);
        let mut rest = self.inbox.as_slice();
        let mut completed = 0;
        let mut last = None;
        let mut failure = None;
        let mut complete;
        while !rest.is_empty() {
            let Some(record) = connection.head.peek(link, records) else {
                // No request is outstanding.
                self.responses.note_wrong(|| unrequested(rest));
                failure = Some(Class::Wrong);
                break;
            };
            let bytes = rest;
            let (taken_bytes, reply) = protocol.read(self.shared.request(record), &mut connection.reader, bytes);
            rest = &bytes[taken_bytes..];
            let why = || fault(protocol, &connection.reader, bytes);
            (last, complete) = (None, now);
            match reply {
                None => {
                    connection.first = if connection.first == 0 { now } else { connection.first };
                    break;
                }
                Some(Reply::Good) => {}
                Some(Reply::Bad(class)) => {
                    complete = wrong(&mut self.responses, (class, why), &records[record], now, self.timeout_ticks)
                }
                Some(Reply::Last(bad)) => {
                    complete = bad.map_or(now, |class| {
                        wrong(&mut self.responses, (class, why), &records[record], now, self.timeout_ticks)
                    });
                    failure = Some(Class::Closed);
                }
                Some(Reply::Garbage) => {
                    self.responses.note_wrong(why);
                    failure = Some(Class::Wrong);
                    break;
                }
            }
            connection.head.pass(record);
            connection.note_transfer(transfers, record, now);
            self.responses.statuses.count(protocol.status(&connection.reader));
            records[record].complete.store(complete, Relaxed);
            completed += 1;
            last = Some(record);
            if failure.is_some() {
                break;
            }
        }
        let is_all = rest.is_empty();
        // The kernel's timestamp belongs to the last packet of a read. Use it only if the read ended with its only response.
        if let (Some(stamper), Some(record), 1, true) = (&self.stamper, last, completed, is_all) {
            stamper.arrived(record);
        }
        progress.add_completed(completed);
        match failure {
            Some(Class::Closed) if is_all => self.reconnect(index),
            Some(Class::Closed) => self.end(index, Class::Wrong),
            Some(class) => self.end(index, class),
            None => {}
        }
        failure.is_none()
    }

    #[cold]
    fn ended(&mut self, index: usize) {
        let Shared { clock, protocol, records, links, transfers, progress, .. } = self.shared;
        let connection = &mut self.connections[index];
        let owed = connection.head.peek(&links[index], records);
        let answered = owed.filter(|_| !connection.io.is_cut_off());
        let reply = answered.and_then(|record| protocol.end(self.shared.request(record), &mut connection.reader));
        let (Some(record), Some(Reply::Last(bad))) = (owed, reply) else {
            let is_short = owed.is_some() && !links[index].is_broken();
            return self.closed(index, owed.is_some(), if is_short { Class::Short } else { Class::Reset });
        };
        self.responses.statuses.count(protocol.status(&connection.reader));
        connection.head.pass(record);
        let now = clock.now();
        connection.note_transfer(transfers, record, now);
        let why = || fault(protocol, &connection.reader, &[]);
        let complete = bad
            .map_or(now, |class| wrong(&mut self.responses, (class, why), &records[record], now, self.timeout_ticks));
        records[record].complete.store(complete, Relaxed);
        progress.add_completed(1);
        self.reconnect(index);
    }

    /// Reconnects after an end or a reset without announcement, unless it cut off a response, or the server rejects connections. Unanswered
    /// requests are lost. Retries instead use another connection.
    #[cold]
    fn closed(&mut self, index: usize, owes: bool, class: Class) {
        let Shared { clock, records, links, progress, .. } = self.shared;
        let (link, connection) = (&links[index], &mut self.connections[index]);
        let (since, answered) = connection.reopened;
        let is_rejected = connection.head == answered && clock.between_ns(since, clock.now()) < REJECTS_NS;
        let stays = if owes { connection.first == 0 && self.timeout_ticks.is_none() } else { !is_rejected };
        if !stays || self.reconnects.is_none() {
            return self.end(index, class);
        }
        while let Some(record) = connection.head.take(link, records) {
            records[record].complete.store(REJECTED, Relaxed);
            self.responses.errors.count(class, 1);
            progress.add_lost(1);
        }
        self.reconnect(index);
    }

    /// Reconnects after the end of a connection.
    #[cold]
    fn reconnect(&mut self, index: usize) {
        let link = &self.shared.links[index];
        let begins = |it: &&mut Reconnects<'_>| link.begin_reconnect() || it.handover.retract(index);
        let Some(reconnects) = self.reconnects.as_mut().filter(begins) else { return self.end(index, Class::Closed) };
        let connection = &mut self.connections[index];
        self.poller.remove(connection.io.as_fd());
        connection.reconnecting = Some(Awaits::Nothing);
        (connection.reader, connection.first) = (P::Reader::default(), 0);
        reconnects.waiting.push(index);
        self.dial();
    }

    /// Starts the connections that wait for it.
    fn dial(&mut self) {
        let now = self.shared.clock.now();
        while let Some(reconnects) = self.reconnects.as_mut().filter(|it| now >= it.dial_at)
            && let Some(&index) = reconnects.waiting.last()
        {
            let dialed = reconnects.dial();
            if dialed.as_ref().is_err_and(|error| *error == Errno::AGAIN) {
                // No event tells when the backlog of a Unix socket has room.
                reconnects.dial_at = now + self.shared.clock.ticks(RETRY_NS);
                return;
            }
            reconnects.waiting.pop();
            match dialed {
                Ok(io) => {
                    self.connections[index].io = io;
                    self.watch(index, Awaits::Writable);
                }
                Err(error) => self.end(index, error.into()),
            }
        }
    }

    /// Continues to establish a connection. The send role then takes it over.
    #[cold]
    fn establish(&mut self, index: usize) {
        let Connection { io, head, .. } = &self.connections[index];
        let mut established = io.establish();
        if let (Ok(Awaits::Nothing), Some(stamper)) = (&established, &mut self.stamper) {
            established = stamper.restart(index, io.as_fd(), *head).map(|()| Awaits::Nothing);
        }
        let is_established = matches!(established, Ok(Awaits::Nothing));
        let awaits = match established {
            Ok(Awaits::Nothing) => Awaits::Readable,
            Ok(awaits) => awaits,
            Err(error) => return self.end(index, Class::of(&error)),
        };
        if !self.watch(index, awaits) || !is_established {
            return;
        }
        self.responses.reconnects += 1;
        let Connection { io, reconnecting, head, reopened, .. } = &mut self.connections[index];
        (*reconnecting, *reopened) = (None, (self.shared.clock.now(), *head));
        let reconnected = Reconnected { connection: index, socket: io.clone(), answered: *head };
        if let Some(reconnects) = &self.reconnects {
            reconnects.handover.add(reconnected);
        }
    }

    /// Changes the event that a reconnect waits for. Returns whether the connection still exists.
    fn watch(&mut self, index: usize, awaits: Awaits) -> bool {
        let Connection { io, reconnecting, .. } = &mut self.connections[index];
        let watched = reconnecting.replace(awaits).unwrap_or(Awaits::Readable);
        let changed = self.poller.watch(io.as_fd(), index, watched, awaits);
        changed.map_err(|error| self.end(index, error.into())).is_ok()
    }

    #[cold]
    fn end(&mut self, index: usize, class: Class) {
        self.shared.links[index].fail(class);
        self.alive -= 1;
        self.lose(index);
        let connection = &mut self.connections[index];
        connection.has_ended = true;
        // Keep the socket open, so that its descriptor is not reused. Remove it from the poller, which would report it forever.
        self.poller.remove(connection.io.as_fd());
    }

    /// Counts the unanswered requests of a connection as lost.
    fn lose(&mut self, index: usize) {
        let Shared { records, links, progress, .. } = self.shared;
        let mut lost = 0;
        while self.connections[index].head.take(&links[index], records).is_some() {
            lost += 1;
        }
        progress.add_lost(lost);
    }

    /// Counts requests as lost that the send role added to connections while they ended. Call it once the send role is done.
    #[cold]
    pub fn lose_late(&mut self) {
        for index in 0..self.connections.len() {
            if self.connections[index].has_ended {
                self.lose(index);
            }
        }
    }
}
