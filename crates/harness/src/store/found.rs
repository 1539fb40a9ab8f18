//! A run as it is found. What is damaged is told, and what else there is can be read.

use std::io;
use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;

use super::database::{self, Access};
use super::rows;
use crate::files;
use crate::model::{Run, RunHeader, TrialRecord};

/// Reads a run, finished or not. Of one that is damaged, what can be read.
///
/// # Errors
/// When it is not there, nothing of it can be read, or another program keeps it locked.
pub fn read(folder: &Path) -> anyhow::Result<Run> {
    Ok(look(folder)?.run)
}

/// What the run in a folder is.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn header(folder: &Path) -> anyhow::Result<RunHeader> {
    let database = database::open(folder, Access::Read).ok();
    Ok(headed(folder, database.as_ref())?.header)
}

/// A run as it was found.
pub(super) struct Found {
    pub(super) run: Run,
    /// What its run.json says, or should.
    pub(super) text: String,
    pub(super) is_header_damaged: bool,
    pub(super) is_database_damaged: bool,
}

pub(super) fn look(folder: &Path) -> anyhow::Result<Found> {
    let database = database::open(folder, Access::Read);
    let Headed { header, text, damage: of_header, damage_of_copy } = headed(folder, database.as_ref().ok())?;
    let database = database?;
    let (texts, mut damage) = rows::texts(&database, folder).map_err(|error| database::explained(folder, error))?;
    damage.extend(damage_of_copy);
    let checksums = match rows::checksums(&database) {
        Err(error) if database::is_locked(&error) => return Err(database::explained(folder, error)),
        Err(error) => {
            damage.push(format!(
                "the checksums cannot be read ({error}): whether records are what was written is not known"
            ));
            None
        }
        Ok(checksums) => checksums,
    };
    let mut records = Vec::new();
    for (trial, text) in texts {
        let checksum = checksums.as_ref().map(|checksums| checksums.get(&trial).copied());
        match record(trial, &text, checksum.flatten()) {
            Ok(record) => records.push(record),
            Err(what) => {
                damage.push(format!("trial {trial} is left out: {what}"));
                continue;
            }
        }
        if checksum == Some(None) {
            damage.push(format!("trial {trial} has no checksum: whether its record is what was written is not known"));
        }
    }
    let (is_header_damaged, is_database_damaged) = (of_header.is_some(), !damage.is_empty());
    let damage = of_header.into_iter().chain(damage).collect();
    Ok(Found { run: Run { header, records, damage }, text, is_header_damaged, is_database_damaged })
}

/// What a run is, and what is damaged of that.
struct Headed {
    header: RunHeader,
    text: String,
    /// Of run.json.
    damage: Option<String>,
    /// Of what the database has of it.
    damage_of_copy: Option<String>,
}

/// What run.json says; where that is not what was written, the database's copy of it.
fn headed(folder: &Path, database: Option<&Connection>) -> anyhow::Result<Headed> {
    let path = folder.join("run.json");
    let json = match files::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error).with_context(|| {
            format!("{}: no run is there; name a folder that `compare` or `run` made", folder.display())
        })?,
        read => read.with_context(|| path.display().to_string())?,
    };
    let said = String::from_utf8(json).map_err(anyhow::Error::from);
    let said = said.and_then(|text| Ok((serde_json::from_str::<RunHeader>(&text)?, text)));
    let said = said.with_context(|| format!("{}: not written by this version, or damaged", path.display()));
    let (copy, damage_of_copy) = match database.map(rows::copy_of_header) {
        Some(Ok(copy)) => (copy, None),
        Some(Err(what)) => (None, Some(format!("what run.json says is damaged in the database ({what})"))),
        None => (None, None),
    };
    match (said, copy) {
        (Ok((header, text)), copy) if copy.as_ref().is_none_or(|copy| *copy == text) => {
            Ok(Headed { header, text, damage: None, damage_of_copy })
        }
        (Ok(_), Some(text)) => {
            let damage = "run.json is not what was written: what is shown is what the database has of it".to_owned();
            Ok(Headed { header: serde_json::from_str(&text)?, text, damage: Some(damage), damage_of_copy })
        }
        (Err(error), Some(text)) => {
            // One of another version is no better in the database.
            let Ok(header) = serde_json::from_str(&text) else { return Err(error) };
            let damage = format!("run.json is damaged ({}): the database has what it said", error.root_cause());
            Ok(Headed { header, text, damage: Some(damage), damage_of_copy })
        }
        (Err(error), None) => Err(error),
        (Ok(_), None) => unreachable!("without a copy it is what it is"),
    }
}

/// A trial's record of its text, or what is the matter with it.
fn record(trial: u32, text: &[u8], checksum: Option<u32>) -> Result<TrialRecord, String> {
    if checksum.is_some_and(|checksum| checksum != crc32fast::hash(text)) {
        return Err("its record is not what was written".into());
    }
    let record: TrialRecord =
        serde_json::from_slice(text).map_err(|error| format!("its record is damaged ({error})"))?;
    if record.trial.index != trial {
        return Err(format!("its record is of trial {}", record.trial.index));
    }
    Ok(record)
}
