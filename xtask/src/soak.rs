//! Servers that live for an hour of churn and load with faults: what their processes have of memory, descriptors, threads and
//! children when nobody is connected, in the first quarter of that time against the last.
//!
//! # Layout
//! - `server`: one server under test, and what its processes have
//! - `turn`: what is done to a server

mod server;
mod turn;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bench::process::muxbench;
use server::{Held, Server};
use turn::Done;

/// How often it is said how far it is, at least.
const SAY: Duration = Duration::from_secs(10);
/// Most that the last quarter's median of memory may be above the first's: what an allocator keeps is not the same each time...
const SINCE_FIRST: Growth = Growth { share: 0.1, bytes: 1 << 20 };
/// ...or above the third's, for what is filled once, as buffers and stacks, has an end. Less than a third of the above: what grows
/// too much, and evenly, has more.
const SINCE_THIRD: Growth = Growth { share: 0.03, bytes: 256 << 10 };
/// Samples of a server that are needed to tell: the first is of warming up.
const SAMPLES_MIN: usize = 5;

/// Churn and load with faults against servers that live all the time; fails unless their memory and descriptors stay flat
#[derive(Debug, Args)]
pub struct Soak {
    /// How long, as in 90s, 10m or 1h
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time)]
    lasts: Duration,
    /// Architectures, with commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "epoll,io_uring,mt,mp,mt-pool:300,mp-prefork:300,symped:2/poll,seda:1+2/epoll,tokio:2,smol,may"
    )]
    arch: Vec<String>,
    /// Services, with commas: each architecture serves each of them that it can
    #[arg(long, value_delimiter = ',', default_value = "fixed,http,kv,stream")]
    service: Vec<String>,
    /// Length of a turn, after which the next servers have theirs
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    turn: Duration,
    /// How many servers have their turns at once
    #[arg(long, value_name = "N", default_value = "3")]
    at_once: NonZeroUsize,
    /// A muxbench that is already built [default: builds the release]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write it as 90s, 10m or 1h");
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let unit_s = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    let count = digits.parse::<u64>().ok().filter(|&count| count > 0).ok_or_else(wrong)?;
    count.checked_mul(unit_s).map(Duration::from_secs).ok_or_else(wrong)
}

/// Gives each server its turn until the time is over, or a Ctrl-C; then says of each whether it stayed flat.
///
/// # Errors
/// When one did not, or ended, or an honest client was not served.
pub fn run(soak: &Soak) -> anyhow::Result<()> {
    let binary = soak.binary.clone().map_or_else(muxbench, Ok)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot listen to signals")?;
    }
    let mut servers = Vec::new();
    // Those that have a process or a thread for each connection are not beside each other.
    for (arch, service) in soak.service.iter().flat_map(|service| soak.arch.iter().map(move |arch| (arch, service))) {
        match Server::start(&binary, arch, service)? {
            Ok(server) => servers.push(server),
            Err(reason) => println!("{arch} {service} is left out: {reason}"),
        }
    }
    ensure!(!servers.is_empty(), "no server is left; name others with --arch and --service");
    println!(
        "{} servers, {} at once in turns of {:?}, for {:?}; Ctrl-C ends it after the turn",
        servers.len(),
        soak.at_once,
        soak.turn,
        soak.lasts
    );
    let started = Instant::now();
    let is_over = || stop.load(Relaxed) || started.elapsed() >= soak.lasts;
    let (mut said, mut turns, mut failures) = (started, 0, Vec::new());
    'all: loop {
        for group in servers.chunks_mut(soak.at_once.get()) {
            if is_over() {
                break 'all;
            }
            let outcomes = thread::scope(|scope| {
                let turn = |server| scope.spawn(|| a_turn(&binary, server, soak.turn, started));
                let threads: Vec<_> = group.iter_mut().map(turn).collect();
                threads.into_iter().map(|thread| thread.join().expect("a turn does not panic")).collect::<Vec<_>>()
            });
            for (server, outcome) in group.iter_mut().zip(outcomes) {
                turns += 1;
                match outcome {
                    Ok(done) if said.elapsed() >= SAY || turns == 1 => {
                        said = Instant::now();
                        println!("{} turn {turns}: {} {done}", clock(started.elapsed()), server.line());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let failure = format!("turn {turns}: {}: {error:#}", server.name);
                        println!("{} {failure}", clock(started.elapsed()));
                        failures.push(failure);
                        if server.has_ended() {
                            break 'all;
                        }
                    }
                }
            }
        }
    }
    println!(
        "\n{turns} turns in {}, of load {:?} a server: medians of the first quarter of a server's turns -> of the last; to reach: no \
         descriptor, thread or process more, and at most {SINCE_FIRST} of memory, or since the third quarter {SINCE_THIRD}",
        clock(started.elapsed()),
        soak.turn * (turns / servers.len() as u32),
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
    if stop.load(Relaxed) {
        failures.push(format!("stopped after {} of {}", clock(started.elapsed()), clock(soak.lasts)));
    }
    if !failures.is_empty() {
        bail!("{} failures: {}", failures.len(), failures.join("; "));
    }
    Ok(())
}

