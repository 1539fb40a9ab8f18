//! The open loop, in its two shapes: both roles in one loop, or each in a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::Timespec;

use crate::clock::Clock;
use crate::config::Pacing;
use crate::receive::{Events, Receiver};
use crate::send::Sender;

/// `sleep-spin` wakes this long before a planned time: what a timer may be late by on a machine that is not idle.
const SPIN_NS: i64 = 60_000;

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Longest sleep of the receive role, after which it looks whether it is done.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Until when the loops run.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a> {
    /// The end of the drain, in ticks.
    pub drained: u64,
    /// Set when the run is to end now.
    pub stop: &'a AtomicBool,
}

/// Both roles in one loop. A due request is never kept waiting by more than one response.
pub fn one_loop(
    clock: &Clock,
    pacing: Pacing,
    until: &Until<'_>,
    sender: &mut Sender<'_>,
    receiver: &mut Receiver<'_>,
    outstanding: impl Fn() -> bool,
) {
    let mut events = Events::new();
    loop {
        let now = clock.now();
        match sender.due() {
            Some(due) if now >= due => sender.send(),
            Some(_) => sender.retry(now),
            None if now >= until.drained || !outstanding() => return,
            None => sender.retry(now),
        }
        if receiver.alive() == 0 || until.stop.load(Relaxed) {
            return;
        }
        receiver.wait(&mut events, &idle(clock, pacing, sender, now));
        for connection in events.connections() {
            receiver.handle(connection);
            if sender.is_due(clock.now()) {
                sender.send();
            }
        }
    }
}

/// How long to wait for responses; for `yield`, after having yielded.
#[inline]
fn idle(clock: &Clock, pacing: Pacing, sender: &Sender<'_>, now: u64) -> Timespec {
    match pacing {
        Pacing::Yield => {
            thread::yield_now();
            AT_ONCE
        }
        Pacing::SleepSpin => match sender.due() {
            Some(due) => sleep_ns(clock, now, due).map_or(AT_ONCE, |ns| Timespec { tv_sec: 0, tv_nsec: ns }),
            None => LOOK,
        },
        Pacing::Spin | Pacing::Auto => AT_ONCE,
    }
}

/// How long `sleep-spin` may sleep, at most a few milliseconds at a time; `None` when it is time to spin.
#[inline]
fn sleep_ns(clock: &Clock, now: u64, due: u64) -> Option<i64> {
    let ahead_ns = clock.between_ns(now, due) - SPIN_NS;
    (ahead_ns > 0).then(|| ahead_ns.min(LOOK.tv_nsec))
}

/// The send role's thread (kawai2008 Figure 3).
pub fn send_loop(clock: &Clock, pacing: Pacing, until: &Until<'_>, sender: &mut Sender<'_>) {
    while let Some(due) = sender.due() {
        loop {
            let now = clock.now();
            if now >= due {
                break;
            }
            sender.retry(now);
            if until.stop.load(Relaxed) {
                return;
            }
            match pacing {
                Pacing::Yield => thread::yield_now(),
                Pacing::SleepSpin => {
                    if let Some(ns) = sleep_ns(clock, now, due) {
                        thread::sleep(Duration::from_nanos(ns as u64));
                    }
                }
                Pacing::Spin | Pacing::Auto => std::hint::spin_loop(),
            }
        }
        sender.send();
        if pacing == Pacing::Yield {
            // "avoid processing successively"
            thread::yield_now();
        }
    }
    // Requests that wait for a full socket are still to be written while responses are waited for.
    while clock.now() < until.drained && !until.stop.load(Relaxed) && sender.has_unsent() {
        sender.retry(clock.now());
        thread::yield_now();
    }
}

/// The receive role's thread: it sleeps in epoll_wait.
pub fn receive_loop(clock: &Clock, until: &Until<'_>, receiver: &mut Receiver<'_>, outstanding: impl Fn() -> bool) {
    let mut events = Events::new();
    loop {
        receiver.wait(&mut events, &LOOK);
        for connection in events.connections() {
            receiver.handle(connection);
        }
        if receiver.alive() == 0 {
            // Nobody is left to send to.
            until.stop.store(true, Relaxed);
        }
        if until.stop.load(Relaxed) || clock.now() >= until.drained || !outstanding() {
            return;
        }
    }
}
