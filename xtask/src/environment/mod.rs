//! Programs that tests and benches need besides Rust. Each module installs or builds what is missing.

pub mod browser;
pub mod debian;
pub mod peers;
pub mod python;
pub mod servers;

use std::path::PathBuf;

/// Installs and builds all programs; all Debian packages together. Returns environment variables with their paths, for tests.
pub fn prepare() -> anyhow::Result<[(&'static str, PathBuf); 4]> {
    debian::require(&[python::TOOLS, servers::TOOLS, peers::TOOLS, browser::TOOLS].concat())?;
    Ok([
        ("MUXBENCH_PYTHON", python::prepare()?),
        ("MUXBENCH_SERVERS", servers::prepare()?),
        ("MUXBENCH_PEERS", peers::prepare()?),
        ("MUXBENCH_BROWSER", browser::prepare()?),
    ])
}
