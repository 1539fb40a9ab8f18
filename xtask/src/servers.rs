//! Somebody else's servers that tests run: those of `examples/servers`, built into `target/servers` when they are missing or
//! their sources have changed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::debian::{self, Tool, said};
use xtask::root;

/// The variable that tells tests where the built servers are.
pub const VARIABLE: &str = "MUXBENCH_SERVERS";

/// What builds or runs a server: the command that shows it is there, its package, and what to do on another system.
const TOOLS: &[Tool] = &[
    ("go", "version", "golang-go", "install Go 1.19 or newer (https://go.dev/dl)"),
    ("javac", "-version", "default-jdk-headless", "install a JDK of Java 17 or newer"),
    ("java", "-version", "default-jdk-headless", "install a JDK of Java 17 or newer"),
    ("python3", "--version", "python3", "install Python 3.9 or newer"),
];

const SOURCES: &[&str] = &["go/go.mod", "go/main.go", "java/Server.java"];

/// Builds the servers unless they are there, and gives their folder.
///
/// # Errors
/// When a compiler is missing and cannot be installed, or does not compile: why, and what to do.
pub fn prepare() -> anyhow::Result<PathBuf> {
    let (sources, folder) = (root().join("examples/servers"), root().join("target/servers"));
    fs::create_dir_all(&folder).context("cannot make target/servers")?;
    // Two test commands at once would write the same files.
    let lock = File::create(root().join("target/servers.lock")).context("cannot make target/servers.lock")?;
    lock.lock().context("cannot lock target/servers.lock")?;
    debian::require(TOOLS)?;
    // Written last: with it, both are built.
    let mark = folder.join("built");
    let mut made_of = String::new();
    for source in SOURCES {
        let path = sources.join(source);
        made_of += &fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    }
    if fs::read_to_string(&mark).is_ok_and(|of| of == made_of) {
        return Ok(folder);
    }
    eprintln!("== building examples/servers into target/servers");
    go(&sources.join("go"), &folder.join("go"))?;
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all", "-Werror", "-d"]).arg(folder.join("java")).arg(sources.join("java/Server.java"));
    said(&mut javac).context("examples/servers/java does not compile; it is for Java 17 or newer")?;
    fs::write(&mark, made_of).with_context(|| mark.display().to_string())?;
    Ok(folder)
}

/// With the Go that is there: it would fetch another by itself.
fn go(source: &Path, binary: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.env("GOTOOLCHAIN", "local").current_dir(source);
    said(go.args(["build", "-o"]).arg(binary).arg("."))
        .context("examples/servers/go does not compile; it is for Go 1.19 or newer")
}
