//! A worker of a closed loop: on each of its connections the next request is sent when the response has come, after the time
//! to think. It sleeps until a response comes or a time to think is over, so that one without CPU to spare is seen by the CPU
//! time that it took. No lock, and no allocation but where a response's line comes in two pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::class::Class;
use crate::clock::Clock;
use crate::closed::samples_max;
use crate::config::{LoadConfig, Think};
use crate::error::LoadError;
use crate::ledger::{Kept, Ledger, Times, Transaction};
use crate::progress::Progress;
use crate::record::Link;
use crate::run;
use crate::speak::{Reply, Speak};
use crate::waiter::{Events, Waiter};

/// Most bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
/// Most events taken by one wait.
const EVENTS_MAX: usize = 256;
/// Longest sleep, after which a worker looks whether it is done.
const SLEEP_MS: u64 = 5;
/// Pause between two tries to write what a full socket did not take, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;

/// What a worker keeps of a connection.
struct Connection<S: Speak> {
    state: State,
    asked: S::Asked,
    reader: S::Reader,
    /// t1 and t2 of its transaction.
    due: u64,
    sent: u64,
    /// Bytes of the request that the socket took, while it has not taken all.
    written: usize,
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its next request is not due yet.
    Thinking,
    /// A full socket did not take all of its request.
    Writing,
    /// A response is due.
    Waiting,
    /// Of no use any more.
    Dead,
}

/// Bytes of user memory for each connection.
pub const fn bytes_per_connection<S: Speak>() -> usize {
    size_of::<Link>() + size_of::<Connection<S>>() + size_of::<Reverse<(u64, u32)>>()
}

/// One thread's part of a closed loop.
pub struct Worker<'a, S: Speak> {
    clock: Clock,
    speaker: &'a S,
    links: &'a [Link],
    connections: Vec<Connection<S>>,
    waiter: Waiter,
    inbox: Vec<u8>,
    scratch: Vec<u8>,
    /// When connections are to go on that wait for a time, and not for a response.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    think: Think,
    random: Xoshiro256PlusPlus,
    /// The number of the next request.
    number: u64,
    retry_ticks: u64,
    alive: usize,
    ledger: Ledger<'a>,
}

impl<'a, S: Speak> Worker<'a, S> {
    /// Room for everything that will be needed, touched. `links` are the worker's connections; `worker` is its number.
    ///
    /// # Errors
    /// What the system says of waiting for them; or there is no memory.
    pub fn new(
        clock: Clock,
        speaker: &'a S,
        config: &LoadConfig,
        worker: u32,
        links: &'a [Link],
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let failed = |error: Errno| LoadError::System { what: "waiting for responses", error: error.into() };
        let waiter = Waiter::new().map_err(failed)?;
        for (at, link) in links.iter().enumerate() {
            waiter.add(link.io.as_fd(), at).map_err(failed)?;
        }
        let ledger = Ledger::new(clock, config, samples_max(config), progress)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        (0..config.client(worker)).for_each(|_| random.jump());
        let connection = |_| Connection {
            state: State::Thinking,
            asked: S::Asked::default(),
            reader: S::Reader::default(),
            due: 0,
            sent: 0,
            written: 0,
        };
        Ok(Self {
            clock,
            speaker,
            links,
            connections: (0..links.len()).map(connection).collect(),
            waiter,
            inbox: Vec::with_capacity(READ_BYTES),
            scratch: Vec::with_capacity(speaker.request_bytes_max()),
            timers: BinaryHeap::with_capacity(links.len() + 1),
            think: config.think,
            random,
            number: run::first_of(config.client(worker)),
            retry_ticks: clock.ticks(RETRY_NS),
            alive: links.len(),
            ledger,
        })
    }

