//! Churn: connections that end after so many requests ("calls"), so that a server has to accept all the time.
//!
//! In a closed loop another connection takes the place of one that has ended, at once or when its user has thought. In an open
//! loop there are sessions, as httperf has them: they begin by the schedule, at the rate of requests divided by the calls; each
//! connects at its planned time, sends its requests one after the other, the next when the response has come, and closes. At
//! most `connections` are open: a session beyond that waits for its turn, since one that is left out would not be asked for by
//! anybody, and its waiting is in its response time. What was planned and could not be begun is kept as requests that were not
//! sent.
//!
//! t1 of a connection's first request is when it was to be opened, so that its response time has the connecting in it; t2 is as
//! always just before the request is written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use stats::Histogram;

use crate::class::Class;
use crate::clock::Clock;
use crate::closed::{self, samples_max};
use crate::config::{LoadConfig, Pacing, Roles, Schedule, Think};
use crate::connect::Dialer;
use crate::error::LoadError;
use crate::late::LateSends;
use crate::ledger::{Kept, Ledger, Tally, Times, Transaction};
use crate::progress::Progress;
use crate::report::{ChurnReport, LoadReport, Sample};
use crate::run::{self, Connected, Listener, Outcome};
use crate::spare::{self, Turns};
use crate::speak::{Reply, Speak};
use crate::summary::{self, Facts};
use crate::waiter::{Events, Waiter};
use crate::{placement, ports, schedule};

/// Most bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
/// Most events taken by one wait.
const EVENTS_MAX: usize = 256;
/// Longest sleep, after which a client looks whether it is done.
const SLEEP_MS: u64 = 5;
/// Pause between two tries to write what a full socket did not take, or to connect where too many wait, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;
/// Pause after a connection that failed, in nanoseconds: a server that is gone is not to be asked as fast as the CPU can.
const FAILED_NS: f64 = 10_000_000.0;
/// Pause between two looks for what takes longer than the timeout, in nanoseconds.
const LOOK_NS: f64 = 100_000_000.0;
/// `sleep-spin` wakes this long before a planned time.
const SPIN_NS: i64 = 60_000;

/// What makes no sense where connections come and go.
pub fn validate(config: &LoadConfig) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    match config.calls_per_connection {
        None => return Ok(()),
        Some(0) => return wrong("calls per connection: at least 1"),
        Some(_) => {}
    }
    if config.datagrams {
        return wrong("calls per connection: datagrams have no connections that could end; use tcp");
    }
    if config.active < 1.0 || config.choice != crate::config::Choice::Uniform {
        return wrong("active, choice: connections that come and go all send the same; leave them out");
    }
    if config.timestamps == crate::config::Timestamps::Kernel {
        return wrong("timestamps: the kernel's are of connections that stay; use `client`");
    }
    if config.roles == Roles::TwoThreads {
        return wrong("roles: a client whose connections come and go is one loop; use `auto`");
    }
    Ok(())
}

