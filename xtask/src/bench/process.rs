//! Servers that benches measure, and the client's configuration.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use load::config::{LoadConfig, Phases, Schedule};
use load::{Event, LoadReport};
use serde::de::DeserializeOwned;
use wire::{Address, ServiceSpec};
use xtask::root;

use crate::child::{Process, wait_until};

/// CPU of servers.
pub const SERVER_CPU: &str = "0";
/// CPU of clients.
pub const CLIENT_CPU: usize = 1;
pub const CONNECTIONS: u32 = 400;

/// Starts a command and waits until `is_ready` returns true.
pub fn start(mut command: Command, is_ready: impl Fn() -> bool) -> anyhow::Result<Process> {
    let process = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
    let process = Process(process);
    wait_until(&format!("{command:?} listens"), Duration::from_secs(5), || Ok(is_ready()))?;
    Ok(process)
}

/// Starts a server and waits until it listens.
pub fn listen(command: Command, target: &Address) -> anyhow::Result<Process> {
    start(command, || match target {
        Address::Ip(address) => TcpStream::connect(address).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    })
}

/// Returns the command that runs `muxbench serve` on the server's CPU.
pub fn serve(binary: &Path, architecture: &str, target: &Address, flags: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(["serve", "--arch", architecture, "--cpus", SERVER_CPU, "--listen", &target.to_string()]).args(flags);
    command
}

/// Returns a command that runs a program on one CPU.
pub fn on_cpu(cpu: impl ToString, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program);
    command
}

/// Returns the CPU time of a process's threads, in nanoseconds.
pub fn cpu_ns(process: &Child) -> anyhow::Result<u64> {
    let mut total_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{}/task", process.id())).context("the process ended")? {
        let path = thread?.path().join("schedstat");
        let line = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let first = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        total_ns += first.with_context(|| format!("{}: `{line}`", path.display()))?;
    }
    Ok(total_ns)
}

/// Bytes of a request and of a response.
pub type Sizes = (u32, u32);

/// A server, by default of the service `fixed`.
pub struct Server {
    _process: Process,
    pub address: SocketAddr,
}

impl Server {
    pub fn ours(architecture: &str, (request_bytes, response_bytes): Sizes) -> anyhow::Result<Self> {
        let sizes = [request_bytes, response_bytes].map(|bytes| format!("{bytes}B"));
        Self::with_flags(architecture, &["--request", &sizes[0], "--response", &sizes[1]])
    }

    pub fn with_flags(architecture: &str, flags: &[&str]) -> anyhow::Result<Self> {
        let address = free_address()?;
        Self::start(address, serve(&muxbench()?, architecture, &address.into(), flags))
    }

    pub fn reference(
        binary: &Path,
        architecture: &str,
        (request_bytes, response_bytes): Sizes,
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = on_cpu(SERVER_CPU, binary);
        command.arg(architecture).args([address.port().into(), request_bytes, response_bytes].map(|it| it.to_string()));
        Self::start(address, command)
    }

    fn start(address: SocketAddr, command: Command) -> anyhow::Result<Self> {
        // The children of an earlier reference server end a moment after their connections. Give them this time, because
        // they would use this server's CPU.
        thread::sleep(Duration::from_millis(50));
        Ok(Self { _process: listen(command, &address.into())?, address })
    }
}

/// Returns an address of this host on which nothing listens.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The statuses of commands that compare or search: done, and no trial is valid.
pub const COMPARED: &[i32] = &[0, 3];

/// Runs a command of muxbench that prints JSON, with a temporary folder for its results, and returns the JSON. `statuses` are those
/// with a result.
pub fn answer<T: DeserializeOwned>(command: &mut Command, statuses: &[i32]) -> anyhow::Result<T> {
    let folder = tempfile::tempdir().context("cannot create a folder for a run")?;
    command.arg("--output").arg(folder.path().join("run"));
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.code().is_some_and(|code| statuses.contains(&code)), "{command:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}"))
}

/// Runs `muxbench compare --json` and returns the row of its only architecture.
pub fn comparison_row(mut command: Command) -> anyhow::Result<serde_json::Value> {
    let mut result: serde_json::Value = answer(&mut command, COMPARED)?;
    let row = result["summary"]["comparisons"][0]["rows"][0].take();
    ensure!(row["verdict"] != "failed", "{command:?}: {}", row["reasons"]);
    Ok(row)
}

/// Builds muxbench in release mode and returns its path.
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

/// Runs a command that prints the JSON of `compare`, and returns the comparisons.
pub fn comparisons<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<Vec<T>> {
    #[derive(serde::Deserialize)]
    struct Output<T> {
        summary: Summary<T>,
    }
    #[derive(serde::Deserialize)]
    struct Summary<T> {
        comparisons: Vec<T>,
    }
    let output: Output<T> = answer(command, COMPARED)?;
    Ok(output.summary.comparisons)
}

/// Builds the C reference server and returns its path.
pub fn reference() -> anyhow::Result<PathBuf> {
    let binary = root().join("target/refserver");
    let source = root().join("xtask/reference/refserver.c");
    let status = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&binary).arg(source).status();
    ensure!(status.context("cannot run cc; install a C compiler")?.success(), "the reference server does not build");
    Ok(binary)
}

/// An open loop at 8 000 requests per second.
pub fn config(target: SocketAddr, (request_bytes, response_bytes): Sizes) -> LoadConfig {
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
        ..LoadConfig::new(target, ServiceSpec::Fixed { request_bytes, response_bytes })
    }
}

/// A closed loop, which measures a server's highest rate.
pub fn closed_config(target: SocketAddr, sizes: Sizes) -> LoadConfig {
    let phases = Phases { ramp_ns: 300_000_000, warm_up_ns: 0, measure_ns: 1_200_000_000, cool_down_ns: 1_000_000_000 };
    LoadConfig { rate_per_s: None, schedule: Schedule::Closed, phases, ..config(target, sizes) }
}

/// Runs a load; returns an error if a request fails.
pub fn load_report(config: &LoadConfig) -> anyhow::Result<LoadReport> {
    let report = load::run(config, &mut |_| ())?.report;
    ensure!(report.errors.total() == 0, "requests failed: {:?}", report.errors);
    Ok(report)
}

/// Runs a load; returns an error if a request fails. Also returns the first and the last progress report in the window:
/// the time in nanoseconds, the number of completed requests, and the value that `read` returned at that moment.
pub fn load_read<T: Copy>(
    config: &LoadConfig,
    read: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<(LoadReport, [(u64, u64, T); 2])> {
    let mut readings = Vec::new();
    let report = load::run(config, &mut |event| {
        if let Event::Progress { phase, elapsed_ns, completed, .. } = event
            && phase == "measure"
            && let Ok(value) = read()
        {
            readings.truncate(1);
            readings.push((elapsed_ns, completed, value));
        }
    })?
    .report;
    ensure!(report.errors.total() == 0, "requests failed: {:?}", report.errors);
    let &[first, last] = readings.as_slice() else {
        bail!("the client reported progress fewer than two times in the window")
    };
    Ok((report, [first, last]))
}
