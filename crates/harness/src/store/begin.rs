//! Creates a run's folder.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use rusqlite::Connection;

use super::database::{self, Access};
use super::folders;
use crate::files;
use crate::record::RunHeader;

/// Files and folders that an unfinished [`begin`] may leave behind.
const BEFORE: [&str; 5] = ["lock", "run.json.part", "muxbench.db", "muxbench.db-journal", "samples"];

/// Creates the folder, its parents and a run without trials, and locks the run. If this fails, removes everything it created.
pub(super) fn begin(folder: &Path, header: &RunHeader) -> anyhow::Result<(Connection, File)> {
    check_free(folder)?;
    let place = || format!("cannot make the folder {}", folder.display());
    let is_missing = |it: &&Path| *it != Path::new("") && !it.exists();
    // The innermost folder comes first.
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let create = || {
        fs::create_dir_all(folder).with_context(place)?;
        let begun = begin_in(folder, header)?;
        missing.iter().try_for_each(|folder| files::sync_folder(files::parent(folder))).with_context(place)?;
        Ok(begun)
    };
    let begun = create();
    if begun.is_err() {
        missing.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    begun
}

fn begin_in(folder: &Path, header: &RunHeader) -> anyhow::Result<(Connection, File)> {
    files::check_ours(folder)?;
    let lock = folders::lock(folder)?;
    // The previous holder of the lock may have created a run.
    check_free(folder)?;
    let created = clear(folder).map_err(Into::into).and_then(|()| create(folder, header));
    if created.is_err() {
        let _ = clear(folder);
        let _ = fs::remove_file(folder.join("lock"));
    }
    Ok((created.with_context(|| format!("cannot make the folder {}", folder.display()))?, lock))
}

/// Checks that a folder contains no run, no finished trial and no foreign files.
fn check_free(folder: &Path) -> anyhow::Result<()> {
    if folders::is_run(folder) {
        bail!("{}: contains a run already; choose another folder, or finish the run with --resume", folder.display());
    }
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_known = names.all(|name| BEFORE.iter().any(|before| name == *before));
    if !is_known || !has_no_trials(folder) {
        bail!("{}: is not empty; choose an empty or a new folder", folder.display());
    }
    Ok(())
}

/// Whether a folder without run.json contains neither trials nor samples.
fn has_no_trials(folder: &Path) -> bool {
    let count = || {
        let database = database::connect(folder, Access::Read)?;
        let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'trials'";
        if database.query_row(tables, [], |row| row.get::<_, u32>(0))? == 0 {
            return Ok(0);
        }
        database::check_tables(&database)?;
        database.query_row("SELECT count(*) FROM trials", [], |row| row.get(0))
    };
    let is_empty = fs::read_dir(folder.join("samples")).map_or(true, |mut samples| samples.next().is_none());
    is_empty && (!folder.join("muxbench.db").exists() || count().is_ok_and(|count| count == 0))
}

/// Removes the files of an unfinished [`begin`], except the lock.
fn clear(folder: &Path) -> io::Result<()> {
    for name in BEFORE.into_iter().filter(|name| *name != "lock") {
        let path = folder.join(name);
        let removed = if name == "samples" { fs::remove_dir(path) } else { fs::remove_file(path) };
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

/// Creates a run without trials. Writes run.json last, because this file makes the folder a run.
fn create(folder: &Path, header: &RunHeader) -> anyhow::Result<Connection> {
    fs::create_dir(folder.join("samples"))?;
    let text = serde_json::to_string_pretty(header)?;
    let database = database::create(&folder.join("muxbench.db"), &text)?;
    folders::write_header(folder, &text)?;
    Ok(database)
}
