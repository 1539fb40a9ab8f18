//! `cargo xtask test`, which must pass before a change is merged, and longer checks.

pub mod audit;
pub mod cross;
pub mod fuzz;
pub mod loom;
pub mod sanitize;

use std::process::Command;

use anyhow::Context;
use rustix::fs::Mode;
use xtask::root;

use crate::command;
use crate::environment::{self, debian, python};

/// The check that `--fast` runs for each architecture.
const SMOKE: &str = "conformance::each_request_gets_a_whole_response";

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

/// Runs all steps in order and stops at the first failure.
pub fn run(test: &Test) -> anyhow::Result<()> {
    // Let other users read the files that tests write.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    cargo(&["fmt", "--all", "--check"])?;
    if test.fast {
        // Both steps select features like the workspace. For other features, cargo would compile dependencies again.
        step(&mut tests(&["--workspace", "--lib", "--bins", "--test", "style", "--test", "tidy"])?)?;
        let others = ["--exclude", "muxbench-harness", "--exclude", "muxbench-load"];
        return step(tests(&["--workspace"])?.args(others).args(["--test", "it", "--", SMOKE]));
    }
    audit::run(false)?;
    let environment = environment::prepare()?;
    let mut all = tests(&["--workspace"])?;
    all.envs(environment.iter().map(|(variable, path)| (*variable, path)));
    if test.every {
        all.env("MUXBENCH_EVERY", "1");
    }
    step(&mut all)?;
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"])?;
    if test.every {
        loom::run()?;
        cross::link(&python::prepare()?)?;
    }
    Ok(())
}

/// Returns `cargo test` with these arguments. Clippy compiles the workspace for the tests, so lints need no separate build.
fn tests(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = cargo_command(&["test", "--all-features", "--locked", "--no-fail-fast"]);
    command.args(arguments);
    let clippy =
        debian::find("clippy-driver").context("no clippy-driver in PATH: run `rustup component add clippy`")?;
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    Ok(command)
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings");
    // Fail on changed snapshots instead of accepting them.
    command.env("INSTA_UPDATE", "no");
    command
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    step(&mut cargo_command(arguments))
}

/// Prints the arguments of a cargo command and runs it, with its output on the terminal.
fn step(command: &mut Command) -> anyhow::Result<()> {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    command::step(&format!("cargo {}", arguments.join(" ")), command, "")
}
