//! `cargo xtask test`, which must pass before a change is merged, and longer checks.

pub mod audit;
mod binaries;
pub mod cross;
pub mod fuzz;
pub mod lighthouse;
pub mod loom;
pub mod sanitize;

use std::env;
use std::io::{self, Seek, Write};
use std::iter;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::Mode;
use xtask::root;

use crate::command;
use crate::environment::{self, debian, python};

/// The check that `--fast` runs for each architecture.
const SMOKE: &str = "conformance::each_request_gets_a_whole_response";

// Each command selects all packages. For the features of fewer, cargo would compile their dependencies again.

/// The unit tests of all packages.
const UNITS: &[&str] = &["--workspace", "--lib", "--bins"];
/// The tests of `--fast`.
const FAST: &[&str] = &["--workspace", "--lib", "--bins", "--test=it", "--test=style", "--test=tidy"];
/// The integration tests of the tool.
const TOOL: &[&str] = &["--workspace", "--test=it"];
/// The integration tests of verdicts.
const VERDICTS: &[&str] = &["--workspace", "--test=verdicts"];
/// The other integration tests.
const OTHERS: &[&str] = &[
    "--workspace",
    "--test=client",
    "--test=server",
    "--test=error_rates",
    "--test=replay",
    "--test=style",
    "--test=tidy",
];
const DOCUMENTATION: &[&str] =
    &["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"];

/// The time for the first of two steps to lock the build folder.
const HEAD_START: Duration = Duration::from_secs(5);

/// Format, lints, tests, documentation: must pass before a change is merged
#[derive(clap::Args, Debug)]
pub struct Test {
    /// Only format, lints, unit tests and one check of each architecture; needs no other programs
    #[arg(long, conflicts_with = "every")]
    fast: bool,
    /// Also every model with every mechanism, loom models, and links for other systems
    #[arg(long)]
    every: bool,
}

/// Runs all steps. Most tests wait, so several steps run at the same time.
pub fn run(test: &Test) -> anyhow::Result<()> {
    // Let other users read the files that tests write.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    if test.fast {
        let built = binaries::build(&mut tests(FAST)?)?;
        return binaries::run(built, |binary| if binary.name == "it" { &[SMOKE] } else { &[] });
    }
    audit::run(false)?;
    let environment = thread::scope(|scope| {
        let environment = scope.spawn(environment::prepare);
        // Build the longest tests first, so that they run while cargo builds the others.
        step(&mut tests(&[TOOL, &["--no-run"]].concat())?)?;
        environment.join().expect("no preparation panics")
    })?;
    let mut tool = tests(&[TOOL, &["--", "--skip=alone::"]].concat())?;
    tool.envs(environment.iter().map(|(variable, path)| (*variable, path)));
    let mut others = tests(OTHERS)?;
    // These tests only wait, for most of their time.
    others.env("RUST_TEST_THREADS", "6");
    if test.every {
        for command in [&mut tool, &mut others] {
            command.env("MUXBENCH_EVERY", "1");
        }
    }
    let tested = step_beside(&mut tool, &mut [tests(UNITS)?, others, cargo(DOCUMENTATION)]);
    // These tests run alone, because others would take CPU time from their clients and servers.
    let mut alone = [tests(&[TOOL, &["--", "alone::"]].concat())?, tests(VERDICTS)?];
    command::all(iter::once(tested).chain(alone.iter_mut().map(step)))?;
    if test.every {
        loom::run()?;
        cross::link(&python::prepare()?)?;
    }
    Ok(())
}

/// Returns `cargo test` with these arguments. Clippy compiles the workspace for the tests, so lints need no separate build.
fn tests(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = cargo(&["test", "--all-features", "--locked", "--no-fail-fast"]);
    command.args(arguments);
    let clippy =
        debian::find("clippy-driver").context("no clippy-driver in PATH: run `rustup component add clippy`")?;
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    Ok(command)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings");
    // Fail on changed snapshots instead of accepting them.
    command.env("INSTA_UPDATE", "no");
    // Build scripts that read the variables of this package would run again, and their dependents compile again.
    for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Prints the arguments of a cargo command and runs it, with its output on the terminal.
fn step(command: &mut Command) -> anyhow::Result<()> {
    println!("== {}", name(command));
    command::succeed(&name(command), command, "")
}

/// Runs the commands of `beside` one after the other while `first` runs. Prints their output after that of `first`.
fn step_beside(first: &mut Command, beside: &mut [Command]) -> anyhow::Result<()> {
    let mut output = tempfile::tempfile().context("cannot create a temporary file")?;
    let run = |command: &mut Command| {
        writeln!(&output, "== {}", name(command))?;
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        command::succeed(&name(command), command, "")
    };
    let (first, others) = thread::scope(|scope| {
        let others = scope.spawn(|| {
            thread::sleep(HEAD_START);
            beside.iter_mut().map(run).collect::<Vec<_>>()
        });
        (step(first), others.join().expect("no step panics"))
    });
    output.rewind()?;
    io::copy(&mut output, &mut io::stdout())?;
    command::all(iter::once(first).chain(others))
}

fn name(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    format!("cargo {}", arguments.join(" "))
}
