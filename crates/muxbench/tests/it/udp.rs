//! The service `udp` in every architecture that serves it, and in the commands of muxbench.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{Serve, TIMEOUT, assert_interleaved, eventually, load, muxbench, skipped};
use serde_json::Value;
use server::Architecture;
use server::spec::mechanism::Family;
use server::spec::model::PerConnection;
use wire::ServiceSpec;
use wire::udp::{Udp, put_id};

const SPEC: ServiceSpec = ServiceSpec::Udp { ports: 20, request_bytes: 16, response_bytes: 40 };

/// A client's socket with a timeout.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn targets(serve: &Serve) -> Vec<SocketAddr> {
    let ports = serve.ports.as_ref().expect("the server lists its ports");
    ports.iter().map(|port| SocketAddr::new(serve.ip().ip(), port)).collect()
}

fn request(id: u64) -> Vec<u8> {
    let mut request = Udp::new(16, 40).request();
    put_id(&mut request, id);
    request
}

/// The id of the next response, and the address of the port that sent it.
fn response(socket: &UdpSocket) -> (u64, SocketAddr) {
    let mut inbox = [0; 100];
    let (bytes, from) = loop {
        match socket.recv_from(&mut inbox) {
            // The kernel does not restart a receive with a timeout after a signal, such as SIGCONT.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => break received.unwrap(),
        }
    };
    let id = Udp::new(16, 40).response_id(&inbox[..bytes]);
    (id.unwrap_or_else(|| panic!("{bytes} bytes are no response")), from)
}

fn every_port_echoes_the_id_and_ignores_garbage(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 20, &[]);
    let targets = targets(&serve);
    assert_eq!(targets.len(), 20);
    assert_eq!(targets[0], serve.ip());
    let (one, other) = (socket(), socket());
    for round in 0..3u64 {
        for (at, target) in targets.iter().enumerate() {
            let id = round << 32 | at as u64;
            // Datagrams of a wrong size get no response and do not affect other clients.
            for garbage in [&[][..], &[1; 7], &request(id)[..15], &[2; 17], &[3; 5_000]] {
                one.send_to(garbage, target).unwrap();
            }
            one.send_to(&request(id), target).unwrap();
            other.send_to(&request(!id), target).unwrap();
            assert_eq!(response(&one), (id, *target), "{architecture}");
            assert_eq!(response(&other), (!id, *target), "{architecture}");
        }
    }
    serve.settle();
    let children = serve.children();
    assert_eq!(children.len(), if architecture.model.per_connection == PerConnection::Process { 20 } else { 0 });
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["requests"], 120, "{architecture}");
    assert_eq!(totals["ignored"], 300, "{architecture}");
    assert_eq!(totals["accepted"], 20);
    assert_eq!(totals["unsent"], 0);
    assert_eq!(totals["bytes_in"], 120 * 16 + 60 * (7 + 15 + 17 + 5_000), "{architecture}");
    assert_eq!(totals["bytes_out"], 120 * 40);
    for (syscall, operation, least) in [("read", "receive", 420), ("write", "send", 120)] {
        let calls = totals["syscalls"][syscall].as_u64().unwrap();
        // Each transfer takes a system call or an operation of a completion mechanism.
        let done = calls + totals["completions"][operation].as_u64().unwrap_or(0);
        assert!(done >= least, "{architecture}: {done} {syscall}");
    }
    for child in children {
        eventually("child processes end with the server", || !crate::common::is_alive(child));
    }
}

/// The number of requests, at most 100, that fit in the buffer of an unread socket.
fn room() -> u64 {
    let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
    (0..100).for_each(|id| assert_eq!(socket().send_to(&request(id), reader.local_addr().unwrap()).unwrap(), 16));
    reader.set_nonblocking(true).unwrap();
    (0..100).take_while(|_| reader.recv_from(&mut [0; 100]).is_ok()).count() as u64
}

