//! The closed loop (voras2009 section III): `clients` workers, each a thread with its own connections. There is no rate and
//! nothing is planned ahead: t1 is when the response before was whole and thought over, t2 and t3 are as in an open loop.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::clock::Clock;
use crate::config::{Choice, LoadConfig, Pacing, Roles, Timestamps, Transport};
use crate::error::LoadError;
use crate::ledger::{Kept, Tally, Times, Transaction};
use crate::placement;
use crate::progress::Progress;
use crate::report::{ClosedReport, Errors, LoadReport, Measured, Outstanding, PARTS, Sample};
use crate::run::{self, Connected, Listener, Outcome};
use crate::speak::Speak;
use crate::summary::{self, Facts, Seen};
use crate::worker::{self, Worker};

/// Transactions a second that memory is set aside for, over all workers: several times what one machine was seen to do...
const RATE_PER_S_MAX: u64 = 500_000;
/// ...but for so many at most, 160 MiB of them. What is beyond is counted, and in the histograms.
const SAMPLES_MAX: u64 = 4 << 20;

/// How many transactions of the window one worker keeps.
pub fn samples_max(config: &LoadConfig) -> u64 {
    let window_ns = u128::from(config.phases.measure_ns);
    let expected = (window_ns * u128::from(RATE_PER_S_MAX) / 1_000_000_000) as u64;
    (expected.min(SAMPLES_MAX) / u64::from(config.all_clients())).max(1)
}

/// What makes no sense in a closed loop.
pub fn validate(config: &LoadConfig) -> Result<(), LoadError> {
    let wrong = |text: &str| Err(LoadError::Config(text.to_owned()));
    if config.rate_per_s.is_some() {
        return wrong("rate: a closed loop has none; leave it out");
    }
    if config.transport() == Transport::Udp {
        return wrong(
            "transport: in a closed loop a datagram that is lost would end its connection's requests; use tcp",
        );
    }
    if config.active < 1.0 || config.choice != Choice::Uniform {
        return wrong(
            "active, choice: in a closed loop every connection sends; leave them out, or add idle connections",
        );
    }
    if config.timestamps == Timestamps::Kernel {
        return wrong("timestamps: a closed loop has only the client's; use `client`");
    }
    if config.pacing != Pacing::Auto || config.roles != Roles::Auto {
        return wrong("pacing, roles: a closed loop waits for responses, in one loop a client; leave them out");
    }
    Ok(())
}

/// Runs a closed loop over all connections.
pub fn run<S: Speak>(
    config: &LoadConfig,
    speaker: &S,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, links, connect_ns, .. } = connected;
    let shares: Vec<Range<usize>> = (0..config.clients).map(|number| share(config, number)).collect();
    let progress: Vec<Progress> = shares.iter().map(|_| Progress::default()).collect();
    let workers = shares.iter().zip(&progress).enumerate().map(|(number, (share, progress))| {
        Worker::new(clock, speaker, config, number as u32, &links[share.clone()], progress)
    });
    let workers: Vec<Worker<'_, S>> = workers.collect::<Result<_, _>>()?;

    // Known only now that all memory is set aside.
    let start = run::begin(&clock, listener)?;
    let window = run::window(config, &clock, start);
    let drained = window.end + clock.ticks(config.phases.drain_ns as f64);
    let times = Times { start, window: window.clone(), drained };
    let loops = workers.into_iter().map(|worker| {
        let times = times.clone();
        move |stop: &AtomicBool| worker.run(times, stop)
    });
    let progress: Vec<&Progress> = progress.iter().collect();
    let (kept, usage) = run::run_threads(config, (&clock, start), &progress, None, loops, listener)?;

    let facts = Facts {
        config,
        roles: Roles::OneLoop,
        pacing: None,
        clock: &clock,
        connect_ns,
        window,
        usage,
        links: &links,
        kernel: None,
    };
    let (report, samples) = account(&facts, &kept, &shares, worker::bytes_per_connection::<S>() as f64);
    Ok(Outcome { report, samples, connections: links.into_iter().map(|link| link.io).collect() })
}

/// A worker's connections.
pub fn share(config: &LoadConfig, number: u32) -> Range<usize> {
    let first = |number| (u64::from(config.connections) * u64::from(number) / u64::from(config.clients)) as usize;
    first(number)..first(number + 1)
}

/// The transactions that were due in the window, by the time at which they were.
pub fn samples(clock: &Clock, window: &Range<u64>, kept: &[Kept], firsts: impl Iterator<Item = u32>) -> Vec<Sample> {
    let time = |ticks: u64| if ticks == 0 { Sample::NEVER } else { clock.between_ns(window.start, ticks) };
    let sample = |first: u32, transaction: &Transaction| Sample {
        planned_ns: clock.between_ns(window.start, transaction.due),
        sent_ns: time(transaction.sent),
        complete_ns: time(transaction.complete),
        connection: first + transaction.connection,
        ..Sample::UNKNOWN
    };
    let mut samples = Vec::with_capacity(kept.iter().map(|(transactions, _)| transactions.len()).sum());
    for ((transactions, _), first) in kept.iter().zip(firsts) {
        samples.extend(transactions.iter().map(|transaction| sample(first, transaction)));
    }
    samples.sort_by_key(|sample| sample.planned_ns);
    samples
}

