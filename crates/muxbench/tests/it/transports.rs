//! Unix sockets and TCP over IPv6 in each architecture, and the special cases of Unix sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{Serve, assert_interleaved, descriptors_of, eventually, exchange, muxbench, skipped, text};
use server::{Accept, Architecture};
use wire::Address;

const REQUEST: usize = 4;
/// Ten responses exceed the socket buffers.
const RESPONSE: usize = 1 << 20;

fn start(architecture: Architecture, listen: &str) -> Serve {
    Serve::start_with(architecture, REQUEST as u32, RESPONSE as u32, &["--listen", listen], None)
}

/// Checks pipelined, split and half-closed connections of a server at this address, then stops it.
fn assert_serves(architecture: Architecture, listen: &str) {
    let serve = start(architecture, listen);
    let mut slow = serve.connect();
    slow.write_all(&[1; 10 * REQUEST]).unwrap();
    let mut others: Vec<_> = (0..3).map(|_| serve.connect()).collect();
    for stream in &mut others {
        exchange(stream, REQUEST, RESPONSE);
    }
    slow.read_exact(&mut vec![0; 10 * RESPONSE]).unwrap();
    exchange(&mut slow, REQUEST, RESPONSE);

    let pipelined = &mut others[0];
    pipelined.write_all(&[1; 5 * REQUEST + 1]).unwrap();
    pipelined.read_exact(&mut vec![0; 5 * RESPONSE]).unwrap();
    pipelined.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(pipelined.read(&mut [0; 1]).is_err(), "a part of a request gets no response");
    pipelined.set_read_timeout(Some(crate::common::TIMEOUT)).unwrap();
    pipelined.write_all(&[1; REQUEST - 1]).unwrap();
    pipelined.read_exact(&mut vec![0; RESPONSE]).unwrap();

    let mut half_closed = others.pop().unwrap();
    half_closed.write_all(&[1; 3 * REQUEST]).unwrap();
    half_closed.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    half_closed.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 3 * RESPONSE, "{architecture}: three whole responses before the end");

    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["accepted"]), (&(10 + 3 + 1 + 6 + 3).into(), &4.into()), "{architecture}");
}

fn every_architecture_serves_over_ipv6(architecture: Architecture) {
    assert_serves(architecture, "[::1]:0");
}

fn every_architecture_serves_unix_socket_and_removes_it(architecture: Architecture) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listen = Address::unix(path.clone()).unwrap();
    match architecture.can_listen(&listen) {
        Ok(()) => assert_serves(architecture, &listen.to_string()),
        // This architecture cannot use Unix sockets on any host.
        Err(reason) => println!("{architecture}: {reason}"),
    }
    assert!(!path.exists(), "{architecture} removes its socket");
}

fn short_write_continues_when_socket_is_writable(architecture: Architecture) {
    // The buffer of a Unix socket is small, so each response needs several writes. The client reads immediately, so the socket
    // may be writable again before the network thread starts to wait for that.
    let folder = tempfile::tempdir().unwrap();
    let listen = Address::unix(folder.path().join("s")).unwrap();
    let serve = start(architecture, &listen.to_string());
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = serve.connect();
            std::thread::spawn(move || (0..20).for_each(|_| exchange(&mut stream, REQUEST, RESPONSE)))
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().is_ok()), "{architecture}");
    serve.stop();
}

fn io_uring_closes_connection_that_ends_after_bytes(architecture: Architecture) {
    // The bytes and the end may both arrive before the first receive. The server could miss the end and leak the connection.
    let folder = tempfile::tempdir().unwrap();
    let listen = Address::unix(folder.path().join("s")).unwrap();
    let serve = Serve::start_with(architecture, 2, 1, &["--listen", &listen.to_string()], None);
    exchange(&mut serve.connect(), 2, 1);
    serve.settle();
    let held = || (descriptors_of(serve.pid()), serve.children().len());
    let before = held();
    let mut clients: Vec<_> = (0..64).map(|_| serve.connect()).collect();
    exchange(&mut clients[0], 2, 1);
    serve.settle();
    for mut client in clients {
        client.write_all(&[1]).unwrap();
    }
    eventually(&format!("all connections of {architecture} have ended"), || held() <= before);
    serve.stop();
}

