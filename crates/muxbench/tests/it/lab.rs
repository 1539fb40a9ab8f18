//! Labs: their set-up, their effect on packets, and their removal. Most tests need root.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Cases, case};
use crate::common::{TIMEOUT, as_nobody, children_of, is_alive, muxbench, muxbench_for_all_users, skipped};
use harness::spec::network::Network;
use netns::conditions::{HostCapabilities, choose};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// Flags of the smallest trial with results.
const SMALL: &[&str] =
    &["--arch", "epoll", "--connections", "5", "--rate", "200", "--repeats", "1", "--pacing", "sleep-spin", "--quiet"];
/// Phases of a short trial. The cool-down suffices for late and lost packets.
const SHORT: &[&str] = &["--ramp", "100ms", "--warm-up", "200ms", "--measure", "1s", "--cool-down", "60s"];

/// Whether this host permits labs. Otherwise reports the test as skipped.
pub fn may_make_labs() -> bool {
    let reasons = choose(&network("1ms"), &HostCapabilities::here()).err();
    if let Some(reasons) = &reasons {
        skipped(&format!("a lab: {}", reasons.join("; ")));
    }
    reasons.is_none()
}

fn network(delay: &str) -> Network {
    Network { delay: delay.parse().unwrap(), ..Network::default() }
}

/// Runs `compare` with these flags and returns its result.
fn compare(flags: &[&str]) -> Value {
    compare_and_watch(flags, |_| ())
}

/// Runs `compare` up to five times, until the measured network satisfies `is_quiet`, because packets are late on a busy
/// machine. Returns the last result.
fn compare_when_quiet(flags: &[&str], is_quiet: impl Fn(&Value) -> bool) -> Value {
    let has_quiet_network = |result: &Value| is_quiet(&result["trials"][0]["network"]["measured"]);
    let found = (0..4).map(|_| compare(flags)).find(has_quiet_network);
    found.unwrap_or_else(|| compare(flags))
}

/// Runs `compare` once, and repeatedly calls `watch` with its process id.
fn compare_and_watch(flags: &[&str], mut watch: impl FnMut(Pid) + Send) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = muxbench();
    command.args(["compare", "--json"]).args(SMALL).args(SHORT).args(flags);
    command.arg("--output").arg(folder.path().join("run")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let (pid, is_over) = (Pid::from_child(&child), AtomicBool::new(false));
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                watch(pid);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let output = child.wait_with_output();
        is_over.store(true, Relaxed);
        output.unwrap()
    });
    // Exit code 3: the machine was too busy for a valid trial, but the network was measured.
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{flags:?}: {printed}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{flags:?}: {error}: {printed}"))
}

/// The single trial of a result.
fn trial(result: &Value) -> &Value {
    let trial = &result["trials"][0];
    assert!(trial["load"]["completed"].as_u64().is_some_and(|count| count > 50), "{}", trial["verdict"]);
    trial
}

/// Returns value, limit and result of each check with this name.
fn check(trial: &Value, name: &str) -> Vec<(f64, f64, bool)> {
    let checks = trial["verdict"]["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name);
    checks
        .map(|it| (it["value"].as_f64().unwrap(), it["limit"].as_f64().unwrap(), it["passed"].as_bool().unwrap()))
        .collect()
}

/// The network namespaces of these processes, except the namespace of the test.
fn namespaces(processes: &[Pid]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in processes.iter().map(|pid| Path::new("/proc").join(pid.as_raw_pid().to_string())) {
        let current = fs::read_link(process.join("ns/net")).ok();
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let kept = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        let names = current.into_iter().chain(kept).map(|link| link.to_string_lossy().into_owned());
        found.extend(names.filter(|name| name.starts_with("net:[")));
    }
    found.remove(&fs::read_link("/proc/self/ns/net").unwrap().to_string_lossy().into_owned());
    found
}

fn all_processes() -> Vec<Pid> {
    let names = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    names.filter_map(Pid::from_raw).collect()
}

/// The interfaces and namespaces of this host with names that labs use.
fn lab_objects() -> BTreeSet<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let is_host = |name: &str| name.strip_prefix('h').is_some_and(|number| number.parse::<u32>().is_ok());
    let is_of_lab = |name: &String| ["eth0", "br0", "muxd"].contains(&name.as_str()) || is_host(name);
    let named = names("/run/netns").into_iter().filter(|name| name.contains("muxbench"));
    names("/sys/class/net").into_iter().filter(is_of_lab).chain(named).collect()
}

