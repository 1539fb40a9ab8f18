//! A run's folder: `run.json` (the plan and the host), `muxbench.db` (a row and a record for each finished trial),
//! `samples/NNNN.parquet` (raw samples), `histograms/NNNN.hlog` (histograms for HdrHistogram's tools). Each trial is committed to
//! the disk as it ends. Damage is reported, and everything else remains readable.
//!
//! # Layout
//! - here: writing a run
//! - `folders`: the folders of runs, and the lock of a run
//! - `database`: the schema of `muxbench.db`, and opening it; `rows`: reading it
//! - `begin`: makes a run's folder
//! - `found`: reads a run, damaged or not; `salvage`: repairs a damaged one

mod begin;
mod database;
mod folders;
mod found;
mod rows;
mod salvage;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::Connection;

use crate::files;
use crate::model::{Run, RunHeader, TrialRecord};
use database::Access;
use found::Found;

pub use folders::{is_run, latest, runs};
pub use found::{header, read};

/// A run that is being written, by one process at a time.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    database: Connection,
    /// Holds the lock.
    _lock: File,
}

impl Store {
    /// Begins a run in a new or empty folder.
    ///
    /// # Errors
    /// When the folder is not empty, belongs to another user or cannot be made. Everything that was made is removed then.
    pub fn create(folder: &Path, header: &RunHeader) -> anyhow::Result<Self> {
        let (database, lock) = begin::begin(folder, header)?;
        Ok(Self { folder: folder.to_owned(), database, _lock: lock })
    }

    /// Opens a stopped run and reads it. A damaged database is set aside and replaced by one with everything readable, a damaged
    /// run.json is rewritten, and drafts are removed.
    ///
    /// # Errors
    /// When the run does not exist, belongs to another user, is unreadable, or another process is writing it.
    pub fn resume(folder: &Path) -> anyhow::Result<(Self, Run)> {
        header(folder)?;
        files::check_ours(folder)?;
        for inner in ["samples", "histograms"].map(|name| folder.join(name)) {
            if fs::symlink_metadata(&inner).is_ok() {
                files::check_ours(&inner)?;
            }
        }
        let lock = folders::lock(folder)?;
        // Read only now: the previous holder of the lock may have committed a trial.
        let Found { run, text, is_header_damaged, is_database_damaged } = found::look(folder)?;
        if is_database_damaged {
            salvage::put_aside(folder, &text, &run.records)?;
        }
        salvage::remove_drafts(folder);
        let database = database::open(folder, Access::Write)?;
        database.busy_timeout(database::COMMIT_TIMEOUT)?;
        database::complete(&database, &text).map_err(|error| database::explained(folder, error))?;
        if is_header_damaged {
            folders::write_header(folder, &text)?;
        }
        Ok((Self { folder: folder.to_owned(), database, _lock: lock }, run))
    }

    /// Replaces the header; finished trials remain.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(header)?;
        database::put_header(&self.database, &text).map_err(|error| database::explained(&self.folder, error))?;
        folders::write_header(&self.folder, &text)
    }

    /// The file for the samples of a trial that is not committed.
    pub fn samples_draft(&self, trial: u32) -> PathBuf {
        samples_path(&self.folder, trial).with_extension("part")
    }

    /// Commits a finished trial with the samples in its draft.
    ///
    /// # Errors
    /// When the disk is full or the database is locked. Nothing of this trial remains then.
    pub fn commit(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = record.trial.index;
        // Files first, so that every trial in the database is complete.
        let committed = self.keep_samples(record).and_then(|()| self.write_histograms(record)).and_then(|()| {
            database::insert(&self.database, [record]).map_err(|error| database::explained(&self.folder, error))
        });
        if committed.is_err() {
            let (samples, histograms) = (samples_path(&self.folder, trial), histograms_path(&self.folder, trial));
            for file in [self.samples_draft(trial), samples, histograms.with_extension("part"), histograms] {
                let _ = fs::remove_file(file);
            }
        }
        committed.with_context(|| format!("{}: cannot commit trial {trial}", self.folder.display()))
    }

    /// Keeps the samples of a trial with a report; without a report they are incomplete.
    fn keep_samples(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let (draft, path) = (self.samples_draft(record.trial.index), samples_path(&self.folder, record.trial.index));
        if record.load.is_none() {
            // An earlier attempt may have been killed before its commit.
            [draft, path].iter().for_each(|file| drop(fs::remove_file(file)));
        } else if draft.exists() {
            files::keep(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the histograms of a trial with a report, completely or not at all.
    fn write_histograms(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = &record.trial;
        let path = histograms_path(&self.folder, trial.index);
        let Some(load) = &record.load else {
            // An earlier attempt may have been killed before its commit.
            let _ = fs::remove_file(path);
            return Ok(());
        };
        let place = || format!("{}: cannot write the histograms; check free space", path.display());
        let comment = format!(
            "muxbench trial {}: {}, {} {}, {}, repeat {}",
            trial.index,
            trial.architecture,
            trial.workload.connections,
            trial.workload.targets(),
            trial.workload.rate_per_s.map_or("closed loop".into(), |rate_per_s| format!("{rate_per_s} requests/s")),
            trial.repeat
        );
        // The start of the trial: the calendar time of its window is not recorded.
        let start: jiff::Timestamp = record.started_at.parse().with_context(place)?;
        let window = Duration::from_nanos(load.window_ns);
        let histograms = [
            ("lag", &load.send_delay.histogram),
            ("service", &load.service.histogram),
            ("response", &load.response.histogram),
        ];
        let mut log = Vec::new();
        stats::log::write_log(&mut log, &comment, start.into(), window, &histograms).with_context(place)?;
        // A run that an earlier version began has no such folder.
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
