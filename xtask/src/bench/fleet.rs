//! Five client workers on one machine against one client process: rate, median latency, and the server's CPU time per
//! request. All clients share one CPU; workers sleep while their clients measure.

use std::path::Path;
use std::process::Command;

use super::process::{CONNECTIONS, compare_once, free_address, muxbench, number, only_row, start};
use super::spread::{Bound, rounds};

/// Number of client workers. One more worker runs the server.
const WORKERS: u32 = 5;

pub(super) fn run(count: usize, rate: &str, pacing: &str) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let [rates, p50s, costs, alone_us] = rounds(count, || {
        let one = one_process(&binary, rate, pacing)?;
        let many = workers(&binary, rate, pacing)?;
        Ok([many[0] / one[0], many[1] / one[1], many[2] / one[2], one[1] / 1e3])
    })?;
    println!(
        "{WORKERS} client workers / 1 client process, {rate} requests/s, pacing {pacing}, epoll, median of {count} rounds"
    );
    println!("  achieved rate {}", rates.check(Bound::Includes(1.0)));
    println!("  latency p50 {}; of one process {alone_us} µs", p50s.check(Bound::Includes(1.0)));
    println!("  the server's CPU per request {costs}");
    Ok(())
}

fn one_process(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<[f64; 3]> {
    let mut command = compare(binary, rate, pacing);
    command.args(["--client-processes", "1"]);
    figures(command)
}

/// Starts the workers of a distributed run without a launcher.
fn workers(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<[f64; 3]> {
    let address = free_address()?;
    let worker = |rank: u32| {
        let mut command = compare(binary, rate, pacing);
        command.arg("--distributed").env("MUXBENCH_RANK", rank.to_string());
        command.env("MUXBENCH_RANKS", (WORKERS + 1).to_string());
        command.env("MUXBENCH_RENDEZVOUS", address.to_string()).env("MUXBENCH_SECRET", "a bench");
        command
    };
    let _others = (1..=WORKERS).map(|number| start(worker(number), || true)).collect::<anyhow::Result<Vec<_>>>()?;
    figures(worker(0))
}

fn compare(binary: &Path, rate: &str, pacing: &str) -> Command {
    let mut command = compare_once(binary, "epoll", CONNECTIONS);
    command.args(["--rate", rate, "--pacing", pacing]);
    command
}

/// Returns the rate per second, the median latency in nanoseconds, and the server's CPU time per request.
fn figures(command: Command) -> anyhow::Result<[f64; 3]> {
    let row = only_row(command)?;
    let figure = |path| number(&row, path);
    Ok([figure("/rate_achieved_per_s")?, figure("/service/p50_ns")?, figure("/cost/cpu_ns_per_request")?])
}