/// One server's: what was done to it, and then it is looked at.
fn a_turn(binary: &Path, server: &mut Server, lasts: Duration, started: Instant) -> anyhow::Result<Done> {
    let done = turn::take(binary, server, lasts)?;
    server.look(started.elapsed())?;
    Ok(done)
}

fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Most that memory may grow: both together.
struct Growth {
    /// Of what there was.
    share: f64,
    bytes: u64,
}

impl Growth {
    fn has_room(&self, (before, after): (u64, u64)) -> bool {
        after <= before + (before as f64 * self.share) as u64 + self.bytes
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} % and {} KiB", self.share * 100.0, self.bytes >> 10)
    }
}

fn median(samples: &[(Duration, Held)], of: impl Fn(&Held) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(|(_, held)| of(held)).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// What is there in the first quarter of the samples, the first one left out, and in the last.
fn flat(samples: &[(Duration, Held)]) -> Result<String, String> {
    if samples.len() < SAMPLES_MIN {
        return Err(format!(
            "it had {} turns, and {SAMPLES_MIN} are needed; take longer (--for), or fewer servers (--arch, --service)",
            samples.len()
        ));
    }
    let samples = &samples[1..];
    let quarter = samples.len() / 4;
    let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
    let third = &samples[samples.len() - 2 * quarter..samples.len() - quarter];
    let of = |of: fn(&Held) -> u64| (median(first, of), median(last, of));
    let memory = of(|held| held.memory_bytes);
    let since_third = (median(third, |held| held.memory_bytes), memory.1);
    let counts = [
        ("descriptors", of(|held| held.descriptors)),
        ("threads", of(|held| held.threads)),
        ("processes", of(|held| held.processes)),
    ];
    let hours = (last[quarter / 2].0 - first[quarter / 2].0).as_secs_f64() / 3_600.0;
    let slope = (memory.1 as f64 - memory.0 as f64) / 1024.0 / hours.max(f64::MIN_POSITIVE);
    let mut said = format!("{} -> {} KiB ({slope:+.0} KiB/h)", memory.0 >> 10, memory.1 >> 10);
    for (name, (before, after)) in counts {
        said += &format!(", {before} -> {after} {name}");
    }
    let is_flat = SINCE_FIRST.has_room(memory);
    if !is_flat {
        said += &format!("; {} KiB in the third quarter", since_third.0 >> 10);
    }
    let holds =
        (is_flat || SINCE_THIRD.has_room(since_third)) && counts.iter().all(|(_, (before, after))| after <= before);
    if holds { Ok(said) } else { Err(said) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample each minute, of so much memory and so many descriptors.
    fn samples(of: impl Fn(u64) -> (u64, u64)) -> Vec<(Duration, Held)> {
        let sample = |minute| {
            let (memory_bytes, descriptors) = of(minute);
            let held = Held { memory_bytes, descriptors, threads: 3, processes: 1 };
            (Duration::from_secs(60 * minute), held)
        };
        (0..60).map(sample).collect()
    }

    #[test]
    fn what_stays_is_flat_whatever_came_first() {
        let found = flat(&samples(|minute| (if minute == 0 { 1 << 20 } else { 9 << 20 }, 14))).unwrap();
        assert_eq!(found, "9216 -> 9216 KiB (+0 KiB/h), 14 -> 14 descriptors, 3 -> 3 threads, 1 -> 1 processes");
        flat(&samples(|minute| ((9 << 20) + minute % 7 * 100_000, 14 - minute % 2))).unwrap();
    }

    #[test]
    fn what_grows_is_not_flat() {
        let found = flat(&samples(|minute| ((9 << 20) + minute * 64 * 1024, 14))).unwrap_err();
        assert!(found.contains("(+3840 KiB/h)"), "{found}");
        let found = flat(&samples(|minute| (9 << 20, 14 + minute / 30))).unwrap_err();
        assert!(found.contains("14 -> 15 descriptors"), "{found}");
    }

    #[test]
    fn what_is_filled_once_is_flat_and_what_has_no_end_is_not() {
        let found = flat(&samples(|minute| ((9 << 20) + minute.min(25) * 256 * 1024, 14))).unwrap();
        assert!(found.contains("; 15616 KiB in the third quarter"), "{found}");
        // The least that grows evenly and too much.
        let (kib, share) = (SINCE_FIRST.bytes >> 10, SINCE_FIRST.share);
        for before_kib in [1_000, 100_000] {
            let more_kib = kib as f64 + before_kib as f64 * share;
            let grown =
                |minute: u64| ((before_kib << 10) + (more_kib * 1_024.0 * 1.5 * minute as f64 / 60.0) as u64, 14);
            flat(&samples(grown)).unwrap_err();
        }
    }

    #[test]
    fn too_few_turns_tell_nothing() {
        assert!(flat(&samples(|_| (1, 1))[..4]).unwrap_err().contains("4 turns, and 5 are needed"));
        flat(&samples(|_| (1, 1))[..5]).unwrap();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3_600)));
        for wrong in ["", "5", "0s", "m", "5ms", "-1s", "99999999999999999999h"] {
            assert!(time(wrong).unwrap_err().contains("write it as 90s"), "{wrong}");
        }
    }
}
