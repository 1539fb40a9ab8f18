//! Bandwidth of one connection against iperf3 on the same CPUs, and of a thousand connections against that of ten.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::{Bound, CLIENT_CPU, Process, SERVER_CPU, Spread, muxbench};
use xtask::root;

/// Connections of which many are compared with few.
const FEW: u32 = 10;
const MANY: u32 = 1_000;

/// Runs `rounds` of each pair, A B A B.
pub(super) fn run(rounds: usize) -> anyhow::Result<()> {
    let (binary, peers) = (muxbench()?, crate::peers::prepare()?);
    println!("bandwidth of one connection, muxbench / iperf3, median of {rounds} rounds (least to most)");
    for architecture in ["epoll", "mt"] {
        let (mut ratios, mut theirs_gb) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let ours = ours(&binary, architecture, 1)?;
            let theirs = iperf3(&peers)?;
            ratios.push(ours / theirs);
            theirs_gb.push(theirs / 1e9);
        }
        println!(
            "  {architecture:6} {}; iperf3 {} GB/s",
            Spread::of(ratios).to_reach(Bound::AtLeast(0.95)),
            Spread::of(theirs_gb)
        );
    }
    let (mut ratios, mut few_gb) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let many = ours(&binary, "epoll", MANY)?;
        let few = ours(&binary, "epoll", FEW)?;
        ratios.push(many / few);
        few_gb.push(few / 1e9);
    }
    let (ratio, few_gb) = (Spread::of(ratios), Spread::of(few_gb));
    let told = ratio.to_reach(Bound::AtLeast(0.8));
    println!("  epoll, {MANY} connections against {FEW}: {told}; with {FEW} {few_gb} GB/s");
    Ok(())
}

/// Bytes a second that our server took in, as `compare` has it: what sockets hold is not counted.
fn ours(binary: &Path, architecture: &str, connections: u32) -> anyhow::Result<f64> {
    let folder = root().join("target/bench-stream");
    let mut command = Command::new(binary);
    command.args(["compare", "--service", "stream", "--arch", architecture, "--repeats", "1", "--json", "--quiet"]);
    command.args(["--connections", &connections.to_string(), "--measure", "4s", "--ramp", "500ms", "--hold", "500ms"]);
    command.args(["--server-cpus", SERVER_CPU, "--client-cpus", &CLIENT_CPU.to_string(), "--drain", "60s"]);
    let output = command.arg("--output").arg(&folder).stderr(Stdio::inherit()).output()?;
    std::fs::remove_dir_all(&folder).context("compare left no run")?;
    // That the client was the limit is no failure here: iperf3's is, too.
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).context("compare says no JSON")?;
    let row = &said["summary"]["comparisons"][0]["rows"][0];
    ensure!(row["verdict"] != "failed", "{architecture}: {}", row["reasons"]);
    row["stream"]["bytes_per_s"].as_f64().with_context(|| format!("compare tells no bandwidth: {row}"))
}

/// What iperf3's server received a second from its client, in bytes: one connection, as we have it.
fn iperf3(peers: &Path) -> anyhow::Result<f64> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_CPU]).arg(peers.join("iperf3")).args(["--server", "--port", &port.to_string()]);
    // A connection that says nothing would be taken for a client, and refused the next: it is looked for otherwise.
    let listens = || TcpListener::bind(address).is_err();
    let _server =
        Process::start(command, listens).context("iperf3 is compared with; install it (apt-get install iperf3)")?;
    let mut command = Command::new("taskset");
    command.args(["-c", &CLIENT_CPU.to_string()]).arg(peers.join("iperf3"));
    command.args(["--client", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--time", "4", "--omit", "1", "--json"]).stderr(Stdio::inherit());
    let output = command.output().context("cannot run taskset iperf3")?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).context("iperf3 says no JSON")?;
    let bits_per_s = said["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits_per_s.with_context(|| format!("iperf3 tells no bandwidth: {}", said["error"]))? / 8.0)
}
