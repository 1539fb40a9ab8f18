//! Retries: the send role sends a request again, on another connection, after a timeout or after the failure of its connection.
//!
//! The late response to an earlier attempt is read and discarded, because the responses of a connection arrive in order.

use std::collections::VecDeque;

use crate::config::LoadConfig;
use crate::config::request_timeout::{RequestTimeout, SAVED_RETRIES_MAX};
use crate::record::recorder::Times;
use crate::record::request::{REJECTED, Record, Retry};
use crate::result::Outstanding;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::time::clock::Clock;

/// An attempt that the send role no longer waits for.
const NONE: u32 = u32::MAX;
/// The pause between two searches for failed connections, in nanoseconds.
const SEARCH_NS: f64 = 1_000_000.0;

/// The attempts that may fail yet. All of them have the same time limit, so the first one sent is the first one that times out.
pub struct Retries {
    policy: RequestTimeout,
    pub timeout_ticks: u64,
    /// The records of attempts in the order sent, or [`NONE`]. It has room for all records.
    waiting: VecDeque<u32>,
    /// The number of retries so far.
    pub made: usize,
    /// The retries that the budget allows at once.
    credit: f64,
    /// The requests that failed connections have lost, when the last search for them began.
    searched_lost: u64,
    search_at: u64,
    search_ticks: u64,
    /// The time at which the first attempt times out, in ticks; `None` without attempts.
    pub next_at: Option<u64>,
}

impl Retries {
    /// Returns the state of a client with `records` records; `None` if the load has no retries.
    pub fn of(config: &LoadConfig, clock: &Clock, records: usize) -> Option<Self> {
        let policy = config.request_timeout().filter(|it| it.retries > 0)?;
        Some(Self {
            policy,
            timeout_ticks: clock.ticks(policy.timeout_ns as f64),
            waiting: VecDeque::with_capacity(records),
            made: 0,
            credit: 0.0,
            searched_lost: 0,
            search_at: 0,
            search_ticks: clock.ticks(SEARCH_NS),
            next_at: None,
        })
    }

    /// Whether any attempt may be sent again.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    #[inline]
    pub fn wait_for(&mut self, record: usize) {
        self.waiting.push_back(record as u32);
    }

    /// Adds to the budget for a planned request.
    #[inline]
    pub fn earn(&mut self) {
        let share = self.policy.retry_budget.unwrap_or(0.0);
        self.credit = (self.credit + share).min(SAVED_RETRIES_MAX);
    }

    /// Takes a retry from the budget, if the request has one left after `attempts` retries, and the budget too.
    pub fn spend(&mut self, attempts: u32) -> bool {
        let is_allowed = attempts < self.policy.retries;
        match self.policy.retry_budget {
            _ if !is_allowed => false,
            None => true,
            Some(_) if self.credit < 1.0 => false,
            Some(_) => {
                self.credit -= 1.0;
                true
            }
        }
    }

    /// Stops waiting for the first attempts as long as they are answered. Returns the record of the first one then.
    #[inline]
    pub fn first(&mut self, is_answered: impl Fn(usize) -> bool) -> Option<usize> {
        while let Some(&record) = self.waiting.front() {
            if record != NONE && !is_answered(record as usize) {
                return Some(record as usize);
            }
            self.waiting.pop_front();
        }
        None
    }

    /// The number of attempts to search for failed ones; 0 if no connection has lost requests since the last search.
    pub fn search(&mut self, lost: u64, now: u64) -> usize {
        if lost == self.searched_lost || now < self.search_at {
            return 0;
        }
        (self.searched_lost, self.search_at) = (lost, now + self.search_ticks);
        self.waiting.len()
    }

    /// Returns the record of the attempt at a place of the queue; `None` if it was forgotten.
    pub fn waiting(&self, at: usize) -> Option<usize> {
        self.waiting.get(at).filter(|record| **record != NONE).map(|record| *record as usize)
    }

    /// Stops waiting for the attempt at a place of the queue.
    pub fn forget(&mut self, at: usize) {
        self.waiting.iter_mut().skip(at).take(1).for_each(|record| *record = NONE);
    }
}

