//! `muxbench observe` beside a server under known traffic.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use harness::spec::Experiment;
use serde_json::Value;

use crate::cases::{Cases, case};
use crate::common::{Serve, load, muxbench};

fn observe(arguments: &[&str]) -> Output {
    muxbench().arg("observe").args(arguments).output().unwrap()
}

/// Starts `load` with these flags, and returns it when its window of a minute begins.
pub fn begin_load(flags: &str) -> Child {
    let mut client = load();
    client.args("--ramp 0 --warm-up 300ms --measure 60s --cool-down 20s --pacing sleep-spin".split(' '));
    let mut client = client.args(flags.split(' ')).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(client.stderr.take().unwrap());
    assert!((&mut messages).lines().any(|line| line.unwrap().starts_with("measure:")), "the window begins");
    // Keep the pipe open, because the client prints more messages.
    client.stderr = Some(messages.into_inner());
    client
}

/// Observes a server for three seconds while a client loads it with these flags. Returns what was seen, and the profile, which
/// `compare` has read and printed.
fn observed(flags: &str, folder: &Path) -> (Value, Experiment) {
    let serve = Serve::start("epoll".parse().unwrap(), 64, 1_000);
    let mut client = begin_load(&format!("--target {} --request 64B --response 1000B {flags}", serve.address));
    let (file, port) = (folder.join("profile.toml"), serve.ip().port().to_string());
    let output = observe(&["--port", &port, "--duration", "3s", "--json", "--output", file.to_str().unwrap()]);
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    (seen["observation"].clone(), printed(&file))
}

/// Returns a profile as `compare` reads and prints it.
fn printed(file: &Path) -> Experiment {
    let printed = muxbench().arg("compare").arg(file).args(["--arch", "epoll", "--print-experiment"]).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Experiment::parse(&String::from_utf8(printed.stdout).unwrap(), "printed").unwrap()
}

/// The largest relative error of a rate or a share, because the client sends late on a busy machine.
const ERROR_MAX: f64 = 0.2;

/// Checks sizes, which are exact, and the rate.
fn assert_requests(requests: &Value, rate_per_s: f64) {
    for (message, bytes) in [("request", 64.0), ("response", 1_000.0)] {
        let found = &requests[message];
        assert!(found["bytes"] == bytes && found["is_constant"] == true, "{requests}");
    }
    let rate = requests["rate_per_s"].as_f64().unwrap();
    assert!((rate / rate_per_s - 1.0).abs() < ERROR_MAX, "{rate_per_s}: {requests}");
}

fn lasting_connections_are_observed_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, profile) = observed("--connections 50 --active 1/5 --rate 500", folder.path());
    let connections = &seen["connections"];
    for (key, count) in [("start", 50), ("end", 50), ("max", 50)] {
        assert_eq!(connections["open"][key], count, "{connections}");
    }
    assert!(connections["opened"] == 0 && connections["ended"] == 0, "{connections}");
    let share = connections["active_share"].as_f64().unwrap();
    assert!((share / 0.2 - 1.0).abs() < ERROR_MAX, "{connections}");
    assert_requests(&seen["requests"], 500.0);
    assert!(seen["round_trip_ns"].as_u64().is_some_and(|ns| ns > 0), "{seen}");
    // Ten connections take turns at 500 requests/s.
    let pause_ns = seen["pause_mean_ns"].as_f64().unwrap();
    assert!((5e6..40e6).contains(&pause_ns), "{seen}");
    let workload = &profile.workload;
    assert_eq!((workload.connections.0[0].get(), workload.active.0[0].0), (50, share));
    assert_eq!((workload.request.unwrap().0, workload.response.unwrap().0), (64, 1_000));
}

fn short_lived_connections_are_observed_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, profile) = observed("--connections 50 --requests-per-connection 2 --rate 400", folder.path());
    let (connections, requests) = (&seen["connections"], &seen["requests"]);
    assert_requests(requests, 400.0);
    // Some sessions begin before the window or end after it.
    let per_connection = requests["per_connection"].as_f64().unwrap();
    assert!((1.9..=2.0).contains(&per_connection), "{requests}");
    let per_s = |key: &str| connections[key].as_f64().unwrap() * 1e9 / seen["window_ns"].as_f64().unwrap();
    assert!(
        [per_s("opened"), per_s("ended")].iter().all(|rate| (rate / 200.0 - 1.0).abs() < ERROR_MAX),
        "{connections}"
    );
    let workload = &profile.workload;
    assert_eq!(workload.requests_per_connection.map(|it| it.get()), Some(2));
    assert_eq!((workload.active.0[0].0, workload.idle.0[0]), (1.0, 0));
}

