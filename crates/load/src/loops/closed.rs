//! The closed loop (voras2009 section III): each connection sends its next request a think time after the response. With a
//! pipeline, a connection sends several requests at once, and the next ones after the last response.
//!
//! t1 is the end of the think time. A client sleeps until a response arrives or a think time ends, so its CPU time shows its
//! spare capacity. A response that exceeds the timeout ends its connection, as in httperf.
//!
//! A server may close a connection between two requests, and an HTTP response may announce it. The client then opens another, as wrk
//! does. The next request is due after the think time, but not before the connection is established. Requests of a pipeline without a response are sent again:
//! the server has not processed them (RFC 9112 section 9.6).

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

use super::exchange::{Engine, Exchange, Received, Sent, Step, TIMER_BYTES};
use crate::config::LoadConfig;
use crate::config::partition::partition_indices;
use crate::driver::{self, Connected, Listener, Outcome, REJECTS_NS, Turns};
use crate::error::LoadError;
use crate::io::connect::Dialer;
use crate::io::poller::{EVENTS_MAX, Events};
use crate::protocol::ClientProtocol;
use crate::record::progress::Progress;
use crate::record::recorder::{Recording, Times};
use crate::record::summary::Trial;
use crate::result::Class;
use crate::socket::Socket;
use crate::socket::tls::Awaits;
use crate::time::clock::Clock;
use crate::time::schedule;
use crate::time::slices::OwnSlices;

pub fn run<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, mut sockets, sources, connect_ns, .. } = connected;
    let dialer = Dialer::new(config, &sources)?;
    let progress: Vec<Progress> = (0..config.client.clients).map(|_| Progress::default()).collect();
    let mut rest = sockets.as_mut_slice();
    let worker = |(number, progress)| {
        let count = partition_indices(config.connections, config.client.clients, number).len();
        let sockets = rest.split_off_mut(..count).expect("each connection belongs to one client");
        Worker::new((clock, protocol, config), number, (sockets, &dialer), progress)
    };
    let workers = (0..config.client.clients).zip(&progress).map(worker).collect::<Result<Vec<Worker<'_, P>>, _>>()?;

    // Choose the start time only after the slow initialisation of memory.
    let times = driver::begin(config, &clock, listener)?;
    let slices = OwnSlices::new(config, &clock, times.start);
    let loops = workers.into_iter().map(|worker| |stop: &AtomicBool| worker.run(&times, slices.clone(), stop));
    let trial = Trial::sleeping(config, &clock, &times);
    let (recordings, usage) = driver::run_loops(&trial, &progress, loops, listener)?;
    let cut = usage.cut.map(|end| trial.until(end));
    let trial = cut.as_ref().map_or(trial, |(config, times)| Trial::sleeping(config, &clock, times));

    let memory_bytes = size_of::<(Socket, Option<Class>, Exchange<P>, Awaits, u64)>() + TIMER_BYTES;
    let facts = trial.facts(connect_ns, usage);
    let result = facts.account(&recordings, driver::cpus(config), memory_bytes as f64);
    Ok(Outcome::new(result, sockets))
}

struct Worker<'a, P: ClientProtocol> {
    engine: Engine<'a, P>,
    sockets: &'a mut [Socket],
    /// The failure of each connection; `None` while it works.
    failures: Vec<Option<Class>>,
    /// Opens connections for reconnects.
    dialer: &'a Dialer<'a>,
    dialed: u64,
    /// The time of each connection's last reconnect, in ticks; 0 without one.
    reopened: Vec<u64>,
    /// The event of each connection that the poller waits for.
    watched: Vec<Awaits>,
    exchanges: Vec<Exchange<P>>,
    alive: usize,
    turns: Turns,
}

