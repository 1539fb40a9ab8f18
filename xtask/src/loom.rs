//! Models of what threads hand each other, by loom: every order in which they may come, and every value that a load may see.

use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use xtask::root;

/// Crates with models, which are tests in modules of the name `models`. Without features: runtimes have models of their own
/// behind the same flag.
const CRATES: [&str; 2] = ["muxbench-server", "muxbench-load"];

/// Runs them all, in a build folder of their own: the flag would have everything else built anew.
///
/// # Errors
/// When one finds an order in which something is lost, or there is none.
pub fn run() -> anyhow::Result<()> {
    for package in CRATES {
        let arguments = ["test", "--locked", "--package", package, "--lib", "--no-default-features", "models::"];
        let step = format!("RUSTFLAGS=\"--cfg loom\" CARGO_TARGET_DIR=target/loom cargo {}", arguments.join(" "));
        println!("== {step}");
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(root())
            .env("CARGO_TARGET_DIR", root().join("target/loom"))
            .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1floom")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run `{step}`"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        print!("{said}");
        if !output.status.success() {
            bail!("`{step}` failed ({}); LOOM_LOG=trace LOOM_LOCATION=1 tell in which order", output.status);
        }
        ensure!(!said.contains("ok. 0 passed"), "`{step}` ran nothing; where are the modules `models`?");
    }
    Ok(())
}