/// Asserts that this host has no interface or namespace of a lab that is not in `before`.
fn assert_unseen(before: &BTreeSet<String>) {
    let added: Vec<String> = lab_objects().difference(before).cloned().collect();
    assert_eq!(added, [""; 0], "a lab is invisible from outside");
}

/// Waits until these processes and namespaces have ended.
fn until_gone(processes: &[Pid], made: &BTreeSet<String>) {
    until("all processes end", || !processes.iter().any(|pid| is_alive(*pid)));
    until("all namespaces end", || namespaces(&all_processes()).is_disjoint(made));
}

/// Waits until a condition holds.
fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within the time limit: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process and its descendants.
fn family(pid: Pid) -> Vec<Pid> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        all.extend(children_of(parent));
        next += 1;
    }
    all
}

fn service_time_includes_the_round_trip() {
    if !may_make_labs() {
        return;
    }
    let before = lab_objects();
    let (mut processes, mut made) = (HashSet::new(), BTreeSet::new());
    let result = compare_and_watch(&["--network", "lab", "--delay", "1ms"], |pid| {
        let all = family(pid);
        made.extend(namespaces(&all));
        processes.extend(all);
    });
    let trial = trial(&result);
    let p50_ns = trial["load"]["service"]["distribution"]["p50_ns"].as_u64().unwrap();
    assert!(p50_ns >= 2_000_000, "{p50_ns}");
    let network = &trial["network"];
    assert!(network["setup_ns"].as_u64().unwrap() < 30_000_000_000, "{network}");
    assert_eq!(check(trial, "median round trip of the lab").len(), 2);
    // A relay process adds its own checks to the verdict.
    let checks_of_relay = usize::from(!network["relay"].is_null());
    for what in [
        "packets dropped by the lab's relay besides the configured loss",
        "median of the delay added by the lab's relay",
    ] {
        assert_eq!(check(trial, what).len(), checks_of_relay, "{what}: {}", trial["verdict"]);
    }
    // The test has seen processes and namespaces of the lab.
    assert!(processes.len() >= 4 && made.len() >= 2, "{processes:?} {made:?}");
    let round_trip_ns = |measured: &Value| measured["round_trip_p50_ns"].as_u64().unwrap();
    let quiet = compare_when_quiet(&["--network", "lab", "--delay", "1ms"], |it| round_trip_ns(it) <= 20_000_000);
    let found_ns = round_trip_ns(&quiet["trials"][0]["network"]["measured"]);
    assert!((2_000_000..=20_000_000).contains(&found_ns), "{}", quiet["trials"][0]["network"]);
    assert_unseen(&before);
    until_gone(&processes.into_iter().collect::<Vec<_>>(), &made);
}

fn servers_of_a_lab_take_turns() {
    if !may_make_labs() {
        return;
    }
    let result = compare(&["--arch", "mt", "--network", "lab", "--delay", "1ms"]);
    let planned = result["run"]["trials"].as_array().unwrap();
    // At 200 requests/s a slice has 25 ms. The gap is a twentieth of that, and the round trip.
    assert!(planned.iter().all(|trial| trial["client"]["slices"]["gap_ns"] == 3_250_000), "{planned:?}");
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for it in trials {
        assert!(it["network"]["measured"]["round_trip_p50_ns"].as_u64() >= Some(2_000_000), "{}", it["network"]);
        assert!(it["load"]["service"]["distribution"]["p50_ns"].as_u64() >= Some(2_000_000), "{}", it["verdict"]);
    }
}