    /// Runs from the first request to the last response; answers what came of it.
    pub fn run(mut self, times: Times, stop: &AtomicBool) -> Kept {
        self.ledger.begin(times);
        // With a time to think the first requests are spread over it, as later ones are.
        let think_ticks = self.clock.ticks(self.think.mean_ns as f64) as f64;
        for at in 0..self.links.len() {
            let due = self.ledger.times().start.saturating_add((think_ticks * self.random.random::<f64>()) as u64);
            self.timers.push(Reverse((due, at as u32)));
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let now = self.clock.now();
            self.ledger.look(now, 0);
            self.go_on(now);
            if self.ledger.is_over(now) || self.alive == 0 || stop.load(Relaxed) {
                break;
            }
            let until = self.ledger.next_edge();
            self.wait(&mut events, until);
            for (at, _) in events.iter() {
                self.read(at);
            }
        }
        self.end_all();
        self.ledger.close()
    }

    /// Sleeps until something came, at most until a connection is to go on, or until the tick `until`.
    #[inline]
    fn wait(&self, events: &mut Events, until: u64) {
        let next = self.timers.peek().map_or(until, |Reverse((at, _))| until.min(*at));
        let ahead_ns = self.clock.between_ns(self.clock.now(), next).max(0) as u64;
        // epoll_wait counts in milliseconds: it sleeps as long as that is too early, and the rest is for a finer sleep.
        let sleep = Duration::from_millis(SLEEP_MS);
        if ahead_ns >= sleep.as_nanos() as u64 {
            let _ = self.waiter.wait(events, sleep);
            return;
        }
        let _ = self.waiter.wait(events, Duration::ZERO);
        if ahead_ns > 0 && events.iter().next().is_none() {
            self.waiter.doze(ahead_ns as i64);
            let _ = self.waiter.wait(events, Duration::ZERO);
        }
    }

    /// Sends what is due.
    #[inline]
    fn go_on(&mut self, now: u64) {
        while let Some(&Reverse((at, connection))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            match self.connections[connection as usize].state {
                State::Thinking => self.send(connection as usize, at),
                State::Writing => self.write_on(connection as usize),
                State::Waiting | State::Dead => {}
            }
        }
    }

    /// Begins a connection's next transaction, which is due.
    #[inline]
    fn send(&mut self, at: usize, due: u64) {
        if due >= self.ledger.times().window.end {
            return;
        }
        let asked = self.speaker.asked(self.number);
        self.number += 1;
        let request = self.speaker.request(asked, &mut self.scratch);
        let connection = &mut self.connections[at];
        (connection.asked, connection.due, connection.state) = (asked, due, State::Waiting);
        // t2: nothing but the write is between here and the kernel.
        connection.sent = self.clock.now();
        let written = rustix::io::write(&self.links[at].io, request);
        let request_bytes = request.len();
        self.ledger.sent(connection.sent);
        match written {
            Ok(count) if count == request_bytes => {}
            Ok(count) => self.write_later(at, count),
            Err(Errno::AGAIN | Errno::INTR) => self.write_later(at, 0),
            Err(error) => self.end(at, Class::of(&error.into())),
        }
    }

    #[cold]
    fn write_later(&mut self, at: usize, written: usize) {
        let connection = &mut self.connections[at];
        (connection.state, connection.written) = (State::Writing, written);
        self.timers.push(Reverse((self.clock.now() + self.retry_ticks, at as u32)));
    }

    /// Offers the rest of a request to a socket that did not take all of it.
    #[cold]
    fn write_on(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let request = self.speaker.request(connection.asked, &mut self.scratch);
        match rustix::io::write(&self.links[at].io, &request[connection.written..]) {
            Ok(count) if connection.written + count == request.len() => connection.state = State::Waiting,
            Ok(count) => {
                let written = connection.written + count;
                self.write_later(at, written);
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                let written = connection.written;
                self.write_later(at, written);
            }
            Err(error) => self.end(at, Class::of(&error.into())),
        }
    }

    /// Reads from a connection that is ready.
    #[inline]
    fn read(&mut self, at: usize) {
        self.inbox.clear();
        match rustix::io::read(&self.links[at].io, spare_capacity(&mut self.inbox)) {
            // t3: right after the read that may complete a response.
            Ok(count) if count > 0 => self.received(at, self.clock.now()),
            Ok(_) => self.ended(at),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.end(at, Class::of(&error.into())),
        }
    }

