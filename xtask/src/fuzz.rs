//! Searches for input that a parser cannot bear: libFuzzer, guided by the code that an input reaches.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;
use xtask::root;

/// Searches for input that makes a parser panic; what reaches new code is kept in target/fuzz, a find in fuzz/artifacts
#[derive(Debug, Args)]
pub struct Fuzz {
    /// Targets [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Inputs that each is fed with
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    executions: u64,
    /// Most time for each in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    time_max: u64,
    /// Fewer inputs than asked for, for want of time, are no failure
    #[arg(long)]
    allow_fewer: bool,
    /// What else is looked for than panics: `address`, or `none`, with which there are several times as many inputs a second
    #[arg(long, value_name = "NAME", default_value = "address", value_parser = ["address", "none"])]
    sanitizer: String,
    /// Adds to fuzz/corpus what reached code that nothing there reaches
    #[arg(long)]
    keep: bool,
}

/// Targets of files that only `lab` reads, which is most of a build: without them the others are built in a tenth of the time.
const OF_HARNESS: [&str; 7] = ["architecture", "description", "experiment", "frame", "record", "samples", "units"];

/// Feeds each target; the first that fails ends it, but one that had not as many inputs as it was to have.
///
/// # Errors
/// When one failed, or had fewer inputs, or `cargo fuzz` cannot be had.
pub fn run(fuzz: &Fuzz) -> anyhow::Result<()> {
    let corpus = root().join("fuzz/corpus");
    let all = || -> anyhow::Result<Vec<String>> {
        let folders = std::fs::read_dir(&corpus).with_context(|| format!("cannot read {}", corpus.display()))?;
        let mut names = folders
            .map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let targets = if fuzz.targets.is_empty() { all()? } else { fuzz.targets.clone() };
    for target in &targets {
        ensure!(corpus.join(target).is_dir(), "no such target: {target}; there are {}", all()?.join(", "));
    }
    require()?;
    let mut fewer = Vec::new();
    let run = ["run", "--sanitizer", &fuzz.sanitizer];
    for target in &targets {
        let found = root().join("target/fuzz").join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        println!("== fuzz {target}");
        let limits = [format!("-runs={}", fuzz.executions), format!("-max_total_time={}", fuzz.time_max)];
        let folders = [found.clone(), corpus.join(target)];
        // Sizes up to what a head or an item may have and a little more; 10 s or 2 GiB for one input are finds.
        let more = ["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-close_fd_mask=1"];
        let said = cargo_fuzz(target, &run, &folders, &[&limits.each_ref().map(String::as_str)[..], &more].concat())?;
        let executed =
            executed(&said).with_context(|| format!("{target}: libFuzzer does not say how many inputs it had"))?;
        println!("{target}: {executed} of {} inputs, and none was found that it cannot bear", fuzz.executions);
        if executed < fuzz.executions {
            fewer.push(format!("{target} {executed}"));
        }
        if fuzz.keep {
            // Into the first folder what the second adds to it.
            cargo_fuzz(target, &run, &[corpus.join(target), found], &["-merge=1", "-max_len=8192"])?;
        }
    }
    ensure!(
        fewer.is_empty() || fuzz.allow_fewer,
        "fewer inputs than {}: {}; give more time (--time-max), ask for fewer (--executions), or allow it (--allow-fewer)",
        fuzz.executions,
        fewer.join(", ")
    );
    Ok(())
}

/// How many inputs libFuzzer says at its end that it had.
fn executed(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
}

/// What it says goes to standard error as it comes, and is handed back.
fn cargo_fuzz(target: &str, verb: &[&str], folders: &[PathBuf], options: &[&str]) -> anyhow::Result<String> {
    let mut process = Command::new(env!("CARGO"))
        .arg("fuzz")
        .args(verb)
        // The stable compiler, with what only the nightly one may do.
        .args(["fuzz", "--fuzz-dir", "fuzz", "--target-dir", "target/fuzzing"])
        .args(if OF_HARNESS.contains(&target) { &[] } else { &["--no-default-features"][..] })
        .args(folders)
        .arg("--")
        .args(options)
        .env("FUZZ_TARGET", target)
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `cargo fuzz`")?;
    let mut said = String::new();
    let lines = BufReader::new(process.stderr.take().context("standard error is piped")?);
    // An input that is shown may be any bytes.
    for line in lines.split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("cannot read what `cargo fuzz` says")?).into_owned();
        eprintln!("{line}");
        said += &line;
        said.push('\n');
    }
    let status = process.wait().context("cannot wait for `cargo fuzz`")?;
    if !status.success() {
        bail!(
            "{target} failed ({status}); `FUZZ_TARGET={target} cargo run -p fuzz -- FILE` shows it again with the file in \
             fuzz/artifacts/fuzz"
        );
    }
    Ok(said)
}

/// Installs `cargo fuzz` unless it is there.
fn require() -> anyhow::Result<()> {
    let is_there = Command::new(env!("CARGO")).args(["fuzz", "--version"]).output().is_ok_and(|it| it.status.success());
    if is_there {
        return Ok(());
    }
    eprintln!("== installing cargo-fuzz");
    let status = Command::new(env!("CARGO")).args(["install", "--locked", "cargo-fuzz"]).status();
    ensure!(status.is_ok_and(|it| it.success()), "cannot install cargo-fuzz; is crates.io reachable?");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfuzzer_says_at_its_end_how_many_inputs_it_had() {
        let said = "#2\tINITED cov: 3\nDone 1000 runs in 1 second(s)\nstat::number_of_executed_units: 1000\nstat::peak_rss_mb: 30\n";
        assert_eq!(executed(said), Some(1_000));
        assert_eq!(executed("Done 1000 runs in 1 second(s)\n"), None);
    }
}
