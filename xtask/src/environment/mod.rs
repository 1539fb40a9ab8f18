//! Programs that tests and benches need besides Rust. Each module installs or builds what is missing.

pub mod browser;
pub mod debian;
pub mod peers;
pub mod python;
pub mod servers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use xtask::root;

/// Installs and builds all of them, with one call of the package manager. Returns the variables in which tests look for them.
pub fn prepare() -> anyhow::Result<[(&'static str, PathBuf); 4]> {
    debian::require(&[python::TOOLS, servers::TOOLS, peers::TOOLS, browser::TOOLS].concat())?;
    Ok([
        (python::VARIABLE, python::prepare()?),
        (servers::VARIABLE, servers::prepare()?),
        (peers::VARIABLE, peers::prepare()?),
        (browser::VARIABLE, browser::prepare()?),
    ])
}

/// Builds the folder `target/NAME`, unless it `is_intact` and its file `mark` shows that it was built from the same
/// `inputs`.
fn build_once(
    name: &str,
    mark: &str,
    inputs: &[PathBuf],
    is_intact: impl FnOnce(&Path) -> bool,
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let folder = root().join("target").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create target/{name}"))?;
    // Test commands must not build the same folder at the same time.
    let lock = root().join("target").join(format!("{name}.lock"));
    let lock_file = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
    lock_file.lock().with_context(|| format!("cannot lock {}", lock.display()))?;
    let mut built_from = String::new();
    for input in inputs {
        built_from += &fs::read_to_string(input).with_context(|| input.display().to_string())?;
    }
    // The mark is written last, so its presence shows a complete folder.
    let mark = folder.join(mark);
    if fs::read_to_string(&mark).is_ok_and(|before| before == built_from) && is_intact(&folder) {
        return Ok(folder);
    }
    eprintln!("== preparing target/{name}");
    build(&folder)?;
    fs::write(&mark, built_from).with_context(|| mark.display().to_string())?;
    Ok(folder)
}
