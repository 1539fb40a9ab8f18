//! Test binaries that run side by side. `cargo test` runs one after the other, although most of their tests wait.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use cargo_metadata::Message;

use crate::command;

/// The number of binaries that run at the same time.
const LANES: usize = 3;
/// The number of tests of a binary that run at the same time.
const THREADS: &str = "4";

/// A test binary.
pub struct Binary {
    /// Its crate or its test.
    pub name: String,
    executable: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
}

/// Builds the tests of a `cargo test` command, with its messages on the terminal, and returns their binaries.
pub fn build(command: &mut Command) -> anyhow::Result<Vec<Binary>> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut cargo = command.spawn().context("cannot run cargo")?;
    let mut binaries = Vec::new();
    for message in Message::parse_stream(io::BufReader::new(cargo.stdout.take().expect("a pipe"))) {
        if let Message::CompilerArtifact(made) = message.context("cannot read the messages of cargo")?
            && made.profile.test
            && let (Some(executable), Some(folder)) = (made.executable, made.manifest_path.parent())
        {
            binaries.push(Binary { name: made.target.name, executable: executable.into(), folder: folder.into() });
        }
    }
    anyhow::ensure!(cargo.wait()?.success(), "the tests do not compile");
    // Tests of the largest take longest, so they start first.
    binaries.sort_by_key(|it| Reverse(it.executable.metadata().map_or(0, |file| file.len())));
    Ok(binaries)
}

/// Runs each binary with the arguments that `arguments` returns for it. Prints the output of each when it has ended.
pub fn run(binaries: Vec<Binary>, arguments: impl Fn(&Binary) -> &'static [&'static str] + Sync) -> anyhow::Result<()> {
    let left = Mutex::new(binaries.into_iter());
    let failed = Mutex::new(Vec::new());
    let lane = || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(binary) = next() {
            if let Err(error) = run_one(&binary, arguments(&binary)) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(Err(error));
            }
        }
    };
    thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
    command::all(failed.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter())
}

fn run_one(binary: &Binary, arguments: &[&str]) -> anyhow::Result<()> {
    let Binary { name, executable, folder } = binary;
    let mut command = Command::new(executable);
    command.args(arguments).current_dir(folder).env("RUST_TEST_THREADS", THREADS).env("INSTA_UPDATE", "no");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run the tests of {name}"))?;
    let mut out = io::stdout().lock();
    writeln!(out, "== tests of {name}")?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)?;
    anyhow::ensure!(output.status.success(), "the tests of {name} failed ({})", output.status);
    Ok(())
}
