//! Five client workers on one machine against one client process: rate, median latency, and the server's CPU time per
//! request. All clients share one CPU; workers sleep while their clients measure.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::process::{CLIENT_CPU, Process, SERVER_CPU, comparison_row, free_address, muxbench};
use super::spread::Spread;

/// Number of client workers. One more worker runs the server.
const WORKERS: u32 = 5;

/// Default pacing. A single client would spin and see responses immediately, while five clients on one CPU wait for
/// each other. This difference would not be the server's.
pub(super) const PACING: &str = "yield";

/// The figures of one run.
struct Figures {
    rate_per_s: f64,
    p50_ns: f64,
    cpu_ns_per_request: f64,
}

pub(super) fn run(rounds: usize, rate: &str, pacing: &str) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let (mut rates, mut p50s, mut costs, mut alone_us) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let one = one_process(&binary, rate, pacing)?;
        let many = workers(&binary, rate, pacing)?;
        rates.push(many.rate_per_s / one.rate_per_s);
        p50s.push(many.p50_ns / one.p50_ns);
        costs.push(many.cpu_ns_per_request / one.cpu_ns_per_request);
        alone_us.push(one.p50_ns / 1e3);
    }
    let [rates, p50s, costs, alone_us] = [rates, p50s, costs, alone_us].map(Spread::of);
    println!(
        "{WORKERS} client workers / 1 client process, {rate} requests/s, pacing {pacing}, epoll, median of {rounds} rounds (lowest to highest)"
    );
    println!("  achieved rate {}", rates.check_includes(1.0));
    println!("  latency p50 {}; of one process {alone_us} µs", p50s.check_includes(1.0));
    println!("  CPU of the server a request {costs}");
    Ok(())
}

fn one_process(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<Figures> {
    let mut command = compare(binary, rate, pacing);
    command.args(["--client-processes", "1"]);
    figures(command)
}

/// Starts the workers of a distributed run without a launcher.
fn workers(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<Figures> {
    let address = free_address()?;
    let worker = |rank: u32| {
        let mut command = compare(binary, rate, pacing);
        command.arg("--fleet").env("MUXBENCH_RANK", rank.to_string()).env("MUXBENCH_RANKS", (WORKERS + 1).to_string());
        command.env("MUXBENCH_RENDEZVOUS", address.to_string()).env("MUXBENCH_SECRET", "a bench");
        command
    };
    let _others =
        (1..=WORKERS).map(|number| Process::start(worker(number), || true)).collect::<anyhow::Result<Vec<_>>>()?;
    figures(worker(0))
}

fn compare(binary: &Path, rate: &str, pacing: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(["compare", "--arch", "epoll", "--connections", "400", "--repeats", "1", "--json", "--quiet"]);
    command.args(["--rate", rate, "--ramp", "500ms", "--hold", "500ms", "--measure", "4s"]);
    command.args(["--server-cpus", SERVER_CPU, "--client-cpus", &CLIENT_CPU.to_string()]);
    command.args(["--pacing", pacing]);
    command
}

fn figures(command: Command) -> anyhow::Result<Figures> {
    let row = comparison_row(command)?;
    let figure = |path: &str| {
        let value = row.pointer(path).and_then(serde_json::Value::as_f64);
        value.with_context(|| format!("`compare` reports no {path}: {row}"))
    };
    Ok(Figures {
        rate_per_s: figure("/rate_achieved_per_s")?,
        p50_ns: figure("/service/p50_ns")?,
        cpu_ns_per_request: figure("/cost/cpu_ns_per_request")?,
    })
}
