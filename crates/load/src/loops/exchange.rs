//! Sequential exchanges of requests and responses, for closed loops and for short-lived connections. A closed loop may send several
//! requests at once, before it reads their responses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use crate::config::{LoadConfig, Think};
use crate::driver::{self, RETRY_NS};
use crate::error::LoadError;
use crate::io::poller::{Events, Poller};
use crate::io::verify::{fault, unrequested};
use crate::protocol::{ClientProtocol, Reply};
use crate::record::progress::Progress;
use crate::record::recorder::{Recorder, Transaction};
use crate::result::Class;
use crate::socket::Socket;
use crate::time::clock::Clock;
use crate::time::slices::OwnSlices;

const READ_BYTES: usize = 64 << 10;
/// The longest sleep before a loop checks whether it must end.
const SLEEP: Duration = Duration::from_millis(5);
/// The longest precise sleep, in nanoseconds.
const PRECISE_SLEEP_NS_MAX: i64 = 900_000_000;
/// The interval between searches for connections and requests that exceed the timeout, in nanoseconds.
const CHECK_NS: f64 = 100_000_000.0;

/// The requests that one connection sent at once, usually one, and their responses.
pub struct Exchange<P: ClientProtocol> {
    /// The request whose response is next.
    request: P::Request,
    /// The number of the first request.
    number: u64,
    /// The number of requests.
    count: u32,
    /// The number of outstanding responses.
    pub left: u32,
    reader: P::Reader,
    pub due: u64,
    pub sent: u64,
    /// The arrival of the first part of a response; 0 if the response is complete after one read.
    first: u64,
    /// The ticks from the first part of the last response to all of it; 0 if one read had all.
    transfer: f32,
    /// The bytes that the socket has accepted of partly sent requests.
    written: u32,
    pub step: Step,
    /// Whether the service rejected the last request. A rejection has no service time.
    is_rejected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Idle,
    /// The client opens another connection.
    Reconnecting,
    /// The socket has not accepted all requests yet.
    Writing,
    Waiting,
}

impl<P: ClientProtocol> Default for Exchange<P> {
    fn default() -> Self {
        Self {
            request: P::Request::default(),
            number: 0,
            count: 0,
            left: 0,
            reader: P::Reader::default(),
            due: 0,
            sent: 0,
            first: 0,
            transfer: 0.0,
            written: 0,
            step: Step::Idle,
            is_rejected: false,
        }
    }
}

impl<P: ClientProtocol> Exchange<P> {
    #[inline]
    pub fn is_outstanding(&self) -> bool {
        self.step != Step::Idle
    }

    /// Whether a response is due: a response to a request that is not wholly sent would be wrong.
    #[inline]
    fn may_receive(&self) -> bool {
        match self.step {
            Step::Idle | Step::Reconnecting => false,
            Step::Writing => self.left > 1,
            Step::Waiting => true,
        }
    }

    /// Prepares the exchange for a new connection, or for none.
    #[inline]
    pub fn reset(&mut self) {
        self.reader = P::Reader::default();
        self.left = 0;
        self.step = Step::Idle;
    }

    /// Prepares the exchange for another connection, on which the requests without a response are sent again.
    pub fn reconnect(&mut self) {
        self.reader = P::Reader::default();
        self.number += u64::from(self.count - self.left);
        (self.count, self.first, self.written) = (self.left, 0, 0);
        self.step = Step::Reconnecting;
    }

