//! Tests under tools that find undefined behaviour: Miri, LLVM's sanitizers and valgrind. `xtask/sanitize.sh` runs them.

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

pub fn run(sanitize: &Sanitize) -> anyhow::Result<()> {
    let tools = if sanitize.tools.is_empty() { Tool::value_variants() } else { &sanitize.tools };
    if tools.contains(&Tool::Memcheck) {
        debian::require(&[("valgrind", "--version", "valgrind", "install valgrind")])?;
    }
    let names: Vec<_> = tools.iter().filter_map(Tool::to_possible_value).collect();
    let mut script = command::clean(root().join("xtask/sanitize.sh"));
    let remedy = ": the tool found something, or a test fails without it too";
    command::step(script.args(names.iter().map(|name| name.get_name())), remedy)
}
