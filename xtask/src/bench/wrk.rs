//! The HTTP client `wrk`, on the client's CPU.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, ensure};

use super::process::{CLIENT_CPU, on_cpu};

pub(super) const CONNECTIONS: u32 = 100;
/// The file that clients get.
pub(super) const FILE: &str = "file";

/// Returns the command for a load with one thread.
pub(super) fn command(peers: &Path, duration: &str, address: SocketAddr) -> Command {
    let mut command = on_cpu(CLIENT_CPU, peers.join("wrk"));
    command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{duration}"), &format!("http://{address}/{FILE}")]);
    command
}

/// Returns the rate in requests per second and the number of requests.
pub(super) fn figures(output: &Output) -> anyhow::Result<(f64, f64)> {
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && !text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk: {text}");
    let number = |label: &str, word: usize| {
        let line = text.lines().find(|line| line.contains(label))?;
        line.split_whitespace().nth(word)?.parse::<f64>().ok().filter(|&number| number > 0.0)
    };
    number("Requests/sec:", 1).zip(number(" requests in ", 0)).with_context(|| format!("wrk reports no rate: {text}"))
}
