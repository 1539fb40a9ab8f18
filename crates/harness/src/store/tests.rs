use std::os::unix::fs::{PermissionsExt, symlink};

use load::LoadResult;

use super::*;
use crate::record::{Bound, Check, Verdict, VerdictKind};

mod cut;
mod folders;

pub(super) fn header() -> RunHeader {
    let experiment = crate::spec::presets::find("smoke").unwrap().experiment();
    let plan = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap();
    RunHeader::made_up(plan)
}

pub(super) fn record(header: &RunHeader, index: usize) -> TrialRecord {
    TrialRecord {
        trial: header.trials[index].clone(),
        started_at: "2026-01-01T00:00:00Z".into(),
        elapsed_ns: 1,
        separated: None,
        load: None,
        server: None,
        idle: None,
        warm_up: None,
        network: None,
        cpu_taken_by_others: None,
        profile: None,
        profile_error: None,
        verdict: Verdict::failed("made up"),
    }
}

#[test]
fn committed_trials_are_read_and_a_run_resumes() {
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
fn trial_without_a_report_removes_earlier_histograms() {
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
fn missing_or_damaged_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let absent = format!("{:#}", read(&run).unwrap_err());
    assert!(absent.contains("contains no run") && absent.ends_with("that `compare` or `run` made"), "{absent}");
    drop(Store::create(&run, &header()).unwrap());
    fs::write(run.join("muxbench.db"), "this is no database, and long enough not to look like an empty one").unwrap();
    assert!(read(&run).unwrap_err().to_string().contains("damaged"));
    fs::write(run.join("run.json"), "{").unwrap();
    assert!(read(&run).unwrap_err().to_string().contains("run.json"));
}

#[test]
fn missing_or_empty_database_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    drop(Store::create(&run, &header()).unwrap());
    let path = run.join("muxbench.db");
    let changes: [fn(&Path); 2] = [|path| fs::write(path, "").unwrap(), |path| fs::remove_file(path).unwrap()];
    for change in changes {
        change(&path);
        let why = read(&run).unwrap_err().to_string();
        assert!(why.contains("muxbench.db: is missing or empty; restore it"), "{why}");
    }
    let why = read(&path.with_file_name("run.json")).unwrap_err().to_string();
    assert!(why.contains("run.json: contains no run; choose a folder"), "{why}");
}

/// A store with long records, so that damaged pages belong to few trials.
fn stored(folder: &Path, trials: u32) -> RunHeader {
    let header = header();
    let store = Store::create(folder, &header).unwrap();
    let long = |index: u32| {
        let mut record = record(&header, 0);
        record.trial.index = index;
        record.verdict = Verdict::failed("made up, and long enough for a page of the database. ".repeat(200));
        record
    };
    database::insert(&store.database, &(0..trials).map(long).collect::<Vec<_>>()).unwrap();
    header
}

fn indices(run: &Run) -> Vec<u32> {
    run.records.iter().map(|record| record.trial.index).collect()
}

/// Resumes after children that other tests forked have closed the inherited lock.
fn resume(folder: &Path) -> (Store, Run) {
    resumed(folder).unwrap()
}

fn resumed(folder: &Path) -> anyhow::Result<(Store, Run)> {
    let started = std::time::Instant::now();
    loop {
        match Store::resume(folder) {
            Err(error) if error.to_string().contains("another muxbench") => {
                assert!(started.elapsed() < Duration::from_secs(60), "{error}");
                std::thread::sleep(Duration::from_millis(5));
            }
            resumed => return resumed,
        }
    }
}

