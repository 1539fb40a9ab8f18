//! Developer tasks: `cargo xtask COMMAND`. Without the feature `tools`, the program knows only tests and checks, and starts the program
//! with this feature for other tasks.
//!
//! # Layout
//! - `command`: execution of other programs; `environment`: what tests need besides Rust
//! - `check`: the test command and longer checks
//! - `tools`: the other tasks. `bench`: measurements of muxbench itself; `process`: their processes; `hostile`, `soak`: servers under
//!   hostile clients; `packages`: packages of the program; `picture`, `gallery`: pictures of stored runs, for documents;
//!   `lighthouse`: judgements of pages; in the library, `book`, `cycles` (files that use each other) and the formats of packages

#[cfg(feature = "tools")]
mod bench;
mod check;
mod environment;
#[cfg(feature = "tools")]
mod gallery;
#[cfg(feature = "tools")]
mod hostile;
#[cfg(feature = "tools")]
mod lighthouse;
#[cfg(feature = "tools")]
mod packages;
#[cfg(feature = "tools")]
mod picture;
#[cfg(feature = "tools")]
mod process;
#[cfg(feature = "tools")]
mod soak;
#[cfg(feature = "tools")]
mod tools;

use std::path::Path;

use check::{audit, cross, fuzz, loom, sanitize};
use clap::Parser;
use environment::{browser, peers, python, servers};
use xtask::command;

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
    /// Links the program for FreeBSD and macOS, and type-checks server and client for musl and the server for illumos, in target/cross
    Cross,
    /// Checks hand-offs between threads with loom, in target/loom
    Loom,
    Fuzz(fuzz::Fuzz),
    Sanitize(sanitize::Sanitize),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(tools::Tool),
}

fn main() -> anyhow::Result<()> {
    let print = |path: &Path| println!("{}", path.display());
    match parse() {
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
        Command::Tool(tool) => tool.run(),
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
        assert_eq!(count, 3);
    }
}
