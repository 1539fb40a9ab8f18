//! `cargo xtask package`: builds all packages in `target/package`. They contain the same static programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::package::{About, Contents, PROCESSORS, Processor, deb, gzip, oci, read_folder, sha256, tar, wheel};
use xtask::root;

use crate::check::cross;
use crate::command;
use crate::environment::python;

/// The limit of a program's size.
const PROGRAM_BYTES_MAX: usize = 20 << 20;
/// The runtimes of Linux that a build from source leaves out, because they lengthen it.
const FEATURES: &str = "compio,monoio";

/// Builds the programs and their packages, and returns the folder of the packages.
pub fn build() -> anyhow::Result<PathBuf> {
    let interpreter = python::prepare()?;
    let mut programs = Vec::new();
    for processor in PROCESSORS {
        programs.push((processor, program(processor, &interpreter)?));
    }
    let about = about()?;
    let folder = root().join("target/package");
    xtask::create_empty_folder(&folder)?;
    let (manual, completions) = documents()?;
    let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
    let licences = licences.map(|name| Ok((name.to_owned(), fs::read(root().join(name)).context(name)?)));
    let licences: Vec<_> = licences.into_iter().collect::<anyhow::Result<_>>()?;
    let mut packages = Vec::new();
    for (processor, program) in &programs {
        let contents = Contents {
            program: program.clone(),
            manual: manual.clone(),
            completions: completions.clone(),
            licences: licences.clone(),
        };
        let name = format!("muxbench-{}-{}-linux", about.version, processor.name);
        packages.push((format!("{name}.tar.gz"), gzip(&tar(&contents.portable(&name))?)));
        let deb = format!("muxbench_{}_{}.deb", about.version, processor.debian);
        packages.push((deb, deb::package(&about, *processor, &contents)?));
        packages.push((wheel::file_name(&about, *processor), wheel::wheel(&about, *processor, program)));
    }
    let programs: Vec<_> = programs.iter().map(|(processor, program)| (*processor, &**program)).collect();
    packages.push((format!("muxbench-{}-oci.tar", about.version), oci::image(&about, &programs)?));
    let mut digests = String::new();
    for (name, bytes) in packages {
        println!("{:8.1} MiB  {name}", bytes.len() as f64 / f64::from(1 << 20));
        digests += &format!("{}  {name}\n", sha256(&bytes));
        fs::write(folder.join(&name), bytes).context(name)?;
    }
    fs::write(folder.join("SHA256SUMS"), digests).context("SHA256SUMS")?;
    Ok(folder)
}

/// Builds the static program for a processor and returns it.
fn program(processor: Processor, interpreter: &Path) -> anyhow::Result<Vec<u8>> {
    let target = format!("{}-unknown-linux-musl", processor.name);
    let path = cross::build(&target, "dist", FEATURES, interpreter)?;
    let program = fs::read(&path).with_context(|| path.display().to_string())?;
    ensure!(
        program.len() <= PROGRAM_BYTES_MAX,
        "{} has {} bytes, more than the limit of {PROGRAM_BYTES_MAX}; look for the largest parts with `cargo bloat`",
        path.display(),
        program.len()
    );
    Ok(program)
}

fn about() -> anyhow::Result<About> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .other_options(["--locked".into()])
        .exec()?;
    let package =
        metadata.packages.into_iter().find(|package| package.name == "muxbench").context("no package muxbench")?;
    Ok(About { version: package.version.to_string(), summary: package.description.context("no description")? })
}

/// Returns the manual pages and the completions, which the program for this host prints.
fn documents() -> anyhow::Result<(Vec<(String, Vec<u8>)>, [Vec<u8>; 3])> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let program = cross::program(&target, "dist");
    let manual = tempfile::tempdir()?;
    command::run(Command::new(&program).args(["man", "--output"]).arg(manual.path()))?;
    let mut completions = [const { Vec::new() }; 3];
    for (shell, text) in ["bash", "fish", "zsh"].iter().zip(&mut completions) {
        *text = command::output(Command::new(&program).args(["completions", shell]))?.into_bytes();
    }
    Ok((read_folder(manual.path())?, completions))
}