#[test]
fn changed_records_are_omitted_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let header = stored(&folder, 6);
    let change = |sql: &str| assert_eq!(database::open(&folder, Access::Write).unwrap().execute(sql, []).unwrap(), 1);
    // One record has a changed number, one is invalid JSON, and one belongs to another trial.
    change("UPDATE trials SET record = replace(record, '\"elapsed_ns\":1', '\"elapsed_ns\":2') WHERE trial = 1");
    change("UPDATE trials SET record = substr(record, 1, 100) WHERE trial = 3");
    change("DELETE FROM checksums WHERE trial = 4");
    change("UPDATE trials SET record = (SELECT record FROM trials WHERE trial = 5) WHERE trial = 4");
    let run = read(&folder).unwrap();
    assert_eq!(indices(&run), [0, 2, 5]);
    let damage = run.damage.join("\n");
    assert!(damage.contains("trial 1 is omitted: its record was changed"), "{damage}");
    assert!(damage.contains("trial 4 is omitted: its record is that of trial 5") && run.damage.len() == 3, "{damage}");

    let (store, run) = resume(&folder);
    assert_eq!((indices(&run).len(), run.damage.len()), (3, 3), "resuming reports the same damage");
    store.commit(&record(&header, 1)).unwrap();
    let run = read(&folder).unwrap();
    assert_eq!((indices(&run), run.damage), (vec![0, 1, 2, 5], Vec::new()));
    assert!(folder.join("muxbench.db.damaged").exists(), "the damaged database is kept");
}

#[test]
fn missing_checksums_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let changed = |name: &str, sql: &str| {
        stored(&at(name), 3);
        database::open(&at(name), Access::Write).unwrap().execute_batch(sql).unwrap();
        let run = read(&at(name)).unwrap();
        assert_eq!(indices(&run), [0, 1, 2], "records without checksums are read");
        run.damage.join("\n")
    };
    let one = changed("one", "DELETE FROM checksums WHERE trial = 1");
    assert!(one.starts_with("trial 1 has no checksum: its record cannot be verified"), "{one}");
    let all = changed("all", "DELETE FROM checksums");
    assert_eq!(all.lines().count(), 3, "{all}");
    let no_table = changed("no table", "DROP TABLE checksums");
    assert!(no_table.starts_with("the checksums cannot be read (no such table"), "{no_table}");
    let no_number = changed("no number", "UPDATE checksums SET record_crc32 = 'x' WHERE trial = 2");
    assert!(no_number.starts_with("the checksums cannot be read"), "{no_number}");
    assert_eq!(no_number.lines().count(), 1, "{no_number}");
    for name in ["one", "all", "no table", "no number"] {
        assert!(!resume(&at(name)).1.damage.is_empty());
        assert_eq!(read(&at(name)).unwrap().damage, Vec::<String>::new(), "the records have new checksums");
        assert!(at(name).join("muxbench.db.damaged").exists());
    }
}

#[test]
fn damaged_header_is_restored_from_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let header = stored(&folder, 2);
    let path = folder.join("run.json");
    let whole = fs::read_to_string(&path).unwrap();
    let damaged = [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        // Valid JSON with another seed.
        whole.replace(&format!("\"seed\": {}", header.seed), &format!("\"seed\": {}", header.seed + 1)),
    ];
    for text in damaged {
        assert_ne!(text, whole);
        fs::write(&path, &text).unwrap();
        let run = read(&folder).unwrap();
        assert_eq!((run.header.seed, &run.header.trials), (header.seed, &header.trials));
        assert_eq!((indices(&run).len(), run.damage.len()), (2, 1), "{:?}", run.damage);
        assert!(run.damage[0].starts_with("run.json "), "{:?}", run.damage);
        assert_eq!(super::header(&folder).unwrap().seed, header.seed);
        assert_eq!(resume(&folder).1.damage, run.damage, "resuming reports the same damage");
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        assert_eq!(read(&folder).unwrap().damage, Vec::<String>::new());
    }
    assert!(!folder.join("muxbench.db.damaged").exists(), "the database was not damaged");

    // Damage only the copy.
    let change = "UPDATE header SET text = replace(text, '1', '2')";
    database::open(&folder, Access::Write).unwrap().execute_batch(change).unwrap();
    let run = read(&folder).unwrap();
    assert_eq!((run.header.seed, run.damage.len()), (header.seed, 1), "{:?}", run.damage);
    drop(resume(&folder));
    assert_eq!(read(&folder).unwrap().damage, Vec::<String>::new());
    assert!(folder.join("muxbench.db.damaged").exists());
    // Damage run.json too.
    database::open(&folder, Access::Write).unwrap().execute_batch(change).unwrap();
    fs::write(&path, "{").unwrap();
    assert!(read(&folder).unwrap_err().to_string().contains("run.json: was written by another version, or is damaged"));
}

