//! Processes that benches and the soak start, and their CPUs.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use xtask::root;

use crate::command;

/// CPU of servers.
pub const SERVER_CPU: usize = 0;
/// CPU of clients.
pub const CLIENT_CPU: usize = 1;
/// The children of an earlier server end a moment after their connections. Give them this time, because they would use the CPU of the
/// next server.
const AFTER_SERVER: Duration = Duration::from_millis(50);

/// Waits until a condition holds; returns an error after `time_max`.
pub fn wait_until(
    condition: &str,
    time_max: Duration,
    mut holds: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < time_max, "timeout after {time_max:?}; waited until {condition}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Moves the calling thread to these CPUs.
pub fn pin(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on the CPUs {cpus:?}"))
}

/// A process that is killed when dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command.
pub fn start(command: &mut Command) -> anyhow::Result<Process> {
    command.spawn().map(Process).with_context(|| format!("cannot start {command:?}"))
}

/// Builds muxbench in release mode and returns its path.
pub fn muxbench() -> anyhow::Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.args(["build", "--release", "--quiet", "--package", "muxbench", "--message-format", "json"]);
    command::output(cargo.current_dir(root()))
        .context("muxbench does not build")?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .find(|path| path.ends_with("muxbench"))
        .context("cargo names no program muxbench")
}

/// A running `muxbench serve`, which ends when dropped.
pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
    /// What it has counted when it began to listen.
    pub totals: Value,
    lines: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it listens. Its messages appear on the terminal.
    pub fn start(binary: &Path, architecture: &str, flags: &[impl AsRef<str>]) -> anyhow::Result<Self> {
        thread::sleep(AFTER_SERVER);
        let mut command = Command::new(binary);
        command.args(["serve", "--json", "--arch", architecture]).args(flags.iter().map(AsRef::as_ref));
        // Shield the server from a Ctrl-C at the terminal; `serve` ends with its parent.
        let mut process = start(command.process_group(0).stdout(Stdio::piped()))?;
        let mut lines = BufReader::new(process.0.stdout.take().context("standard output is piped")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let mut ready: Value = serde_json::from_str(&line).with_context(|| format!("{command:?} prints `{line}`"))?;
        let address = ready["address"].as_str().and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("{command:?} prints no address: {line}"))?;
        Ok(Self { process, address, totals: ready["snapshot"]["totals"].take(), lines })
    }

    /// Stops the server, and returns what it has counted.
    pub fn stop(mut self) -> anyhow::Result<Value> {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM)?;
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest)?;
        let last = rest.lines().last().context("the server printed no totals")?;
        let mut last: Value = serde_json::from_str(last)?;
        ensure!(last["snapshot"]["totals"].is_object(), "no totals in {last}");
        Ok(last["snapshot"]["totals"].take())
    }
}

/// Returns an address of this host on which nothing listens.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Starts another server and waits until it listens.
pub fn listen(command: &mut Command, address: SocketAddr) -> anyhow::Result<Process> {
    thread::sleep(AFTER_SERVER);
    let process = start(command.stdout(Stdio::null()))?;
    let condition = format!("{command:?} listens");
    wait_until(&condition, Duration::from_secs(5), || Ok(TcpStream::connect(address).is_ok()))?;
    Ok(process)
}

/// Returns a command that runs a program on one CPU.
pub fn on_cpu(cpu: usize, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program.as_ref());
    command
}

/// Returns the CPU time of a process's threads, in nanoseconds.
pub fn cpu_ns(process: &Process) -> anyhow::Result<u64> {
    let mut total_ns = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", process.0.id())).context("the process ended")? {
        let path = thread?.path().join("schedstat");
        let line = xtask::read(&path)?;
        let first = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        total_ns += first.with_context(|| format!("{}: `{line}`", path.display()))?;
    }
    Ok(total_ns)
}

/// Returns the processes that a process has started and that still run.
pub fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>()).collect()
}
