//! Links the program for FreeBSD and macOS, and type-checks server and client for musl, and the server for illumos.
//! `cargo zigbuild` uses zig as C compiler and linker; the tests' Python environment has both.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::root;

use crate::command;

const SERVER: &[&str] = &["--package", "muxbench-server"];
const BOTH: &[&str] = &["--package", "muxbench-server", "--package", "muxbench-load"];

/// Targets in the names of rustc, the crates with system calls that are checked, and whether to link the program too.
const TARGETS: [(&str, &[&str], bool); 5] = [
    // The programs in packages.
    ("x86_64-unknown-linux-musl", BOTH, false),
    ("x86_64-unknown-freebsd", BOTH, true),
    ("aarch64-apple-darwin", BOTH, true),
    ("x86_64-apple-darwin", BOTH, false),
    // Has the mechanisms of maharjan2012 and welsh2001: event ports and /dev/poll.
    ("x86_64-unknown-illumos", SERVER, false),
];

/// Checks the crates with system calls for every target, and links the program for some, with a Python environment's tools.
pub fn link(interpreter: &Path) -> anyhow::Result<()> {
    let tools = tools(interpreter)?;
    for (target, crates, links) in TARGETS {
        add(target)?;
        // TLS contains C code, except in the server for illumos: zig has no compiler for it.
        let zigbuild = || Command::new(tools.join("cargo-zigbuild"));
        let mut check = if crates == BOTH { zigbuild() } else { command::cargo() };
        step(check.args(["check", "--tests", "--locked", "--target", target]).args(crates).current_dir(root()), tools)?;
        if links {
            let mut build = zigbuild();
            build.args(["zigbuild", "--locked", "--target", target, "--package", "muxbench"]);
            step(build.current_dir(root()), tools)?;
        }
    }
    Ok(())
}

/// Returns the folder of the programs that a Python environment has.
pub fn tools(interpreter: &Path) -> anyhow::Result<&Path> {
    interpreter.parent().context("the interpreter is in a folder")
}

/// Adds the standard library for a target. `rustup` downloads nothing if it is installed.
pub fn add(target: &str) -> anyhow::Result<()> {
    let mut rustup = Command::new("rustup");
    command::run(rustup.args(["target", "add", target]).current_dir(root()))
        .with_context(|| format!("install the standard library for {target}: `rustup target add {target}`"))
}

/// Runs a command that compiles, with a separate build folder, because in `target` these flags would rebuild every crate.
pub fn step(command: &mut Command, tools: &Path) -> anyhow::Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [tools.to_owned()].into_iter().chain(env::split_paths(&path));
    command
        .env("PATH", env::join_paths(folders).context("cannot extend PATH")?)
        .env("CARGO_TARGET_DIR", folder())
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // `xtask/macos` replaces the frameworks of Apple's SDK.
        .env("CARGO_ENCODED_RUSTFLAGS", format!("-Dwarnings\x1f-Lframework={}", root().join("xtask/macos").display()));
    let remedy = "; to run it by hand, set CARGO_TARGET_DIR=target/cross, RUSTFLAGS=\"-L framework=$PWD/xtask/macos\" and \
                  PATH=$PWD/target/python/bin:$PATH";
    command::step(command, remedy)
}

pub fn folder() -> PathBuf {
    root().join("target/cross")
}
