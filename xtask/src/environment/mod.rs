//! Programs that tests and benches need besides Rust. Each module installs or builds what is missing.

pub mod browser;
pub mod debian;
pub mod peers;
pub mod python;
pub mod servers;

use std::path::PathBuf;

/// Installs and builds all programs. One `apt-get install` installs all missing Debian packages. Returns environment variables with
/// the programs' paths, for tests.
pub fn prepare() -> anyhow::Result<[(&'static str, PathBuf); 4]> {
    debian::require(&[python::TOOLS, servers::TOOLS, peers::TOOLS, browser::TOOLS].concat())?;
    Ok([
        ("MUXBENCH_PYTHON", python::prepare()?),
        ("MUXBENCH_SERVERS", servers::prepare()?),
        ("MUXBENCH_PEERS", peers::prepare()?),
        ("MUXBENCH_BROWSER", browser::prepare()?),
    ])
}
