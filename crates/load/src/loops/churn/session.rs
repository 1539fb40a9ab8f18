//! One client of short-lived connections: a thread with its slots for connections.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rustix::io::Errno;

use super::super::exchange::{Engine, Exchange, Received, Sent, Step, TIMER_BYTES};
use crate::config::{LoadConfig, Pacing};
use crate::driver::{SPIN_NS, Turns};
use crate::error::LoadError;
use crate::io::connect::Dialer;
use crate::io::poller::{EVENTS_MAX, Events};
use crate::protocol::ClientProtocol;
use crate::record::counts::Handshakes;
use crate::record::progress::Progress;
use crate::record::recorder::{Recording, Times, Transaction, reserve};
use crate::result::Class;
use crate::socket::Socket;
use crate::socket::tls::Awaits;
use crate::time::clock::Clock;
use crate::time::schedule;

/// The pause after a failed connection, in nanoseconds, so that the client does not flood a server that is gone.
const FAILED_NS: f64 = 10_000_000.0;

struct Slot<P: ClientProtocol> {
    io: Option<Socket>,
    state: State,
    exchange: Exchange<P>,
    late: u64,
    /// The session's requests without a response.
    requests: u32,
    /// The times of the connection's start, establishment and first byte, in ticks.
    opened: [u64; 3],
    /// The event that the poller waits for.
    watched: Awaits,
    /// The time of the slot's timer; 0 without one. Other timers of the slot belonged to failed connections and are ignored.
    timer: u64,
}

impl<P: ClientProtocol> Slot<P> {
    fn new() -> Self {
        let (io, state, exchange, opened) = (None, State::Free, Exchange::default(), [0; 3]);
        Self { io, state, exchange, late: 0, requests: 0, opened, watched: Awaits::Nothing, timer: 0 }
    }

    /// Closes the connection. If the client closes first, TIME_WAIT is on its side.
    #[inline]
    fn close(&mut self) {
        self.io = None;
        self.exchange.step = Step::Idle;
        self.opened = [0; 3];
        self.watched = Awaits::Nothing;
        self.timer = 0;
    }

    /// Whether the connection is being established, including pauses between attempts.
    #[inline]
    fn is_opening(&self) -> bool {
        self.state == State::Opening || (self.state == State::Closed && self.opened[0] != 0)
    }

    /// Whether the session has a due request without a response, sent or not.
    #[inline]
    fn has_request(&self) -> bool {
        self.exchange.is_outstanding() || matches!(self.state, State::Opening | State::Closed)
    }

