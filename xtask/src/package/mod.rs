//! Formats of packages. Packages contain no times, so the same files give the same bytes.
//!
//! - `archive`: tar, gzip, and the files of a package
//! - [`deb`]: Debian packages; [`oci`]: container images; [`wheel`]: Python wheels

mod archive;
pub mod deb;
pub mod oci;
#[cfg(test)]
mod tests;
pub mod wheel;

use std::fs;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

pub use archive::{Entry, gzip, tar};

/// A processor for which there are packages.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// The name in rustc, and in the platform of a wheel.
    pub name: &'static str,
    /// The name in Debian, and in container images.
    pub debian: &'static str,
}

/// All processors.
pub const PROCESSORS: [Processor; 2] =
    [Processor { name: "x86_64", debian: "amd64" }, Processor { name: "aarch64", debian: "arm64" }];

/// The description of muxbench in packages.
#[derive(Clone, Debug)]
pub struct About {
    /// The version.
    pub version: String,
    /// The description, on one line.
    pub summary: String,
}

/// The program and its documents.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The program.
    pub program: Vec<u8>,
    /// The manual pages: the name of each file, and its text.
    pub manual: Vec<(String, Vec<u8>)>,
    /// The completions of bash, fish and zsh, in this order.
    pub completions: [Vec<u8>; 3],
    /// The licences.
    pub licences: Vec<(String, Vec<u8>)>,
}

impl Contents {
    /// The files of an archive that users unpack anywhere, in a folder of this name.
    pub fn portable(&self, folder: &str) -> Vec<Entry> {
        let named =
            |place: &str, (name, bytes): &(String, Vec<u8>)| Entry::file(format!("{folder}/{place}{name}"), bytes);
        let shells = ["muxbench.bash", "muxbench.fish", "_muxbench"];
        let completions = shells.iter().zip(&self.completions);
        let mut entries = vec![Entry::program(format!("{folder}/muxbench"), &self.program)];
        entries.extend(self.licences.iter().map(|file| named("", file)));
        entries.extend(self.manual.iter().map(|file| named("man/", file)));
        entries.extend(completions.map(|(name, bytes)| Entry::file(format!("{folder}/completions/{name}"), bytes)));
        entries
    }
}

/// Returns the SHA-256 of bytes as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the files of a folder, sorted by name.
///
/// # Errors
/// When a file cannot be read.
pub fn read_folder(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let place = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(place)? {
        let entry = entry.with_context(place)?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).with_context(place)?));
    }
    files.sort();
    Ok(files)
}
