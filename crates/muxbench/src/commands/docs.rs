//! `muxbench completions` and `muxbench man`, generated from the definitions of the flags.

use std::io;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench completions bash > /etc/bash_completion.d/muxbench")]
pub struct CompletionsArgs {
    /// Shell to print completions for
    shell: Shell,
}

/// Print a manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench man compare > muxbench-compare.1")]
pub struct ManArgs {
    /// Command to print the page of [default: muxbench itself]
    command: Option<String>,
}

/// Prints the completions for one shell.
pub fn completions(args: &CompletionsArgs, mut all: Command) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut all, "muxbench", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of a command.
pub fn man(args: &ManArgs, mut all: Command) -> anyhow::Result<ExitCode> {
    all.build();
    let command = match &args.command {
        None => all,
        Some(name) => all
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| anyhow::anyhow!("unknown command `{name}`; try `muxbench help`"))?,
    };
    clap_mangen::Man::new(command).render(&mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