fn servers_poll_the_interface_of_a_lab() {
    if !may_make_labs() {
        return;
    }
    let result = compare(&["--network", "lab", "--arch", "mt", "--busy-poll", "off,50us"]);
    let planned = result["run"]["trials"].as_array().unwrap();
    if let Some(trial) = planned.iter().find(|it| !it["infeasible"].as_array().unwrap().is_empty()) {
        // An older kernel refuses the trials that poll, and no others.
        assert!(trial["serve"]["busy_poll"].is_object(), "{trial}");
        skipped(&format!("busy polling: {}", trial["infeasible"]));
        return;
    }
    assert!(planned.iter().all(|it| it["workload"]["network"]["napi"] == true && it["client"]["slices"].is_object()));
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for it in trials {
        assert!(it["load"]["completed"].as_u64() > Some(50), "{}", it["verdict"]);
    }
    let suspended = compare(&["--network", "lab", "--busy-poll", "off,50us:suspend=20ms"]);
    let planned = suspended["run"]["trials"].as_array().unwrap();
    if let Some(trial) = planned.iter().find(|it| !it["infeasible"].as_array().unwrap().is_empty()) {
        skipped(&format!("suspension of interrupts: {}", trial["infeasible"]));
        return;
    }
    let trials = suspended["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{}", suspended["run"]["trials"]);
    for it in trials {
        assert!(it["load"]["completed"].as_u64() > Some(50), "{}", it["verdict"]);
        assert!(it["trial"]["client"]["slices"].is_null(), "suspension would delay the packets to other servers");
    }
}

fn network_conditions_are_as_requested() {
    if !may_make_labs() {
        return;
    }
    let flags = ["--delay", "5ms", "--jitter", "2ms", "--loss", "5%", "--bandwidth", "20Mbit"];
    let result = compare_when_quiet(&[&["--network", "lab"], &flags[..]].concat(), |measured| {
        let bandwidth = measured["bandwidth_bits_per_s"].as_array().unwrap();
        let lost = measured["lost"].as_f64().unwrap() / measured["sent"].as_f64().unwrap();
        // A measuring process without CPU time overestimates bandwidth and loss.
        let is_as_requested = |way: &Value| way.as_f64().is_some_and(|bits| (2e6..22.5e6).contains(&bits));
        measured["round_trip_p50_ns"].as_f64() < Some(40e6) && bandwidth.iter().all(is_as_requested) && lost < 0.15
    });
    let trial = trial(&result);
    let measured = &trial["network"]["measured"];
    let number = |name: &str| measured[name].as_f64().unwrap();
    // The delay is at least the requested one; a busy machine adds to it.
    assert!((9e6..400e6).contains(&number("round_trip_p50_ns")), "{measured}");
    assert!(number("round_trip_p99_ns") > number("round_trip_p50_ns"), "{measured}");
    // At least a thousand packets were sent, and 5 % are lost in each direction.
    let share = number("lost") / number("sent");
    assert!((0.02..0.3).contains(&share), "{measured}");
    let bandwidth = measured["bandwidth_bits_per_s"].as_array().unwrap();
    for way in bandwidth.iter().map(|bits| bits.as_f64().unwrap()) {
        // The bandwidth is at most the requested one; a busy machine reduces it.
        assert!((0.2e6..22.5e6).contains(&way), "{measured}");
    }
    for what in ["bandwidth to the lab's server", "share of datagrams lost in the lab"] {
        let checks = check(trial, what);
        assert!(checks.len() == 2 && checks[0].0 >= 0.0, "{what}: {checks:?}");
    }
}

fn kernel_alone_applies_loss_and_bandwidth() {
    if !may_make_labs() {
        return;
    }
    let wanted: Network = toml(&[("loss", "\"10%\""), ("bandwidth", "\"50Mbit\"")]);
    let applied = choose(&wanted, &HostCapabilities::here()).unwrap();
    let result = compare(&["--network", "lab", "--loss", "10%", "--bandwidth", "50Mbit"]);
    let trial = trial(&result);
    let (network, measured) = (&trial["network"], &trial["network"]["measured"]);
    assert_eq!(network["applied"], serde_json::to_value(applied).unwrap());
    let share = measured["lost"].as_f64().unwrap() / measured["sent"].as_f64().unwrap();
    assert!((0.05..0.25).contains(&share), "{measured}");
    assert!(measured["bandwidth_bits_per_s"][0].as_f64().unwrap() < 57e6, "{measured}");
}

fn toml(keys: &[(&str, &str)]) -> Network {
    let text: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    ::toml::from_str(&text).unwrap()
}