fn burst_to_one_port_leaves_others_served(architecture: Architecture) {
    let room = room();
    // The burst exceeds the 32 datagrams that a loop reads from a port per turn. In `rt-signal`
    // a port has two turns before another port has one.
    let burst = if architecture.to_string() == "rt-signal" { 90 } else { 40 };
    if burst > room {
        skipped(&format!("{architecture}: a socket has room for {room} requests, not {burst}"));
        return;
    }
    let serve = Serve::start_udp(architecture, 5, &[]);
    let (targets, client) = (targets(&serve), socket());
    // All datagrams arrive before the server reads. The second of them is for another port.
    serve.while_stopped(|| {
        for id in 0..burst {
            client.send_to(&request(id), targets[0]).unwrap();
            if id == 0 {
                client.send_to(&request(u64::MAX), targets[4]).unwrap();
            }
        }
    });
    let answers: Vec<(u64, SocketAddr)> = (0..=burst).map(|_| response(&client)).collect();
    let ids: BTreeSet<u64> = answers.iter().map(|(id, _)| *id).collect();
    assert!(ids.into_iter().eq((0..burst).chain([u64::MAX])), "{architecture}: {answers:?}");
    // The order is arbitrary if several threads serve the ports, or with a completion mechanism.
    let is_one_thread = !architecture.model.has_network_threads();
    if is_one_thread && architecture.mechanism.is_some_and(|row| row.family == Family::Readiness) {
        assert_ne!(
            answers.last(),
            Some(&(u64::MAX, targets[4])),
            "{architecture}: `targets[4]` is served before the end of the burst"
        );
    }
}

fn garbage_within_a_burst_leaves_all_ports_served(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 20, &[]);
    let (targets, client) = (targets(&serve), socket());
    serve.while_stopped(|| {
        for id in 0..20 {
            client.send_to(&request(id), targets[0]).unwrap();
        }
        // Send more garbage datagrams than a completion loop allows pending responses: 12 to one port, one to each other port.
        for target in [targets[0]; 12].iter().chain(&targets[1..]) {
            client.send_to(&[1], target).unwrap();
        }
    });
    let answered: BTreeSet<u64> = (0..20).map(|_| response(&client).0).collect();
    assert!(answered.into_iter().eq(0..20), "{architecture}");
    for (at, target) in targets.iter().enumerate().rev() {
        client.send_to(&request(100 + at as u64), target).unwrap();
        assert_eq!(response(&client), (100 + at as u64, *target), "{architecture}");
    }
    serve.settle();
    assert_eq!(serve.stop().1["ignored"], 31, "{architecture}");
}

/// The bytes of `count` requests with ids from `first` on, as one message.
fn requests(first: u64, count: u64) -> Vec<u8> {
    (first..first + count).flat_map(request).collect()
}

/// Sends a message that the kernel divides into datagrams of the size of a request.
fn send_segmented(client: &UdpSocket, message: &[u8], target: SocketAddr) {
    let value: libc::c_int = 16;
    // SAFETY: the kernel reads `value`, whose length is passed.
    let result = unsafe {
        let bytes = size_of_val(&value) as libc::socklen_t;
        libc::setsockopt(client.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const value).cast(), bytes)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(client.send_to(message, target).unwrap(), message.len());
}

fn batches_answer_each_request_to_its_peer(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 2, &["--datagram-batch", "8"]);
    let (targets, clients) = (targets(&serve), [socket(), socket()]);
    serve.while_stopped(|| {
        for id in 0..20 {
            for (client, peer) in clients.iter().zip(0..) {
                client.send_to(&request(peer << 32 | id), targets[0]).unwrap();
                client.send_to(&[1; 300], targets[0]).unwrap();
            }
        }
    });
    for (client, peer) in clients.iter().zip(0..) {
        let answered: BTreeSet<u64> = (0..20)
            .map(|_| response(client))
            .map(|(id, from)| {
                assert_eq!(from, targets[0], "{architecture}");
                id
            })
            .collect();
        assert!(answered.into_iter().eq((0..20).map(|id| peer << 32 | id)), "{architecture}");
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["ignored"]), (&40.into(), &40.into()), "{architecture}");
    assert_eq!(totals["bytes_in"], 40 * (16 + 300), "{architecture}: lengths are those before truncation");
    assert_eq!(totals["bytes_out"], 40 * 40, "{architecture}");
    // The children of `mp` are not stopped, so they may receive each datagram alone. `spin` also reads while nothing arrives, and
    // `rt-signal` reads for the signal of each datagram.
    if architecture.model.per_connection != PerConnection::Process {
        let calls = |kind: &str| totals["syscalls"][kind].as_u64().unwrap();
        let reads_more = architecture.mechanism.is_some_and(|row| ["rt-signal", "spin"].contains(&row.name));
        assert!(calls("write") < 25, "{architecture}: {totals}");
        assert!(calls("read") < 40 || reads_more, "{architecture}: {totals}");
    }
}