impl<'a, P: ClientProtocol> Worker<'a, P> {
    fn new(
        (clock, protocol, config): (Clock, &'a P, &LoadConfig),
        number: u32,
        (sockets, dialer): (&'a mut [Socket], &'a Dialer<'a>),
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let samples = schedule::count_max(config);
        let engine = Engine::new((clock, protocol, config), number, sockets.len(), samples, progress)?;
        for (at, socket) in sockets.iter().enumerate() {
            engine.poller.add(socket.as_fd(), at).map_err(LoadError::waiting)?;
        }
        let alive = sockets.len();
        let exchanges = sockets.iter().map(|_| Exchange::default()).collect();
        let (failures, watched, reopened) = (vec![None; alive], vec![Awaits::Readable; alive], vec![0; alive]);
        let (dialed, turns) = (number.into(), Turns::new(0..0));
        Ok(Self { engine, sockets, failures, dialer, dialed, reopened, watched, exchanges, alive, turns })
    }

    fn run(mut self, times: &Times, slices: OwnSlices, stop: &AtomicBool) -> Recording {
        // A turn is the time between two sends or responses.
        self.turns = slices.watch_pauses(Turns::new(times.window.clone()), &self.engine.clock);
        self.engine.slices = slices;
        for at in 0..self.sockets.len() {
            let due = self.engine.first_due(times.start);
            self.send_at(at, due);
        }
        self.engine.recorder.begin(times.clone());
        let mut events = Events::with_capacity(EVENTS_MAX);
        let is_stopped = loop {
            let now = self.engine.clock.now();
            self.engine.recorder.tick(now, 0);
            while let Some((due, at)) = self.engine.take_timer(now) {
                self.wake(at, due);
            }
            let is_stopped = stop.load(Relaxed);
            if is_stopped || self.engine.recorder.is_over(now) || self.alive == 0 {
                break is_stopped;
            }
            let next = self.engine.recorder.next_edge().min(self.engine.next_timer());
            let before = self.engine.clock.now();
            let slept_ns = self.engine.wait(&mut events, self.engine.clock.between_ns(before, next));
            if slept_ns > 0 {
                let planned = before + self.engine.clock.ticks(slept_ns as f64);
                self.turns.slept(self.engine.clock.now(), planned);
            }
            for (at, _) in events.iter() {
                self.read(at);
            }
            if self.engine.checks_timeouts(now) {
                self.fail_overdue(now);
            }
        };
        if is_stopped {
            self.engine.recorder.tick(u64::MAX, 0);
        }
        self.end_all(is_stopped);
        let mut recording = self.engine.recorder.close();
        recording.counts.pauses = self.turns.pauses();
        recording
    }

    #[inline]
    fn wake(&mut self, at: usize, due: u64) {
        match self.exchanges[at].step {
            Step::Idle if due == self.exchanges[at].due => self.send(at, due),
            Step::Reconnecting if self.watched[at] == Awaits::Nothing => self.dial(at),
            Step::Writing => self.write_on(at),
            // A retry of an earlier step may still have a timer.
            Step::Idle | Step::Reconnecting | Step::Waiting => {}
        }
    }

    #[inline]
    fn send_at(&mut self, at: usize, due: u64) {
        self.exchanges[at].due = due;
        self.engine.wake_at(at, due);
    }

    #[inline]
    fn send(&mut self, at: usize, due: u64) {
        if due >= self.engine.recorder.times().window.end || self.failures[at].is_some() {
            return;
        }
        match self.engine.send(&mut self.exchanges[at], &self.sockets[at], due, false) {
            Ok(Sent::Partly) => self.retry_later(at),
            Ok(Sent::Whole | Sent::NotConnected) => self.turns.begin(self.exchanges[at].sent, false),
            Err(error) => self.end(at, error.into()),
        }
    }

    #[cold]
    fn write_on(&mut self, at: usize) {
        match self.engine.write_on(&mut self.exchanges[at], &self.sockets[at]) {
            Ok(true) => {}
            Ok(false) => self.retry_later(at),
            Err(error) => {
                // An unread response may announce the end of the connection.
                self.read(at);
                if self.exchanges[at].step == Step::Writing {
                    self.end(at, error.into());
                }
            }
        }
    }

    /// Reconnects after a response at `now` that announced the end of its connection.
    #[cold]
    fn reconnect(&mut self, at: usize, now: u64) {
        if self.exchanges[at].left == 0 {
            self.exchanges[at].due = self.engine.next_due(now);
        }
        self.reopen(at, now);
    }

    /// Reconnects after the server has closed the connection between two requests, unless it rejects connections.
    #[cold]
    fn closed(&mut self, at: usize) {
        let now = self.engine.clock.now();
        let is_unused = self.exchanges[at].sent <= self.reopened[at];
        match is_unused && self.engine.clock.between_ns(self.reopened[at], now) < REJECTS_NS {
            true => self.end(at, Class::Reset),
            false => self.reopen(at, now),
        }
    }

    fn reopen(&mut self, at: usize, now: u64) {
        self.engine.poller.remove(self.sockets[at].as_fd());
        self.watched[at] = Awaits::Nothing;
        let exchange = &mut self.exchanges[at];
        exchange.reconnect();
        if exchange.left == 0 {
            exchange.sent = now;
        }
        if exchange.left > 0 || exchange.due < self.engine.recorder.times().window.end {
            self.dial(at);
        } else {
            exchange.step = Step::Idle;
        }
    }

    #[cold]
    fn dial(&mut self, at: usize) {
        match self.dialer.begin_again(&mut self.dialed) {
            Ok(io) => {
                self.sockets[at] = io;
                self.watch(at, Awaits::Writable);
            }
            // The backlog of a Unix socket is full. No event tells when to retry.
            Err(Errno::AGAIN) => self.retry_later(at),
            Err(error) => self.end(at, error.into()),
        }
    }

    fn watch(&mut self, at: usize, awaits: Awaits) {
        let watched = std::mem::replace(&mut self.watched[at], awaits);
        if let Err(error) = self.engine.poller.watch(self.sockets[at].as_fd(), at, watched, awaits) {
            self.end(at, error.into());
        }
    }

    /// Continues to establish a connection. Its next requests follow.
    #[cold]
    fn establish(&mut self, at: usize) {
        match self.sockets[at].establish() {
            Ok(Awaits::Nothing) => {
                self.engine.recorder.reconnected();
                self.watch(at, Awaits::Readable);
                self.reopened[at] = self.engine.clock.now();
                let exchange = &mut self.exchanges[at];
                if exchange.left > 0 {
                    // The rest of a pipeline follows at once, even in the slice of another server.
                    exchange.step = Step::Writing;
                    return self.write_on(at);
                }
                exchange.step = Step::Idle;
                let now = self.engine.clock.now();
                let due = if exchange.due > now { exchange.due } else { self.engine.slices.after(now, 0) };
                self.send_at(at, due);
            }
            Ok(awaits) => self.watch(at, awaits),
            Err(error) => self.end(at, Class::of(&error)),
        }
    }

    #[cold]
    fn retry_later(&mut self, at: usize) {
        self.engine.wake_at(at, self.engine.clock.now() + self.engine.retry_ticks);
    }

    #[inline]
    fn read(&mut self, at: usize) {
        if self.exchanges[at].step == Step::Reconnecting {
            return self.establish(at);
        }
        let io = &self.sockets[at];
        let (now, mut received) = self.engine.receive(&mut self.exchanges[at], io);
        let (is_last, has_more) = loop {
            let (is_last, has_more) = match received {
                Received::Part => return,
                Received::Closed => return self.closed(at),
                Received::Failed(class) => return self.end(at, class),
                Received::Whole { is_last, has_more } => (is_last, has_more),
            };
            self.turns.begin(now, false);
            let exchange = &mut self.exchanges[at];
            self.engine.recorder.complete(exchange.transaction(at, now));
            if is_last || !exchange.is_outstanding() {
                break (is_last, has_more);
            }
            if !has_more {
                return;
            }
            (_, received) = self.engine.receive_next(exchange, io, now);
        };
        match (is_last, has_more) {
            (_, true) => self.end(at, Class::Wrong),
            (true, false) => self.reconnect(at, now),
            (false, false) if self.engine.may_send_now(now) => self.send(at, now),
            (false, false) => {
                let due = self.engine.next_due(now);
                self.send_at(at, due);
            }
        }
    }

    #[cold]
    fn end(&mut self, at: usize, class: Class) {
        self.failures[at].get_or_insert(class);
        self.alive -= 1;
        self.lose(at);
        self.exchanges[at].reset();
        // Keep the socket open, so that its descriptor is not reused. Remove it from the poller, which would report it forever.
        self.engine.poller.remove(self.sockets[at].as_fd());
    }

    #[cold]
    fn fail_overdue(&mut self, now: u64) {
        for at in 0..self.sockets.len() {
            let exchange = &self.exchanges[at];
            if exchange.is_outstanding() && self.engine.is_overdue(exchange.sent, now) {
                self.end(at, Class::Timeout);
            }
        }
    }

    fn lose(&mut self, at: usize) {
        let failure = self.failures[at];
        if self.exchanges[at].left > 0 {
            let (class, exchange) = (failure.unwrap_or(Class::Timeout), &self.exchanges[at]);
            (0..exchange.left).for_each(|_| self.engine.recorder.lose(exchange.transaction(at, 0), class));
        } else if let Some(class) = failure {
            self.engine.recorder.errors().count(class, 1);
        }
    }

    /// Gives up the outstanding requests. They are lost, unless the client stops before the end of the window.
    fn end_all(&mut self, is_stopped: bool) {
        for at in 0..self.sockets.len() {
            let exchange = &self.exchanges[at];
            self.engine.recorder.leave(exchange.left.into());
            if self.failures[at].is_none() && !is_stopped {
                self.lose(at);
            }
        }
    }
}
