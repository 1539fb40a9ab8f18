//! What one thread of a client keeps of its transactions while it runs: those of the window as samples, as far as memory was
//! set aside, and all of them in counts. No lock, no allocation.

use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};
use stats::Histogram;

use crate::class::Class;
use crate::clock::Clock;
use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::progress::Progress;
use crate::report::{Errors, PARTS};

/// A transaction of the window, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    /// t1.
    pub due: u64,
    /// t2; 0 if it was not sent.
    pub sent: u64,
    /// t3; 0 if it did not come.
    pub complete: u64,
    /// On which of the client's connections.
    pub connection: u32,
    /// How long after t1 the client got round to it, in ticks: to its connecting, if that is what it had to begin with. Only
    /// where connections come and go.
    pub late: u64,
}

/// What was kept besides single transactions.
#[derive(Debug)]
pub struct Tally {
    /// Transactions completed in each part of the window.
    pub completed_by_part: [u64; PARTS],
    /// Requests sent in the window.
    pub sent: u64,
    /// Outstanding when the window began, and when it ended.
    pub outstanding: [u64; 2],
    /// Still so when the drain was over.
    pub after_drain: u64,
    /// Responses that were whole, and not what they should be.
    pub errors: Errors,
    /// Transactions that there was no memory for.
    pub unsampled: u64,
    /// Those of them in which the clock went backwards.
    pub went_back: u64,
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
            after_drain: 0,
            errors: Errors::default(),
            unsampled: 0,
            went_back: 0,
            beyond: [Histogram::new(), Histogram::new(), Histogram::new()],
            used: [Used::default(); 2],
        }
    }

    /// The share of one CPU that the thread used in the window; `None` if it did not see both ends of it.
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

/// What a thread kept.
pub type Kept = (Vec<Transaction>, Tally);

/// One thread's account.
pub struct Ledger<'a> {
    clock: Clock,
    times: Times,
    /// How many of the window's edges are behind.
    edges: usize,
    /// Where the part of the window that counts now ends, and its length.
    part: usize,
    part_end: u64,
    part_ticks: u64,
    outstanding: u64,
    transactions: Vec<Transaction>,
    tally: Tally,
    progress: &'a Progress,
}

impl<'a> Ledger<'a> {
    /// With memory for so many transactions, touched.
    ///
    /// # Errors
    /// When there is no such memory.
    pub fn new(clock: Clock, config: &LoadConfig, samples: u64, progress: &'a Progress) -> Result<Self, LoadError> {
        let mut transactions = Vec::new();
        transactions.try_reserve_exact(samples as usize).map_err(|_| LoadError::Memory {
            requests: samples * u64::from(config.clients),
            bytes: size_of::<Transaction>(),
        })?;
        // Every page of it.
        transactions.resize(samples as usize, Transaction { due: 1, ..Transaction::default() });
        transactions.clear();
        Ok(Self {
            clock,
            times: Times { start: 0, window: 0..0, drained: 0 },
            edges: 0,
            part: 0,
            part_end: 0,
            part_ticks: 0,
            outstanding: 0,
            transactions,
            tally: Tally::new(),
            progress,
        })
    }

    /// The trial begins.
    pub fn begin(&mut self, times: Times) {
        self.part_ticks = ((times.window.end - times.window.start) / PARTS as u64).max(1);
        self.part_end = times.window.start + self.part_ticks;
        self.times = times;
    }

    /// When its phases begin and end.
    #[inline]
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// The window's edges, where it begins and where it ends.
    fn edges(&self) -> [u64; 2] {
        [self.times.window.start, self.times.window.end]
    }

    /// Notes what there is to note at the window's edges, if one is reached: `waiting` requests are due and have no connection
    /// yet. To be called in each turn.
    #[inline]
    pub fn look(&mut self, now: u64, waiting: u64) {
        if let Some(&edge) = self.edges().get(self.edges)
            && now >= edge
        {
            self.tally.outstanding[self.edges] = self.outstanding + waiting;
            self.tally.used[self.edges] = Used::now(&self.clock);
            self.edges += 1;
        }
    }

    /// Whether nothing more is waited for: the window is over and nothing outstanding, or the drain is over.
    #[inline]
    pub fn is_over(&self, now: u64) -> bool {
        (self.edges == self.edges().len() && self.outstanding == 0) || now >= self.times.drained
    }

    /// When there is next something to note.
    #[inline]
    pub fn next_edge(&self) -> u64 {
        self.edges().get(self.edges).copied().unwrap_or(self.times.drained)
    }