    #[inline]
    fn received(&mut self, at: usize, now: u64) {
        let connection = &mut self.connections[at];
        if connection.state != State::Waiting {
            // Nothing was asked, or not all of it.
            self.end(at, Class::Wrong);
            return;
        }
        let (taken_bytes, reply) = self.speaker.read(connection.asked, &mut connection.reader, &self.inbox);
        let Some(reply) = reply else { return };
        match reply {
            Reply::Good => {}
            Reply::Bad(class) => self.ledger.errors().count(class, 1),
            Reply::Last(wrong) => return self.last(at, now, wrong),
            Reply::Garbage => return self.end(at, Class::Wrong),
        }
        connection.state = State::Thinking;
        self.complete(at, now);
        if taken_bytes < self.inbox.len() {
            return self.end(at, Class::Wrong);
        }
        if self.think.is_none() {
            self.send(at, now);
        } else {
            let due = now.saturating_add(self.think_ticks());
            self.timers.push(Reverse((due, at as u32)));
        }
    }

    /// The server ended the connection, and with it perhaps a response.
    #[cold]
    fn ended(&mut self, at: usize) {
        let now = self.clock.now();
        let connection = &mut self.connections[at];
        let reply = match connection.state {
            State::Waiting => self.speaker.end(connection.asked, &mut connection.reader),
            State::Writing => None,
            State::Thinking | State::Dead => return self.end(at, Class::Reset),
        };
        match reply {
            Some(Reply::Last(wrong)) => self.last(at, now, wrong),
            _ => self.end(at, Class::Short),
        }
    }

    /// A response came with which the connection ends.
    #[cold]
    fn last(&mut self, at: usize, now: u64, wrong: Option<Class>) {
        wrong.into_iter().for_each(|class| self.ledger.errors().count(class, 1));
        self.connections[at].state = State::Thinking;
        self.complete(at, now);
        self.end(at, Class::Closed);
    }

    fn think_ticks(&mut self) -> u64 {
        let mean_ns = self.think.mean_ns as f64;
        let factor = if self.think.exponential { -(1.0 - self.random.random::<f64>()).ln() } else { 1.0 };
        self.clock.ticks(mean_ns * factor)
    }

    /// Accounts for a connection's transaction, which is complete.
    #[inline]
    fn complete(&mut self, at: usize, now: u64) {
        let transaction = self.transaction(at, now);
        self.ledger.complete(transaction);
    }

    /// A connection's transaction; `complete` is 0 if its response did not come.
    #[inline]
    fn transaction(&self, at: usize, complete: u64) -> Transaction {
        let Connection { due, sent, .. } = self.connections[at];
        Transaction { due, sent, complete, connection: at as u32, ..Transaction::default() }
    }

    /// The connection is of no use any more; its outstanding request will not be answered.
    #[cold]
    fn end(&mut self, at: usize, class: Class) {
        let link = &self.links[at];
        link.fail(class);
        self.alive -= 1;
        self.lose(at);
        self.connections[at].state = State::Dead;
        // It stays open, so that its number is not used again; it only must not be reported for ever.
        self.waiter.forget(link.io.as_fd());
    }

    /// What is outstanding on a connection will not be answered any more.
    fn lose(&mut self, at: usize) {
        if matches!(self.connections[at].state, State::Waiting | State::Writing) {
            // A connection that failed counts for it.
            let class = self.links[at].failure().unwrap_or(Class::Timeout);
            let transaction = self.transaction(at, 0);
            self.ledger.lose(transaction, class);
        } else if let Some(class) = self.links[at].failure() {
            self.ledger.errors().count(class, 1);
        }
    }

    /// The drain is over.
    fn end_all(&mut self) {
        for at in 0..self.links.len() {
            let state = self.connections[at].state;
            self.ledger.leave(u64::from(matches!(state, State::Waiting | State::Writing)));
            if state != State::Dead {
                self.lose(at);
            }
        }
    }
}
