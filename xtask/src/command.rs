//! Execution of other programs.

use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Runs a command silently; an error has its output.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let Output { status, stdout, stderr } = output;
    if !status.success() {
        let text = [stdout, stderr].concat();
        bail!("{program} failed ({status}): {}", String::from_utf8_lossy(&text).trim());
    }
    Ok(())
}

/// Runs a step of a check with its output on the terminal, after a line that names it; an error ends with `remedy`.
pub fn step(name: &str, command: &mut Command, remedy: &str) -> anyhow::Result<()> {
    println!("== {name}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{name}`"))?;
    ensure!(status.success(), "`{name}` failed ({status}){remedy}");
    Ok(())
}

/// Waits until a condition holds, at most for this time.
pub fn wait_until(
    condition: &str,
    time_max: Duration,
    mut holds: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < time_max, "not within {time_max:?}: {condition}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A process that is killed when dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
