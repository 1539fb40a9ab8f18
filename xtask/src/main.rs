//! What developers run: `cargo xtask test`, `cargo xtask bench`.

mod bench;
mod check;

use std::process::ExitCode;

use clap::Parser;

/// What developers run
#[derive(Debug, Parser)]
enum Command {
    /// Format, lints, all tests, documentation: what has to pass before anything is merged
    Test,
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Test => check::all(),
        Command::Bench(bench) => bench::run(&bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
