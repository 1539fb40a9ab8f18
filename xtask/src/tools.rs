//! Tasks with dependencies that tests do not need.

use std::path::{Path, PathBuf};

use crate::{bench, command, gallery, lighthouse, packages, picture, soak};

/// A task besides tests and checks.
#[derive(Debug, clap::Subcommand)]
pub enum Tool {
    /// Builds the book in target/book and prints the folder of its pages
    Book,
    /// Judges pages and the book by Lighthouse: accessibility and best practices
    Lighthouse,
    Picture(picture::Picture),
    Gallery(gallery::Gallery),
    /// Prints the files of each crate that use each other, with the used names
    Cycles,
    /// Builds static programs and their packages (archives, Debian, OCI image, Python wheels) in target/package
    Package,
    Soak(soak::Soak),
    Bench(bench::Bench),
}

impl Tool {
    /// Runs the task.
    pub fn run(&self) -> anyhow::Result<()> {
        let print = |path: &Path| println!("{}", path.display());
        match self {
            Self::Book => book().map(|folder| print(&folder)),
            Self::Lighthouse => book().and_then(|folder| lighthouse::run(&muxbench()?, &folder)),
            Self::Picture(picture) => picture::draw(picture, &muxbench()?),
            Self::Gallery(gallery) => gallery::draw(gallery, &muxbench()?),
            Self::Cycles => print_cycles(),
            Self::Package => packages::build().map(|folder| print(&folder)),
            Self::Soak(soak) => soak::run(soak),
            Self::Bench(bench) => bench::run(bench),
        }
    }
}

/// Builds the muxbench of this workspace, with the features of tests, so that it shares their dependencies, and returns its path.
fn muxbench() -> anyhow::Result<PathBuf> {
    let mut build = command::cargo();
    build.args(["build", "--quiet", "--workspace", "--all-features", "--locked", "--bins"]).current_dir(xtask::root());
    command::run(&mut build)?;
    Ok(xtask::root().join("target/debug/muxbench"))
}

/// Builds the book with the muxbench of this workspace.
fn book() -> anyhow::Result<PathBuf> {
    xtask::book::build(&muxbench()?, &xtask::root().join("target/book"))
}

fn print_cycles() -> anyhow::Result<()> {
    for (name, cycles) in xtask::cycles::of_workspace(xtask::root())? {
        cycles.iter().for_each(|cycle| println!("{name}: {cycle}"));
    }
    Ok(())
}