fn accept_strategies_except_reuseport_serve_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let listen = Address::unix(folder.path().join("s")).unwrap();
    for (model, accept) in ["mt-pool:4", "mp-prefork:4"]
        .into_iter()
        .flat_map(|model| {
            Accept::ALL.into_iter().map(move |(accept, _, _)| (model.parse::<Architecture>().unwrap(), accept))
        })
        .filter(|(pool, accept)| accept.check(*pool).is_ok() && accept.check_address(&listen).is_ok())
    {
        let flags = ["--listen", &listen.to_string(), "--accept", &accept.to_string()];
        let serve = Serve::start_with(model, 1, 1, &flags, None);
        for _ in 0..20 {
            exchange(&mut serve.connect(), 1, 1);
        }
        serve.settle();
        let (status, totals) = serve.stop();
        assert!(status.success() && totals["requests"] == 20, "{model} {accept}: {status} {totals}");
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    muxbench().args(arguments).current_dir(folder).output().unwrap()
}

fn stale_socket_is_replaced_and_another_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listen = format!("unix:{}", path.display());
    let epoll: Architecture = "epoll".parse().unwrap();
    // A killed server cannot remove its socket.
    drop(start(epoll, &listen));
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    let serve = start(epoll, &listen);
    exchange(&mut serve.connect(), REQUEST, RESPONSE);

    let assert_rejected = |listen: &str, word: &str| {
        let output = run(folder.path(), &["serve", "--listen", listen]);
        let printed = text(&output.stderr);
        assert!(!output.status.success() && printed.contains(word), "{listen}: {printed}");
    };
    assert_rejected(&listen, "another server listens there");
    exchange(&mut serve.connect(), REQUEST, RESPONSE);
    drop(serve);
    fs::write(folder.path().join("file"), "mine").unwrap();
    assert_rejected("unix:file", "not a socket");
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"mine");
    assert_rejected(&format!("unix:/{}", "x".repeat(107)), "limit of 107");
}

fn load_drives_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("unix:{}", folder.path().join("s").display());
    let serve = Serve::start_with("epoll".parse().unwrap(), 10, 200, &["--listen", &target], None);
    let load = ["load", "--target", &target, "--request", "10B", "--response", "200B", "--connections", "10"];
    let times = ["--rate", "200", "--ramp", "0", "--warm-up", "100ms", "--measure", "300ms", "--cool-down", "20s"];
    let more = ["--output", "here", "--pacing", "sleep-spin", "--json"];
    let output = run(folder.path(), &[&load[..], &times, &more].concat());
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(result["report"]["transport"], "unix");
    assert_eq!(result["config"]["target"], target.as_str());
    assert_eq!((&result["report"]["completed"], &result["report"]["planned"]), (&60.into(), &60.into()));
    let record = &harness::store::read(&folder.path().join("here")).unwrap().records[0];
    assert_eq!(record.trial.architecture.to_string(), "target:server", "the run is stored");
    drop(serve);
}

