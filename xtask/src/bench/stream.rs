//! Bandwidth of one connection against iperf3 on the same CPUs, and of a thousand connections against ten.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Context;

use super::process::{CLIENT_CPU, SERVER_CPU, compare_once, free_address, muxbench, number, on_cpu, only_row, start};
use super::spread::{Bound, rounds};
use crate::command;
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
    let mut command = compare_once(binary, architecture, connections);
    command.args(["--service", "stream", "--cool-down", "60s"]);
    number(&only_row(command)?, "/stream/bytes_per_s")
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
    command.args(["--client", "127.0.0.1", "--port", &port, "--time", "4", "--omit", "1", "--json"]);
    let text = command::output(&mut command).context("the client iperf3")?;
    let result: serde_json::Value = serde_json::from_str(&text).context("iperf3 prints no JSON")?;
    Ok(number(&result, "/end/sum_received/bits_per_second")? / 8.0)
}
