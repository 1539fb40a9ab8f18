//! Fuzzing of parsers with libFuzzer, guided by code coverage.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
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
    /// Time limit for each target in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    time_max: u64,
    /// Succeeds even if the time limit ends a target before it has run all inputs
    #[arg(long)]
    allow_fewer: bool,
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
    require()?;
    let mut incomplete = Vec::new();
    let run = ["run", "--sanitizer", &fuzz.sanitizer];
    for target in targets {
        let new = root().join("target/fuzz").join(target);
        fs::create_dir_all(&new).with_context(|| format!("cannot create {}", new.display()))?;
        println!("== fuzz {target}");
        let limits = [format!("-runs={}", fuzz.executions), format!("-max_total_time={}", fuzz.time_max)];
        let folders = [new.clone(), corpus.join(target)];
        // Inputs have at most 8 KiB, like the longest request line. An input that takes 10 s or 2 GiB is a failure.
        let more = ["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-close_fd_mask=1"];
        let output = cargo_fuzz(target, &run, &folders, &[&limits.each_ref().map(String::as_str)[..], &more].concat())?;
        let executed = executed(&output).with_context(|| format!("{target}: libFuzzer reports no number of inputs"))?;
        println!("{target}: {executed} of {} inputs without a failure", fuzz.executions);
        if executed < fuzz.executions {
            incomplete.push(format!("{target} {executed}"));
        }
        if fuzz.keep {
            // The first folder receives the inputs of the second that reach new code.
            cargo_fuzz(target, &run, &[corpus.join(target), new], &["-merge=1", "-max_len=8192"])?;
        }
    }
    ensure!(
        incomplete.is_empty() || fuzz.allow_fewer,
        "fewer inputs than {}: {}; allow more time (--time-max), request fewer (--executions), or accept fewer (--allow-fewer)",
        fuzz.executions,
        incomplete.join(", ")
    );
    Ok(())
}

/// Returns the number of inputs from libFuzzer's final statistics.
fn executed(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
}

/// Runs `cargo fuzz`; copies its standard error to ours and returns the copied text.
fn cargo_fuzz(target: &str, verb: &[&str], folders: &[PathBuf], options: &[&str]) -> anyhow::Result<String> {
    let mut process = command::cargo()
        .arg("fuzz")
        .args(verb)
        // RUSTC_BOOTSTRAP makes the stable compiler accept nightly options.
        .args(["fuzz", "--fuzz-dir", "fuzz", "--target-dir", "target/fuzzing"])
        .args(if HARNESS_TARGETS.contains(&target) { &[] } else { &["--no-default-features"][..] })
        .args(folders)
        .arg("--")
        .args(options)
        .env("FUZZ_TARGET", target)
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `cargo fuzz`")?;
    let mut output = String::new();
    let lines = BufReader::new(process.stderr.take().context("standard error is piped")?);
    for line in lines.split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("cannot read the output of `cargo fuzz`")?).into_owned();
        eprintln!("{line}");
        output += &line;
        output.push('\n');
    }
    let status = process.wait().context("cannot wait for `cargo fuzz`")?;
    if !status.success() {
        bail!(
            "{target} failed ({status}); to repeat it, run `FUZZ_TARGET={target} cargo run -p fuzz -- FILE` with the file in \
             fuzz/artifacts/fuzz"
        );
    }
    Ok(output)
}

/// Installs `cargo fuzz` if necessary.
fn require() -> anyhow::Result<()> {
    if command::run(command::cargo().args(["fuzz", "--version"])).is_ok() {
        return Ok(());
    }
    let mut install = command::cargo();
    command::step(install.args(["install", "--locked", "cargo-fuzz"]), "; check that crates.io is reachable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_inputs_is_read_from_the_final_statistics() {
        let output = "#2\tINITED cov: 3\nDone 1000 runs in 1 second(s)\nstat::number_of_executed_units: 1000\nstat::peak_rss_mb: 30\n";
        assert_eq!(executed(output), Some(1_000));
        assert_eq!(executed("Done 1000 runs in 1 second(s)\n"), None);
    }
}