/// Runs a load whose connections come and go. The one of `connected` was there to verify the server.
pub fn run<S: Speak>(
    config: &LoadConfig,
    speaker: &S,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, connect_ns, links, .. } = connected;
    drop(links);
    let sources = ports::sources(config).map_err(LoadError::Config)?;
    let is_open = config.schedule != Schedule::Closed;
    let pacing = is_open.then(|| placement::resolve(&LoadConfig { roles: Roles::OneLoop, ..config.clone() }).1);
    let progress: Vec<Progress> = (0..config.clients).map(|_| Progress::default()).collect();
    let part = |total: u32, number: u32| (u64::from(total) * u64::from(number) / u64::from(config.clients)) as usize;
    let share = |total: u32, number: u32| part(total, number)..part(total, number + 1);
    let dialer = Dialer::new(config, &sources)?;
    let churners = (0..config.clients).zip(&progress).map(|(number, progress)| {
        Churner::new((clock, speaker, config), number, share(config.connections, number), &dialer, pacing, progress)
    });
    let mut churners: Vec<Churner<'_, S>> = churners.collect::<Result<_, _>>()?;

    // Known only now that all memory is set aside.
    let start = run::begin(&clock, listener)?;
    let window = run::window(config, &clock, start);
    let drained = window.end + clock.ticks(config.phases.drain_ns as f64);
    let times = Times { start, window: window.clone(), drained };
    churners.iter_mut().for_each(|churner| churner.begin(times.clone()));
    let loops = churners.into_iter().map(|churner| move |stop: &AtomicBool| churner.run(stop));
    let progress: Vec<&Progress> = progress.iter().collect();
    let (kept, usage) = run::run_threads(config, (&clock, start), &progress, pacing, loops, listener)?;

    let facts = Facts {
        config,
        roles: Roles::OneLoop,
        pacing,
        clock: &clock,
        connect_ns,
        window,
        usage,
        links: &[],
        kernel: None,
    };
    let (samples, report) = report(&facts, kept, sources.len().max(1), bytes_per_connection::<S>() as f64);
    Ok(Outcome { report, samples, connections: Vec::new() })
}

/// What one client kept.
struct Account {
    kept: Kept,
    /// Connections opened: when it was begun as t1, established as t2, and answered first as t3.
    opened: Vec<Transaction>,
    /// How many of the window there were, those beyond the memory included.
    opened_count: u64,
    waited: u64,
    /// Sessions that have come: when they were planned, and how late the client was.
    sessions: Vec<(u64, u64)>,
    /// The share of the window in which it had something to do.
    busy_share: Option<f64>,
}

fn report(facts: &Facts<'_>, accounts: Vec<Account>, sources: usize, memory: f64) -> (Vec<Sample>, LoadReport) {
    let (config, clock, window) = (facts.config, facts.clock, &facts.window);
    let window_s = config.phases.measure_ns as f64 / 1e9;
    let part = |number: u32| (u64::from(config.connections) * u64::from(number) / u64::from(config.clients)) as u32;
    let firsts = || (0..config.clients).map(part);
    let waited = accounts.iter().map(|account| account.waited).sum();
    let busy: Vec<Option<f64>> = accounts.iter().map(|account| account.busy_share).collect();
    let opened_count: u64 = accounts.iter().map(|account| account.opened_count).sum();
    let came = |&(due, late): &(u64, u64)| Transaction { due, sent: due + late, ..Transaction::default() };
    let in_window = |account: &Account| -> Kept {
        let came = account.sessions.iter().map(came).filter(|it| window.contains(&it.due));
        (came.collect(), Tally::new())
    };
    let sessions = closed::samples(clock, window, &accounts.iter().map(in_window).collect::<Vec<_>>(), firsts());
    let (kept, opened): (Vec<Kept>, Vec<Kept>) =
        accounts.into_iter().map(|Account { kept, opened, .. }| (kept, (opened, Tally::new()))).unzip();
    let samples = closed::samples(clock, window, &kept, firsts());
    let opened = closed::samples(clock, window, &opened, firsts());
    // How late the client was: with the beginning of a connection, or of a request.
    let begun = |(transactions, tally): &Kept| {
        let begun = |it: &Transaction| match it.sent {
            0 => *it,
            _ => Transaction { sent: it.due + it.late, ..*it },
        };
        (transactions.iter().map(begun).collect::<Vec<_>>(), Tally { errors: tally.errors, ..Tally::new() })
    };
    let begun = closed::samples(clock, window, &kept.iter().map(begun).collect::<Vec<_>>(), firsts());
    let tallies: Vec<&Tally> = kept.iter().map(|(_, tally)| tally).collect();
    let report = closed::report(facts, &tallies, &samples, memory);
    let is_open = config.schedule != Schedule::Closed;
    let calls = f64::from(config.calls_per_connection.unwrap_or(1));
    let lag = summary::measured(&begun, config.phases.measure_ns, summary::lag_ns);
    // An open loop plans sessions alone: each other request follows the response before it, and would dilute those that are late.
    let planned = if is_open { &sessions } else { &begun };
    let delays: Histogram = planned.iter().filter_map(summary::lag_ns).map(|ns| ns.max(0) as u64).collect();
    // Both are the same requests, by the time at which they were due.
    let times = begun.iter().zip(&samples).map(|(begun, it)| (summary::lag_ns(begun), summary::service_ns(it)));
    let late = LateSends::of(&delays, &report.service.histogram).with_on_time(times);
    let report = LoadReport {
        late: Some(late),
        receiver_busy_share: spare::busiest(busy).filter(|_| is_open),
        fit: config.rate_per_s.and_then(|rate_per_s| summary::fit(&sessions, 1e9 * calls / rate_per_s)),
        closed: report.closed.filter(|_| !is_open),
        lag,
        churn: Some(ChurnReport {
            calls_per_connection: config.calls_per_connection.unwrap_or(1),
            opened: opened_count,
            opened_per_s: opened_count as f64 / window_s,
            waited,
            sources: sources as u32,
            connect: summary::measured(&opened, config.phases.measure_ns, summary::lag_ns),
            first_byte: summary::measured(&opened, config.phases.measure_ns, summary::response_ns),
        }),
        ..report
    };
    (samples, report)
}

