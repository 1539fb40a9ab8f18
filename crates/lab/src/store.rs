//! A run's folder: `run.json` (what was planned, on which host), `muxbench.db` (a row and a record for each finished
//! trial), `samples/NNNN.parquet` (its raw samples), `histograms/NNNN.hlog` (its histograms, for HdrHistogram's tools).
//! Each trial is committed as it ends, and is on the disk then. What is damaged is told, and what else there is can be read.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi, params};
use serde::Deserialize;

use crate::files;
use crate::record::{Run, RunHeader, TrialRecord};

/// Changes when an older muxbench could not read the database.
const SCHEMA_VERSION: i64 = 2;

const SCHEMA: &str = "CREATE TABLE trials (
    trial INTEGER PRIMARY KEY, architecture TEXT NOT NULL, connections INTEGER NOT NULL, rate_per_s REAL,
    repeat INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL, service_p50_ns INTEGER, service_p99_ns INTEGER,
    lag_p99_ns INTEGER, rate_achieved_per_s REAL, record TEXT NOT NULL
)";

/// What each record's text was when it was written, for a database does not notice when its bytes change. Beside the trials, so
/// that runs of before there was this stay readable.
const CHECKSUMS: &str =
    "CREATE TABLE IF NOT EXISTS checksums (trial INTEGER PRIMARY KEY, record_crc32 INTEGER NOT NULL)";

/// What run.json says, so that a run does not hang on one file; runs of before there was this are without.
const HEADERS: &str = "CREATE TABLE IF NOT EXISTS header (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 0), text TEXT NOT NULL, text_crc32 INTEGER NOT NULL
)";

/// What is in a folder before its run is there: nothing that anybody would miss.
const BEFORE: [&str; 5] = ["lock", "run.json.part", "muxbench.db", "muxbench.db-journal", "samples"];

/// How long a database is waited for that another program keeps locked, to read it...
const READ_PATIENCE: Duration = Duration::from_secs(5);
/// ...and to commit a trial, which took longer than this as a rule.
const COMMIT_PATIENCE: Duration = Duration::from_secs(60);

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
        check_free(folder)?;
        let place = || format!("{}: cannot make the run's folder", folder.display());
        let is_new = !folder.exists();
        fs::create_dir_all(folder).with_context(place)?;
        let made = files::ours(folder).and_then(|()| lock(folder)).and_then(|lock| {
            // Who held the lock may have begun a run, or put an end to one.
            check_free(folder)?;
            let made = clear(folder).map_err(Into::into).and_then(|()| make(folder, header)).with_context(place);
            if made.is_err() {
                let _ = clear(folder);
                let _ = fs::remove_file(folder.join("lock"));
            }
            Ok(Self { folder: folder.to_owned(), database: made?, _lock: lock })
        });
        if made.is_err() && is_new {
            let _ = fs::remove_dir(folder);
        }
        made
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
        let lock = lock(folder)?;
        // Not before: who held the lock may have committed a trial.
        let Found { run, text, is_header_damaged, is_database_damaged } = look(folder)?;
        if is_database_damaged {
            salvage(folder, &text, &run.records)?;
        }
        remove_drafts(folder);
        let database = open_database(folder, Access::Write)?;
        database.busy_timeout(COMMIT_PATIENCE)?;
        complete(&database, &text).map_err(|error| explained(folder, error))?;
        if is_header_damaged {
            write_header(folder, &text)?;
        }
        Ok((Self { folder: folder.to_owned(), database, _lock: lock }, run))
    }

    /// Says anew what the run is; what is finished stays.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(header)?;
        put_header(&self.database, &text).map_err(|error| explained(&self.folder, error))?;
        write_header(&self.folder, &text)
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
        let committed = self
            .keep_samples(record)
            .and_then(|()| self.write_histograms(record))
            .and_then(|()| insert(&self.database, [record]).map_err(|error| explained(&self.folder, error)));
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

/// That no run is in a folder, nor anything that is not ours.
fn check_free(folder: &Path) -> anyhow::Result<()> {
    if is_run(folder) {
        bail!("{}: a run is there already; name another folder, or finish it with --resume", folder.display());
    }
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_known = names.all(|name| BEFORE.iter().any(|before| name == *before));
    if !is_known || !has_no_trials(folder) {
        bail!("{}: the folder is not empty; name one that is, or is not there yet", folder.display());
    }
    Ok(())
}

/// Whether what may be there without a run.json holds nothing that was measured.
fn has_no_trials(folder: &Path) -> bool {
    let count = || {
        let database = connect(folder, Access::Read)?;
        let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'trials'";
        if database.query_row(tables, [], |row| row.get::<_, u32>(0))? == 0 {
            return Ok(0);
        }
        check_tables(&database)?;
        database.query_row("SELECT count(*) FROM trials", [], |row| row.get(0))
    };
    let is_empty = fs::read_dir(folder.join("samples")).map_or(true, |mut samples| samples.next().is_none());
    is_empty && (!folder.join("muxbench.db").exists() || count().is_ok_and(|count| count == 0))
}

