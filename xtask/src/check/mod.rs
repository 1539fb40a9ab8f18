//! `cargo xtask test`, which must pass before a change is merged, and longer checks.

pub mod audit;
mod binaries;
pub mod cross;
pub mod fuzz;
pub mod loom;
pub mod sanitize;

use std::fs::File;
use std::io::{self, Seek};
use std::process::Command;
use std::thread;

use anyhow::Context;
use binaries::{Binary, FailedTest};
use rustix::fs::Mode;
use xtask::root;

use crate::command;
use crate::environment::{self, debian, python};

/// The check that `--fast` runs, on a selection of architectures.
const SMOKE: &str = "conformance::each_request_gets_a_whole_response";

// Each command selects all packages. For the features of fewer, cargo would compile their dependencies again.

/// The unit tests of all packages.
const UNITS: &[&str] = &["--workspace", "--lib", "--bins"];
/// The tests of `--fast`.
const FAST: &[&str] = &["--workspace", "--lib", "--bins", "--test=it", "--test=rules"];
/// The integration tests of the tool.
const TOOL: &[&str] = &["--workspace", "--test=it"];
/// The integration tests of verdicts.
const VERDICTS: &[&str] = &["--workspace", "--test=verdicts"];
/// The other integration tests.
const OTHERS: &[&str] =
    &["--workspace", "--test=client", "--test=server", "--test=error_rates", "--test=replay", "--test=rules"];
const DOCUMENTATION: &[&str] =
    &["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"];

/// The number of binaries that run at the same time, and of tests in each of `--fast`.
const LANES: usize = 3;
const TESTS_OF_LANE: &str = "4";
/// The number of tests of [`OTHERS`] that run at the same time. They only wait, for most of their time.
const WAITING_TESTS: &str = "6";

/// Format, lints, dependencies and tests: must pass before a change is merged
#[derive(clap::Args, Debug)]
pub struct Test {
    /// Only format, lints, unit tests and one check of a selection of architectures; needs no other programs
    #[arg(long, conflicts_with = "every")]
    fast: bool,
    /// Also every model with every mechanism, interleavings, documentation, and links for other systems
    #[arg(long)]
    every: bool,
}

/// Runs all steps. Most tests wait, so several steps run at the same time. At the end, tests that failed run once more.
pub fn run(test: &Test) -> anyhow::Result<()> {
    // Let other users read the files that tests write.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    command::step(&mut cargo(&["fmt", "--all", "--check"]), "")?;
    let failed = if test.fast { fast()? } else { whole(test.every)? };
    binaries::run_again(&failed)?;
    if test.every {
        command::step(&mut cargo(DOCUMENTATION), "")?;
        loom::run()?;
        cross::link(&python::prepare()?)?;
    }
    Ok(())
}

fn fast() -> anyhow::Result<Vec<FailedTest>> {
    let mut built = binaries::build(&mut tests(FAST)?)?;
    built.iter_mut().for_each(|binary| binary.set("RUST_TEST_THREADS", TESTS_OF_LANE));
    built.iter_mut().filter(|binary| binary.name == "it").for_each(|binary| binary.arguments.push(SMOKE));
    binaries::run(built, LANES, &mut io::stdout())
}

fn whole(every: bool) -> anyhow::Result<Vec<FailedTest>> {
    audit::run(false)?;
    let (environment, mut tool) = thread::scope(|scope| {
        let environment = scope.spawn(environment::prepare);
        // Build the longest tests first, so that they run while cargo builds the others.
        let tool = binaries::build(&mut tests(TOOL)?)?;
        anyhow::Ok((environment.join().expect("no preparation panics")?, tool))
    })?;
    for binary in &mut tool {
        environment.iter().for_each(|(variable, path)| binary.set(variable, path));
        every.then(|| binary.set("MUXBENCH_EVERY", "1"));
    }
    let mut alone = tool.clone();
    tool.iter_mut().for_each(|binary| binary.arguments.push("--skip=alone::"));
    alone.iter_mut().for_each(|binary| binary.arguments.push("alone::"));
    let mut verdicts = Ok(Vec::new());
    let tested = beside(
        || binaries::run(tool, 1, &mut io::stdout()),
        |out| {
            let units = built(UNITS, out).and_then(|units| binaries::run(units, LANES, out));
            let others = built(OTHERS, out).and_then(|mut others| {
                for binary in &mut others {
                    binary.set("RUST_TEST_THREADS", WAITING_TESTS);
                    every.then(|| binary.set("MUXBENCH_EVERY", "1"));
                }
                binaries::run(others, LANES, out)
            });
            verdicts = built(VERDICTS, out);
            vec![units, others]
        },
    );
    // These tests run alone, because others would take CPU time from their clients and servers.
    let alone = verdicts.and_then(|verdicts| binaries::run([alone, verdicts].concat(), 1, &mut io::stdout()));
    binaries::all(vec![tested, alone])
}

/// Builds tests, with the messages of cargo in `out`.
fn built(which: &[&str], out: &mut File) -> anyhow::Result<Vec<Binary>> {
    binaries::build(tests(which)?.stderr(out.try_clone()?))
}

/// Calls `others` while `first` runs. Prints what `others` wrote to its file after that.
fn beside(
    first: impl FnOnce() -> anyhow::Result<Vec<FailedTest>>,
    others: impl FnOnce(&mut File) -> Vec<anyhow::Result<Vec<FailedTest>>> + Send,
) -> anyhow::Result<Vec<FailedTest>> {
    let mut output = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut of_others = output.try_clone()?;
    let (first, mut results) = thread::scope(|scope| {
        let others = scope.spawn(move || others(&mut of_others));
        (first(), others.join().expect("no step panics"))
    });
    output.rewind()?;
    io::copy(&mut output, &mut io::stdout())?;
    results.push(first);
    binaries::all(results)
}

/// Returns `cargo test` with these arguments. Clippy compiles the workspace for the tests, so lints need no separate build.
fn tests(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = cargo(&["test", "--all-features", "--locked", "--no-fail-fast"]);
    command.args(arguments);
    let clippy =
        debian::find("clippy-driver").context("no clippy-driver in PATH: run `rustup component add clippy`")?;
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    Ok(command)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = command::cargo();
    command.args(arguments).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings");
    command
}
