//! The service `kv` against memcached with one thread: how many gets a second each answers to the same closed loop.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure};
use load::Event;
use load::config::{Choice, KvTraffic, LoadConfig, Phases, Schedule};
use wire::{Address, ServiceSpec};

use super::{Bound, CLIENT_CPU, Process, SERVER_CPU, Spread, muxbench};

const CONNECTIONS: u32 = 100;
const RECORDS: u32 = 30_000;
const SERVICE: ServiceSpec = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };

/// Runs `rounds` of each pair, A B A B.
pub(super) fn run(rounds: usize, transports: &[String]) -> anyhow::Result<()> {
    crate::peers::prepare()?;
    let folder = tempfile::tempdir()?;
    println!(
        "gets, muxbench / memcached -t 1, {CONNECTIONS} connections, {RECORDS} records, median of {rounds} rounds"
    );
    for transport in transports {
        for architecture in ["epoll", "symped:1/epoll"] {
            let (mut rates, mut costs, mut busy) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let ours = measure(&address(transport, folder.path())?, |address| ours(architecture, address))?;
                let theirs = measure(&address(transport, folder.path())?, memcached)?;
                rates.push(ours.rate_per_s / theirs.rate_per_s);
                costs.push(ours.cpu_ns_per_request / theirs.cpu_ns_per_request);
                busy.push(ours.busy.min(theirs.busy));
            }
            let [rate, cost, busy] = [rates, costs, busy].map(Spread::of);
            let rate = rate.to_reach(Bound::AtLeast(1.0));
            println!("  {transport:4} {architecture:14} rate {rate}; CPU a request {cost}  of the server's CPU {busy}");
        }
    }
    println!("  both had the machine to themselves if they had all of the server's CPU");
    Ok(())
}

/// Where nobody listens yet.
fn address(transport: &str, folder: &Path) -> anyhow::Result<Address> {
    if transport == "unix" {
        let path = folder.join("kv.sock");
        // Killed, a server leaves it behind.
        let _ = fs::remove_file(&path);
        return Ok(Address::Unix(path));
    }
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.into())
}

fn is_there(address: &Address) -> bool {
    match address {
        Address::Ip(address) => TcpStream::connect(address).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}

fn ours(architecture: &str, address: &Address) -> anyhow::Result<Process> {
    let mut command = Command::new(muxbench()?);
    command.args(["serve", "--service", "kv", "--arch", architecture, "--cpus", SERVER_CPU]);
    command.args(["--listen", &address.to_string()]);
    Process::start(command, || is_there(address))
}

fn memcached(address: &Address) -> anyhow::Result<Process> {
    let mut command = Command::new("taskset");
    // Root must say that it wants to be; others are not asked.
    command.args(["-c", SERVER_CPU, "memcached", "-t", "1", "-m", "64", "-u", "root"]);
    match address {
        Address::Ip(address) => command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string()]),
        Address::Unix(path) => command.arg("-s").arg(path),
    };
    Process::start(command, || is_there(address))
}

/// What one server did for the client.
struct Figures {
    rate_per_s: f64,
    /// CPU time of its threads.
    cpu_ns_per_request: f64,
    /// The share of its CPU that this was. With little of it, others had the CPU, and the rate says nothing.
    busy: f64,
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
            keys: Choice::Uniform,
        }),
        phases: Phases { ramp_ns: 500_000_000, hold_ns: 0, measure_ns: 2_000_000_000, drain_ns: 1_000_000_000 },
        cpus: vec![CLIENT_CPU],
        ..LoadConfig::new(address.clone(), SERVICE)
    };
    // The first and the last look at what was done and used so far, in the window.
    let mut looks = Vec::new();
    let outcome = load::run(&config, &mut |event| {
        if let Event::Progress { phase, elapsed_ns, completed, .. } = event
            && phase == "measure"
            && let Ok(cpu_ns) = server.cpu_ns()
        {
            looks.truncate(1);
            looks.push((elapsed_ns, completed, cpu_ns));
        }
    })?;
    ensure!(outcome.report.errors.total() == 0, "{:?}", outcome.report.errors);
    let &[first, last] = looks.as_slice() else { bail!("nothing was seen of the window") };
    let cpu_ns = (last.2 - first.2) as f64;
    Ok(Figures {
        rate_per_s: outcome.report.rate_achieved_per_s,
        cpu_ns_per_request: cpu_ns / (last.1 - first.1) as f64,
        busy: cpu_ns / (last.0 - first.0) as f64,
    })
}
