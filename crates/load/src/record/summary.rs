//! Converts records to samples, and samples to the report, after the trial.

use std::ops::Range;

use stats::Histogram;

use crate::config::{LoadConfig, Pacing, Roles, active_count};
use crate::record::counts::Statuses;
use crate::record::recorder::{Counts, Recording, Times, Transaction, first_byte_ns};
use crate::record::request::{Link, REJECTED, Record, Stamp};
use crate::result::samples::{
    KernelFacts, fit, goodput, late, measured, planned_by_part, response_ns, send_delay_ns, service_ns, went_back,
};
use crate::result::{
    Class, ClockFacts, ClosedResult, Errors, HttpResult, LoadResult, Measured, Outstanding, PARTS, Sample,
};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::time::clock::{Clock, Wall};

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    cpu_ns: u64,
    involuntary_switches: u64,
    /// The time of the client's stalls; `None` if not measured.
    pub stalled_ns: Option<u64>,
    /// The end of a window that ended before its planned end, in ticks.
    pub cut: Option<u64>,
}

impl Usage {
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel fills in `usage`; the call cannot fail with these arguments.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Self {
            cpu_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
            involuntary_switches: usage.ru_nivcsw as u64,
            stalled_ns: None,
            cut: None,
        }
    }

    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            stalled_ns: self.stalled_ns,
            cut: self.cut,
        }
    }
}

#[derive(Debug)]
pub struct Recorded {
    /// The number of the client's first connection.
    pub first: u32,
    pub records: Vec<Record>,
    /// The kernel's timestamps of each request; empty if disabled.
    pub stamps: Vec<Stamp>,
    /// The transfer time of each response; empty if not measured. See [`crate::record::request::Shared::transfers`].
    pub transfers: Vec<AtomicU32>,
}

/// Converts a tick to nanoseconds since the start of the window. 0 and [`REJECTED`] give [`Sample::NEVER`].
fn after_start(clock: &Clock, window: &Range<u64>, ticks: u64) -> i64 {
    if ticks == 0 || ticks == REJECTED { Sample::NEVER } else { clock.between_ns(window.start, ticks) }
}

/// Returns the requests planned in `window`, by planned time. Without the wall clock, samples have no kernel timestamps.
pub fn samples(clock: &Clock, wall: Option<&Wall>, window: &Range<u64>, recorded: &[Recorded]) -> Vec<Sample> {
    let time = |ticks: u64| after_start(clock, window, ticks);
    let kernel = |stamp: Option<&Stamp>, which: fn(&Stamp) -> &AtomicU64| match (wall, stamp.map(which)) {
        (Some(wall), Some(ns)) if ns.load(Relaxed) != 0 => time(wall.ticks(ns.load(Relaxed))),
        _ => Sample::NEVER,
    };
    let sample = |first: u32, record: &Record, stamp: Option<&Stamp>| Sample {
        planned_ns: clock.between_ns(window.start, record.planned),
        sent_ns: time(record.sent.load(Relaxed)),
        complete_ns: time(record.complete.load(Relaxed)),
        scheduler_ns: kernel(stamp, |stamp| &stamp.scheduler),
        driver_ns: kernel(stamp, |stamp| &stamp.driver),
        arrived_ns: kernel(stamp, |stamp| &stamp.arrived),
        hardware_service_ns: stamp.map_or(Sample::NEVER, |stamp| {
            match (stamp.hardware_sent.load(Relaxed), stamp.hardware_arrived.load(Relaxed)) {
                (0, _) | (_, 0) => Sample::NEVER,
                (sent, arrived) => arrived as i64 - sent as i64,
            }
        }),
        connection: first + record.connection(),
        ..Sample::UNKNOWN
    };
    let mut samples: Vec<Sample> = recorded
        .iter()
        .flat_map(|client| client.records.iter().enumerate().map(move |(at, record)| (client, at, record)))
        .filter(|(_, _, record)| window.contains(&record.planned))
        .map(|(client, at, record)| sample(client.first, record, client.stamps.get(at)))
        .collect();
    // Each client's samples are already in order, which speeds up this sort.
    samples.sort_by_key(|sample| sample.planned_ns);
    samples
}

