//! Sequential exchanges of requests and responses, for closed loops and for short-lived connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::config::{LoadConfig, Think};
use crate::driver;
use crate::error::LoadError;
use crate::io::poller::{Events, Poller};
use crate::protocol::{ClientProtocol, Reply};
use crate::record::progress::Progress;
use crate::record::recorder::{Recorder, Transaction};
use crate::report::Class;
use crate::time::clock::Clock;
use crate::time::slices::OwnSlices;

const READ_BYTES: usize = 64 << 10;
/// The longest sleep before a loop checks whether it must end.
const SLEEP: Duration = Duration::from_millis(5);
/// The longest precise sleep, in nanoseconds.
const PRECISE_SLEEP_NS_MAX: i64 = 900_000_000;
/// The pause between two attempts to write to a full socket, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;
/// The interval between searches for connections and requests that exceed the timeout, in nanoseconds.
const CHECK_NS: f64 = 100_000_000.0;

/// A request and its response on one connection.
pub struct Exchange<P: ClientProtocol> {
    request: P::Request,
    reader: P::Reader,
    pub due: u64,
    pub sent: u64,
    /// The arrival of the first part of a response; 0 if the response is complete after one read.
    first: u64,
    /// The bytes that the socket has accepted of a partly sent request.
    written: u32,
    pub step: Step,
    /// Whether the service rejected the last request. A rejection has no service time.
    is_rejected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Idle,
    /// The socket has not accepted the whole request yet.
    Writing,
    Waiting,
}

impl<P: ClientProtocol> Default for Exchange<P> {
    fn default() -> Self {
        let (request, reader) = (P::Request::default(), P::Reader::default());
        Self { request, reader, due: 0, sent: 0, first: 0, written: 0, step: Step::Idle, is_rejected: false }
    }
}

impl<P: ClientProtocol> Exchange<P> {
    #[inline]
    pub fn is_outstanding(&self) -> bool {
        self.step != Step::Idle
    }

    /// Prepares the exchange for a new connection.
    #[inline]
    pub fn reset(&mut self) {
        self.reader = P::Reader::default();
        self.step = Step::Idle;
    }

    #[inline]
    pub fn transaction(&self, connection: usize, complete: u64) -> Transaction {
        let Self { due, sent, first, is_rejected, .. } = *self;
        let transfer = if first == 0 { 0.0 } else { complete.saturating_sub(first) as f32 };
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
    pub retry_ticks: u64,
    pub timeout_ticks: u64,
    /// The time of the next search for connections and requests that exceed the timeout.
    check_at: u64,
    inbox: Vec<u8>,
    scratch: Vec<u8>,
    /// Connections that wait for a time instead of a response.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    random: Xoshiro256PlusPlus,
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
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        (0..config.client(number)).for_each(|_| random.jump());
        Ok(Self {
            clock,
            protocol,
            poller: Poller::new().map_err(LoadError::waiting)?,
            recorder: Recorder::new(clock, config, samples, progress)?,
            think: config.think,
            slices: OwnSlices::default(),
            number: driver::first_of(config.client(number)),
            retry_ticks: clock.ticks(RETRY_NS),
            timeout_ticks: clock.ticks(config.timeout_ns as f64),
            check_at: 0,
            inbox: Vec::with_capacity(READ_BYTES),
            scratch: Vec::with_capacity(protocol.encoded_bytes_max()),
            timers: BinaryHeap::with_capacity(connections + 1),
            random,
        })
    }

    pub fn first_due(&mut self, start: u64) -> u64 {
        let think_ticks = self.clock.ticks(self.think.mean_ns as f64) as f64;
        let think_ticks = (think_ticks * self.random.random::<f64>()) as u64;
        self.slices.after(start, think_ticks)
    }