/// Removes what was made before a run is there.
fn clear(folder: &Path) -> io::Result<()> {
    for name in BEFORE.into_iter().filter(|name| *name != "lock") {
        let path = folder.join(name);
        let removed = if name == "samples" { fs::remove_dir(path) } else { fs::remove_file(path) };
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

/// Makes what a run is without trials, its run.json last.
fn make(folder: &Path, header: &RunHeader) -> anyhow::Result<Connection> {
    fs::create_dir(folder.join("samples"))?;
    let text = serde_json::to_string_pretty(header)?;
    let database = new_database(&folder.join("muxbench.db"), &text)?;
    write_header(folder, &text)?;
    Ok(database)
}

/// Writes run.json, under another name first: it is whole, or not there.
fn write_header(folder: &Path, text: &str) -> anyhow::Result<()> {
    let path = folder.join("run.json");
    let place = || format!("{}: cannot be written; is the disk full?", path.display());
    files::write(&folder.join("run.json.part"), &path, text.as_bytes()).with_context(place)
}

/// Where a trial's samples are.
pub fn samples_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("samples/{trial:04}.parquet"))
}

/// Where a trial's histograms are.
pub fn histograms_path(folder: &Path, trial: u32) -> PathBuf {
    folder.join(format!("histograms/{trial:04}.hlog"))
}

/// Reads a run, finished or not. Of one that is damaged, what can be read.
///
/// # Errors
/// When it is not there, nothing of it can be read, or another program keeps it locked.
pub fn read(folder: &Path) -> anyhow::Result<Run> {
    Ok(look(folder)?.run)
}

/// A run as it was found.
struct Found {
    run: Run,
    /// What its run.json says, or should.
    text: String,
    is_header_damaged: bool,
    is_database_damaged: bool,
}

fn look(folder: &Path) -> anyhow::Result<Found> {
    let database = open_database(folder, Access::Read);
    let Headed { header, text, damage: of_header, damage_of_copy } = headed(folder, database.as_ref().ok())?;
    let database = database?;
    let (texts, mut damage) = texts(&database, folder).map_err(|error| explained(folder, error))?;
    damage.extend(damage_of_copy);
    let checksums = match checksums(&database) {
        Err(error) if is_locked(&error) => return Err(explained(folder, error)),
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

/// Records as they are stored, by their trial.
type Texts = BTreeMap<u32, Vec<u8>>;

/// Each trial's record as it is stored, and what is damaged of the database as such. Where it cannot be read on from the
/// beginning, it is from the end.
fn texts(database: &Connection, folder: &Path) -> rusqlite::Result<(Texts, Vec<String>)> {
    // What says that it is more than its file was made to be read without an end.
    let bytes_max = fs::metadata(folder.join("muxbench.db")).map_or(0, |it| it.len());
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
                return Err(corrupt("it is more than its file holds"));
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
    let damage = format!("the database is damaged ({error}); {} trials of it can be read", texts.len());
    Ok((texts, vec![damage]))
}

/// That a row comes after the one before it: a table whose pages lead back to themselves has no end.
fn in_order(before: Option<u32>, now: u32, is_ascending: bool) -> rusqlite::Result<()> {
    match before {
        Some(before) if (now > before) != is_ascending || now == before => Err(corrupt("its rows are in no order")),
        _ => Ok(()),
    }
}

fn corrupt(what: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what.into()))
}

/// The checksum of each record's text; `None` in runs of before there were any.
fn checksums(database: &Connection) -> rusqlite::Result<Option<BTreeMap<u32, u32>>> {
    if !has_table(database, "checksums")? {
        return Ok(None);
    }
    let mut statement = database.prepare("SELECT trial, record_crc32 FROM checksums ORDER BY trial")?;
    let (mut rows, mut known, mut last) = (statement.query([])?, BTreeMap::new(), None);
    while let Some(row) = rows.next()? {
        let trial = row.get(0)?;
        in_order(last.replace(trial), trial, true)?;
        known.insert(trial, row.get(1)?);
    }
    Ok(Some(known))
}

