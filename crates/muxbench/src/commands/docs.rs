//! `muxbench completions` and `muxbench man`: what the flags' own definitions give.

use std::io;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// Print a shell's completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: muxbench completions bash > /etc/bash_completion.d/muxbench")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: muxbench man compare > muxbench-compare.1")]
pub struct ManArgs {
    /// Of which command [default: of muxbench]
    command: Option<String>,
}

/// Prints completions.
pub fn completions(args: &CompletionsArgs, mut all: Command) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut all, "muxbench", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page.
pub fn man(args: &ManArgs, mut all: Command) -> anyhow::Result<ExitCode> {
    all.build();
    let command = match &args.command {
        None => all,
        Some(name) => all
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| anyhow::anyhow!("no command `{name}`; `muxbench help` names them"))?,
    };
    clap_mangen::Man::new(command).render(&mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