/// A place for a connection.
struct Slot<S: Speak> {
    io: Option<OwnedFd>,
    state: State,
    asked: S::Asked,
    reader: S::Reader,
    /// t1 and t2 of its transaction, and how late the client was with it.
    due: u64,
    sent: u64,
    late: u64,
    /// Bytes of the request that the socket took, while it has not taken all.
    written: u32,
    /// Requests that are still to be sent: the one that is outstanding, and those after it.
    calls: u32,
    /// When its connection was begun, established, and answered first.
    opened: [u64; 3],
    /// Whether it was not established at once.
    is_awaited: bool,
    /// When it is to go on that waits for a time; 0 if it does not. Other timers are of a connection that has failed since.
    timer: u64,
}

impl<S: Speak> Slot<S> {
    /// Ends its connection, which is what leaves it in TIME_WAIT on this side.
    #[inline]
    fn close(&mut self) {
        self.io = None;
        self.opened = [0; 3];
        self.is_awaited = false;
        self.timer = 0;
    }

    /// Whether its connection is being made: also while it is tried again and again.
    #[inline]
    fn is_opening(&self) -> bool {
        self.state == State::Opening || (self.state == State::Closed && self.opened[0] != 0)
    }
}

/// What a slot is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no connection, and none is due.
    Free,
    /// A connection is to be opened.
    Closed,
    /// A connection is being made, and its first request is to follow.
    Opening,
    /// The next request is not due yet.
    Thinking,
    /// A full socket did not take all of a request.
    Writing,
    /// A response is due.
    Waiting,
}

/// Bytes of user memory for each connection.
const fn bytes_per_connection<S: Speak>() -> usize {
    size_of::<Slot<S>>() + size_of::<Reverse<(u64, u32)>>() + size_of::<u32>()
}

/// One thread's part.
struct Churner<'a, S: Speak> {
    clock: Clock,
    speaker: &'a S,
    dialer: &'a Dialer<'a>,
    slots: Vec<Slot<S>>,
    /// Slots without a connection, in an open loop.
    free: Vec<u32>,
    waiter: Waiter,
    inbox: Vec<u8>,
    scratch: Vec<u8>,
    /// When slots are to go on that wait for a time, and not for a response.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// When each session is planned, and then when the client got round to it; none in a closed loop.
    sessions: Vec<(u64, u64)>,
    /// How many of them have come, and how many of those have a connection or had one.
    arrived: usize,
    begun: usize,
    waited: u64,
    calls: u32,
    think: Think,
    pacing: Option<Pacing>,
    random: Xoshiro256PlusPlus,
    /// The number of the next request, and of the next connection.
    number: u64,
    dialed: u64,
    timeout_ticks: u64,
    retry_ticks: u64,
    failed_ticks: u64,
    look_ticks: u64,
    look_at: u64,
    opened: Vec<Transaction>,
    opened_count: u64,
    ledger: Ledger<'a>,
}