fn lab_carries_ipv6_idle_connections_and_datagrams() {
    if !may_make_labs() {
        return;
    }
    let v6 = compare(&["--network", "lab:clients=3", "--transport", "tcp6", "--idle", "10", "--delay", "500us"]);
    let v6 = trial(&v6);
    assert_eq!(v6["idle"]["alive"], 10, "{}", v6["verdict"]);
    assert_eq!(v6["idle"]["processes"], 3, "each client host holds idle connections");
    assert_eq!(v6["trial"]["client"]["processes"], 3, "each client host measures");
    assert_eq!(v6["network"]["measured"]["host"], 1, "the first trial measures the loss of the first client host");
    let veth = compare(&["--network", "lab:clients=3", "--transport", "tcp6", "--idle", "10,20"]);
    let trials = veth["trials"].as_array().unwrap();
    for it in trials {
        assert_eq!(it["idle"]["alive"], it["trial"]["workload"]["idle"], "{}", it["verdict"]);
    }
    let hosts: BTreeSet<u64> = trials.iter().filter_map(|it| it["network"]["measured"]["host"].as_u64()).collect();
    assert_eq!(hosts, BTreeSet::from([1, 2]), "each further trial measures the loss of the next client host");
    let folder = tempfile::tempdir().unwrap();
    let mut udp = muxbench();
    udp.args(["compare", "--json", "--service", "udp", "--ports", "10", "--network", "lab", "--delay", "1ms"]);
    udp.args(["--arch", "epoll", "--rate", "200", "--repeats", "1", "--quiet"]).args(SHORT);
    let output = udp.arg("--output").arg(folder.path().join("run")).output().unwrap();
    let udp: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(trial(&udp)["load"]["service"]["distribution"]["p50_ns"].as_u64().unwrap() >= 2_000_000);
}