/// Returns samples of the clients' transactions, by due time.
pub fn transaction_samples<'a>(trial: &Trial<'_>, clients: impl Iterator<Item = &'a [Transaction]>) -> Vec<Sample> {
    let (clock, window) = (trial.clock, &trial.times.window);
    let sample = |first: u32, transaction: &Transaction| Sample {
        planned_ns: clock.between_ns(window.start, transaction.due),
        sent_ns: after_start(clock, window, transaction.sent),
        complete_ns: after_start(clock, window, transaction.complete),
        connection: first + transaction.connection,
        ..Sample::UNKNOWN
    };
    let of_client = |(transactions, first): (&'a [Transaction], u32)| {
        // A window that ended early has fewer transactions.
        transactions.iter().filter(|it| window.contains(&it.due)).map(move |it| (first, it))
    };
    let all = clients.zip(trial.config.first_connections()).flat_map(of_client);
    let mut samples: Vec<Sample> = all.map(|(first, transaction)| sample(first, transaction)).collect();
    samples.sort_by_key(|sample| sample.planned_ns);
    samples
}

/// Returns the times from t2 to the first byte of the response, for the requests planned in `window`.
pub fn first_bytes(clock: &Clock, window: &Range<u64>, recorded: &[Recorded]) -> Histogram {
    let all = recorded.iter().flat_map(|client| client.records.iter().zip(&client.transfers));
    let transaction = |(record, transfer): (&Record, &AtomicU32)| Transaction {
        sent: record.sent.load(Relaxed),
        complete: record.complete.load(Relaxed),
        transfer: f32::from_bits(transfer.load(Relaxed)),
        ..Transaction::default()
    };
    let times = all.filter(|(record, _)| window.contains(&record.planned)).map(transaction);
    let times = times.filter(|it| it.complete != REJECTED);
    times.filter_map(|it| first_byte_ns(clock, &it)).map(|ns| ns.max(0) as u64).collect()
}

/// Counts the failures of the whole trial, as [`Errors`] defines them, except for complete but wrong responses.
pub fn errors(links: &[Link], recorded: &[Recorded]) -> Errors {
    let mut errors = Errors::default();
    let mut idle: Vec<Option<Class>> = links.iter().map(Link::failure).collect();
    for Recorded { first, records, .. } in recorded {
        for record in records.iter().filter(|record| record.complete.load(Relaxed) == 0) {
            let connection = (first + record.connection()) as usize;
            match links[connection].failure() {
                Some(class) => {
                    errors.count(class, 1);
                    idle[connection] = None;
                }
                None if record.sent.load(Relaxed) != 0 => errors.count(Class::Timeout, 1),
                // The client did not send it, so the server did not fail.
                None => {}
            }
        }
    }
    idle.into_iter().flatten().for_each(|class| errors.count(class, 1));
    errors
}

/// Converts pauses to nanoseconds since the start of the window.
pub fn pauses(clock: &Clock, window: &Range<u64>, pauses: impl Iterator<Item = Range<u64>>) -> Vec<Range<i64>> {
    let time = |ticks: u64| clock.between_ns(window.start, ticks);
    pauses.map(|pause| time(pause.start)..time(pause.end)).collect()
}

/// Counts `ticks` per part of the window.
pub fn by_part(window: &Range<u64>, ticks: impl Iterator<Item = u64>) -> [u64; PARTS] {
    let mut parts = [0; PARTS];
    let length = u128::from(window.end - window.start);
    for tick in ticks.filter(|tick| window.contains(tick)) {
        parts[(u128::from(tick - window.start) * PARTS as u128 / length) as usize] += 1;
    }
    parts
}