    /// Draws the due time of the request after a response at `now`.
    #[inline]
    pub fn next_due(&mut self, now: u64) -> u64 {
        if self.think.is_none() {
            return self.slices.after(now, 0);
        }
        let factor = if self.think.exponential { -(1.0 - self.random.random::<f64>()).ln() } else { 1.0 };
        self.slices.after(now, self.clock.ticks(self.think.mean_ns as f64 * factor))
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

    /// Sends the next request, due at `due`. An error during connection setup means that the request was not sent.
    #[inline]
    pub fn send(
        &mut self,
        exchange: &mut Exchange<P>,
        io: BorrowedFd<'_>,
        due: u64,
        is_connecting: bool,
    ) -> Result<Sent, Errno> {
        let request = self.protocol.request(self.number);
        let bytes = self.protocol.encode(request, &mut self.scratch);
        // t2: only the write is between this reading and the kernel.
        let sent = self.clock.now();
        let written = rustix::io::write(io, bytes);
        let is_whole = written == Ok(bytes.len());
        if is_connecting && matches!(written, Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN)) {
            return Ok(Sent::NotConnected);
        }
        self.number += 1;
        if is_connecting {
            written?;
        }
        (exchange.request, exchange.due, exchange.sent, exchange.step) = (request, due, sent, Step::Waiting);
        exchange.first = 0;
        self.recorder.sent(sent);
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

    /// Writes the rest of a partly sent request. Returns whether it is complete now.
    #[cold]
    pub fn write_on(&mut self, exchange: &mut Exchange<P>, io: BorrowedFd<'_>) -> Result<bool, Errno> {
        let bytes = self.protocol.encode(exchange.request, &mut self.scratch);
        match rustix::io::write(io, &bytes[exchange.written as usize..]) {
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
    pub fn receive(&mut self, exchange: &mut Exchange<P>, io: BorrowedFd<'_>) -> (u64, Received) {
        self.inbox.clear();
        match rustix::io::read(io, spare_capacity(&mut self.inbox)) {
            Ok(0) => return self.end(exchange),
            Ok(_) if exchange.step != Step::Waiting => return (0, Received::Failed(Class::Wrong)),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return (0, Received::Part),
            Err(error) => return (0, Received::Failed(error.into())),
        }
        // t3: right after the read that may complete a response.
        let now = self.clock.now();
        let (taken_bytes, reply) = self.protocol.read(exchange.request, &mut exchange.reader, &self.inbox);
        let (wrong, is_last) = match reply {
            None => {
                exchange.first = if exchange.first == 0 { now } else { exchange.first };
                return (now, Received::Part);
            }
            Some(Reply::Good) => (None, false),
            Some(Reply::Bad(class)) => (Some(class), false),
            Some(Reply::Last(wrong)) => (wrong, true),
            Some(Reply::Garbage) => return (now, Received::Failed(Class::Wrong)),
        };
        self.judged(exchange, wrong);
        (now, Received::Whole { is_last, has_more: taken_bytes < self.inbox.len() })
    }

    /// Counts a complete response, which may be wrong.
    #[inline]
    fn judged(&mut self, exchange: &mut Exchange<P>, wrong: Option<Class>) {
        wrong.into_iter().for_each(|class| self.recorder.errors().count(class, 1));
        self.recorder.statuses().count(self.protocol.status(&exchange.reader));
        exchange.step = Step::Idle;
        exchange.is_rejected = wrong == Some(Class::Rejected);
    }

    #[cold]
    fn end(&mut self, exchange: &mut Exchange<P>) -> (u64, Received) {
        let reply = match exchange.step {
            Step::Idle => return (0, Received::Failed(Class::Reset)),
            Step::Writing => None,
            Step::Waiting => self.protocol.end(exchange.request, &mut exchange.reader),
        };
        let Some(Reply::Last(wrong)) = reply else { return (0, Received::Failed(Class::Short)) };
        self.judged(exchange, wrong);
        (self.clock.now(), Received::Whole { is_last: true, has_more: false })
    }
}
