//! `muxbench completions` and `muxbench man`, generated from the definitions of the flags.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use wire::names;

use crate::output;

/// Print shell completions (`muxbench man` prints manual pages)
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  muxbench completions bash > /etc/bash_completion.d/muxbench"
)]
pub struct CompletionsArgs {
    /// Name of the shell
    shell: Shell,
}

/// Print a manual page
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  muxbench man compare > muxbench-compare.1
  muxbench man --output /usr/local/share/man/man1"
)]
pub struct ManArgs {
    /// Command [default: muxbench itself]
    command: Option<String>,
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs, mut all: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut all, "muxbench", &mut text);
    output::print_raw(&text)
}

pub fn man(args: &ManArgs, mut all: Command) -> anyhow::Result<()> {
    if let Some(folder) = &args.output {
        return fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(all, folder))
            .with_context(|| format!("cannot write manual pages to {}", folder.display()));
    }
    all.build();
    if let Some(name) = &args.command {
        let suggestion = names::suggestion(name, all.get_subcommands().map(Command::get_name));
        let found = all.find_subcommand(name).cloned();
        all = found.with_context(|| format!("unknown command `{name}`; try `muxbench --help`{suggestion}"))?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(all).render(&mut text)?;
    output::print_raw(&text)
}