    #[inline]
    pub fn transaction(&self, connection: usize, complete: u64) -> Transaction {
        let Self { due, sent, transfer, is_rejected, .. } = *self;
        let complete = if is_rejected { 0 } else { complete };
        Transaction { due, sent, complete, connection: connection as u32, transfer, late: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Whole,
    /// The socket accepted a part: [`Engine::write_on`] must follow.
    Partly,
    /// The connection is not established yet, so nothing was sent.
    NotConnected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Part,
    /// The response is complete. `is_last`: the server ends the connection after it. `has_more`: unrequested bytes follow.
    Whole {
        is_last: bool,
        has_more: bool,
    },
    /// The server closed the connection while no response was due.
    Closed,
    /// The connection failed, or the bytes are not a valid response.
    Failed(Class),
}

/// The state of a thread for the exchanges on all of its connections.
pub struct Engine<'a, P: ClientProtocol> {
    pub clock: Clock,
    pub protocol: &'a P,
    pub poller: Poller,
    pub recorder: Recorder<'a>,
    pub think: Think,
    /// The slices of the client; the closed loop sets them when the trial begins.
    pub slices: OwnSlices,
    pub number: u64,
    /// The number of requests to send at once.
    depth: u32,
    pub retry_ticks: u64,
    pub timeout_ticks: u64,
    /// The time of the next search for connections and requests that exceed the timeout.
    check_at: u64,
    inbox: Vec<u8>,
    /// The bytes of the inbox that earlier responses had.
    taken_bytes: usize,
    /// Whether the server may send more after the inbox.
    goes_on: bool,
    scratch: Vec<u8>,
    /// The bytes of several requests.
    batch: Vec<u8>,
    /// Connections that wait for a time instead of a response.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    random: Xoshiro256PlusPlus,
}

/// Returns the bytes of the requests with these numbers. `first` is the first of them.
#[inline]
fn encode<'a, P: ClientProtocol>(
    protocol: &'a P,
    first: P::Request,
    numbers: Range<u64>,
    scratch: &'a mut Vec<u8>,
    batch: &'a mut Vec<u8>,
) -> &'a [u8] {
    if numbers.end - numbers.start == 1 {
        return protocol.encode(first, scratch);
    }
    batch.clear();
    for number in numbers {
        batch.extend_from_slice(protocol.encode(protocol.request(number), scratch));
    }
    batch
}

pub const TIMER_BYTES: usize = size_of::<Reverse<(u64, u32)>>();

impl<'a, P: ClientProtocol> Engine<'a, P> {
    pub fn new(
        (clock, protocol, config): (Clock, &'a P, &LoadConfig),
        number: u32,
        connections: usize,
        samples: u64,
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.client.seed);
        (0..config.client_number(number)).for_each(|_| random.jump());
        Ok(Self {
            clock,
            protocol,
            poller: Poller::new().map_err(LoadError::waiting)?,
            recorder: Recorder::new(clock, config, samples, progress)?,
            think: config.think(),
            slices: OwnSlices::default(),
            number: driver::first_of(config.client_number(number)),
            depth: config.pipeline(),
            retry_ticks: clock.ticks(RETRY_NS),
            timeout_ticks: clock.ticks(config.client.timeout_ns as f64),
            check_at: 0,
            inbox: Vec::with_capacity(READ_BYTES),
            taken_bytes: 0,
            goes_on: true,
            scratch: Vec::with_capacity(protocol.encoded_bytes_max()),
            batch: Vec::new(),
            timers: BinaryHeap::with_capacity(connections + 1),
            random,
        })
    }

    pub fn first_due(&mut self, start: u64) -> u64 {
        let factor = if self.think.exponential { self.exponential() } else { self.random.random::<f64>() };
        self.after_think(start, factor)
    }

    /// Returns the time after `factor` times the mean think time.
    #[inline]
    fn after_think(&mut self, now: u64, factor: f64) -> u64 {
        self.slices.after(now, self.clock.ticks(self.think.mean_ns as f64 * factor))
    }

