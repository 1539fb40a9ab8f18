//! Costs of a request besides its work, for each architecture and service: page faults, writes and CPU time. The work is the same,
//! so a row that differs shows a cost of the allocator or of the loop.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use load::config::{HttpTarget, HttpTraffic, KvTraffic, LoadConfig, Phases, Popularity, Schedule, TlsConfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wire::ServiceSpec;
use wire::stream::{Direction, Stream};

use super::architectures::{BASE, all, named};
use super::loads::load_read;
use super::process::{CLIENT_CPU, SERVER_CPU, muxbench, number};
use crate::child::Process;

/// Connections of a closed loop, whose responses a completion loop sends together.
const CONNECTIONS: u32 = 100;
const VALUE_BYTES: u32 = 30_000;
const MEMORY_BYTES: u64 = 64 << 20;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Costs {
    /// Architectures besides epoll, with commas; `io_uring*` for all whose names begin so [default: all of `muxbench list` that run here]
    #[arg(long, value_delimiter = ',', default_value = "*")]
    arch: Vec<String>,
    /// Services, with commas [default: all]
    #[arg(long, value_delimiter = ',')]
    service: Vec<String>,
}

/// A service: its heading, the flags of its server, and its load.
type Case = (&'static str, Vec<String>, fn(SocketAddr) -> LoadConfig);

fn cases() -> Vec<Case> {
    let flags = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    vec![
        ("fixed", flags("--request 128B --response 32KiB"), |target| {
            LoadConfig::new(target, ServiceSpec::Fixed { request_bytes: 128, response_bytes: 32 << 10 })
        }),
        ("http", flags("--service http"), |target| http(target, 32 << 10)),
        ("http-large", flags("--service http"), |target| http(target, 48 << 10)),
        ("https", flags("--service http --tls"), |target| LoadConfig {
            tls: Some(TlsConfig { server_name: target.ip().to_string(), is_insecure: true, ..TlsConfig::default() }),
            ..http(target, 48 << 10)
        }),
        ("kv", flags("--service kv"), |target| {
            let (memory_max_bytes, item_max_bytes) = (MEMORY_BYTES, 1 << 20);
            values(LoadConfig::new(target, ServiceSpec::Kv { memory_max_bytes, item_max_bytes }))
        }),
        ("redis", flags("--service redis"), |target| {
            let (memory_max_bytes, item_max_bytes) = (MEMORY_BYTES, 1 << 20);
            values(LoadConfig::new(target, ServiceSpec::Redis { memory_max_bytes, item_max_bytes }))
        }),
        ("stream", flags("--service stream --direction out --packets 4"), |target| {
            let stream = Stream { packets: 4, direction: Direction::Out, ..Stream::default() };
            LoadConfig::new(target, ServiceSpec::Stream(stream))
        }),
    ]
}

fn http(target: SocketAddr, bytes: u64) -> LoadConfig {
    let traffic = HttpTraffic::new(vec![HttpTarget::get(format!("/bytes/{bytes}"), Some(bytes))]);
    LoadConfig { http: Some(traffic), ..LoadConfig::new(target, ServiceSpec::Http { folder: None }) }
}

fn values(config: LoadConfig) -> LoadConfig {
    let (value_bytes_min, value_bytes_max) = (VALUE_BYTES, VALUE_BYTES);
    let keys = Popularity::Uniform;
    LoadConfig {
        kv: Some(KvTraffic { records: 100, value_bytes_min, value_bytes_max, get_share: 0.9, keys }),
        ..config
    }
}

pub(super) fn run(args: &Costs) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let everything = all(&binary)?;
    let mut names = named(&args.arch, &everything);
    names.insert(0, BASE.into());
    // Only root may ask the kernel, which alone counts the writes of runtimes.
    let counts = rustix::process::geteuid().is_root();
    for (service, flags, config) in cases() {
        if !args.service.is_empty() && !args.service.iter().any(|name| name == service) {
            continue;
        }
        println!("\n### {service}: closed loop, {CONNECTIONS} connections\n");
        println!("| architecture | page faults a request | writes a request | CPU µs a request |\n|---|--:|--:|--:|");
        for name in &names {
            match measure(&binary, name, &flags, counts, config) {
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
    flags: &[String],
    counts: bool,
    config: fn(SocketAddr) -> LoadConfig,
) -> anyhow::Result<[f64; 3]> {
    let mut server = Served::start(binary, architecture, flags, counts)?;
    let phases = Phases {
        ramp_ns: 300_000_000,
        warm_up_ns: 500_000_000,
        measure_ns: 1_500_000_000,
        cool_down_ns: 1_000_000_000,
    };
    let config = LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: None,
        schedule: Schedule::Closed,
        phases,
        cpus: vec![CLIENT_CPU],
        ..config(server.address)
    };
    let (_, [first, last]) = load_read(&config, || page_faults(server.process.0.id()))?;
    let faults = (last.2 - first.2) as f64 / (last.1 - first.1) as f64;
    let before = std::mem::take(&mut server.totals);
    let after = server.stop()?;
    let difference = |path: &str| -> f64 {
        let of = |totals: &Value| totals.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
        of(&after) - of(&before)
    };
    let requests = number(&after, "/requests")?;
    let writes = ["/syscalls/write", "/completions/send"].map(difference).iter().sum::<f64>();
    let writes = if writes > 0.0 { writes } else { difference("/syscalls_outside/write") };
    let cpu_ns: f64 = ["/cpu_user_ns", "/cpu_system_ns", "/cpu_children_ns"].map(difference).iter().sum();
    Ok([faults, writes / requests, cpu_ns / 1e3 / requests])
}

/// The page faults so far, without reads from disks, of a process and its children.
fn page_faults(process: u32) -> anyhow::Result<u64> {
    let mut processes = process.to_string();
    for task in fs::read_dir(format!("/proc/{process}/task")).context("the server ended")? {
        processes += " ";
        processes += &fs::read_to_string(task?.path().join("children")).unwrap_or_default();
    }
    let of = |process: &str| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(7)?.parse::<u64>().ok()
    };
    Ok(processes.split_whitespace().filter_map(of).sum())
}

/// A server that prints its totals.
struct Served {
    process: Process,
    lines: BufReader<ChildStdout>,
    address: SocketAddr,
    totals: Value,
}

impl Served {
    fn start(binary: &Path, architecture: &str, flags: &[String], counts: bool) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--json", "--arch", architecture, "--cpus", &SERVER_CPU.to_string()]).args(flags);
        if counts {
            command.arg("--count-syscalls");
        }
        let mut process =
            command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut lines = BufReader::new(process.stdout.take().context("no output")?);
        let process = Process(process);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let mut ready: Value = serde_json::from_str(&line).with_context(|| format!("{command:?}: `{line}`"))?;
        let address = ready["address"].as_str().context("no address")?.parse()?;
        Ok(Self { process, lines, address, totals: ready["snapshot"]["totals"].take() })
    }

    /// Stops the server, and returns its totals.
    fn stop(mut self) -> anyhow::Result<Value> {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM)?;
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest)?;
        let last = rest.lines().last().context("the server printed no totals")?;
        let mut last: Value = serde_json::from_str(last)?;
        ensure!(last["snapshot"]["totals"].is_object(), "no totals in {last}");
        Ok(last["snapshot"]["totals"].take())
    }
}
