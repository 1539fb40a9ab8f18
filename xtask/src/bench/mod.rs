//! Measurements of muxbench itself, some as ratios to other programs measured in turn. Machines are noisy, so figures are
//! medians of several rounds, printed with the lowest and the highest value. `memory` has one round.
//!
//! `process`: servers under test, and commands of muxbench; `loads`: loads that benches run themselves; `results`: figures that
//! `compare` prints; `spread`: medians and their limits; `comparison`: pairs of servers; `numbers`: choices of workloads. The other
//! files contain the benches.

mod advise;
mod architectures;
mod capacity;
mod client;
mod comparison;
mod costs;
mod fleet;
mod gate;
mod gather;
mod handoff;
mod hostile;
mod http;
mod http_client;
mod interleave;
mod kv;
mod lab;
mod loads;
mod numbers;
mod observe;
mod page;
pub mod process;
mod results;
mod seda;
mod server;
mod spread;
mod stream;
mod trace;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use xtask::root;

use crate::command;

/// Measures muxbench itself
#[derive(Debug, Parser)]
pub struct Bench {
    /// Rounds of each measurement [default: 5, architectures and capacity 3, timestamps 15, gate 30 and 10, observe and trace 1]
    #[arg(long, global = true)]
    rounds: Option<usize>,
    #[command(subcommand)]
    subject: Subject,
}

/// The subject of a measurement.
#[derive(Debug, Subcommand)]
enum Subject {
    /// Closed-loop rate of each architecture against the C reference server (or our epoll, if C lacks it), A B A B
    Server {
        /// Architectures, with commas
        #[arg(long, value_delimiter = ',', default_value = "epoll,poll,select,mt,mp")]
        arch: Vec<String>,
        /// Compare with this architecture of ours instead of the C reference server
        #[arg(long)]
        against: Option<String>,
    },
    /// Send delay at 8 000 requests/s over 400 connections to an epoll server, 1 B -> 1 B
    Lag,
    /// User memory per connection, in the client and in event-driven servers
    Memory,
    /// Time to summarise 5 million samples
    Summary,
    /// Cost of the kernel's timestamps for the client, per request
    Timestamps,
    /// Rate of gets and CPU per get of the service kv against memcached with one thread, A B A B
    Kv {
        /// Sockets, with commas: tcp, unix
        #[arg(long, value_delimiter = ',', default_value = "tcp,unix", value_parser = ["tcp", "unix"])]
        sockets: Vec<String>,
    },
    /// Rate of gets and CPU per get of the service redis against redis-server with one thread, A B A B
    Redis {
        /// Sockets, with commas: tcp, unix
        #[arg(long, value_delimiter = ',', default_value = "tcp,unix", value_parser = ["tcp", "unix"])]
        sockets: Vec<String>,
    },
    /// Rate and CPU per request of the service http on epoll against nginx with one worker, same client, A B A B
    Http {
        /// Sizes of the file in bytes, with commas
        #[arg(long, value_delimiter = ',', default_value = "128,1024")]
        sizes: Vec<usize>,
    },
    /// Rate and CPU per request of the HTTP client on one core against wrk -t1, on the same nginx with one worker over http and
    /// https, and on ours, A B A B
    HttpClient,
    /// Delay of sessions at a server's `accept`, of muxbench and of httperf, at 8 000 requests/s
    Pacing,
    /// Latency at a low rate with a hand-off between threads, minus the latency of one thread, A B A B
    Handoff {
        /// Architectures, with commas
        #[arg(long, value_delimiter = ',', default_value = "amped:1+1,amped:0+1,seda:1+1")]
        arch: Vec<String>,
    },
    /// SEDA: cost of its stages beside one thread, explained by the prices of system calls and switches; and its controllers
    /// beside static stages at 0.7, 1.0 and 1.5 of the highest rate. Prints Markdown
    Seda(seda::Seda),
    /// Bandwidth of one connection against iperf3, A B A B, and of 1 000 connections against 10
    Stream,
    /// Effect of 10 000 hostile connections on honest clients: p99 without them, with silent ones, and with them, A B C A B C
    Hostile(hostile::Hostile),
    /// Interleaved trials: noise, known differences, agreement with separate trials; minutes for each round
    Interleave(interleave::Interleave),
    /// Each architecture beside epoll under six workloads, interleaved; prints the tables of docs/architectures.md; half an hour
    Architectures(architectures::Architectures),
    /// Page faults, writes and CPU time per request of each architecture in each service; prints Markdown; a quarter of an hour
    Costs(costs::Costs),
    /// Gates: alarms of equal builds, and a build with 5 % more CPU time a request that must be found; half an hour
    Gate(gate::Gate),
    /// `advise` against a long comparison of the same architectures under 20 workloads: agreement and time; three hours
    Advise(advise::Advise),
    /// `observe` beside ten running experiments: connections, active share, sizes and rate
    Observe(observe::Observe),
    /// `capacity --target` against a fine sweep of the same server: difference and time; half an hour
    Capacity(capacity::Capacity),
    /// Sends of a replay of a million arrivals in a minute against the file
    Trace(trace::Trace),
    /// Time to collect and merge samples of five workers, against merging the same samples in one process
    Gather {
        /// Samples of all workers together
        #[arg(long, default_value_t = 5_000_000)]
        samples: u64,
    },
    /// Rate, latency and the server's CPU per request with five client workers against one client process, A B A B
    Fleet {
        /// Requests a second of all clients
        #[arg(long, default_value = "2000")]
        rate: String,
        // With spinning, a single client would see responses immediately, while five clients on one CPU wait for each other.
        /// Pacing of the workers and of the process, as in `compare --pacing`
        #[arg(long, default_value = "yield")]
        pacing: String,
    },
    /// Time to start a lab of five client hosts, and to remove it; needs root
    Lab,
    /// Time to write the HTML page of a run of 105 trials, and until it answers a click in Chromium
    Page,
    /// All measurements
    All,
}

