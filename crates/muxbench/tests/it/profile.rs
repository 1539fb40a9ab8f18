//! Where a request's CPU time goes: `--profile`.

use std::fs;
use std::path::Path;
use std::process::Output;

use profile::sampling::can_sample;
use serde_json::Value;

use crate::cases::{Cases, case};
use crate::common::{as_nobody, muxbench, muxbench_for_all_users, skipped, text};

/// A closed loop keeps the servers busy, so that there are samples.
const TRAFFIC: [&str; 8] = ["-c", "200", "--schedule", "closed", "--repeats", "1", "--measure", "300ms"];

fn compare(folder: &Path, flags: &[&str]) -> Output {
    let mut command = muxbench();
    command.args(["compare", "--quiet", "--profile"]).args(TRAFFIC).args(flags).current_dir(folder);
    command.output().unwrap()
}

fn can_profile() -> bool {
    let checked = can_sample();
    if let Err(reason) = &checked {
        skipped(&format!("sampled stacks: {reason}"));
    }
    checked.is_ok()
}

fn profiles_explain_the_cpu_time_of_each_row() {
    let folder = tempfile::tempdir().unwrap();
    if !can_profile() {
        return;
    }
    let output = compare(folder.path(), &["--arch", "epoll,mp,poll,tokio", "--json", "--output", "run"]);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let mut of_events = Vec::new();
    for name in ["epoll", "mp", "poll", "tokio"] {
        let rows = run["summary"]["comparisons"][0]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["label"] == name).unwrap();
        let profile = &row["profile"];
        assert!(profile["samples"].as_u64() > Some(50), "{name}: {row}");
        let part = |category: Value| {
            let parts = profile["parts"].as_array().unwrap();
            parts.iter().find(|part| part["category"] == category).map_or(0.0, |part| part["value"].as_f64().unwrap())
        };
        let all_ns = profile["cpu_ns_per_request"].as_f64().unwrap();
        let sum_ns: f64 = profile["parts"].as_array().unwrap().iter().map(|it| it["value"].as_f64().unwrap()).sum();
        assert!((sum_ns / all_ns - 1.0).abs() < 1e-6, "{name}: {profile}");
        assert!(part(Value::Null) < 0.05 * all_ns, "{name}: {profile}");
        assert!(part("send".into()) > 0.0 && part("copies".into()) > 0.0, "{name}: {profile}");
        of_events.push(part("events".into()) / all_ns);
    }
    assert!(of_events[0] + of_events[2] > 0.0 && of_events[1] < 0.01, "mp has no events: {of_events:?}");
    // The sampled heat is longer, and no figure is of it.
    let trials = run["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["load"]["window_ns"].as_u64() < Some(1_000_000_000)), "{trials:?}");
    let stacks = folder.path().join("run/samples");
    let left = fs::read_dir(stacks).unwrap().filter(|it| it.as_ref().unwrap().path().extension().unwrap() == "part");
    assert_eq!(left.count(), 0, "the samples of the sampled heat are removed");
    let report = |flags: &[&str]| {
        let output = muxbench().args(["report", "run"]).args(flags).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = report(&["--wide"]);
    assert!(shown.contains("Where a request's time goes:") && shown.contains("event mechanism"), "{shown}");
    report(&["--html", "page.html"]);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("class=\"flames") && page.contains("tcp_sendmsg_locked_[k]"), "the page has flame graphs");
}

fn missing_privileges_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let program = muxbench_for_all_users(folder.path());
    let mut command = as_nobody(&program);
    command.args(["compare", "--arch", "epoll,mt", "--profile"]).args(TRAFFIC).current_dir(folder.path());
    let output = command.output().unwrap();
    let printed = text(&output.stderr);
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|_| "2".into());
    if paranoid.trim().parse::<i32>().unwrap_or(2) < 1 {
        skipped(&format!("a refusal: kernel.perf_event_paranoid is {}", paranoid.trim()));
        return;
    }
    assert!(
        !output.status.success() && printed.contains("--profile: ") && printed.contains("run as root"),
        "{printed}"
    );
    assert!(!folder.path().join("results").exists(), "no run was started");
}

fn searches_reject_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "architectures = 'epoll'\nprofile = true\n[workload]\nconnections = 9\n").unwrap();
    let output = muxbench().args(["capacity", "--p99", "9ms"]).arg(&file).current_dir(folder.path()).output().unwrap();
    let printed = text(&output.stderr);
    assert!(!output.status.success() && printed.contains("profile: the probes of a search"), "{printed}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(profiles_explain_the_cpu_time_of_each_row));
    cases.once(case!(missing_privileges_are_reported_before_anything_starts));
    cases.once(case!(searches_reject_profiles));
}
