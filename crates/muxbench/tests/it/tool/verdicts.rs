//! Verdicts of overloaded servers and clients.

use super::*;

fn overloaded_server_is_saturated_and_not_ranked() {
    let folder = tempfile::tempdir().unwrap();
    let hogs = Hogs::on_cpu(0);
    let output = muxbench()
        .args(["compare", "--arch", "select", "--connections", "100", "--rate", "1000", "--ramp", "100ms", "--json"])
        .args([
            "--response",
            "512KiB",
            "--warm-up",
            "200ms",
            "--measure",
            "1s",
            "--cool-down",
            "100ms",
            "--repeats",
            "1",
        ])
        .args(["--server-cpus", "0", "--timeout", "60s"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    drop(hogs);
    let result = json(&output);
    let verdict = &result["trials"][0]["verdict"];
    assert_eq!(check(verdict, "requests answered")["passed"], false, "{verdict}");
    assert_eq!(check(verdict, "taken by others")["passed"], false, "{verdict}");
    // If the client was late too, the verdict is `client-limited`.
    let is_client_late = |check: &Value| check["decides"] == "client-limited" && check["passed"] == false;
    let expected =
        if verdict["checks"].as_array().unwrap().iter().any(is_client_late) { "client-limited" } else { "saturated" };
    assert_eq!(verdict["kind"], expected, "{verdict}");
    assert_eq!(result["summary"]["comparisons"][0]["rows"][0]["ratio"], Value::Null);
    assert_eq!(output.status.code(), Some(3), "no trial is valid");
}

fn client_without_cpu_time_is_client_limited() {
    let folder = tempfile::tempdir().unwrap();
    let hogs = Hogs::on_cpu(1);
    let output = muxbench()
        .args(["compare", "--arch", "epoll", "--connections", "50", "--rate", "2000", "--ramp", "0", "--json"])
        .args(["--warm-up", "200ms", "--measure", "1s", "--cool-down", "5s", "--repeats", "1", "--server-cpus", "0"])
        .args(["--client-cpus", "1", "--timeout", "60s", "--strict"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    drop(hogs);
    let verdict = &json(&output)["trials"][0]["verdict"];
    assert_eq!(verdict["kind"], "client-limited", "{verdict}");
    assert_eq!(output.status.code(), Some(3));
}

/// Returns the check of a verdict whose name contains `word`.
fn check<'a>(verdict: &'a Value, word: &str) -> &'a Value {
    let checks = verdict["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"].as_str().unwrap().contains(word)).unwrap_or_else(|| panic!("{verdict}"))
}

fn strict_accepts_only_valid_trials() {
    let folder = tempfile::tempdir().unwrap();
    // One of the two workloads has more connections than any host permits.
    let arguments = [SMALL, &["--connections", "20,4000000000", "--output", "run"]].concat();
    let arguments: Vec<&str> =
        arguments.iter().enumerate().filter(|(at, _)| !(3..5).contains(at)).map(|(_, it)| *it).collect();
    measure(folder.path(), &arguments);
    run(folder.path(), &["run", "--resume", "run", "--quiet", "--strict"], 3);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.alone(case!(overloaded_server_is_saturated_and_not_ranked));
    cases.alone(case!(client_without_cpu_time_is_client_limited));
    cases.once(case!(strict_accepts_only_valid_trials));
}
