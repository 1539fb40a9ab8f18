//! Processes that benches and the soak start, and their CPUs.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

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
