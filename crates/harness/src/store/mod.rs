//! A run's folder: `run.json` (the plan and the host), `muxbench.db` (a row and a record for each finished trial),
//! `samples/NNNN.parquet` (raw samples), `histograms/NNNN.hlog` (histograms for HdrHistogram's tools). A trial is committed to
//! the disk as it ends. Readers report damage and read everything else.

mod begin;
mod database;
mod folders;
mod found;
mod rows;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use load::LoadResult;
use rusqlite::Connection;
use server::regular;

use crate::files;
use crate::record::{Run, RunHeader, TrialRecord};
use database::Access;
use found::StoredRun;

pub use database::{SCHEMA, SCHEMA_VERSION};
pub use folders::{is_run, latest, runs};
pub use found::{header, read};

/// A run that is being written, by one process at a time.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    database: Connection,
    _lock: File,
}

impl Store {
    /// Begins a run in a new or empty folder of this user. If this fails, everything that it created is removed.
    pub fn create(folder: &Path, header: &RunHeader) -> anyhow::Result<Self> {
        let (database, lock) = begin::begin(folder, header)?;
        Ok(Self { folder: folder.to_owned(), database, _lock: lock })
    }

    /// Locks a stopped run of this user and reads it. Sets a damaged database aside and writes a new one with the readable
    /// trials. Rewrites a damaged run.json, and removes temporary files (`*.part`).
    pub fn resume(folder: &Path) -> anyhow::Result<(Self, Run)> {
        header(folder)?;
        files::check_ours(folder)?;
        for inner in ["samples", "histograms"].map(|name| folder.join(name)) {
            if fs::symlink_metadata(&inner).is_ok() {
                files::check_ours(&inner)?;
            }
        }
        let lock = folders::lock(folder)?;
        // Read after locking: the previous holder of the lock may have committed a trial.
        let StoredRun { run, text, is_header_damaged, is_database_damaged } = found::look(folder)?;
        if is_database_damaged {
            put_aside(folder, &text, &run.records)?;
        }
        remove_drafts(folder);
        let database = database::open(folder, Access::Write)?;
        database.busy_timeout(database::COMMIT_TIMEOUT)?;
        if is_header_damaged {
            folders::write_header(folder, &text)?;
        }
        Ok((Self { folder: folder.to_owned(), database, _lock: lock }, run))
    }

    /// Replaces the header. Finished trials remain.
    pub fn replace_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(header)?;
        database::put_header(&self.database, &text).map_err(|error| database::explained(&self.folder, error))?;
        folders::write_header(&self.folder, &text)
    }

    /// The file for the samples of an uncommitted trial.
    pub fn samples_draft(&self, trial: u32) -> PathBuf {
        samples_path(&self.folder, trial).with_extension("part")
    }

    /// Commits a finished trial with the samples in its draft. If this fails, nothing of the trial remains.
    pub fn commit(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = record.trial.index;
        let [samples, histograms] = [samples_path, histograms_path].map(|path| path(&self.folder, trial));
        let files = [self.samples_draft(trial), samples, histograms.with_extension("part"), histograms];
        let remove = || files.iter().for_each(|file| drop(fs::remove_file(file)));
        // Files come first, so that every trial in the database is complete.
        let written = match &record.load {
            Some(load) => self.keep_samples(trial).and_then(|()| self.write_histograms(record, load)),
            // An earlier attempt that was killed before its commit may have left files.
            None => {
                remove();
                Ok(())
            }
        };
        let insert = || database::insert(&self.database, std::slice::from_ref(record));
        let committed = written.and_then(|()| insert().map_err(|error| database::explained(&self.folder, error)));
        if committed.is_err() {
            remove();
        }
        committed.with_context(|| format!("{}: cannot commit trial {trial}", self.folder.display()))
    }

    fn keep_samples(&self, trial: u32) -> anyhow::Result<()> {
        let (draft, path) = (self.samples_draft(trial), samples_path(&self.folder, trial));
        if !draft.exists() {
            return Ok(());
        }
        files::keep(&draft, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn write_histograms(&self, record: &TrialRecord, load: &LoadResult) -> anyhow::Result<()> {
        let trial = &record.trial;
        let path = histograms_path(&self.folder, trial.index);
        let place = || format!("{}: cannot write the histograms; check free space", path.display());
        let comment = format!(
            "muxbench trial {}: {}, {} {}, {}, repeat {}",
            trial.index,
            trial.architecture,
            trial.workload.connections,
            trial.workload.targets(),
            trial.workload.rate_per_s().map_or("closed loop".into(), |rate_per_s| format!("{rate_per_s} requests/s")),
            trial.repeat
        );
        // The window has no calendar time, so use the start of the trial.
        let start: jiff::Timestamp = record.started_at.parse().with_context(place)?;
        let window = Duration::from_nanos(load.window_ns);
        let histograms = [
            ("send_delay", &load.send_delay.histogram),
            ("service", &load.service.histogram),
            ("response", &load.response.histogram),
        ];
        let mut log = Vec::new();
        stats::log::write_log(&mut log, &comment, start.into(), window, &histograms).with_context(place)?;
        let folder = self.folder.join("histograms");
        if fs::create_dir(&folder).is_ok() {
            files::sync_folder(&self.folder).with_context(place)?;
        }
        files::write(&path.with_extension("part"), &path, &log).with_context(place)
    }
}

/// The file of a trial's samples.
pub fn samples_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("samples/{trial:04}.parquet"))
}

/// The file of a trial's histograms.
pub fn histograms_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("histograms/{trial:04}.hlog"))
}

/// Copies a damaged database to an unused name, so that earlier copies remain. Replaces it with a database of these trials.
fn put_aside(folder: &Path, header: &str, records: &[TrialRecord]) -> anyhow::Result<()> {
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

fn remove_drafts(folder: &Path) {
    for folder in [folder.to_owned(), folder.join("samples"), folder.join("histograms")] {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // With several clients, each has its own draft: `*.part-N`.
        let is_draft = |path: &PathBuf| {
            path.extension().is_some_and(|it| it.to_string_lossy().split('-').next() == Some("part")) && path.is_file()
        };
        files.filter(is_draft).for_each(|path| drop(fs::remove_file(path)));
    }
}
