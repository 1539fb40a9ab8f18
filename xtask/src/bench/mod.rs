//! Measurements of muxbench itself, some as ratios to other programs measured in turn. Machines are noisy, so figures are
//! medians of several rounds, printed with the lowest and the highest value.
//!
//! `loads`: loads that benches run themselves; `spread`: medians and their limits. The other files contain the benches.

mod costs;
mod gate;
mod hostile;
mod http_client;
mod loads;
mod server;
mod spread;

use anyhow::ensure;
use clap::{Args, Subcommand};
use xtask::root;

use crate::command;

/// Measures muxbench itself
#[derive(Debug, Args)]
pub struct Bench {
    /// Rounds of each measurement [default: 5, gate 30 and 10]
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
    /// Rate and CPU per request of the HTTP client on one core against wrk -t1, on the same nginx with one worker over http and
    /// https, and on ours, A B A B
    HttpClient,
    /// Effect of 10 000 hostile connections on honest clients: p99 without them and with them, A B A B
    Hostile(hostile::Options),
    /// Page faults, writes and CPU time per request of each architecture in each service; prints Markdown; a quarter of an hour
    Costs(costs::Costs),
    /// Gates: alarms of equal builds, and a build with 5 % more CPU time a request that must be found; half an hour
    Gate(gate::Gate),
}

/// Runs a bench in a release build; fails if a figure misses its limit.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        let mut release = command::cargo();
        release.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "tools", "--"]);
        return command::show(release.args(std::env::args_os().skip(1)).current_dir(root()));
    }
    let count = bench.rounds.unwrap_or(5);
    match &bench.subject {
        Subject::Server { arch, against } => server::run(count, arch, against.as_deref()),
        Subject::Lag => server::lag(count),
        Subject::HttpClient => http_client::run(count),
        Subject::Hostile(hostile) => hostile::run(count, hostile),
        Subject::Costs(args) => costs::run(args),
        Subject::Gate(args) => gate::run(bench.rounds, args),
    }?;
    let missed = spread::missed();
    ensure!(missed == 0, "{missed} figures MISSED their limits, see above; repeat on a quiet machine");
    Ok(())
}
