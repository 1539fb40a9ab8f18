//! Records the transactions of one thread without locks or allocations. The reserved memory limits samples but not counts.

use std::ops::Range;

use rustix::time::ClockId;
use stats::Histogram;

use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::record::counts::Statuses;
use crate::record::progress::Progress;
use crate::result::{Class, Errors, PARTS};
use crate::time::clock::{Clock, kernel_ns};

/// A request and its response. Times are in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    pub due: u64,
    /// t2; 0 if not sent.
    pub sent: u64,
    /// t3; 0 without a response.
    pub complete: u64,
    /// The connection, as an index of the client's connections.
    pub connection: u32,
    /// The time from the first part of the response to the complete one; 0 if one read had all. As a float, because it fits
    /// into the gap after `connection`.
    pub transfer: f32,
    /// For short-lived connections, the time from t1 until the client began to connect or to send.
    pub late: u64,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub completed_by_part: [u64; PARTS],
    pub sent: u64,
    /// Requests of the whole trial, sent or not.
    pub requests: u64,
    /// Requests outstanding at each edge of the window.
    pub outstanding: [u64; 2],
    pub after_cool_down: u64,
    pub errors: Errors,
    pub statuses: Statuses,
    /// What is wrong with the first wrong response, if known.
    pub first_wrong: Option<String>,
    /// Reconnects of the client.
    pub reconnects: u64,
    /// Transactions without memory for a sample.
    pub unsampled: u64,
    /// Transactions without a sample during which the clock went backwards.
    pub went_back: u64,
    /// Send delay, service time, response time and time to the first byte of transactions without a sample.
    pub beyond: [Histogram; 4],
    /// The pauses of the thread, in ticks: see [`crate::driver::Turns`].
    pub pauses: Vec<Range<u64>>,
    /// The thread's CPU time in nanoseconds and the tick of its reading, at each edge of the window.
    used: [(u64, u64); 2],
}

impl Counts {
    /// The share of one CPU that the thread used in the window; `None` unless it recorded both edges.
    pub fn busy_share(&self, clock: &Clock) -> Option<f64> {
        let [(before_ns, from), (after_ns, to)] = self.used;
        (from != 0 && to > from).then(|| (after_ns - before_ns) as f64 / clock.between_ns(from, to) as f64)
    }
}

/// Start and end of a trial's phases, in ticks.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub start: u64,
    pub window: Range<u64>,
    pub drained: u64,
    /// The time from the start of the ramp to the arrival of the start message, in nanoseconds.
    pub begun_late_ns: u64,
}

#[derive(Debug)]
pub struct Recording {
    /// The transactions due in the window, up to the reserved memory.
    pub transactions: Vec<Transaction>,
    pub counts: Counts,
}

pub struct Recorder<'a> {
    clock: Clock,
    times: Times,
    /// The number of recorded edges of the window.
    edges: usize,
    part: usize,
    part_end: u64,
    part_ticks: u64,
    outstanding: u64,
    transactions: Vec<Transaction>,
    counts: Counts,
    progress: &'a Progress,
}

/// Returns the time from the request to the first byte of its response; `None` without a response.
pub fn first_byte_ns(clock: &Clock, transaction: &Transaction) -> Option<i64> {
    let Transaction { sent, complete, transfer, .. } = *transaction;
    (sent != 0 && complete != 0).then(|| clock.between_ns(sent, complete - transfer as u64))
}

pub fn reserve(config: &LoadConfig, count: u64) -> Result<Vec<Transaction>, LoadError> {
    let mut transactions = Vec::new();
    transactions.try_reserve_exact(count as usize).map_err(|_| LoadError::Memory {
        requests: count * u64::from(config.client.clients),
        bytes: size_of::<Transaction>(),
    })?;
    Ok(transactions)
}

impl<'a> Recorder<'a> {
    /// Creates a recorder with initialised memory for `samples` transactions.
    pub fn new(clock: Clock, config: &LoadConfig, samples: u64, progress: &'a Progress) -> Result<Self, LoadError> {
        let mut transactions = reserve(config, samples)?;
        // Touch every page before the window begins.
        transactions.resize(samples as usize, Transaction { due: 1, ..Transaction::default() });
        transactions.clear();
        Ok(Self {
            clock,
            times: Times::default(),
            edges: 0,
            part: 0,
            part_end: 0,
            part_ticks: 0,
            outstanding: 0,
            transactions,
            counts: Counts::default(),
            progress,
        })
    }

    pub fn begin(&mut self, times: Times) {
        self.part_ticks = ((times.window.end - times.window.start) / PARTS as u64).max(1);
        self.part_end = times.window.start + self.part_ticks;
        self.times = times;
    }

    #[inline]
    pub fn times(&self) -> &Times {
        &self.times
    }

    fn edges(&self) -> [u64; 2] {
        [self.times.window.start, self.times.window.end]
    }

    /// Records an edge of the window once it has passed. `waiting` is the number of due requests without a connection.
    #[inline]
    pub fn tick(&mut self, now: u64, waiting: u64) {
        if let Some(&edge) = self.edges().get(self.edges)
            && now >= edge
        {
            self.counts.outstanding[self.edges] = self.outstanding + waiting;
            self.counts.used[self.edges] = (kernel_ns(ClockId::ThreadCPUTime), self.clock.now());
            self.edges += 1;
        }
    }

