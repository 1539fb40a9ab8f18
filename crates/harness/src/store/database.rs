//! The schema of `muxbench.db`, and opening the file. The file may belong to any user, so links are not followed and nothing
//! stored in the file is executed.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use load::LoadResult;
use load::result::Measured;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi, params};
use rustix::fs::OFlags;
use server::regular;
use stats::Distribution;

use crate::files;
use crate::record::TrialRecord;

/// Increases when a table, or a name in a record, changes.
pub const SCHEMA_VERSION: i64 = 1;

/// A row for each finished trial.
const TRIALS: &str = "CREATE TABLE trials (
    trial INTEGER PRIMARY KEY, architecture TEXT NOT NULL, connections INTEGER NOT NULL, rate_per_s REAL,
    repeat INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL, service_p50_ns INTEGER, service_p99_ns INTEGER,
    send_delay_p99_ns INTEGER, rate_achieved_per_s REAL, record TEXT NOT NULL
)";

/// Checksums of the records, because SQLite does not detect changed bytes.
const CHECKSUMS: &str = "CREATE TABLE checksums (trial INTEGER PRIMARY KEY, record_crc32 INTEGER NOT NULL)";

/// A copy of run.json.
const HEADERS: &str = "CREATE TABLE header (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 0), text TEXT NOT NULL, text_crc32 INTEGER NOT NULL
)";

/// The tables of `muxbench.db`.
pub const SCHEMA: [&str; 3] = [TRIALS, CHECKSUMS, HEADERS];

/// The timeouts of reads and of commits while another program locks the database.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The limit of one text, in bytes. Pages that link to themselves can claim any length.
const TEXT_BYTES_MAX: i32 = 64 << 20;

/// The explanation of a file without content, and the remedy.
const ABSENT: &str = "is missing or empty; restore it from a copy, or repeat the run in another folder";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) fn open(folder: &Path, access: Access) -> anyhow::Result<Connection> {
    check(folder, connect(folder, access))
}

/// Opens a database for reading, and returns whether pages are missing at its end. SQLite refuses such a file.
pub(super) fn open_to_read(folder: &Path) -> anyhow::Result<(Connection, bool)> {
    let refused = match open(folder, Access::Read) {
        Ok(database) => return Ok((database, false)),
        Err(error) => error,
    };
    let code = refused.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    let cut = (code == Some(ErrorCode::DatabaseCorrupt)).then(|| check(folder, connect_to_cut(folder)));
    cut.and_then(Result::ok).map(|database| (database, true)).ok_or(refused)
}

fn check(folder: &Path, connected: rusqlite::Result<Connection>) -> anyhow::Result<Connection> {
    let explained = |error: rusqlite::Error| explained(folder, error);
    let database = connected.map_err(explained)?;
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(explained)?;
    if version != SCHEMA_VERSION {
        let path = folder.join("muxbench.db");
        let is_empty = fs::metadata(&path).is_ok_and(|it| it.len() == 0);
        let path = path.display();
        if is_empty {
            bail!("{path}: {ABSENT}");
        }
        bail!("cannot read {path}: it has version {version}, and this muxbench reads version {SCHEMA_VERSION}");
    }
    check_tables(&database).map_err(explained)?;
    Ok(database)
}

/// Opens a folder's database. Does not change another user's database, so only its owner can roll back an unfinished commit.
pub(super) fn connect(folder: &Path, access: Access) -> rusqlite::Result<Connection> {
    let database = open_file(folder, access)?;
    prepare(&database)?;
    restrict(&database, access)?;
    Ok(database)
}

/// Opens a copy in memory of a folder's database, for reading, even if its file is shorter than its header states.
fn connect_to_cut(folder: &Path) -> rusqlite::Result<Connection> {
    let unreadable = |error: io::Error| failure(ffi::SQLITE_IOERR, error.to_string());
    let path = folder.join("muxbench.db");
    let mut file = regular::open_with(OpenOptions::new().read(true), OFlags::NOFOLLOW, &path).map_err(unreadable)?;
    let length = file.metadata().map(|it| files::content_bytes_max(&it)).map_err(unreadable)?;
    let mut header = [0; 100];
    file.read_exact(&mut header).map_err(unreadable)?;
    // If the header states no number of pages, SQLite takes it from the length. The last page may lack bytes, so leave it out.
    header[28..32].fill(0);
    // 1 means 64 KiB. Other values below 512 are invalid, and SQLite refuses them.
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes.max(512)),
    };
    let whole_pages = (length - length % page_bytes) as usize;
    let mut database = Connection::open_in_memory()?;
    limit(&database)?;
    database.deserialize_read_exact(c"main", header.chain(file), whole_pages, true)?;
    restrict(&database, Access::Read)?;
    Ok(database)
}

fn open_file(folder: &Path, access: Access) -> rusqlite::Result<Connection> {
    let may_write = access == Access::Write || files::check_ours(folder).is_ok();
    let flags = if may_write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    // SQLite refuses links anywhere in the path.
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    check_files(&folder)?;
    let path = folder.join("muxbench.db");
    let database = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    database.busy_timeout(READ_TIMEOUT)?;
    Ok(database)
}

