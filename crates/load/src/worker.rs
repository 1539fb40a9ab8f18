//! A worker of a closed loop: on each of its connections the next request is sent when the response has come, after the time
//! to think. It sleeps until a response comes or a time to think is over, so that one without CPU to spare is seen by the CPU
//! time that it took. No lock, and no allocation but where a response's line comes in two pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use stats::Histogram;

use crate::class::Class;
use crate::clock::Clock;
use crate::closed::samples_max;
use crate::config::{LoadConfig, Think};
use crate::error::LoadError;
use crate::progress::Progress;
use crate::record::Link;
use crate::report::{Errors, PARTS};
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
/// A transaction of the window, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    /// t1.
    pub due: u64,
    /// t2; 0 if it was not sent.
    pub sent: u64,
    /// t3; 0 if it did not come.
    pub complete: u64,
    /// On which of the worker's connections.
    pub connection: u32,
}

/// What a worker kept besides single transactions.
#[derive(Debug)]
pub struct Tally {
    /// Transactions completed in each part of the window.
    pub completed_by_part: [u64; PARTS],
    /// Requests sent in the window.
    pub sent: u64,
    /// Outstanding when the window began, and when it ended.
    pub outstanding: [u64; 2],
    /// Responses that were whole, and not what they should be.
    pub errors: Errors,
    /// Transactions that there was no memory for.
    pub unsampled: u64,
    /// Their lag, service and response time.
    pub beyond: [Histogram; 3],
    /// CPU time and ticks when the window began, and when it ended.
    pub used: [Used; 2],
}

/// CPU time that a thread has used by some tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    cpu_ns: u64,
    at: u64,
}

impl Used {
    fn now(clock: &Clock) -> Self {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Self { cpu_ns: used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64, at: clock.now() }
    }
}

impl Tally {
    /// Of nothing so far.
    pub fn new() -> Self {
        Self {
            completed_by_part: [0; PARTS],
            sent: 0,
            outstanding: [0; 2],
            errors: Errors::default(),
            unsampled: 0,
            beyond: [Histogram::new(), Histogram::new(), Histogram::new()],
            used: [Used::default(); 2],
        }
    }

    /// The share of one CPU that the worker used in the window; `None` if it did not see both ends of it.
    pub fn busy_share(&self, clock: &Clock) -> Option<f64> {
        let [start, end] = self.used;
        (start.at != 0 && end.at > start.at)
            .then(|| (end.cpu_ns - start.cpu_ns) as f64 / clock.between_ns(start.at, end.at) as f64)
    }
}

/// When the phases of a closed loop begin and end, in ticks.
#[derive(Clone, Debug)]
pub struct Times {
    /// The first requests are sent.
    pub start: u64,
    /// Transactions due in it are the result.
    pub window: Range<u64>,
    /// Nothing is waited for any more.
    pub drained: u64,
}

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
    /// How many of them requests are sent on; the others are idle.
    active: usize,
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
    times: Times,
    /// Where the part of the window that counts now ends, and its length.
    part: usize,
    part_end: u64,
    part_ticks: u64,
    retry_ticks: u64,
    outstanding: u64,
    alive: usize,
    transactions: Vec<Transaction>,
    tally: Tally,
    progress: &'a Progress,
}

