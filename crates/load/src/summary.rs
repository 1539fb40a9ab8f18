//! From records to samples, and from samples to the report. Runs after the trial.

use std::ops::Range;

use stats::{Histogram, TestResult};

use crate::class::Class;
use crate::clock::{Clock, Wall};
use crate::config::{LoadConfig, Pacing, Roles};
use crate::interface::Hardware;
use crate::late::LateSends;
use crate::record::{Link, Record, Stamp};
use crate::report::{ClockFacts, Errors, KernelReport, LoadReport, Measured, Outstanding, PARTS, Sample};
use crate::schedule;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the process used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    cpu_ns: u64,
    involuntary_switches: u64,
    /// For how long it was stalled, in nanoseconds; `None` where that was not measured.
    pub stalled_ns: Option<u64>,
}

impl Usage {
    /// So far.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel fills in `usage`; with these arguments it cannot fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Self {
            cpu_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
            involuntary_switches: usage.ru_nivcsw as u64,
            stalled_ns: None,
        }
    }

    /// What was added after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            stalled_ns: self.stalled_ns,
        }
    }
}

/// What one client leaves.
#[derive(Debug)]
pub struct Recorded {
    /// The number of its first connection.
    pub first: u32,
    /// Its requests.
    pub records: Vec<Record>,
    /// What the kernel says of each; empty when it was not asked.
    pub stamps: Vec<Stamp>,
}

/// The requests planned in `window`, by planned time. Without the wall clock the kernel's timestamps are left out.
pub fn samples(clock: &Clock, wall: Option<&Wall>, window: &Range<u64>, recorded: &[Recorded]) -> Vec<Sample> {
    let time = |ticks: u64| if ticks == 0 { Sample::NEVER } else { clock.between_ns(window.start, ticks) };
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
        connection: first + record.connection,
        client: 0,
    };
    let mut samples: Vec<Sample> = recorded
        .iter()
        .flat_map(|client| client.records.iter().enumerate().map(move |(at, record)| (client, at, record)))
        .filter(|(_, _, record)| window.contains(&record.planned))
        .map(|(client, at, record)| sample(client.first, record, client.stamps.get(at)))
        .collect();
    // Each client's are in order already, which this sort makes use of.
    samples.sort_by_key(|sample| sample.planned_ns);
    samples
}

/// Why requests were not answered, over the whole trial: by what became of their connection, sent or not; a timeout
/// where the connection is well. A connection that failed when nothing was wanted of it, then or later, counts once.
pub fn errors(links: &[Link], recorded: &[Recorded]) -> Errors {
    let mut errors = Errors::default();
    let mut idle: Vec<Option<Class>> = links.iter().map(Link::failure).collect();
    for Recorded { first, records, .. } in recorded {
        for record in records.iter().filter(|record| record.complete.load(Relaxed) == 0) {
            let connection = (first + record.connection) as usize;
            match links[connection].failure() {
                Some(class) => {
                    errors.count(class, 1);
                    idle[connection] = None;
                }
                None if record.sent.load(Relaxed) != 0 => errors.count(Class::Timeout, 1),
                // The client did not get round to it: no failure of the server's.
                None => {}
            }
        }
    }
    idle.into_iter().flatten().for_each(|class| errors.count(class, 1));
    errors
}

