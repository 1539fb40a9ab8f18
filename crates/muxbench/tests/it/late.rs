//! A client that was stopped during the window. Its trial is not valid, or the verdict states that the client may have
//! caused the p99.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{Serve, client_of, load};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Returns the result of `muxbench load` with a window of two seconds, in which the client is stopped `times` times for `stop`.
fn load_with_stops(server: &str, times: u32, stop: Duration) -> Value {
    load_with_stops_and(server, "--rate 1000", times, stop)
}

/// Does the same as [`load_with_stops`], with these flags for the schedule.
fn load_with_stops_and(server: &str, schedule: &str, times: u32, stop: Duration) -> Value {
    let serve = Serve::start(server.parse().unwrap(), 64, 64);
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
    for _ in 0..times {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(stop);
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
    let found = load_with_stops("epoll", 3, Duration::from_millis(60));
    // The stops take up about a tenth of the window, so the client is late on any machine.
    let verdict = &found["verdict"];
    assert_eq!(verdict["kind"], "client-limited", "{verdict}");
    let reason = verdict["reason"].as_str().unwrap();
    assert!(reason.contains("send delay p99 ") && reason.contains(" ms exceeds the limit of "), "{reason}");
    let late = &found["report"]["late"];
    assert!(late["count"].as_u64().unwrap() >= 100 && late["bound_ns"].as_u64().unwrap() >= 100_000, "{late}");
}

fn briefly_stopped_client_has_marked_p99() {
    let found = load_with_stops("epoll", 1, Duration::from_millis(12));
    // On a noisy machine the trial may be client-limited instead.
    if found["verdict"]["kind"] == "valid" {
        let late = &found["report"]["late"];
        assert!(late["count"].as_u64().unwrap() >= 5, "of 2 000 requests: {late}");
        let reason = found["verdict"]["reason"].as_str().unwrap();
        assert!(reason.contains("the client may have caused the p99"), "{reason}");
    }
}

fn stalled_closed_loop_and_two_threads_are_client_limited() {
    // A closed loop has no send delay. With two threads, send delays do not show stalls of the receiver. Only a client that sleeps
    // measures its stalls.
    let two_threads = "--rate 1000 --roles two-threads --pacing sleep-spin";
    for schedule in ["--schedule closed", "--schedule closed --think 1ms", two_threads] {
        let found = load_with_stops_and("epoll", schedule, 3, Duration::from_millis(60));
        let verdict = &found["verdict"];
        assert_eq!(verdict["kind"], "client-limited", "{schedule}: {verdict}");
        let stalled_ns = found["report"]["stalled_ns"].as_u64();
        assert!(stalled_ns.is_some_and(|ns| ns > 150_000_000), "{schedule}: {stalled_ns:?}");
    }
}

fn briefly_stopped_closed_loop_has_marked_p99() {
    let found = load_with_stops_and("epoll", "--schedule closed", 3, Duration::from_millis(15));
    // On a noisy machine the trial may be client-limited instead.
    if found["verdict"]["kind"] == "valid" {
        let reason = found["verdict"]["reason"].as_str().unwrap();
        assert!(reason.contains("the client may have caused the p99: it was stalled for"), "{reason}");
    }
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.alone(case!(stopped_client_is_client_limited_with_reason));
    cases.alone(case!(briefly_stopped_client_has_marked_p99));
    cases.alone(case!(stalled_closed_loop_and_two_threads_are_client_limited));
    cases.alone(case!(briefly_stopped_closed_loop_has_marked_p99));
}
