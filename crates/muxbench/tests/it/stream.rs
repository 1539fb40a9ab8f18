//! The service `stream` in every architecture: no byte is lost in either direction.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{Serve, as_nobody, load, muxbench, muxbench_for_all_users};
use load::LoadConfig;
use load::config::Phases;
use serde_json::Value;
use server::Architecture;
use wire::ServiceSpec;
use wire::stream::{Direction, GREETING, Stream};

/// A burst whose size is not a multiple of the size of a read or a write.
const SIZES: Stream =
    Stream { packet_bytes: 1_001, packets: 777, ack_bytes: 33, direction: Direction::In, by_packet: false };

fn flags(direction: &str) -> [&str; 8] {
    ["--packet", "1001B", "--packets", "777", "--ack", "33B", "--direction", direction]
}

/// `count` bytes of a greeting or of a burst.
fn bytes(count: u64, is_greeting: bool) -> Vec<u8> {
    vec![if is_greeting { GREETING } else { 1 }; count as usize]
}

fn take(stream: &mut TcpStream, count: u64) {
    stream.read_exact(&mut vec![0; count as usize]).unwrap();
}

/// Shuts down sending, and counts the bytes until the server closes.
fn end(mut stream: TcpStream) -> u64 {
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap() as u64
}

fn each_burst_is_acknowledged_and_every_byte_counted(architecture: Architecture) {
    let serve = Serve::start_stream(architecture, &flags("in"));
    let (burst, packet) = (SIZES.burst_bytes(), u64::from(SIZES.packet_bytes));
    let mut whole = serve.connect();
    // A greeting has one packet, a burst all packets. The server separates them although they arrive together.
    whole.write_all(&[bytes(packet, true), bytes(burst, false), bytes(packet, true)].concat()).unwrap();
    take(&mut whole, 3 * 33);
    // The server acknowledges a burst only after its last byte.
    whole.write_all(&bytes(burst - 1, false)).unwrap();
    whole.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(whole.read(&mut [0]).is_err(), "{architecture}");
    whole.set_read_timeout(Some(crate::common::TIMEOUT)).unwrap();
    whole.write_all(&[1]).unwrap();
    take(&mut whole, 33);
    assert_eq!(end(whole), 0, "{architecture}");
    // The second burst ends early: the server does not acknowledge it, but counts its bytes.
    let mut broken = serve.connect();
    broken.write_all(&bytes(burst + 500_000, false)).unwrap();
    assert_eq!(end(broken), 33, "{architecture}");
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["bytes_in"], 2 * packet + 3 * burst + 500_000, "{architecture}");
    assert_eq!(totals["bytes_out"], 5 * 33, "{architecture}");
    assert_eq!(totals["requests"], 5, "{architecture}");
}

