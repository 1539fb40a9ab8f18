//! `muxbench overload`, and the report on its stored run.

use std::fs;
use std::path::Path;

use crate::cases::{Cases, case};
use crate::common::muxbench;
use harness::record::VerdictKind;
use serde_json::Value;

/// Flags of an overload of a second. A client that spins would take CPU time from other tests.
const SMALL: &str = "overload --connections 8 --request 1B --response 100B --ramp 0 --warm-up 50ms --before 300ms \
                     --pulse-length 200ms --after 500ms --pacing sleep-spin --quiet";

/// Runs muxbench in `folder`. Returns its exit code, its output with single spaces, and its errors.
fn run(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let output = muxbench().args(line.split_whitespace()).current_dir(folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn given_capacity_makes_one_trial_of_each_server() {
    let folder = tempfile::tempdir().unwrap();
    let flags = "--capacity 400 --arch epoll,mt --request-timeout 30s --retries 2 --retry-budget 20% --output one";
    let (code, out, err) = run(folder.path(), &format!("{SMALL} {flags}"));
    assert!(matches!(code, Some(0 | 3)), "{out}\n{err}");
    let conditions = "0.7x of the given capacity for 300ms, 1.5x for 200ms (the pulse), 0.7x for 500ms. A request times out after \
                      30s and is sent again up to 2 times (at most 20 % of the requests).";
    assert!(out.contains(conditions) && out.contains("Overload: 8 connections, 1B -> 100B"), "{out}");

    let stored = harness::store::read(&folder.path().join("one")).unwrap();
    assert_eq!(stored.records.len(), 2);
    for record in &stored.records {
        let goodput = record.load.as_ref().unwrap().goodput.as_ref().unwrap();
        let planned: Vec<u64> = goodput.bins.iter().map(|bin| bin.planned).collect();
        let sum = |bins: &[u64]| bins.iter().sum::<u64>();
        let phases = [sum(&planned[..3]), sum(&planned[3..5]), sum(&planned[5..])];
        // Slots of requests may reach over an edge of the pulse.
        let expected = [84, 120, 140];
        assert!(
            planned.len() == 10 && phases.iter().zip(expected).all(|(a, b): (&u64, u64)| a.abs_diff(b) <= 1),
            "{phases:?}"
        );
        assert!(goodput.timeouts == 0 && record.verdict.kind != VerdictKind::Failed, "{:?}", record.verdict);
        assert!(goodput.bins.iter().all(|bin| bin.in_time == bin.planned), "nothing takes 30 s: {goodput:?}");
    }

    let (_, text, _) = run(folder.path(), "report one");
    assert!(out.contains(&text), "the report of the stored run is the same: {text}");
    let (_, json, _) = run(folder.path(), "report one --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let rows = json["overload"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["architecture"].as_str().unwrap()).collect();
    assert!(names.contains(&"epoll") && names.contains(&"mt") && rows.len() == 2, "{names:?}");
    assert!(rows.iter().all(|row| row["capacity_per_s"] == 400.0 && row["pulse"]["bins"][0]["planned"].is_u64()));
    let (_, csv, _) = run(folder.path(), "report one --csv");
    assert!(
        csv.starts_with("architecture,capacity_per_s,") && csv.contains("pulse.phases.after.goodput_per_s"),
        "{csv}"
    );
    let (_, markdown, _) = run(folder.path(), "report one --markdown");
    assert!(markdown.contains("| architecture | capacity | before | pulse | after |"), "{markdown}");
    run(folder.path(), "report one --html --figures plots");
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    assert!(read("one/report.html").contains("<h2>Overload</h2>"));
    assert!(read("plots/overload.svg").contains("(pulse: 300 ms to 500 ms)"));

    // All trials have run, so resuming shows the result again.
    let (code, again, err) = run(folder.path(), "overload --resume one --quiet");
    assert!(matches!(code, Some(0 | 3)) && again.contains(&text), "{again}\n{err}");
}

fn search_finds_the_capacity_first() {
    let folder = tempfile::tempdir().unwrap();
    // The highest rate meets the limit at once.
    let flags = "--measure 200ms --arch epoll --p50 10s --from 200 --to 200 --output found";
    let (code, out, err) = run(folder.path(), &format!("{SMALL} {flags}"));
    assert!(matches!(code, Some(0 | 3)), "{out}\n{err}");
    let stored = harness::store::read(&folder.path().join("found")).unwrap();
    let (pulse, probes) = stored.records.split_last().unwrap();
    assert!(!probes.is_empty() && probes.iter().all(|it| it.load.as_ref().is_none_or(|load| load.goodput.is_none())));
    assert_eq!(pulse.trial.workload.peak_per_s().map(f64::round), Some(300.0));
    assert!(out.contains(">= 200") && out.contains("epoll: the capacity is only a lower bound"), "{out}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(given_capacity_makes_one_trial_of_each_server));
    cases.once(case!(search_finds_the_capacity_first));
}
