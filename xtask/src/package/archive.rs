//! Archives: tar and gzip.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// A file or a folder of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The path. That of a folder ends with `/`.
    pub path: String,
    /// The permissions.
    pub mode: u32,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl Entry {
    /// Returns a file that everybody may read.
    pub fn file(path: impl Into<String>, bytes: &[u8]) -> Self {
        Self { path: path.into(), mode: 0o644, bytes: bytes.to_owned() }
    }

    /// Returns a file that everybody may run.
    pub fn program(path: impl Into<String>, bytes: &[u8]) -> Self {
        Self { mode: 0o755, ..Self::file(path, bytes) }
    }

    /// Returns a folder.
    pub fn folder(path: &str, mode: u32) -> Self {
        Self { path: format!("{path}/"), mode, bytes: Vec::new() }
    }
}

/// Returns a tar archive of files that belong to root, with the folders that contain them.
///
/// # Errors
/// When a path is too long.
pub fn tar(entries: &[Entry]) -> io::Result<Vec<u8>> {
    // The order of paths puts folders before their files.
    let mut all = BTreeMap::new();
    for entry in entries {
        let parents = Path::new(&entry.path).ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for folder in parents.map(|parent| Entry::folder(&parent.to_string_lossy(), 0o755)) {
            all.entry(folder.path.clone()).or_insert(folder);
        }
        all.insert(entry.path.clone(), entry.clone());
    }
    let mut archive = Builder::new(Vec::new());
    for (path, Entry { mode, bytes, .. }) in &all {
        let mut header = Header::new_ustar();
        header.set_entry_type(if path.ends_with('/') { EntryType::Directory } else { EntryType::Regular });
        header.set_mode(*mode);
        header.set_size(bytes.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, path, &**bytes)?;
    }
    archive.into_inner()
}

/// Compresses bytes. The header has neither a time nor a name.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing to memory does not fail")
}
