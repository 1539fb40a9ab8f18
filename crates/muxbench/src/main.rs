//! muxbench: which way of building a server suits this traffic, by how much, how sure, and why.
//!
//! # Layout
//! - [`cli`]: what the user can say; [`commands`]: one file for each thing that can be done

mod cli;
mod commands;
mod units;

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
