//! Checks: `cargo xtask test`, which must pass before a change is merged, and longer ones.

pub mod audit;
pub mod cross;
pub mod fuzz;
pub mod loom;
pub mod sanitize;

use std::process::Command;

use rustix::fs::Mode;
use xtask::root;

use crate::command;
use crate::environment::{browser, peers, python, servers};

/// Runs all steps in order and stops at the first failure.
pub fn run() -> anyhow::Result<()> {
    // Let other users read the files that tests write.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])?;
    audit::run(false)?;
    let interpreter = python::prepare()?;
    let mut tests = cargo_command(&["test", "--workspace", "--all-features", "--locked"]);
    tests.env(python::VARIABLE, &interpreter);
    tests.env(servers::VARIABLE, servers::prepare()?);
    tests.env(peers::VARIABLE, peers::prepare()?);
    tests.env(browser::VARIABLE, browser::prepare()?);
    command::step("cargo test --workspace --all-features --locked", &mut tests, "")?;
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"])?;
    loom::run()?;
    cross::link(&interpreter)
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings");
    // Fail on changed snapshots instead of accepting them.
    command.env("INSTA_UPDATE", "no");
    command
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    command::step(&format!("cargo {}", arguments.join(" ")), &mut cargo_command(arguments), "")
}
