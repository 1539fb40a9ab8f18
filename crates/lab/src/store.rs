//! A run's folder: `run.json` (what was planned, on which host), `muxbench.db` (a row and a record for each finished
//! trial), `samples/NNNN.parquet` (its raw samples), `histograms/NNNN.hlog` (its histograms, for HdrHistogram's tools).
//! Each trial is committed as it ends.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rusqlite::{Connection, params};
use serde::Deserialize;

use crate::record::{Run, RunHeader, TrialRecord};

/// Changes when an older muxbench could not read the database.
const SCHEMA_VERSION: i64 = 2;

const SCHEMA: &str = "CREATE TABLE trials (
    trial INTEGER PRIMARY KEY, architecture TEXT NOT NULL, connections INTEGER NOT NULL, rate_per_s REAL,
    repeat INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL, service_p50_ns INTEGER, service_p99_ns INTEGER,
    lag_p99_ns INTEGER, rate_achieved_per_s REAL, record TEXT NOT NULL
)";

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
        let database = Connection::open(folder.join("muxbench.db")).with_context(place)?;
        database.execute_batch(&format!("{SCHEMA}; PRAGMA user_version = {SCHEMA_VERSION}")).with_context(place)?;
        fs::rename(draft, folder.join("run.json")).with_context(place)?;
        Ok(Self { folder: folder.to_owned(), database, _lock: lock })
    }

    /// Goes on with a stopped run; what it has is read too.
    ///
    /// # Errors
    /// When it is not there, damaged, or being written by another process.
    pub fn resume(folder: &Path) -> anyhow::Result<(Self, Run)> {
        header(folder)?;
        let lock = lock(folder)?;
        // Not before: who held the lock may have committed a trial.
        let run = read(folder)?;
        let database = open_database(folder)?;
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

    /// Where a trial's samples go once it is finished.
    pub fn samples_path(&self, trial: u32) -> PathBuf {
        samples_path(&self.folder, trial)
    }

    /// Commits a finished trial.
    ///
    /// # Errors
    /// When the disk is full or the database is locked.
    pub fn commit(&self, record: &TrialRecord) -> anyhow::Result<()> {
        let trial = &record.trial;
        // First: what is in the database is whole.
        self.write_histograms(record)?;
        let verdict = serde_json::to_value(record.verdict.kind)?;
        let load = record.load.as_ref();
        self.database
            .execute(
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
                    serde_json::to_string(record)?,
                ],
            )
            .with_context(|| format!("{}: cannot commit trial {}", self.folder.display(), trial.index))?;
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

/// Reads a run, finished or not.
///
/// # Errors
/// When it is not there, or damaged.
pub fn read(folder: &Path) -> anyhow::Result<Run> {
    let header = header(folder)?;
    let place = || format!("{}: the database is damaged", folder.join("muxbench.db").display());
    let database = open_database(folder)?;
    let mut rows = database.prepare("SELECT record FROM trials ORDER BY trial").with_context(place)?;
    let records = rows
        .query_map([], |row| row.get::<_, String>(0))
        .with_context(place)?
        .map(|text| Ok(serde_json::from_str(&text?)?))
        .collect::<anyhow::Result<Vec<TrialRecord>>>()
        .with_context(place)?;
    Ok(Run { header, records })
}

fn header(folder: &Path) -> anyhow::Result<RunHeader> {
    let path = folder.join("run.json");
    let text = fs::read_to_string(&path).with_context(|| {
        format!("{}: no run is there; name a folder that `compare` or `run` made", folder.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{}: not written by this version, or damaged", path.display()))
}

fn open_database(folder: &Path) -> anyhow::Result<Connection> {
    let path = folder.join("muxbench.db");
    let place = || format!("{}: not a database of muxbench, or damaged", path.display());
    let database =
        Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE).with_context(place)?;
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).with_context(place)?;
    if version != SCHEMA_VERSION {
        bail!("{}: version {version}, this muxbench reads version {SCHEMA_VERSION}", path.display());
    }
    Ok(database)
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
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
        // A child that another test forks meanwhile holds the lock a little longer.
        let started = std::time::Instant::now();
        let (store, run) = loop {
            match Store::resume(&folder) {
                Err(_) if started.elapsed() < Duration::from_secs(20) => std::thread::sleep(Duration::from_millis(5)),
                resumed => break resumed.unwrap(),
            }
        };
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
