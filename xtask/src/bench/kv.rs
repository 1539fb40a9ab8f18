//! The services `kv` and `redis` against memcached and Redis with one thread: gets in the same closed loop.

use std::fs;
use std::path::Path;
use std::process::Command;

use load::config::{KvTraffic, LoadConfig, Phases, Popularity, Schedule};
use wire::{Address, ServiceSpec};

use super::comparison::{Figures, compare, print_note};
use super::loads::load_read;
use super::process::{CLIENT_CPU, SERVER_CPU, cpu_ns, free_address, listen, muxbench, on_cpu, serve};
use crate::environment::peers;

const CONNECTIONS: u32 = 100;
const RECORDS: u32 = 30_000;

/// A service of ours and the server to compare it with.
pub(super) struct Pair {
    service: ServiceSpec,
    /// The other server with its options.
    title: &'static str,
    /// The lowest ratio of rates.
    rate_min: f64,
    theirs: fn(&Address) -> Command,
}

pub(super) const MEMCACHED: Pair = Pair {
    service: ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
    title: "memcached -t 1",
    rate_min: 1.15,
    theirs: memcached,
};

pub(super) const REDIS: Pair = Pair {
    service: ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
    title: "redis-server --io-threads 1",
    rate_min: 1.1,
    theirs: redis,
};

pub(super) fn run(count: usize, pair: &Pair, transports: &[String]) -> anyhow::Result<()> {
    peers::prepare()?;
    let binary = muxbench()?;
    let folder = tempfile::tempdir()?;
    let title = pair.title;
    println!("gets, muxbench / {title}, {CONNECTIONS} connections, {RECORDS} records, median of {count} rounds");
    for transport in transports {
        for architecture in ["epoll", "symped:1/epoll"] {
            let figures = |command: &dyn Fn(&Address) -> Command| {
                let address = address(transport, folder.path())?;
                measure(&address, command(&address), &pair.service)
            };
            compare(
                &format!("{transport:4} {architecture:14}"),
                count,
                pair.rate_min,
                || figures(&|address| serve(&binary, architecture, address, &["--service", pair.service.name()])),
                || figures(&pair.theirs),
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

fn memcached(address: &Address) -> Command {
    let mut command = on_cpu(SERVER_CPU, "memcached");
    // memcached refuses to run as root without the last option.
    command.args(["-t", "1", "-m", "64", "-u", "root"]);
    match address {
        Address::Ip(address) => command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string()]),
        Address::Unix(path) => command.arg("-s").arg(path),
    };
    command
}

fn redis(address: &Address) -> Command {
    let mut command = on_cpu(SERVER_CPU, "redis-server");
    // Write no snapshots.
    command.args(["--io-threads", "1", "--save", "", "--loglevel", "warning"]);
    match address {
        Address::Ip(address) => {
            command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()])
        }
        Address::Unix(path) => command.args(["--port", "0", "--unixsocket"]).arg(path),
    };
    command
}

fn measure(address: &Address, command: Command, service: &ServiceSpec) -> anyhow::Result<Figures> {
    let server = listen(command, address)?;
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
        ..LoadConfig::new(address.clone(), service.clone())
    };
    let (report, [first, last]) = load_read(&config, || cpu_ns(&server.0))?;
    let cpu_ns = (last.2 - first.2) as f64;
    Ok(Figures {
        rate_per_s: report.rate_achieved_per_s,
        cpu_ns_per_request: cpu_ns / (last.1 - first.1) as f64,
        busy: cpu_ns / (last.0 - first.0) as f64,
    })
}