    /// A request was sent, at that tick.
    #[inline]
    pub fn sent(&mut self, sent: u64) {
        self.tally.sent += u64::from(self.times.window.contains(&sent));
        self.outstanding += 1;
        self.progress.add_sent();
    }

    /// A transaction that was sent is complete.
    #[inline]
    pub fn complete(&mut self, transaction: Transaction) {
        self.outstanding -= 1;
        self.progress.add_completed(1);
        if self.times.window.contains(&transaction.complete) {
            while transaction.complete >= self.part_end && self.part < PARTS - 1 {
                self.part += 1;
                self.part_end += self.part_ticks;
            }
            self.tally.completed_by_part[self.part] += 1;
        }
        self.keep(transaction);
    }

    /// A transaction that was sent will not be answered.
    pub fn lose(&mut self, transaction: Transaction, class: Class) {
        self.outstanding -= 1;
        self.progress.add_lost(1);
        self.tally.errors.count(class, 1);
        self.keep(transaction);
    }

    /// The drain is over, and so many requests are not answered.
    pub fn leave(&mut self, requests: u64) {
        self.tally.after_drain += requests;
    }

    /// What went wrong.
    pub fn errors(&mut self) -> &mut Errors {
        &mut self.tally.errors
    }

    /// Keeps a transaction, if it was due in the window.
    #[inline]
    pub fn keep(&mut self, transaction: Transaction) {
        let Transaction { due, sent, complete, .. } = transaction;
        if !self.times.window.contains(&due) {
            return;
        }
        if self.transactions.len() < self.transactions.capacity() {
            self.transactions.push(transaction);
            return;
        }
        self.tally.unsampled += 1;
        let known = |from: u64, to: u64| (from != 0 && to != 0).then(|| self.clock.between_ns(from, to));
        let times = [known(due, sent), known(sent, complete), known(due, complete)];
        for (histogram, time_ns) in self.tally.beyond.iter_mut().zip(times) {
            if let Some(time_ns) = time_ns {
                histogram.record(time_ns.max(0) as u64);
            }
        }
        self.tally.went_back += u64::from(times.iter().flatten().any(|&time_ns| time_ns < 0));
    }

    /// The trial is over.
    pub fn close(self) -> Kept {
        (self.transactions, self.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClockChoice;

    #[test]
    fn what_there_is_no_memory_for_is_counted_and_in_the_histograms() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let config = LoadConfig::new(([127, 0, 0, 1], 0), service);
        let (clock, progress) = (Clock::calibrate(ClockChoice::Monotonic).unwrap(), Progress::default());
        let mut ledger = Ledger::new(clock, &config, 10, &progress).unwrap();
        ledger.begin(Times { start: 0, window: 1_000..2_000, drained: 3_000 });
        for number in 0..15 {
            // As the last but one has it, the clock went backwards.
            let (due, sent) = (1_000 + number, if number == 13 { 1_000 } else { 1_010 + number });
            ledger.sent(sent);
            let transaction = Transaction { due, sent, complete: 1_510 + number, ..Transaction::default() };
            match number {
                14 => ledger.lose(Transaction { complete: 0, ..transaction }, Class::Timeout),
                _ => ledger.complete(transaction),
            }
        }
        ledger.keep(Transaction { due: 2_000, complete: 2_001, ..Transaction::default() });
        ledger.look(1_500, 0);
        assert!(!ledger.is_over(1_500) && ledger.next_edge() == 2_000);
        ledger.look(2_500, 7);
        ledger.leave(3);
        assert!(ledger.is_over(2_500) && ledger.next_edge() == 3_000);
        let (transactions, tally) = ledger.close();
        assert_eq!((transactions.len(), tally.unsampled), (10, 5), "none that was due after the window");
        assert_eq!(tally.went_back, 1);
        assert_eq!(
            (tally.outstanding, tally.after_drain),
            ([0, 7], 3),
            "those that wait to be sent are outstanding too"
        );
        assert_eq!((tally.sent, tally.errors.timeout, tally.completed_by_part.iter().sum::<u64>()), (15, 1, 14));
        let [lag, service, response] = &tally.beyond;
        assert_eq!((lag.count(), service.count(), response.count()), (5, 4, 4));
        assert_eq!((lag.quantile(0.5), service.quantile(0.5), response.quantile(0.5)), (10, 500, 510));
    }
}
