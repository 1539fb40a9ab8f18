//! External servers that tests run: `examples/servers`, built into `target/servers`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use xtask::root;

use super::debian::{self, Tool};
use crate::command;

pub const TOOLS: &[Tool] = &[
    ("go", "version", "golang-go", "install Go 1.19 or newer (https://go.dev/dl)"),
    ("javac", "-version", "default-jdk-headless", "install a JDK of Java 17 or newer"),
    ("java", "-version", "default-jdk-headless", "install a JDK of Java 17 or newer"),
    ("python3", "--version", "python3", "install Python 3.9 or newer"),
    ("make", "--version", "make", "install make"),
    ("cc", "--version", "gcc", "install a C compiler"),
    ("pkg-config", "--version", "pkg-config", "install pkg-config"),
    ("pkg-config", "libevent", "libevent-dev", "install libevent 2.1 (https://libevent.org)"),
    ("pkg-config", "libuv", "libuv1-dev", "install libuv 1.44 (https://libuv.org)"),
];

/// Builds `target/servers` if necessary and returns this folder.
pub fn prepare() -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    let (_lock, folder) = command::locked_folder("servers")?;
    let mut make = Command::new("make");
    make.arg(format!("TO={}", folder.display())).current_dir(root().join("examples/servers"));
    command::run(&mut make).context("examples/servers needs Go 1.19, Java 17, libevent 2.1 and libuv 1.44 or newer")?;
    Ok(folder)
}