fn has_table(database: &Connection, name: &str) -> rusqlite::Result<bool> {
    database.query_row("SELECT count(*) > 0 FROM sqlite_master WHERE name = ?1", [name], |row| row.get(0))
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
    let json = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error).with_context(|| {
            format!("{}: no run is there; name a folder that `compare` or `run` made", folder.display())
        })?,
        read => read.with_context(|| path.display().to_string())?,
    };
    let said = String::from_utf8(json).map_err(anyhow::Error::from);
    let said = said.and_then(|text| Ok((serde_json::from_str::<RunHeader>(&text)?, text)));
    let said = said.with_context(|| format!("{}: not written by this version, or damaged", path.display()));
    let (copy, damage_of_copy) = match database.map(copy_of_header) {
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

/// What the database has of run.json; `None` in runs of before it did.
fn copy_of_header(database: &Connection) -> Result<Option<String>, String> {
    let copy = || {
        if !has_table(database, "header")? {
            return Ok(None);
        }
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        database.query_row("SELECT text, text_crc32 FROM header WHERE only_one = 0", [], row).map(Some)
    };
    let copy: rusqlite::Result<Option<(String, u32)>> = copy();
    match copy.map_err(|error| error.to_string())? {
        Some((text, checksum)) if crc32fast::hash(text.as_bytes()) != checksum => {
            Err("it is not what was written".into())
        }
        copy => Ok(copy.map(|(text, _)| text)),
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

/// Puts these trials into a database, all or none.
fn insert<'a>(database: &Connection, records: impl IntoIterator<Item = &'a TrialRecord>) -> anyhow::Result<()> {
    let transaction = database.unchecked_transaction()?;
    for record in records {
        let (trial, load) = (&record.trial, record.load.as_ref());
        let (text, verdict) = (serde_json::to_string(record)?, serde_json::to_value(record.verdict.kind)?);
        serde_json::from_str::<TrialRecord>(&text).context("what would be stored could not be read again")?;
        transaction.execute(
            "INSERT OR REPLACE INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                trial.index,
                trial.architecture.to_string(),
                trial.workload.connections,
                trial.workload.rate_per_s,
                trial.repeat,
                verdict.as_str(),
                record.verdict.reason,
                load.map(|load| load.service.distribution.p50_ns as i64),
                load.map(|load| load.service.distribution.p99_ns as i64),
                load.map(|load| load.lag.distribution.p99_ns as i64),
                record.rate_achieved_per_s(),
                text,
            ],
        )?;
        transaction.execute(
            "INSERT OR REPLACE INTO checksums VALUES (?1, ?2)",
            params![trial.index, crc32fast::hash(text.as_bytes())],
        )?;
    }
    Ok(transaction.commit()?)
}

/// Puts into a database what run.json says.
fn put_header(database: &Connection, text: &str) -> rusqlite::Result<()> {
    let row = params![text, crc32fast::hash(text.as_bytes())];
    database.execute("INSERT OR REPLACE INTO header VALUES (0, ?1, ?2)", row).map(drop)
}

/// Puts into a sound database what those of earlier versions are without.
fn complete(database: &Connection, header: &str) -> anyhow::Result<()> {
    let transaction = database.unchecked_transaction()?;
    transaction.execute_batch(&format!("{CHECKSUMS}; {HEADERS}"))?;
    put_header(&transaction, header)?;
    let mut statement =
        transaction.prepare("SELECT trial, record FROM trials WHERE trial NOT IN (SELECT trial FROM checksums)")?;
    let without = statement.query_map([], |row| Ok((row.get(0)?, crc32fast::hash(row.get_ref(1)?.as_bytes()?))))?;
    let without: Vec<(u32, u32)> = without.collect::<rusqlite::Result<_>>()?;
    drop(statement);
    for (trial, checksum) in without {
        transaction.execute("INSERT INTO checksums VALUES (?1, ?2)", params![trial, checksum])?;
    }
    Ok(transaction.commit()?)
}

/// Puts a damaged database aside, with another in its place that has these trials. What was put aside before stays.
fn salvage(folder: &Path, header: &str, records: &[TrialRecord]) -> anyhow::Result<()> {
    let (path, draft) = (folder.join("muxbench.db"), folder.join("muxbench.db.part"));
    let place = || format!("{}: cannot write what can be read of it into another", path.display());
    let _ = fs::remove_file(&draft);
    insert(&new_database(&draft, header).with_context(place)?, records).with_context(place)?;
    let (aside, journal_aside) = unused_aside(folder);
    let mut copy = files::create_new(&aside).with_context(place)?;
    io::copy(&mut File::open(&path).with_context(place)?, &mut copy).with_context(place)?;
    copy.sync_all().with_context(place)?;
    // One that could not be rolled back would be into the new database, which is none of it.
    let journal = folder.join("muxbench.db-journal");
    if fs::symlink_metadata(&journal).is_ok() {
        fs::rename(journal, journal_aside).with_context(place)?;
    }
    files::keep(&draft, &path).with_context(place)
}

/// A name for a damaged database that no other has, and for its journal.
fn unused_aside(folder: &Path) -> (PathBuf, PathBuf) {
    let mut number = 1;
    loop {
        let end = if number == 1 { String::new() } else { format!("-{number}") };
        let aside = folder.join(format!("muxbench.db.damaged{end}"));
        let journal = folder.join(format!("muxbench.db.damaged{end}-journal"));
        if [&aside, &journal].iter().all(|path| fs::symlink_metadata(path).is_err()) {
            return (aside, journal);
        }
        number += 1;
    }
}

/// Removes what a run that was killed had not finished writing.
fn remove_drafts(folder: &Path) {
    for folder in [folder.to_owned(), folder.join("samples"), folder.join("histograms")] {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // Of several clients each has a number behind.
        let is_draft = |path: &PathBuf| {
            path.extension().is_some_and(|it| it.to_string_lossy().split('-').next() == Some("part")) && path.is_file()
        };
        files.filter(is_draft).for_each(|path| drop(fs::remove_file(path)));
    }
}

/// What the run in a folder is.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn header(folder: &Path) -> anyhow::Result<RunHeader> {
    let database = open_database(folder, Access::Read).ok();
    Ok(headed(folder, database.as_ref())?.header)
}

fn new_database(path: &Path, header: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open(path)?;
    let tables = format!("{SCHEMA}; {CHECKSUMS}; {HEADERS}; PRAGMA user_version = {SCHEMA_VERSION}");
    database.execute_batch(&tables)?;
    put_header(&database, header)?;
    database.busy_timeout(COMMIT_PATIENCE)?;
    Ok(database)
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// What the database of this folder says, with what may help.
fn explained(folder: &Path, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let (path, error) = (folder.join("muxbench.db"), error.into());
    let path = path.display();
    let Some(said) = error.downcast_ref::<rusqlite::Error>() else { return error };
    let what = match said.sqlite_error_code() {
        _ if is_locked(said) => format!("{path}: another program keeps the database locked; close it, and try again"),
        Some(ErrorCode::DiskFull) => format!("{path}: the disk is full; make room"),
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied,
        ) => {
            format!("{path}: cannot be read or written; is the disk full, or the folder another user's?")
        }
        _ => format!("{path}: not a database of muxbench, or damaged"),
    };
    error.context(what)
}

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn open_database(folder: &Path, access: Access) -> anyhow::Result<Connection> {
    let explained = |error: rusqlite::Error| explained(folder, error);
    let database = connect(folder, access).map_err(explained)?;
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(explained)?;
    if version != SCHEMA_VERSION {
        let path = folder.join("muxbench.db");
        bail!("{}: version {version}, this muxbench reads version {SCHEMA_VERSION}", path.display());
    }
    check_tables(&database).map_err(explained)?;
    Ok(database)
}