impl<'a, S: Speak> Churner<'a, S> {
    /// Room for everything that will be needed. `connections` are its own.
    fn new(
        (clock, speaker, config): (Clock, &'a S, &LoadConfig),
        number: u32,
        connections: Range<usize>,
        dialer: &'a Dialer<'a>,
        pacing: Option<Pacing>,
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let failed = |error: Errno| LoadError::System { what: "waiting for responses", error: error.into() };
        let waiter = Waiter::new().map_err(failed)?;
        let calls = config.calls_per_connection.unwrap_or(1).max(1);
        let sessions: Vec<(u64, u64)> = match config.schedule {
            Schedule::Closed => Vec::new(),
            _ => {
                let rate_per_s = config.rate_per_s.map(|rate_per_s| rate_per_s / f64::from(calls));
                let of_sessions = LoadConfig { rate_per_s, ..config.clone() };
                let planned = schedule::planned(&of_sessions, 1, number);
                planned.map(|planned| (clock.ticks(planned.at_ns), 0)).collect()
            }
        };
        let samples = match config.schedule {
            Schedule::Closed => samples_max(config),
            _ => sessions.len() as u64 * u64::from(calls),
        };
        let opened_max = match config.schedule {
            Schedule::Closed => samples_max(config),
            _ => sessions.len() as u64,
        };
        let mut opened = Vec::new();
        opened.try_reserve_exact(opened_max as usize).map_err(|_| LoadError::Memory {
            requests: opened_max * u64::from(config.clients),
            bytes: size_of::<Transaction>(),
        })?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        (0..config.client(number)).for_each(|_| random.jump());
        let slot = |_| Slot {
            io: None,
            state: State::Free,
            asked: S::Asked::default(),
            reader: S::Reader::default(),
            due: 0,
            sent: 0,
            late: 0,
            written: 0,
            calls: 0,
            opened: [0; 3],
            is_awaited: false,
            timer: 0,
        };
        Ok(Self {
            slots: connections.clone().map(slot).collect(),
            free: (0..connections.len() as u32).rev().collect(),
            clock,
            speaker,
            dialer,
            waiter,
            inbox: Vec::with_capacity(READ_BYTES),
            scratch: Vec::with_capacity(speaker.request_bytes_max()),
            timers: BinaryHeap::with_capacity(connections.len() + 1),
            sessions,
            arrived: 0,
            begun: 0,
            waited: 0,
            calls,
            think: config.think,
            pacing,
            random,
            number: run::first_of(config.client(number)),
            dialed: connections.start as u64,
            timeout_ticks: clock.ticks(config.timeout_ns as f64),
            retry_ticks: clock.ticks(RETRY_NS),
            failed_ticks: clock.ticks(FAILED_NS),
            look_ticks: clock.ticks(LOOK_NS),
            look_at: 0,
            opened,
            opened_count: 0,
            ledger: Ledger::new(clock, config, samples, progress)?,
        })
    }

    fn is_open(&self) -> bool {
        self.pacing.is_some()
    }

    /// The ramp begins then.
    fn begin(&mut self, times: Times) {
        self.sessions.iter_mut().for_each(|(planned, _)| *planned += times.start);
        self.look_at = times.start;
        if !self.is_open() {
            // With a time to think the first connections are spread over it, as later ones are.
            let think_ticks = self.clock.ticks(self.think.mean_ns as f64) as f64;
            for at in 0..self.slots.len() {
                let due = times.start.saturating_add((think_ticks * self.random.random::<f64>()) as u64);
                self.open_at(at, due);
            }
        }
        self.ledger.begin(times);
    }

    /// Runs from the first connection to the last response; answers what came of it.
    fn run(mut self, stop: &AtomicBool) -> Account {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut turns = Turns::new(self.ledger.times().window.clone());
        let mut is_spare = false;
        loop {
            let now = self.clock.now();
            turns.begin(now, is_spare);
            self.ledger.look(now, self.waiting());
            let has_due = self.go_on(now);
            let has_sessions = self.begun < self.sessions.len() || self.free.len() < self.slots.len();
            let is_done = self.ledger.is_over(now)
                && !(self.is_open() && has_sessions)
                && !self.slots.iter().any(Slot::is_opening);
            if is_done || now >= self.ledger.times().drained || stop.load(Relaxed) {
                break;
            }
            if self.wait(&mut events) && self.is_open() {
                turns.begin(self.clock.now(), true);
            }
            is_spare = !has_due && events.iter().next().is_none();
            for (at, _) in events.iter() {
                self.handle(at);
                if self.is_open() {
                    self.arrive(self.clock.now());
                }
            }
        }
        self.end_all();
        self.sessions.truncate(self.arrived);
        Account {
            kept: self.ledger.close(),
            opened: self.opened,
            opened_count: self.opened_count,
            waited: self.waited,
            sessions: self.sessions,
            busy_share: turns.busy_share(),
        }
    }

    /// Requests of sessions that have come and have no connection yet.
    fn waiting(&self) -> u64 {
        (self.arrived - self.begun) as u64 * u64::from(self.calls)
    }

    /// Waits until something came, at most until a slot is to go on or a session begins; answers whether it slept.
    #[inline]
    fn wait(&self, events: &mut Events) -> bool {
        let session = self.sessions.get(self.arrived).map_or(u64::MAX, |&(planned, _)| planned);
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let next = self.ledger.next_edge().min(session).min(timer);
        let ahead_ns = self.clock.between_ns(self.clock.now(), next).max(0);
        let ahead_ns = match self.pacing {
            None => ahead_ns,
            Some(Pacing::SleepSpin) => (ahead_ns - SPIN_NS).max(0),
            Some(Pacing::Yield) => {
                thread::yield_now();
                0
            }
            Some(Pacing::Spin | Pacing::Auto) => 0,
        };
        // epoll_wait counts in milliseconds: it sleeps as long as that is too early, and the rest is for a finer sleep.
        let sleep = Duration::from_millis(SLEEP_MS);
        if ahead_ns as u64 >= sleep.as_nanos() as u64 {
            let _ = self.waiter.wait(events, sleep);
            return true;
        }
        let _ = self.waiter.wait(events, Duration::ZERO);
        let sleeps = ahead_ns > 0 && events.iter().next().is_none();
        if sleeps {
            self.waiter.doze(ahead_ns);
            let _ = self.waiter.wait(events, Duration::ZERO);
        }
        sleeps
    }

    /// Does what is due; answers whether anything was.
    #[inline]
    fn go_on(&mut self, now: u64) -> bool {
        let (number, dialed) = (self.number, self.dialed);
        while let Some(&Reverse((due, at))) = self.timers.peek()
            && due <= now
        {
            self.timers.pop();
            let at = at as usize;
            if self.slots[at].timer != due {
                continue;
            }
            self.slots[at].timer = 0;
            match self.slots[at].state {
                State::Closed => self.open(at),
                State::Thinking => self.send(at, due),
                State::Writing => self.write_on(at),
                State::Free | State::Opening | State::Waiting => {}
            }
        }
        if self.is_open() {
            self.arrive(now);
        }
        if now >= self.look_at {
            self.look_at = now + self.look_ticks;
            self.give_up(now);
        }
        (number, dialed) != (self.number, self.dialed)
    }

    /// Begins the sessions that have come.
    #[inline]
    fn arrive(&mut self, now: u64) {
        while let Some((planned, late)) = self.sessions.get_mut(self.arrived)
            && *planned <= now
        {
            // Of several that are due at once, those before took their time.
            *late = self.clock.now().saturating_sub(*planned);
            self.arrived += 1;
            self.waited += u64::from(self.free.is_empty());
            self.begin_sessions();
        }
        self.begin_sessions();
    }

    /// Gives sessions that have come a connection, as long as there may be more.
    #[inline]
    fn begin_sessions(&mut self) {
        while self.begun < self.arrived
            && let Some(at) = self.free.pop()
        {
            let (planned, late) = self.sessions[self.begun];
            self.begun += 1;
            let slot = &mut self.slots[at as usize];
            (slot.due, slot.late, slot.calls, slot.state) = (planned, late, self.calls, State::Closed);
            self.open(at as usize);
        }
    }

    /// A slot is to go on then.
    #[inline]
    fn wake_at(&mut self, at: usize, due: u64) {
        self.slots[at].timer = due;
        self.timers.push(Reverse((due, at as u32)));
    }

    /// A slot's next connection is due then, in a closed loop.
    fn open_at(&mut self, at: usize, due: u64) {
        let slot = &mut self.slots[at];
        (slot.due, slot.calls, slot.state) = (due, self.calls, State::Closed);
        self.wake_at(at, due);
    }

    /// Begins a slot's connection.
    #[inline]
    fn open(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if self.pacing.is_none() && slot.due >= self.ledger.times().window.end {
            slot.state = State::Free;
            return;
        }
        slot.reader = S::Reader::default();
        let begun = self.clock.now();
        if self.pacing.is_none() {
            slot.late = begun.saturating_sub(slot.due);
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
            // A Unix socket where too many wait to be accepted: no event tells when to try again.
            Err(Errno::AGAIN) if begun - slot.opened[0] < self.timeout_ticks => {
                self.wake_at(at, begun + self.retry_ticks);
            }
            Err(error) => self.fail(at, Class::of(&error.into())),
        }
    }

    /// Begins a slot's next transaction, which is due.
    #[inline]
    fn send(&mut self, at: usize, due: u64) {
        if !self.is_open() && due >= self.ledger.times().window.end {
            self.slots[at].state = State::Thinking;
            return;
        }
        self.ask(at, due, false);
    }

    /// The same of a connection that may not be established yet; t1 is when it was to be opened.
    #[inline]
    fn send_first(&mut self, at: usize) {
        self.ask(at, self.slots[at].due, true);
    }

    #[inline]
    fn ask(&mut self, at: usize, due: u64, is_first: bool) {
        let asked = self.speaker.asked(self.number);
        let request = self.speaker.request(asked, &mut self.scratch);
        let slot = &mut self.slots[at];
        let Some(io) = &slot.io else { return };
        // t2: nothing but the write is between here and the kernel.
        let sent = self.clock.now();
        let written = rustix::io::write(io, request);
        if is_first && matches!(written, Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN)) {
            // It tells when it is established, and the same is asked then.
            if !std::mem::replace(&mut slot.is_awaited, true)
                && let Err(error) = self.waiter.await_write(io.as_fd(), at)
            {
                self.fail(at, Class::of(&error.into()));
            }
            return;
        }
        self.number += 1;
        if !is_first {
            slot.late = sent.saturating_sub(due);
        }
        (slot.asked, slot.due, slot.sent) = (asked, due, sent);
        // A first one that fails found no connection: it was not sent.
        if !is_first || written.is_ok() {
            slot.state = State::Waiting;
            self.ledger.sent(sent);
        }
        let written = match written {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return self.fail(at, Class::of(&error.into())),
        };
        let is_whole = written == request.len();
        if is_first {
            slot.opened[1] = sent;
            let watched = match slot.is_awaited {
                true => self.waiter.await_read(io.as_fd(), at),
                false => self.waiter.add(io.as_fd(), at),
            };
            if let Err(error) = watched {
                return self.fail(at, Class::of(&error.into()));
            }
        }
        if !is_whole {
            self.write_later(at, written);
        }
    }

