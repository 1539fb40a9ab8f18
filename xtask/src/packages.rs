//! `cargo xtask package`: builds all packages in `target/package`. They contain the same static programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::fs::Mode;
use xtask::package::{self, About, PROCESSORS, Processor, oci};
use xtask::root;

use crate::check::cross;
use crate::command;
use crate::environment::python;

/// The limit of a program's size.
const PROGRAM_BYTES_MAX: u64 = 20 << 20;
/// The runtimes of Linux that a build from source leaves out, because they lengthen it.
const FEATURES: &str = "compio,monoio";

/// Builds the programs and their packages, and returns the folder of the packages.
pub fn build() -> anyhow::Result<PathBuf> {
    // Other users run what packages install.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let (interpreter, about, folder) = (python::prepare()?, about()?, root().join("target/package"));
    xtask::create_empty_folder(&folder)?;
    let mut programs = Vec::new();
    for processor in PROCESSORS {
        programs.push((processor, program(processor, &interpreter, &folder)?));
    }
    let (_, native) =
        programs.iter().find(|(it, _)| it.name == std::env::consts::ARCH).context("an unknown processor")?;
    for (processor, program) in &programs {
        let work = tempfile::tempdir()?;
        let (version, name) = (&about.version, processor.name);
        let portable = work.path().join(format!("muxbench-{version}-{name}-linux"));
        package::portable(program, native, &portable)?;
        package::archive(&portable, &folder.join(format!("muxbench-{version}-{name}-linux.tar.gz")))?;
        let deb = folder.join(format!("muxbench_{version}_{}.deb", processor.debian));
        package::deb(&about, *processor, &portable, &deb)?;
    }
    oci::image(&about, &programs, &folder.join(format!("muxbench-{}-oci.tar", about.version)))?;
    let entries = fs::read_dir(&folder)?.flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let digests = command::output(Command::new("sha256sum").args(&names).current_dir(&folder))?;
    xtask::write(&folder.join("SHA256SUMS"), digests)?;
    Ok(folder)
}

/// Has maturin build the static program for a processor and its wheel, which goes to `folder`. Returns the program.
fn program(processor: Processor, interpreter: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-musl", processor.name);
    cross::add(&target)?;
    let tools = cross::tools(interpreter)?;
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.args(["build", "--locked", "--zig", "--profile", "dist", "--target", &target, "--features", FEATURES]);
    // A static program runs with every C library, so it belongs to both kinds of Linux.
    maturin.args(["--compatibility", "manylinux2014", "musllinux_1_1", "--out"]).arg(folder);
    cross::step(maturin.current_dir(root().join("python")), tools)?;
    let program = cross::folder().join(&target).join("dist").join("muxbench");
    let bytes = program.metadata().with_context(|| program.display().to_string())?.len();
    ensure!(
        bytes <= PROGRAM_BYTES_MAX,
        "{} has {bytes} bytes, more than the limit of {PROGRAM_BYTES_MAX}; look for the largest parts with `cargo bloat`",
        program.display()
    );
    Ok(program)
}

fn about() -> anyhow::Result<About> {
    let mut metadata = cargo_metadata::MetadataCommand::new();
    let metadata = metadata.current_dir(root()).no_deps().other_options(["--locked".into()]).exec()?;
    let package = metadata.packages.into_iter().find(|it| it.name == "muxbench").context("no package muxbench")?;
    Ok(About { version: package.version.to_string(), summary: package.description.context("no description")? })
}
