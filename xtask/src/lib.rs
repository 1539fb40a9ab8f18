//! Parts of `cargo xtask` that tests of the source tree use too.

#[cfg(feature = "tools")]
pub mod book;
pub mod command;
pub mod commands;
#[cfg(feature = "tools")]
pub mod cycles;
#[cfg(feature = "tools")]
pub mod package;

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

/// Returns the workspace folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// Returns the paths of all documents: those in the workspace folder, and those below `docs`.
pub fn documents() -> io::Result<Vec<PathBuf>> {
    let top = fs::read_dir(root())?.flatten().map(|entry| entry.path());
    let mut found: Vec<_> = top.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    found.sort();
    found.extend(files(&root().join("docs"), "md")?);
    Ok(found)
}

/// Returns the files below a folder with this extension, sorted; build folders (`target`) are left out.
pub fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the text of a file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Writes a file, in a new folder if necessary.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).and_then(|()| fs::write(path, content)).with_context(|| path.display().to_string())
}

/// Creates an empty folder in place of an existing one.
pub fn create_empty_folder(folder: &Path) -> anyhow::Result<()> {
    let emptied = if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) };
    emptied.and_then(|()| fs::create_dir_all(folder)).with_context(|| folder.display().to_string())
}
