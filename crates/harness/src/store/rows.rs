//! Reads the database, which may be damaged, or crafted by an attacker to be endless.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::database::{corrupt, is_locked};
use crate::files;

pub(super) type Texts = BTreeMap<u32, Vec<u8>>;

/// Reads all records, and reports damage of the database. Records behind the damage are read from the end.
pub(super) fn texts(database: &Connection, folder: &Path) -> rusqlite::Result<(Texts, Vec<String>)> {
    // Reject records that are longer than the file, since they may be endless.
    let bytes_max = fs::metadata(folder.join("muxbench.db")).map_or(0, |it| files::content_bytes_max(&it));
    let mut texts = Texts::new();
    let mut read = |order: &str| {
        let record = "CASE WHEN octet_length(record) <= ?1 THEN record END";
        let mut statement = database.prepare(&format!("SELECT trial, {record} FROM trials ORDER BY trial {order}"))?;
        let mut rows = statement.query([bytes_max as i64])?;
        let (mut last, mut bytes) = (None, 0);
        while let Some(row) = rows.next()? {
            let (trial, text): (u32, _) = (row.get(0)?, row.get_ref(1)?.as_bytes()?);
            bytes += text.len() as u64;
            in_order(last.replace(trial), trial, order == "ASC")?;
            if bytes > bytes_max {
                return Err(corrupt("its records together are longer than the file"));
            }
            texts.insert(trial, text.to_vec());
        }
        Ok(())
    };
    let Err(error) = read("ASC") else { return Ok((texts, Vec::new())) };
    let _: rusqlite::Result<()> = read("DESC");
    if texts.is_empty() || is_locked(&error) {
        return Err(error);
    }
    let damage = format!("the database is damaged ({error}); {} trials are readable", texts.len());
    Ok((texts, vec![damage]))
}

/// The checksum of each record.
pub(super) fn checksums(database: &Connection) -> rusqlite::Result<BTreeMap<u32, u32>> {
    let mut statement = database.prepare("SELECT trial, record_crc32 FROM checksums ORDER BY trial")?;
    let (mut rows, mut known, mut last) = (statement.query([])?, BTreeMap::new(), None);
    while let Some(row) = rows.next()? {
        let trial = row.get(0)?;
        in_order(last.replace(trial), trial, true)?;
        known.insert(trial, row.get(1)?);
    }
    Ok(known)
}

/// The copy of run.json.
pub(super) fn copy_of_header(database: &Connection) -> Result<String, String> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let copy = database.query_row("SELECT text, text_crc32 FROM header WHERE only_one = 0", [], row);
    let (text, checksum): (String, u32) = copy.map_err(|error| error.to_string())?;
    if crc32fast::hash(text.as_bytes()) == checksum { Ok(text) } else { Err("it was changed".into()) }
}

/// Checks the order of rows: a table whose pages link to themselves has no end.
pub(super) fn in_order(before: Option<u32>, now: u32, is_ascending: bool) -> rusqlite::Result<()> {
    match before {
        Some(before) if (now > before) != is_ascending || now == before => Err(corrupt("its rows are out of order")),
        _ => Ok(()),
    }
}
