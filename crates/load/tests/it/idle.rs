//! Idle connections against servers that drop some of them.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use muxbench_load::LoadConfig;
use muxbench_load::tools::idle::{self, IdleEvent, IdleResult};

use crate::server::{answer_all, answer_one, service};

const CONNECTIONS: u32 = 20;
/// A timeout that no response exceeds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server's action on a connection after all are open, given the connection's number. Returns whether to continue serving.
type Meanwhile = fn(u32, &mut TcpStream) -> bool;

/// Answers each connection's first request and runs `meanwhile` on a signal. If that returns true, serves further requests.
fn server(meanwhile: Meanwhile) -> (SocketAddr, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (signal, signalled) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().unwrap();
            answer_one(&mut stream).unwrap();
            streams.push(stream);
        }
        signalled.recv().unwrap();
        let mut held = Vec::new();
        for (number, mut stream) in (0..).zip(streams) {
            if meanwhile(number, &mut stream) {
                held.push(stream);
            }
        }
        done.send(()).unwrap();
        let answering = held.into_iter().map(|stream| thread::spawn(move || answer_all(stream)));
        answering.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    });
    (address, signal, is_done)
}

/// Holds connections to a server that runs `meanwhile`. `timeout` is the longest time for a response.
fn hold(timeout: Duration, meanwhile: Meanwhile) -> IdleResult {
    let (target, signal, is_done) = server(meanwhile);
    let timeout_ns = timeout.as_nanos() as u64;
    let config = LoadConfig::new(target, service())
        .with(|it| (it.connections, it.client.timeout_ns) = (CONNECTIONS, timeout_ns));
    let mut held = 0;
    let report = idle::hold(
        &config,
        &mut |event| {
            if let IdleEvent::Held { connections, .. } = event {
                held += connections;
            }
        },
        &mut || {
            signal.send(()).unwrap();
            is_done.recv().unwrap();
        },
    );
    assert_eq!(held, CONNECTIONS);
    report.unwrap()
}

#[test]
fn served_idle_connections_are_alive_at_the_end() {
    let report = hold(PATIENCE, |_, _| true);
    assert_eq!((report.held, report.alive, report.errors.total()), (20, 20, 0), "{report:?}");
    assert!(report.connect_ns > 0 && report.processes == 1);
    let both = report.and(&report);
    assert_eq!((both.held, both.alive, both.processes, both.connect_ns), (40, 40, 2, report.connect_ns));
}

#[test]
fn ended_or_disturbed_idle_connections_are_counted() {
    let report = hold(PATIENCE, |number, stream| {
        if number == 7 {
            stream.write_all(b"x").unwrap();
        }
        number % 5 != 0
    });
    assert_eq!((report.alive, report.errors.reset, report.errors.wrong), (15, 4, 1), "{report:?}");
    assert_eq!(report.errors.total(), 5);
}

#[test]
fn hanging_connections_time_out_concurrently() {
    let started = Instant::now();
    let report = hold(Duration::from_secs(2), |number, stream| {
        if number >= 4 {
            // Keep the connection open without serving it.
            std::mem::forget(stream.try_clone().unwrap());
        }
        number < 4
    });
    assert_eq!((report.alive, report.errors.timeout), (4, 16), "{report:?}");
    // Sixteen timeouts in sequence would take 32 s.
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
}