    #[cold]
    fn write_later(&mut self, at: usize, written: usize) {
        let slot = &mut self.slots[at];
        (slot.state, slot.written) = (State::Writing, written as u32);
        self.wake_at(at, self.clock.now() + self.retry_ticks);
    }

    /// Offers the rest of a request to a socket that did not take all of it.
    #[cold]
    fn write_on(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let request = self.speaker.request(slot.asked, &mut self.scratch);
        let (Some(io), before) = (&slot.io, slot.written as usize) else { return };
        match rustix::io::write(io, &request[before..]) {
            Ok(count) if before + count == request.len() => slot.state = State::Waiting,
            Ok(count) => self.write_later(at, before + count),
            Err(Errno::AGAIN | Errno::INTR) => self.write_later(at, before),
            Err(error) => self.fail(at, Class::of(&error.into())),
        }
    }

    /// Goes on with a connection that is ready.
    #[inline]
    fn handle(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let Some(io) = &slot.io else { return };
        if slot.state == State::Opening {
            return self.send_first(at);
        }
        self.inbox.clear();
        match rustix::io::read(io, spare_capacity(&mut self.inbox)) {
            // t3: right after the read that may complete a response.
            Ok(count) if count > 0 => self.received(at, self.clock.now()),
            Ok(_) => self.ended(at),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.fail(at, Class::of(&error.into())),
        }
    }