    /// Draws from the exponential distribution of mean 1. It is also the distribution of the rest of a think time.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.random::<f64>()).ln()
    }

    /// Draws the due time of the request after a response at `now`.
    #[inline]
    pub fn next_due(&mut self, now: u64) -> u64 {
        let factor = if self.think.exponential { self.exponential() } else { 1.0 };
        self.after_think(now, factor)
    }

    /// Whether the next request may follow a response at `now` immediately.
    #[inline]
    pub fn may_send_now(&mut self, now: u64) -> bool {
        self.think.is_none() && self.slices.next_start(now).is_none()
    }

    #[inline]
    pub fn wake_at(&mut self, at: usize, due: u64) {
        self.timers.push(Reverse((due, at as u32)));
    }

    /// Returns whether to search now for connections and requests that exceed the timeout.
    #[inline]
    pub fn checks_timeouts(&mut self, now: u64) -> bool {
        let is_due = now >= self.check_at;
        if is_due {
            self.check_at = now + self.clock.ticks(CHECK_NS);
        }
        is_due
    }

    pub fn is_overdue(&self, since: u64, now: u64) -> bool {
        now.saturating_sub(since) > self.timeout_ticks
    }

    #[inline]
    pub fn next_timer(&self) -> u64 {
        self.timers.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// Takes a timer that is due at `now`: its time and its connection.
    #[inline]
    pub fn take_timer(&mut self, now: u64) -> Option<(u64, usize)> {
        let &Reverse((due, at)) = self.timers.peek()?;
        (due <= now).then(|| {
            self.timers.pop();
            (due, at as usize)
        })
    }

    /// Waits for events, at most `ahead_ns` nanoseconds; without slices, at most [`SLEEP`]. Returns the planned
    /// nanoseconds of sleep; 0 if it did not sleep.
    #[inline]
    pub fn wait(&self, events: &mut Events, ahead_ns: i64) -> i64 {
        // `epoll_wait` has a resolution of milliseconds, so shorter sleeps use `sleep_precise`.
        if ahead_ns >= SLEEP.as_nanos() as i64 && self.slices.is_always() {
            let _ = self.poller.wait(events, SLEEP);
            return ahead_ns;
        }
        // Wake precisely at the start of a slice, and not during the slices of other contestants.
        let ahead_ns = ahead_ns.min(PRECISE_SLEEP_NS_MAX);
        let _ = self.poller.wait(events, Duration::ZERO);
        if ahead_ns <= 0 || events.iter().next().is_some() {
            return 0;
        }
        self.poller.sleep_precise(ahead_ns);
        let _ = self.poller.wait(events, Duration::ZERO);
        ahead_ns
    }

    /// Sends the next requests, due at `due`. An error during connection setup means that they were not sent.
    #[inline]
    pub fn send(
        &mut self,
        exchange: &mut Exchange<P>,
        io: &Socket,
        due: u64,
        is_connecting: bool,
    ) -> Result<Sent, Errno> {
        let request = self.protocol.request(self.number);
        let numbers = self.number..self.number + u64::from(self.depth);
        let bytes = encode(self.protocol, request, numbers.clone(), &mut self.scratch, &mut self.batch);
        io.encrypt(bytes);
        // t2: only the write is between this reading and the kernel.
        let sent = self.clock.now();
        let written = io.write(bytes);
        let is_whole = written == Ok(bytes.len());
        if is_connecting && matches!(written, Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN)) {
            return Ok(Sent::NotConnected);
        }
        self.number = numbers.end;
        if is_connecting {
            written?;
        }
        (exchange.request, exchange.due, exchange.sent, exchange.step) = (request, due, sent, Step::Waiting);
        (exchange.number, exchange.first) = (numbers.start, 0);
        (exchange.count, exchange.left) = (self.depth, self.depth);
        numbers.for_each(|_| self.recorder.sent(sent));
        if is_whole {
            return Ok(Sent::Whole);
        }
        exchange.written = match written {
            Ok(count) => count as u32,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error),
        };
        exchange.step = Step::Writing;
        Ok(Sent::Partly)
    }

    /// Writes the rest of partly sent requests. Returns whether all are complete now.
    #[cold]
    pub fn write_on(&mut self, exchange: &mut Exchange<P>, io: &Socket) -> Result<bool, Errno> {
        let numbers = exchange.number..exchange.number + u64::from(exchange.count);
        let bytes = encode(self.protocol, exchange.request, numbers, &mut self.scratch, &mut self.batch);
        match io.write(&bytes[exchange.written as usize..]) {
            Ok(count) => exchange.written += count as u32,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let is_whole = exchange.written as usize == bytes.len();
        if is_whole {
            exchange.step = Step::Waiting;
        }
        Ok(is_whole)
    }

    /// Reads from a ready socket, and verifies the bytes. Also returns t3, or 0 if no bytes of a due response arrived.
    #[inline]
    pub fn receive(&mut self, exchange: &mut Exchange<P>, io: &Socket) -> (u64, Received) {
        self.inbox.clear();
        match io.receive(&mut self.inbox) {
            Ok(0) => return self.end(exchange, io),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return (0, Received::Part),
            Err(Errno::CONNRESET) if exchange.step == Step::Idle => return (0, Received::Closed),
            Err(error) => return (0, Received::Failed(error.into())),
        }
        // t3: right after the read that may complete a response.
        let now = self.clock.now();
        self.goes_on = match io.decrypt(&mut self.inbox) {
            Ok(goes_on) => goes_on,
            Err(error) => return (0, Received::Failed(Class::of(&error))),
        };
        self.taken_bytes = 0;
        match (self.inbox.is_empty(), self.goes_on) {
            // The bytes were only TLS messages.
            (true, true) => (0, Received::Part),
            (true, false) => self.end(exchange, io),
            (false, _) => self.receive_next(exchange, io, now),
        }
    }

    /// Reads a response from the bytes that arrived at `now`. Call it again if more bytes follow and further responses are due.
    #[inline]
    pub fn receive_next(&mut self, exchange: &mut Exchange<P>, io: &Socket, now: u64) -> (u64, Received) {
        let rest = &self.inbox[self.taken_bytes..];
        if !exchange.may_receive() {
            self.recorder.note_wrong(|| unrequested(rest));
            return (0, Received::Failed(Class::Wrong));
        }
        let (taken_bytes, reply) = self.protocol.read(exchange.request, &mut exchange.reader, rest);
        let has_more = taken_bytes < rest.len();
        self.taken_bytes += taken_bytes;
        if let Some(Reply::Bad(Class::Wrong) | Reply::Last(Some(Class::Wrong)) | Reply::Garbage) = reply {
            self.recorder.note_wrong(|| fault(self.protocol, &exchange.reader, rest));
        }
        let (wrong, is_last) = match reply {
            None => {
                exchange.first = if exchange.first == 0 { now } else { exchange.first };
                return if self.goes_on { (now, Received::Part) } else { self.end(exchange, io) };
            }
            // TLS may announce the end of the connection with the response.
            Some(Reply::Good) => (None, !self.goes_on && !has_more),
            Some(Reply::Bad(class)) => (Some(class), !self.goes_on && !has_more),
            Some(Reply::Last(wrong)) => (wrong, true),
            Some(Reply::Garbage) => return (now, Received::Failed(Class::Wrong)),
        };
        self.judged(exchange, wrong, now);
        (now, Received::Whole { is_last, has_more })
    }

    /// Counts a complete response, which may be wrong.
    #[inline]
    fn judged(&mut self, exchange: &mut Exchange<P>, wrong: Option<Class>, now: u64) {
        wrong.into_iter().for_each(|class| self.recorder.errors().count(class, 1));
        self.recorder.statuses().count(self.protocol.status(&exchange.reader));
        exchange.is_rejected = wrong == Some(Class::Rejected);
        exchange.transfer = if exchange.first == 0 { 0.0 } else { now.saturating_sub(exchange.first) as f32 };
        exchange.first = 0;
        exchange.left -= 1;
        match exchange.left {
            0 => exchange.step = Step::Idle,
            left => exchange.request = self.protocol.request(exchange.number + u64::from(exchange.count - left)),
        }
    }

    #[cold]
    fn end(&mut self, exchange: &mut Exchange<P>, io: &Socket) -> (u64, Received) {
        let reply = match exchange.step {
            Step::Idle | Step::Reconnecting => return (0, Received::Closed),
            Step::Writing => None,
            Step::Waiting if io.is_cut_off() => None,
            Step::Waiting => self.protocol.end(exchange.request, &mut exchange.reader),
        };
        let Some(Reply::Last(wrong)) = reply else { return (0, Received::Failed(Class::Short)) };
        let now = self.clock.now();
        self.judged(exchange, wrong, now);
        (now, Received::Whole { is_last: true, has_more: false })
    }
}
