//! Databases that lost their last bytes.

use std::fs::OpenOptions;

use super::*;

/// Cuts bytes off the end of a folder's database.
fn cut(folder: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(folder.join("muxbench.db")).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

#[test]
fn cut_database_keeps_its_readable_trials() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [100, 4_096, 2 * 4_096, 20_000] {
        let folder = folder.path().join(bytes.to_string());
        stored(&folder, 12);
        cut(&folder, bytes);
        let run = read(&folder).unwrap();
        let found = indices(&run);
        assert!((9..12).contains(&found.len()) && found[0] == 0, "{bytes}: {found:?}");
        let is_cut = run.damage.iter().any(|it| it == "the database is cut: its last pages are missing");
        assert_eq!(is_cut, bytes >= 4_096, "{bytes}: {:?}", run.damage);
        assert_eq!(resume(&folder).1.damage, run.damage, "resuming reports the same damage");
        let run = read(&folder).unwrap();
        assert_eq!((indices(&run), run.damage), (found, Vec::new()), "resuming keeps all readable trials");
        assert!(folder.join("muxbench.db.damaged").exists());
    }
}

#[test]
fn cut_database_restores_a_damaged_header() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let header = stored(&folder, 12);
    cut(&folder, 4_096);
    fs::write(folder.join("run.json"), "{").unwrap();
    assert_eq!(super::super::header(&folder).unwrap().seed, header.seed);
    let run = read(&folder).unwrap();
    assert_eq!((run.header.seed, run.records.len()), (header.seed, 11));
}

#[test]
fn database_cut_within_a_page_of_its_header_keeps_all_trials() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [4_096, 5_000, 9_000] {
        let folder = folder.path().join(bytes.to_string());
        stored(&folder, 12);
        let database = database::open(&folder, Access::Write).unwrap();
        database::put_header(&database, &"long ".repeat(10_000)).unwrap();
        drop(database);
        cut(&folder, bytes);
        assert_eq!(indices(&read(&folder).unwrap()), Vec::from_iter(0..12), "{bytes}");
    }
}

#[test]
fn cut_database_without_lost_trials_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 3);
    let database = database::open(&folder, Access::Write).unwrap();
    database.execute_batch("CREATE TABLE more (x); INSERT INTO more VALUES (zeroblob(10000))").unwrap();
    drop(database);
    cut(&folder, 4_096);
    let run = read(&folder).unwrap();
    assert_eq!((indices(&run), run.damage.len()), (vec![0, 1, 2], 1), "{:?}", run.damage);
    drop(resume(&folder));
    assert_eq!(read(&folder).unwrap().damage, Vec::<String>::new());
}

#[test]
fn cut_database_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 3);
    cut(&folder, 4_096);
    let before = fs::read(folder.join("muxbench.db")).unwrap();
    let (database, is_cut) = database::open_to_read(&folder).unwrap();
    assert!(is_cut);
    for change in ["CREATE TABLE more (x)", "DELETE FROM trials", "UPDATE sqlite_master SET name = 'x'"] {
        assert!(database.execute_batch(change).is_err(), "{change}");
    }
    drop(database);
    assert_eq!(fs::read(folder.join("muxbench.db")).unwrap(), before);
    assert!(database::open(&folder, Access::Write).is_err());
}

#[test]
fn cut_database_may_not_hide_a_view() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    stored(&folder, 3);
    // The row of the view has another name than the view.
    let hidden = "ALTER TABLE trials RENAME TO others; CREATE VIEW hidden AS SELECT 1; PRAGMA writable_schema = ON;
         UPDATE sqlite_master SET sql = 'CREATE VIEW trials AS SELECT 7 AS trial, ''x'' AS record' WHERE name = 'hidden'";
    database::connect(&folder, Access::Write).unwrap().execute_batch(hidden).unwrap();
    for bytes in [0, 4_096] {
        cut(&folder, bytes);
        let error = format!("{:#}", read(&folder).unwrap_err());
        assert!(error.contains("damaged"), "{error}");
    }
}