    #[inline]
    fn received(&mut self, at: usize, now: u64) {
        let slot = &mut self.slots[at];
        if slot.state != State::Waiting {
            // Nothing was asked, or not all of it.
            return self.fail(at, Class::Wrong);
        }
        self.first_byte(at, now);
        let slot = &mut self.slots[at];
        let (taken_bytes, reply) = self.speaker.read(slot.asked, &mut slot.reader, &self.inbox);
        let is_last = match reply {
            None => return,
            Some(Reply::Good) => false,
            Some(Reply::Bad(class)) => {
                self.ledger.errors().count(class, 1);
                false
            }
            Some(Reply::Last(wrong)) => {
                wrong.into_iter().for_each(|class| self.ledger.errors().count(class, 1));
                true
            }
            Some(Reply::Garbage) => return self.fail(at, Class::Wrong),
        };
        self.complete(at, now);
        if taken_bytes < self.inbox.len() {
            return self.fail(at, Class::Wrong);
        }
        self.next(at, now, is_last);
    }

    /// Notes when a connection brought its first byte.
    #[inline]
    fn first_byte(&mut self, at: usize, now: u64) {
        let [due, sent, first] = &mut self.slots[at].opened;
        if *first == 0 {
            *first = now;
            let opened = Transaction { due: *due, sent: *sent, complete: now, connection: at as u32, late: 0 };
            if self.ledger.times().window.contains(due) {
                self.opened_count += 1;
                if self.opened.len() < self.opened.capacity() {
                    self.opened.push(opened);
                }
            }
        }
    }

