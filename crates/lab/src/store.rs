//! A run's folder: `run.json` (what was planned, on which host), `muxbench.db` (a row and a record for each finished
//! trial), `samples/NNNN.parquet` (its raw samples), `histograms/NNNN.hlog` (its histograms, for HdrHistogram's tools).
//! Each trial is committed as it ends. What is damaged is told, and what else there is can be read.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use serde::Deserialize;

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
    /// Begins a run in a new folder.
    ///
    /// # Errors
    /// When the folder is there already and not empty, or cannot be made.
    pub fn create(folder: &Path, header: &RunHeader) -> anyhow::Result<Self> {
        if folder.join("run.json").exists() {
            bail!("{}: a run is there already; name another folder, or finish it with --resume", folder.display());
        }
        if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{}: the folder is not empty; name one that is, or is not there yet", folder.display());
        }
        let place = || format!("{}: cannot make the run's folder", folder.display());
        fs::create_dir_all(folder).with_context(place)?;
        if fs::metadata(folder).with_context(place)?.permissions().mode() & 0o002 != 0 {
            let folder = folder.display();
            bail!(
                "{folder}: others may write there, and so put anything in a result's place; name a folder in it, or another"
            );
        }
        fs::create_dir_all(folder.join("samples")).with_context(place)?;
        let lock = lock(folder)?;
        let draft = draft(folder, header).with_context(place)?;
        let database = new_database(&folder.join("muxbench.db")).with_context(place)?;
        fs::rename(draft, folder.join("run.json")).with_context(place)?;
        Ok(Self { folder: folder.to_owned(), database, _lock: lock })
    }

    /// Goes on with a stopped run; what it has is read too. A damaged database is put aside, and what can be read of it goes
    /// into another; drafts that were left are removed.
    ///
    /// # Errors
    /// When it is not there, cannot be read at all, or is being written by another process.
    pub fn resume(folder: &Path) -> anyhow::Result<(Self, Run)> {
        header(folder)?;
        let lock = lock(folder)?;
        // Not before: who held the lock may have committed a trial.
        let run = read(folder)?;
        if !run.damage.is_empty() {
            salvage(folder, &run.records)?;
        }
        remove_drafts(folder);
        let database = open_database(folder)?;
        database.busy_timeout(COMMIT_PATIENCE)?;
        database.execute_batch(CHECKSUMS).map_err(|error| explained(folder, error))?;
        Ok((Self { folder: folder.to_owned(), database, _lock: lock }, run))
    }

    /// Says anew what the run is; what is finished stays.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        let place = || format!("{}: cannot write run.json; is the disk full?", self.folder.display());
        let draft = draft(&self.folder, header).with_context(place)?;
        fs::rename(draft, self.folder.join("run.json")).with_context(place)
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
            for file in
                [self.samples_draft(trial), samples_path(&self.folder, trial), histograms_path(&self.folder, trial)]
            {
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
            fs::rename(&draft, &path).with_context(|| format!("{}: cannot be written", path.display()))?;
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
        let draft = path.with_extension("part");
        // Here, for a run that an earlier version began has no such folder.
        fs::create_dir_all(self.folder.join("histograms")).with_context(place)?;
        fs::write(&draft, &log).with_context(place)?;
        fs::rename(&draft, &path).with_context(place)
    }
}

/// What is to be run.json, under another name first: it is whole, or not there.
fn draft(folder: &Path, header: &RunHeader) -> anyhow::Result<PathBuf> {
    let draft = folder.join("run.json.part");
    fs::write(&draft, serde_json::to_string_pretty(header)?)?;
    Ok(draft)
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
    let header = header(folder)?;
    let database = open_database(folder)?;
    let (texts, mut damage) = texts(&database).map_err(|error| explained(folder, error))?;
    let checksums = checksums(&database).map_err(|error| explained(folder, error))?;
    let mut records = Vec::new();
    for (trial, text) in texts {
        match record(trial, &text, checksums.get(&trial).copied()) {
            Ok(record) => records.push(record),
            Err(what) => damage.push(format!("trial {trial} is left out: {what}")),
        }
    }
    Ok(Run { header, records, damage })
}

/// Records as they are stored, by their trial.
type Texts = BTreeMap<u32, Vec<u8>>;

/// Each trial's record as it is stored, and what is damaged of the database as such. Where it cannot be read on from the
/// beginning, it is from the end.
fn texts(database: &Connection) -> rusqlite::Result<(Texts, Vec<String>)> {
    let mut texts = Texts::new();
    let mut read = |order: &str| {
        let mut statement = database.prepare(&format!("SELECT trial, record FROM trials ORDER BY trial {order}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            texts.insert(row.get(0)?, row.get_ref(1)?.as_bytes()?.to_vec());
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

/// The checksum of each record's text, as far as they are known.
fn checksums(database: &Connection) -> rusqlite::Result<BTreeMap<u32, u32>> {
    // Runs of earlier versions have none; nor has one whose table cannot be read.
    let Ok(mut statement) = database.prepare("SELECT trial, record_crc32 FROM checksums") else {
        return Ok(BTreeMap::new());
    };
    match statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect() {
        Err(error) if is_locked(&error) => Err(error),
        known => Ok(known.unwrap_or_default()),
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

/// Puts a damaged database aside, with another in its place that has these trials.
fn salvage(folder: &Path, records: &[TrialRecord]) -> anyhow::Result<()> {
    let (path, draft) = (folder.join("muxbench.db"), folder.join("muxbench.db.part"));
    let place = || format!("{}: cannot write what can be read of it into another", path.display());
    let _ = fs::remove_file(&draft);
    insert(&new_database(&draft).with_context(place)?, records).with_context(place)?;
    fs::copy(&path, folder.join("muxbench.db.damaged")).with_context(place)?;
    fs::rename(&draft, &path).with_context(place)
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
    let path = folder.join("run.json");
    let text = fs::read_to_string(&path).with_context(|| {
        format!("{}: no run is there; name a folder that `compare` or `run` made", folder.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{}: not written by this version, or damaged", path.display()))
}

fn new_database(path: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open(path)?;
    database.execute_batch(&format!("{SCHEMA}; {CHECKSUMS}; PRAGMA user_version = {SCHEMA_VERSION}"))?;
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

fn open_database(folder: &Path) -> anyhow::Result<Connection> {
    let path = folder.join("muxbench.db");
    let explained = |error: rusqlite::Error| explained(folder, error);
    let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(explained)?;
    database.busy_timeout(READ_PATIENCE).map_err(explained)?;
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(explained)?;
    if version != SCHEMA_VERSION {
        bail!("{}: version {version}, this muxbench reads version {SCHEMA_VERSION}", path.display());
    }
    Ok(database)
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let place = || format!("{}: cannot be written; is the folder another user's, or read-only?", path.display());
    let file = File::create(&path).with_context(place)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
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
    use super::*;
    use crate::record::Verdict;

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
        let change = |sql: &str| assert_eq!(open_database(&folder).unwrap().execute(sql, []).unwrap(), 1);
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
        open_database(&folder).unwrap().execute_batch("DROP TABLE checksums").unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (vec![0, 1], Vec::new()));
        let (store, _) = resume(&folder);
        store.commit(&record(&header, 1)).unwrap();
        assert_eq!(checksums(&store.database).unwrap().into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn trials_before_and_after_a_damaged_page_are_read_and_kept() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        stored(&folder, 40);
        let path = folder.join("muxbench.db");
        let page_bytes: u32 =
            open_database(&folder).unwrap().query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
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
        let other = open_database(&folder).unwrap();
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
