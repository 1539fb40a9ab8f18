//! External servers that tests run: `examples/servers`, built into `target/servers`.

use std::path::{Path, PathBuf};
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
    ("cc", "--version", "gcc", "install a C compiler"),
    ("pkg-config", "--version", "pkg-config", "install pkg-config"),
    ("pkg-config", "libevent", "libevent-dev", "install libevent 2.1 (https://libevent.org)"),
    ("pkg-config", "libuv", "libuv1-dev", "install libuv 1.44 (https://libuv.org)"),
];

/// Builds `target/servers` if necessary and returns this folder.
pub fn prepare() -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    let sources = root().join("examples/servers");
    let inputs =
        ["go/go.mod", "go/main.go", "java/Server.java", "c/libevent.c", "c/libuv.c"].map(|file| sources.join(file));
    command::build_once(
        "servers",
        "built",
        &inputs,
        |_| true,
        |folder| {
            go(&sources.join("go"), &folder.join("go"))?;
            for (name, library, needs) in [("libevent", "-levent", "libevent 2.1"), ("libuv", "-luv", "libuv 1.44")] {
                let mut cc = Command::new("cc");
                cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(folder.join(name));
                cc.arg(sources.join(format!("c/{name}.c"))).arg(library);
                command::run(&mut cc)
                    .with_context(|| format!("examples/servers/c/{name}.c does not compile; it needs {needs}"))?;
            }
            let mut javac = Command::new("javac");
            javac.args(["-Xlint:all", "-Werror", "-d"]).arg(folder.join("java")).arg(sources.join("java/Server.java"));
            command::run(&mut javac).context("examples/servers/java does not compile; it needs Java 17 or newer")
        },
    )
}

/// Builds the server with the installed Go. Without `GOTOOLCHAIN`, Go might download another version.
fn go(source: &Path, binary: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.env("GOTOOLCHAIN", "local").current_dir(source).args(["build", "-o"]).arg(binary).arg(".");
    command::run(&mut go).context("examples/servers/go does not compile; it needs Go 1.19 or newer")
}
