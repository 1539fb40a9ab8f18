//! Gates: two builds of a server, their outcomes and exit codes, and the files of results.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::cases::{Cases, case};
use crate::common::{ROOT, muxbench, prepared};
use serde_json::{Value, json};

/// Flags of a gate whose repeats take about two seconds. A closed loop with think time needs no punctual client.
const SMALL: &str = "--connections 20 --schedule closed --think 20ms --request 1B --response 100B --ramp 50ms --warm-up 50ms \
                     --measure 600ms --limit cpu=off,memory=off";

/// The command of an external server whose requests sleep for some time.
fn build(sleep: &str) -> String {
    let muxbench = env!("CARGO_BIN_EXE_muxbench");
    format!(
        "{muxbench} serve --arch mt --listen 127.0.0.1:{{port}} --request 1B --response 100B --simulated-work sleep={sleep}"
    )
}

/// Whether other programs disturbed a gate so much that it is undecided.
fn is_disturbed(code: Option<i32>, out: &str) -> bool {
    code == Some(4) && ["client-limited", "unsteady"].iter().any(|verdict| out.contains(verdict))
}

fn gate(folder: &Path, builds: [&str; 2], flags: &str) -> (Option<i32>, String, String) {
    let mut command = muxbench();
    command
        .args(["gate", "--quiet", "--allow-exec"])
        .args(builds)
        .args(SMALL.split_whitespace())
        .args(flags.split_whitespace());
    let Output { status, stdout, stderr } = command.current_dir(folder).output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (status.code(), out, err)
}

fn slower_build_fails_and_faster_build_passes() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (build("1ms"), build("20ms"));
    // Only the p50 can decide. On a busy machine, p90 or rate could be decided before it.
    let flags = "--limit p90=off,rate=off --json --junit gate.xml --history gate.jsonl --label first --output first";
    let (code, out, err) = gate(folder.path(), [&fast, &slow], flags);
    let is_disturbed_first = is_disturbed(code, &out);
    assert!(code == Some(1) || is_disturbed_first, "{code:?}: {out}\n{err}");
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"));
    assert_eq!((&report["old"], &report["new"]), (&json!("exec:old"), &json!("exec:new")));
    let p50 = report["figures"].as_array().unwrap().iter().find(|it| it["figure"] == "p50").unwrap();
    let junit = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    if !is_disturbed_first {
        assert_eq!(report["outcome"], "slower");
        assert!(p50["excess"] == "beyond" && p50["change"].as_f64().unwrap() > 0.05, "{p50}");
        assert!(junit.contains("name=\"p50\"><failure message=\"p50 +"), "{junit}");
    }

    let flags = "--markdown --history gate.jsonl --label second --output second";
    let (code, out, err) = gate(folder.path(), [&slow, &fast], flags);
    let sentence = if code == Some(0) { "exec:new is not slower than exec:old: " } else { "It is undecided " };
    assert!((code == Some(0) || is_disturbed(code, &out)) && out.contains(sentence), "{code:?}: {out}\n{err}");
    assert!(out.starts_with("### Gate: exec:new against exec:old\n"), "{out}");
    assert!(err.contains("gate.jsonl: No figure shifted"), "{err}");

    let report = |arguments: &[&str]| {
        let output = muxbench().arg("report").args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = report(&["gate.jsonl"]);
    assert!(
        text.contains("exec:new against exec:old, closed loop, 20 connections") && text.contains("errors"),
        "{text}"
    );
    let history: Value = serde_json::from_str(&report(&["gate.jsonl", "--json"])).unwrap();
    assert_eq!(history["entries"][1]["label"], "second");
    report(&["gate.jsonl", "--figures", "plots"]);
    assert!(fs::read_to_string(folder.path().join("plots/gate-errors.svg")).unwrap().contains("second"));
    let text = report(&["first"]);
    assert!(text.starts_with("Gate: exec:new against exec:old\n") && text.contains("vs best"), "{text}");
}

fn build_that_does_not_start_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = gate(folder.path(), [&build("1us"), "false {port}"], "");
    assert_eq!(code, Some(1), "{out}\n{err}");
    assert!(out.contains("exec:new is worse than exec:old: errors +100.0 %"), "{out}");
    assert!(out.contains("exec:new failed: "), "the reason is shown: {out}");
}

fn builds_that_cannot_start_are_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let build = "sh -c 'echo >> starts; exit 1' {port}";
    let (code, out, err) = gate(folder.path(), [build, build], "");
    assert_eq!(code, Some(5), "{out}\n{err}");
    assert!(err.contains("nothing to compare with: the old build, exec:old, failed: "), "{out}\n{err}");
    let starts = fs::read_to_string(folder.path().join("starts")).unwrap().lines().count();
    assert!(starts <= 2, "{starts} starts");
}

fn gate_of_one_architecture_shows_its_noise() {
    let folder = tempfile::tempdir().unwrap();
    // An outcome may need a minute, but the placebo is shown after the first repeat.
    let (code, out, err) = gate(folder.path(), ["epoll", "epoll"], "--limit p50=100%,p90=100%,rate=50% --budget 10s");
    assert!(matches!(code, Some(0 | 4)), "{code:?}: {out}\n{err}");
    assert!(out.contains("Gate: epoll (placebo) against epoll"), "{out}");
}

