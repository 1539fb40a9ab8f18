//! The Python environment `target/python`: tools that read results, memcached clients, and the linker for other systems.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::root;

use super::debian::{self, Tool};
use crate::command;

/// `venv` needs `ensurepip`, which Debian's package `python3` lacks.
pub const TOOLS: &[Tool] =
    &[("python3", "-cimport venv, ensurepip", "python3-venv", "install Python 3 with its module venv")];

/// Builds the environment if necessary and returns its interpreter.
pub fn prepare() -> anyhow::Result<PathBuf> {
    let requirements = root().join("xtask/python-requirements.txt");
    let folder = command::build_once(
        "python",
        "requirements.txt",
        std::slice::from_ref(&requirements),
        // Check the interpreter: the Python that the environment links to may have been removed.
        |folder| command::run(Command::new(interpreter(folder)).arg("--version")).is_ok(),
        |folder| build(folder, &requirements),
    )?;
    Ok(interpreter(&folder))
}

fn interpreter(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

fn build(folder: &Path, requirements: &Path) -> anyhow::Result<()> {
    debian::require(TOOLS)?;
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut pip = Command::new(interpreter(folder));
    // The file lists all packages that are needed.
    pip.args(["-m", "pip", "install", "--no-deps", "--quiet", "--disable-pip-version-check", "--requirement"]);
    pip.arg(requirements);
    command::run(&mut pip).with_context(|| {
        format!(
            "cannot install the packages of {} into target/python; check that the Python package index is reachable (`pip config \
             list`), and that it has these versions for this Python",
            requirements.display()
        )
    })
}
