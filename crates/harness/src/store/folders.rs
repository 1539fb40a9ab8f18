//! The folders of runs, and the lock of a run.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::files;

/// The timeout for the lock if another process holds it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let place = || format!("cannot write {}; check the owner and the permissions of the folder", path.display());
    let started = Instant::now();
    loop {
        let file = files::create_or_open(&path).with_context(place)?;
        let ours = file.metadata().with_context(place)?;
        let is_same_file =
            || fs::symlink_metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == (ours.dev(), ours.ino()));
        match file.try_lock() {
            Ok(()) if is_same_file() => return Ok(file),
            // Another process has removed the file, or a killed or forked process still holds the lock.
            Ok(()) | Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(Duration::from_millis(10));
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {
                bail!("{}: another muxbench is writing this run; wait for it or stop it", folder.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
}

pub(super) fn write_header(folder: &Path, text: &str) -> anyhow::Result<()> {
    let path = folder.join("run.json");
    let place = || format!("cannot write {}; check free space", path.display());
    files::write(&folder.join("run.json.part"), &path, text.as_bytes()).with_context(place)
}

/// Whether a folder contains a run, readable or not.
pub fn is_run(folder: &Path) -> bool {
    folder.join("run.json").exists()
}

/// The folders of runs at and below `folder`, sorted by name.
pub fn runs(folder: &Path) -> Vec<PathBuf> {
    /// `reproduce` makes a folder for each paper, with a folder for each experiment.
    const DEPTH_MAX: usize = 3;
    fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        if is_run(folder) {
            found.push(folder.to_owned());
        } else if depth < DEPTH_MAX {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            // Skip links, which may form a cycle, and drafts, which are hidden.
            let is_hidden = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
            let folders = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()) && !is_hidden(it));
            let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
            folders.sort();
            folders.iter().for_each(|path| look(path, depth + 1, found));
        }
    }
    let mut found = Vec::new();
    look(folder, 0, &mut found);
    found
}

/// The run below `results` that began last.
pub fn latest(results: &Path) -> anyhow::Result<PathBuf> {
    let none = || format!("{}: contains no run; make one with `muxbench compare`", results.display());
    runs(results).into_iter().max_by_key(|folder| (began(folder), folder.clone())).with_context(none)
}

/// A run's start, to the second, and the time at which run.json was written. Both are the time of writing if run.json is
/// unreadable.
fn began(folder: &Path) -> Option<(SystemTime, SystemTime)> {
    #[derive(Deserialize)]
    struct Begun {
        started_at: jiff::Timestamp,
    }
    let path = folder.join("run.json");
    let written = fs::metadata(&path).and_then(|it| it.modified()).ok()?;
    let begun = files::read(&path).ok().and_then(|text| serde_json::from_slice::<Begun>(&text).ok());
    Some((begun.map_or(written, |it| it.started_at.into()), written))
}
