//! Costs of a request besides its work, for each architecture and service: page faults, writes and CPU time. The work is the same,
//! so a row that differs shows a cost of the allocator or of the loop.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use load::config::{HttpTarget, HttpTraffic, KvTraffic, LoadConfig, Popularity, TlsConfig};
use serde_json::Value;
use wire::ServiceSpec;
use wire::stream::{Direction, Stream};

use super::loads::{closed, load_read, phases};
use crate::command;
use crate::process::{SERVER_CPU, Server, children, muxbench};

/// The first architecture of each table.
const BASE: &str = "epoll";
/// Connections of a closed loop, whose responses a completion loop sends together.
const CONNECTIONS: u32 = 100;
const VALUE_BYTES: u32 = 30_000;
const MEMORY_BYTES: u64 = 64 << 20;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Costs {
    /// Architectures besides epoll, with commas [default: all of `muxbench list` that run here]
    #[arg(long, value_delimiter = ',')]
    arch: Vec<String>,
    /// Services, with commas [default: all]
    #[arg(long, value_delimiter = ',')]
    service: Vec<String>,
}

/// A service: its heading, the flags of its server, and its load.
type Case = (&'static str, &'static str, fn(SocketAddr) -> LoadConfig);

const CASES: [Case; 7] = [
    ("fixed", "--request 128B --response 32KiB", |target| {
        LoadConfig::new(target, ServiceSpec::Fixed { request_bytes: 128, response_bytes: 32 << 10 })
    }),
    ("http", "--service http", |target| http(target, 32 << 10)),
    ("http-large", "--service http", |target| http(target, 48 << 10)),
    ("https", "--service http --tls", |target| {
        http(target, 48 << 10).with(|it| {
            it.client.tls =
                Some(TlsConfig { server_name: target.ip().to_string(), is_insecure: true, ..TlsConfig::default() })
        })
    }),
    ("kv", "--service kv", |target| {
        values(target, ServiceSpec::Kv { memory_max_bytes: MEMORY_BYTES, item_max_bytes: 1 << 20 })
    }),
    ("redis", "--service redis", |target| {
        values(target, ServiceSpec::Redis { memory_max_bytes: MEMORY_BYTES, item_max_bytes: 1 << 20 })
    }),
    ("stream", "--service stream --direction out --packets 4", |target| {
        let stream = Stream { packets: 4, direction: Direction::Out, ..Stream::default() };
        LoadConfig::new(target, ServiceSpec::Stream(stream))
    }),
];

fn http(target: SocketAddr, bytes: u64) -> LoadConfig {
    let traffic = HttpTraffic::new(vec![HttpTarget::get(format!("/bytes/{bytes}"), Some(bytes))]);
    LoadConfig::new(target, ServiceSpec::HTTP).with(|it| it.http = Some(traffic))
}

fn values(target: SocketAddr, service: ServiceSpec) -> LoadConfig {
    let (value_bytes_min, value_bytes_max) = (VALUE_BYTES, VALUE_BYTES);
    let keys = Popularity::Uniform;
    let kv = KvTraffic { records: 100, value_bytes_min, value_bytes_max, get_share: 0.9, keys };
    LoadConfig::new(target, service).with(|it| it.kv = Some(kv))
}

pub(super) fn run(args: &Costs) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let mut names = if args.arch.is_empty() { all(&binary)? } else { args.arch.clone() };
    names.retain(|name| name != BASE);
    names.insert(0, BASE.into());
    // Only root may ask the kernel, which alone counts the writes of runtimes.
    let counting = if rustix::process::geteuid().is_root() { "--count-syscalls" } else { "" };
    for (service, flags, config) in CASES {
        let flags = format!("--cpus {SERVER_CPU} {flags} {counting}");
        if !args.service.is_empty() && !args.service.iter().any(|name| name == service) {
            continue;
        }
        println!("\n### {service}: closed loop, {CONNECTIONS} connections\n");
        println!("| architecture | page faults a request | writes a request | CPU µs a request |\n|---|--:|--:|--:|");
        for name in &names {
            match measure(&binary, name, &flags, config) {
                Ok([faults, writes, cpu_us]) => {
                    let writes = if writes > 0.0 { format!("{writes:.2}") } else { "-".into() };
                    println!("| `{name}` | {faults:.3} | {writes} | {cpu_us:.1} |");
                }
                Err(error) => println!("| `{name}` | {error:#} | | |"),
            }
        }
    }
    println!(
        "\nA zero-copy send counts twice: it completes once more when its memory is free. `-`: the writes are not counted."
    );
    Ok(())
}

/// Returns page faults, writes and microseconds of CPU time per request.
fn measure(
    binary: &Path,
    architecture: &str,
    flags: &str,
    config: fn(SocketAddr) -> LoadConfig,
) -> anyhow::Result<[f64; 3]> {
    let mut server = Server::start(binary, architecture, &flags.split_whitespace().collect::<Vec<_>>())?;
    let load = config(server.address).with(|it| it.connections = CONNECTIONS);
    let config = closed(phases([300, 500, 1_500, 1_000]), load);
    let process = server.process.0.id();
    let (_, [first, last]) = load_read(&config, || Ok(page_faults(process)))?;
    let faults = (last.2 - first.2) as f64 / (last.1 - first.1) as f64;
    let before = server.totals.take();
    let after = server.stop()?;
    let of = |totals: &Value, path: &str| totals.pointer(path).and_then(Value::as_f64);
    let difference = |path: &str| of(&after, path).unwrap_or(0.0) - of(&before, path).unwrap_or(0.0);
    let requests = of(&after, "/requests").with_context(|| format!("no number of requests in {after}"))?;
    let writes = difference("/syscalls/write") + difference("/completions/send");
    let writes = if writes > 0.0 { writes } else { difference("/syscalls_outside/write") };
    let cpu_ns: f64 = ["/cpu_user_ns", "/cpu_system_ns", "/cpu_children_ns"].map(difference).iter().sum();
    Ok([faults, writes / requests, cpu_ns / 1e3 / requests])
}

/// The page faults so far, without reads from disks, of a process and its children.
fn page_faults(process: u32) -> u64 {
    let of = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(7)?.parse::<u64>().ok()
    };
    [vec![process], children(process)].concat().into_iter().filter_map(of).sum()
}

/// The names of all architectures that can run here.
fn all(binary: &Path) -> anyhow::Result<Vec<String>> {
    let text = command::output(Command::new(binary).args(["list", "--json"]))?;
    let list: Value = serde_json::from_str(&text).context("`muxbench list --json`")?;
    let rows = list["architectures"].as_array().context("`muxbench list --json` has no architectures")?;
    let here = rows.iter().filter(|row| row["not_here"].is_null());
    Ok(here.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect())
}
