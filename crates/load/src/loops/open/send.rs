//! The send role: writes each request at its planned time, on its connection. It neither allocates nor locks, except to take over
//! connections.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use crate::config::{LoadConfig, Transport};
use crate::driver::RETRY_NS;
use crate::loops::open::free::Free;
use crate::loops::open::reconnect::{Handover, Reconnected};
use crate::loops::open::retry::{Retries, is_answered};
use crate::protocol::ClientProtocol;
use crate::record::request::{Link, Shared, Tail};
use crate::socket::Socket;

pub struct Sender<'a, P: ClientProtocol> {
    shared: Shared<'a, P>,
    /// A buffer for requests that differ from each other.
    scratch: Vec<u8>,
    connections: Vec<Connection>,
    /// Connections with unsent bytes, oldest first. It has room for all connections.
    blocked: VecDeque<u32>,
    /// The byte limits of a request's first write and of later writes.
    bytes_max: (usize, usize),
    retry_at: u64,
    retry_ticks: u64,
    next: usize,
    /// The first planned request that is on no connection yet. It is `next` unless requests wait for a free connection.
    waiting: usize,
    planned: usize,
    /// The window, in ticks.
    pub window: Range<u64>,
    /// `None` if requests may overlap.
    pub free: Option<Free>,
    /// `None` if requests are sent only once.
    retries: Option<Retries>,
    /// `None` if the end of a connection is an error.
    handover: Option<&'a Handover>,
    /// The old sockets of connections that were taken over. Closing them takes time.
    ended: Vec<Arc<Socket>>,
}

/// The byte limit of a request's first write on a stream: about what a socket's buffer accepts at once.
const FIRST_WRITE_BYTES_MAX: usize = 1 << 20;
/// The byte limit of later writes on a stream, which must not delay a due request for long.
const LATER_WRITE_BYTES_MAX: usize = 64 << 10;

/// The most old sockets that wait to be closed.
const ENDED_MAX: usize = 64;

struct Connection {
    io: Arc<Socket>,
    tail: Tail,
    /// The oldest request that the socket has not accepted completely. Later requests in the chain wait behind it.
    blocked: Option<NonZeroU32>,
    /// The bytes of the request `blocked` that the socket has accepted.
    written: u32,
}

pub const BYTES_PER_CONNECTION: usize = size_of::<Connection>() + size_of::<u32>();

impl<'a, P: ClientProtocol> Sender<'a, P> {
    pub fn new(
        shared: Shared<'a, P>,
        config: &LoadConfig,
        sockets: &[Arc<Socket>],
        handover: Option<&'a Handover>,
    ) -> Self {
        let connection = |io: &Arc<Socket>| {
            let (io, tail) = (io.clone(), Tail::default());
            Connection { io, tail, blocked: None, written: 0 }
        };
        Self {
            scratch: Vec::with_capacity(shared.protocol.encoded_bytes_max()),
            connections: sockets.iter().map(connection).collect(),
            blocked: VecDeque::with_capacity(shared.links.len()),
            bytes_max: match config.transport() {
                Transport::Tcp | Transport::Unix => (FIRST_WRITE_BYTES_MAX, LATER_WRITE_BYTES_MAX),
                // A datagram takes one write.
                Transport::Udp => (usize::MAX, usize::MAX),
            },
            retry_at: 0,
            retry_ticks: shared.clock.ticks(RETRY_NS),
            next: 0,
            waiting: 0,
            planned: shared.planned(),
            window: 0..0,
            free: None,
            retries: Retries::of(config, &shared.clock, shared.records.len()),
            handover,
            ended: Vec::new(),
            shared,
        }
    }

