//! Execution of other programs, and folders that they build.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};
use xtask::root;

/// Returns `cargo`, without the variables of this package. With them, build scripts that read them would run again, and their
/// dependents would compile again.
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command silently; an error contains the command's output.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop)
}

/// Runs a command silently, and returns its standard output; an error contains all its output.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    output_of(command, &[0])
}

/// Like [`output`], for a command that may end with any of these statuses.
pub fn output_of(command: &mut Command, statuses: &[i32]) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let Output { status, stdout, stderr } = output;
    if !status.code().is_some_and(|code| statuses.contains(&code)) {
        let text = [stdout, stderr].concat();
        bail!("{program} failed ({status}): {}", String::from_utf8_lossy(&text).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Runs a command with its output on the terminal.
pub fn show(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// Prints the name of a step and runs the step, with its output on the terminal; an error ends with `remedy`.
pub fn step(name: &str, command: &mut Command, remedy: &str) -> anyhow::Result<()> {
    println!("== {name}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{name}`"))?;
    ensure!(status.success(), "`{name}` failed ({status}){remedy}");
    Ok(())
}

/// Returns an error that contains all errors.
pub fn all(outcomes: impl Iterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let failed: Vec<String> = outcomes.filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(failed.is_empty(), failed.join("\n"));
    Ok(())
}

/// Builds the folder `target/NAME`, unless it `is_intact` and its file `mark` contains the text of the current `inputs`.
pub fn build_once(
    name: &str,
    mark: &str,
    inputs: &[PathBuf],
    is_intact: impl FnOnce(&Path) -> bool,
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let folder = root().join("target").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create target/{name}"))?;
    // Test commands must not build the same folder at the same time.
    let lock = root().join("target").join(format!("{name}.lock"));
    let lock_file = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
    lock_file.lock().with_context(|| format!("cannot lock {}", lock.display()))?;
    let mut built_from = String::new();
    for input in inputs {
        built_from += &xtask::read(input)?;
    }
    // The mark is written last, so its presence shows a complete folder.
    let mark = folder.join(mark);
    if fs::read_to_string(&mark).is_ok_and(|before| before == built_from) && is_intact(&folder) {
        return Ok(folder);
    }
    eprintln!("== preparing target/{name}");
    build(&folder)?;
    xtask::write(&mark, built_from)?;
    Ok(folder)
}