fn unix_socket_run_removes_its_private_folder() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("t");
    fs::create_dir(&temporary).unwrap();
    let flags = "compare --transport unix --arch epoll,mt-pool,mp --connections 10 --rate 1000 --request 10B --response 20B \
                 --repeats 1 --ramp 0 --warm-up 200ms --measure 300ms --cool-down 60s --pacing sleep-spin \
                 --output here";
    let arguments: Vec<&str> = flags.split_whitespace().collect();
    let output = muxbench().args(&arguments).current_dir(folder.path()).env("TMPDIR", &temporary).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{out}\n{err}");
    assert!(out.contains("10B -> 20B, over Unix sockets"), "{out}");
    assert!(out.contains("Network: none"), "{out}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the private folder is removed");
    let run = harness::store::read(&folder.path().join("here")).unwrap();
    assert_eq!(run.records.len(), 3);
    assert_interleaved(&run);
    for record in &run.records {
        let load = record.load.as_ref().unwrap_or_else(|| panic!("{}", record.verdict.reason));
        assert!(load.completed > 0 && load.errors.total() == 0, "{:?}", load.errors);
        assert_eq!(record.server.as_ref().unwrap().connections, 10);
    }
    let csv = text(&run_report(folder.path()).stdout);
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "trial.workload.transport").unwrap();
    assert!(csv.lines().skip(1).all(|row| row.split(',').nth(column) == Some("unix")), "{csv}");

    let long = temporary.join("x".repeat(100));
    let plan = ["plan", "kawai2008-http", "--quick"];
    let output = muxbench().args(plan).current_dir(folder.path()).env("TMPDIR", &long).output().unwrap();
    assert!(output.status.success(), "a run over TCP needs no socket folder: {}", text(&output.stderr));
    let output = muxbench().args(&arguments).current_dir(folder.path()).env("TMPDIR", &long).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && printed.contains("set TMPDIR to a shorter path"), "{printed}");
}

fn run_report(folder: &Path) -> Output {
    run(folder, &["report", "here", "--csv"])
}

/// A Python program that serves on a Unix socket.
const PYTHON: &str = "
import socket, sys, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(100)
def serve(stream):
    while len(stream.recv(10, socket.MSG_WAITALL)) == 10:
        stream.sendall(bytes(20))
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
";

fn external_server_gets_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.py"), PYTHON).unwrap();
    let file = "name = \"x\"\narchitectures = \"exec:py\"\n\
                [exec.py]\ncommand = [\"python3\", \"server.py\", \"{socket}\"]\n\
                [workload]\ntransport = \"unix\"\nconnections = 10\nrate = 200\nrequest = \"10B\"\nresponse = \"20B\"\n\
                [phases]\nramp = \"0\"\nwarm-up = \"200ms\"\nmeasure = \"300ms\"\ncool-down = \"60s\"\n\
                [client]\npacing = \"sleep-spin\"\n";
    fs::write(folder.path().join("x.toml"), file).unwrap();
    let output = muxbench()
        .args(["run", "x.toml", "--allow-exec", "--output", "here"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let record = harness::store::read(&folder.path().join("here")).unwrap().records.remove(0);
    let load = record.load.unwrap_or_else(|| panic!("{}", record.verdict.reason));
    assert!(load.completed > 0 && load.errors.total() == 0, "{:?}", load.errors);
    assert_eq!(record.server.unwrap().connections, 10);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    match TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        Ok(_) => cases.each(case!(every_architecture_serves_over_ipv6)),
        Err(error) => skipped(&format!("IPv6: {error}")),
    }
    let unix = Address::unix("s").unwrap();
    cases.each(case!(every_architecture_serves_unix_socket_and_removes_it));
    cases.each_that(
        |it| it.model.stages.is_some() && it.can_listen(&unix).is_ok(),
        case!(short_write_continues_when_socket_is_writable),
    );
    let is_io_uring = |it: &Architecture| it.mechanism.is_some_and(|row| row.name.starts_with("io_uring"));
    cases.each_that(
        |it| is_io_uring(it) && it.can_listen(&unix).is_ok(),
        case!(io_uring_closes_connection_that_ends_after_bytes),
    );
    cases.once(case!(accept_strategies_except_reuseport_serve_unix_sockets));
    cases.once(case!(stale_socket_is_replaced_and_another_file_is_an_error));
    cases.once(case!(load_drives_unix_socket));
    cases.once(case!(unix_socket_run_removes_its_private_folder));
    cases.once(case!(external_server_gets_a_unix_socket));
}
