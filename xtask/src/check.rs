//! Everything that has to pass before a change is merged.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::fs::Mode;
use xtask::root;

use crate::{audit, browser, cross, loom, peers, python, servers};

/// Runs all steps in order; the first that fails ends it.
///
/// # Errors
/// Which step failed, and how to run it alone.
pub fn all() -> anyhow::Result<()> {
    // What tests write is for others to read.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"], &[])?;
    audit::run(false)?;
    let prepared = [
        (python::VARIABLE, python::prepare()?),
        (servers::VARIABLE, servers::prepare()?),
        (peers::VARIABLE, peers::prepare()?),
        (browser::VARIABLE, browser::prepare()?),
    ];
    cargo(&["test", "--workspace", "--all-features", "--locked"], &prepared)?;
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"], &[])?;
    loom::run()?;
    cross::link(&prepared[0].1)
}

fn cargo(arguments: &[&str], prepared: &[(&str, PathBuf)]) -> anyhow::Result<()> {
    let step = format!("cargo {}", arguments.join(" "));
    println!("== {step}");
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null())
        .env("RUSTDOCFLAGS", "-D warnings")
        // A changed text is to fail, not to be written down as right.
        .env("INSTA_UPDATE", "no")
        .envs(prepared.iter().map(|(variable, path)| (variable, path)))
        .status()
        .with_context(|| format!("cannot run `{step}`"))?;
    if !status.success() {
        bail!("`{step}` failed ({status})");
    }
    Ok(())
}