/// What loops of these connections kept: in figures, and as samples.
pub fn account(
    facts: &Facts<'_>,
    kept: &[Kept],
    shares: &[Range<usize>],
    memory_bytes_per_connection: f64,
) -> (LoadReport, Vec<Sample>) {
    let samples = samples(facts.clock, &facts.window, kept, shares.iter().map(|share| share.start as u32));
    let tallies: Vec<&Tally> = kept.iter().map(|(_, tally)| tally).collect();
    (report(facts, &tallies, &samples, memory_bytes_per_connection), samples)
}

/// What a closed loop's threads kept, in figures.
pub fn report(
    facts: &Facts<'_>,
    tallies: &[&Tally],
    samples: &[Sample],
    memory_bytes_per_connection: f64,
) -> LoadReport {
    let window_s = facts.config.phases.measure_ns as f64 / 1e9;
    let sum = |figure: &dyn Fn(&Tally) -> u64| tallies.iter().map(|tally| figure(tally)).sum::<u64>();
    let completed_by_part: [u64; PARTS] = std::array::from_fn(|part| sum(&|tally| tally.completed_by_part[part]));
    let errors = tallies.iter().fold(Errors::default(), |errors, tally| errors.and(&tally.errors));
    let seen = Seen {
        rate_achieved_per_s: completed_by_part.iter().sum::<u64>() as f64 / window_s,
        rate_sent_per_s: sum(&|tally| tally.sent) as f64 / window_s,
        outstanding: Outstanding {
            at_start: sum(&|tally| tally.outstanding[0]),
            at_end: sum(&|tally| tally.outstanding[1]),
            after_drain: sum(&|tally| tally.after_drain),
        },
        errors,
    };
    let unsampled = sum(&|tally| tally.unsampled);
    let cpus = placement::cpus(facts.config).min(tallies.len());
    // Of none it is 0, and not -0.
    let busy = tallies.iter().filter_map(|tally| tally.busy_share(facts.clock)).fold(0.0, |busy, share| busy + share);
    let mut report = facts.of(samples, seen, memory_bytes_per_connection);
    // What there was no memory for is all of later transactions: the parts' medians are of the samples.
    let beyond = [&mut report.lag, &mut report.service, &mut report.response].into_iter().enumerate();
    for (which, measured) in beyond.filter(|_| unsampled > 0) {
        add(measured, tallies, which);
    }
    if unsampled > 0 {
        report.late = Some(summary::late(&report.lag, &report.service, samples));
    }
    report.clock.went_back += sum(&|tally| tally.went_back);
    report.planned += unsampled;
    report.sent += sum(&|tally| tally.beyond[0].count());
    report.completed += sum(&|tally| tally.beyond[1].count());
    LoadReport {
        completed_by_part: Some(completed_by_part),
        closed: Some(ClosedReport {
            unsampled,
            busy_share: busy / cpus as f64,
            cpus: cpus as u32,
            think_ns: facts.config.think.mean_ns,
        }),
        ..report
    }
}

/// Adds times that are no samples.
fn add(measured: &mut Measured, tallies: &[&Tally], which: usize) {
    tallies.iter().for_each(|tally| measured.histogram.merge(&tally.beyond[which]));
    measured.distribution = measured.histogram.distribution();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClockChoice;
    use crate::summary::Usage;

    fn config() -> LoadConfig {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let address: wire::Address = "127.0.0.1:0".parse().unwrap();
        LoadConfig { connections: 10, clients: 3, cpus: vec![0], ..LoadConfig::new(address, service) }
    }

    #[test]
    fn workers_share_connections_and_memory() {
        assert_eq!([0, 1, 2].map(|number| share(&config(), number)), [0..3, 3..6, 6..10]);
        let mut config = config();
        config.phases.measure_ns = 3_000_000_000;
        assert_eq!(samples_max(&config), 500_000);
        config.phases.measure_ns = 3_600_000_000_000;
        assert_eq!(samples_max(&config), SAMPLES_MAX / 3);
    }

    #[test]
    fn what_is_no_sample_is_in_the_figures() {
        let (config, clock) = (config(), Clock::calibrate(ClockChoice::Monotonic).unwrap());
        let mut tally = Tally::new();
        (tally.unsampled, tally.completed_by_part[3]) = (2, 3);
        tally.beyond[0].extend([10, 20]);
        tally.beyond[1].extend([5_000]);
        let facts = Facts {
            config: &config,
            roles: Roles::OneLoop,
            pacing: None,
            clock: &clock,
            connect_ns: 0,
            window: 0..1,
            usage: Usage::default(),
            links: &[],
            kernel: None,
        };
        let sample = Sample { sent_ns: 10, complete_ns: 110, ..Sample::UNKNOWN };
        let report = report(&facts, &[&tally, &Tally::new()], &[sample], 1.0);
        assert_eq!((report.planned, report.sent, report.completed), (3, 3, 2));
        assert_eq!((report.lag.distribution.count, report.service.distribution.max_ns / 100), (3, 50), "to 0.1 %");
        assert_eq!((report.response.distribution.count, report.rate_achieved_per_s), (1, 3.0 / 5.0));
        let closed = report.closed.unwrap();
        assert_eq!((closed.unsampled, report.completed_by_part.unwrap()[3], closed.cpus), (2, 3, 1));
    }
}
