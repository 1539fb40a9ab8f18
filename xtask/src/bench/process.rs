//! Servers that benches measure, and the client's configuration.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use load::config::{LoadConfig, Phases, Schedule};
use wire::ServiceSpec;
use xtask::root;

/// CPU of servers.
pub const SERVER_CPU: &str = "0";
/// CPU of clients.
pub const CLIENT_CPU: usize = 1;
pub const CONNECTIONS: u32 = 400;

/// A process that is killed when dropped.
pub struct Process(pub Child);

impl Process {
    /// Starts a command and waits until `is_ready`.
    pub fn start(mut command: Command, is_ready: impl Fn() -> bool) -> anyhow::Result<Self> {
        let process = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
        let process = Self(process);
        let started = Instant::now();
        while !is_ready() {
            if started.elapsed() > Duration::from_secs(5) {
                bail!("{command:?} does not listen");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    /// Returns the CPU time of the process's threads, in nanoseconds.
    pub fn cpu_ns(&self) -> anyhow::Result<u64> {
        cpu_ns_of(self.0.id())
    }
}

/// Returns the CPU time of a process's threads, in nanoseconds.
pub fn cpu_ns_of(process: u32) -> anyhow::Result<u64> {
    let mut total_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).context("the process ended")? {
        let path = thread?.path().join("schedstat");
        let line = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let first = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        total_ns += first.with_context(|| format!("{}: `{line}`", path.display()))?;
    }
    Ok(total_ns)
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // Children of a reference server end with their connections. Wait, so that they do not use the next server's
        // CPU.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server with fixed sizes.
pub struct Server {
    _process: Process,
    pub address: SocketAddr,
}

impl Server {
    /// Starts a command that listens on the given port.
    fn start(command: impl FnOnce(u16) -> Command) -> anyhow::Result<Self> {
        let address = free_address()?;
        let process = Process::start(command(address.port()), || TcpStream::connect(address).is_ok())?;
        Ok(Self { _process: process, address })
    }

    pub fn ours(architecture: &str, service: &ServiceSpec) -> anyhow::Result<Self> {
        let (request_bytes, response_bytes) = service.fixed().context("the reference has fixed sizes")?;
        let binary = muxbench()?;
        Self::start(|port| {
            let mut command = Command::new(binary);
            command.args(["serve", "--arch", architecture, "--cpus", SERVER_CPU]);
            command.args(["--listen", &format!("127.0.0.1:{port}")]);
            command.args(["--request", &format!("{request_bytes}B"), "--response", &format!("{response_bytes}B")]);
            command
        })
    }

    pub fn reference(binary: &Path, architecture: &str, service: &ServiceSpec) -> anyhow::Result<Self> {
        let (request_bytes, response_bytes) = service.fixed().context("the reference has fixed sizes")?;
        Self::start(|port| {
            let mut command = Command::new("taskset");
            command.args(["-c", SERVER_CPU]).arg(binary).arg(architecture);
            command.args([port.to_string(), request_bytes.to_string(), response_bytes.to_string()]);
            command
        })
    }
}

/// Returns an address of this host on which nothing listens.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Runs `muxbench compare --json` and returns the row of its only architecture.
pub fn comparison_row(mut command: Command) -> anyhow::Result<serde_json::Value> {
    let folder = tempfile::tempdir().context("cannot create a folder for a run")?;
    command.arg("--output").arg(folder.path().join("run"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start muxbench")?;
    let mut result: serde_json::Value = serde_json::from_slice(&output.stdout).context("`compare` prints no JSON")?;
    let row = result["summary"]["comparisons"][0]["rows"][0].take();
    ensure!(row["verdict"] != "failed", "{command:?}: {}", row["reasons"]);
    Ok(row)
}

/// Builds muxbench and returns its path.
pub fn muxbench() -> anyhow::Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--quiet", "--package", "muxbench", "--message-format", "json"]);
    let output = command.current_dir(root()).stderr(Stdio::inherit()).output()?;
    let lines = BufReader::new(output.stdout.as_slice()).lines().map_while(Result::ok);
    lines
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(&line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .find(|path| path.ends_with("muxbench"))
        .context("muxbench does not build")
}

/// Builds the C reference server and returns its path.
pub fn reference() -> anyhow::Result<PathBuf> {
    let binary = root().join("target/refserver");
    let source = root().join("xtask/reference/refserver.c");
    let status = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&binary).arg(source).status();
    if !status.context("cannot run cc; install a C compiler")?.success() {
        bail!("the reference server does not build");
    }
    Ok(binary)
}

/// An open loop at 8 000 requests per second.
pub fn config(target: SocketAddr, service: &ServiceSpec) -> LoadConfig {
    LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: Some(8_000.0),
        phases: Phases {
            ramp_ns: 500_000_000,
            warm_up_ns: 500_000_000,
            measure_ns: 4_000_000_000,
            cool_down_ns: 1_000_000_000,
        },
        cpus: vec![CLIENT_CPU],
        ..LoadConfig::new(target, service.clone())
    }
}

/// A closed loop, which measures a server's highest rate.
pub fn closed_config(target: SocketAddr, service: &ServiceSpec) -> LoadConfig {
    let phases = Phases { ramp_ns: 300_000_000, warm_up_ns: 0, measure_ns: 1_200_000_000, cool_down_ns: 1_000_000_000 };
    LoadConfig { rate_per_s: None, schedule: Schedule::Closed, phases, ..config(target, service) }
}