#[test]
fn damaged_databases_are_kept_with_their_journals() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 3);
    let change = |trial: u32| {
        let database = database::open(&folder, Access::Write).unwrap();
        let sql = "UPDATE trials SET record = substr(record, 1, 100) WHERE trial = ?1";
        assert_eq!(database.execute(sql, [trial]).unwrap(), 1);
    };
    change(1);
    drop(resume(&folder));
    let first = fs::read(folder.join("muxbench.db.damaged")).unwrap();
    change(2);
    // SQLite ignores a journal with this header and keeps it.
    fs::write(folder.join("muxbench.db-journal"), "\0journal").unwrap();
    drop(resume(&folder));
    assert_eq!(fs::read(folder.join("muxbench.db.damaged")).unwrap(), first);
    assert!(folder.join("muxbench.db.damaged-2").exists());
    assert_eq!(fs::read_to_string(folder.join("muxbench.db.damaged-2-journal")).unwrap(), "\0journal");
    let run = read(&folder).unwrap();
    assert_eq!((indices(&run), run.damage), (vec![0], Vec::new()));
}

#[test]
fn database_with_views_is_refused() {
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
    let database = database::connect(&folder, Access::Write).unwrap();
    for change in changes {
        database.execute_batch(&change).unwrap();
        let error = format!("{:#}", read(&folder).unwrap_err());
        assert!(error.contains("replaced by a view or has computed columns"), "{error}");
        let error = format!("{:#}", resumed(&folder).unwrap_err());
        assert!(error.contains("replaced by a view or has computed columns"), "{error}");
    }
    // A reader cannot write.
    let reading = database::connect(&folder, Access::Read).unwrap();
    assert!(reading.execute_batch("CREATE TABLE more (x)").is_err());
}

#[test]
fn rows_out_of_order_are_rejected() {
    assert!(
        rows::in_order(None, 7, true).is_ok()
            && rows::in_order(Some(7), 8, true).is_ok()
            && rows::in_order(Some(7), 6, false).is_ok()
    );
    for (before, now, is_ascending) in [(7, 7, true), (7, 6, true), (7, 7, false), (7, 8, false)] {
        assert!(rows::in_order(Some(before), now, is_ascending).is_err());
    }
}

