//! `capacity --target` against a fine sweep of the same server.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use load::config::{HttpTarget, HttpTraffic};
use load::{LoadConfig, LoadReport};
use serde_json::Value;
use wire::ServiceSpec;

use super::loads::{closed_config, load_report};
use super::process::{CLIENT_CPU, MEASURED, Server, answer, muxbench, number};
use super::spread::{Bound, rounds};

/// The path of the requests, with its content of 1 KiB.
const PATH: &str = "/bytes/1024";
/// The simulated work makes the server the limit, not the client.
const SERVER: [&str; 4] = ["--service", "http", "--simulated-work", "busy=50us"];
/// The sweep covers these shares of the closed-loop rate.
const SHARES: [f64; 2] = [0.5, 1.3];

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Capacity {
    /// Limit of the response time's 99th percentile, in milliseconds
    #[arg(long, default_value_t = 5.0)]
    p99_ms: f64,
    /// Factor between the rates of the sweep
    #[arg(long, default_value_t = 1.02)]
    factor: f64,
    /// Repeats of each rate of the sweep
    #[arg(long, default_value_t = 12)]
    repeats: u32,
}

pub(super) fn run(count: usize, args: &Capacity) -> anyhow::Result<()> {
    let binary = muxbench()?;
    println!("highest rate with p99 of at most {} ms, {}; {count} rounds", args.p99_ms, SERVER[1..].join(" "));
    let [error, time] = rounds(count, || {
        let server = Server::with_flags("epoll", &SERVER)?;
        let target = format!("server=http://{}{PATH}", server.address);
        let started = Instant::now();
        let found = capacity(&binary, &target, args.p99_ms)?;
        let capacity_s = started.elapsed().as_secs_f64();
        let closed_per_s = closed_rate_per_s(&server)?;
        let [first, last] = SHARES.map(|share| (closed_per_s * share).round());
        let started = Instant::now();
        let rates = format!("{first}..{last}*{}", args.factor);
        let swept = sweep(&binary, &target, &rates, args)?;
        let sweep_s = started.elapsed().as_secs_f64();
        println!("  capacity {found:.0}/s in {capacity_s:.0} s; sweep {rates}: {swept:.0}/s in {sweep_s:.0} s");
        Ok([(found / swept - 1.0).abs(), capacity_s / sweep_s])
    })?;
    println!("  relative difference {}", error.check(Bound::AtMost(0.05)));
    println!("  time / time of the sweep {}", time.check(Bound::AtMost(0.25)));
    Ok(())
}

/// Measures the server's rate in a closed loop.
fn closed_rate_per_s(server: &Server) -> anyhow::Result<f64> {
    let http = HttpTraffic::new(vec![HttpTarget::get(PATH, Some(1_024))]);
    let service = ServiceSpec::Http { folder: None };
    let config = LoadConfig { service, http: Some(http), ..closed_config(server.address, (1, 1)) };
    Ok(load_report(&config)?.rate_achieved_per_s)
}

/// Runs a command against a target, and returns its JSON.
fn measure(binary: &Path, command: &str, target: &str, flags: &[&str]) -> anyhow::Result<Value> {
    let mut program = Command::new(binary);
    program
        .args([command, "--target", target, "--json", "--quiet", "--client-cpus", &CLIENT_CPU.to_string()])
        .args(flags);
    answer(program.args(["--connections", "100"]), MEASURED)
}

fn capacity(binary: &Path, target: &str, p99_ms: f64) -> anyhow::Result<f64> {
    let result = measure(binary, "capacity", target, &["--p99", &format!("{p99_ms}ms")])?;
    number(&result["capacity"]["rows"], "/0/answer/server/most")
}

/// Returns the highest rate of a sweep that meets the limit.
fn sweep(binary: &Path, target: &str, rates: &str, args: &Capacity) -> anyhow::Result<f64> {
    let result = measure(binary, "sweep", target, &["--rate", rates, "--repeats", &args.repeats.to_string()])?;
    let trials = result["trials"].as_array().context("no trials")?;
    let trials = trials.iter().map(|trial| {
        let rate_per_s = number(trial, "/trial/workload/rate_per_s")?;
        let load: Option<LoadReport> = serde_json::from_value(trial["load"].clone())?;
        let is_met = load.is_some_and(|load| {
            let p99_ms = load.response.histogram.quantile(0.99) as f64 / 1e6;
            p99_ms <= args.p99_ms && load.rate_achieved_per_s >= 0.95 * rate_per_s
        });
        anyhow::Ok((rate_per_s, is_met))
    });
    highest(&trials.collect::<Result<Vec<_>, _>>()?).with_context(|| format!("most trials at {rates} miss the limit"))
}

/// Returns the rate that the fewest trials contradict, by a miss up to it or a success above it. So a few pauses of the host do not
/// decide. Returns `None` if no more trials contradict that every rate misses the limit.
fn highest(trials: &[(f64, bool)]) -> Option<f64> {
    let contradict = |limit: f64| trials.iter().filter(|(rate, is_met)| (*rate <= limit) != *is_met).count();
    let fewest = trials.iter().map(|(rate, _)| *rate).min_by_key(|rate| contradict(*rate))?;
    (contradict(fewest) < contradict(0.0)).then_some(fewest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_trials_contradict_the_highest_rate() {
        let trials = |met: &str| (1..).map(f64::from).zip(met.chars().map(|it| it == '+')).collect::<Vec<_>>();
        for (met, expected) in
            [("+++", Some(3.0)), ("+-++--", Some(4.0)), ("--+", None), ("++-+-", Some(2.0)), ("-", None), ("", None)]
        {
            assert_eq!(highest(&trials(met)), expected, "{met}");
        }
    }
}
