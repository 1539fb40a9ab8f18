//! Requests allocate no memory in loops, mechanisms, hand-offs between stages and most services.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use muxbench_server::spec::model::PerConnection;
use muxbench_server::{Architecture, DatagramOptions, ServeConfig, Server};
use wire::http::{Content, Http, HttpConn};
use wire::{Service, ServiceSpec};

use crate::config;

/// The number of allocations and reallocations so far.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every method forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller fulfils the contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract, which is that of `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller fulfils the contract, which is that of `System`.
        unsafe { System.realloc(block, layout, new_bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 200;
/// The most allocations by growth: under load, the queues and buffers of connections may still double a few times.
const GROWTH_MAX: u64 = 40;

/// A request of a service and its response.
struct Exchange<'a> {
    name: &'a str,
    request: &'a [u8],
    response_bytes: usize,
    /// The most allocations of all requests of this exchange together.
    allocations_max: u64,
}

/// Sends a request on each connection, then receives all responses, so that several requests wait at once. Allocates nothing.
fn exchange(streams: &mut [TcpStream], request: &[u8], response: &mut [u8], rounds: usize) {
    for _ in 0..rounds {
        streams.iter_mut().for_each(|stream| stream.write_all(request).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(response).unwrap());
    }
}

fn start(architecture: Architecture, service: &ServiceSpec) -> Server {
    Server::start(&config(architecture, service.clone())).unwrap_or_else(|error| panic!("{architecture}: {error}"))
}

/// The architectures that run muxbench's loops in this process: those without child processes and runtimes. By default this
/// covers each model and each mechanism; with MUXBENCH_EVERY in the environment, each pair of them.
pub fn architectures() -> Vec<Architecture> {
    let more =
        ["amped:0+2/epoll", "amped:1+1/epoll", "symped:1/epoll", "seda:1+3/epoll"].map(|name| name.parse().unwrap());
    let every = std::env::var_os("MUXBENCH_EVERY").is_some();
    let all = if every { Architecture::every() } else { Architecture::all() }.into_iter().chain(more);
    let has_own_loop = |row: &Architecture| !row.model.is_runtime();
    let is_in_process = |row: &Architecture| row.model.per_connection != PerConnection::Process;
    all.filter(|row| has_own_loop(row) && is_in_process(row))
        .filter(|row| match row.can_run() {
            Ok(()) => true,
            Err(reason) => {
                muxbench_server::skipped::skipped(&format!("{row}: {reason}"));
                false
            }
        })
        .collect()
}

pub fn requests_allocate_nothing(architecture: Architecture) {
    let fixed = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };
    let kv = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
    let set = |key: &str, bytes: usize| format!("set {key} 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes)).into_bytes();
    let hit = |key: &str, bytes: usize| format!("VALUE {key} 0 {bytes}\r\n\r\nEND\r\n").len() + bytes;
    let (set_small, set_large) = (set("small", 1000), set("large", 30_000));
    let requests = (CONNECTIONS * ROUNDS) as u64;
    let fixed_exchange =
        Exchange { name: "fixed", request: &[1; 128], response_bytes: 10_240, allocations_max: GROWTH_MAX };
    let kv_exchanges = [
        Exchange {
            name: "get",
            request: b"get small\r\n",
            response_bytes: hit("small", 1000),
            allocations_max: GROWTH_MAX,
        },
        Exchange { name: "miss", request: b"get none\r\n", response_bytes: 5, allocations_max: GROWTH_MAX },
        // Each long response is allocated, and freed after it is sent, so that idle connections keep no memory.
        Exchange {
            name: "large get",
            request: b"get large\r\n",
            response_bytes: hit("large", 30_000),
            allocations_max: GROWTH_MAX + requests,
        },
        // One allocation for the value and one for the key.
        Exchange { name: "set", request: &set_small, response_bytes: 8, allocations_max: GROWTH_MAX + 2 * requests },
    ];
    let redis = ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
    let redis_set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\n", &[b'v'; 1000][..], b"\r\n"].concat();
    let redis_exchanges = [
        // One allocation for the value and one for the key.
        Exchange { name: "SET", request: &redis_set, response_bytes: 5, allocations_max: GROWTH_MAX + 2 * requests },
        Exchange { name: "MGET", request: b"MGET k x\r\n", response_bytes: 1_018, allocations_max: GROWTH_MAX },
    ];
    let http = ServiceSpec::HTTP;
    let page = Http::new(Content::generated(), Box::new(|| 0));
    let get = b"GET /bytes/1024 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let http_exchange = Exchange {
        name: "page",
        request: get,
        response_bytes: {
            let mut conn = HttpConn::default();
            page.receive(&mut conn, get);
            page.unsent(&conn).len()
        },
        allocations_max: GROWTH_MAX,
    };
    let mut response = vec![0; 64 << 10];
    for (service, exchanges) in [
        (&fixed, std::slice::from_ref(&fixed_exchange)),
        (&kv, &kv_exchanges),
        (&redis, &redis_exchanges),
        (&http, std::slice::from_ref(&http_exchange)),
    ] {
        let server = start(architecture, service);
        let connect = |_| {
            let stream = TcpStream::connect(server.address().ip().unwrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream
        };
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
        if service == &kv {
            exchange(&mut streams[..1], &set_small, &mut response[..8], 1);
            exchange(&mut streams[..1], &set_large, &mut response[..8], 1);
        }
        for Exchange { name, request, response_bytes, allocations_max } in exchanges {
            let response = &mut response[..*response_bytes];
            exchange(&mut streams, request, response, 20);
            let before = ALLOCATIONS.load(Relaxed);
            exchange(&mut streams, request, response, ROUNDS);
            let allocations = ALLOCATIONS.load(Relaxed) - before;
            assert!(
                allocations <= *allocations_max,
                "{architecture} {name}: {allocations} allocations in {requests} requests"
            );
        }
        drop(streams);
        server.stop().unwrap_or_else(|error| panic!("{architecture}: {error}"));
    }
    let udp = ServiceSpec::Udp { ports: CONNECTIONS as u32, request_bytes: 128, response_bytes: 128 };
    if architecture.can_serve(&udp).is_ok() {
        datagrams(architecture, &udp, DatagramOptions::default());
        let batches = DatagramOptions { batch: 8, offload: true };
        if architecture.can_batch(batches).is_ok() {
            datagrams(architecture, &udp, batches);
        }
    }
}

/// Receives a datagram. A time limit lets signals interrupt the call.
fn received(socket: &UdpSocket, response: &mut [u8]) -> usize {
    loop {
        match socket.recv(response) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.unwrap(),
        }
    }
}

/// Checks the allocations of datagrams, which go to each port in turn.
fn datagrams(architecture: Architecture, udp: &ServiceSpec, datagrams: DatagramOptions) {
    let config = ServeConfig { datagrams, ..config(architecture, udp.clone()) };
    let server = Server::start(&config).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    let host = server.address().ip().unwrap().ip();
    let targets: Vec<SocketAddr> = server.ports().unwrap().iter().map(|port| (host, port).into()).collect();
    let socket = UdpSocket::bind((host, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let exchange = |rounds: usize| {
        let mut response = [0; 128];
        for _ in 0..rounds {
            targets.iter().for_each(|target| assert_eq!(socket.send_to(&[1; 128], target).unwrap(), 128));
            targets.iter().for_each(|_| assert_eq!(received(&socket, &mut response), 128));
        }
    };
    exchange(20);
    let before = ALLOCATIONS.load(Relaxed);
    exchange(ROUNDS);
    let allocations = ALLOCATIONS.load(Relaxed) - before;
    let requests = CONNECTIONS * ROUNDS;
    assert!(allocations <= GROWTH_MAX, "{architecture} udp: {allocations} allocations in {requests} requests");
    server.stop().unwrap_or_else(|error| panic!("{architecture}: {error}"));
}
