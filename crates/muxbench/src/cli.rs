//! What the user can say.

use clap::{Parser, Subcommand};

use crate::commands;

/// Compare ways of building a network server under your traffic
#[derive(Debug, Parser)]
#[command(name = "muxbench", version, propagate_version = true, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(commands::serve::Args),
}
