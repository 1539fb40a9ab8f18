//! Undefined behaviour, looked for while the tests run: Miri interprets, LLVM's sanitizers are compiled in, valgrind watches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};

use crate::debian;
use xtask::root;

/// Looks for undefined behaviour: runs tests under what finds it, in target/sanitize; a nightly compiler is taken
#[derive(Debug, Args)]
pub struct Sanitize {
    /// With what [default: all]
    with: Vec<With>,
}

/// What looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// Miri: the crates without system calls, and any undefined behaviour
    Miri,
    /// AddressSanitizer: use after free, beyond bounds; our crates' unit tests and the conformance suite
    Address,
    /// ThreadSanitizer: data races; the same tests
    Thread,
    /// valgrind's memcheck: what is not initialised too; unit tests
    Memcheck,
}

/// One call of `cargo test`.
struct Step {
    arguments: &'static [&'static str],
    /// Of the test program.
    options: &'static [&'static str],
}

/// Unit tests of crates without system calls. Of those that draw cases few are enough, and those that measure or read the
/// source are no business of an interpreter's.
const PURE: &[Step] = &[
    Step { arguments: &["--package", "muxbench-wire", "--lib"], options: &[] },
    Step { arguments: &["--package", "muxbench-stats", "--lib"], options: &[] },
];

/// The same and the server's.
const UNITS: &[Step] = &[
    Step { arguments: &["--package", "muxbench-wire", "--package", "muxbench-stats", "--lib"], options: &[] },
    Step {
        arguments: &["--package", "muxbench-server", "--lib", "--no-default-features"],
        options: &["--test-threads=1"],
    },
];

/// What every architecture does, without `may`, whose coroutines change stacks behind a sanitizer's back.
const CONFORMANCE: Step = Step {
    arguments: &[
        "--package",
        "muxbench",
        "--test",
        "conformance",
        "--no-default-features",
        "--features",
        "tokio,smol,compio",
    ],
    options: &["--test-threads=1"],
};

/// What only the kernel orders: tokio makes a connection's entry, has it watched through a duplicate of the descriptor of its epoll, and
/// is told of it through that itself. The sanitizer does not know that the two are one.
const BY_THE_KERNEL: &str = "race:tokio::runtime::io::driver::dispatch_event\n";

/// Runs them one after the other.
///
/// # Errors
/// What was found, and when a tool is missing and cannot be installed.
pub fn run(sanitize: &Sanitize) -> anyhow::Result<()> {
    let all = With::value_variants();
    for with in if sanitize.with.is_empty() { all } else { &sanitize.with } {
        match with {
            With::Miri => miri()?,
            // What is there as long as the process is leaked on purpose; a leak that grows the soak sees.
            With::Address => instrumented("address", "ASAN_OPTIONS", ":detect_leaks=0")?,
            // A report ends the process, so that the test fails.
            With::Thread => {
                instrumented("thread", "TSAN_OPTIONS", &format!(":suppressions={}", suppressions()?.display()))?
            }
            With::Memcheck => memcheck()?,
        }
    }
    Ok(())
}

fn miri() -> anyhow::Result<()> {
    require(&["miri", "rust-src"])?;
    for step in PURE {
        let mut cargo = nightly();
        // The clock is asked for random seeds and for how long a search may take; powers and logarithms are to be as the tests have them.
        let flags = "-Zmiri-disable-isolation -Zmiri-deterministic-floats";
        cargo.env("MIRIFLAGS", flags).env("PROPTEST_CASES", "4").args(["miri", "test"]);
        test(cargo, "miri", step)?;
    }
    Ok(())
}

/// A file of what the thread sanitizer is not to report.
fn suppressions() -> anyhow::Result<PathBuf> {
    let path = folder("thread").join("suppressions");
    fs::create_dir_all(folder("thread"))
        .and_then(|()| fs::write(&path, BY_THE_KERNEL))
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

/// With the standard library compiled likewise, or what it does would be taken for a race.
fn instrumented(sanitizer: &str, variable: &str, options: &str) -> anyhow::Result<()> {
    require(&["rust-src"])?;
    let reports = folder(sanitizer).join("reports");
    let _ = fs::remove_dir_all(&reports);
    fs::create_dir_all(&reports).with_context(|| format!("cannot make {}", reports.display()))?;
    for step in UNITS.iter().chain([&CONFORMANCE]) {
        let mut cargo = nightly();
        cargo
            .args(["test", "-Zbuild-std", "--target", &host()?])
            .env("CARGO_ENCODED_RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
            // Into files: a server that a test kills has said nothing to the test.
            .env(variable, format!("log_path={}/of{options}", reports.display()));
        let tested = test(cargo, sanitizer, step);
        let found = files(&reports)?;
        for path in &found {
            print!("{}", String::from_utf8_lossy(&fs::read(path).with_context(|| path.display().to_string())?));
        }
        ensure!(found.is_empty(), "{} reports of the {sanitizer} sanitizer, in {}", found.len(), reports.display());
        tested?;
    }
    Ok(())
}

fn memcheck() -> anyhow::Result<()> {
    debian::require(&[("valgrind", "--version", "valgrind", "install valgrind")])?;
    let target = host()?.to_uppercase().replace('-', "_");
    for step in UNITS {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .arg("test")
            .env("PROPTEST_CASES", "16")
            .env(format!("CARGO_TARGET_{target}_RUNNER"), "valgrind --quiet --error-exitcode=99 --leak-check=no");
        test(cargo, "memcheck", step)?;
    }
    Ok(())
}

fn test(mut cargo: Command, name: &str, step: &Step) -> anyhow::Result<()> {
    println!("== {name}: cargo test {}", step.arguments.join(" "));
    let status = cargo
        .args(["--locked", "--target-dir"])
        .arg(folder(name))
        .args(step.arguments)
        .arg("--")
        .args(step.options)
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("{name} found something, or a test fails by itself ({status})");
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    Ok(entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

fn folder(name: &str) -> PathBuf {
    root().join("target/sanitize").join(name)
}

/// The nightly compiler's cargo.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}

/// This machine as rustc calls it.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Has rustup fetch what is missing of the nightly compiler.
fn require(components: &[&str]) -> anyhow::Result<()> {
    let remedy = || format!("install it: `rustup toolchain install nightly --component {}`", components.join(","));
    let installed =
        Command::new("rustup").args(["component", "list", "--toolchain", "nightly", "--installed"]).output();
    let installed = installed.with_context(remedy)?;
    let list = String::from_utf8_lossy(&installed.stdout);
    if installed.status.success() && components.iter().all(|it| list.lines().any(|line| line.starts_with(it))) {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    // One that is there stays as it is.
    match installed.status.success() {
        true => rustup.args(["component", "add", "--toolchain", "nightly"]),
        false => rustup.args(["toolchain", "install", "nightly", "--profile", "minimal", "--component"]),
    };
    let status = rustup.args(components).status().with_context(remedy)?;
    ensure!(status.success(), "the nightly compiler lacks something ({status}); {}", remedy());
    Ok(())
}
