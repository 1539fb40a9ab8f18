//! The soak: servers run for an hour under short-lived connections and faults. After each round it reads a server's memory,
//! descriptors, threads and processes, and compares the first quarter of the rounds with the last.

mod round;
mod server;

use std::fmt;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use jiff::SignedDuration;

use crate::process::muxbench;
use server::{Resources, Server};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Limit on the growth of the median memory from the first quarter to the last. Not 0, because allocators retain freed memory.
const SINCE_FIRST: Growth = Growth { share: 0.1, bytes: 1 << 20 };
/// Alternative limit, on the growth from the third quarter to the last, because buffers and stacks fill only once. It is less
/// than a third of `SINCE_FIRST`, so steady growth that exceeds `SINCE_FIRST` exceeds this limit too.
const SINCE_THIRD: Growth = Growth { share: 0.03, bytes: 256 << 10 };
/// The minimum number of samples for a verdict, which ignores the first.
const SAMPLES_MIN: usize = 5;

/// Runs servers under short-lived connections and faults; fails unless their memory and descriptors stay flat
#[derive(Debug, Args)]
pub struct Soak {
    /// Duration, such as 90s, 10m or 1h
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    duration: SignedDuration,
    /// Architectures, with commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "epoll,io_uring,mt,mp,mt-pool:300,mp-prefork:300,symped:2/poll,seda:1+2/epoll,tokio:2,smol,may"
    )]
    arch: Vec<String>,
    /// Services, with commas; services that an architecture cannot provide are left out
    #[arg(long, value_delimiter = ',', default_value = "fixed,http,kv,redis,stream")]
    service: Vec<String>,
    /// Length of a round
    #[arg(long = "turn", value_name = "TIME", default_value = "3s")]
    round: SignedDuration,
    /// Number of servers that have a round at the same time; then the next servers have one
    #[arg(long, value_name = "N", default_value = "3")]
    at_once: NonZeroUsize,
}

/// Runs rounds on each server until the time is over; then prints a verdict on each server.
pub fn run(soak: &Soak) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let [duration, turn] = [soak.duration, soak.round].map(SignedDuration::unsigned_abs);
    let mut servers = Vec::new();
    // With services in the outer loop, servers that have a round at the same time usually differ in architecture.
    for (arch, service) in soak.service.iter().flat_map(|service| soak.arch.iter().map(move |arch| (arch, service))) {
        match Server::start(&binary, arch, service) {
            Ok(server) => servers.push(server),
            Err(reason) => println!("{arch} {service} is left out: {reason:#}"),
        }
    }
    ensure!(!servers.is_empty(), "no architecture can provide any service; choose others with --arch and --service");
    let (count, at_once) = (servers.len(), soak.at_once.get());
    println!("{count} servers, {at_once} at a time in rounds of {turn:?}, for {duration:?}");
    let started = Instant::now();
    let (mut reported, mut rounds, mut failures) = (None, 0, Vec::new());
    'all: loop {
        for group in servers.chunks_mut(at_once) {
            if started.elapsed() >= duration {
                break 'all;
            }
            let outcomes = thread::scope(|scope| {
                let run = |server: &mut Server| {
                    let done = round::run(&binary, server, turn)?;
                    server.sample(started.elapsed()).map(|()| done)
                };
                let threads: Vec<_> = group.iter_mut().map(|server| scope.spawn(move || run(server))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a round does not panic")).collect::<Vec<_>>()
            });
            for (server, outcome) in group.iter_mut().zip(outcomes) {
                rounds += 1;
                let is_due = reported.is_none_or(|it: Instant| it.elapsed() >= PROGRESS_INTERVAL);
                let message = match &outcome {
                    Ok(done) => format!("{} {done}", server.summary()),
                    Err(error) => format!("{}: {error:#}", server.name),
                };
                if is_due || outcome.is_err() {
                    reported = Some(Instant::now());
                    println!("{:5} s, round {rounds}: {message}", started.elapsed().as_secs());
                }
                if outcome.is_err() {
                    failures.push(format!("round {rounds}: {message}"));
                    if server.has_ended() {
                        break 'all;
                    }
                }
            }
        }
    }
    println!(
        "\n{rounds} rounds, {:?} of load for each server; medians of the first and last quarter of a server's rounds; limits: no growth \
         of descriptors, threads or processes; memory grows by {SINCE_FIRST}, or since the third quarter by {SINCE_THIRD}",
        turn * (rounds / count as u32),
    );
    for server in &servers {
        match flat(&server.samples) {
            Ok(verdict) => println!("  {:28} flat: {verdict}", server.name),
            Err(verdict) => {
                println!("  {:28} NOT SHOWN FLAT: {verdict}", server.name);
                failures.push(server.name.clone());
            }
        }
    }
    ensure!(failures.is_empty(), "{} failures: {}", failures.len(), failures.join("; "));
    Ok(())
}