/// A running trial.
pub struct Trial<'a> {
    pub config: &'a LoadConfig,
    pub clock: &'a Clock,
    pub times: &'a Times,
    pub roles: Roles,
    /// `None` if all threads sleep when they have no work.
    pub pacing: Option<Pacing>,
}

impl<'a> Trial<'a> {
    /// Describes a trial whose loops sleep when they have no work.
    pub fn sleeping(config: &'a LoadConfig, clock: &'a Clock, times: &'a Times) -> Self {
        Self { config, clock, times, roles: Roles::OneLoop, pacing: None }
    }

    /// Returns the configuration and the times of a trial whose window ended at `end`, before its planned end.
    pub fn until(&self, end: u64) -> (LoadConfig, Times) {
        let (mut config, start) = (self.config.clone(), self.times.window.start);
        config.phases.measure_ns = self.clock.between_ns(start, end).max(1) as u64;
        (config, Times { window: start..end, ..self.times.clone() })
    }

    pub fn facts(&self, connect_ns: u64, usage: Usage) -> Facts<'_> {
        Facts { trial: self, connect_ns, usage, kernel: None }
    }
}

/// Facts about a trial that its report needs in addition to the records.
pub struct Facts<'a> {
    pub trial: &'a Trial<'a>,
    pub connect_ns: u64,
    pub usage: Usage,
    /// `None` if kernel timestamps are disabled.
    pub kernel: Option<KernelFacts>,
}

