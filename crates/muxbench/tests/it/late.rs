//! A client that was stopped during the window. Its trial is not valid. And a window that the user ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{Serve, client_of, eventually, json, load, muxbench};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Returns the result of `muxbench load` with this schedule and a window of two seconds, in which the client is stopped three
/// times for 60 ms.
fn load_with_stops(schedule: &str) -> Value {
    let serve = Serve::start("epoll".parse().unwrap(), 64, 64);
    let flags = "--connections 10 --ramp 0 --warm-up 200ms --measure 2s --cool-down 20s --json";
    let mut load = load();
    load.args(["--target", &serve.address.to_string(), "--request", "64B", "--response", "64B"]);
    let mut load = load
        .args(schedule.split(' '))
        .args(flags.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = client_of(&load);
    let mut message = BufReader::new(load.stderr.take().unwrap()).lines();
    assert!(message.any(|line| line.unwrap().starts_with("measure:")), "the window begins");
    for _ in 0..3 {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        kill_process(pid, Signal::CONT).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    message.for_each(drop);
    let mut json = String::new();
    load.stdout.take().unwrap().read_to_string(&mut json).unwrap();
    load.wait().unwrap();
    serde_json::from_str(&json).unwrap()
}

fn stopped_client_is_client_limited_with_reason() {
    let found = load_with_stops("--rate 1000");
    // The stops take up about a tenth of the window, so the client is late on any machine.
    let verdict = &found["verdict"];
    assert_eq!(verdict["kind"], "client-limited", "{verdict}");
    let reason = verdict["reason"].as_str().unwrap();
    assert!(reason.contains("send delay p99 ") && reason.contains(" ms exceeds the limit of "), "{reason}");
    let late = &found["report"]["late"];
    assert!(late["count"].as_u64().unwrap() >= 100 && late["bound_ns"].as_u64().unwrap() >= 100_000, "{late}");
    // The requests that became due during the stops were sent in three bursts.
    let fit = &found["report"]["fit"];
    assert!(fit["effect"].as_f64() > Some(0.05), "{fit}");
}

fn stalled_closed_loop_and_two_threads_are_client_limited() {
    // A closed loop has no send delay. With two threads, send delays do not show stalls of the receiver. Only a client that sleeps
    // measures its stalls.
    let two_threads = "--rate 1000 --roles two-threads --pacing sleep-spin";
    for schedule in ["--schedule closed", two_threads] {
        let found = load_with_stops(schedule);
        let verdict = &found["verdict"];
        assert_eq!(verdict["kind"], "client-limited", "{schedule}: {verdict}");
        let stalled_ns = found["report"]["stalled_ns"].as_u64();
        assert!(stalled_ns.is_some_and(|ns| ns > 150_000_000), "{schedule}: {stalled_ns:?}");
    }
}

/// Adds the cases of this file.
/// Whether a process is suspended.
fn is_suspended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

/// The folder of the run has a name that is not UTF-8.
fn suspended_and_interrupted_load_shows_its_figures() {
    let serve = Serve::start("epoll".parse().unwrap(), 64, 64);
    let folder = tempfile::tempdir().unwrap();
    let mut load = muxbench()
        .args(["load", "--target", &serve.address.to_string(), "--request", "64B", "--response", "64B", "--json"])
        .args(
            "--schedule closed --think 5ms --connections 10 --ramp 0 --warm-up 200ms --measure 100s --output"
                .split(' '),
        )
        .arg(folder.path().join(OsStr::from_bytes(b"run-\xff")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (pid, client) = (Pid::from_child(&load), client_of(&load));
    let mut message = BufReader::new(load.stderr.take().unwrap()).lines();
    assert!(message.any(|line| line.unwrap().starts_with("measure:")), "the window begins");
    kill_process(pid, Signal::TSTP).unwrap();
    eventually("both processes are suspended", || is_suspended(pid) && is_suspended(client));
    kill_process(pid, Signal::CONT).unwrap();
    eventually("both processes continue", || !is_suspended(pid) && !is_suspended(client));
    kill_process(pid, Signal::INT).unwrap();
    message.for_each(drop);
    let output = load.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let report = &json(&output)["report"];
    let [completed, window_ns] = ["completed", "window_ns"].map(|name| report[name].as_u64().unwrap());
    assert!(completed > 0 && window_ns < 90_000_000_000, "{completed} in {window_ns} ns");
    assert_eq!(report["errors"]["timeout"], 0, "{report}");
}

/// The first Ctrl-C ends the windows of all clients at the same time.
fn interrupted_clients_and_sessions_show_their_figures() {
    let serve = Serve::start("epoll".parse().unwrap(), 64, 64);
    for schedule in ["--schedule closed --think 5ms", "--rate 500", "--rate 500 --requests-per-connection 3"] {
        let mut load = load()
            .args(["--target", &serve.address.to_string(), "--request", "64B", "--response", "64B", "--json"])
            .args("--connections 10 --client-processes 2 --ramp 0 --warm-up 200ms --measure 100s".split(' '))
            .args(schedule.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = BufReader::new(load.stderr.take().unwrap()).lines();
        assert!(message.any(|line| line.unwrap().starts_with("measure:")), "the window begins");
        kill_process(Pid::from_child(&load), Signal::INT).unwrap();
        message.for_each(drop);
        let output = load.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        let report = &json(&output)["report"];
        let [planned, completed, window_ns] =
            ["planned", "completed", "window_ns"].map(|name| report[name].as_u64().unwrap());
        assert!(completed > 0 && window_ns < 90_000_000_000, "{schedule}: {completed} in {window_ns} ns");
        assert_eq!((completed, report["processes"].as_array().map(Vec::len)), (planned, Some(2)), "{report}");
        let errors = report["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| count == 0), "{schedule}: {errors:?}");
    }
}

pub fn cases(cases: &mut Cases) {
    cases.alone(case!(stopped_client_is_client_limited_with_reason));
    cases.once(case!(interrupted_clients_and_sessions_show_their_figures));
    cases.once(case!(suspended_and_interrupted_load_shows_its_figures));
    cases.alone(case!(stalled_closed_loop_and_two_threads_are_client_limited));
}
