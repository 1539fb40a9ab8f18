//! Repairs a damaged or killed run when it is resumed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use server::regular;

use super::database;
use crate::files;
use crate::record::TrialRecord;

/// Copies a damaged database to an unused name, so that earlier copies remain. Replaces it with a database of these trials.
pub(super) fn put_aside(folder: &Path, header: &str, records: &[TrialRecord]) -> anyhow::Result<()> {
    let (path, draft) = (folder.join("muxbench.db"), folder.join("muxbench.db.part"));
    let place = || format!("cannot replace the damaged {}", path.display());
    let _ = fs::remove_file(&draft);
    database::insert(&database::create(&draft, header).with_context(place)?, records).with_context(place)?;
    let (aside, journal_aside) = unused_aside(folder);
    let mut copy = files::create_new(&aside).with_context(place)?;
    io::copy(&mut regular::open(&path).with_context(place)?, &mut copy).with_context(place)?;
    copy.sync_all().with_context(place)?;
    // SQLite would apply the old journal to the new database.
    let journal = folder.join("muxbench.db-journal");
    if fs::symlink_metadata(&journal).is_ok() {
        fs::rename(journal, journal_aside).with_context(place)?;
    }
    files::keep(&draft, &path).with_context(place)
}

/// Unused names for a damaged database and its journal.
fn unused_aside(folder: &Path) -> (PathBuf, PathBuf) {
    let names = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    let paths = names.map(|end| ["", "-journal"].map(|file| folder.join(format!("muxbench.db.damaged{end}{file}"))));
    let mut unused = paths.filter(|paths| paths.iter().all(|path| fs::symlink_metadata(path).is_err()));
    unused.next().expect("some name is unused").into()
}

pub(super) fn remove_drafts(folder: &Path) {
    for folder in [folder.to_owned(), folder.join("samples"), folder.join("histograms")] {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // With several clients, each has its own draft: `*.part-N`.
        let is_draft = |path: &PathBuf| {
            path.extension().is_some_and(|it| it.to_string_lossy().split('-').next() == Some("part")) && path.is_file()
        };
        files.filter(is_draft).for_each(|path| drop(fs::remove_file(path)));
    }
}