/// Returns series of different lengths with changes of their level, and with noise.
fn series() -> Vec<Vec<f64>> {
    let mut state = 1u64;
    let mut noise = || {
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        (0..4).map(|_| uniform()).sum::<f64>()
    };
    let lengths = [3, 7, 20, 45, 60, 110, 150, 240];
    let of = |(number, length): (usize, usize)| -> Vec<f64> {
        let level = |at: usize| 1.0 + 0.05 * (at / (15 + 9 * number) % 3) as f64;
        (0..length).map(|at| level(at) + 0.01 * noise()).collect()
    };
    lengths.into_iter().enumerate().map(of).collect()
}

fn shifts_are_those_of_apache_otava() {
    let folder = tempfile::tempdir().unwrap();
    let series = series();
    let figure = |name: usize, change: f64| json!({"workload": name.to_string(), "figure": "p50", "old": 1.0, "new": 1.0 + change, "change": change, "interval": null});
    let line = |at: usize| {
        let figures = series.iter().enumerate().filter_map(|(name, values)| Some(figure(name, values.get(at)? - 1.0)));
        let figures: Vec<Value> = figures.collect();
        json!({"label": at.to_string(), "started_at": "", "outcome": "undecided", "old": "a", "new": "b", "figures": figures})
    };
    let longest = series.iter().map(Vec::len).max().unwrap();
    let lines: String = (0..longest).map(|at| format!("{}\n", line(at))).collect();
    fs::write(folder.path().join("gate.jsonl"), lines).unwrap();
    let output = muxbench().args(["report", "gate.jsonl", "--json"]).current_dir(folder.path()).output().unwrap();
    let history: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = history["series"].as_array().unwrap();
    let list = |series: &Value, of: &str, field: &str| {
        Value::Array(series[of].as_array().unwrap().iter().map(|it| it[field].clone()).collect())
    };
    let ours = Value::Array(all.iter().map(|series| list(series, "shifts", "at")).collect());
    let points = Value::Array(all.iter().map(|series| list(series, "points", "ratio")).collect());

    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/otava_shifts.py");
    let mut command = Command::new(&interpreter);
    let child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask test`", interpreter.display()));
    child.stdin.take().unwrap().write_all(points.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(ours, theirs);
    let found = theirs.as_array().unwrap().iter().map(|it| it.as_array().unwrap().len()).sum::<usize>();
    assert!(found > 5, "the series have changes: {theirs}");
}

/// Returns the only shell script of a YAML file, which follows `key` and has no blank line.
fn script(file: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("{ROOT}/deploy/gate/{file}")).unwrap();
    let (_, rest) = text.split_once(&format!("{key} |\n")).unwrap();
    let indent = rest.len() - rest.trim_start().len();
    let lines = rest.lines().take_while(|line| line.len() > indent && line[..indent].trim().is_empty());
    lines.map(|line| format!("{}\n", &line[indent..])).collect()
}

/// Runs the script of a CI job that compares a server with `new`, in `folder`.
fn run_script(script: &str, folder: &Path, new: &str) -> Output {
    let path = Path::new(env!("CARGO_BIN_EXE_muxbench")).parent().unwrap().display().to_string();
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()))
        .envs([("OLD", build("1us").as_str()), ("NEW", new), ("FLAGS", SMALL), ("HISTORY", "gate.jsonl")])
        .envs([("UNDECIDED", "pass"), ("GITHUB_SHA", "abc"), ("CI_COMMIT_SHORT_SHA", "abc")])
        .envs([("GITHUB_STEP_SUMMARY", "sum"), ("GITHUB_OUTPUT", "out")])
        .current_dir(folder)
        .output()
        .unwrap()
}

fn action_reports_the_outcome_of_its_gate() {
    let folder = tempfile::tempdir().unwrap();
    for (new, outcome, code) in [("false {port}", "slower", 1), ("epol", "failed", 5)] {
        let output = run_script(&script("action.yml", "run:"), folder.path(), new);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let outputs = fs::read_to_string(folder.path().join("out")).unwrap();
        assert_eq!(outputs.lines().last().unwrap(), format!("outcome={outcome}"));
    }
    assert!(fs::read_to_string(folder.path().join("sum")).unwrap().starts_with("### Gate: "));
    assert!(fs::read_to_string(folder.path().join("gate.jsonl")).unwrap().contains("\"label\":\"abc\""));
}

/// The job lets code 4 pass, as a warning.
fn failed_gate_is_no_warning_in_gitlab() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_script(&script("gitlab.yml", "-"), folder.path(), "epol");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty() && err.contains("epol"), "{err}");
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(slower_build_fails_and_faster_build_passes));
    cases.once(case!(build_that_does_not_start_fails));
    cases.once(case!(builds_that_cannot_start_are_an_error_at_once));
    cases.once(case!(gate_of_one_architecture_shows_its_noise));
    cases.once(case!(shifts_are_those_of_apache_otava));
    cases.once(case!(action_reports_the_outcome_of_its_gate));
    cases.once(case!(failed_gate_is_no_warning_in_gitlab));
}
