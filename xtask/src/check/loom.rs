//! Interleavings of hand-offs between threads: every order of events with few preemptions, every value that a load may return.

use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use xtask::root;

use crate::command;

/// Crates with tests in modules named `interleavings`. They are built without features, because async
/// runtimes have their own, which the same flag (`--cfg loom`) would enable.
const CRATES: [&str; 2] = ["muxbench-server", "muxbench-load"];

/// Runs all interleavings in `target/loom`, because in `target` the flag would rebuild every crate.
pub fn run() -> anyhow::Result<()> {
    for package in CRATES {
        let arguments = ["test", "--locked", "--package", package, "--lib", "--no-default-features", "interleavings::"];
        let step = format!("RUSTFLAGS=\"--cfg loom\" CARGO_TARGET_DIR=target/loom cargo {}", arguments.join(" "));
        println!("== {step}");
        let output = command::cargo()
            .args(arguments)
            .current_dir(root())
            .env("CARGO_TARGET_DIR", root().join("target/loom"))
            .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1floom")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run `{step}`"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        if !output.status.success() {
            bail!("`{step}` failed ({}); set LOOM_LOG=trace LOOM_LOCATION=1 to see the order of events", output.status);
        }
        ensure!(!text.contains("ok. 0 passed"), "`{step}` ran no tests; check the modules `interleavings`");
    }
    Ok(())
}