    /// The planned time of the next request, in ticks; `None` after the last.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.shared.records[..self.planned].get(self.next).map(|record| record.planned)
    }

    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    /// Whether requests wait to be written, or for a free connection.
    pub fn has_unsent(&self) -> bool {
        !self.blocked.is_empty() || self.is_waiting()
    }

    /// Whether requests wait for a free connection.
    #[inline]
    fn is_waiting(&self) -> bool {
        self.free.is_some() && self.waiting < self.next
    }

    /// The connections to take over; `None` if the end of a connection is an error.
    pub fn handover(&self) -> Option<&'a Handover> {
        self.handover
    }

    /// The time of the next attempt to write to a full socket, or of the next retry, in ticks; `None` if nothing waits.
    #[inline]
    pub fn wake_at(&self) -> Option<u64> {
        let write_at = (!self.blocked.is_empty()).then_some(self.retry_at);
        write_at.into_iter().chain(self.retries.as_ref().and_then(|it| it.next_at)).min()
    }

    /// Whether no request will be sent any more.
    pub fn is_done(&self) -> bool {
        self.due().is_none() && !self.retries.as_ref().is_some_and(Retries::is_waiting)
    }

    /// Sends the next planned request. If requests do not overlap, it may wait for a free connection.
    #[inline]
    pub fn send(&mut self) {
        let index = self.next;
        self.next += 1;
        if self.free.is_some() {
            return self.send_on_free(index);
        }
        let was_sent = self.send_on(self.shared.records[index].connection(), index);
        if let Some(retries) = &mut self.retries {
            retries.earn();
            match was_sent {
                true => retries.wait_for(index),
                false => self.send_again(index),
            }
        }
    }

    /// Sends the next planned request on a free connection. Without one it waits, and t2 is now: the client is in time.
    fn send_on_free(&mut self, index: usize) {
        if self.waiting == index && self.send_waiting() {
            return;
        }
        self.shared.records[index].sent.store(self.shared.clock.now(), Relaxed);
        self.shared.progress.add_sent();
        self.count_queued(index);
    }

    /// Sends the first request that is on no connection yet. Returns `false` if no connection is free.
    fn send_waiting(&mut self) -> bool {
        let Shared { records, links, .. } = self.shared;
        while let Some(at) = self.free.as_mut().and_then(Free::take) {
            if !links[at as usize].is_working() {
                self.take_over();
            }
            // A connection that the server closes becomes free again once it is open.
            if links[at as usize].is_working() {
                records[self.waiting].set_connection(at);
                self.send_on(at, self.waiting);
                self.waiting += 1;
                return true;
            }
        }
        false
    }

    /// Makes a connection free unless it has a request in flight, and sends waiting requests. Call it after each of its events.
    #[inline]
    pub fn release(&mut self, at: usize) {
        if self.free.is_some() {
            self.release_one(at);
        }
    }

    fn release_one(&mut self, at: usize) {
        let Shared { records, links, .. } = self.shared;
        if !links[at].is_working() {
            self.take_over();
        }
        if let Some(free) = &mut self.free
            && links[at].is_working()
            && self.connections[at].tail.is_settled(records)
        {
            free.add(at);
        }
        while self.is_waiting() && self.send_waiting() {}
    }

    #[inline]
    fn count_queued(&self, index: usize) {
        if self.window.contains(&self.shared.records[index].planned) {
            self.shared.progress.add_queued();
        }
    }

    /// Sends the request of a record. Returns `false` if its connection has failed.
    #[inline]
    fn send_on(&mut self, at: u32, index: usize) -> bool {
        let Shared { clock, protocol, records, links, progress, .. } = self.shared;
        let (record, link) = (&records[index], &links[at as usize]);
        if !link.is_working() {
            self.take_over();
            if link.is_dead() && !self.may_reconnect(link) {
                return false;
            }
        }
        let is_queued = !self.connections[at as usize].tail.is_settled(records);
        if is_queued {
            self.count_queued(index);
        }
        // t2 of a request that has waited for a free connection was before the wait.
        let has_waited = record.sent.load(Relaxed) != 0;
        let connection = &mut self.connections[at as usize];
        connection.tail.push(link, records, index);
        if connection.blocked.is_some() || !link.is_working() {
            // The request waits behind earlier bytes, or for a reconnect.
            if !has_waited {
                record.sent.store(clock.now(), Relaxed);
            }
        } else {
            let request = protocol.encode(self.shared.request(index), &mut self.scratch);
            let offered = &request[..request.len().min(self.bytes_max.0)];
            connection.io.encrypt(offered);
            // t2: only the write is between this reading and the kernel.
            if !has_waited {
                record.sent.store(clock.now(), Relaxed);
            }
            match connection.io.write(offered) {
                Ok(count) if count == request.len() => {}
                Ok(count) => self.block(at, index, count),
                Err(Errno::AGAIN | Errno::INTR) => self.block(at, index, 0),
                Err(error) => link.fail_to_send(error),
            }
        }
        if !has_waited {
            progress.add_sent();
        }
        true
    }

    /// Sends attempts again that have timed out, or whose connections have failed. Call it while no request is due.
    #[inline]
    pub fn resend(&mut self, now: u64) {
        if let Some(timeout_ticks) = self.retries.as_ref().map(|it| it.timeout_ticks) {
            self.resend_failed(now, timeout_ticks);
        }
    }

    fn resend_failed(&mut self, now: u64, timeout_ticks: u64) {
        let Shared { records, links, progress, .. } = self.shared;
        let is_answered = |index: usize| {
            is_answered(records[index].sent.load(Relaxed), records[index].complete.load(Relaxed), timeout_ticks)
        };
        let first_at = |retries: &mut Option<Retries>| {
            let retries = retries.as_mut()?;
            let index = retries.first(is_answered)?;
            Some((index, records[index].sent.load(Relaxed) + timeout_ticks))
        };
        let count = self.retries.as_mut().map_or(0, |it| it.search(progress.lost(), now));
        for at in 0..count {
            let waiting = self.retries.as_ref().and_then(|it| it.waiting(at));
            let has_failed = |index: usize| {
                let link = &links[self.connection_of(index)];
                !is_answered(index) && link.is_dead() && !self.may_reconnect(link)
            };
            if let Some(index) = waiting.filter(|&index| has_failed(index)) {
                self.retries.iter_mut().for_each(|it| it.forget(at));
                self.send_again(index);
            }
        }
        // One at a time, so that a due request does not wait behind many retries.
        if let Some((index, _)) = first_at(&mut self.retries).filter(|(_, at)| now >= *at) {
            self.retries.iter_mut().for_each(|it| it.forget(0));
            self.send_again(index);
        }
        let next_at = first_at(&mut self.retries).map(|(_, at)| at);
        self.retries.iter_mut().for_each(|it| it.next_at = next_at);
    }

    /// Sends the request of an attempt again on the next connection that works, unless its retries or the budget are used up.
    #[cold]
    fn send_again(&mut self, index: usize) {
        let Shared { links, retries: made, .. } = self.shared;
        let (request, number) = match index.checked_sub(self.planned) {
            None => (index as u32, 0),
            Some(at) => (made[at].request.load(Relaxed), made[at].number.load(Relaxed)),
        };
        let count = links.len();
        let previous = self.connection_of(index);
        let mut others = (1..=count).map(|step| (previous + step) % count);
        let working = others.clone().find(|&at| links[at].is_working());
        let working = working.or_else(|| others.find(|&at| self.may_reconnect(&links[at])));
        let Some(working) = working else { return };
        let Some(retries) = &mut self.retries else { return };
        let Some(retry) = made.get(retries.made).filter(|_| retries.spend(number)) else { return };
        let record = self.planned + retries.made;
        retries.made += 1;
        retry.request.store(request, Relaxed);
        retry.connection.store(working as u32, Relaxed);
        retry.number.store(number + 1, Relaxed);
        retries.wait_for(record);
        // If the connection has failed meanwhile, the record has no send time, and so is overdue.
        self.send_on(working as u32, record);
    }

    /// The connection of an attempt, as an index of the client's connections.
    fn connection_of(&self, index: usize) -> usize {
        let Shared { records, retries, .. } = self.shared;
        let of_retry = index.checked_sub(self.planned).map(|at| retries[at].connection.load(Relaxed));
        of_retry.unwrap_or(records[index].connection()) as usize
    }

    #[cold]
    fn block(&mut self, at: u32, index: usize, written: usize) {
        let connection = &mut self.connections[at as usize];
        (connection.blocked, connection.written) = (from_index(index), written as u32);
        self.blocked.push_back(at);
    }

    /// Whether a connection may work again: the receive role reconnects it, or may find an announced end after a failed write.
    fn may_reconnect(&self, link: &Link) -> bool {
        link.is_reconnecting() || (self.handover.is_some() && link.is_broken())
    }

    /// Takes over the connections that are established again, and sends their unanswered requests.
    #[inline]
    fn take_over(&mut self) {
        let Some(handover) = self.handover else { return };
        for reconnected in handover.take() {
            self.take_over_one(reconnected);
        }
    }

    #[cold]
    fn take_over_one(&mut self, Reconnected { connection: at, socket, answered }: Reconnected) {
        let Shared { records, links, .. } = self.shared;
        let connection = &mut self.connections[at];
        self.ended.truncate(ENDED_MAX - 1);
        self.ended.push(std::mem::replace(&mut connection.io, socket));
        if connection.blocked.take().is_some() {
            self.blocked.retain(|&blocked| blocked != at as u32);
        }
        if !links[at].end_reconnect() {
            return;
        }
        connection.written = 0;
        connection.blocked = answered.peek(&links[at], records).and_then(from_index);
        while self.connections[at].blocked.is_some() {
            if self.write_blocked(at as u32).is_err() {
                self.blocked.push_back(at as u32);
                break;
            }
        }
    }

    /// Takes over connections, and writes some of the bytes delayed by a full socket, if the pause is over. Call it while no
    /// request is due.
    #[inline]
    pub fn retry(&mut self, now: u64) {
        self.take_over();
        drop(self.ended.pop());
        if !self.blocked.is_empty() && now >= self.retry_at {
            self.retry_one(now);
        }
    }

    #[cold]
    fn retry_one(&mut self, now: u64) {
        let Some(&at) = self.blocked.front() else { return };
        if self.write_blocked(at).is_err() {
            // Try each connection once per pause.
            self.blocked.rotate_left(1);
            self.retry_at = now + self.retry_ticks / self.blocked.len() as u64;
        } else if self.connections[at as usize].blocked.is_none() {
            self.blocked.pop_front();
        }
    }

    /// Writes some bytes of the oldest request that the socket has not accepted completely. Fails if the socket is full.
    fn write_blocked(&mut self, at: u32) -> Result<(), SocketIsFull> {
        let Shared { protocol, records, links, .. } = self.shared;
        let (link, connection) = (&links[at as usize], &mut self.connections[at as usize]);
        let Some(blocked) = connection.blocked.filter(|_| link.is_working()) else {
            connection.blocked = None;
            return Ok(());
        };
        let index = blocked.get() as usize - 1;
        let request = protocol.encode(self.shared.request(index), &mut self.scratch);
        let rest = &request[connection.written as usize..];
        match connection.io.write(&rest[..rest.len().min(self.bytes_max.1)]) {
            Ok(count) if count == rest.len() => {
                connection.blocked = records[index].next().and_then(from_index);
                connection.written = 0;
            }
            Ok(count) => connection.written += count as u32,
            Err(Errno::AGAIN | Errno::INTR) => return Err(SocketIsFull),
            Err(error) => {
                link.fail_to_send(error);
                connection.blocked = None;
            }
        }
        Ok(())
    }
}

