//! Fuzzing of parsers with libFuzzer, guided by code coverage.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use xtask::root;

use crate::command;

/// Searches for input that makes a parser panic; keeps input that reaches new code in target/fuzz, failures in fuzz/artifacts
#[derive(Debug, Args)]
pub struct Fuzz {
    /// Targets [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Inputs for each target
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    executions: u64,
    /// Time limit for each target in seconds, after which it has had fewer inputs; 0 is none
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    time_max: u64,
    /// Sanitizer: `address` also finds memory errors; `none` is several times as fast
    #[arg(long, value_name = "NAME", default_value = "address", value_parser = ["address", "none"])]
    sanitizer: String,
    /// Adds inputs that reach new code to fuzz/corpus
    #[arg(long)]
    keep: bool,
}

/// Targets that need the crates `harness` or `traffic`. The other targets build without them in a tenth of the time.
const HARNESS_TARGETS: [&str; 8] =
    ["architecture", "capture", "experiment", "frame", "record", "samples", "trace", "units"];

/// Fuzzes each target and stops at the first failure.
pub fn run(fuzz: &Fuzz) -> anyhow::Result<()> {
    let corpus = root().join("fuzz/corpus");
    let folders = fs::read_dir(&corpus).with_context(|| format!("cannot read {}", corpus.display()))?;
    let mut all: Vec<_> = folders.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    let targets = if fuzz.targets.is_empty() { &all } else { &fuzz.targets };
    for target in targets {
        ensure!(all.contains(target), "unknown target `{target}`; use one of {}", all.join(", "));
    }
    if command::run(command::cargo().args(["fuzz", "--version"])).is_err() {
        let mut install = command::cargo();
        command::step(install.args(["install", "--locked", "cargo-fuzz"]), "; check that crates.io is reachable")?;
    }
    for target in targets {
        let new = root().join("target/fuzz").join(target);
        fs::create_dir_all(&new).with_context(|| format!("cannot create {}", new.display()))?;
        let limits = [format!("-runs={}", fuzz.executions), format!("-max_total_time={}", fuzz.time_max)];
        let folders = [new, corpus.join(target)];
        // Inputs have at most 8 KiB, like the longest request line. An input that takes 10 s or 2 GiB is a failure.
        let more = ["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-close_fd_mask=1"];
        run_one(target, fuzz, &folders, &[&limits.each_ref().map(String::as_str)[..], &more].concat())?;
        if fuzz.keep {
            // The first folder receives the inputs of the second that reach new code.
            let [new, kept] = folders;
            run_one(target, fuzz, &[kept, new], &["-merge=1", "-max_len=8192"])?;
        }
    }
    Ok(())
}

/// Runs `cargo fuzz` with options of libFuzzer, which prints how many inputs it ran.
fn run_one(target: &str, fuzz: &Fuzz, folders: &[PathBuf], options: &[&str]) -> anyhow::Result<()> {
    let mut cargo = command::cargo();
    cargo.args(["fuzz", "run", "--sanitizer", &fuzz.sanitizer, "fuzz", "--fuzz-dir", "fuzz"]);
    cargo.args(["--target-dir", "target/fuzzing"]);
    cargo.args(if HARNESS_TARGETS.contains(&target) { &[] } else { &["--no-default-features"][..] });
    // RUSTC_BOOTSTRAP makes the stable compiler accept nightly options.
    cargo.args(folders).arg("--").args(options).env("FUZZ_TARGET", target).env("RUSTC_BOOTSTRAP", "1");
    println!("== {target}");
    command::step(cargo.current_dir(root()), "").with_context(|| {
        format!(
            "to repeat it, run `FUZZ_TARGET={target} cargo run -p fuzz -- FILE` with the file in fuzz/artifacts/fuzz"
        )
    })
}