/// Limit on the growth of memory: a share of the earlier value plus bytes.
struct Growth {
    share: f64,
    bytes: u64,
}

impl Growth {
    fn allows(&self, (before, after): (u64, u64)) -> bool {
        after <= before + (before as f64 * self.share) as u64 + self.bytes
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} % plus {} KiB", self.share * 100.0, self.bytes >> 10)
    }
}

fn median(samples: &[(Duration, Resources)], value: impl Fn(&Resources) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(|(_, held)| value(held)).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Compares the medians of the first and the last quarter of the samples. Ignores the first sample, which is warm-up.
fn flat(samples: &[(Duration, Resources)]) -> Result<String, String> {
    if samples.len() < SAMPLES_MIN {
        return Err(format!(
            "{} rounds, and a verdict needs {SAMPLES_MIN}; allow more time (--for), or run fewer servers (--arch, --service)",
            samples.len()
        ));
    }
    let samples = &samples[1..];
    let quarter = samples.len() / 4;
    let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
    let third = &samples[samples.len() - 2 * quarter..samples.len() - quarter];
    let change = |value: fn(&Resources) -> u64| (median(first, value), median(last, value));
    let memory = change(|held| held.memory_bytes);
    let since_third = (median(third, |held| held.memory_bytes), memory.1);
    let counts = [
        ("descriptors", change(|held| held.descriptors)),
        ("threads", change(|held| held.threads)),
        ("processes", change(|held| held.processes)),
    ];
    let hours = (last[quarter / 2].0 - first[quarter / 2].0).as_secs_f64() / 3_600.0;
    let slope = (memory.1 as f64 - memory.0 as f64) / 1024.0 / hours.max(f64::MIN_POSITIVE);
    let mut verdict = format!("{} -> {} KiB ({slope:+.0} KiB/h)", memory.0 >> 10, memory.1 >> 10);
    for (name, (before, after)) in counts {
        verdict += &format!(", {before} -> {after} {name}");
    }
    let is_flat = SINCE_FIRST.allows(memory);
    if !is_flat {
        verdict += &format!("; {} KiB in the third quarter", since_third.0 >> 10);
    }
    let holds =
        (is_flat || SINCE_THIRD.allows(since_third)) && counts.iter().all(|(_, (before, after))| after <= before);
    if holds { Ok(verdict) } else { Err(verdict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample per minute; `values` returns memory and descriptors.
    fn samples(values: impl Fn(u64) -> (u64, u64)) -> Vec<(Duration, Resources)> {
        let sample = |minute| {
            let (memory_bytes, descriptors) = values(minute);
            let held = Resources { memory_bytes, descriptors, threads: 3, processes: 1 };
            (Duration::from_secs(60 * minute), held)
        };
        (0..60).map(sample).collect()
    }

    #[test]
    fn constant_memory_is_flat_whatever_the_first_sample() {
        let found = flat(&samples(|minute| (if minute == 0 { 1 << 20 } else { 9 << 20 }, 14))).unwrap();
        assert_eq!(found, "9216 -> 9216 KiB (+0 KiB/h), 14 -> 14 descriptors, 3 -> 3 threads, 1 -> 1 processes");
        flat(&samples(|minute| ((9 << 20) + minute % 7 * 100_000, 14 - minute % 2))).unwrap();
    }

    #[test]
    fn growth_is_not_flat() {
        let found = flat(&samples(|minute| ((9 << 20) + minute * 64 * 1024, 14))).unwrap_err();
        assert!(found.contains("(+3840 KiB/h)"), "{found}");
        let found = flat(&samples(|minute| (9 << 20, 14 + minute / 30))).unwrap_err();
        assert!(found.contains("14 -> 15 descriptors"), "{found}");
    }

    #[test]
    fn growth_that_ends_is_flat_and_steady_growth_is_not() {
        let found = flat(&samples(|minute| ((9 << 20) + minute.min(25) * 256 * 1024, 14))).unwrap();
        assert!(found.contains("; 15616 KiB in the third quarter"), "{found}");
        // The slowest steady growth that exceeds the limit.
        let (kib, share) = (SINCE_FIRST.bytes >> 10, SINCE_FIRST.share);
        for before_kib in [1_000, 100_000] {
            let more_kib = kib as f64 + before_kib as f64 * share;
            let grown =
                |minute: u64| ((before_kib << 10) + (more_kib * 1_024.0 * 1.5 * minute as f64 / 60.0) as u64, 14);
            flat(&samples(grown)).unwrap_err();
        }
    }

    #[test]
    fn too_few_rounds_give_no_verdict() {
        assert!(flat(&samples(|_| (1, 1))[..4]).unwrap_err().contains("4 rounds, and a verdict needs 5"));
        flat(&samples(|_| (1, 1))[..5]).unwrap();
    }
}