struct SocketIsFull;

/// A record's index as stored in [`Connection::blocked`].
fn from_index(record: usize) -> Option<NonZeroU32> {
    NonZeroU32::new(record as u32 + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::{ClockChoice, Loop, Pace, RequestTimeout, Schedule};
    use crate::protocol::Fixed;
    use crate::record::progress::Progress;
    use crate::record::request::{Record, Retry};
    use crate::time::clock::Clock;

    #[test]
    fn late_response_does_not_cancel_its_retry() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let request_timeout = Some(RequestTimeout { timeout_ns: 1_000_000, retries: 1, retry_budget: None });
        let config = LoadConfig::small(([127, 0, 0, 1], 0)).with(|it| {
            it.the_loop =
                Loop::Open { requests: Pace::new(Schedule::Constant, 1.0).into(), request_timeout, no_overlap: false };
        });
        // Two planned requests, and the records of two retries.
        let records = [0; 4].map(|planned| Record::new(planned, 0));
        let (retries, links): ([Retry; 2], [Link; 1]) = Default::default();
        let (protocol, progress) = (&Fixed::new(1, 1), &Progress::default());
        let (records, retries, links) = (&records[..], &retries[..], &links[..]);
        let shared =
            Shared { clock, protocol, first: 0, records, retries, numbers: &[], links, transfers: &[], progress };
        let (own, _peer) = UnixStream::pair().unwrap();
        let mut sender = Sender::new(shared, &config, &[Arc::new(Socket::from(OwnedFd::from(own)))], None);
        sender.send();
        sender.send();
        let (limit, sent) = (clock.ticks(1e6), [0, 1].map(|index: usize| records[index].sent.load(Relaxed)));
        records[0].complete.store(sent[0] + limit + 1, Relaxed);
        records[1].complete.store(sent[1] + limit, Relaxed);
        (0..2).for_each(|_| sender.resend(sent[1] + 2 * limit));
        let numbers = [0, 1].map(|at: usize| retries[at].number.load(Relaxed));
        assert_eq!((progress.sent(), numbers), (3, [1, 0]), "only the first response came after the time limit");
        assert_eq!(retries[0].request.load(Relaxed), 0);
    }
}
