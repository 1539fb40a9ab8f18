//! Whether five client ranks on one machine see of a server what one client process does: rate, median service time, and CPU of
//! the server a request. All clients are kept to one CPU; ranks themselves sleep while their clients measure.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::{CLIENT_CPU, Process, SERVER_CPU, Spread, muxbench};

/// Clients; a sixth rank has the server.
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
        let one = one_process(&binary, rate, pacing)?;
        let many = ranks(&binary, rate, pacing)?;
        rates.push(many.rate_per_s / one.rate_per_s);
        p50s.push(many.p50_ns / one.p50_ns);
        costs.push(many.cpu_ns_per_request / one.cpu_ns_per_request);
        alone_us.push(one.p50_ns / 1e3);
    }
    let [rates, p50s, costs, alone_us] = [rates, p50s, costs, alone_us].map(Spread::of);
    println!(
        "{MANY} client ranks / 1 client process, {rate} requests/s, pacing {pacing}, epoll, median of {rounds} rounds (least to most)"
    );
    println!("  achieved rate {}", rates.to_reach_within(1.0));
    println!("  service time p50 {}; of one {alone_us} µs", p50s.to_reach_within(1.0));
    println!("  CPU of the server a request {costs}");
    Ok(())
}

/// A run with one client process.
fn one_process(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<Figures> {
    let mut command = compare(binary, rate, pacing);
    command.args(["--client-processes", "1"]);
    figures(command)
}

/// The same as ranks that nobody but us has started.
fn ranks(binary: &Path, rate: &str, pacing: &str) -> anyhow::Result<Figures> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let rank = |rank: u32| {
        let mut command = compare(binary, rate, pacing);
        command.arg("--fleet").env("MUXBENCH_RANK", rank.to_string()).env("MUXBENCH_RANKS", (MANY + 1).to_string());
        command.env("MUXBENCH_RENDEZVOUS", format!("127.0.0.1:{port}")).env("MUXBENCH_SECRET", "a bench");
        command
    };
    let _others = (1..=MANY).map(|number| Process::start(rank(number), || true)).collect::<anyhow::Result<Vec<_>>>()?;
    figures(rank(0))
}

fn compare(binary: &Path, rate: &str, pacing: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(["compare", "--arch", "epoll", "--connections", "400", "--repeats", "1", "--json", "--quiet"]);
    command.args(["--rate", rate, "--ramp", "500ms", "--hold", "500ms", "--measure", "4s"]);
    command.args(["--server-cpus", SERVER_CPU, "--client-cpus", &CLIENT_CPU.to_string()]);
    command.args(["--pacing", pacing]);
    command
}

/// What a comparison says.
fn figures(mut command: Command) -> anyhow::Result<Figures> {
    let folder = tempfile::tempdir().context("no folder for a run")?;
    command.arg("--output").arg(folder.path().join("run"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start muxbench")?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).context("compare says no JSON")?;
    let row = &said["summary"]["comparisons"][0]["rows"][0];
    ensure!(row["verdict"] != "failed", "{command:?}: {}", row["reasons"]);
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
