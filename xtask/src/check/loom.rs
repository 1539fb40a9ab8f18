//! Interleavings of hand-offs between threads: every order of events with few preemptions, every value that a load may return.

use anyhow::{Context, ensure};
use xtask::root;

use crate::command;

/// Crates with tests in modules named `interleavings`. They are built without features, because async
/// runtimes have their own, which the same flag (`--cfg loom`) would enable.
const CRATES: [&str; 2] = ["muxbench-server", "muxbench-load"];

/// Runs all interleavings in `target/loom`, because in `target` the flag would rebuild every crate.
pub fn run() -> anyhow::Result<()> {
    for package in CRATES {
        let mut cargo = command::cargo();
        cargo.args(["test", "--locked", "--package", package, "--lib", "--no-default-features", "interleavings::"]);
        cargo.current_dir(root()).env("CARGO_TARGET_DIR", root().join("target/loom"));
        cargo.env("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1floom").env("CARGO_PROFILE_DEV_DEBUG", "0");
        println!("== interleavings of {package}, with RUSTFLAGS=\"--cfg loom\" CARGO_TARGET_DIR=target/loom");
        let text =
            command::output(&mut cargo).context("set LOOM_LOG=trace LOOM_LOCATION=1 to see the order of events")?;
        print!("{text}");
        ensure!(!text.contains("ok. 0 passed"), "{package} has no interleavings; check its modules `interleavings`");
    }
    Ok(())
}
