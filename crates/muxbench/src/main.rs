//! muxbench: which way of building a server suits this traffic, by how much, and how sure that is.
//!
//! # Layout
//! - [`cli`]: what the user can say; [`commands`]: one file for each thing that can be done
//! - [`execution`]: a plan becomes a run and is shown; [`progress`]: what is seen of it meanwhile
//! - [`output`]: standard output, plain when it is not a terminal

mod cli;
mod commands;
mod execution;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!("muxbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