/// Whether an attempt has a response within the time limit, or a rejection.
#[inline]
pub fn is_answered(sent: u64, complete: u64, timeout_ticks: u64) -> bool {
    complete == REJECTED || (complete != 0 && complete.saturating_sub(sent) <= timeout_ticks)
}

/// Counts of a client's attempts over the whole trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts that were not answered in time, on connections that had not failed.
    pub timeouts: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Attempts in flight: without a response and within the time limit, on connections that had not failed.
    pub outstanding: Outstanding,
}

impl Attempts {
    /// Adds the counts of another client.
    pub fn add(&mut self, other: &Self) {
        let Outstanding { at_start, at_end, after_cool_down } = other.outstanding;
        self.timeouts += other.timeouts;
        self.retries += other.retries;
        self.outstanding.at_start += at_start;
        self.outstanding.at_end += at_end;
        self.outstanding.after_cool_down += after_cool_down;
    }
}

/// Gives each request the first response in time among those to its attempts, and the time of its first send. Removes the records
/// of retries. `has_failed` tells whether a connection has failed.
pub fn settle(
    records: &mut Vec<Record>,
    transfers: &mut [AtomicU32],
    retries: &[Retry],
    timeout_ticks: u64,
    times: &Times,
    has_failed: impl Fn(u32) -> bool,
) -> Attempts {
    let mut attempts = Attempts::default();
    let planned = records.len() - retries.len();
    let (requests, again) = records.split_at_mut(planned);
    let mut count = |sent: u64, complete: u64, connection: u32| {
        let is_answered = is_answered(sent, complete, timeout_ticks);
        if sent == 0 || (complete == 0 && has_failed(connection)) {
            return is_answered;
        }
        attempts.timeouts += u64::from(!is_answered);
        let end = if is_answered { complete } else { sent.saturating_add(timeout_ticks) };
        let in_flight = |tick: u64| u64::from(sent < tick && tick < end && complete != REJECTED);
        let Outstanding { at_start, at_end, after_cool_down } = &mut attempts.outstanding;
        *at_start += in_flight(times.window.start);
        *at_end += in_flight(times.window.end);
        *after_cool_down += in_flight(times.drained);
        is_answered
    };
    for request in &mut *requests {
        let (sent, complete) = (request.sent.load(Relaxed), request.complete.load(Relaxed));
        if !count(sent, complete, request.connection()) {
            request.complete.store(0, Relaxed);
        }
    }
    let mut made = 0;
    for (at, (attempt, retry)) in again.iter().zip(retries).enumerate() {
        let (sent, complete) = (attempt.sent.load(Relaxed), attempt.complete.load(Relaxed));
        if sent == 0 {
            continue;
        }
        made += 1;
        let of = retry.request.load(Relaxed) as usize;
        let request = &requests[of];
        if request.sent.load(Relaxed) == 0 {
            request.sent.store(sent, Relaxed);
        }
        let is_answered = count(sent, complete, retry.connection.load(Relaxed));
        let earlier = request.complete.load(Relaxed);
        if is_answered && (earlier == 0 || complete < earlier) {
            request.complete.store(complete, Relaxed);
            if let Some(transfer) = transfers.get(planned + at) {
                transfers[of].store(transfer.load(Relaxed), Relaxed);
            }
        }
    }
    records.truncate(planned);
    Attempts { retries: made, ..attempts }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::config::{ClockChoice, Loop, Pace, Schedule};

    fn retries(retries: u32, retry_budget: Option<f64>) -> Retries {
        let request_timeout = Some(RequestTimeout { timeout_ns: 1, retries, retry_budget });
        let config = LoadConfig::small(([127, 0, 0, 1], 0)).with(|it| {
            it.the_loop =
                Loop::Open { requests: Pace::new(Schedule::Constant, 1.0).into(), request_timeout, no_overlap: false };
        });
        Retries::of(&config, &Clock::calibrate(ClockChoice::Monotonic).unwrap(), 9).unwrap()
    }

    #[test]
    fn budget_saves_few_retries() {
        let mut retries = retries(2, Some(0.25));
        (0..3).for_each(|_| retries.earn());
        assert!(!retries.spend(0), "three quarters of a retry");
        retries.earn();
        assert!(!retries.spend(2), "the request has been sent again twice");
        assert!(retries.spend(1) && !retries.spend(0));
        (0..100_000).for_each(|_| retries.earn());
        assert_eq!((0..1_000).filter(|_| retries.spend(0)).count(), SAVED_RETRIES_MAX as usize);
    }

    #[test]
    fn oldest_unanswered_attempt_comes_first() {
        let mut retries = retries(1, None);
        (0..5).for_each(|record| retries.wait_for(record));
        assert_eq!((retries.search(0, 1), retries.search(3, 1)), (0, 5), "no connection has lost requests at first");
        assert_eq!((retries.search(4, 2), retries.search(4, 1 << 40)), (0, 5), "searches have a pause between them");
        assert_eq!(retries.waiting(2), Some(2));
        retries.forget(2);
        assert_eq!(retries.waiting(2), None);
        assert_eq!(retries.first(|record| record < 2), Some(3));
        assert!(retries.first(|_| true).is_none() && !retries.is_waiting());
    }

    #[test]
    fn request_gets_the_first_response_in_time() {
        let record = |(planned, sent, complete): (u64, u64, u64)| {
            let record = Record::new(planned, 0);
            record.sent.store(sent, Relaxed);
            record.complete.store(complete, Relaxed);
            record
        };
        // In time; late and answered again; late twice; on a failed connection and answered again; rejected; not answered.
        let planned = [(1, 1, 5), (2, 2, 40), (3, 3, 40), (4, 0, 0), (5, 5, REJECTED), (6, 6, 0)];
        let again = [(0, 20, 23), (0, 20, 90), (0, 20, 29), (0, 0, 0)];
        let mut records: Vec<_> = planned.into_iter().chain(again).map(record).collect();
        let retries: Vec<Retry> = [1, 2, 3, 0].map(|it| Retry { request: it.into(), ..Retry::default() }).into();
        let mut transfers: Vec<AtomicU32> = (0..10).map(AtomicU32::new).collect();
        let attempts = settle(&mut records, &mut transfers, &retries, 10, &Times::default(), |_| false);
        let settled: Vec<_> = records.iter().map(|it| (it.sent.load(Relaxed), it.complete.load(Relaxed))).collect();
        assert_eq!(settled, [(1, 5), (2, 23), (3, 0), (20, 29), (5, REJECTED), (6, 0)]);
        assert_eq!(attempts, Attempts { timeouts: 4, retries: 3, outstanding: Outstanding::default() });
        assert_eq!([&transfers[1], &transfers[2], &transfers[3]].map(|it| it.load(Relaxed)), [6, 2, 8]);
        let (mut records, times) = (vec![record((6, 6, 0))], Times::default());
        let attempts = settle(&mut records, &mut [], &[], 10, &times, |_| true);
        assert_eq!(attempts, Attempts::default(), "the connection had failed");
    }

    #[test]
    fn timed_out_request_is_not_in_flight() {
        let record = |(sent, complete, connection): (u64, u64, u32)| {
            let record = Record::new(sent, connection);
            record.sent.store(sent, Relaxed);
            record.complete.store(complete, Relaxed);
            record
        };
        // At the start of the window two requests are in flight: one is answered in time, one too late. The others have a response,
        // or have timed out.
        let before = [(1, 0, 0), (15, 18, 0), (15, 22, 0), (12, 48, 0)];
        // At its end one is in flight, and none after the cool-down. One is rejected, and one is on a failed connection.
        let within = [(35, 0, 0), (38, REJECTED, 0), (37, 0, 1)];
        let retry = [(45, 0, 0)];
        let last = [(55, 0, 0)];
        let settled = |last: &[(u64, u64, u32)]| {
            let all = before.iter().chain(&within).chain(last).chain(&retry).copied();
            let (mut records, retries) =
                (all.map(record).collect(), [Retry { request: AtomicU32::new(4), ..Retry::default() }]);
            let times = Times { window: 20..40, drained: 60, ..Times::default() };
            settle(&mut records, &mut [], &retries, 10, &times, |connection| connection == 1).outstanding
        };
        assert_eq!(settled(&[]), Outstanding { at_start: 2, at_end: 1, after_cool_down: 0 });
        assert_eq!(
            settled(&last),
            Outstanding { at_start: 2, at_end: 1, after_cool_down: 1 },
            "the cool-down ended early"
        );
    }
}
