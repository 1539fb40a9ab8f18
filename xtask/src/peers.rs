//! Somebody else's clients of the service `kv`, and the server that it speaks like: memcached and the tools of libmemcached.

use std::path::PathBuf;

use anyhow::bail;

use crate::debian::{self, Tool};

/// The variable that tells tests where the commands are.
pub const VARIABLE: &str = "MUXBENCH_PEERS";

/// What there is to run: the command that shows it is there, its package, and what to do on another system.
const TOOLS: &[Tool] = &[
    ("memcached", "-V", "memcached", "install memcached 1.6 (https://memcached.org)"),
    (
        "memcslap",
        "--version",
        "libmemcached-tools",
        "install the tools of libmemcached 1.1 (https://awesomized.github.io/libmemcached)",
    ),
];

/// Those that a tool comes with, whose every call does something.
const BESIDE: &[&str] = &["memcached", "memcslap", "memccapable"];

/// Installs what is missing, and gives the folder in which all of them are.
///
/// # Errors
/// When one is missing and cannot be installed: why, and what to do.
pub fn prepare() -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_all = |folder: &PathBuf| BESIDE.iter().all(|tool| folder.join(tool).is_file());
    match std::env::split_paths(&path).find(has_all) {
        Some(folder) => Ok(folder),
        None => bail!("no folder of PATH has all of {}; install them into one", BESIDE.join(", ")),
    }
}