    #[inline]
    fn complete(&mut self, at: usize, now: u64) {
        let slot = &mut self.slots[at];
        slot.state = State::Thinking;
        slot.calls -= 1;
        let transaction = self.transaction(at, now);
        self.ledger.complete(transaction);
    }

    /// A slot's transaction; `complete` is 0 if its response did not come.
    #[inline]
    fn transaction(&self, at: usize, complete: u64) -> Transaction {
        let Slot { due, sent, late, .. } = self.slots[at];
        Transaction { due, sent, complete, connection: at as u32, late }
    }

    /// What comes after a response: the next request, on this connection or on another.
    #[inline]
    fn next(&mut self, at: usize, now: u64, is_last: bool) {
        let due = if self.think.is_none() { now } else { now.saturating_add(self.think_ticks()) };
        let is_open = self.is_open();
        let slot = &mut self.slots[at];
        if slot.calls > 0 && !is_last {
            if self.think.is_none() {
                return self.send(at, due);
            }
            slot.state = State::Thinking;
            return self.wake_at(at, due);
        }
        slot.close();
        match (is_open, slot.calls) {
            (true, 0) => self.free(at),
            // The server ended the connection before the session: it goes on over another.
            (true, _) => {
                (slot.due, slot.late, slot.state) = (due, 0, State::Closed);
                self.open(at);
            }
            (false, _) => {
                (slot.due, slot.calls, slot.state) = (due, self.calls, State::Closed);
                if self.think.is_none() {
                    self.open(at);
                } else {
                    self.wake_at(at, due);
                }
            }
        }
    }

