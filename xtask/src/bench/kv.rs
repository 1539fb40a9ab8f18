//! The service `kv` against memcached with one thread: gets of the same closed loop.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure};
use load::Event;
use load::config::{KvTraffic, LoadConfig, Phases, Popularity, Schedule};
use wire::{Address, ServiceSpec};

use super::comparison::{Figures, compare, print_note};
use super::process::{CLIENT_CPU, Process, SERVER_CPU, free_address, muxbench};
use crate::environment::peers;

const CONNECTIONS: u32 = 100;
const RECORDS: u32 = 30_000;
const SERVICE: ServiceSpec = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };

pub(super) fn run(rounds: usize, transports: &[String]) -> anyhow::Result<()> {
    peers::prepare()?;
    let binary = muxbench()?;
    let folder = tempfile::tempdir()?;
    println!(
        "gets, muxbench / memcached -t 1, {CONNECTIONS} connections, {RECORDS} records, median of {rounds} rounds"
    );
    for transport in transports {
        for architecture in ["epoll", "symped:1/epoll"] {
            compare(
                &format!("{transport:4} {architecture:14}"),
                rounds,
                || measure(&address(transport, folder.path())?, |address| ours(&binary, architecture, address)),
                || measure(&address(transport, folder.path())?, memcached),
            )?;
        }
    }
    print_note();
    Ok(())
}

/// Returns an unused address.
fn address(transport: &str, folder: &Path) -> anyhow::Result<Address> {
    if transport == "unix" {
        let path = folder.join("kv.sock");
        // A killed server leaves its socket behind.
        let _ = fs::remove_file(&path);
        return Ok(Address::Unix(path));
    }
    Ok(free_address()?.into())
}

fn is_listening(address: &Address) -> bool {
    match address {
        Address::Ip(address) => TcpStream::connect(address).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}

fn ours(binary: &Path, architecture: &str, address: &Address) -> anyhow::Result<Process> {
    let mut command = Command::new(binary);
    command.args(["serve", "--service", "kv", "--arch", architecture, "--cpus", SERVER_CPU]);
    command.args(["--listen", &address.to_string()]);
    Process::start(command, || is_listening(address))
}

fn memcached(address: &Address) -> anyhow::Result<Process> {
    let mut command = Command::new("taskset");
    // memcached refuses to run as root without this option.
    command.args(["-c", SERVER_CPU, "memcached", "-t", "1", "-m", "64", "-u", "root"]);
    match address {
        Address::Ip(address) => command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string()]),
        Address::Unix(path) => command.arg("-s").arg(path),
    };
    Process::start(command, || is_listening(address))
}

fn measure(address: &Address, start: impl FnOnce(&Address) -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
    let server = start(address)?;
    let config = LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: None,
        schedule: Schedule::Closed,
        kv: Some(KvTraffic {
            records: RECORDS,
            value_bytes_min: 10,
            value_bytes_max: 1_000,
            get_share: 1.0,
            keys: Popularity::Uniform,
        }),
        phases: Phases { ramp_ns: 500_000_000, warm_up_ns: 0, measure_ns: 2_000_000_000, cool_down_ns: 1_000_000_000 },
        cpus: vec![CLIENT_CPU],
        ..LoadConfig::new(address.clone(), SERVICE)
    };
    // The first and the last progress within the window.
    let mut readings = Vec::new();
    let outcome = load::run(&config, &mut |event| {
        if let Event::Progress { phase, elapsed_ns, completed, .. } = event
            && phase == "measure"
            && let Ok(cpu_ns) = server.cpu_ns()
        {
            readings.truncate(1);
            readings.push((elapsed_ns, completed, cpu_ns));
        }
    })?;
    ensure!(outcome.report.errors.total() == 0, "{:?}", outcome.report.errors);
    let &[first, last] = readings.as_slice() else { bail!("the client reported no progress in the window") };
    let cpu_ns = (last.2 - first.2) as f64;
    Ok(Figures {
        rate_per_s: outcome.report.rate_achieved_per_s,
        cpu_ns_per_request: cpu_ns / (last.1 - first.1) as f64,
        busy: cpu_ns / (last.0 - first.0) as f64,
    })
}