impl<'a, S: Speak> Worker<'a, S> {
    /// Room for everything that will be needed, touched. `links` are the worker's connections, of which requests are sent on the
    /// first `active`; `worker` is its number.
    ///
    /// # Errors
    /// What the system says of waiting for them; or there is no memory.
    pub fn new(
        clock: Clock,
        speaker: &'a S,
        config: &LoadConfig,
        worker: u32,
        (links, active): (&'a [Link], usize),
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let failed = |error: Errno| LoadError::System { what: "waiting for responses", error: error.into() };
        let waiter = Waiter::new().map_err(failed)?;
        for (at, link) in links.iter().enumerate() {
            waiter.add(link.io.as_fd(), at).map_err(failed)?;
        }
        let samples = samples_max(config) as usize;
        let mut transactions = Vec::new();
        transactions.try_reserve_exact(samples).map_err(|_| LoadError::Memory {
            requests: samples as u64 * u64::from(config.clients),
            bytes: size_of::<Transaction>(),
        })?;
        // Every page of it.
        transactions.resize(samples, Transaction { due: 1, ..Transaction::default() });
        transactions.clear();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        (0..worker).for_each(|_| random.jump());
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
            active,
            connections: (0..links.len()).map(connection).collect(),
            waiter,
            inbox: Vec::with_capacity(READ_BYTES),
            scratch: Vec::with_capacity(speaker.request_bytes_max()),
            timers: BinaryHeap::with_capacity(links.len() + 1),
            think: config.think,
            random,
            number: run::first_of(worker as usize),
            times: Times { start: 0, window: 0..0, drained: 0 },
            part: 0,
            part_end: 0,
            part_ticks: 0,
            retry_ticks: clock.ticks(RETRY_NS),
            outstanding: 0,
            alive: links.len(),
            transactions,
            tally: Tally::new(),
            progress,
        })
    }

    /// Runs from the first request to the last response; answers what came of it.
    pub fn run(mut self, times: Times, stop: &AtomicBool) -> (Vec<Transaction>, Tally) {
        self.part_ticks = ((times.window.end - times.window.start) / PARTS as u64).max(1);
        self.part_end = times.window.start + self.part_ticks;
        self.times = times;
        // With a time to think the first requests are spread over it, as later ones are.
        let think_ticks = self.clock.ticks(self.think.mean_ns as f64) as f64;
        for at in 0..self.active {
            let due = self.times.start + (think_ticks * self.random.random::<f64>()) as u64;
            self.timers.push(Reverse((due, at as u32)));
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        let edges = [self.times.window.start, self.times.window.end];
        let mut edge = 0;
        loop {
            let now = self.clock.now();
            if edge < edges.len() && now >= edges[edge] {
                self.tally.outstanding[edge] = self.outstanding;
                self.tally.used[edge] = Used::now(&self.clock);
                edge += 1;
            }
            self.go_on(now);
            let is_over = edge == edges.len() && self.outstanding == 0;
            if is_over || now >= self.times.drained || self.alive == 0 || stop.load(Relaxed) {
                break;
            }
            let until = edges.get(edge).copied().unwrap_or(self.times.drained);
            self.wait(&mut events, until);
            for (at, _) in events.iter() {
                self.read(at);
            }
        }
        self.end_all();
        (self.transactions, self.tally)
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
        if due >= self.times.window.end {
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
        self.tally.sent += u64::from(self.times.window.contains(&connection.sent));
        self.outstanding += 1;
        self.progress.add_sent();
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
            Reply::Bad(class) => self.tally.errors.count(class, 1),
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
            let due = now + self.think_ticks();
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
        wrong.into_iter().for_each(|class| self.tally.errors.count(class, 1));
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
        self.outstanding -= 1;
        self.progress.add_completed(1);
        if self.times.window.contains(&now) {
            while now >= self.part_end && self.part < PARTS - 1 {
                self.part += 1;
                self.part_end += self.part_ticks;
            }
            self.tally.completed_by_part[self.part] += 1;
        }
        self.keep(at, now);
    }

    /// Keeps a connection's transaction, if it was due in the window; `complete` is 0 if its response did not come.
    #[inline]
    fn keep(&mut self, at: usize, complete: u64) {
        let Connection { due, sent, .. } = self.connections[at];
        if !self.times.window.contains(&due) {
            return;
        }
        if self.transactions.len() < self.transactions.capacity() {
            self.transactions.push(Transaction { due, sent, complete, connection: at as u32 });
            return;
        }
        self.tally.unsampled += 1;
        let known = |from: u64, to: u64| (to != 0).then(|| self.clock.between_ns(from, to).max(0) as u64);
        let times = [known(due, sent), known(sent, complete), known(due, complete)];
        for (histogram, time_ns) in self.tally.beyond.iter_mut().zip(times) {
            if let Some(time_ns) = time_ns {
                histogram.record(time_ns);
            }
        }
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
            self.outstanding -= 1;
            self.progress.add_lost(1);
            self.keep(at, 0);
            // A connection that failed counts for it.
            let class = self.links[at].failure().unwrap_or(Class::Timeout);
            self.tally.errors.count(class, 1);
        } else if let Some(class) = self.links[at].failure() {
            self.tally.errors.count(class, 1);
        }
    }

    /// The drain is over.
    fn end_all(&mut self) {
        for at in 0..self.links.len() {
            if self.connections[at].state != State::Dead {
                self.lose(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClockChoice, Phases};
    use crate::speak::Fixed;

    #[test]
    fn what_there_is_no_memory_for_is_counted_and_in_the_histograms() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let phases = Phases { ramp_ns: 0, hold_ns: 0, measure_ns: 20_000, drain_ns: 0 };
        let config = LoadConfig { phases, ..LoadConfig::new(([127, 0, 0, 1], 0), service) };
        assert_eq!(samples_max(&config), 10);
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let links = [Link::new(std::fs::File::open("/dev/null").unwrap().into())];
        let (fixed, progress) = (Fixed::new(1, 1), Progress::default());
        // A file cannot be waited for: of no connection is anything asked here.
        let mut worker = Worker::new(clock, &fixed, &config, 0, (&[], 0), &progress).unwrap();
        worker.links = &links;
        let connection = Connection { state: State::Waiting, asked: (), reader: 0, due: 0, sent: 0, written: 0 };
        worker.connections.push(connection);
        worker.times.window = 1_000..2_000;
        for number in 0..15 {
            worker.connections[0].due = 1_000 + number;
            worker.connections[0].sent = 1_010 + number;
            // The last one did not come.
            worker.keep(0, if number == 14 { 0 } else { 1_510 + number });
        }
        worker.connections[0].due = 2_000;
        worker.keep(0, 2_001);
        assert_eq!((worker.transactions.len(), worker.tally.unsampled), (10, 5), "none that was due after the window");
        let [lag, service, response] = &worker.tally.beyond;
        assert_eq!((lag.count(), service.count(), response.count()), (5, 4, 4));
        assert_eq!((lag.quantile(0.5), service.quantile(0.5), response.quantile(0.5)), (10, 500, 510));
    }
}
