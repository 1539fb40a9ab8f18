//! Streams against correct and faulty servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use muxbench_load::LoadConfig;
use muxbench_load::config::Phases;
use wire::ServiceSpec;
use wire::stream::{Direction, Stream};

use crate::server::server;

const SIZES: Stream =
    Stream { packet_bytes: 1_000, packets: 100, ack_bytes: 8, direction: Direction::In, by_packet: false };

/// Starts a server that answers each connection's greeting and then calls `then` with the connection and its number.
fn streams(then: fn(TcpStream, usize)) -> SocketAddr {
    let count = AtomicUsize::new(0);
    server(move |mut stream| {
        stream.read_exact(&mut [0; 1_000]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        then(stream, count.fetch_add(1, SeqCst));
    })
}

fn config(target: SocketAddr) -> LoadConfig {
    LoadConfig::new(target, ServiceSpec::Stream(SIZES)).with(|it| {
        it.connections = 4;
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 1_000_000_000, cool_down_ns: 20_000_000_000 };
    })
}

/// Reads and acknowledges bursts until the client ends the connection.
fn acknowledge(mut stream: TcpStream) {
    let mut burst = vec![0; SIZES.burst_bytes() as usize];
    while stream.read_exact(&mut burst).is_ok() {
        let _ = stream.write_all(&[0; 8]);
    }
}

#[test]
fn stream_bytes_and_rate_cover_only_the_window() {
    let report = muxbench_load::run(&config(streams(|stream, _| acknowledge(stream))), &mut |_| ()).unwrap().report;
    assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
    let stream = report.stream.unwrap();
    assert_eq!((stream.ended, stream.bytes_by_second.len()), (4, 1));
    assert!(stream.bytes <= stream.sent_bytes - 4 * 1_000, "the bytes in the window exclude greetings");
    assert!(stream.fairness > 0.25 && stream.fairness <= 1.0, "{}", stream.fairness);
    // The window is one second.
    let by_bytes = stream.bytes as f64 / SIZES.burst_bytes() as f64;
    assert!((report.rate_achieved_per_s - by_bytes).abs() < 1e-6, "the rate includes partial bursts");
}

#[test]
fn unread_connections_time_out_and_lower_the_fairness() {
    let served = |stream: TcpStream, number: usize| match number {
        0 => acknowledge(stream),
        // The server does not read, so the client's bytes stay in the socket buffers until the timeout.
        _ => thread::sleep(std::time::Duration::from_secs(60)),
    };
    let mut config = config(streams(served));
    // The client waits for the whole cool-down.
    (config.phases.warm_up_ns, config.phases.cool_down_ns) = (1_000_000_000, 5_000_000_000);
    let report = muxbench_load::run(&config, &mut |_| ()).unwrap().report;
    let stream = report.stream.unwrap();
    assert_eq!((stream.ended, report.errors.timeout), (1, 3), "{:?}", report.errors);
    assert!(stream.fairness < 0.6, "{}", stream.fairness);
    assert!(stream.connection_bytes_max > stream.bytes / 2, "{stream:?}");
}

#[test]
fn early_end_and_extra_bytes_are_errors() {
    let ends = |stream: TcpStream, number: usize| {
        if number > 0 {
            acknowledge(stream)
        }
    };
    let report = muxbench_load::run(&config(streams(ends)), &mut |_| ()).unwrap().report;
    assert_eq!(report.errors.total(), 1, "{:?}", report.errors);
    assert_eq!(report.stream.unwrap().ended, 3);

    let talks = |mut stream: TcpStream, _: usize| {
        let _ = stream.read_exact(&mut vec![0; SIZES.burst_bytes() as usize]);
        let _ = stream.write_all(&[0; 9]);
        acknowledge(stream);
    };
    let report = muxbench_load::run(&config(streams(talks)), &mut |_| ()).unwrap().report;
    assert_eq!(report.errors.wrong, 4, "{:?}", report.errors);
}
