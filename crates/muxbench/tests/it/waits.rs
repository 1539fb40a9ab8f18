//! Waits before responses (`--simulated-work wait=TIME`) in every architecture.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Cases, KINDS, case};
use crate::common::{Serve, exchange, read_response};
use rustix::net::sockopt;
use server::Architecture;
use server::spec::mechanism::Spins;
use server::spec::model::PerConnection;

/// Starts a server of one byte per request and per response with these waits.
fn start(architecture: Architecture, work: &str) -> Serve {
    Serve::start_with(architecture, 1, 1, &["--simulated-work", work], None)
}

/// Sends a byte on each connection, reads a byte from each in turn, and returns the times of the responses after the first send.
fn answer_times(streams: &mut [TcpStream]) -> Vec<Duration> {
    let started = Instant::now();
    streams.iter_mut().for_each(|stream| stream.write_all(&[1]).unwrap());
    let mut time = |stream: &mut TcpStream| {
        stream.read_exact(&mut [0]).unwrap();
        started.elapsed()
    };
    streams.iter_mut().map(&mut time).collect()
}

/// The payload threads of an architecture; `None` if each connection waits on its own.
fn payload_threads(architecture: Architecture) -> Option<u32> {
    let network = architecture.threads.map_or(1, |threads| threads.network.max(1));
    architecture
        .model
        .has_payload_threads()
        .then(|| architecture.threads_at_once().expect("stages have threads") - network)
}

fn connections_wait_at_the_same_time(architecture: Architecture) {
    const CONNECTIONS: u32 = 24;
    const WAIT: Duration = Duration::from_millis(150);
    let serve = start(architecture, "cpu=1us,wait=150ms");
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| serve.connect()).collect();
    let last = *answer_times(&mut streams).iter().max().unwrap();
    match payload_threads(architecture) {
        // Payload threads block.
        Some(threads) => assert!(last >= CONNECTIONS / threads * WAIT, "{architecture}: {threads} threads in {last:?}"),
        None => assert!((WAIT..WAIT * CONNECTIONS / 2).contains(&last), "{architecture}: {last:?}"),
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["requests"], CONNECTIONS, "{architecture}");
}

fn pipelined_requests_wait_one_after_the_other(architecture: Architecture) {
    const WAIT: Duration = Duration::from_millis(200);
    let serve = Serve::start_http(architecture, &["--simulated-work", "wait=200ms"]);
    let mut stream = serve.connect();
    // Several responses exceed the socket's buffers, so that the server must also wait for room.
    let sizes = [1, 8 << 20, 3, 8 << 20, 5];
    let requests: String = sizes.iter().map(|size| format!("GET /bytes/{size} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    let (early, late) = requests.as_bytes().split_at(requests.len() - 10);
    let started = Instant::now();
    stream.write_all(early).unwrap();
    for (at, size) in (1..).zip(sizes) {
        if at == 2 {
            // The rest arrives during a wait.
            stream.write_all(late).unwrap();
        }
        assert_eq!(read_response(&mut stream).1, size, "{architecture}: in order");
        assert!(started.elapsed() >= at * WAIT, "{architecture}: response {at} after {:?}", started.elapsed());
        assert!(at > 1 || started.elapsed() < 5 * WAIT, "{architecture}: the first response waited for the others");
    }
}

/// A blocking call in the pool lets the loop serve others, as many at a time as the pool has threads.
fn blocking_calls_run_in_the_pool_of_their_loop(architecture: Architecture) {
    const CONNECTIONS: u32 = 24;
    const CALL: Duration = Duration::from_millis(100);
    // A runtime's pool has more threads.
    let threads = architecture.threads.and_then(|threads| threads.payload).unwrap_or(CONNECTIONS);
    for work in ["sleep=100ms", "sleep=100ms,wait=1ms"] {
        let serve = start(architecture, work);
        let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| serve.connect()).collect();
        let last = *answer_times(&mut streams).iter().max().unwrap();
        let (in_pool, in_loop) = (CONNECTIONS / threads * CALL, CONNECTIONS * CALL);
        assert!((in_pool..in_loop).contains(&last), "{architecture}: {work}: {last:?}");
        serve.settle();
        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        assert_eq!(totals["requests"], CONNECTIONS, "{architecture}");
    }
}

fn requests_before_a_half_close_are_answered_after_their_waits(architecture: Architecture) {
    let serve = start(architecture, "wait=30ms");
    let mut stream = serve.connect();
    stream.write_all(&[1; 3]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (mut all, started) = (Vec::new(), Instant::now());
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 3, "{architecture}: three responses before the end");
    assert!(started.elapsed() >= Duration::from_millis(60), "{architecture}: {:?}", started.elapsed());
}

fn client_that_leaves_during_a_wait_ends_only_its_connection(architecture: Architecture) {
    let serve = start(architecture, "wait=100ms");
    let mut streams: Vec<_> = (0..12).map(|_| serve.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(&[1]).unwrap());
    thread::sleep(Duration::from_millis(20));
    for (at, mut stream) in streams.into_iter().enumerate() {
        match at % 3 {
            0 => stream.read_exact(&mut [0]).unwrap(),
            1 => drop(stream),
            _ => sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
        }
    }
    // The descriptors and tables of ended connections serve others, whose waits are their own.
    let started = Instant::now();
    (0..3).for_each(|_| exchange(&mut serve.connect(), 1, 1));
    // During the last wait the server has time to end the others.
    let mut last = serve.connect();
    exchange(&mut last, 1, 1);
    assert!(started.elapsed() >= Duration::from_millis(400), "{architecture}: {:?}", started.elapsed());
    serve.settle();
    let (status, snapshot) = serve.stop_with_snapshot();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(snapshot["connections_open"], 1, "{architecture}: {snapshot}");
}

fn server_stops_while_many_requests_wait(architecture: Architecture) {
    let serve = start(architecture, "wait=1h");
    let is_process = architecture.model.per_connection == PerConnection::Process;
    let count = if is_process || architecture.model.is_pool() { 40 } else { 1_000 };
    let mut streams: Vec<_> = (0..count).map(|_| serve.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(&[1]).unwrap());
    serve.settle();
    let before = serve.cpu_ticks();
    thread::sleep(Duration::from_millis(500));
    let used = serve.cpu_ticks() - before;
    let spins = architecture.mechanism.is_some_and(|row| row.spins != Spins::Nothing);
    // A thread or coroutine that sleeps checks ten times a second whether the server stops.
    assert!(spins || used <= 20, "{architecture}: {used} ticks of 10 ms in half a second of waiting");
    let started = Instant::now();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert!(started.elapsed() < Duration::from_secs(30), "{architecture} stopped after {:?}", started.elapsed());
    assert_eq!((&totals["accepted"], &totals["requests"]), (&count.into(), &0.into()), "{architecture}");
    streams.iter_mut().for_each(|stream| assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "{architecture}"));
}