fn slow_client_gets_all_bursts_of_the_server(architecture: Architecture) {
    let serve = Serve::start_stream(architecture, &flags("out"));
    let (burst, packet) = (SIZES.burst_bytes(), u64::from(SIZES.packet_bytes));
    let mut stream = serve.connect();
    stream.write_all(&bytes(33, true)).unwrap();
    take(&mut stream, packet);
    // The responses exceed the socket buffers, and the client reads them late.
    for _ in 0..12 {
        stream.write_all(&bytes(33, false)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    take(&mut stream, 12 * burst);
    assert_eq!(end(stream), 0, "{architecture}");
    let (_, totals) = serve.stop();
    assert_eq!((&totals["bytes_in"], &totals["bytes_out"]), (&(13 * 33).into(), &(packet + 12 * burst).into()));
}

fn client_and_server_count_the_same_bytes(architecture: Architecture, direction: Direction) {
    exchange(architecture, Stream { direction, ..SIZES });
}

fn packets_bound_reads_and_writes(architecture: Architecture) {
    for (direction, call, bytes) in [(Direction::In, "read", "bytes_in"), (Direction::Out, "write", "bytes_out")] {
        let totals = exchange(architecture, Stream { direction, by_packet: true, ..SIZES });
        let [calls, bytes] = [&totals["syscalls"][call], &totals[bytes]].map(|count| count.as_u64().unwrap());
        assert!(
            calls * u64::from(SIZES.packet_bytes) >= bytes,
            "{architecture}: {calls} calls of {call}, {bytes} bytes"
        );
    }
}

/// Moves bursts between client and server, compares their counts of bytes, and returns the server's counts.
fn exchange(architecture: Architecture, sizes: Stream) -> Value {
    let serve = Serve::start_of(architecture, &ServiceSpec::Stream(sizes), &[]);
    let config = LoadConfig::new(serve.address.clone(), ServiceSpec::Stream(sizes)).with(|it| {
        it.connections = 7;
        it.client.clients = 2;
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 100_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
    });
    let report = load::run(&config, &mut |_| ()).unwrap().report;
    assert_eq!(report.errors.total(), 0, "{architecture}: {:?}", report.errors);
    let stream = report.stream.unwrap();
    assert_eq!(stream.ended, 7, "{architecture}");
    assert_eq!(stream.bytes, stream.bytes_by_part.iter().sum::<u64>());
    assert_eq!(stream.bytes, stream.bytes_by_second.iter().sum::<u64>());
    let (greeting_bytes, answer_bytes) = sizes.sizes(true);
    assert!(stream.sent_bytes > 7 * greeting_bytes && stream.received_bytes >= 7 * answer_bytes);
    let (_, totals) = serve.stop();
    assert_eq!(totals["bytes_in"], stream.sent_bytes, "{architecture}");
    assert_eq!(totals["bytes_out"], stream.received_bytes, "{architecture}");
    totals
}

fn streams_compare_by_bandwidth_with_verified_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let output = muxbench()
        .args(["compare", "--service", "stream", "--arch", "epoll,epoll-buffered", "--connections", "1,5"])
        .args(["--packets", "100", "--idle", "3", "--repeats", "1", "--ramp", "0", "--warm-up", "100ms"])
        // Streams at full speed would take CPU time from other tests. The bandwidth leaves out the time in which the client was
        // stalled: on a busy machine, most of a second.
        .args(["--measure", "3s", "--simulated-work", "sleep=2ms", "--json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let comparisons = shown["summary"]["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2, "{shown}");
    for row in comparisons.iter().flat_map(|comparison| comparison["rows"].as_array().unwrap()) {
        // On a busy machine the trial may be unsteady or client-limited, but no byte is lost.
        assert_ne!(row["verdict"], "failed", "{row}");
        assert!(row["stream"]["bytes_per_s"].as_f64().unwrap() > 0.0, "{row}");
        // The runner has sampled the server during the window.
        assert_eq!(row["stream"]["server_bytes_per_s_by_part"].as_array().unwrap().len(), 32, "{row}");
    }
    let csv = muxbench().args(["report", "--csv"]).current_dir(&folder).output().unwrap();
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert!(csv.lines().next().unwrap().contains("load.stream.fairness"), "{csv}");
    let text = muxbench().arg("report").current_dir(&folder).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Bandwidth in MB/s against connections"), "{text}");
    assert!(text.contains("epoll-buffered"), "{text}");
}

fn server_out_of_threads_fails_trial_with_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let program = muxbench_for_all_users(folder.path());
    // The plan checks the limit, but does not know that another server of this user has half of the threads.
    let mut others = as_nobody(&program);
    others.args(["serve", "--arch", "mt-pool:400", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut others = others.spawn().unwrap();
    let mut printed = BufReader::new(others.stdout.take().unwrap());
    printed.read_line(&mut String::new()).unwrap();
    let limited = as_nobody(&program);
    let output = Command::new("prlimit")
        .arg("--nproc=800")
        .arg(limited.get_program())
        .args(limited.get_args())
        .args(["compare", "--service", "stream", "--arch", "mt", "--connections", "500", "--packet", "1KiB"])
        .args(["--repeats", "1", "--ramp", "0", "--warm-up", "0", "--measure", "100ms", "--json"])
        .current_dir(&folder)
        .output();
    others.kill().unwrap();
    others.wait().unwrap();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let row = &shown["summary"]["comparisons"][0]["rows"][0];
    let reason = row["reasons"][0].as_str().unwrap_or_else(|| panic!("{row}"));
    assert!(row["verdict"] == "failed" && reason.contains("ran out of threads: raise its limit"), "{row}");
}

fn bandwidth_is_printed_each_second() {
    // The server's pauses leave CPU time to other tests.
    let serve = Serve::start_stream("epoll".parse().unwrap(), &["--simulated-work", "sleep=50ms"]);
    let output = load()
        .args(["--service", "stream", "--connections", "2", "--ramp", "0", "--warm-up", "0", "--measure", "4s"])
        .args(["--target", &serve.address.to_string()])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    let lines = message.lines().filter(|line| line.contains(" to ") && line.contains("B/s"));
    assert!(lines.count() >= 2, "{message}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("fairness") && text.contains("whole bursts"), "{text}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    let service = ServiceSpec::Stream(SIZES);
    cases.serving(&service, case!(each_burst_is_acknowledged_and_every_byte_counted));
    cases.serving(&service, case!(slow_client_gets_all_bursts_of_the_server));
    for direction in [Direction::In, Direction::Out] {
        let (name, check) = case!(client_and_server_count_the_same_bytes);
        let name = format!("{name}::{direction:?}");
        cases.kinds(&service, (&name, move |architecture| check(architecture, direction)));
    }
    cases.named(&["epoll", "poll-shuffled", "mt-buffered"], case!(packets_bound_reads_and_writes));
    cases.once(case!(streams_compare_by_bandwidth_with_verified_bytes));
    cases.once(case!(server_out_of_threads_fails_trial_with_remedy));
    cases.once(case!(bandwidth_is_printed_each_second));
}
