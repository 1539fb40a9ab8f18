//! `muxbench doctor`: causes of disturbed results on this host.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use harness::exec::leftovers;

use crate::options::format::FormatArgs;
use crate::output;

/// Find the causes of disturbed results on this host, and remedies
///
/// Takes about a second; leave the host idle meanwhile. The exit code is 0 even if there are findings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench doctor                     # warnings come first
  taskset -c 2-7 muxbench doctor      # check only these CPUs
  muxbench doctor --clean             # remove what killed runs have left
  muxbench doctor --json | jq '.[] | select(.state == \"warning\") | .remedy'")]
pub struct Args {
    /// Remove what killed runs have left, and examine nothing
    ///
    /// End the processes and remove the socket folders of killed runs
    #[arg(long, conflicts_with_all = ["json", "markdown", "wide", "legend"])]
    clean: bool,
    #[command(flatten)]
    format: FormatArgs,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.clean {
        return clean();
    }
    if stderr().is_terminal() {
        output::tell("measuring...");
    }
    args.format.print(&harness::doctor::examine(), |found, medium| report::text::doctor::render(found, medium))?;
    Ok(ExitCode::SUCCESS)
}

fn clean() -> anyhow::Result<ExitCode> {
    let leftovers = leftovers::find();
    let mut code = ExitCode::SUCCESS;
    for leftover in &leftovers {
        match leftover.remove() {
            Ok(()) => output::print(&format!("removed: {leftover}\n"))?,
            Err(error) => {
                output::note(format_args!("cannot remove {leftover}: {error}; try as its owner or as root"));
                code = ExitCode::FAILURE;
            }
        }
    }
    if leftovers.is_empty() {
        output::print("No leftovers of killed runs found.\n")?;
    }
    Ok(code)
}
