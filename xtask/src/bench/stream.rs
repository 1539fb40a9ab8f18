//! Bandwidth of one connection against iperf3 on the same CPUs, and of a thousand connections against ten.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::process::{CLIENT_CPU, SERVER_CPU, comparison_row, free_address, muxbench, on_cpu, start};
use super::spread::{Bound, rounds};
use crate::environment::peers;

const FEW: u32 = 10;
const MANY: u32 = 1_000;

pub(super) fn run(count: usize) -> anyhow::Result<()> {
    let (binary, peers) = (muxbench()?, peers::prepare()?);
    println!("bandwidth of one connection, muxbench / iperf3, median of {count} rounds (lowest to highest)");
    for architecture in ["epoll", "mt"] {
        let [ratio, theirs_gb] = rounds(count, || {
            let (ours, theirs) = (ours(&binary, architecture, 1)?, iperf3(&peers)?);
            Ok([ours / theirs, theirs / 1e9])
        })?;
        println!("  {architecture:6} {}; iperf3 {theirs_gb} GB/s", ratio.check(Bound::AtLeast(0.95)));
    }
    let [ratio, few_gb] = rounds(count, || {
        let (many, few) = (ours(&binary, "epoll", MANY)?, ours(&binary, "epoll", FEW)?);
        Ok([many / few, few / 1e9])
    })?;
    let ratio = ratio.check(Bound::AtLeast(0.8));
    println!("  epoll, {MANY} connections / {FEW} connections: {ratio}; {FEW} connections have {few_gb} GB/s");
    Ok(())
}

/// Returns the bytes per second that our server received. The client may be the limit, as with iperf3.
fn ours(binary: &Path, architecture: &str, connections: u32) -> anyhow::Result<f64> {
    let mut command = Command::new(binary);
    command.args(["compare", "--service", "stream", "--arch", architecture, "--repeats", "1", "--json", "--quiet"]);
    command.args(["--connections", &connections.to_string(), "--measure", "4s", "--ramp", "500ms", "--hold", "500ms"]);
    command.args(["--server-cpus", SERVER_CPU, "--client-cpus", &CLIENT_CPU.to_string(), "--drain", "60s"]);
    let row = comparison_row(command)?;
    row["stream"]["bytes_per_s"].as_f64().with_context(|| format!("`compare` reports no bandwidth: {row}"))
}

/// Returns the bytes per second that iperf3's server received over one connection.
fn iperf3(peers: &Path) -> anyhow::Result<f64> {
    let address = free_address()?;
    let port = address.port().to_string();
    let mut command = on_cpu(SERVER_CPU, peers.join("iperf3"));
    command.args(["--server", "--port", &port]);
    // iperf3 would take a silent connection for its only client, so probe by binding instead.
    let listens = || TcpListener::bind(address).is_err();
    let _server = start(command, listens).context("cannot start iperf3; install it (apt-get install iperf3)")?;
    let mut command = on_cpu(CLIENT_CPU, peers.join("iperf3"));
    command
        .args(["--client", "127.0.0.1", "--port", &port, "--time", "4", "--omit", "1", "--json"])
        .stderr(Stdio::inherit());
    let output = command.output().context("cannot run taskset iperf3")?;
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).context("iperf3 prints no JSON")?;
    let bits_per_s = result["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits_per_s.with_context(|| format!("iperf3 reports no bandwidth: {}", result["error"]))? / 8.0)
}