fn offload_answers_coalesced_requests(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 2, &["--datagram-offload", "--datagram-batch", "4"]);
    let (targets, clients) = (targets(&serve), [socket(), socket()]);
    // 50 requests fill the segments of one response message of 40 B each. The last datagram of a message may be shorter.
    for (client, peer) in clients.iter().zip(0..) {
        send_segmented(client, &[requests(peer << 32, 50), vec![9; 7]].concat(), targets[1]);
    }
    for (client, peer) in clients.iter().zip(0..) {
        let answered: BTreeSet<u64> = (0..50).map(|_| response(client).0).collect();
        assert!(answered.into_iter().eq((0..50).map(|id| peer << 32 | id)), "{architecture}");
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["ignored"]), (&100.into(), &2.into()), "{architecture}");
    assert_eq!((&totals["bytes_out"], &totals["unsent"]), (&4_000.into(), &0.into()), "{architecture}");
    let calls = |kind: &str| totals["syscalls"][kind].as_u64().unwrap();
    assert!(calls("write") <= 2, "{architecture}: {totals}");
    assert!(calls("read") <= 20 || architecture.to_string() == "spin", "{architecture}: {totals}");
}

fn workers_share_each_port(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 2, &[]);
    let targets = targets(&serve);
    assert_eq!(targets.len(), 2);
    // The kernel chooses a worker by the client's port.
    let clients: Vec<UdpSocket> = (0..40).map(|_| socket()).collect();
    for (id, client) in (0..).zip(&clients) {
        targets.iter().for_each(|target| _ = client.send_to(&request(id), target).unwrap());
    }
    for (id, client) in (0..).zip(&clients) {
        let from: BTreeSet<SocketAddr> = (0..2)
            .map(|_| response(client))
            .map(|(answered, from)| {
                assert_eq!(answered, id, "{architecture}");
                from
            })
            .collect();
        assert!(from.into_iter().eq(targets.iter().copied()), "{architecture}");
    }
    serve.settle();
    let (status, snapshot) = serve.stop_with_snapshot();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(snapshot["totals"]["requests"], 80, "{architecture}");
    assert_eq!(snapshot["totals"]["accepted"], 2, "{architecture}: ports count once");
}

fn missing_descriptors_for_ports_are_reported() {
    // Test any free ports, and consecutive ports that other processes rarely use.
    for listen in ["127.0.0.1:0".to_owned(), format!("127.0.0.1:{}", 10_000 + std::process::id() % 20_000)] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 40 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_muxbench"), "serve"]);
        command.args(["--service", "udp", "--ports", "100", "--arch", "poll", "--listen", &listen]);
        let (success, _, errors) = run(&mut command);
        assert!(!success && errors.contains("Too many open files"), "{errors}");
        assert!(errors.contains("raise the limit of descriptors (ulimit -n), or serve fewer ports"), "{errors}");
    }
}

fn datagrams_without_buffer_space_count_as_dropped(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 1, &["--simulated-work", "sleep=20ms"]);
    let (target, flood) = (targets(&serve)[0], socket());
    // The flood is much larger than the socket buffer, and much faster than one request per 20 ms.
    for id in 0..20_000 {
        flood.send_to(&request(id), target).unwrap();
    }
    let (_, totals) = serve.stop();
    assert!(totals["dropped"].as_u64().unwrap() > 1_000, "{architecture}: {totals}");
}

fn server_stops_during_a_flood(architecture: Architecture) {
    let serve = Serve::start_udp(architecture, 3, &[]);
    let targets = targets(&serve);
    let flooding = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = socket();
            let mut id = 0;
            while flooding.load(std::sync::atomic::Ordering::Relaxed) {
                // Sends fail once the server has ended.
                let _ = socket.send_to(&request(id), targets[id as usize % 3]);
                id += 1;
            }
        });
        let client = socket();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // The flood may fill the socket buffer, so the request may be lost: repeat it.
        eventually("a request is answered during the flood", || {
            client.send_to(&request(0), targets[1]).unwrap();
            client.recv_from(&mut [0; 100]).is_ok()
        });
        let (status, _) = serve.stop();
        flooding.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(status.success(), "{architecture}: {status}");
    });
}