impl Facts<'_> {
    /// Returns the report of an open loop, without errors. `recorded` includes requests outside the window.
    pub fn report(&self, recorded: &[Recorded], samples: &[Sample], memory_bytes_per_connection: f64) -> LoadResult {
        let window_s = self.trial.config.phases.measure_ns as f64 / 1e9;
        let window = &self.trial.times.window;
        let all = || recorded.iter().flat_map(|client| &client.records);
        // Requests sent before `tick` and not completed by then.
        let outstanding = |tick: u64| {
            let is = |record: &&Record| {
                let (sent, complete) = (record.sent.load(Relaxed), record.complete.load(Relaxed));
                sent != 0 && sent < tick && (complete == 0 || complete > tick) && complete != REJECTED
            };
            all().filter(is).count() as u64
        };
        let count = |time: fn(&Record) -> &AtomicU64| {
            all().filter(|record| window.contains(&time(record).load(Relaxed))).count() as f64
        };
        LoadResult {
            rate_achieved_per_s: count(|record| &record.complete) / window_s,
            rate_sent_per_s: count(|record| &record.sent) / window_s,
            outstanding: Outstanding {
                at_start: outstanding(window.start),
                at_end: outstanding(window.end),
                after_cool_down: outstanding(u64::MAX),
            },
            trial_requests: all().count() as u64,
            fit: self.trial.config.rate_per_s().and_then(|rate_per_s| fit(samples, 1e9 / rate_per_s)),
            completed_by_part: by_part(window, all().map(|record| record.complete.load(Relaxed))),
            ..self.common(samples, memory_bytes_per_connection)
        }
    }

    /// Returns the part of the report that all loops share.
    pub fn common(&self, samples: &[Sample], memory_bytes_per_connection: f64) -> LoadResult {
        let window_ns = self.trial.config.phases.measure_ns;
        let (send_delay, service) =
            (measured(samples, window_ns, send_delay_ns), measured(samples, window_ns, service_ns));
        LoadResult {
            clock: ClockFacts { went_back: went_back(samples), ..self.trial.clock.facts() },
            pacing: self.trial.pacing,
            roles: self.trial.roles,
            transport: self.trial.config.transport(),
            connections: self.trial.config.connections,
            active: active_count(self.trial.config.active(), self.trial.config.connections),
            connect_ns: self.connect_ns,
            window_ns,
            rate_asked_per_s: self.trial.config.rate_per_s(),
            planned: samples.len() as u64,
            planned_by_part: self.trial.config.is_varied().then(|| planned_by_part(samples, window_ns)),
            sent: samples.iter().filter(|sample| sample.sent_ns != Sample::NEVER).count() as u64,
            completed: samples.iter().filter(|sample| sample.complete_ns != Sample::NEVER).count() as u64,
            goodput: self.trial.config.request_timeout().map(|it| goodput(samples, window_ns, it.timeout_ns)),
            late: late(&send_delay, &service, samples),
            stalled_ns: self.usage.stalled_ns,
            send_delay,
            service,
            response: measured(samples, window_ns, response_ns),
            kernel: self.kernel.as_ref().map(|kernel| kernel.report(samples, window_ns)),
            memory_bytes_per_connection,
            begun_late_ns: self.trial.times.begun_late_ns,
            cpu_ns: self.usage.cpu_ns,
            involuntary_switches: self.usage.involuntary_switches,
            ..LoadResult::default()
        }
    }

    /// Returns the report and the samples of the clients' `recordings`. `cpus` is the number of CPUs that the clients may use.
    pub fn account(
        &self,
        recordings: &[Recording],
        cpus: usize,
        memory_bytes_per_connection: f64,
    ) -> (LoadResult, Vec<Sample>) {
        let transactions = recordings.iter().map(|it| it.transactions.as_slice());
        let samples = transaction_samples(self.trial, transactions);
        let all: Vec<&Counts> = recordings.iter().map(|it| &it.counts).collect();
        let window_s = self.trial.config.phases.measure_ns as f64 / 1e9;
        let sum = |count: &dyn Fn(&Counts) -> u64| all.iter().map(|counts| count(counts)).sum::<u64>();
        // The counts are those up to the planned end of the window.
        let (completed_by_part, sent): ([u64; PARTS], u64) = match self.usage.cut {
            None => (std::array::from_fn(|part| sum(&|it| it.completed_by_part[part])), sum(&|it| it.sent)),
            Some(_) => {
                let (window, all) = (&self.trial.times.window, || recordings.iter().flat_map(|it| &it.transactions));
                let sent = all().filter(|it| window.contains(&it.sent)).count() as u64;
                (by_part(window, all().map(|it| it.complete)), sent)
            }
        };
        let unsampled = sum(&|it| it.unsampled);
        let cpus = cpus.min(all.len());
        // An empty sum of floats is -0.
        let busy = all.iter().filter_map(|it| it.busy_share(self.trial.clock)).fold(0.0, |busy, share| busy + share);
        let mut report = LoadResult {
            rate_achieved_per_s: completed_by_part.iter().sum::<u64>() as f64 / window_s,
            completed_by_part,
            rate_sent_per_s: sent as f64 / window_s,
            outstanding: Outstanding {
                at_start: sum(&|it| it.outstanding[0]),
                at_end: sum(&|it| it.outstanding[1]),
                after_cool_down: sum(&|it| it.after_cool_down),
            },
            errors: all.iter().fold(Errors::default(), |errors, it| errors.and(&it.errors)),
            trial_requests: sum(&|it| it.requests),
            closed_by_server: sum(&|it| it.reconnects),
            first_wrong: all.iter().find_map(|it| it.first_wrong.clone()),
            http: self.trial.config.http.as_ref().map(|_| self.http(recordings)),
            tls: None,
            pauses: pauses(
                self.trial.clock,
                &self.trial.times.window,
                all.iter().flat_map(|it| it.pauses.iter().cloned()),
            ),
            closed: Some(ClosedResult {
                unsampled,
                busy_share: busy / cpus as f64,
                cpus: cpus as u32,
                think_ns: self.trial.config.think().mean_ns,
            }),
            ..self.common(&samples, memory_bytes_per_connection)
        };
        if unsampled > 0 {
            // Each thread's last transactions have no sample, so the quantiles of earlier parts are complete.
            for (time, measured) in
                [&mut report.send_delay, &mut report.service, &mut report.response].into_iter().enumerate()
            {
                all.iter().for_each(|counts| measured.histogram.merge(&counts.beyond[time]));
                measured.distribution = measured.histogram.distribution();
            }
            report.late = late(&report.send_delay, &report.service, &samples);
        }
        report.clock.went_back += sum(&|it| it.went_back);
        report.planned += unsampled;
        report.sent += sum(&|it| it.beyond[0].count());
        report.completed += sum(&|it| it.beyond[1].count());
        (report, samples)
    }

    fn http(&self, recordings: &[Recording]) -> HttpResult {
        let transactions = recordings.iter().flat_map(|it| &it.transactions);
        let times = transactions.filter_map(|it| first_byte_ns(self.trial.clock, it));
        let mut first_byte: Histogram = times.map(|ns| ns.max(0) as u64).collect();
        recordings.iter().for_each(|it| first_byte.merge(&it.counts.beyond[3]));
        HttpResult {
            statuses: Statuses::sum(recordings.iter().map(|it| &it.counts.statuses)),
            first_byte: Measured::without_parts(first_byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClockChoice;

    #[test]
    fn each_time_of_the_window_is_in_one_part() {
        let parts = by_part(&(100..164), 0..1_000);
        assert_eq!(parts, [2; PARTS], "32 parts have 2 of 64 ticks each");
        assert_eq!(by_part(&(100..164), [99, 164, 0].into_iter()), [0; PARTS]);
        assert_eq!(by_part(&(100..164), [163].into_iter())[PARTS - 1], 1);
    }

    #[test]
    fn unanswered_request_has_the_class_of_its_connection() {
        let links: [Link; 4] = Default::default();
        links[1].fail(Class::Reset);
        links[2].fail(Class::Wrong);
        // Two clients with two connections each: (connection, sent, complete).
        let records = |all: &[(u32, u64, u64)]| {
            let record = |&(connection, sent, complete): &(u32, u64, u64)| {
                let record = Record::new(1, connection);
                record.sent.store(sent, Relaxed);
                record.complete.store(complete, Relaxed);
                record
            };
            all.iter().map(record).collect::<Vec<_>>()
        };
        let first = records(&[(0, 2, 3), (0, 2, 0), (1, 2, 3), (1, 2, 0), (1, 0, 0)]);
        let second = records(&[(0, 2, 3), (1, 2, 3), (1, 0, 0)]);
        let client = |first, records| Recorded { first, records, stamps: Vec::new(), transfers: Vec::new() };
        let errors = errors(&links, &[client(0, first), client(2, second)]);
        assert_eq!(errors, Errors { timeout: 1, reset: 2, wrong: 1, ..Errors::default() });
    }

    #[test]
    fn transactions_beyond_the_memory_are_in_all_figures() {
        let config = LoadConfig::small(([127, 0, 0, 1], 0)).with(|it| it.client.clients = 3);
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let mut counts = Counts::default();
        (counts.unsampled, counts.completed_by_part[3]) = (2, 3);
        counts.beyond[0].extend([10, 20]);
        counts.beyond[1].extend([5_000]);
        let times = Times { window: 0..1, ..Times::default() };
        let trial = Trial::sleeping(&config, &clock, &times);
        let facts = trial.facts(0, Usage::default());
        let transactions = vec![Transaction { sent: 10, complete: 110, ..Transaction::default() }];
        let empty = Recording { transactions: Vec::new(), counts: Counts::default() };
        let recordings = [Recording { transactions, counts }, empty];
        let (report, _) = facts.account(&recordings, 1, 1.0);
        assert_eq!((report.planned, report.sent, report.completed), (3, 3, 2));
        assert_eq!(
            (report.send_delay.distribution.count, report.service.distribution.max_ns / 100),
            (3, 50),
            "the longest service time is 5 us"
        );
        assert_eq!((report.response.distribution.count, report.rate_achieved_per_s), (1, 3.0 / 5.0));
        let closed = report.closed.unwrap();
        assert_eq!((closed.unsampled, report.completed_by_part[3], closed.cpus), (2, 3, 1));
    }
}
