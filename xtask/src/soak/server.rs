//! One server under test, and what its processes have.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// A server's threads have all begun when nothing changes for so long.
const BEGINS: Duration = Duration::from_secs(2);
/// How long what clients leave may stay with a server after them.
const SETTLES: Duration = Duration::from_secs(60);
/// How long threads are waited for that may be just ending: there can be more than before, for some are made when needed.
const ENDS: Duration = Duration::from_secs(2);

/// What a server's processes have, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory that no file backs.
    pub memory_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
}

impl Held {
    /// By a process and all that came of it.
    fn by(pid: u32) -> Self {
        let mut held = Self::default();
        let mut family = vec![pid];
        while let Some(process) = family.pop() {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let number = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
            };
            // One that has just ended has none.
            held.processes += u64::from(!status.is_empty());
            held.memory_bytes += (number("RssAnon") + number("RssShmem")) << 10;
            held.threads += number("Threads");
            held.descriptors += fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count) as u64;
            for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
        held
    }
}

/// It; killed when dropped.
pub struct Server {
    /// Architecture and service.
    pub name: String,
    /// The service's name.
    pub service: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it had after each of its turns, and when that was.
    pub samples: Vec<(Duration, Held)>,
    process: Child,
    /// Descriptors before its first client.
    descriptors: u64,
}

impl Server {
    /// Starts it; what cannot be built says why.
    ///
    /// # Errors
    /// When the program cannot be run, or says something else than where it listens.
    pub fn start(binary: &Path, architecture: &str, service: &str) -> anyhow::Result<Result<Self, String>> {
        let mut command = Command::new(binary);
        command.args(["serve", "--json", "--arch", architecture, "--service", service]);
        // What is set aside once, and has no pages before it is used, is all in use within a few turns.
        command.args(["--connections-max", "1000", "--memory", "8MiB"]);
        // A Ctrl-C at the terminal is for us; it ends with us (`serve` sees to that).
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        let mut lines = BufReader::new(process.stdout.take().context("standard output is piped")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let mut complaints = process.stderr.take().context("standard error is piped")?;
        if line.is_empty() {
            let said = std::io::read_to_string(complaints)?;
            process.wait()?;
            return Ok(Err(said.trim().to_owned()));
        }
        // The rest is nobody's business, and fills no pipe.
        thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        thread::spawn(move || std::io::copy(&mut complaints, &mut std::io::stderr()));
        let ready: serde_json::Value = serde_json::from_str(&line).with_context(|| format!("serve says `{line}`"))?;
        let address = ready["address"].as_str().and_then(|address| address.parse().ok());
        let pid = process.id();
        Ok(Ok(Self {
            name: format!("{architecture} {service}"),
            service: service.to_owned(),
            address: address.with_context(|| format!("serve does not say where it listens: {line}"))?,
            samples: Vec::new(),
            process,
            descriptors: settled(pid),
        }))
    }

    /// Waits until all clients' descriptors are closed, and takes a sample.
    ///
    /// # Errors
    /// When it has ended, or keeps descriptors that it had not before its first client.
    pub fn look(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        let held = loop {
            ensure!(!self.has_ended(), "the server ended");
            let held = Held::by(self.process.id());
            let is_as_before = self.samples.last().is_none_or(|(_, before)| held.threads <= before.threads);
            if held.descriptors <= self.descriptors && (is_as_before || started.elapsed() > ENDS) {
                break held;
            }
            if started.elapsed() > SETTLES {
                self.samples.push((elapsed, held));
                let kept = held.descriptors - self.descriptors;
                ensure!(kept == 0, "{kept} descriptors are kept {SETTLES:?} after the last client");
            }
            thread::sleep(Duration::from_millis(20));
        };
        self.samples.push((elapsed, held));
        Ok(())
    }

    /// Whether its process is gone.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Its last sample.
    pub fn line(&self) -> String {
        let held = self.samples.last().map(|(_, held)| *held).unwrap_or_default();
        let Held { memory_bytes, descriptors, threads, processes } = held;
        let kib = memory_bytes >> 10;
        format!("{}: {kib} KiB, {descriptors} descriptors, {threads} threads, {processes} processes;", self.name)
    }
}

/// Descriptors of a server that has said where it listens, once they are the same for a while: on a busy machine its threads may
/// not yet have begun.
fn settled(pid: u32) -> u64 {
    let (mut descriptors, mut since) = (Held::by(pid).descriptors, Instant::now());
    while since.elapsed() < BEGINS {
        thread::sleep(Duration::from_millis(20));
        let now = Held::by(pid).descriptors;
        if now != descriptors {
            (descriptors, since) = (now, Instant::now());
        }
    }
    descriptors
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