    /// Whether the trial is over: the window has ended and nothing is outstanding, or the cool-down has ended.
    #[inline]
    pub fn is_over(&self, now: u64) -> bool {
        (self.edges == self.edges().len() && self.outstanding == 0) || now >= self.times.drained
    }

    /// The next time that requires a [`Recorder::tick`].
    #[inline]
    pub fn next_edge(&self) -> u64 {
        self.edges().get(self.edges).copied().unwrap_or(self.times.drained)
    }

    #[inline]
    pub fn sent(&mut self, sent: u64) {
        self.counts.sent += u64::from(self.times.window.contains(&sent));
        self.outstanding += 1;
        self.progress.add_sent();
    }

    #[inline]
    pub fn complete(&mut self, transaction: Transaction) {
        self.outstanding -= 1;
        self.progress.add_completed(1);
        if self.times.window.contains(&transaction.complete) {
            while transaction.complete >= self.part_end && self.part < PARTS - 1 {
                self.part += 1;
                self.part_end += self.part_ticks;
            }
            self.counts.completed_by_part[self.part] += 1;
        }
        self.keep(transaction);
    }

    pub fn lose(&mut self, transaction: Transaction, class: Class) {
        self.outstanding -= 1;
        self.progress.add_lost(1);
        self.counts.errors.count(class, 1);
        self.keep(transaction);
    }

    pub fn leave(&mut self, requests: u64) {
        self.counts.after_cool_down += requests;
    }

    pub fn errors(&mut self) -> &mut Errors {
        &mut self.counts.errors
    }

    #[inline]
    pub fn statuses(&mut self) -> &mut Statuses {
        &mut self.counts.statuses
    }

    /// Keeps what is wrong with the first wrong response.
    #[cold]
    pub fn note_wrong(&mut self, why: impl FnOnce() -> Option<String>) {
        if self.counts.first_wrong.is_none() {
            self.counts.first_wrong = why();
        }
    }

    /// Counts a reconnect.
    pub fn reconnected(&mut self) {
        self.counts.reconnects += 1;
    }

    /// Keeps the transaction if it was due in the window.
    #[inline]
    pub fn keep(&mut self, transaction: Transaction) {
        let Transaction { due, sent, complete, .. } = transaction;
        self.counts.requests += u64::from(sent == 0);
        if !self.times.window.contains(&due) {
            return;
        }
        if self.transactions.len() < self.transactions.capacity() {
            self.transactions.push(transaction);
            return;
        }
        self.counts.unsampled += 1;
        let known = |from: u64, to: u64| (from != 0 && to != 0).then(|| self.clock.between_ns(from, to));
        let first_byte_ns = first_byte_ns(&self.clock, &transaction);
        let times = [known(due, sent), known(sent, complete), known(due, complete), first_byte_ns];
        for (histogram, time_ns) in self.counts.beyond.iter_mut().zip(times) {
            if let Some(time_ns) = time_ns {
                histogram.record(time_ns.max(0) as u64);
            }
        }
        self.counts.went_back += u64::from(times.iter().flatten().any(|&time_ns| time_ns < 0));
    }

    pub fn close(mut self) -> Recording {
        self.counts.requests += self.progress.sent();
        Recording { transactions: self.transactions, counts: self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClockChoice;

    #[test]
    fn transaction_beyond_the_memory_is_in_counts_and_histograms() {
        let config = LoadConfig::small(([127, 0, 0, 1], 0));
        let (clock, progress) = (Clock::calibrate(ClockChoice::Monotonic).unwrap(), Progress::default());
        let mut recorder = Recorder::new(clock, &config, 10, &progress).unwrap();
        recorder.begin(Times { start: 0, window: 1_000..2_000, drained: 3_000, begun_late_ns: 0 });
        for number in 0..15 {
            // The clock went backwards in transaction 13.
            let (due, sent) = (1_000 + number, if number == 13 { 1_000 } else { 1_010 + number });
            recorder.sent(sent);
            let transaction =
                Transaction { due, sent, complete: 1_510 + number, transfer: 100.0, ..Transaction::default() };
            match number {
                14 => recorder.lose(Transaction { complete: 0, ..transaction }, Class::Timeout),
                _ => recorder.complete(transaction),
            }
        }
        recorder.keep(Transaction { due: 2_000, complete: 2_001, ..Transaction::default() });
        recorder.tick(1_500, 0);
        assert!(!recorder.is_over(1_500) && recorder.next_edge() == 2_000);
        recorder.tick(2_500, 7);
        recorder.leave(3);
        assert!(recorder.is_over(2_500) && recorder.next_edge() == 3_000);
        let Recording { transactions, counts } = recorder.close();
        assert_eq!((transactions.len(), counts.unsampled), (10, 5), "a transaction due after the window is not kept");
        assert_eq!(counts.went_back, 1);
        assert_eq!(
            (counts.outstanding, counts.after_cool_down),
            ([0, 7], 3),
            "requests that wait for a connection are outstanding"
        );
        assert_eq!((counts.sent, counts.errors.timeout, counts.completed_by_part.iter().sum::<u64>()), (15, 1, 14));
        assert_eq!(counts.requests, 16, "one request was not sent");
        let [delay, service, response, first_byte] = &counts.beyond;
        assert_eq!((delay.count(), service.count(), response.count(), first_byte.count()), (5, 4, 4, 4));
        let medians = counts.beyond.each_ref().map(|times| times.quantile(0.5));
        assert_eq!(medians, [10, 500, 510, 400]);
    }
}
