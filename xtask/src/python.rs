//! The Python environment: the public tools that tests read results with, clients of memcached's, and what links for other
//! systems. It is `target/python`, made when it is missing or its requirements have changed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::debian::{self, said};
use xtask::root;

/// The variable that tells tests where the interpreter is.
pub const VARIABLE: &str = "MUXBENCH_PYTHON";

/// Makes the environment unless it is there, and gives its interpreter.
///
/// # Errors
/// When Python, its module `venv` or a package is missing and cannot be installed: why, and what to do.
pub fn prepare() -> anyhow::Result<PathBuf> {
    let requirements_path = root().join("xtask/python-requirements.txt");
    let place = || requirements_path.display().to_string();
    let requirements = fs::read_to_string(&requirements_path).with_context(place)?;
    let folder = root().join("target/python");
    fs::create_dir_all(root().join("target")).context("cannot make target/")?;
    // Two test commands at once would take each other's environment apart.
    let lock = File::create(root().join("target/python.lock")).context("cannot make target/python.lock")?;
    lock.lock().context("cannot lock target/python.lock")?;

    let interpreter = folder.join("bin/python");
    // Written last: with it, the environment is whole.
    let mark = folder.join("requirements.txt");
    if fs::read_to_string(&mark).is_ok_and(|made_for| made_for == requirements) && works(&interpreter) {
        return Ok(interpreter);
    }
    eprintln!("== preparing target/python (duckdb, polars, hdrhistogram, pymemcache, meta-memcache, pytest, zig)");
    if let Err(error) = make(&folder) {
        eprintln!("python3 -m venv: {error:#}; installing Debian's python3-venv");
        // Debian leaves `venv` out of its python3.
        debian::install("python3-venv", "install Python 3 with its module venv").with_context(|| {
            format!("`python3 -m venv target/python` fails ({error:#}), and python3-venv cannot be installed either")
        })?;
        make(&folder).context("`python3 -m venv target/python` fails with python3-venv installed")?;
    }
    let mut pip = Command::new(&interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    said(pip.arg(&requirements_path)).with_context(|| {
        format!(
            "cannot install the packages of {} into target/python; is the Python package index reachable \
             (see `pip config`), and does this Python ({}) have these versions?",
            requirements_path.display(),
            version(&interpreter)
        )
    })?;
    fs::write(&mark, requirements).with_context(|| mark.display().to_string())?;
    Ok(interpreter)
}

/// Makes an environment that has nothing but pip.
fn make(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    said(Command::new("python3").args(["-m", "venv"]).arg(folder))
}

fn version(interpreter: &Path) -> String {
    Command::new(interpreter)
        .arg("--version")
        .output()
        .map_or_else(|_| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether it starts: the Python that it was made of may be gone.
fn works(interpreter: &Path) -> bool {
    Command::new(interpreter).arg("--version").output().is_ok_and(|output| output.status.success())
}
