//! `muxbench doctor`: what of this host disturbs results.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use harness::doctor::leftovers;

use crate::output;

/// Say what of this host disturbs results, how, and what mends it
///
/// Takes somewhat more than a second, in which the host is best left alone. Findings are advice: the exit code is 0
/// whatever they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench doctor                                   # what to beware of comes first
  taskset -c 2-7 muxbench doctor                    # of these CPUs only
  muxbench doctor --clean                           # end and remove what runs that were killed have left
  muxbench doctor --json | jq '.[] | select(.state == \"beware\") | .remedy'")]
pub struct Args {
    /// Print JSON: every finding with its state, effect and remedy
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Instead, end and remove what runs have left that were killed, or that ended with the power: processes, folders of
    /// sockets; a lab's hosts go with their last process
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    clean: bool,
}

/// Examines and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.clean {
        return clean();
    }
    if stderr().is_terminal() {
        output::tell("measuring...");
    }
    let findings = harness::doctor::examine();
    if args.json {
        output::print_json(&findings)?;
    } else {
        output::print(&report::text::doctor::render(&findings, output::medium(args.markdown)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes what is left, and says what that was.
fn clean() -> anyhow::Result<ExitCode> {
    let left = leftovers::find();
    let mut code = ExitCode::SUCCESS;
    for it in &left {
        match it.remove() {
            Ok(()) => output::print(&format!("removed: {it}\n"))?,
            Err(error) => {
                output::tell(format_args!("muxbench: {it}: {error}; do it as its owner, or as root"));
                code = ExitCode::FAILURE;
            }
        }
    }
    if left.is_empty() {
        output::print("Nothing is left of runs that were killed.\n")?;
    }
    Ok(code)
}
