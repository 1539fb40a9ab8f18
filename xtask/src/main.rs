//! Developer tasks: `cargo xtask COMMAND`.
//!
//! # Layout
//! - `command`: execution of other programs; `environment`: what tests need besides Rust
//! - `check`: the test command and longer checks; `hostile`, `soak`: servers under hostile clients
//! - `bench`: measurements of muxbench itself; `cycles` (in the library): files that use each other
//! - `picture`, `gallery`: pictures of stored runs, for documents

mod bench;
mod check;
mod command;
mod environment;
mod gallery;
mod hostile;
mod picture;
mod soak;

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use check::{audit, cross, fuzz, lighthouse, loom, sanitize};
use clap::Parser;
use environment::{browser, peers, python, servers};
use xtask::cycles;

/// Developer tasks
#[derive(Debug, Parser)]
enum Command {
    Test(check::Test),
    /// Builds target/python (tools that read results, linker for other systems) if necessary and prints its interpreter
    Python,
    /// Builds target/servers (external servers that tests run) if necessary and prints its folder
    Servers,
    /// Installs the other servers and clients that tests run if necessary and prints a folder with links to them
    Peers,
    /// Installs Chromium and builds target/browser if necessary and prints that folder
    Browser,
    /// Checks dependencies: licences, sources, withdrawn versions, advisories; prints their number and size
    Audit,
    /// Links the program for FreeBSD and macOS and type-checks the server for illumos, in target/cross
    Cross,
    /// Checks hand-offs between threads with loom, in target/loom
    Loom,
    /// Builds the book in target/book and prints the folder of its pages
    Book,
    /// Judges pages and the book by Lighthouse: accessibility and best practices
    Lighthouse,
    Picture(picture::Picture),
    Gallery(gallery::Gallery),
    /// Prints the files of each crate that use each other, with the used names
    Cycles,
    Fuzz(fuzz::Fuzz),
    Sanitize(sanitize::Sanitize),
    Soak(soak::Soak),
    /// Runs hostile clients in a separate process, for benches and the soak
    #[command(hide = true)]
    Hostile,
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let print = |path: &Path| println!("{}", path.display());
    let result = match Command::parse() {
        Command::Test(test) => check::run(&test),
        Command::Python => python::prepare().map(|interpreter| print(&interpreter)),
        Command::Servers => servers::prepare().map(|folder| print(&folder)),
        Command::Peers => peers::prepare().map(|folder| print(&folder)),
        Command::Browser => browser::prepare().map(|folder| print(&folder)),
        Command::Audit => audit::run(true),
        Command::Cross => python::prepare().and_then(|interpreter| cross::link(&interpreter)),
        Command::Loom => loom::run(),
        Command::Book => book().map(|folder| print(&folder)),
        Command::Lighthouse => book().and_then(|folder| lighthouse::run(&debug_muxbench(), &folder)),
        Command::Picture(picture) => build().and_then(|()| picture::draw(&picture, &debug_muxbench())),
        Command::Gallery(gallery) => build().and_then(|()| gallery::draw(&gallery, &debug_muxbench())),
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

/// Builds the muxbench of this workspace, with the features of tests, so that it shares their dependencies.
fn build() -> anyhow::Result<()> {
    let mut build = process::Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--all-features", "--locked", "--bins"]).current_dir(xtask::root());
    command::run(&mut build)
}

fn debug_muxbench() -> PathBuf {
    xtask::root().join("target/debug/muxbench")
}

/// Builds the book with the muxbench of this workspace.
fn book() -> anyhow::Result<PathBuf> {
    build()?;
    xtask::book::build(&debug_muxbench(), &xtask::root().join("target/book"))
}

fn print_cycles() -> anyhow::Result<()> {
    for (name, cycles) in cycles::of_workspace(xtask::root())? {
        cycles.iter().for_each(|cycle| println!("{name}: {cycle}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use xtask::commands;

    use super::*;

    #[test]
    fn tasks_in_documents_exist() {
        let shown = commands::of_documents().unwrap().into_iter().filter(|shown| shown.program == "xtask");
        let mut command = Command::command();
        let errors: Vec<_> = shown.map(|shown| shown.parse(&mut command).err()).collect();
        assert!(errors.len() > 10, "only {} tasks are shown", errors.len());
        let errors: Vec<String> = errors.into_iter().flatten().collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}
