//! Runs in folders.

use super::*;

#[test]
fn runs_are_found_in_nested_folders() {
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
fn latest_run_is_the_one_that_began_last() {
    let results = tempfile::tempdir().unwrap();
    let at = |path: &str| results.path().join(path);
    let begin = |path: &str, started_at: &str| {
        drop(Store::create(&at(path), &RunHeader { started_at: started_at.into(), ..header() }).unwrap());
    };
    assert!(latest(results.path()).unwrap_err().to_string().contains("contains no run"));
    begin("reproduce/one", "2001-01-02T00:00:00Z");
    assert_eq!(latest(results.path()).unwrap(), at("reproduce/one"), "a nested run is found");
    begin("copied", "2001-01-01T00:00:00Z");
    assert_eq!(latest(results.path()).unwrap(), at("reproduce/one"), "`copied` was written last but began earlier");
    std::thread::sleep(Duration::from_millis(20));
    begin("alone", "2001-01-02T00:00:00Z");
    assert_eq!(latest(results.path()).unwrap(), at("alone"), "`alone` began in the same second and was written last");
    begin(".muxbench-1-0/001", "2001-01-03T00:00:00Z");
    assert_eq!(latest(results.path()).unwrap(), at("alone"), "a draft is no run");
    fs::write(at("copied/run.json"), "{").unwrap();
    assert_eq!(latest(results.path()).unwrap(), at("copied"), "a damaged run is not skipped");
}