#[test]
fn store_refuses_links_and_folders_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let victim = at("victim");
    fs::write(&victim, "precious").unwrap();
    let header = header();
    for name in ["lock", "run.json.part", "muxbench.db", "samples"] {
        let run = at(&format!("planted {name}"));
        fs::create_dir(&run).unwrap();
        symlink(&victim, run.join(name)).unwrap();
        // Muxbench refuses or replaces the link.
        if Store::create(&run, &header).is_ok() {
            assert!(!fs::symlink_metadata(run.join(name)).is_ok_and(|it| it.is_symlink()), "{name}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
    assert!(Store::create(&at("planted lock"), &header).is_err());

    let run = at("run");
    stored(&run, 2);
    fs::remove_file(run.join("lock")).unwrap();
    symlink(&victim, run.join("lock")).unwrap();
    assert!(Store::resume(&run).unwrap_err().to_string().contains("cannot write "));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(run.join("lock")).unwrap();
    for (path, mode) in [(run.clone(), 0o777), (run.join("samples"), 0o1777)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(Store::resume(&run).unwrap_err().to_string().contains("is writable by others"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let open = at("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(Store::create(&open, &header).unwrap_err().to_string().contains("is writable by others"));
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0, "the folder stays empty");
    // A new folder inside it belongs to this user.
    drop(Store::create(&open.join("run"), &header).unwrap());
    if rustix::process::geteuid().is_root() {
        let others = at("others");
        fs::create_dir(&others).unwrap();
        for folder in [&others, &run] {
            std::os::unix::fs::chown(folder, Some(12_345), None).unwrap();
        }
        for error in [Store::create(&others, &header), Store::resume(&run).map(|it| it.0)].map(Result::unwrap_err) {
            assert!(error.to_string().contains("another user (uid 12345)"), "{error}");
        }
        assert_eq!(fs::read_dir(&others).unwrap().count(), 0, "the folder remains empty");
        assert_eq!(indices(&read(&run).unwrap()), [0, 1], "reading is allowed");
        std::os::unix::fs::chown(&run, Some(0), None).unwrap();
    } else {
        server::skipped::skipped("another user's folder: only root can make one");
    }
    drop(resume(&run));
}

#[test]
fn folder_of_an_interrupted_start_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let header = header();
    // After SIGKILL at any step, the folder can be reused.
    for step in 0..5 {
        let run = at(&format!("step {step}"));
        fs::create_dir(&run).unwrap();
        fs::write(run.join("lock"), "").unwrap();
        if step > 0 {
            fs::create_dir(run.join("samples")).unwrap();
        }
        match step {
            2 => fs::write(run.join("muxbench.db"), "").unwrap(),
            3.. => drop(database::create(&run.join("muxbench.db"), "{}").unwrap()),
            _ => {}
        }
        if step == 4 {
            fs::write(run.join("run.json.part"), "{").unwrap();
        }
        let store = Store::create(&run, &header).unwrap();
        store.commit(&record(&header, 0)).unwrap();
        assert_eq!(indices(&read(&run).unwrap()), [0], "step {step}");
    }
    // A folder with trials or foreign files is rejected.
    let finished = at("step 0");
    fs::remove_file(finished.join("run.json")).unwrap();
    let error = Store::create(&finished, &header).unwrap_err().to_string();
    assert!(error.contains("not empty") && finished.join("muxbench.db").exists(), "{error}");
    let other = at("other");
    fs::create_dir_all(other.join("samples")).unwrap();
    fs::write(other.join("samples/thesis.tex"), "").unwrap();
    assert!(Store::create(&other, &header).unwrap_err().to_string().contains("not empty"));
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "no file is added");
}

#[test]
fn failed_start_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    // The draft of run.json cannot be written.
    fs::create_dir(run.join("run.json.part")).unwrap();
    assert!(Store::create(&run, &header()).is_err());
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
    fs::remove_dir(run.join("run.json.part")).unwrap();
    drop(Store::create(&run, &header()).unwrap());
    // New parents are removed too.
    let too_long = "x".repeat(300);
    assert!(Store::create(&folder.path().join("one/two").join(too_long), &header()).is_err());
    assert!(!folder.path().join("one").exists());
}

#[test]
fn failed_write_names_the_limit_of_file_sizes() {
    let failed = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_WRITE), None);
    let error = format!("{:#}", database::explained(Path::new("run"), failed));
    assert!(error.starts_with("run/muxbench.db: cannot be read or written; check free space, "), "{error}");
    assert!(error.contains("the limit of file sizes (ulimit -f)"), "{error}");
}

