//! Tests under tools that find undefined behaviour: Miri, LLVM's sanitizers and valgrind.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use xtask::root;

use crate::command;
use crate::environment::debian;

/// Runs tests under tools that find undefined behaviour, in target/sanitize; all but memcheck use a nightly compiler
#[derive(Debug, Args)]
pub struct Sanitize {
    /// Tools [default: all]
    tools: Vec<Tool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Miri: any undefined behaviour, in the crates without system calls
    Miri,
    /// AddressSanitizer: memory errors, in unit tests and the conformance suite
    Address,
    /// ThreadSanitizer: data races, in the same tests as AddressSanitizer
    Thread,
    /// valgrind's memcheck: also uninitialised memory, in unit tests
    Memcheck,
}

/// Arguments of a call of `cargo test`, and options of the test binary.
type Step = (&'static [&'static str], &'static [&'static str]);

/// Unit tests of crates without system calls.
const PURE: &[Step] = &[(&["--package", "muxbench-wire", "--package", "muxbench-stats", "--lib"], &[])];

/// Unit tests of the server, one after the other because they count descriptors.
const SERVER: Step = (&["--package", "muxbench-server", "--lib", "--no-default-features"], &["--test-threads=1"]);

/// The conformance suite without `may`, because sanitizers do not know of its coroutines' stacks.
const CONFORMANCE: Step = (
    &["--package", "muxbench", "--test", "it", "--no-default-features", "--features", "tokio,smol,compio"],
    &["conformance::", "--test-threads=1"],
);

/// Suppresses a false positive. tokio creates a connection's entry, registers it through a duplicate of its epoll
/// descriptor, and gets the event through the original. The sanitizer does not know that both refer to one epoll
/// instance.
const SUPPRESSIONS: &str = "race:tokio::runtime::io::driver::dispatch_event\n";

pub fn run(sanitize: &Sanitize) -> anyhow::Result<()> {
    let all = Tool::value_variants();
    for tool in if sanitize.tools.is_empty() { all } else { &sanitize.tools } {
        match tool {
            Tool::Miri => miri()?,
            // Objects that live as long as the process are leaked on purpose. The soak finds growing leaks.
            Tool::Address => instrumented("address", "ASAN_OPTIONS", ":detect_leaks=0")?,
            Tool::Thread => {
                instrumented("thread", "TSAN_OPTIONS", &format!(":suppressions={}", suppressions()?.display()))?
            }
            Tool::Memcheck => memcheck()?,
        }
    }
    Ok(())
}

fn miri() -> anyhow::Result<()> {
    require(&["miri", "rust-src"])?;
    for step in PURE {
        let mut cargo = nightly();
        // Tests read the clock, and expect exact powers and logarithms.
        let flags = "-Zmiri-disable-isolation -Zmiri-deterministic-floats";
        cargo.env("MIRIFLAGS", flags).env("PROPTEST_CASES", "4").args(["miri", "test"]);
        test(cargo, "miri", step)?;
    }
    Ok(())
}

/// Writes the thread sanitizer's suppressions to a file.
fn suppressions() -> anyhow::Result<PathBuf> {
    let path = folder("thread").join("suppressions");
    xtask::write(&path, SUPPRESSIONS).map(|()| path)
}

/// Runs tests with an instrumented standard library; otherwise its synchronisation would be reported as races.
fn instrumented(sanitizer: &str, variable: &str, options: &str) -> anyhow::Result<()> {
    require(&["rust-src"])?;
    let reports = folder(sanitizer).join("reports");
    xtask::create_empty_folder(&reports)?;
    for step in PURE.iter().chain([&SERVER, &CONFORMANCE]) {
        let mut cargo = nightly();
        cargo
            .args(["test", "-Zbuild-std", "--target", &host()?])
            .env("CARGO_ENCODED_RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
            // Write reports to files, because a test may not read the output of the servers that it starts.
            .env(variable, format!("log_path={}/of{options}", reports.display()));
        let tested = test(cargo, sanitizer, step);
        let found = fs::read_dir(&reports)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        for path in &found {
            print!("{}", xtask::read(path)?);
        }
        ensure!(found.is_empty(), "{} reports of the {sanitizer} sanitizer, in {}", found.len(), reports.display());
        tested?;
    }
    Ok(())
}

fn memcheck() -> anyhow::Result<()> {
    debian::require(&[("valgrind", "--version", "valgrind", "install valgrind")])?;
    let target = host()?.to_uppercase().replace('-', "_");
    for step in PURE.iter().chain([&SERVER]) {
        let mut cargo = command::cargo();
        cargo
            .arg("test")
            .env("PROPTEST_CASES", "16")
            .env(format!("CARGO_TARGET_{target}_RUNNER"), "valgrind --quiet --error-exitcode=99 --leak-check=no");
        test(cargo, "memcheck", step)?;
    }
    Ok(())
}

fn test(mut cargo: Command, name: &str, (arguments, options): &Step) -> anyhow::Result<()> {
    cargo.args(["--locked", "--target-dir"]).arg(folder(name)).args(*arguments).arg("--").args(*options);
    command::step(cargo.current_dir(root()), ": the tool found something, or a test fails without it too")
}

fn folder(name: &str) -> PathBuf {
    root().join("target/sanitize").join(name)
}

/// Cargo of the nightly toolchain.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}

/// The target triple of this machine.
fn host() -> anyhow::Result<String> {
    let text = command::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Installs missing components of the nightly toolchain; an installed toolchain stays at its version.
fn require(components: &[&str]) -> anyhow::Result<()> {
    let rustup = |arguments: &[&str]| command::run(Command::new("rustup").args(arguments).args(components));
    rustup(&["component", "add", "--toolchain", "nightly"])
        .or_else(|_| rustup(&["toolchain", "install", "nightly", "--profile", "minimal", "--component"]))
        .with_context(|| format!("run `rustup toolchain install nightly --component {}`", components.join(",")))
}