fn killed_runner_leaves_no_part_of_its_lab() {
    if !may_make_labs() {
        return;
    }
    for (delay, processes) in [("1ms", 3), ("0", 2)] {
        let before = lab_objects();
        let folder = tempfile::tempdir().unwrap();
        let mut command = muxbench();
        command.args(["compare", "--network", "lab:clients=2", "--delay", delay, "--measure", "100s"]).args(SMALL);
        command.arg("--output").arg(folder.path().join("run")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut runner = command.spawn().unwrap();
        let pid = Pid::from_child(&runner);
        // Besides the runner, there are at least a server, a client and, with a delay, the relay.
        let is_up = || family(pid).len() > processes && namespaces(&family(pid)).len() >= 3;
        until("the trial begins", is_up);
        let all = family(pid);
        let made = namespaces(&all);
        assert_unseen(&before);
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        runner.wait().unwrap();
        until_gone(&all, &made);
        assert_unseen(&before);
    }
    let output = muxbench().args(["doctor", "--clean"]).output().unwrap();
    assert!(output.status.success());
}

fn doctor_removes_leftovers_of_a_killed_run() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("muxbench-4194305-0");
    fs::create_dir(&folder).unwrap();
    let clean = || {
        let output = muxbench().args(["doctor", "--clean"]).env("TMPDIR", temporary.path()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = clean();
    assert!(printed.contains("removed: folder ") && printed.contains("muxbench-4194305-0"), "{printed}");
    assert!(!folder.exists());
    assert!(!clean().contains("folder"));
}

/// Starts `muxbench lab` with a shell script, and waits for the script's line `up`. Resets SIGHUP, which a parent may ignore.
fn lab_of_a_shell(through: &[&str], script: &str, temporary: &Path) -> Child {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").args(through).arg(env!("CARGO_BIN_EXE_muxbench"));
    command.args(["lab", "--network", "lab", "--", "sh", "-c", script]).env("TMPDIR", temporary);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut lab = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(lab.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    lab
}

fn lab_after_sighup_leaves_no_process_or_file() {
    if !may_make_labs() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo up; exec sleep 1000' & wait";
    let mut lab = lab_of_a_shell(&[], script, temporary.path());
    let pid = Pid::from_child(&lab);
    let all = family(pid);
    let made = namespaces(&all);
    assert!(all.len() >= 3 && made.len() >= 2, "{all:?} {made:?}");
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    lab.wait().unwrap();
    until_gone(&all, &made);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the folder of sockets is removed");
}

fn lab_forwards_signals() {
    if !may_make_labs() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let script = "trap 'exit 5' HUP; trap 'exit 6' TERM; echo up; while :; do sleep 0.1; done";
    for (signal, code) in [(Signal::HUP, 5), (Signal::TERM, 6)] {
        let mut lab = lab_of_a_shell(&[], script, temporary.path());
        rustix::process::kill_process(Pid::from_child(&lab), signal).unwrap();
        assert_eq!(lab.wait().unwrap().code(), Some(code), "{signal:?}");
    }
}

fn lab_kills_a_command_that_ignores_signals() {
    if !may_make_labs() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let script = "trap '' HUP TERM; setsid sh -c 'echo up; exec sleep 1000' & wait";
    for signal in [Signal::HUP, Signal::TERM] {
        let mut lab = lab_of_a_shell(&[], script, temporary.path());
        let pid = Pid::from_child(&lab);
        let all = family(pid);
        let made = namespaces(&all);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(lab.wait().unwrap().code(), Some(128 + Signal::KILL.as_raw()), "{signal:?}");
        until_gone(&all, &made);
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the folder of sockets is removed");
    }
}

fn nohup_keeps_lab_alive() {
    if !may_make_labs() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut lab = lab_of_a_shell(&["nohup"], "echo up; read line; exit 7", temporary.path());
    rustix::process::kill_process(Pid::from_child(&lab), Signal::HUP).unwrap();
    lab.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(7));
}

/// A script for a PID namespace, where no other doctor interferes: kills a lab, then calls the doctor until nothing is left.
const KILLED_LAB: &str = r#"
"$1" lab --network lab -- sh -c "setsid sh -c 'echo up; exec sleep 1000' & wait" > "$TMPDIR/out" &
lab=$!
until grep -q up "$TMPDIR/out"; do sleep 0.05; done
"$1" doctor --clean
kill -KILL $lab
wait $lab
until "$1" doctor --clean | tee "$TMPDIR/printed" | grep '^No leftovers'; do cat "$TMPDIR/printed"; done
"#;

fn doctor_ends_leftovers_of_a_killed_lab() {
    if !may_make_labs() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut alone = Command::new("timeout");
    alone.args(["600", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", KILLED_LAB, "sh"]);
    let output = alone.arg(env!("CARGO_BIN_EXE_muxbench")).env("TMPDIR", temporary.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(output.status.success() && lines.len() >= 4, "{output:?}");
    assert!(lines[0].starts_with("No leftovers"), "the doctor does not touch a running lab: {printed}");
    let is_process_of_lab =
        |line: &&str| line.starts_with("removed: process ") && line.ends_with("of a lab whose supervisor died");
    assert!(lines[1..].iter().any(is_process_of_lab), "{printed}");
    assert!(lines[1..].iter().any(|line| line.starts_with("removed: folder ")), "{printed}");
}

fn plan_without_root_names_the_missing_privilege() {
    let folder = tempfile::tempdir().unwrap();
    let program = muxbench_for_all_users(folder.path());
    let experiment = folder.path().join("x.toml");
    fs::write(&experiment, "architectures = \"epoll\"\n[network]\ndelay = \"1ms\"\n").unwrap();
    let output = as_nobody(&program).arg("plan").arg(&experiment).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("infeasible") && printed.contains("run as root"), "{printed}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(service_time_includes_the_round_trip));
    cases.once(case!(servers_of_a_lab_take_turns));
    cases.once(case!(servers_poll_the_interface_of_a_lab));
    cases.once(case!(network_conditions_are_as_requested));
    cases.once(case!(kernel_alone_applies_loss_and_bandwidth));
    cases.once(case!(lab_carries_ipv6_idle_connections_and_datagrams));
    cases.once(case!(killed_runner_leaves_no_part_of_its_lab));
    cases.once(case!(doctor_removes_leftovers_of_a_killed_run));
    cases.once(case!(lab_after_sighup_leaves_no_process_or_file));
    cases.once(case!(lab_forwards_signals));
    cases.once(case!(lab_kills_a_command_that_ignores_signals));
    cases.once(case!(nohup_keeps_lab_alive));
    cases.once(case!(doctor_ends_leftovers_of_a_killed_lab));
    cases.once(case!(plan_without_root_names_the_missing_privilege));
}
