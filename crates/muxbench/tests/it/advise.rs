//! Races: their answer, the experiment that confirms it, and its input.

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use crate::cases::{Cases, case};
use crate::common::muxbench;
use serde_json::{Value, json};

/// Flags of a race whose repeats take about three seconds. A closed loop with think time needs no punctual client.
const SMALL: &str =
    "--connections 10 --schedule closed --think 20ms --request 1B --response 100B --measure 500ms --budget 20s";

/// The command of an external server whose requests sleep for some time.
fn server(sleep: &str) -> String {
    let muxbench = env!("CARGO_BIN_EXE_muxbench");
    format!(
        "{muxbench} serve --arch mt --listen 127.0.0.1:{{port}} --request 1B --response 100B --simulated-work sleep={sleep}"
    )
}

fn advise(folder: &Path, flags: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        muxbench().args(["advise", "--quiet"]).args(flags).current_dir(folder).output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (status.code(), out, err)
}

fn race_has_an_answer_and_an_experiment_that_confirms_it() {
    let folder = tempfile::tempdir().unwrap();
    let (quick, slow) = (format!("quick={}", server("5ms")), format!("slow={}", server("60ms")));
    let mut flags: Vec<&str> = SMALL.split_whitespace().collect();
    flags.extend(["--exec", &quick, "--exec", &slow, "--arch", "mt", "--allow-exec", "--objective", "p50,cpu*0.1"]);
    flags.extend(["--limit", "p99=10s", "--output", "race"]);
    let (code, out, err) = advise(folder.path(), &flags);
    // On a busy host no trial may be usable; then there is no winner.
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {out}\n{err}");
    assert!(out.starts_with("Advice for the best p50, cpu*0.1, with p99 at most 10.0 s\n"), "{out}");
    assert!(out.contains("closed loop, 10 connections, think 20ms"), "{out}");
    assert!(["mt ", "exec:quick ", "exec:slow "].iter().all(|name| out.contains(name)), "{out}");
    let report = |arguments: &[&str]| {
        let output = muxbench().arg("report").args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(out.starts_with(&report(&["race"])), "the stored run has the same report");
    let run: Value = serde_json::from_str(&report(&["race", "--json"])).unwrap();
    let advice = &run["advice"];
    assert_eq!(advice["contestants"].as_array().unwrap().len(), 3, "{advice}");
    assert!(advice["repeats"].as_u64() >= Some(2) && advice["is_ended"] == json!(true), "{advice}");
    report(&["race", "--html"]);
    assert!(report(&["race", "race"]).contains("exec:slow"), "a race can be compared with another");
    let (again, text, err) = advise(folder.path(), &["--resume", "race", "--allow-exec"]);
    assert!(again == code && text == out, "a finished race has nothing to resume: {again:?} {text}\n{err}");
    let Some(winner) = advice["winner"].as_str() else {
        assert!(code == Some(3) && out.contains("Fewer than two contestants are usable"), "{code:?}: {out}");
        return;
    };
    assert!(winner != "exec:slow" && code == Some(0), "{code:?}: {out}");
    assert!(out.contains("Under changed traffic:\n- connections x2 (20 connections): "), "{out}");
    assert!(out.contains("- size x10: not measured: exec:quick determines it."), "{out}");
    if advice["runner_up"].is_null() {
        return;
    }
    assert!(out.contains("muxbench compare race/confirm.toml --allow-exec") && out.contains("muxbench gate "), "{out}");
    let confirm =
        ["compare", "race/confirm.toml", "--allow-exec", "--repeats", "1", "--measure", "300ms", "--json", "--quiet"];
    let output = muxbench().args(confirm).current_dir(folder.path()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let servers: Vec<&str> =
        run["run"]["trials"].as_array().unwrap().iter().filter_map(|it| it["architecture"].as_str()).collect();
    assert!(servers.contains(&winner) && servers.len() >= 2, "{servers:?}");
}

/// A second read of standard input would find no experiment, and fail with another error.
fn piped_experiment_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("piped.toml");
    let text = "name = \"piped\"\narchitectures = [\"epoll\"]\n[workload]\nconnections = 8\nrate = 400\n";
    fs::write(&file, text).unwrap();
    for (command, words) in [
        ("advise - --arch epoll", "a race needs two servers"),
        ("gate epoll mt - --budget 1s", "and a decision needs 3"),
    ] {
        let mut process = muxbench();
        process.args(command.split(' ')).stdin(File::open(&file).unwrap()).current_dir(folder.path());
        let error = String::from_utf8(process.output().unwrap().stderr).unwrap();
        assert!(error.contains(words), "{command}: {error}");
    }
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(race_has_an_answer_and_an_experiment_that_confirms_it));
    cases.once(case!(piped_experiment_is_read_once));
}