fn connection_only_architectures_reject_udp(architecture: Architecture) {
    let mut command = muxbench();
    let output = command.args(["serve", "--service", "udp", "--arch", &architecture.to_string()]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{architecture}");
    assert!(printed.contains("cannot serve `udp`") && printed.contains("choose sped"), "{architecture}: {printed}");
}

fn run(command: &mut Command) -> (bool, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// Runs a command. Returns its standard output and standard error. Accepts exit code 3: a busy machine may invalidate trials.
fn run_perhaps_invalid(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{printed}{errors}");
    (printed, errors)
}

fn udp_serve_and_load_work_without_a_runner() {
    let serve = Serve::start_udp("poll".parse().unwrap(), 30, &[]);
    let url = format!("udp://127.0.0.1:{}", serve.ports.as_ref().unwrap());
    let load = || {
        let mut load = load();
        load.args([&url, "--request", "16B", "--response", "40B", "--rate", "500", "--json"]);
        load.args(["--ramp", "0", "--warm-up", "100ms", "--measure", "500ms", "--cool-down", "20s"]);
        load.args(["--pacing", "sleep-spin"]);
        load
    };
    let (json, errors) = run_perhaps_invalid(&mut load());
    let report: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json}{errors}"));
    let report = &report["report"];
    assert_eq!(report["transport"], "udp");
    assert_eq!(report["datagrams"]["ports"], 30);
    assert_eq!(report["datagrams"]["lost"], 0);
    assert_eq!(report["completed"], 250);
    let (status, totals) = serve.stop();
    assert!(status.success());
    // The client verifies each port at least once.
    assert!(totals["requests"].as_u64().unwrap() >= 250 + 50 + 30, "{totals}");

    // The server has ended.
    let (success, _, errors) = run(&mut load());
    assert!(!success && errors.contains("unreachable") && errors.contains("is the server running there"), "{errors}");
}

fn compare_shows_ports_in_place_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut compare = muxbench();
    compare.current_dir(folder).args(["compare", "--arch", "poll,mt,mp", "--service", "udp", "--ports", "5,40"]);
    compare.args(["--rate", "1000", "--ramp", "0", "--warm-up", "100ms", "--measure", "300ms", "--cool-down", "500ms"]);
    let (text, _) = run_perhaps_invalid(compare.args(["--repeats", "1", "--pacing", "sleep-spin", "--output", "here"]));
    for words in
        ["5 ports, 1000 requests/s, udp, 128B -> 128B", "40 ports, 1000 requests/s", "lost", "user+kernel/port"]
    {
        assert!(text.contains(words), "no `{words}` in:\n{text}");
    }
    assert_interleaved(&harness::store::read(&folder.join("here")).unwrap());
    let (success, csv, errors) = run(muxbench().current_dir(folder).args(["report", "here", "--csv"]));
    assert!(success, "{errors}");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let headings = rows.next().unwrap();
    let column = |name: &str| headings.iter().position(|heading| *heading == name).unwrap();
    let mut count = 0;
    for row in rows {
        count += 1;
        assert!(["5", "40"].contains(&row[column("trial.workload.service.ports")]), "{row:?}");
        assert_eq!(row[column("trial.workload.service.service")], "udp");
    }
    assert_eq!(count, 6);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.serving(&SPEC, case!(every_port_echoes_the_id_and_ignores_garbage));
    cases.serving(&SPEC, case!(burst_to_one_port_leaves_others_served));
    cases.serving(&SPEC, case!(garbage_within_a_burst_leaves_all_ports_served));
    cases.serving_batches(&SPEC, case!(batches_answer_each_request_to_its_peer));
    cases.serving_batches(&SPEC, case!(offload_answers_coalesced_requests));
    cases.named(&["symped:3/epoll", "symped:2/epoll-et", "symped:2/io_uring"], case!(workers_share_each_port));
    cases.once(case!(missing_descriptors_for_ports_are_reported));
    cases.named(&["epoll", "mt", "io_uring-oneshot"], case!(datagrams_without_buffer_space_count_as_dropped));
    cases.serving(&SPEC, case!(server_stops_during_a_flood));
    cases.each_that(|it| !it.model.serves_datagrams(), case!(connection_only_architectures_reject_udp));
    cases.once(case!(udp_serve_and_load_work_without_a_runner));
    cases.once(case!(compare_shows_ports_in_place_of_connections));
}