/// Runs a bench in a release build; fails if a figure misses its limit.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    let is_given = matches!(&bench.subject, Subject::Hostile(hostile) if hostile.binary.is_some());
    if cfg!(debug_assertions) && !is_given {
        let status = command::cargo()
            .args(["run", "--quiet", "--release", "--package", "xtask", "--features", "tools", "--"])
            .args(std::env::args_os().skip(1))
            .current_dir(root())
            .status()?;
        ensure!(status.success(), "the release build's bench failed ({status})");
        return Ok(());
    }
    measure(bench.rounds, &bench.subject)?;
    let missed = spread::missed();
    ensure!(missed == 0, "{missed} figures MISSED their limits, see above; repeat on a quiet machine");
    Ok(())
}

fn measure(rounds: Option<usize>, subject: &Subject) -> anyhow::Result<()> {
    let count = rounds.unwrap_or(5);
    match subject {
        Subject::Server { arch, against } => server::run(count, arch, against.as_deref()),
        Subject::Lag => client::send_delay(count),
        Subject::Memory => client::memory(),
        Subject::Summary => client::summary(count),
        Subject::Timestamps => client::timestamps(rounds.unwrap_or(15)),
        Subject::Kv { sockets } => kv::run(count, &kv::MEMCACHED, sockets),
        Subject::Redis { sockets } => kv::run(count, &kv::REDIS, sockets),
        Subject::Http { sizes } => http::run(count, sizes),
        Subject::HttpClient => http_client::run(count),
        Subject::Pacing => http_client::pacing(count),
        Subject::Handoff { arch } => handoff::run(count, arch),
        Subject::Seda(args) => seda::run(count, args),
        Subject::Stream => stream::run(count),
        Subject::Hostile(hostile) => hostile::run(count, hostile),
        Subject::Interleave(args) => interleave::run(count, args),
        Subject::Architectures(args) => architectures::run(rounds.unwrap_or(architectures::ROUNDS), args),
        Subject::Costs(args) => costs::run(args),
        Subject::Gate(args) => gate::run(rounds, args),
        Subject::Advise(args) => advise::run(count, args),
        Subject::Observe(args) => observe::run(rounds.unwrap_or(1), args),
        Subject::Capacity(args) => capacity::run(rounds.unwrap_or(3), args),
        Subject::Trace(args) => trace::run(rounds.unwrap_or(1), args),
        Subject::Gather { samples } => gather::run(count, *samples),
        Subject::Fleet { rate, pacing } => fleet::run(count, rate, pacing),
        Subject::Lab => lab::run(count),
        Subject::Page => page::run(count),
        Subject::All => ALL.split("; ").try_for_each(|words| {
            let bench = Bench::parse_from(["bench"].into_iter().chain(words.split(' ')));
            measure(rounds, &bench.subject)
        }),
    }
}

/// The arguments of each bench of `bench all`.
const ALL: &str = "summary; page; memory; timestamps; lag; kv; redis; http; http-client; pacing; stream; hostile; interleave; \
                   architectures; costs; gate; advise; observe; capacity; trace; gather; fleet; lab; handoff; seda; server; \
                   server --arch epoll-et,io_uring --against epoll";

#[cfg(test)]
#[test]
fn arguments_of_all_benches_are_valid() {
    for words in ALL.split("; ") {
        Bench::try_parse_from(["bench"].into_iter().chain(words.split(' '))).unwrap();
    }
}
