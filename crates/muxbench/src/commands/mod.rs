//! One file for each thing that muxbench can do: its flags, and how it is done.

pub mod serve;

use std::process::ExitCode;

use crate::cli::Command;

/// Does what was asked for.
pub fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args),
    }
}
