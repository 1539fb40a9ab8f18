//! Developer tasks: `cargo xtask COMMAND`. Without the feature `tools`, the program knows only tests and checks, and starts the program
//! with this feature for other tasks.
//!
//! # Layout
//! - `command`: execution of other programs; `environment`: what tests need besides Rust
//! - `check`: the test command and longer checks; `hostile`, `soak`: servers under hostile clients
//! - `packages`: packages of the program, whose formats are in the library
//! - `bench`: measurements of muxbench itself; `child`: their processes; `cycles` (in the library): files that use each other

#[cfg(feature = "tools")]
mod bench;
mod check;
#[cfg(feature = "tools")]
mod child;
mod command;
mod environment;
#[cfg(feature = "tools")]
mod hostile;
#[cfg(feature = "tools")]
mod packages;
#[cfg(feature = "tools")]
mod soak;

use std::path::Path;
use std::process::ExitCode;

use check::{audit, cross, fuzz, loom, sanitize};
use clap::Parser;
use environment::{browser, peers, python, servers};

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
    Fuzz(fuzz::Fuzz),
    Sanitize(sanitize::Sanitize),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(Tool),
}

/// A task with dependencies that tests do not need.
#[cfg(feature = "tools")]
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Builds the book in target/book and prints the folder of its pages
    Book,
    /// Prints the files of each crate that use each other, with the used names
    Cycles,
    /// Builds static programs and their packages (archives, Debian, OCI image, Python wheels) in target/package
    Package,
    Soak(soak::Soak),
    /// Runs hostile clients in a separate process, for benches and the soak
    #[command(hide = true)]
    Hostile,
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let print = |path: &Path| println!("{}", path.display());
    let result = match parse() {
        Command::Test(test) => check::run(&test),
        Command::Python => python::prepare().map(|interpreter| print(&interpreter)),
        Command::Servers => servers::prepare().map(|folder| print(&folder)),
        Command::Peers => peers::prepare().map(|folder| print(&folder)),
        Command::Browser => browser::prepare().map(|folder| print(&folder)),
        Command::Audit => audit::run(true),
        Command::Cross => python::prepare().and_then(|interpreter| cross::link(&interpreter)),
        Command::Loom => loom::run(),
        Command::Fuzz(fuzz) => fuzz::run(&fuzz),
        Command::Sanitize(sanitize) => sanitize::run(&sanitize),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Book) => book().map(|folder| print(&folder)),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Cycles) => print_cycles(),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Package) => packages::build().map(|folder| print(&folder)),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Soak(soak)) => soak::run(&soak),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Hostile) => hostile::act(),
        #[cfg(feature = "tools")]
        Command::Tool(Tool::Bench(bench)) => bench::run(&bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "tools")]
fn parse() -> Command {
    Command::parse()
}

/// Parses the command line. For help, errors and other tasks, replaces this program by the one with all tasks.
#[cfg(not(feature = "tools"))]
fn parse() -> Command {
    use std::os::unix::process::CommandExt;

    Command::try_parse().unwrap_or_else(|_| {
        let manifest = xtask::root().join("Cargo.toml");
        let mut all = command::cargo();
        all.args(["run", "--quiet", "--package", "xtask", "--features", "tools", "--manifest-path"]).arg(manifest);
        let error = all.arg("--").args(std::env::args_os().skip(1)).exec();
        eprintln!("xtask: cannot run cargo: {error}");
        std::process::exit(1)
    })
}

/// Builds the book with the muxbench of this workspace.
#[cfg(feature = "tools")]
fn book() -> anyhow::Result<std::path::PathBuf> {
    let mut build = command::cargo();
    build.args(["build", "--quiet", "--package", "muxbench"]).current_dir(xtask::root());
    command::run(&mut build)?;
    xtask::book::build(&xtask::root().join("target/debug/muxbench"), &xtask::root().join("target/book"))
}

#[cfg(feature = "tools")]
fn print_cycles() -> anyhow::Result<()> {
    for (name, cycles) in xtask::cycles::of_workspace(xtask::root())? {
        cycles.iter().for_each(|cycle| println!("{name}: {cycle}"));
    }
    Ok(())
}

#[cfg(all(test, feature = "tools"))]
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

    #[test]
    fn tasks_in_workflows_exist() {
        let mut command = Command::command();
        let mut count = 0;
        for path in xtask::files(&xtask::root().join(".github/workflows"), "yml").unwrap() {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter_map(|line| Some(&line[line.find("xtask ")?..]));
            for line in lines.filter(|line| !line.contains("--locked")) {
                command.try_get_matches_from_mut(line.split_whitespace()).unwrap();
                count += 1;
            }
        }
        assert_eq!(count, 2);
    }
}