/// The distribution of one difference over `samples`, which are in order of planned time; those without it are left out.
pub fn measured(samples: &[Sample], window_ns: u64, difference: impl Fn(&Sample) -> Option<i64>) -> Measured {
    let mut histogram = Histogram::new();
    let (mut p50_by_part_ns, mut p90_by_part_ns) = ([0; PARTS], [0; PARTS]);
    let mut rest = samples;
    let mut values = Vec::with_capacity(samples.len() / PARTS + 1);
    for part in 0..PARTS {
        let end_ns = (u128::from(window_ns) * (part as u128 + 1) / PARTS as u128) as i64;
        let count =
            if part == PARTS - 1 { rest.len() } else { rest.partition_point(|sample| sample.planned_ns < end_ns) };
        let (these, others) = rest.split_at(count);
        rest = others;
        values.clear();
        // Our times are of one clock and in order, and rounding keeps the order: one that is negative is counted, as the
        // clock's going backwards (`went_back`). The kernel's are of another: what that makes negative is counted apart.
        values.extend(these.iter().filter_map(&difference).map(|ns| ns.max(0) as u64));
        histogram.extend(values.iter().copied());
        if !values.is_empty() {
            let rank = |share: f64| ((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1;
            let (p50, p90) = (rank(0.5), rank(0.9));
            p90_by_part_ns[part] = *values.select_nth_unstable(p90).1;
            // What is below the 90th percentile is in front of it now.
            p50_by_part_ns[part] = *values[..=p90].select_nth_unstable(p50).1;
        }
    }
    Measured { distribution: histogram.distribution(), p50_by_part_ns, p90_by_part_ns, histogram }
}

/// How many of these times, in ticks, fall into each part of the window.
pub fn by_part(window: &Range<u64>, ticks: impl Iterator<Item = u64>) -> [u64; PARTS] {
    let mut parts = [0; PARTS];
    let length = u128::from(window.end - window.start);
    for tick in ticks.filter(|tick| window.contains(tick)) {
        parts[(u128::from(tick - window.start) * PARTS as u128 / length) as usize] += 1;
    }
    parts
}

/// `later` − `earlier`, where both are known.
fn between(earlier: i64, later: i64) -> Option<i64> {
    (earlier != Sample::NEVER && later != Sample::NEVER).then(|| later.saturating_sub(earlier))
}

/// t2 − t1.
pub fn lag_ns(sample: &Sample) -> Option<i64> {
    between(sample.planned_ns, sample.sent_ns)
}

/// t3 − t2.
pub fn service_ns(sample: &Sample) -> Option<i64> {
    between(sample.sent_ns, sample.complete_ns)
}

/// t3 − t1.
pub fn response_ns(sample: &Sample) -> Option<i64> {
    between(sample.planned_ns, sample.complete_ns)
}

/// In how many of these the clock went backwards.
pub fn went_back(samples: &[Sample]) -> u64 {
    let is_negative = |sample: &&Sample| {
        [lag_ns, service_ns, response_ns].iter().any(|time_ns| time_ns(sample).is_some_and(|ns| ns < 0))
    };
    samples.iter().filter(is_negative).count() as u64
}

/// How the kernel's timestamps were taken.
#[derive(Debug)]
pub struct KernelFacts {
    /// The interface that requests left by.
    pub interface: String,
    /// Whether that takes timestamps of its own.
    pub hardware: Hardware,
    /// The wall clock was set during the trial.
    pub wall_clock_stepped: bool,
}

impl KernelFacts {
    /// What they say of these samples.
    pub fn report(&self, samples: &[Sample], window_ns: u64) -> KernelReport {
        let count = |is: fn(&Sample) -> bool| samples.iter().filter(|sample| is(sample)).count() as u64;
        let hardware = measured(samples, window_ns, |sample| between(0, sample.hardware_service_ns));
        KernelReport {
            interface: self.interface.clone(),
            hardware: self.hardware,
            to_scheduler: measured(samples, window_ns, |sample| between(sample.sent_ns, sample.scheduler_ns)),
            to_driver: measured(samples, window_ns, |sample| between(sample.sent_ns, sample.driver_ns)),
            from_arrival: measured(samples, window_ns, |sample| between(sample.arrived_ns, sample.complete_ns)),
            service: measured(samples, window_ns, |sample| between(sample.driver_ns, sample.arrived_ns)),
            hardware_service: (hardware.distribution.count > 0).then_some(hardware),
            unstamped_sent: count(|sample| sample.sent_ns != Sample::NEVER && sample.driver_ns == Sample::NEVER),
            unstamped_arrived: count(|sample| {
                sample.complete_ns != Sample::NEVER && sample.arrived_ns == Sample::NEVER
            }),
            out_of_order: count(|sample| {
                let times =
                    [sample.sent_ns, sample.scheduler_ns, sample.driver_ns, sample.arrived_ns, sample.complete_ns];
                let known = times.into_iter().filter(|&ns| ns != Sample::NEVER).collect::<Vec<_>>();
                known.windows(2).any(|pair| pair[0].saturating_sub(pair[1]) > CLOCKS_APART_NS_MAX)
            }),
            wall_clock_stepped: self.wall_clock_stepped,
        }
    }
}

/// Our clock and the wall's are compared to some tens of nanoseconds; over half a second between, they may part by this.
const CLOCKS_APART_NS_MAX: i64 = 5_000;

/// Whether the requests were sent as they were planned.
pub fn fit(samples: &[Sample], interval_ns: f64) -> Option<TestResult> {
    let planned: Vec<i64> = samples.iter().map(|sample| sample.planned_ns).collect();
    let sent: Vec<i64> = samples.iter().map(|sample| sample.sent_ns).filter(|&ns| ns != Sample::NEVER).collect();
    stats::fit::sends_against_plan(&planned, &sent, interval_ns)
}

/// Those of `samples` that were sent late, by the histograms, which have what is no sample too.
pub fn late(lag: &Measured, service: &Measured, samples: &[Sample]) -> LateSends {
    let times = samples.iter().map(|sample| (lag_ns(sample), service_ns(sample)));
    LateSends::of(&lag.histogram, &service.histogram).with_on_time(times)
}

/// What a report is made of besides the records.
pub struct Facts<'a> {
    /// What was asked for.
    pub config: &'a LoadConfig,
    /// The roles used.
    pub roles: Roles,
    /// The pacing used; `None` in a closed loop.
    pub pacing: Option<Pacing>,
    /// The clock used.
    pub clock: &'a Clock,
    /// Time to connect, in nanoseconds.
    pub connect_ns: u64,
    /// The measured window, in ticks.
    pub window: Range<u64>,
    /// What the process used in the window.
    pub usage: Usage,
    /// All connections, for what became of them.
    pub links: &'a [Link],
    /// How the kernel's timestamps were taken; `None` when they were not asked for.
    pub kernel: Option<KernelFacts>,
}

/// What was seen of all requests, and not only of those of the window.
#[derive(Debug)]
pub struct Seen {
    /// Responses completed inside the window, a second.
    pub rate_achieved_per_s: f64,
    /// Requests sent inside the window, a second.
    pub rate_sent_per_s: f64,
    /// Requests sent and not answered.
    pub outstanding: Outstanding,
    /// What went wrong.
    pub errors: Errors,
}

impl Facts<'_> {
    /// The report of an open loop on `samples`; `recorded` also tells of requests outside the window.
    pub fn report(&self, recorded: &[Recorded], samples: &[Sample], memory_bytes_per_connection: f64) -> LoadReport {
        let window_s = self.config.phases.measure_ns as f64 / 1e9;
        let all = || recorded.iter().flat_map(|client| &client.records);
        let in_window = |tick: u64| self.window.contains(&tick);
        // Sent before `tick`, and not completed by then.
        let outstanding = |tick: u64| {
            let is = |record: &&Record| {
                let (sent, complete) = (record.sent.load(Relaxed), record.complete.load(Relaxed));
                sent != 0 && sent < tick && (complete == 0 || complete > tick)
            };
            all().filter(is).count() as u64
        };
        let count = |is: &dyn Fn(&Record) -> bool| all().filter(|record| is(record)).count() as f64;
        let seen = Seen {
            rate_achieved_per_s: count(&|record| in_window(record.complete.load(Relaxed))) / window_s,
            rate_sent_per_s: count(&|record| in_window(record.sent.load(Relaxed))) / window_s,
            outstanding: Outstanding {
                at_start: outstanding(self.window.start),
                at_end: outstanding(self.window.end),
                after_drain: outstanding(u64::MAX),
            },
            errors: errors(self.links, recorded),
        };
        let fit = self.config.rate_per_s.and_then(|rate_per_s| fit(samples, 1e9 / rate_per_s));
        let completed_by_part = Some(by_part(&self.window, all().map(|record| record.complete.load(Relaxed))));
        LoadReport { fit, completed_by_part, ..self.of(samples, seen, memory_bytes_per_connection) }
    }

    /// What is said of any loop.
    pub fn of(&self, samples: &[Sample], seen: Seen, memory_bytes_per_connection: f64) -> LoadReport {
        let window_ns = self.config.phases.measure_ns;
        let (lag, service) = (measured(samples, window_ns, lag_ns), measured(samples, window_ns, service_ns));
        LoadReport {
            clock: ClockFacts { went_back: went_back(samples), ..self.clock.facts() },
            pacing: self.pacing,
            roles: self.roles,
            transport: self.config.transport(),
            connections: self.config.connections,
            active: schedule::active_count(self.config.active, self.config.connections),
            connect_ns: self.connect_ns,
            window_ns,
            rate_asked_per_s: self.config.rate_per_s,
            planned: samples.len() as u64,
            sent: samples.iter().filter(|sample| sample.sent_ns != Sample::NEVER).count() as u64,
            completed: samples.iter().filter(|sample| sample.complete_ns != Sample::NEVER).count() as u64,
            rate_achieved_per_s: seen.rate_achieved_per_s,
            completed_by_part: None,
            rate_sent_per_s: seen.rate_sent_per_s,
            outstanding: seen.outstanding,
            errors: seen.errors,
            late: Some(late(&lag, &service, samples)),
            receiver_busy_share: None,
            stalled_ns: self.usage.stalled_ns,
            lag,
            service,
            response: measured(samples, window_ns, response_ns),
            fit: None,
            closed: None,
            churn: None,
            datagrams: None,
            stream: None,
            kernel: self.kernel.as_ref().map(|kernel| kernel.report(samples, window_ns)),
            memory_bytes_per_connection,
            processes: Vec::new(),
            begun_late_ns: 0,
            cpu_ns: self.usage.cpu_ns,
            involuntary_switches: self.usage.involuntary_switches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_in_the_window_is_in_one_part() {
        let parts = by_part(&(100..164), 0..1_000);
        assert_eq!(parts, [2; PARTS], "64 ticks in 32 parts, and none of those outside");
        assert_eq!(by_part(&(100..164), [99, 164, 0].into_iter()), [0; PARTS]);
        assert_eq!(by_part(&(100..164), [163].into_iter())[PARTS - 1], 1);
    }

    #[test]
    fn failures_are_counted_by_what_became_of_the_connection() {
        let links: Vec<_> = (0..4).map(|_| Link::new(std::fs::File::open("/dev/null").unwrap().into())).collect();
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
        let client = |first, records| Recorded { first, records, stamps: Vec::new() };
        let errors = errors(&links, &[client(0, first), client(2, second)]);
        assert_eq!(errors, Errors { timeout: 1, reset: 2, wrong: 1, ..Errors::default() });
    }

    fn sample(planned_ns: i64, service_ns: Option<i64>) -> Sample {
        let sent_ns = planned_ns + 10;
        Sample {
            planned_ns,
            sent_ns,
            complete_ns: service_ns.map_or(Sample::NEVER, |service_ns| sent_ns + service_ns),
            ..Sample::UNKNOWN
        }
    }

    #[test]
    fn differences_and_parts() {
        // One a microsecond for 100 µs; the second half takes twice as long; one never comes.
        let samples: Vec<_> =
            (0..100).map(|at| sample(at * 1_000, (at != 30).then_some(if at < 50 { 100 } else { 200 }))).collect();
        let service = measured(&samples, 100_000, service_ns);
        assert_eq!(service.distribution.count, 99);
        assert_eq!(service.p90_by_part_ns, service.p50_by_part_ns);
        assert_eq!(service.p50_by_part_ns[..PARTS / 2], [100; PARTS / 2]);
        assert_eq!(service.p50_by_part_ns[PARTS / 2..], [200; PARTS / 2]);
        assert_eq!(measured(&samples, 100_000, lag_ns).distribution.p99_ns, 10);
        assert_eq!(measured(&samples, 100_000, response_ns).distribution.max_ns, 210);
    }

    #[test]
    fn a_clock_that_went_backwards_is_counted_once_for_each_request() {
        let times = |sent_ns, complete_ns| Sample { planned_ns: 100, sent_ns, complete_ns, ..Sample::UNKNOWN };
        let in_order =
            [times(100, 100), times(150, 200), times(150, Sample::NEVER), times(Sample::NEVER, Sample::NEVER)];
        assert_eq!(went_back(&in_order), 0);
        let back = [times(99, 200), times(150, 149), times(90, 80), times(99, Sample::NEVER)];
        assert_eq!(went_back(&[&in_order[..], &back].concat()), 4);
    }

    #[test]
    fn nothing_measured_is_nothing_shown() {
        let nothing = measured(&[], 1_000, lag_ns);
        assert_eq!(nothing.distribution.count, 0);
        assert_eq!((nothing.p50_by_part_ns, nothing.p90_by_part_ns), ([0; PARTS], [0; PARTS]));
    }
}
