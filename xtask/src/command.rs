//! Execution of other programs.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};

/// Runs a command silently.
///
/// # Errors
/// The command's output, if it fails.
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

/// Runs a step of a check with its output on the terminal, after a line that names it.
///
/// # Errors
/// The step and `remedy`, if it fails.
pub fn step(name: &str, command: &mut Command, remedy: &str) -> anyhow::Result<()> {
    println!("== {name}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{name}`"))?;
    ensure!(status.success(), "`{name}` failed ({status}){remedy}");
    Ok(())
}
