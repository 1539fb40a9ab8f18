//! Reads a run. Damage is reported, and everything else remains readable.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use rusqlite::Connection;

use super::database;
use super::rows;
use crate::files;
use crate::record::{Run, RunHeader, TrialRecord};

/// Reads a finished or unfinished run. Omits damaged parts.
pub fn read(folder: &Path) -> anyhow::Result<Run> {
    Ok(look(folder)?.run)
}

/// The header of a run.
pub fn header(folder: &Path) -> anyhow::Result<RunHeader> {
    let database = database::open_to_read(folder).ok();
    Ok(find_header(folder, database.as_ref().map(|(database, _)| database))?.header)
}

pub(super) struct StoredRun {
    pub(super) run: Run,
    /// The text of run.json after repair.
    pub(super) text: String,
    pub(super) is_header_damaged: bool,
    pub(super) is_database_damaged: bool,
}

pub(super) fn look(folder: &Path) -> anyhow::Result<StoredRun> {
    let opened = database::open_to_read(folder);
    let readable = opened.as_ref().ok().map(|(database, _)| database);
    let FoundHeader { header, text, damage: header_damage, copy_damage } = find_header(folder, readable)?;
    let (database, is_cut) = opened?;
    let (texts, texts_damage) = rows::texts(&database, folder).map_err(|error| database::explained(folder, error))?;
    let cut = is_cut.then(|| "the database is cut: its last pages are missing".to_owned());
    let mut damage: Vec<String> = cut.into_iter().chain(texts_damage).chain(copy_damage).collect();
    let checksums = match rows::checksums(&database) {
        Err(error) if database::is_locked(&error) => return Err(database::explained(folder, error)),
        Err(error) => {
            damage.push(format!("the checksums cannot be read ({error}): the records cannot be verified"));
            None
        }
        Ok(checksums) => Some(checksums),
    };
    let mut records = Vec::new();
    for (trial, text) in texts {
        let checksum = checksums.as_ref().map(|checksums| checksums.get(&trial).copied());
        match record(trial, &text, checksum.flatten()) {
            Ok(record) => records.push(record),
            Err(reason) => {
                damage.push(format!("trial {trial} is omitted: {reason}"));
                continue;
            }
        }
        if checksum == Some(None) {
            damage.push(format!("trial {trial} has no checksum: its record cannot be verified"));
        }
    }
    let (is_header_damaged, is_database_damaged) = (header_damage.is_some(), !damage.is_empty());
    let damage = header_damage.into_iter().chain(damage).collect();
    Ok(StoredRun { run: Run { header, records, damage }, text, is_header_damaged, is_database_damaged })
}

struct FoundHeader {
    header: RunHeader,
    text: String,
    /// The damage of run.json.
    damage: Option<String>,
    /// The damage of the database's copy.
    copy_damage: Option<String>,
}

/// The header in run.json, or the database's copy if run.json is damaged or changed.
fn find_header(folder: &Path, database: Option<&Connection>) -> anyhow::Result<FoundHeader> {
    let path = folder.join("run.json");
    let json = match files::read(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            bail!("{}: contains no run; choose a folder that `compare` or `run` made", folder.display())
        }
        read => read.with_context(|| path.display().to_string())?,
    };
    let parsed = String::from_utf8(json).map_err(anyhow::Error::from);
    let parsed = parsed.and_then(|text| Ok((serde_json::from_str(&text)?, text)));
    let parsed = parsed.with_context(|| format!("{}: was written by another version, or is damaged", path.display()));
    let (copy, copy_damage) = match database.map(rows::copy_of_header) {
        Some(Ok(copy)) => (Some(copy), None),
        Some(Err(reason)) => (None, Some(format!("the database's copy of run.json is damaged ({reason})"))),
        None => (None, None),
    };
    let (text, damage) = match (&parsed, copy) {
        (Ok((_, text)), Some(copy)) if copy != *text => (copy, "was changed".to_owned()),
        // If another version wrote the run, the copy is unreadable too.
        (Err(error), Some(copy)) if serde_json::from_str::<RunHeader>(&copy).is_ok() => {
            (copy, format!("is damaged ({})", error.root_cause()))
        }
        _ => return parsed.map(|(header, text)| FoundHeader { header, text, damage: None, copy_damage }),
    };
    let damage = Some(format!("run.json {damage}: the database's copy is used"));
    Ok(FoundHeader { header: serde_json::from_str(&text)?, text, damage, copy_damage })
}

/// Parses and verifies a trial's record.
fn record(trial: u32, text: &[u8], checksum: Option<u32>) -> Result<TrialRecord, String> {
    if checksum.is_some_and(|checksum| checksum != crc32fast::hash(text)) {
        return Err("its record was changed".into());
    }
    let damaged = |error: &dyn std::fmt::Display| format!("its record is damaged ({error})");
    let text = str::from_utf8(text).map_err(|error| damaged(&error))?;
    let record: TrialRecord = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    if record.trial.index != trial {
        return Err(format!("its record is that of trial {}", record.trial.index));
    }
    Ok(record)
}
