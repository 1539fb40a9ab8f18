//! A server and the resources of its processes.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use crate::process::{self, children};

/// A server has started when its number of descriptors has been stable for this time.
const STARTUP: Duration = Duration::from_secs(2);
/// Time for a server to release the resources of its clients.
const RELEASE: Duration = Duration::from_secs(60);
/// Time for threads to end. After this time, more threads than in the last sample are accepted: some start on demand.
const THREAD_END: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Sums over a server's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory not backed by a file.
    pub memory_bytes: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub processes: u64,
}

impl Resources {
    /// Reads the resources of a process and its descendants.
    fn read(pid: u32) -> Self {
        let mut held = Self::default();
        let mut family = vec![pid];
        while let Some(process) = family.pop() {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let number = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
            };
            // A process that has just ended has an empty status.
            held.processes += u64::from(!status.is_empty());
            held.memory_bytes += (number("RssAnon") + number("RssShmem")) << 10;
            held.threads += number("Threads");
            held.descriptors += fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count) as u64;
            family.extend(children(process));
        }
        held
    }
}

pub struct Server {
    /// Architecture and service.
    pub name: String,
    pub service: String,
    /// Resources after each round, with their times.
    pub samples: Vec<(Duration, Resources)>,
    pub served: process::Server,
    /// Number of descriptors before the first client.
    descriptors: u64,
}

impl Server {
    /// Starts a server. An error may mean that the architecture cannot provide the service.
    pub fn start(binary: &Path, architecture: &str, service: &str) -> anyhow::Result<Self> {
        // Low limits, so that all preallocated memory is in use after a few rounds.
        let flags = ["--service", service, "--connections-max", "1000", "--memory", "8MiB"];
        let served = process::Server::start(binary, architecture, &flags)?;
        Ok(Self {
            name: format!("{architecture} {service}"),
            service: service.to_owned(),
            samples: Vec::new(),
            descriptors: settled(served.process.0.id()),
            served,
        })
    }

    /// Waits until the descriptors of all clients are closed, and takes a sample.
    pub fn sample(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        let held = loop {
            ensure!(!self.has_ended(), "the server ended");
            let held = Resources::read(self.served.process.0.id());
            let are_threads_gone = self.samples.last().is_none_or(|(_, before)| held.threads <= before.threads);
            if held.descriptors <= self.descriptors && (are_threads_gone || started.elapsed() > THREAD_END) {
                break held;
            }
            if started.elapsed() > RELEASE {
                self.samples.push((elapsed, held));
                let kept = held.descriptors - self.descriptors;
                bail!("{kept} descriptors are still open {RELEASE:?} after the last client");
            }
            thread::sleep(POLL_INTERVAL);
        };
        self.samples.push((elapsed, held));
        Ok(())
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.served.process.0.try_wait(), Ok(None))
    }

    pub fn summary(&self) -> String {
        let held = self.samples.last().map(|(_, held)| *held).unwrap_or_default();
        let Resources { memory_bytes, descriptors, threads, processes } = held;
        let kib = memory_bytes >> 10;
        format!("{}: {kib} KiB, {descriptors} descriptors, {threads} threads, {processes} processes;", self.name)
    }
}

/// Returns the number of descriptors once stable, because a server may print its address before all threads run.
fn settled(pid: u32) -> u64 {
    let (mut descriptors, mut since) = (Resources::read(pid).descriptors, Instant::now());
    while since.elapsed() < STARTUP {
        thread::sleep(POLL_INTERVAL);
        let now = Resources::read(pid).descriptors;
        if now != descriptors {
            (descriptors, since) = (now, Instant::now());
        }
    }
    descriptors
}