fn server_stops_reading_during_a_wait(architecture: Architecture) {
    // More than the socket buffers and the server hold.
    const ENOUGH: usize = 512 << 20;
    let serve = start(architecture, "wait=1h");
    let mut greedy = serve.connect();
    greedy.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut written = 0;
    while let Ok(count) = greedy.write(&[1; 64 << 10]) {
        written += count;
        assert!(written < ENOUGH, "{architecture} read {written} bytes during a wait");
    }
}

/// The one-sided Kolmogorov-Smirnov distance that a sample of this size exceeds with a probability of 1e-6.
fn distance_max(count: usize) -> f64 {
    (1e6f64.ln() / (2.0 * count as f64)).sqrt()
}

fn waits_have_their_distribution(architecture: Architecture) {
    const MEAN_S: f64 = 0.1;
    /// A busy machine wakes the server and the client late.
    const LATE_S: f64 = 0.05;
    let serve = start(architecture, "wait=100ms,exponential");
    let times = thread::scope(|scope| {
        let exchanges = |mut stream: TcpStream| {
            move || -> Vec<f64> {
                let one = |_| {
                    let started = Instant::now();
                    exchange(&mut stream, 1, 1);
                    started.elapsed().as_secs_f64()
                };
                (0..10).map(one).collect()
            }
        };
        let clients: Vec<_> = (0..30).map(|_| scope.spawn(exchanges(serve.connect()))).collect();
        let mut times: Vec<f64> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        times.sort_by(f64::total_cmp);
        times
    });
    let count = times.len();
    let law = |time_s: f64| 1.0 - (-time_s.max(0.0) / MEAN_S).exp();
    for (at, &time_s) in times.iter().enumerate() {
        let (below, up_to) = (at as f64 / count as f64, (at + 1) as f64 / count as f64);
        assert!(up_to - law(time_s) < distance_max(count), "{architecture}: too many waits up to {time_s} s");
        assert!(law(time_s - LATE_S) - below < distance_max(count), "{architecture}: too few waits below {time_s} s");
    }
}

fn waiting_client_exceeds_no_time_limit(architecture: Architecture) {
    let serve = Serve::start_http(
        architecture,
        &["--simulated-work", "wait=700ms", "--request-timeout", "100ms", "--keepalive-timeout", "100ms"],
    );
    let mut stream = serve.connect();
    stream.write_all(b"GET /bytes/7 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut stream).1, 7, "{architecture}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{architecture}: the idle connection ends");
    let (_, totals) = serve.stop();
    assert_eq!(totals["timed_out"], 1, "{architecture}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.each(case!(connections_wait_at_the_same_time));
    cases.each(case!(pipelined_requests_wait_one_after_the_other));
    cases.each_that(|it| it.model.offloads(), case!(blocking_calls_run_in_the_pool_of_their_loop));
    cases.each(case!(requests_before_a_half_close_are_answered_after_their_waits));
    cases.each(case!(client_that_leaves_during_a_wait_ends_only_its_connection));
    cases.each(case!(server_stops_while_many_requests_wait));
    cases.each(case!(server_stops_reading_during_a_wait));
    cases.each_that(|it| payload_threads(*it).is_none(), case!(waits_have_their_distribution));
    cases.named(KINDS, case!(waiting_client_exceeds_no_time_limit));
}
