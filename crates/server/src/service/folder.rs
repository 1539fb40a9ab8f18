//! The files of a folder as content of `http`, read into memory before the first request.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use walkdir::WalkDir;
use wire::http::Content;

use crate::regular;

/// The largest total size of a folder's files.
pub const FOLDER_BYTES_MAX: u64 = 1 << 30;

/// Reads all files below `folder`, and follows links that stay within it. Fails for other links, for unreadable and irregular
/// files, and for folders above [`FOLDER_BYTES_MAX`]. The error names the path.
pub(crate) fn read(folder: &Path) -> io::Result<Content> {
    read_at_most(folder, FOLDER_BYTES_MAX)
}

fn read_at_most(folder: &Path, most_bytes: u64) -> io::Result<Content> {
    let root = fs::canonicalize(folder).map_err(|error| error_at(folder, &error))?;
    if !root.is_dir() {
        return Err(error_at(folder, "not a folder; name a folder, or omit it to serve /bytes/N"));
    }
    let (mut files, mut left_bytes) = (Vec::new(), most_bytes);
    // The walk fails at a cycle of links.
    for entry in WalkDir::new(&root).follow_links(true).sort_by_file_name() {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type());
        if entry.path_is_symlink() {
            let target = fs::canonicalize(path).map_err(|error| error_at(path, &error))?;
            if !target.starts_with(&root) {
                let why = "the link leads out of the folder, to";
                return Err(error_at(path, format!("{why} {}; copy its target, or remove it", target.display())));
            }
        }
        if kind.is_dir() {
            continue;
        }
        if !kind.is_file() {
            return Err(error_at(path, "neither a file nor a folder; remove it"));
        }
        let mut bytes = Vec::new();
        let file = regular::open(path).map_err(|error| error_at(path, &error))?;
        file.take(left_bytes + 1).read_to_end(&mut bytes).map_err(|error| error_at(path, &error))?;
        left_bytes = left_bytes.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let mib = most_bytes >> 20;
            error_at(path, format!("the folder exceeds the limit of {mib} MiB in memory; remove files"))
        })?;
        let name = path.strip_prefix(&root).expect("the walk is below the root");
        files.push((OsStr::as_bytes(name.as_os_str()).to_vec(), bytes));
    }
    if files.is_empty() {
        return Err(error_at(folder, "the folder has no files; add one"));
    }
    Content::files(files).map_err(|error| error_at(folder, error))
}

fn error_at(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal(folder: &Path) -> String {
        read_at_most(folder, 1 << 20).expect_err("the folder is rejected").to_string()
    }

    #[test]
    fn unusable_content_is_refused_with_its_path() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path()).contains("has no files"));
        assert!(refusal(&folder.path().join("none")).contains("none: No such file"));
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a.txt"), "a").unwrap();
        assert!(refusal(&folder.path().join("sub/a.txt")).contains("a.txt: not a folder"));
        symlink("sub/a.txt", folder.path().join("inside")).unwrap();
        symlink("sub", folder.path().join("also-inside")).unwrap();
        assert!(read_at_most(folder.path(), 3).is_ok());
        assert!(read_at_most(folder.path(), 2).unwrap_err().to_string().contains("exceeds the limit"));

        let bad = folder.path().join("bad");
        for target in ["secret", "", "../"] {
            symlink(outside.path().join(target), &bad).unwrap();
            let error = refusal(folder.path());
            assert!(error.contains("bad: the link leads out of the folder, to /"), "{error}");
            fs::remove_file(&bad).unwrap();
        }
        symlink("nowhere", &bad).unwrap();
        assert!(refusal(folder.path()).contains("bad"));
        fs::remove_file(&bad).unwrap();
        symlink(".", &bad).unwrap();
        assert!(refusal(folder.path()).contains("bad"));
        fs::remove_file(&bad).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&bad).unwrap();
        assert!(refusal(folder.path()).contains("bad: neither a file nor a folder"));
    }
}