#[test]
fn infinite_and_nan_figures_are_stored_and_read() {
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

    // An unreadable record is replaced by its trial and a verdict.
    let load = LoadResult { rate_achieved_per_s: f64::NAN, ..crate::judge::tests::healthy() };
    let unreadable = TrialRecord { load: Some(load), ..record(&header, 1) };
    let error = format!("{:#}", store.commit(&unreadable).unwrap_err());
    assert!(error.contains("cannot be read back"), "{error}");
    let kept = unreadable.readable();
    assert!(kept.load.is_none() && kept.verdict.kind == VerdictKind::Failed, "{:?}", kept.verdict);
    assert!(kept.verdict.reason.contains("cannot be stored"), "{:?}", kept.verdict);
    store.commit(&kept).unwrap();
    let healthy = TrialRecord { load: Some(crate::judge::tests::healthy()), ..record(&header, 2) };
    assert!(healthy.readable().load.is_some());
    assert_eq!(indices(&read(&folder).unwrap()), [0, 1]);
}

#[test]
fn times_without_responses_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let header = header();
    let store = Store::create(&folder.path().join("run"), &header).unwrap();
    let mut load = crate::judge::tests::healthy();
    load.service = load::result::Measured::default();
    store.commit(&TrialRecord { load: Some(load), ..record(&header, 0) }).unwrap();
    let query = "SELECT service_p50_ns IS NULL AND service_p99_ns IS NULL AND send_delay_p99_ns > 0 FROM trials";
    assert!(store.database.query_row(query, [], |row| row.get::<_, bool>(0)).unwrap());
}

/// Fails if `act` waits for another process, as opening a FIFO does.
fn without_waiting<T: Send + 'static>(action: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(act()));
    done.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{action}: waits for another process"))
}

fn make_fifo(path: &Path) {
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
}

#[test]
fn fifo_in_a_run_folder_is_an_error() {
    let names = [
        "run.json",
        "muxbench.db",
        "muxbench.db-journal",
        "muxbench.db-wal",
        "muxbench.db-shm",
        "samples/0001.parquet",
        "lock",
    ];
    // In a folder that is writable by others, SQLite opens the database read-only.
    for (mode, name) in [0o777, 0o755].into_iter().flat_map(|mode| names.map(|name| (mode, name))) {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("run");
        stored(&folder, 2);
        let _ = fs::remove_file(folder.join(name));
        make_fifo(&folder.join(name));
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let (reading_folder, resuming_folder) = (folder.clone(), folder.clone());
        let read = without_waiting(name, move || read(&reading_folder).map(drop));
        let resumed = without_waiting(name, move || Store::resume(&resuming_folder).map(drop));
        match name {
            "samples/0001.parquet" => {
                let why = without_waiting(name, move || traffic::samples::read(&samples_path(&folder, 1)).unwrap_err());
                assert!(format!("{why:#}").contains("not a regular file"), "{why:#}");
            }
            "lock" => {
                read.unwrap();
                assert!(resumed.is_err(), "{mode:o}");
            }
            _ => {
                let why = format!("{:#}", read.unwrap_err());
                assert!(why.contains(name) && why.contains("not a regular file"), "{name}: {why}");
                assert!(resumed.is_err(), "{name} {mode:o}");
            }
        }
    }
}

#[test]
fn trials_around_a_damaged_page_are_kept() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 40);
    let path = folder.join("muxbench.db");
    let page_bytes: u32 =
        database::open(&folder, Access::Write).unwrap().query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    let page_bytes = u64::from(page_bytes);
    let pages = fs::metadata(&path).unwrap().len() / page_bytes;
    assert!(pages > 100, "{pages}");
    // Damage record pages and overflow pages.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages / 2..pages / 2 + 4 {
        file.write_all_at(&vec![0xa5; page_bytes as usize], page * page_bytes).unwrap();
    }
    drop(file);
    let run = read(&folder).unwrap();
    let found = indices(&run);
    assert!(!run.damage.is_empty(), "damage is reported");
    assert!(found.first() == Some(&0) && found.last() == Some(&39) && found.len() < 40, "{found:?}");
    let (store, _) = resume(&folder);
    drop(store);
    let run = read(&folder).unwrap();
    assert_eq!((indices(&run), run.damage), (found, Vec::new()), "resuming keeps all readable trials");
}

