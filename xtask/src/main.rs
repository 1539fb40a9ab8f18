//! What developers run: `cargo xtask test`, `cargo xtask bench`, `cargo xtask python`, `cargo xtask servers`.

mod bench;
mod check;
mod debian;
mod python;
mod servers;

use std::process::ExitCode;

use clap::Parser;

/// What developers run
#[derive(Debug, Parser)]
enum Command {
    /// Format, lints, all tests, documentation: what has to pass before anything is merged
    Test,
    /// The Python environment that tests read results with: makes target/python if need be, prints its interpreter
    Python,
    /// Somebody else's servers that tests run: builds target/servers if need be, prints that folder
    Servers,
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Test => check::all(),
        Command::Python => python::prepare().map(|interpreter| println!("{}", interpreter.display())),
        Command::Servers => servers::prepare().map(|folder| println!("{}", folder.display())),
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