    fn think_ticks(&mut self) -> u64 {
        let mean_ns = self.think.mean_ns as f64;
        let factor = if self.think.exponential { -(1.0 - self.random.random::<f64>()).ln() } else { 1.0 };
        self.clock.ticks(mean_ns * factor)
    }

    /// A session is over, in an open loop.
    #[inline]
    fn free(&mut self, at: usize) {
        self.slots[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// The server ended a connection, and with it perhaps a response.
    #[cold]
    fn ended(&mut self, at: usize) {
        let now = self.clock.now();
        let slot = &mut self.slots[at];
        let reply = match slot.state {
            State::Waiting => self.speaker.end(slot.asked, &mut slot.reader),
            State::Writing => None,
            _ => return self.fail(at, Class::Reset),
        };
        let Some(Reply::Last(wrong)) = reply else { return self.fail(at, Class::Short) };
        wrong.into_iter().for_each(|class| self.ledger.errors().count(class, 1));
        self.complete(at, now);
        self.next(at, now, true);
    }

    /// A connection failed, or could not be made: its session is over, and in a closed loop another follows after a pause.
    #[cold]
    fn fail(&mut self, at: usize, class: Class) {
        self.lose(at, class);
        self.abandon(at);
        self.slots[at].close();
        if self.is_open() {
            self.free(at);
        } else {
            self.open_at(at, self.clock.now() + self.failed_ticks);
        }
    }

    /// What is outstanding on a connection will not be answered any more.
    fn lose(&mut self, at: usize, class: Class) {
        let transaction = self.transaction(at, 0);
        match self.slots[at].state {
            State::Waiting | State::Writing => self.ledger.lose(transaction, class),
            // The request that was to be its first was due, and never sent.
            State::Opening | State::Closed => {
                self.ledger.errors().count(class, 1);
                self.ledger.keep(Transaction { sent: 0, ..transaction });
            }
            State::Thinking | State::Free => self.ledger.errors().count(class, 1),
        }
    }

    /// The requests of a session that were to follow the one that is lost will not be sent: they were planned all the same.
    fn abandon(&mut self, at: usize) {
        let Slot { state, due, calls, .. } = self.slots[at];
        let lost = u32::from(!matches!(state, State::Thinking | State::Free));
        if self.is_open() && state != State::Free {
            self.never_sent(due, calls.saturating_sub(lost));
        }
    }

    /// Keeps so many requests that were due then, or would have followed, and were not sent.
    fn never_sent(&mut self, due: u64, requests: u32) {
        (0..requests).for_each(|_| self.ledger.keep(Transaction { due, ..Transaction::default() }));
    }

    /// Gives up what takes longer than the timeout.
    #[cold]
    fn give_up(&mut self, now: u64) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let since = match slot.state {
                State::Opening => slot.opened[0],
                State::Waiting | State::Writing => slot.sent,
                State::Free | State::Closed | State::Thinking => continue,
            };
            if now.saturating_sub(since) > self.timeout_ticks {
                self.fail(at, Class::Timeout);
            }
        }
    }

    /// The drain is over.
    fn end_all(&mut self) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            self.ledger.leave(u64::from(matches!(slot.state, State::Waiting | State::Writing)));
            if matches!(slot.state, State::Waiting | State::Writing) || slot.is_opening() {
                self.lose(at, Class::Timeout);
            }
            self.abandon(at);
            self.slots[at].close();
        }
        self.ledger.leave(self.waiting());
        for number in self.begun..self.sessions.len() {
            self.never_sent(self.sessions[number].0, self.calls);
        }
    }
}

#[cfg(test)]
mod tests;