    #[inline]
    fn begin(&mut self, due: u64, late: u64, requests: u32) {
        (self.exchange.due, self.late, self.requests, self.state) = (due, late, requests, State::Closed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Closed,
    /// The connection is being established. The first request follows.
    Opening,
    Open,
}

pub const fn bytes_per_connection<P: ClientProtocol>() -> usize {
    size_of::<Slot<P>>() + TIMER_BYTES + size_of::<u32>()
}

pub struct ClientResult {
    pub recording: Recording,
    /// Connections begun in the window that received a byte: t1 is the start, t2 the establishment, t3 the first byte.
    pub opened: Vec<Transaction>,
    /// The number of such connections, including those without memory for a record.
    pub opened_count: u64,
    /// The TLS handshakes of connections that began in the window.
    pub handshakes: Handshakes,
    /// Sessions that waited for another one to end.
    pub waited: u64,
    /// Due time and client's delay of each due session, in ticks.
    pub sessions: Vec<(u64, u64)>,
    pub busy_share: Option<f64>,
}

pub struct Churner<'a, P: ClientProtocol> {
    engine: Engine<'a, P>,
    dialer: &'a Dialer<'a>,
    slots: Vec<Slot<P>>,
    /// Slots without a session, in an open loop.
    free: Vec<u32>,
    /// The planned time of each session, and the client's delay once it is due. A closed loop has no sessions.
    sessions: Vec<(u64, u64)>,
    /// The number of sessions that have become due. `begun` of them have begun.
    arrived: usize,
    begun: usize,
    waited: u64,
    requests: u32,
    pacing: Option<Pacing>,
    dialed: u64,
    opened: Vec<Transaction>,
    opened_count: u64,
    handshakes: Handshakes,
}

impl<'a, P: ClientProtocol> Churner<'a, P> {
    pub fn new(
        (clock, protocol, config): (Clock, &'a P, &LoadConfig),
        number: u32,
        connections: Range<usize>,
        dialer: &'a Dialer<'a>,
        pacing: Option<Pacing>,
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let requests = config.requests_per_connection().unwrap_or(1).max(1);
        let is_closed = config.is_closed();
        let sessions: Vec<(u64, u64)> = if is_closed {
            Vec::new()
        } else {
            let rate_per_s = config.rate_per_s().map(|rate_per_s| rate_per_s / f64::from(requests));
            let planned = schedule::planned(&config.clone().with(|it| it.set_rate(rate_per_s)), 1, number);
            planned.map(|planned| (clock.ticks(planned.at_ns), 0)).collect()
        };
        let opened_max = if is_closed { schedule::count_max(config) } else { sessions.len() as u64 };
        let samples = if is_closed { opened_max } else { opened_max * u64::from(requests) };
        Ok(Self {
            engine: Engine::new((clock, protocol, config), number, connections.len(), samples, progress)?,
            slots: connections.clone().map(|_| Slot::new()).collect(),
            free: (0..connections.len() as u32).rev().collect(),
            dialer,
            sessions,
            arrived: 0,
            begun: 0,
            waited: 0,
            requests,
            pacing,
            dialed: connections.start as u64,
            opened: reserve(config, opened_max)?,
            opened_count: 0,
            handshakes: Handshakes::default(),
        })
    }

    fn is_open(&self) -> bool {
        self.pacing.is_some()
    }

    #[inline]
    fn now(&self) -> u64 {
        self.engine.clock.now()
    }

    pub fn begin(&mut self, times: Times) {
        self.sessions.iter_mut().for_each(|(planned, _)| *planned += times.start);
        if !self.is_open() {
            for at in 0..self.slots.len() {
                let due = self.engine.first_due(times.start);
                self.open_at(at, due);
            }
        }
        self.engine.recorder.begin(times);
    }

    pub fn run(mut self, stop: &AtomicBool) -> ClientResult {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut turns = Turns::new(self.engine.recorder.times().window.clone());
        let mut is_spare = false;
        let is_stopped = loop {
            let now = self.now();
            turns.begin(now, is_spare);
            self.engine.recorder.tick(now, self.waiting());
            let has_due = self.wake_due(now);
            let has_sessions = self.begun < self.sessions.len() || self.free.len() < self.slots.len();
            let is_done = self.engine.recorder.is_over(now)
                && !(self.is_open() && has_sessions)
                && !self.slots.iter().any(Slot::is_opening);
            let is_stopped = stop.load(Relaxed);
            if is_done || is_stopped || now >= self.engine.recorder.times().drained {
                break is_stopped;
            }
            if self.wait(&mut events) && self.is_open() {
                turns.begin(self.now(), true);
            }
            is_spare = !has_due && events.iter().next().is_none();
            for (at, _) in events.iter() {
                self.handle(at);
                if self.is_open() {
                    self.arrive(self.now());
                }
            }
        };
        if is_stopped {
            self.engine.recorder.tick(u64::MAX, self.waiting());
        }
        self.end_all(is_stopped);
        self.sessions.truncate(self.arrived);
        ClientResult {
            recording: self.engine.recorder.close(),
            opened: self.opened,
            opened_count: self.opened_count,
            handshakes: self.handshakes,
            waited: self.waited,
            sessions: self.sessions,
            busy_share: turns.busy_share(),
        }
    }

    fn waiting(&self) -> u64 {
        (self.arrived - self.begun) as u64 * u64::from(self.requests)
    }

    /// Waits for events until a timer or a session is due. Returns whether it slept.
    #[inline]
    fn wait(&self, events: &mut Events) -> bool {
        let session = self.sessions.get(self.arrived).map_or(u64::MAX, |&(planned, _)| planned);
        let next = self.engine.recorder.next_edge().min(session).min(self.engine.next_timer());
        let ahead_ns = || self.engine.clock.between_ns(self.now(), next);
        let ahead_ns = match self.pacing {
            None => ahead_ns(),
            Some(Pacing::SleepSpin) => ahead_ns() - SPIN_NS,
            Some(Pacing::Yield) => {
                thread::yield_now();
                0
            }
            Some(Pacing::Spin | Pacing::Auto) => 0,
        };
        self.engine.wait(events, ahead_ns) > 0
    }

    /// Handles due timers and sessions, and checks timeouts. Returns whether it attempted a request or a connection.
    #[inline]
    fn wake_due(&mut self, now: u64) -> bool {
        let before = (self.engine.number, self.dialed);
        while let Some((due, at)) = self.engine.take_timer(now) {
            if self.slots[at].timer == due {
                self.slots[at].timer = 0;
                self.wake(at, due);
            }
        }
        if self.is_open() {
            self.arrive(now);
        }
        if self.engine.checks_timeouts(now) {
            self.fail_overdue(now);
        }
        (self.engine.number, self.dialed) != before
    }

    #[inline]
    fn wake(&mut self, at: usize, due: u64) {
        let slot = &mut self.slots[at];
        match (slot.state, slot.exchange.step, &slot.io) {
            (State::Closed, ..) => self.open(at),
            (State::Open, Step::Idle, _) => self.send(at, due),
            (State::Open, Step::Writing, Some(io)) => match self.engine.write_on(&mut slot.exchange, io) {
                Ok(true) => {}
                Ok(false) => self.retry_later(at),
                Err(error) => self.fail(at, error.into()),
            },
            _ => {}
        }
    }

    #[inline]
    fn arrive(&mut self, now: u64) {
        while let Some((planned, late)) = self.sessions.get_mut(self.arrived)
            && *planned <= now
        {
            // Sessions that become due together delay each other.
            *late = self.engine.clock.now().saturating_sub(*planned);
            self.arrived += 1;
            self.waited += u64::from(self.free.is_empty());
            self.begin_sessions();
        }
        self.begin_sessions();
    }

    #[inline]
    fn begin_sessions(&mut self) {
        while self.begun < self.arrived
            && let Some(at) = self.free.pop()
        {
            let (planned, late) = self.sessions[self.begun];
            self.begun += 1;
            self.slots[at as usize].begin(planned, late, self.requests);
            self.open(at as usize);
        }
    }

    #[inline]
    fn wake_at(&mut self, at: usize, due: u64) {
        self.slots[at].timer = due;
        self.engine.wake_at(at, due);
    }

    #[cold]
    fn retry_later(&mut self, at: usize) {
        self.wake_at(at, self.now() + self.engine.retry_ticks);
    }

    /// Schedules a slot's next connection in a closed loop.
    fn open_at(&mut self, at: usize, due: u64) {
        let slot = &mut self.slots[at];
        slot.begin(due, slot.late, self.requests);
        self.wake_at(at, due);
    }

    #[inline]
    fn open(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if self.pacing.is_none() && slot.exchange.due >= self.engine.recorder.times().window.end {
            slot.state = State::Free;
            return;
        }
        slot.exchange.reset();
        let begun = self.engine.clock.now();
        if self.pacing.is_none() {
            slot.late = begun.saturating_sub(slot.exchange.due);
        }
        if slot.opened[0] == 0 {
            slot.opened = [begun, 0, 0];
        }
        match self.dialer.begin(&mut self.dialed) {
            Ok(io) => {
                slot.io = Some(io);
                slot.state = State::Opening;
                self.send_first(at);
            }
            // The backlog of a Unix socket is full. No event tells when to retry.
            Err(Errno::AGAIN) if begun - slot.opened[0] < self.engine.timeout_ticks => {
                self.wake_at(at, begun + self.engine.retry_ticks);
            }
            Err(error) => self.fail(at, error.into()),
        }
    }

    #[inline]
    fn send(&mut self, at: usize, due: u64) {
        let is_late = due >= self.engine.recorder.times().window.end;
        let slot = &mut self.slots[at];
        let Some(io) = &slot.io else { return };
        if is_late && self.pacing.is_none() {
            return;
        }
        let sent = self.engine.send(&mut slot.exchange, io, due, false);
        slot.late = slot.exchange.sent.saturating_sub(due);
        match sent {
            Ok(Sent::Partly) => self.retry_later(at),
            Ok(Sent::Whole | Sent::NotConnected) => {}
            Err(error) => self.fail(at, error.into()),
        }
    }

    /// Sends the first request on a connection that may not be established yet. t1 is the due time of the connection.
    #[inline]
    fn send_first(&mut self, at: usize) {
        let has_handshake = self.slots[at].io.as_ref().is_some_and(Socket::has_handshake);
        if has_handshake && !self.continue_handshake(at) {
            return;
        }
        let slot = &mut self.slots[at];
        let (Some(io), due) = (&slot.io, slot.exchange.due) else { return };
        let sent = self.engine.send(&mut slot.exchange, io, due, !has_handshake);
        let awaits = match sent {
            // The poller reports when the connection is established.
            Ok(Sent::NotConnected) => Awaits::Writable,
            Ok(Sent::Whole | Sent::Partly) => {
                slot.state = State::Open;
                slot.opened[1] = slot.exchange.sent;
                Awaits::Readable
            }
            Err(error) => return self.fail(at, error.into()),
        };
        if self.watch(at, awaits) && sent == Ok(Sent::Partly) {
            self.retry_later(at);
        }
    }

    /// Changes the event that the poller waits for. Returns whether the connection still exists.
    #[inline]
    fn watch(&mut self, at: usize, awaits: Awaits) -> bool {
        let slot = &mut self.slots[at];
        let (Some(io), poller) = (&slot.io, &self.engine.poller) else { return false };
        let watched = std::mem::replace(&mut slot.watched, awaits);
        let changed = poller.watch(io.as_fd(), at, watched, awaits);
        changed.map_err(|error| self.fail(at, error.into())).is_ok()
    }

    /// Continues the handshake. Returns whether it is complete.
    fn continue_handshake(&mut self, at: usize) -> bool {
        let slot = &self.slots[at];
        let Some(io) = &slot.io else { return false };
        match io.continue_handshake() {
            Ok(Awaits::Nothing) => {
                if self.engine.recorder.times().window.contains(&slot.opened[0]) {
                    self.handshakes.extend(io.take_handshake());
                }
                true
            }
            Ok(awaits) => {
                self.watch(at, awaits);
                false
            }
            Err(error) => {
                self.fail(at, Class::of(&error));
                false
            }
        }
    }

    #[inline]
    fn handle(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let Some(io) = &slot.io else { return };
        if slot.state == State::Opening {
            return self.send_first(at);
        }
        let (now, received) = self.engine.receive(&mut slot.exchange, io);
        if now != 0 {
            self.note_first_byte(at, now);
        }
        let (is_last, has_more) = match received {
            Received::Part => return,
            Received::Closed => return self.fail(at, Class::Reset),
            Received::Failed(class) => return self.fail(at, class),
            Received::Whole { is_last, has_more } => (is_last, has_more),
        };
        self.slots[at].requests -= 1;
        self.engine.recorder.complete(self.transaction(at, now));
        if has_more { self.fail(at, Class::Wrong) } else { self.next(at, now, is_last) }
    }

    #[inline]
    fn note_first_byte(&mut self, at: usize, now: u64) {
        let [due, sent, first] = &mut self.slots[at].opened;
        if *first == 0 {
            *first = now;
            let opened =
                Transaction { due: *due, sent: *sent, complete: now, connection: at as u32, ..Transaction::default() };
            if self.engine.recorder.times().window.contains(due) {
                self.opened_count += 1;
                if self.opened.len() < self.opened.capacity() {
                    self.opened.push(opened);
                }
            }
        }
    }

    #[inline]
    fn transaction(&self, at: usize, complete: u64) -> Transaction {
        let Slot { exchange, late, .. } = &self.slots[at];
        Transaction { late: *late, ..exchange.transaction(at, complete) }
    }

    /// After a response, sends or schedules the next request, on this connection or a new one, or ends the session.
    #[inline]
    fn next(&mut self, at: usize, now: u64, is_last: bool) {
        let (due, thinks) = (self.engine.next_due(now), !self.engine.think.is_none());
        let is_open = self.is_open();
        let slot = &mut self.slots[at];
        if slot.requests > 0 && !is_last {
            return if thinks { self.wake_at(at, due) } else { self.send(at, due) };
        }
        slot.close();
        match (is_open, slot.requests) {
            (true, 0) => self.free(at),
            // The server ended the connection before the session was over: the session continues on a new connection.
            (true, requests) => {
                slot.begin(due, 0, requests);
                self.open(at);
            }
            (false, _) if thinks => self.open_at(at, due),
            (false, _) => {
                slot.begin(due, slot.late, self.requests);
                self.open(at);
            }
        }
    }

    #[inline]
    fn free(&mut self, at: usize) {
        self.slots[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// Ends a session whose connection failed. In a closed loop, a new connection follows after a pause.
    #[cold]
    fn fail(&mut self, at: usize, class: Class) {
        self.lose(at, class);
        self.abandon(at);
        self.slots[at].close();
        if self.is_open() {
            self.free(at);
        } else {
            self.open_at(at, self.now() + self.engine.clock.ticks(FAILED_NS));
        }
    }

    fn lose(&mut self, at: usize, class: Class) {
        let transaction = self.transaction(at, 0);
        let slot = &self.slots[at];
        if slot.exchange.is_outstanding() {
            return self.engine.recorder.lose(transaction, class);
        }
        self.engine.recorder.errors().count(class, 1);
        if slot.has_request() {
            // The connection's first request was due but never sent.
            self.engine.recorder.keep(Transaction { sent: 0, ..transaction });
        }
    }

    /// In an open loop, records the remaining requests of a session that ends early as unsent.
    fn abandon(&mut self, at: usize) {
        let slot = &self.slots[at];
        let (due, lost) = (slot.exchange.due, u32::from(slot.has_request()));
        if self.is_open() && slot.state != State::Free {
            self.record_unsent(due, slot.requests.saturating_sub(lost));
        }
    }

    fn record_unsent(&mut self, due: u64, requests: u32) {
        let unsent = Transaction { due, ..Transaction::default() };
        (0..requests).for_each(|_| self.engine.recorder.keep(unsent));
    }

    #[cold]
    fn fail_overdue(&mut self, now: u64) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let since = match slot.state {
                State::Opening => slot.opened[0],
                State::Open if slot.exchange.is_outstanding() => slot.exchange.sent,
                _ => continue,
            };
            if self.engine.is_overdue(since, now) {
                self.fail(at, Class::Timeout);
            }
        }
    }

    /// Ends all sessions. Their requests without a response are lost, unless the client stops before the end of the window.
    fn end_all(&mut self, is_stopped: bool) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let is_outstanding = slot.exchange.is_outstanding();
            self.engine.recorder.leave(u64::from(is_outstanding));
            match is_stopped {
                _ if !is_outstanding && !slot.is_opening() => {}
                false => self.lose(at, Class::Timeout),
                true if self.is_open() => {
                    let transaction = self.transaction(at, 0);
                    self.engine.recorder.keep(transaction);
                }
                true => {}
            }
            self.abandon(at);
            self.slots[at].close();
        }
        self.engine.recorder.leave(self.waiting());
        for number in self.begun..self.sessions.len() {
            self.record_unsent(self.sessions[number].0, self.requests);
        }
    }
}

#[cfg(test)]
mod tests;
