//! Whether five client processes on one machine see of a server what one does: rate, median service time, and CPU of the server
//! a request.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::{CLIENT_CPU, SERVER_CPU, Spread, muxbench};

const MANY: u32 = 5;

/// By itself one client would spin, and see a response at once, while five that share a CPU have to wait in turns: the difference
/// would be theirs and not the server's.
pub(super) const PACING: &str = "yield";

/// What a run has of its one architecture.
struct Figures {
    rate_per_s: f64,
    p50_ns: f64,
    cpu_ns_per_request: f64,
}

/// Runs `rounds` of each, A B A B.
pub(super) fn run(rounds: usize, rate: &str, pacing: &str) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let (mut rates, mut p50s, mut costs, mut alone_us) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let one = compare(&binary, 1, rate, pacing)?;
        let many = compare(&binary, MANY, rate, pacing)?;
        rates.push(many.rate_per_s / one.rate_per_s);
        p50s.push(many.p50_ns / one.p50_ns);
        costs.push(many.cpu_ns_per_request / one.cpu_ns_per_request);
        alone_us.push(one.p50_ns / 1e3);
    }
    let [rates, p50s, costs, alone_us] = [rates, p50s, costs, alone_us].map(Spread::of);
    println!(
        "{MANY} client processes / 1, {rate} requests/s, pacing {pacing}, epoll, median of {rounds} rounds (least to most)"
    );
    println!("  achieved rate {}", rates.to_reach_within(1.0));
    println!("  service time p50 {}; of one {alone_us} µs", p50s.to_reach_within(1.0));
    println!("  CPU of the server a request {costs}");
    Ok(())
}

fn compare(binary: &Path, processes: u32, rate: &str, pacing: &str) -> anyhow::Result<Figures> {
    let folder = tempfile::tempdir().context("no folder for a run")?;
    let mut command = Command::new(binary);
    command.args(["compare", "--arch", "epoll", "--connections", "400", "--repeats", "1", "--json", "--quiet"]);
    command.args(["--rate", rate, "--ramp", "500ms", "--hold", "500ms", "--measure", "4s"]);
    command.args(["--server-cpus", SERVER_CPU, "--client-cpus", &CLIENT_CPU.to_string()]);
    command.args(["--client-processes", &processes.to_string()]);
    command.args(["--pacing", pacing]);
    command.arg("--output").arg(folder.path().join("run"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start muxbench")?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).context("compare says no JSON")?;
    let row = &said["summary"]["comparisons"][0]["rows"][0];
    ensure!(row["verdict"] != "failed", "{processes} processes: {}", row["reasons"]);
    let figure = |path: &str| {
        let value = row.pointer(path).and_then(serde_json::Value::as_f64);
        value.with_context(|| format!("compare tells no {path}: {row}"))
    };
    Ok(Figures {
        rate_per_s: figure("/rate_achieved_per_s")?,
        p50_ns: figure("/service/p50_ns")?,
        cpu_ns_per_request: figure("/cost/cpu_ns_per_request")?,
    })
}
