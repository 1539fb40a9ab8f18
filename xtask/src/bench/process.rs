//! Servers that benches measure, and commands of muxbench.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::Address;
use xtask::root;

use crate::child::{Process, wait_until};
use crate::command;

/// CPU of servers.
pub const SERVER_CPU: usize = 0;
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
    command.args(["serve", "--arch", architecture, "--cpus", &SERVER_CPU.to_string()]);
    command.args(["--listen", &target.to_string()]).args(flags);
    command
}

/// Returns a command that runs a program on one CPU.
pub fn on_cpu(cpu: usize, program: impl AsRef<OsStr>) -> Command {
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

/// Returns the result of `run`, and the CPU time that a process uses meanwhile: in nanoseconds, and as a share of one CPU.
pub fn cpu_during<T>(process: &Child, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64, f64)> {
    let (started, before_ns) = (Instant::now(), cpu_ns(process)?);
    let result = run()?;
    let elapsed_ns = started.elapsed().as_nanos() as f64;
    let used_ns = (cpu_ns(process)? - before_ns) as f64;
    Ok((result, used_ns, used_ns / elapsed_ns))
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

/// The statuses with a result of commands that measure: done, and no trial is valid.
pub const MEASURED: &[i32] = &[0, 3];

/// Runs a command with its messages on the terminal, and returns its output. Any other status is an error.
pub fn printed(command: &mut Command, statuses: &[i32]) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.code().is_some_and(|code| statuses.contains(&code)), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command of muxbench that prints JSON, with a temporary folder for its results, and returns the JSON.
pub fn answer<T: DeserializeOwned>(command: &mut Command, statuses: &[i32]) -> anyhow::Result<T> {
    let folder = tempfile::tempdir().context("cannot create a folder for a run")?;
    let text = printed(command.arg("--output").arg(folder.path().join("run")), statuses)?;
    serde_json::from_str(&text).with_context(|| format!("{command:?}"))
}

/// Returns the number at this path.
pub fn number(value: &Value, path: &str) -> anyhow::Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {value}"))
}

/// Runs a command that prints the JSON of `compare`, and returns the comparisons.
pub fn comparisons<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<Vec<T>> {
    #[derive(Deserialize)]
    struct Output<T> {
        summary: Summary<T>,
    }
    #[derive(Deserialize)]
    struct Summary<T> {
        comparisons: Vec<T>,
    }
    let output: Output<T> = answer(command, MEASURED)?;
    Ok(output.summary.comparisons)
}

/// Runs a command that prints the JSON of `compare`, and returns the only comparison.
pub fn comparison<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    comparisons(command)?.pop().context("no comparison")
}

/// Returns `compare` of one architecture, with one repeat of 4 s.
pub fn compare_once(binary: &Path, architecture: &str, connections: u32) -> Command {
    let mut command = Command::new(binary);
    command.args(["compare", "--arch", architecture, "--connections", &connections.to_string(), "--repeats", "1"]);
    command.args(["--ramp", "500ms", "--warm-up", "500ms", "--measure", "4s", "--json", "--quiet"]);
    command.args(["--server-cpus", &SERVER_CPU.to_string(), "--client-cpus", &CLIENT_CPU.to_string()]);
    command
}

/// Runs the command of [`compare_once`], and returns the row of its architecture.
pub fn only_row(mut command: Command) -> anyhow::Result<Value> {
    let mut comparison: Value = comparison(&mut command)?;
    let row = comparison["rows"][0].take();
    ensure!(row["verdict"] != "failed", "{command:?}: {}", row["reasons"]);
    Ok(row)
}

/// Builds muxbench in release mode and returns its path.
pub fn muxbench() -> anyhow::Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.args(["build", "--release", "--quiet", "--package", "muxbench", "--message-format", "json"]);
    printed(cargo.current_dir(root()), &[0])
        .context("muxbench does not build")?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .find(|path| path.ends_with("muxbench"))
        .context("cargo names no program muxbench")
}

/// Returns the command that runs an example of a crate, in release mode.
pub fn example(package: &str, name: &str) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["run", "--quiet", "--release", "--package", package, "--example", name, "--"]).current_dir(root());
    cargo
}

/// Builds the C reference server and returns its path.
pub fn reference() -> anyhow::Result<PathBuf> {
    let binary = root().join("target/refserver");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-o"]).arg(&binary).arg(root().join("xtask/reference/refserver.c"));
    command::run(&mut cc).context("the reference server does not build; it needs a C compiler")?;
    Ok(binary)
}
