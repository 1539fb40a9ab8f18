//! Highest rates of our servers against the C reference server or against each other, and the send delay of the client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::root;

use super::loads::{CONNECTIONS, Sizes, closed, config, flags, load_result, phases};
use super::spread::{Bound, rounds};
use crate::command;
use crate::process::{SERVER_CPU, Server, free_address, listen, muxbench, on_cpu};

/// Architectures of the C reference server. Without `--against`, other architectures are compared with our epoll.
const REFERENCES: &[&str] = &["epoll", "poll", "select", "mt", "mp"];

/// Compares the highest rates.
pub(super) fn run(count: usize, architectures: &[String], against: Option<&str>) -> anyhow::Result<()> {
    let (binary, reference) = (muxbench()?, reference()?);
    let other = against.unwrap_or("C reference (or our epoll)");
    println!(
        "closed rate, muxbench / {other}, {CONNECTIONS} connections, median of {count} rounds (lowest to highest)"
    );
    for sizes in [(1, 1), (128, 10_240)] {
        for architecture in architectures {
            let [ratio] = rounds(count, || {
                let ours = rate(&binary, architecture, sizes)?;
                let theirs = match against {
                    None if REFERENCES.contains(&&**architecture) => rate_of_reference(&reference, architecture, sizes),
                    other => rate(&binary, other.unwrap_or("epoll"), sizes),
                };
                Ok([ours / theirs?])
            })?;
            let bound = bound(architecture, against, sizes);
            let ratio = bound.map_or_else(|| ratio.to_string(), |bound| ratio.check(bound));
            println!("  {architecture:16} {:4} B -> {:5} B  {ratio}", sizes.0, sizes.1);
        }
    }
    Ok(())
}

/// Measures the send delay.
pub(super) fn lag(count: usize) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let [p50, p99] = rounds(count, || {
        let server = ours(&binary, "epoll", (1, 1))?;
        let delay = load_result(&config(server.address, (1, 1)))?.send_delay.distribution;
        Ok([delay.p50_ns, delay.p99_ns].map(|ns| ns as f64 / 1e3))
    })?;
    println!(
        "send delay in µs at 8000 requests/s, {CONNECTIONS} connections, 1 B -> 1 B, epoll, median of {count} rounds"
    );
    println!("  p50 {}", p50.check(Bound::AtMost(0.5)));
    println!("  p99 {}", p99.check(Bound::AtMost(20.0)));
    Ok(())
}

fn ours(binary: &Path, architecture: &str, sizes: Sizes) -> anyhow::Result<Server> {
    let cpus = format!("--cpus={SERVER_CPU}");
    Server::start(binary, architecture, &[&[cpus], &flags(sizes)[..]].concat())
}

fn rate(binary: &Path, architecture: &str, sizes: Sizes) -> anyhow::Result<f64> {
    let server = ours(binary, architecture, sizes)?;
    highest_rate(server.address, sizes)
}

fn rate_of_reference(binary: &Path, architecture: &str, sizes: Sizes) -> anyhow::Result<f64> {
    let address = free_address()?;
    let mut command = on_cpu(SERVER_CPU, binary);
    command.arg(architecture).args([address.port().into(), sizes.0, sizes.1].map(|it| it.to_string()));
    let _server = listen(&mut command, address)?;
    highest_rate(address, sizes)
}

fn highest_rate(address: SocketAddr, sizes: Sizes) -> anyhow::Result<f64> {
    Ok(load_result(&closed(phases([300, 0, 1_200, 1_000]), config(address, sizes)))?.rate_achieved_per_s)
}

/// Builds the C reference server and returns its path.
fn reference() -> anyhow::Result<PathBuf> {
    let binary = root().join("target/refserver");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-o"]).arg(&binary).arg(root().join("xtask/reference/refserver.c"));
    command::output(&mut cc).context("the reference server does not build; it needs a C compiler")?;
    Ok(binary)
}

/// Returns the limit of a ratio to the C reference server, or to our epoll for `epoll-et` and for `io_uring` with 1 B requests.
fn bound(architecture: &str, against: Option<&str>, sizes: Sizes) -> Option<Bound> {
    match (architecture, against) {
        (_, None) if REFERENCES.contains(&architecture) => Some(Bound::AtLeast(0.95)),
        ("epoll-et", Some("epoll")) => Some(Bound::AtLeast(0.97)),
        ("io_uring", Some("epoll")) if sizes == (1, 1) => Some(Bound::AtLeast(1.0)),
        _ => None,
    }
}