/// Opens the database of a folder, through no link, and runs nothing that is in it. One that is not ours is left as it is: to
/// roll back what was not committed is for whose it is.
fn connect(folder: &Path, access: Access) -> rusqlite::Result<Connection> {
    let ours = access == Access::Write || files::ours(folder).is_ok();
    let flags = if ours { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    // SQLite looks for links in the whole path.
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join("muxbench.db");
    let database = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    database.busy_timeout(READ_PATIENCE)?;
    let query_only = if access == Access::Read { "ON" } else { "OFF" };
    database.execute_batch(&format!(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = {query_only}"
    ))?;
    Ok(database)
}

/// That what we read are tables: a view can be a query without an end, and so can a column that is computed.
fn check_tables(database: &Connection) -> rusqlite::Result<()> {
    let others = "SELECT count(*) FROM sqlite_master
        WHERE lower(name) IN ('trials', 'checksums', 'header') AND (type <> 'table' OR rootpage = 0)";
    let mut others: u32 = database.query_row(others, [], |row| row.get(0))?;
    for table in ["trials", "checksums", "header"] {
        let computed = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden <> 0";
        others += database.query_row(computed, [table], |row| row.get::<_, u32>(0))?;
    }
    if others == 0 { Ok(()) } else { Err(corrupt("what should be tables is not")) }
}

/// What nobody else who writes this run holds meanwhile.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let place = || format!("{}: cannot be written; is the folder another user's, or read-only?", path.display());
    let file = files::create_or_open(&path).with_context(place)?;
    let is_there = || {
        let ours = file.metadata()?;
        Ok::<_, io::Error>(fs::symlink_metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == (ours.dev(), ours.ino())))
    };
    match file.try_lock() {
        // Who could not begin a run has removed it, and another may have made one since.
        Ok(()) if is_there().with_context(place)? => Ok(file),
        Ok(()) | Err(TryLockError::WouldBlock) => {
            bail!("{}: another muxbench is writing this run; wait for it, or stop it", folder.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Whether a run is in a folder, readable or not.
pub fn is_run(folder: &Path) -> bool {
    folder.join("run.json").exists()
}

/// The folders of runs: this one, or those in it and in folders in it, by name. A run's own folders are not looked into.
pub fn runs(folder: &Path) -> Vec<PathBuf> {
    /// `reproduce` keeps those of a paper in a folder of its own; deeper than this nobody keeps any.
    const DEPTH_MAX: usize = 3;
    fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        if is_run(folder) {
            found.push(folder.to_owned());
        } else if depth < DEPTH_MAX {
            let mut inner: Vec<PathBuf> =
                fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
            inner.sort();
            // A link may lead back here.
            let is_folder = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir());
            inner.iter().filter(|path| is_folder(path)).for_each(|path| look(path, depth + 1, found));
        }
    }
    let mut found = Vec::new();
    look(folder, 0, &mut found);
    found
}

/// The newest run under `results`, as far down as [`runs`] looks, by when it began.
///
/// # Errors
/// When there is none.
pub fn latest(results: &Path) -> anyhow::Result<PathBuf> {
    let none = || format!("{}: no run is there; make one with `muxbench compare`", results.display());
    runs(results).into_iter().max_by_key(|folder| (began(folder), folder.clone())).with_context(none)
}

/// When a run began, to the second, and when its file was written. Of one that cannot be read both are the latter: it is not
/// passed over, and whoever reads it is told what is the matter.
fn began(folder: &Path) -> Option<(SystemTime, SystemTime)> {
    #[derive(Deserialize)]
    struct Begun {
        started_at: jiff::Timestamp,
    }
    let path = folder.join("run.json");
    let written = fs::metadata(&path).and_then(|it| it.modified()).ok()?;
    let begun = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Begun>(&text).ok());
    Some((begun.map_or(written, |it| it.started_at.into()), written))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use load::LoadReport;

    use super::*;
    use crate::record::{Bound, Check, Verdict, VerdictKind};

    fn header() -> RunHeader {
        let experiment = crate::presets::find("smoke").unwrap().experiment();
        let plan = crate::plan::plan(&experiment, &crate::host::Host::this()).unwrap();
        RunHeader::made_up(plan)
    }

    fn record(header: &RunHeader, index: usize) -> TrialRecord {
        TrialRecord {
            trial: header.trials[index].clone(),
            started_at: "2026-01-01T00:00:00Z".into(),
            elapsed_ns: 1,
            load: None,
            server: None,
            idle: None,
            network: None,
            cpu_taken_by_others: None,
            verdict: Verdict::failed("made up"),
        }
    }

    #[test]
    fn what_is_committed_is_read_and_a_stopped_run_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        store.commit(&record(&header, 3)).unwrap();
        store.commit(&record(&header, 1)).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!(run.header.trials, header.trials);
        assert_eq!(run.records.iter().map(|record| record.trial.index).collect::<Vec<_>>(), [1, 3]);

        assert!(Store::resume(&folder).unwrap_err().to_string().contains("another muxbench"));
        drop(store);
        let (store, run) = resume(&folder);
        assert_eq!(run.records.len(), 2);
        store.commit(&record(&header, 0)).unwrap();
        assert_eq!(read(&folder).unwrap().records.len(), 3);
        let renamed = RunHeader { experiment: "another".into(), ..header.clone() };
        store.replace_header(&renamed).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((run.header.experiment.as_str(), run.records.len()), ("another", 3));
        assert!(Store::create(&folder, &header).unwrap_err().to_string().contains("--resume"));
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("thesis.tex"), "").unwrap();
        assert!(Store::create(other.path(), &header).unwrap_err().to_string().contains("not empty"));
    }

    #[test]
    fn a_trial_without_an_account_leaves_no_histograms_of_an_earlier_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        let left = histograms_path(&folder, 1);
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, "").unwrap();
        store.commit(&record(&header, 1)).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        assert!(read(&run).unwrap_err().to_string().contains("no run is there"));
        drop(Store::create(&run, &header()).unwrap());
        fs::write(run.join("muxbench.db"), "this is no database, and long enough not to look like an empty one")
            .unwrap();
        assert!(read(&run).unwrap_err().to_string().contains("damaged"));
        fs::write(run.join("run.json"), "{").unwrap();
        assert!(read(&run).unwrap_err().to_string().contains("run.json"));
    }

    /// A store of so many trials, with records as long as they are apart by what is damaged.
    fn stored(folder: &Path, trials: u32) -> RunHeader {
        let header = header();
        let store = Store::create(folder, &header).unwrap();
        let long = |index: u32| {
            let mut record = record(&header, 0);
            record.trial.index = index;
            record.verdict = Verdict::failed("made up, and long enough for a page of the database. ".repeat(200));
            record
        };
        insert(&store.database, &(0..trials).map(long).collect::<Vec<_>>()).unwrap();
        header
    }

    fn indices(run: &Run) -> Vec<u32> {
        run.records.iter().map(|record| record.trial.index).collect()
    }

    /// Resumes once children that other tests fork have closed the lock that they inherit.
    fn resume(folder: &Path) -> (Store, Run) {
        let started = std::time::Instant::now();
        loop {
            match Store::resume(folder) {
                Err(error) if error.to_string().contains("another muxbench") => {
                    assert!(started.elapsed() < Duration::from_secs(60), "{error}");
                    std::thread::sleep(Duration::from_millis(5));
                }
                resumed => return resumed.unwrap(),
            }
        }
    }

    #[test]
    fn a_record_that_is_not_what_was_written_is_left_out_and_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = stored(&folder, 6);
        let change =
            |sql: &str| assert_eq!(open_database(&folder, Access::Write).unwrap().execute(sql, []).unwrap(), 1);
        // One number becomes another, which is as good JSON as before; one is no JSON; one is another's.
        change("UPDATE trials SET record = replace(record, '\"elapsed_ns\":1', '\"elapsed_ns\":2') WHERE trial = 1");
        change("UPDATE trials SET record = substr(record, 1, 100) WHERE trial = 3");
        change("DELETE FROM checksums WHERE trial = 4");
        change("UPDATE trials SET record = (SELECT record FROM trials WHERE trial = 5) WHERE trial = 4");
        let run = read(&folder).unwrap();
        assert_eq!(indices(&run), [0, 2, 5]);
        let told = run.damage.join("\n");
        assert!(told.contains("trial 1 is left out: its record is not what was written"), "{told}");
        assert!(told.contains("trial 4 is left out: its record is of trial 5") && run.damage.len() == 3, "{told}");

        let (store, run) = resume(&folder);
        assert_eq!((indices(&run).len(), run.damage.len()), (3, 3), "who resumes is told too");
        store.commit(&record(&header, 1)).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (vec![0, 1, 2, 5], Vec::new()));
        assert!(folder.join("muxbench.db.damaged").exists(), "what was damaged is kept");
    }

    #[test]
    fn a_run_of_before_there_were_checksums_is_read_and_gets_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = stored(&folder, 2);
        open_database(&folder, Access::Write).unwrap().execute_batch("DROP TABLE checksums").unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (vec![0, 1], Vec::new()));
        let (store, _) = resume(&folder);
        store.commit(&record(&header, 1)).unwrap();
        let known = checksums(&store.database).unwrap().unwrap();
        assert_eq!(known.into_keys().collect::<Vec<_>>(), [0, 1], "those of what was there, too");
    }

    #[test]
    fn records_whose_checksums_are_gone_are_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let changed = |name: &str, sql: &str| {
            stored(&of(name), 3);
            open_database(&of(name), Access::Write).unwrap().execute_batch(sql).unwrap();
            let run = read(&of(name)).unwrap();
            assert_eq!(indices(&run), [0, 1, 2], "they are shown");
            run.damage.join("\n")
        };
        let one = changed("one", "DELETE FROM checksums WHERE trial = 1");
        assert!(
            one.starts_with("trial 1 has no checksum: whether its record is what was written is not known"),
            "{one}"
        );
        let all = changed("all", "DELETE FROM checksums");
        assert_eq!(all.lines().count(), 3, "{all}");
        let no_number = changed("no number", "UPDATE checksums SET record_crc32 = 'x' WHERE trial = 2");
        assert!(no_number.starts_with("the checksums cannot be read"), "{no_number}");
        assert_eq!(no_number.lines().count(), 1, "{no_number}");
        for name in ["one", "all", "no number"] {
            assert!(!resume(&of(name)).1.damage.is_empty());
            assert_eq!(read(&of(name)).unwrap().damage, Vec::<String>::new(), "they have new ones");
            assert!(of(name).join("muxbench.db.damaged").exists());
        }
    }

    #[test]
    fn a_damaged_header_is_read_from_the_database_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = stored(&folder, 2);
        let path = folder.join("run.json");
        let whole = fs::read_to_string(&path).unwrap();
        let damaged = [
            String::new(),
            whole[..whole.len() / 2].to_owned(),
            // As good JSON as before, of another seed.
            whole.replace(&format!("\"seed\": {}", header.seed), &format!("\"seed\": {}", header.seed + 1)),
        ];
        for text in damaged {
            assert_ne!(text, whole);
            fs::write(&path, &text).unwrap();
            let run = read(&folder).unwrap();
            assert_eq!((run.header.seed, &run.header.trials), (header.seed, &header.trials));
            assert_eq!((indices(&run).len(), run.damage.len()), (2, 1), "{:?}", run.damage);
            assert!(run.damage[0].starts_with("run.json is"), "{:?}", run.damage);
            assert_eq!(super::header(&folder).unwrap().seed, header.seed);
            assert_eq!(resume(&folder).1.damage, run.damage, "who resumes is told too");
            assert_eq!(fs::read_to_string(&path).unwrap(), whole);
            assert_eq!(read(&folder).unwrap().damage, Vec::<String>::new());
        }
        assert!(!folder.join("muxbench.db.damaged").exists(), "the database was not");

        // The copy is damaged, and what it is of is not.
        let change = "UPDATE header SET text = replace(text, '1', '2')";
        open_database(&folder, Access::Write).unwrap().execute_batch(change).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((run.header.seed, run.damage.len()), (header.seed, 1), "{:?}", run.damage);
        drop(resume(&folder));
        assert_eq!(read(&folder).unwrap().damage, Vec::<String>::new());
        assert!(folder.join("muxbench.db.damaged").exists());
        // Both are.
        open_database(&folder, Access::Write).unwrap().execute_batch(change).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("run.json: not written by this version, or damaged"));
    }

    #[test]
    fn what_was_put_aside_stays_and_a_journal_goes_with_its_database() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        stored(&folder, 3);
        let change = |trial: u32| {
            let database = open_database(&folder, Access::Write).unwrap();
            let sql = "UPDATE trials SET record = substr(record, 1, 100) WHERE trial = ?1";
            assert_eq!(database.execute(sql, [trial]).unwrap(), 1);
        };
        change(1);
        drop(resume(&folder));
        let first = fs::read(folder.join("muxbench.db.damaged")).unwrap();
        change(2);
        // As it begins, it is none that is rolled back, and stays.
        fs::write(folder.join("muxbench.db-journal"), "\0journal").unwrap();
        drop(resume(&folder));
        assert_eq!(fs::read(folder.join("muxbench.db.damaged")).unwrap(), first);
        assert!(folder.join("muxbench.db.damaged-2").exists());
        assert_eq!(fs::read_to_string(folder.join("muxbench.db.damaged-2-journal")).unwrap(), "\0journal");
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (vec![0], Vec::new()));
    }

    #[test]
    fn a_database_that_is_more_than_tables_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        stored(&folder, 2);
        let endless =
            "WITH RECURSIVE it(trial) AS (SELECT 0 UNION ALL SELECT 0 FROM it) SELECT trial, 'x' AS record FROM it";
        let changes = [
            format!("ALTER TABLE trials RENAME TO others; CREATE VIEW trials AS {endless}"),
            "DROP VIEW trials; CREATE TABLE trials (trial INTEGER PRIMARY KEY, record AS (hex(zeroblob(500000000))))"
                .into(),
            format!(
                "DROP TABLE trials; ALTER TABLE others RENAME TO trials; DROP TABLE checksums;
                 CREATE VIEW checksums AS {}",
                endless.replace("'x' AS record", "1 AS record_crc32")
            ),
        ];
        let database = connect(&folder, Access::Write).unwrap();
        for change in changes {
            database.execute_batch(&change).unwrap();
            let error = format!("{:#}", read(&folder).unwrap_err());
            assert!(error.contains("what should be tables is not"), "{error}");
            let error = format!("{:#}", Store::resume(&folder).unwrap_err());
            assert!(error.contains("what should be tables is not"), "{error}");
        }
        // Nobody writes through what only reads.
        let reading = connect(&folder, Access::Read).unwrap();
        assert!(reading.execute_batch("CREATE TABLE more (x)").is_err());
    }

    #[test]
    fn rows_that_lead_back_to_themselves_come_to_an_end() {
        assert!(
            in_order(None, 7, true).is_ok()
                && in_order(Some(7), 8, true).is_ok()
                && in_order(Some(7), 6, false).is_ok()
        );
        for (before, now, is_ascending) in [(7, 7, true), (7, 6, true), (7, 7, false), (7, 8, false)] {
            assert!(in_order(Some(before), now, is_ascending).is_err());
        }
    }

    #[test]
    fn nothing_is_written_through_links_nor_in_a_folder_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let victim = of("victim");
        fs::write(&victim, "precious").unwrap();
        let header = header();
        for name in ["lock", "run.json.part", "muxbench.db", "samples"] {
            let run = of(&format!("planted {name}"));
            fs::create_dir(&run).unwrap();
            symlink(&victim, run.join(name)).unwrap();
            // It is refused, or what was planted is replaced.
            if Store::create(&run, &header).is_ok() {
                assert!(!fs::symlink_metadata(run.join(name)).is_ok_and(|it| it.is_symlink()), "{name}");
            }
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
        }
        assert!(Store::create(&of("planted lock"), &header).is_err());

        let run = of("run");
        stored(&run, 2);
        fs::remove_file(run.join("lock")).unwrap();
        symlink(&victim, run.join("lock")).unwrap();
        assert!(Store::resume(&run).unwrap_err().to_string().contains("lock: cannot be written"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(run.join("lock")).unwrap();
        for (path, mode) in [(run.clone(), 0o777), (run.join("samples"), 0o1777)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(Store::resume(&run).unwrap_err().to_string().contains("others may write there"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            let others = of("others");
            fs::create_dir(&others).unwrap();
            for folder in [&others, &run] {
                std::os::unix::fs::chown(folder, Some(12_345), None).unwrap();
            }
            for error in [Store::create(&others, &header), Store::resume(&run).map(|it| it.0)].map(Result::unwrap_err) {
                assert!(error.to_string().contains("another user's (uid 12345)"), "{error}");
            }
            assert_eq!(fs::read_dir(&others).unwrap().count(), 0, "nothing is left in it");
            assert_eq!(indices(&read(&run).unwrap()), [0, 1], "to read it is no harm");
            std::os::unix::fs::chown(&run, Some(0), None).unwrap();
        }
        drop(resume(&run));
    }

    #[test]
    fn a_folder_that_a_run_was_only_about_to_begin_in_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let header = header();
        // As SIGKILL leaves it at each step, ...
        for step in 0..5 {
            let run = of(&format!("step {step}"));
            fs::create_dir(&run).unwrap();
            fs::write(run.join("lock"), "").unwrap();
            if step > 0 {
                fs::create_dir(run.join("samples")).unwrap();
            }
            match step {
                2 => fs::write(run.join("muxbench.db"), "").unwrap(),
                3.. => drop(new_database(&run.join("muxbench.db"), "{}").unwrap()),
                _ => {}
            }
            if step == 4 {
                fs::write(run.join("run.json.part"), "{").unwrap();
            }
            let store = Store::create(&run, &header).unwrap();
            store.commit(&record(&header, 0)).unwrap();
            assert_eq!(indices(&read(&run).unwrap()), [0], "step {step}");
        }
        // ...and not one with trials, nor with what is no run's.
        let finished = of("step 0");
        fs::remove_file(finished.join("run.json")).unwrap();
        let error = Store::create(&finished, &header).unwrap_err().to_string();
        assert!(error.contains("not empty") && finished.join("muxbench.db").exists(), "{error}");
        let other = of("other");
        fs::create_dir_all(other.join("samples")).unwrap();
        fs::write(other.join("samples/thesis.tex"), "").unwrap();
        assert!(Store::create(&other, &header).unwrap_err().to_string().contains("not empty"));
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "nothing is made in it");
    }

    #[test]
    fn a_run_that_cannot_begin_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        // What is to become of run.json has no place.
        fs::create_dir(run.join("run.json.part")).unwrap();
        assert!(Store::create(&run, &header()).is_err());
        assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
        fs::remove_dir(run.join("run.json.part")).unwrap();
        drop(Store::create(&run, &header()).unwrap());
    }

    #[test]
    fn figures_that_are_no_numbers_are_stored_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        let values = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.5];
        let check = |value: f64| Check {
            name: "made up".into(),
            value,
            limit: 0.0,
            bound: Bound::AtMost,
            unit: String::new(),
            p_value: None,
            p_value_min: None,
            passed: false,
            decides: VerdictKind::Failed,
        };
        let mut without_numbers = record(&header, 0);
        without_numbers.verdict.checks = values.map(check).to_vec();
        store.commit(&without_numbers).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!(run.damage, Vec::<String>::new());
        let found: Vec<f64> = run.records[0].verdict.checks.iter().map(|check| check.value).collect();
        assert!(found[..2] == values[..2] && found[2].is_nan() && found[3] == 1.5, "{found:?}");

        // Of what cannot be read again the trial is told, and nothing else of it.
        let load = LoadReport { rate_achieved_per_s: f64::NAN, ..crate::verdict::tests::healthy() };
        let unreadable = TrialRecord { load: Some(load), ..record(&header, 1) };
        let error = format!("{:#}", store.commit(&unreadable).unwrap_err());
        assert!(error.contains("could not be read again"), "{error}");
        let kept = unreadable.readable();
        assert!(kept.load.is_none() && kept.verdict.kind == VerdictKind::Failed, "{:?}", kept.verdict);
        assert!(kept.verdict.reason.contains("cannot be stored"), "{:?}", kept.verdict);
        store.commit(&kept).unwrap();
        let healthy = TrialRecord { load: Some(crate::verdict::tests::healthy()), ..record(&header, 2) };
        assert!(healthy.readable().load.is_some());
        assert_eq!(indices(&read(&folder).unwrap()), [0, 1]);
    }

    #[test]
    fn trials_before_and_after_a_damaged_page_are_read_and_kept() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        stored(&folder, 40);
        let path = folder.join("muxbench.db");
        let page_bytes: u32 =
            open_database(&folder, Access::Write).unwrap().query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        let page_bytes = u64::from(page_bytes);
        let pages = fs::metadata(&path).unwrap().len() / page_bytes;
        assert!(pages > 100, "{pages}");
        // In the middle of the records' own pages and of those that they go on in.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for page in pages / 2..pages / 2 + 4 {
            file.write_all_at(&vec![0xa5; page_bytes as usize], page * page_bytes).unwrap();
        }
        drop(file);
        let run = read(&folder).unwrap();
        let found = indices(&run);
        assert!(!run.damage.is_empty(), "it is told");
        assert!(found.first() == Some(&0) && found.last() == Some(&39) && found.len() < 40, "{found:?}");
        let (store, _) = resume(&folder);
        drop(store);
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (found, Vec::new()), "nothing that could be read is lost");
    }

    #[test]
    fn a_database_that_another_program_keeps_locked_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        let other = open_database(&folder, Access::Write).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let error = format!("{:#}", read(&folder).unwrap_err());
        assert!(error.contains("another program keeps the database locked; close it"), "{error}");
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            let at = std::time::Instant::now();
            drop(other);
            at
        });
        store.commit(&record(&header, 2)).unwrap();
        let committed_at = std::time::Instant::now();
        assert!(closing.join().unwrap() < committed_at, "not while it was locked");
        assert_eq!(indices(&read(&folder).unwrap()), [2]);
    }

    #[test]
    fn a_trial_that_cannot_be_committed_leaves_nothing_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        let with_load = |index: usize| {
            let load = Some(crate::verdict::tests::healthy());
            TrialRecord { load, ..record(&header, index) }
        };
        store.commit(&with_load(0)).unwrap();
        // The database may not grow by another page.
        store.database.execute_batch("PRAGMA max_page_count = 1").unwrap();
        fs::write(store.samples_draft(1), "samples").unwrap();
        let mut record = with_load(1);
        record.verdict = Verdict::failed("long ".repeat(10_000));
        let error = format!("{:#}", store.commit(&record).unwrap_err());
        assert!(error.contains("cannot commit trial 1") && error.contains("the disk is full; make room"), "{error}");
        for file in [store.samples_draft(1), samples_path(&folder, 1), histograms_path(&folder, 1)] {
            assert!(!file.exists(), "{}", file.display());
        }
        // Nor does one whose histograms have no place, the last of them being there already.
        let record = with_load(2);
        fs::create_dir_all(histograms_path(&folder, 2).join("in its place")).unwrap();
        fs::write(store.samples_draft(2), "samples").unwrap();
        let error = format!("{:#}", store.commit(&record).unwrap_err());
        assert!(error.contains("cannot write the histograms"), "{error}");
        for file in
            [store.samples_draft(2), samples_path(&folder, 2), histograms_path(&folder, 2).with_extension("part")]
        {
            assert!(!file.exists(), "{}", file.display());
        }
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (vec![0], Vec::new()));
        assert!(histograms_path(&folder, 0).exists());
    }

    #[test]
    fn what_a_killed_run_had_not_finished_writing_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let header = header();
        let store = Store::create(&folder, &header).unwrap();
        let draft = store.samples_draft(0);
        fs::write(samples_path(&folder, 7), "whole").unwrap();
        let left = [draft.clone(), draft.with_extension("part-2"), folder.join("run.json.part")];
        left.iter().for_each(|file| fs::write(file, "half").unwrap());
        drop(store);
        drop(resume(&folder));
        assert!(left.iter().all(|file| !file.exists()));
        assert!(samples_path(&folder, 7).exists(), "what is whole stays");
    }

    #[test]
    fn runs_are_found_in_folders_of_folders() {
        let results = tempfile::tempdir().unwrap();
        let at = |path: &str| results.path().join(path);
        for run in ["paper/two", "paper/one", "alone"] {
            drop(Store::create(&at(run), &header()).unwrap());
        }
        fs::create_dir_all(at("figures")).unwrap();
        assert_eq!(runs(results.path()), [at("alone"), at("paper/one"), at("paper/two")]);
        assert_eq!(runs(&at("alone")), [at("alone")]);
        assert!(runs(&at("figures")).is_empty() && runs(&at("nowhere")).is_empty());
        assert!(is_run(&at("alone")) && !is_run(&at("paper")));
    }

    #[test]
    fn the_latest_run_is_found_by_when_it_began() {
        let results = tempfile::tempdir().unwrap();
        let at = |path: &str| results.path().join(path);
        let begin = |path: &str, started_at: &str| {
            drop(Store::create(&at(path), &RunHeader { started_at: started_at.into(), ..header() }).unwrap());
        };
        assert!(latest(results.path()).unwrap_err().to_string().contains("no run is there"));
        begin("reproduce/one", "2001-01-02T00:00:00Z");
        assert_eq!(latest(results.path()).unwrap(), at("reproduce/one"), "deep in the folder");
        begin("copied", "2001-01-01T00:00:00Z");
        assert_eq!(latest(results.path()).unwrap(), at("reproduce/one"), "written last, and begun before");
        std::thread::sleep(Duration::from_millis(20));
        begin("alone", "2001-01-02T00:00:00Z");
        assert_eq!(latest(results.path()).unwrap(), at("alone"), "of one second, what was written last");
        fs::write(at("copied/run.json"), "{").unwrap();
        assert_eq!(latest(results.path()).unwrap(), at("copied"), "a damaged one is not passed over");
    }
}