#[test]
fn commit_waits_for_a_locked_database() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let header = header();
    let store = Store::create(&folder, &header).unwrap();
    let other = database::open(&folder, Access::Write).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = format!("{:#}", read(&folder).unwrap_err());
    assert!(error.contains("another program locks the database; close it"), "{error}");
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let at = std::time::Instant::now();
        drop(other);
        at
    });
    store.commit(&record(&header, 2)).unwrap();
    let committed_at = std::time::Instant::now();
    assert!(closing.join().unwrap() < committed_at, "the lock delays the commit");
    assert_eq!(indices(&read(&folder).unwrap()), [2]);
}

#[test]
fn commit_is_durable_and_waits_a_minute_for_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let check = |store: Store| {
        let of = |name: &str| store.database.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u32>(0));
        // 60,000 ms, and `synchronous = EXTRA`.
        assert_eq!((of("busy_timeout").unwrap(), of("synchronous").unwrap()), (60_000, 3));
    };
    check(Store::create(&folder, &header()).unwrap());
    check(resume(&folder).0);
}

#[test]
fn endless_header_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 1);
    let path = folder.join("run.json");
    let replacements: [fn(&Path) -> std::io::Result<()>; 3] = [
        |path| symlink("/dev/zero", path),
        |path| Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU)?),
        |path| File::create(path)?.set_len(1 << 40),
    ];
    for make in replacements {
        fs::remove_file(&path).unwrap();
        make(&path).unwrap();
        let error = format!("{:#}", read(&folder).unwrap_err());
        assert!(error.contains("run.json: not a regular file") || error.contains("more than 64 MiB"), "{error}");
        assert_eq!(latest(folder.parent().unwrap()).unwrap(), folder);
    }
}

#[test]
fn oversized_header_copy_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 1);
    let others = Connection::open(folder.join("muxbench.db")).unwrap();
    others.execute("UPDATE header SET text = CAST(zeroblob(65 << 20) AS TEXT)", []).unwrap();
    let run = read(&folder).unwrap();
    assert!(run.damage[0].contains("copy of run.json is damaged (string or blob too big"), "{:?}", run.damage);
    assert_eq!(indices(&run), [0]);
}

#[test]
fn failed_commit_leaves_nothing_of_its_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let header = header();
    let store = Store::create(&folder, &header).unwrap();
    let with_load = |index: usize| {
        let load = Some(crate::judge::tests::healthy());
        TrialRecord { load, ..record(&header, index) }
    };
    store.commit(&with_load(0)).unwrap();
    // The database cannot grow.
    store.database.execute_batch("PRAGMA max_page_count = 1").unwrap();
    fs::write(store.samples_draft(1), "samples").unwrap();
    let mut record = with_load(1);
    record.verdict = Verdict::failed("long ".repeat(10_000));
    let error = format!("{:#}", store.commit(&record).unwrap_err());
    assert!(error.contains("cannot commit trial 1") && error.contains("the disk is full; free some space"), "{error}");
    for file in [store.samples_draft(1), samples_path(&folder, 1), histograms_path(&folder, 1)] {
        assert!(!file.exists(), "{}", file.display());
    }
    // Histograms that cannot be written fail the commit too.
    let record = with_load(2);
    fs::create_dir_all(histograms_path(&folder, 2).join("in its place")).unwrap();
    fs::write(store.samples_draft(2), "samples").unwrap();
    let error = format!("{:#}", store.commit(&record).unwrap_err());
    assert!(error.contains("cannot write the histograms"), "{error}");
    for file in [store.samples_draft(2), samples_path(&folder, 2), histograms_path(&folder, 2).with_extension("part")] {
        assert!(!file.exists(), "{}", file.display());
    }
    let run = read(&folder).unwrap();
    assert_eq!((indices(&run), run.damage), (vec![0], Vec::new()));
    assert!(histograms_path(&folder, 0).exists());
}

#[test]
fn drafts_of_a_killed_run_are_removed() {
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
    assert!(samples_path(&folder, 7).exists(), "finished files remain");
}
