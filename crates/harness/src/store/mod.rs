//! A run's folder: `run.json` (what was planned, on which host), `muxbench.db` (a row and a record for each finished
//! trial), `samples/NNNN.parquet` (its raw samples), `histograms/NNNN.hlog` (its histograms, for HdrHistogram's tools).
//! Each trial is committed as it ends, and is on the disk then. What is damaged is told, and what else there is can be read.
//!
//! # Layout
//! - `begin`: a run's folder before there is a trial
//! - `database`: what is in `muxbench.db`, and how it is opened
//! - `rows`: what the database says
//! - `found`: a run as it is found, damaged or not
//! - `salvage`: what becomes of a damaged one when somebody goes on with it
//! - `folders`: where runs are, and who writes one

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

/// A run that is being written. Only one process may.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    database: Connection,
    /// Locked as long as this lives.
    _lock: File,
}

impl Store {
    /// Begins a run in a new folder, or in one that a run was only about to begin in.
    ///
    /// # Errors
    /// When the folder is there already and not empty, another's, or cannot be made: nothing that was made is left then.
    pub fn create(folder: &Path, header: &RunHeader) -> anyhow::Result<Self> {
        let (database, lock) = begin::begin(folder, header)?;
        Ok(Self { folder: folder.to_owned(), database, _lock: lock })
    }

    /// Goes on with a stopped run; what it has is read too. A damaged database is put aside, and what can be read of it goes
    /// into another; a damaged run.json is written anew; drafts that were left are removed.
    ///
    /// # Errors
    /// When it is not there, another's, cannot be read at all, or is being written by another process.
    pub fn resume(folder: &Path) -> anyhow::Result<(Self, Run)> {
        header(folder)?;
        files::ours(folder)?;
        for inner in ["samples", "histograms"].map(|name| folder.join(name)) {
            if fs::symlink_metadata(&inner).is_ok() {
                files::ours(&inner)?;
            }
        }
        let lock = folders::lock(folder)?;
        // Not before: who held the lock may have committed a trial.
        let Found { run, text, is_header_damaged, is_database_damaged } = found::look(folder)?;
        if is_database_damaged {
            salvage::put_aside(folder, &text, &run.records)?;
        }
        salvage::remove_drafts(folder);
        let database = database::open(folder, Access::Write)?;
        database.busy_timeout(database::COMMIT_PATIENCE)?;
        database::complete(&database, &text).map_err(|error| database::explained(folder, error))?;
        if is_header_damaged {
            folders::write_header(folder, &text)?;
        }
        Ok((Self { folder: folder.to_owned(), database, _lock: lock }, run))
    }

    /// Says anew what the run is; what is finished stays.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(header)?;
        database::put_header(&self.database, &text).map_err(|error| database::explained(&self.folder, error))?;
        folders::write_header(&self.folder, &text)
    }

    /// Where a trial's samples go while it is not committed.
    pub fn samples_draft(&self, trial: u32) -> PathBuf {
        samples_path(&self.folder, trial).with_extension("part")
    }

    /// Commits a finished trial, with the samples that are in its draft.
    ///
    /// # Errors
    /// When the disk is full or the database is locked: of this trial nothing is left then.
    pub fn commit(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = record.trial.index;
        // Files first: what is in the database is whole.
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

    /// A client that did not get to its report did not get to the end of its samples.
    fn keep_samples(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let (draft, path) = (self.samples_draft(record.trial.index), samples_path(&self.folder, record.trial.index));
        if record.load.is_none() {
            // Nor has it those of an attempt that was killed before it was committed.
            [draft, path].iter().for_each(|file| drop(fs::remove_file(file)));
        } else if draft.exists() {
            files::keep(&draft, &path).with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        Ok(())
    }

    /// Under another name first, so that a log is whole, or not there. A trial whose client gave no account has none.
    fn write_histograms(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = &record.trial;
        let path = histograms_path(&self.folder, trial.index);
        let Some(load) = &record.load else {
            // One may be left of an attempt that was killed before it was committed.
            let _ = fs::remove_file(path);
            return Ok(());
        };
        let place = || format!("{}: cannot write the histograms; is the disk full?", path.display());
        let comment = format!(
            "muxbench trial {}: {}, {} {}, {}, repeat {}",
            trial.index,
            trial.architecture,
            trial.workload.connections,
            trial.workload.targets(),
            trial.workload.rate_per_s.map_or("closed loop".into(), |rate_per_s| format!("{rate_per_s} requests/s")),
            trial.repeat
        );
        // The trial's start: nobody has recorded when by the calendar its window began.
        let start: jiff::Timestamp = record.started_at.parse().with_context(place)?;
        let window = Duration::from_nanos(load.window_ns);
        let histograms = [
            ("lag", &load.lag.histogram),
            ("service", &load.service.histogram),
            ("response", &load.response.histogram),
        ];
        let mut log = Vec::new();
        stats::log::write_log(&mut log, &comment, start.into(), window, &histograms).with_context(place)?;
        // Here, for a run that an earlier version began has no such folder.
        let folder = self.folder.join("histograms");
        if fs::create_dir(&folder).is_ok() {
            files::sync_folder(&self.folder).with_context(place)?;
        }
        files::write(&path.with_extension("part"), &path, &log).with_context(place)
    }
}

/// Where a trial's samples are.
pub fn samples_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("samples/{trial:04}.parquet"))
}

/// Where a trial's histograms are.
pub fn histograms_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("histograms/{trial:04}.hlog"))
}