fn restrict(database: &Connection, access: Access) -> rusqlite::Result<()> {
    let query_only = if access == Access::Read { "ON" } else { "OFF" };
    database.execute_batch(&format!(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = {query_only}"
    ))
}

/// Checks that SQLite would open only regular files. SQLite would wait for a FIFO.
fn check_files(folder: &Path) -> rusqlite::Result<()> {
    for name in ["muxbench.db", "muxbench.db-journal", "muxbench.db-wal", "muxbench.db-shm"] {
        if fs::symlink_metadata(folder.join(name)).is_ok_and(|it| !it.is_file()) {
            return Err(failure(ffi::SQLITE_NOTADB, format!("{name} is {}", regular::other_kind())));
        }
    }
    Ok(())
}

fn prepare(database: &Connection) -> rusqlite::Result<()> {
    limit(database)?;
    // EXTRA also syncs the folder: a commit is durable only after the journal's removal is on disk.
    database.execute_batch("PRAGMA synchronous = EXTRA")
}

fn limit(database: &Connection) -> rusqlite::Result<()> {
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX).map(drop)
}

/// Checks that the tables are not views and have no computed columns, because a query of these could be endless.
pub(super) fn check_tables(database: &Connection) -> rusqlite::Result<()> {
    let others = "SELECT count(*) FROM sqlite_master
        WHERE lower(name) IN ('trials', 'checksums', 'header') AND (type <> 'table' OR rootpage = 0)";
    let mut others: u32 = database.query_row(others, [], |row| row.get(0))?;
    for table in ["trials", "checksums", "header"] {
        let computed = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden <> 0";
        others += database.query_row(computed, [table], |row| row.get::<_, u32>(0))?;
    }
    if others == 0 { Ok(()) } else { Err(corrupt("a table is replaced by a view or has computed columns")) }
}

pub(super) fn create(path: &Path, header: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open(path)?;
    prepare(&database)?;
    let tables = format!("{}; PRAGMA user_version = {SCHEMA_VERSION}", SCHEMA.join("; "));
    database.execute_batch(&tables)?;
    put_header(&database, header)?;
    database.busy_timeout(COMMIT_TIMEOUT)?;
    Ok(database)
}

/// Inserts all these trials or none.
pub(super) fn insert(database: &Connection, records: &[TrialRecord]) -> anyhow::Result<()> {
    let transaction = database.unchecked_transaction()?;
    for record in records {
        let trial = &record.trial;
        let time_ns = |time: fn(&LoadResult) -> &Measured, ns: fn(&Distribution) -> u64| {
            let time = record.load.as_ref().map(|load| &time(load).distribution);
            // A time without values has quantiles of 0.
            time.filter(|time| time.count > 0).map(|time| ns(time) as i64)
        };
        let (text, verdict) = (serde_json::to_string(record)?, serde_json::to_value(record.verdict.kind)?);
        serde_json::from_str::<TrialRecord>(&text).context("the record cannot be read back")?;
        transaction.execute(
            "INSERT OR REPLACE INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                trial.index,
                trial.architecture.to_string(),
                trial.workload.connections,
                trial.workload.rate_per_s(),
                trial.repeat,
                verdict.as_str(),
                record.verdict.reason,
                time_ns(|load| &load.service, |time| time.p50_ns),
                time_ns(|load| &load.service, |time| time.p99_ns),
                time_ns(|load| &load.send_delay, |time| time.p99_ns),
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

pub(super) fn put_header(database: &Connection, text: &str) -> rusqlite::Result<()> {
    let row = params![text, crc32fast::hash(text.as_bytes())];
    database.execute("INSERT OR REPLACE INTO header VALUES (0, ?1, ?2)", row).map(drop)
}

pub(super) fn corrupt(problem: &str) -> rusqlite::Error {
    failure(ffi::SQLITE_CORRUPT, problem.into())
}

fn failure(code: i32, problem: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(problem))
}

pub(super) fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// An error of a folder's database, with a remedy.
pub(super) fn explained(folder: &Path, error: impl Into<anyhow::Error>) -> anyhow::Error {
    use ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure};
    let error = error.into();
    let Some(cause) = error.downcast_ref::<rusqlite::Error>() else { return error };
    let path = folder.join("muxbench.db");
    let explanation = match cause.sqlite_error_code() {
        _ if is_locked(cause) => "another program locks the database; close it and try again",
        Some(DiskFull) => "the disk is full; free some space",
        Some(CannotOpen) if matches!(path.try_exists(), Ok(false)) => ABSENT,
        Some(SystemIoFailure | ReadOnly | CannotOpen | PermissionDenied) => {
            "cannot be read or written; check free space, the limit of file sizes (ulimit -f) and the owner of the folder"
        }
        _ => "is damaged, or is not a database of muxbench",
    };
    error.context(format!("{}: {explanation}", path.display()))
}
