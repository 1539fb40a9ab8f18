//! Costs of a request besides its work: page faults, and writes.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Pid;
use server::Architecture;
use server::spec::mechanism::NEEDS_NETWORK;
use wire::ServiceSpec;
use wire::stream::{Direction, Stream};

use crate::cases::{Cases, case};
use crate::common::{Serve, skipped};

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 60;
/// The pages of the buffer of a response, or of its next size: a fraction of those that [`ROUNDS`] responses would touch.
const BUFFER_PAGES: u64 = 16;

/// A service with the request that sets it up, if any, the request to repeat, and the sizes of their responses.
struct Exchange {
    service: ServiceSpec,
    set_up: (Vec<u8>, usize),
    request: Vec<u8>,
    response_bytes: usize,
}

/// An exchange of each service with connections. Responses are larger than the buffers that idle connections keep.
fn exchanges() -> Vec<Exchange> {
    const VALUE_BYTES: usize = 30_000;
    let value = "v".repeat(VALUE_BYTES);
    let (memory_max_bytes, item_max_bytes) = (64 << 20, 1 << 20);
    let stream = Stream { packets: 4, direction: Direction::Out, ..Stream::default() };
    let exchange = |service, set_up: (String, usize), request: &[u8], response_bytes| {
        let set_up = (set_up.0.into_bytes(), set_up.1);
        Exchange { service, set_up, request: request.to_vec(), response_bytes }
    };
    let none = || (String::new(), 0);
    vec![
        exchange(ServiceSpec::Fixed { request_bytes: 1, response_bytes: 32 << 10 }, none(), b"x", 32 << 10),
        exchange(
            ServiceSpec::HTTP,
            none(),
            b"GET /bytes/32768 HTTP/1.1\r\nHost: h\r\n\r\n",
            // The service's test compares the head; here only its size counts.
            "HTTP/1.1 200 OK\r\nServer: muxbench\r\nDate: Fri, 15 Jan 2027 08:00:00 GMT\r\nContent-Type: \
             application/octet-stream\r\nContent-Length: 32768\r\n\r\n"
                .len()
                + (32 << 10),
        ),
        exchange(
            ServiceSpec::Kv { memory_max_bytes, item_max_bytes },
            (format!("set k 0 0 {VALUE_BYTES}\r\n{value}\r\n"), "STORED\r\n".len()),
            b"get k\r\n",
            format!("VALUE k 0 {VALUE_BYTES}\r\n\r\nEND\r\n").len() + VALUE_BYTES,
        ),
        exchange(
            ServiceSpec::Redis { memory_max_bytes, item_max_bytes },
            (format!("SET k {value}\r\n"), "+OK\r\n".len()),
            b"GET k\r\n",
            format!("${VALUE_BYTES}\r\n\r\n").len() + VALUE_BYTES,
        ),
        exchange(
            ServiceSpec::Stream(stream),
            none(),
            &vec![1; stream.ack_bytes as usize],
            stream.burst_bytes() as usize,
        ),
    ]
}

/// Sends a request on each connection, then receives all responses, so that several requests wait at once.
fn exchange(streams: &mut [TcpStream], request: &[u8], response: &mut [u8], rounds: usize) {
    for _ in 0..rounds {
        streams.iter_mut().for_each(|stream| stream.write_all(request).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(response).unwrap());
    }
}

/// The page faults so far, without reads from disks, of a process and its children.
fn page_faults(serve: &Serve) -> u64 {
    let of = |pid: &Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name of the program, which may contain anything, the state is the first field.
        stat.rsplit_once(')')?.1.split_whitespace().nth(7)?.parse::<u64>().ok()
    };
    serve.children().iter().chain([&serve.pid()]).filter_map(of).sum()
}

/// A request uses the memory of earlier requests. Otherwise the allocator, not the architecture, decides what a request costs.
fn requests_cause_no_page_faults(architecture: Architecture, at: usize) {
    if !cfg!(feature = "mimalloc") {
        return skipped("page faults: the program has the system's allocator");
    }
    let Exchange { service, set_up, request, response_bytes } = exchanges().swap_remove(at);
    let connections_max = CONNECTIONS.to_string();
    let serve = Serve::start_of(architecture, &service, &["--connections-max", &connections_max]);
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| serve.connect()).collect();
    let mut response = vec![0; response_bytes.max(set_up.1)];
    if set_up.1 > 0 {
        exchange(&mut streams[..1], &set_up.0, &mut response[..set_up.1], 1);
    }
    exchange(&mut streams, &request, &mut response[..response_bytes], ROUNDS);
    let before = page_faults(&serve);
    exchange(&mut streams, &request, &mut response[..response_bytes], ROUNDS);
    let (faults, requests) = (page_faults(&serve) - before, (CONNECTIONS * ROUNDS) as u64);
    // On a busy machine, more requests than before may wait at once, each with a buffer of its own.
    assert!(faults <= CONNECTIONS as u64 * BUFFER_PAGES, "{architecture}: {faults} page faults in {requests} requests");
}

/// A second write costs as much as the copy that it saves, and delays the content behind its head.
fn head_and_content_are_one_write(architecture: Architecture) {
    const REQUESTS: u64 = 20;
    let serve = Serve::start_http(architecture, &[]);
    let mut stream = serve.connect();
    for _ in 0..REQUESTS {
        stream.write_all(b"GET /bytes/50000 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut received = Vec::new();
        while received
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .is_none_or(|at| received.len() < at + 4 + 50_000)
        {
            let mut some = [0; 64 << 10];
            let count = stream.read(&mut some).unwrap();
            assert!(count > 0, "{architecture}: the response is complete");
            received.extend_from_slice(&some[..count]);
        }
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    let writes = totals["syscalls"]["write"].as_u64().unwrap() + totals["completions"]["send"].as_u64().unwrap_or(0);
    // A client that the host has stopped for a while may fill the socket.
    assert!((REQUESTS..REQUESTS * 3 / 2).contains(&writes), "{architecture}: {writes} writes");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    for (at, Exchange { service, .. }) in exchanges().into_iter().enumerate() {
        let (name, check) = case!(requests_cause_no_page_faults);
        let name = format!("{name}::{}", service.name());
        cases.serving(&service, (&name, move |architecture| check(architecture, at)));
    }
    // A zero-copy send completes twice.
    let completes_once = |it: &Architecture| it.mechanism.is_none_or(|row| !NEEDS_NETWORK.contains(&row.name));
    cases.each_that(|it| it.model.counts_syscalls && completes_once(it), case!(head_and_content_are_one_write));
}
