//! The controllers of payload stages. `muxbench-server`'s own tests check the batching factor.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use server::Architecture;

use crate::cases::{Cases, case};
use crate::common::{Serve, eventually, exchange, read_response};

/// Architectures with one payload thread each.
const ONE_PAYLOAD_THREAD: &[&str] =
    &["seda:1+1/epoll", "seda-s:1/poll", "amped:0+1/epoll-et", "seda-coalesced:1+1/epoll"];

fn payload_threads(serve: &Serve) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("payload")).count()
}

/// Has all connections exchange a message until `is_enough`, and returns the number of exchanges.
fn exchange_until(streams: &mut [TcpStream], is_enough: impl Fn() -> bool) -> usize {
    let mut exchanges = 0;
    while !is_enough() {
        streams.iter_mut().for_each(|stream| stream.write_all(&[7]).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
        exchanges += streams.len();
    }
    exchanges
}

fn pool_grows_under_load_and_shrinks(architecture: Architecture) {
    let flags = ["--simulated-work", "sleep=2ms", "--pool-control", "max=4,queue=3,interval=10ms,idle=300ms"];
    let serve = Serve::start_with(architecture, 1, 1, &flags, None);
    // A thread sets its name itself, after the server has started.
    eventually(&format!("{architecture}: the thread has its name"), || payload_threads(&serve) == 1);
    let mut streams: Vec<_> = (0..40).map(|_| serve.connect()).collect();
    let is_full = AtomicBool::new(false);
    let exchanges = thread::scope(|scope| {
        let load = scope.spawn(|| exchange_until(&mut streams, || is_full.load(Relaxed)));
        eventually(&format!("{architecture}: the pool has its most threads"), || payload_threads(&serve) == 4);
        is_full.store(true, Relaxed);
        load.join().unwrap()
    });
    eventually(&format!("{architecture}: the idle threads end"), || payload_threads(&serve) == 1);
    exchange(&mut streams[0], 1, 1);
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["requests"], exchanges + 1, "{architecture}");
}

/// Controllers that act as often as possible lose no request and keep the order of responses.
fn hasty_controllers_leave_each_request_answered(architecture: Architecture) {
    let flags = [
        ["--pool-control", "max=8,queue=1,interval=1ms,idle=1ms"],
        ["--batch-control", "min=1,max=5,interval=1ms"],
        ["--admission", "target=1h,requests=1"],
    ];
    let serve = Serve::start_with(architecture, 100, 300, &flags.concat(), None);
    let streams: Vec<_> = (0..8).map(|_| serve.connect()).collect();
    thread::scope(|scope| {
        for mut stream in streams {
            scope.spawn(move || {
                (0..50).for_each(|_| exchange(&mut stream, 100, 300));
                // Pipelined requests.
                stream.write_all(&[1; 50_000]).unwrap();
                stream.read_exact(&mut vec![0; 150_000]).unwrap();
            });
        }
    });
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["rejected"]), (&(8 * 550).into(), &0.into()), "{architecture}");
}

/// Returns the status of a response to a request of `http` on this connection.
fn status(stream: &mut TcpStream) -> u16 {
    stream.write_all(b"GET /bytes/5 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_response(stream).0[9..12].parse().unwrap()
}

fn admission_rejects_over_its_target_and_admits_under_it(architecture: Architecture) {
    let serve =
        |admission| Serve::start_http(architecture, &["--simulated-work", "sleep=20ms", "--admission", admission]);
    let over = serve("target=5ms,requests=10,timeout=50ms");
    let mut stream = over.connect();
    let (mut served, mut rejected) = (0, 0);
    eventually(&format!("{architecture}: requests are served and rejected on one connection"), || {
        match status(&mut stream) {
            200 => served += 1,
            503 => rejected += 1,
            other => panic!("{architecture}: status {other}"),
        }
        // A request is also admitted after rejections.
        rejected > 0 && served > 10 && rejected > served / 10
    });
    over.settle();
    let (_, totals) = over.stop();
    assert_eq!((&totals["requests"], &totals["rejected"]), (&served.into(), &rejected.into()), "{architecture}");

    let under = serve("target=10min,requests=10,timeout=50ms");
    let mut stream = under.connect();
    assert!((0..20).all(|_| status(&mut stream) == 200), "{architecture}");
    let (_, totals) = under.stop();
    assert_eq!(totals["rejected"], 0, "{architecture}");
}

/// `fixed` has no response for a rejection.
fn rejected_request_without_status_ends_its_connection(architecture: Architecture) {
    let flags = ["--simulated-work", "sleep=20ms", "--admission", "target=5ms,requests=10,timeout=50ms"];
    let serve = Serve::start_with(architecture, 1, 1, &flags, None);
    eventually(&format!("{architecture}: a connection is reset"), || serve.try_exchange(1, 1).is_none());
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["rejected"], 1, "{architecture}");
    assert_eq!(totals["accepted"].as_u64().unwrap(), totals["requests"].as_u64().unwrap() + 1, "{architecture}");
}

fn controllers_without_payload_threads_state_the_reason() {
    for (flags, reason) in [
        ("--arch epoll --pool-control on", "`epoll` has no payload threads to control"),
        ("--arch symped:2 --admission target=10ms", "`symped:2/epoll` has no payload threads to control"),
        ("--arch seda:1+4 --pool-control max=3", "a pool that starts with 4 threads cannot have at most 3"),
        ("--arch seda --admission on", "invalid admission `on`: expected target=TIME"),
    ] {
        let output = crate::common::muxbench().arg("serve").args(flags.split(' ')).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains(reason), "{flags}: {printed}");
    }
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.named(ONE_PAYLOAD_THREAD, case!(pool_grows_under_load_and_shrinks));
    cases.each_that(|it| it.model.has_payload_threads(), case!(hasty_controllers_leave_each_request_answered));
    cases.named(ONE_PAYLOAD_THREAD, case!(admission_rejects_over_its_target_and_admits_under_it));
    cases.named(ONE_PAYLOAD_THREAD, case!(rejected_request_without_status_ends_its_connection));
    cases.once(case!(controllers_without_payload_threads_state_the_reason));
}