/// The server's port in the made-up capture.
const PORT: u16 = 8080;

/// Appends a packet with this many bytes of payload to a capture: a record's header, IPv4, and TCP.
fn append(capture: &mut Vec<u8>, at_us: u32, is_request: bool, client: u16, sequence: u32, payload: u16) {
    let ends: [([u8; 4], u16); 2] = [([10, 0, 0, 1], client), ([10, 0, 0, 2], PORT)];
    let [(from, source), (to, target)] = if is_request { ends } else { [ends[1], ends[0]] };
    let length = 40 + payload;
    for word in [at_us / 1_000_000, at_us % 1_000_000, length.into(), length.into()] {
        capture.extend(word.to_le_bytes());
    }
    // The version, the time to live, and the number of TCP.
    capture.extend([0x45_u8, 0]);
    capture.extend(length.to_be_bytes());
    capture.extend([0_u8, 0, 0, 0, 64, 6, 0, 0]);
    capture.extend(from);
    capture.extend(to);
    // The ports, the sequence number, and the flag ACK.
    capture.extend(source.to_be_bytes());
    capture.extend(target.to_be_bytes());
    capture.extend(sequence.to_be_bytes());
    capture.extend([0_u8, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    capture.extend(std::iter::repeat_n(b'x', payload.into()));
}

/// Returns a capture in the format pcap. Ten connections have twenty requests each. Requests have 100 bytes. Responses have
/// 1000 to 1190 bytes, and follow after 300 µs.
pub fn capture() -> Vec<u8> {
    // Packets begin with their IPv4 header (228).
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 228];
    let mut capture: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    let mut server = 1;
    for round in 0..20_u16 {
        let response = 1_000 + 10 * round;
        for client in 0..10_u16 {
            let at_us = u32::from(round) * 100_000 + u32::from(client) * 1_000;
            append(&mut capture, at_us, true, 2_000 + client, 1 + 100 * u32::from(round), 100);
            append(&mut capture, at_us + 300, false, 2_000 + client, server, response);
        }
        server += u32::from(response);
    }
    capture
}

fn capture_becomes_a_profile_with_exact_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let (pcap, file) = (folder.path().join("server.pcap"), folder.path().join("profile.toml"));
    std::fs::write(&pcap, capture()).unwrap();
    let port = PORT.to_string();
    let source = ["--pcap", pcap.to_str().unwrap(), "--port", port.as_str()];
    let output = observe(&[&source[..], &["--json", "--output", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (seen, requests) = (&seen["observation"], &seen["observation"]["requests"]);
    assert!(seen["window_ns"] == 1_909_300_000_u64 && requests["count"] == 200, "{seen}");
    assert!(requests["request"]["bytes"] == 100.0 && requests["request"]["is_constant"] == true, "{requests}");
    assert!(requests["response"]["bytes"] == 1_095.0 && requests["response"]["is_constant"] == false, "{requests}");
    let sizes = [
        ("count", 200),
        ("min_bytes", 1_000),
        ("p50_bytes", 1_090),
        ("p90_bytes", 1_170),
        ("p95_bytes", 1_180),
        ("p99_bytes", 1_190),
        ("max_bytes", 1_190),
    ];
    for (key, expected) in sizes {
        assert_eq!(requests["response"]["sizes"][key], expected, "{key}: {requests}");
    }
    let service_ns = seen["service"]["p95_ns"].as_f64().unwrap();
    assert!((service_ns / 300e3 - 1.0).abs() < 0.002, "{seen}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("The key `response` is their mean."));
    let workload = printed(&file).workload;
    assert_eq!((workload.connections.0[0].get(), workload.active.0[0].0), (10, 1.0));
    assert_eq!((workload.request.unwrap().0, workload.response.unwrap().0), (100, 1_095));
    let text = String::from_utf8(observe(&source).stdout).unwrap();
    assert!(text.contains("min 1000, p50 1090, p90 1170, p95 1180, p99 1190, max 1190 B"), "{text}");
}

fn silent_server_has_no_profile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml");
    let output = observe(&["--port", &port, "--duration", "1s", "--output", file.to_str().unwrap()]);
    let reason = String::from_utf8(output.stderr).unwrap();
    assert!(reason.contains("no request and response was seen") && !output.status.success(), "{reason}");
    assert!(!file.exists());
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.alone(case!(lasting_connections_are_observed_exactly));
    cases.alone(case!(short_lived_connections_are_observed_exactly));
    cases.once(case!(capture_becomes_a_profile_with_exact_sizes));
    cases.once(case!(silent_server_has_no_profile));
}
