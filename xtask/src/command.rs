//! Execution of other programs, and folders that they build.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, anyhow, bail, ensure};

use crate::{read, root, write};

/// Returns `cargo`.
pub fn cargo() -> Command {
    clean(env!("CARGO"))
}

/// Returns a program without the variables of this package. With them, build scripts that read them would run again, and their
/// dependents would compile again.
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
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
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{}`", line(command)))?;
    ensure!(status.success(), "`{}` failed ({status})", line(command));
    Ok(())
}

/// Prints a command and runs it, with its output on the terminal; an error ends with `remedy`.
pub fn step(command: &mut Command, remedy: &str) -> anyhow::Result<()> {
    println!("== {}", line(command));
    show(command).map_err(|error| anyhow!("{error:#}{remedy}"))
}

/// The name of a command's program, and its arguments.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [program].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Creates the folder `target/NAME` if necessary, and locks it, because test commands must not build it at the same time.
pub fn locked_folder(name: &str) -> anyhow::Result<(File, PathBuf)> {
    let folder = root().join("target").join(name);
    let lock = folder.with_extension("lock");
    let locked = || {
        fs::create_dir_all(&folder)?;
        let file = File::create(&lock)?;
        file.lock().map(|()| file)
    };
    let file = locked().with_context(|| format!("cannot lock {}", lock.display()))?;
    Ok((file, folder))
}

/// Builds the folder `target/NAME`, unless it `is_intact` and its file `mark` contains the text of the current `inputs`.
pub fn build_once(
    name: &str,
    mark: &str,
    inputs: &[PathBuf],
    is_intact: impl FnOnce(&Path) -> bool,
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let (_lock, folder) = locked_folder(name)?;
    let built_from = inputs.iter().map(|input| read(input)).collect::<anyhow::Result<String>>()?;
    // The mark is written last, so its presence shows a complete folder.
    let mark = folder.join(mark);
    if fs::read_to_string(&mark).is_ok_and(|before| before == built_from) && is_intact(&folder) {
        return Ok(folder);
    }
    eprintln!("== preparing target/{name}");
    build(&folder)?;
    write(&mark, built_from)?;
    Ok(folder)
}
