//! Benches: what the project promises of itself, as ratios measured side by side, or percentiles.
//!
//! The machines that these run on are shared and noisy: every figure is the median of several rounds, with the least
//! and the most beside it.

mod fleet;
mod gather;
mod handoff;
mod hostile;
mod http;
mod http_client;
mod kv;
mod lab;
mod page;
pub mod process;
mod spread;
mod stream;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use load::config::Timestamps;
use load::{Sample, cost, summary};
use process::{
    CLIENT_CPU, CONNECTIONS, Process, SERVER_CPU, Server, closed_config, config, cpu_ns_of, muxbench, reference,
};
use spread::{Bound, Spread};
use wire::ServiceSpec;
use xtask::root;

/// What the C reference server can be; whatever else there is, is compared with our epoll.
const REFERENCES: &[&str] = &["epoll", "poll", "select", "mt", "mp"];

/// Measure what muxbench promises of itself
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Highest closed rate of each architecture against the C reference server, or our epoll where it lacks it, A B A B
    Server {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Architectures, with commas
        #[arg(long, value_delimiter = ',', default_value = "epoll,poll,select,mt,mp")]
        arch: Vec<String>,
        /// Compare with this architecture of ours instead of the C reference server
        #[arg(long)]
        against: Option<String>,
    },
    /// Lag at 8 000 requests/s over 400 connections, 1 B -> 1 B, against epoll
    Lag {
        /// Rounds of 5 s
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// User memory a connection, in the client and in event-driven servers
    Memory,
    /// Time to summarise 5 million samples
    Summary,
    /// What the kernel's timestamps cost the client a request
    Timestamps {
        /// Rounds of each pair
        #[arg(long, default_value_t = 15)]
        rounds: usize,
    },
    /// Rate of gets and CPU a get of the service kv against memcached with one thread, A B A B
    Kv {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Sockets, with commas: tcp, unix
        #[arg(long, value_delimiter = ',', default_value = "tcp,unix", value_parser = ["tcp", "unix"])]
        sockets: Vec<String>,
    },
    /// Rate and CPU a request of the service http on epoll against nginx with one worker, same client, A B A B
    Http {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Sizes of the file in bytes, with commas
        #[arg(long, value_delimiter = ',', default_value = "128,1024")]
        sizes: Vec<usize>,
    },
    /// Rate of the client of HTTP from one core against wrk -t1, on the same nginx with one worker, A B A B
    HttpClient {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// How late sessions at 8 000 requests/s begin, as a server sees them, of muxbench and of httperf
    Pacing {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Service time at a low rate with a hand-off between threads, beyond that of one thread, A B A B
    Handoff {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Architectures, with commas
        #[arg(long, value_delimiter = ',', default_value = "amped:1+1,amped:0+1,seda:1+1")]
        arch: Vec<String>,
    },
    /// Bandwidth of one connection against iperf3, A B A B, and of 1 000 connections against 10
    Stream {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// What honest clients notice of 10 000 hostile connections beside them: p99 against its undisturbed value, A B A B
    Hostile(hostile::Args),
    /// Time to gather samples from five ranks and merge them, beside merging the same in one process
    Gather {
        /// Rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Samples of all ranks together
        #[arg(long, default_value_t = 5_000_000)]
        samples: u64,
    },
    /// Rate, service time and the server's CPU a request with five client ranks against one client process, A B A B
    Fleet {
        /// Rounds of each pair
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Requests a second of all
        #[arg(long, default_value = "2000")]
        rate: String,
        /// How both wait, as in `compare --pacing`
        #[arg(long, default_value = fleet::PACING)]
        pacing: String,
    },
    /// Time until a lab of five client hosts is up, and until it is gone; as root
    Lab {
        /// Rounds of each network
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Time to write the page of a run of 105 trials, and until it answers a click in Chromium
    Page {
        /// Rounds of both
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// All of them
    All,
}

/// Runs a bench, in a release build.
///
/// # Errors
/// When something cannot be built or started, or a median misses what it is to reach.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    let is_given = matches!(bench, Bench::Hostile(hostile::Args { binary: Some(_), .. }));
    if cfg!(debug_assertions) && !is_given {
        let status = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
            .args(std::env::args_os().skip(1))
            .current_dir(root())
            .status()?;
        if !status.success() {
            bail!("the release build's bench failed ({status})");
        }
        return Ok(());
    }
    measure(bench)?;
    match spread::missed() {
        0 => Ok(()),
        missed => bail!(
            "{missed} medians MISSED what they are to reach, see above; a neighbour may be why: run it again on a quiet machine"
        ),
    }
}

fn measure(bench: &Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Server { rounds, arch, against } => servers(*rounds, arch, against.as_deref()),
        Bench::Lag { rounds } => lag(*rounds),
        Bench::Memory => memory(),
        Bench::Summary => summarise(),
        Bench::Timestamps { rounds } => timestamps(*rounds),
        Bench::Kv { rounds, sockets } => kv::run(*rounds, sockets),
        Bench::Http { rounds, sizes } => http::run(*rounds, sizes),
        Bench::HttpClient { rounds } => http_client::run(*rounds),
        Bench::Pacing { rounds } => http_client::pacing(*rounds),
        Bench::Handoff { rounds, arch } => handoff::run(*rounds, arch),
        Bench::Stream { rounds } => stream::run(*rounds),
        Bench::Hostile(args) => hostile::run(args),
        Bench::Gather { rounds, samples } => gather::run(*rounds, *samples),
        Bench::Fleet { rounds, rate, pacing } => fleet::run(*rounds, rate, pacing),
        Bench::Lab { rounds } => lab::run(*rounds),
        Bench::Page { rounds } => page::run(*rounds),
        Bench::All => {
            summarise()?;
            page::run(5)?;
            memory()?;
            timestamps(15)?;
            lag(5)?;
            kv::run(5, &["tcp", "unix"].map(String::from))?;
            http::run(5, &[128, 1024])?;
            http_client::run(5)?;
            http_client::pacing(5)?;
            stream::run(5)?;
            hostile::run(&hostile::Args::default())?;
            gather::run(5, 5_000_000)?;
            fleet::run(5, "2000", fleet::PACING)?;
            lab::run(5)?;
            handoff::run(5, &["amped:1+1", "amped:0+1", "seda:1+1"].map(String::from))?;
            servers(5, &["epoll", "poll", "select", "mt", "mp"].map(String::from), None)?;
            servers(5, &["epoll-et", "io_uring"].map(String::from), Some("epoll"))
        }
    }
}

fn servers(rounds: usize, architectures: &[String], against: Option<&str>) -> anyhow::Result<()> {
    let reference = reference()?;
    let other = against.unwrap_or("C reference (or our epoll)");
    println!("closed rate, muxbench / {other}, {CONNECTIONS} connections, median of {rounds} rounds (least to most)");
    for (request_bytes, response_bytes) in [(1, 1), (128, 10_240)] {
        let service = ServiceSpec::Fixed { request_bytes, response_bytes };
        for architecture in architectures {
            let mut ratios = Vec::new();
            for _ in 0..rounds {
                let rate = |server: Server| -> anyhow::Result<f64> {
                    let outcome = load::run(&closed_config(server.address, &service), &mut |_| ())?;
                    ensure!(outcome.report.errors.total() == 0, "{:?}", outcome.report.errors);
                    Ok(outcome.report.rate_achieved_per_s)
                };
                let ours = rate(Server::ours(architecture, &service)?)?;
                let theirs = rate(match against {
                    Some(ours) => Server::ours(ours, &service)?,
                    None if REFERENCES.contains(&architecture.as_str()) => {
                        Server::reference(&reference, architecture, &service)?
                    }
                    None => Server::ours("epoll", &service)?,
                })?;
                ratios.push(ours / theirs);
            }
            let bound = bound(architecture, against, &service);
            let ratio = Spread::of(ratios);
            let told = bound.map_or_else(|| ratio.to_string(), |bound| ratio.to_reach(bound));
            println!("  {architecture:16} {request_bytes:4} B -> {response_bytes:5} B  {told}");
        }
    }
    Ok(())
}

/// What a closed rate has to reach: each beside the C reference, epoll-et and, of small requests, io_uring beside epoll.
fn bound(architecture: &str, against: Option<&str>, service: &ServiceSpec) -> Option<Bound> {
    let is_small = service.fixed() == Some((1, 1));
    match (architecture, against) {
        (_, None) if REFERENCES.contains(&architecture) => Some(Bound::AtLeast(0.95)),
        ("epoll-et", Some("epoll")) => Some(Bound::AtLeast(0.97)),
        ("io_uring", Some("epoll")) if is_small => Some(Bound::AtLeast(1.0)),
        _ => None,
    }
}

fn lag(rounds: usize) -> anyhow::Result<()> {
    let service = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
    let (mut p50s, mut p99s) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let server = Server::ours("epoll", &service)?;
        let outcome = load::run(&config(server.address, &service), &mut |_| ())?;
        p50s.push(outcome.report.lag.distribution.p50_ns as f64 / 1e3);
        p99s.push(outcome.report.lag.distribution.p99_ns as f64 / 1e3);
    }
    println!("lag in µs at 8000 requests/s, {CONNECTIONS} connections, 1 B -> 1 B, epoll, median of {rounds} rounds");
    println!("  p50 {}", Spread::of(p50s).to_reach(Bound::AtMost(0.5)));
    println!("  p99 {}", Spread::of(p99s).to_reach(Bound::AtMost(20.0)));
    Ok(())
}

fn timestamps(rounds: usize) -> anyhow::Result<()> {
    const REQUESTS: usize = 20_000;
    let (mut more_us, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let without_ns = cost::per_request_ns(Timestamps::Client, REQUESTS, Some(CLIENT_CPU))?;
        let with_ns = cost::per_request_ns(Timestamps::Kernel, REQUESTS, Some(CLIENT_CPU))?;
        more_us.push((with_ns - without_ns) / 1e3);
        ratios.push(with_ns / without_ns);
    }
    println!("a request of the client with the kernel's timestamps and without, median of {rounds} rounds");
    println!("  with / without {}", Spread::of(ratios));
    println!("  µs more {}", Spread::of(more_us).to_reach(Bound::AtMost(1.5)));
    Ok(())
}

fn memory() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let output = Command::new(muxbench()?)
        .args([
            "compare",
            "--arch",
            "select,poll,epoll",
            "--connections",
            "5000",
            "--repeats",
            "1",
            "--json",
            "--quiet",
        ])
        .arg("--output")
        .arg(folder.path().join("results"))
        .output()?;
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    println!("user memory a connection in bytes, 5000 connections");
    for trial in result["trials"].as_array().context("no trials")? {
        let told = |side: &str, figure: &str, bytes_max: f64| {
            let bytes = Spread::of(trial[side][figure].as_f64().into_iter().collect());
            bytes.to_reach(Bound::AtMost(bytes_max))
        };
        let architecture = trial["trial"]["architecture"].as_str().unwrap_or_default();
        println!("  {architecture:7} server {}", told("server", "memory_user_bytes_per_connection", 512.0));
        println!("  {architecture:7} client {}", told("load", "memory_bytes_per_connection", 256.0));
    }
    Ok(())
}

fn summarise() -> anyhow::Result<()> {
    const SAMPLES: i64 = 5_000_000;
    const LIMIT_S: f64 = 2.0;
    let samples: Vec<Sample> = (0..SAMPLES)
        .map(|at| {
            // A multiplicative hash spreads service times over three decades.
            let spread = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            let planned_ns = at * 125_000;
            let sent_ns = planned_ns + (spread & 0xff) as i64;
            Sample {
                planned_ns,
                sent_ns,
                complete_ns: sent_ns + 20_000 + spread as i64,
                connection: at as u32 % 400,
                ..Sample::UNKNOWN
            }
        })
        .collect();
    let window_ns = SAMPLES as u64 * 125_000;
    let mut shares = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        for difference in [summary::lag_ns, summary::service_ns, summary::response_ns] {
            let measured = summary::measured(&samples, window_ns, difference);
            anyhow::ensure!(measured.distribution.count == SAMPLES as u64);
        }
        shares.push(started.elapsed().as_secs_f64() / LIMIT_S);
    }
    println!("5 million samples summarised (lag, service, response time), as a share of the {LIMIT_S} s allowed");
    println!("  {}", Spread::of(shares).to_reach(Bound::AtMost(1.0)));
    Ok(())
}
