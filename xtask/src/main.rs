//! What developers run: `cargo xtask test`, `bench`, `cross`, `python`, `servers`, `peers`, `browser`, `fuzz`, `loom`, `audit`,
//! `sanitize`, `soak`, `cycles`.

mod audit;
mod bench;
mod browser;
mod check;
mod cross;
mod debian;
mod fuzz;
mod hostile;
mod loom;
mod peers;
mod python;
mod sanitize;
mod servers;
mod soak;

use std::process::ExitCode;

use clap::Parser;
use xtask::cycles;

/// What developers run
#[derive(Debug, Parser)]
enum Command {
    /// Format, lints, all tests, documentation, the link for other systems: what has to pass before anything is merged
    Test,
    /// The Python environment, with what reads results and what links for other systems: makes target/python if need be, prints its interpreter
    Python,
    /// Somebody else's servers that tests run: builds target/servers if need be, prints that folder
    Servers,
    /// Somebody else's servers and clients of kv and http, which tests run: installs them if need be, prints their folder
    Peers,
    /// A browser that tests open pages in: installs it and makes target/browser if need be, prints that folder
    Browser,
    /// What the program is built from: licences, sources, versions withdrawn or there twice, number and size
    Audit,
    /// Links the program for FreeBSD and macOS, in target/cross
    Cross,
    /// Models of what threads hand each other, in every order, in target/loom
    Loom,
    /// Prints the files of each crate that use each other, and the names by which they do
    Cycles,
    Fuzz(fuzz::Fuzz),
    Sanitize(sanitize::Sanitize),
    Soak(soak::Soak),
    /// Hostile clients in a process of their own, as benches and the soak start them
    #[command(hide = true)]
    Hostile,
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Test => check::all(),
        Command::Python => python::prepare().map(|interpreter| println!("{}", interpreter.display())),
        Command::Servers => servers::prepare().map(|folder| println!("{}", folder.display())),
        Command::Peers => peers::prepare().map(|folder| println!("{}", folder.display())),
        Command::Browser => browser::prepare().map(|folder| println!("{}", folder.display())),
        Command::Audit => audit::run(true),
        Command::Cross => python::prepare().and_then(|interpreter| cross::link(&interpreter)),
        Command::Loom => loom::run(),
        Command::Cycles => print_cycles(),
        Command::Fuzz(fuzz) => fuzz::run(&fuzz),
        Command::Sanitize(sanitize) => sanitize::run(&sanitize),
        Command::Soak(soak) => soak::run(&soak),
        Command::Hostile => hostile::act(),
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

fn print_cycles() -> anyhow::Result<()> {
    for (name, cycles) in cycles::of_workspace(xtask::root())? {
        cycles.iter().for_each(|cycle| println!("{name}: {cycle}"));
    }
    Ok(())
}
