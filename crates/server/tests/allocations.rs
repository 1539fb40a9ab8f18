//! Nothing on the way of a request allocates: not the loops, the mechanisms, the hand-offs between stages, nor a get.
//!
//! One test, alone in its process: it counts the allocations of all threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use muxbench_server::spec::model::PerConnection;
use muxbench_server::{Accept, Architecture, ServeConfig, Server};
use wire::http::{Content, Http, HttpConn};
use wire::{Service, ServiceSpec};

/// Allocations so far, of a block or of more room for one.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is the system's allocator's, which does as it must.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, new_bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 200;
/// Queues, and buffers of connections, may still grow to what a busier moment needs: each doubles a few times, once.
const GROWTH_MAX: u64 = 40;

/// A request of a service, and how much is answered to it.
struct Exchange<'a> {
    name: &'a str,
    request: &'a [u8],
    response_bytes: usize,
    /// How often it may allocate.
    allocations_max: u64,
}

/// Each connection sends, then each receives, so that several wait at once; nothing here allocates.
fn exchange(streams: &mut [TcpStream], request: &[u8], response: &mut [u8], rounds: usize) {
    for _ in 0..rounds {
        streams.iter_mut().for_each(|stream| stream.write_all(request).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(response).unwrap());
    }
}

fn start(architecture: Architecture, service: &ServiceSpec) -> Server {
    let config = ServeConfig {
        architecture,
        accept: Accept::default_of(architecture.model),
        service: service.clone(),
        work: None,
        listen: ([127, 0, 0, 1], 0).into(),
        cpus: Vec::new(),
        stage_cpus: muxbench_server::StageCpus::default(),
        connections_max: 64,
        read_budget_bytes: muxbench_server::ReadBudget::default(),
        limits: muxbench_server::Limits::default(),
        count_syscalls: false,
    };
    Server::start(&config).unwrap_or_else(|error| panic!("{architecture}: {error}"))
}

/// Architectures whose loops are ours and run in this process. A runtime's allocations are its own matter.
fn each() -> Vec<Architecture> {
    let more =
        ["amped:0+2/epoll", "amped:1+1/epoll", "symped:1/epoll", "seda:1+3/epoll"].map(|name| name.parse().unwrap());
    let all = Architecture::every().into_iter().chain(more);
    let is_ours = |row: &Architecture| !muxbench_server::runtimes::FEATURES.contains(&row.model.name);
    let is_here = |row: &Architecture| row.model.per_connection != PerConnection::Process;
    all.filter(|row| is_ours(row) && is_here(row))
        .filter(|row| match row.can_run() {
            Ok(()) => true,
            Err(reason) => {
                muxbench_server::skipped::skipped(&format!("{row}: {reason}"));
                false
            }
        })
        .collect()
}

#[test]
fn requests_allocate_nothing() {
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
        // A long answer is given memory for as long as it is sent, so that idle connections keep none.
        Exchange {
            name: "large get",
            request: b"get large\r\n",
            response_bytes: hit("large", 30_000),
            allocations_max: GROWTH_MAX + requests,
        },
        // The value and its key.
        Exchange { name: "set", request: &set_small, response_bytes: 8, allocations_max: GROWTH_MAX + 2 * requests },
    ];
    let http = ServiceSpec::Http { folder: None };
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
    for architecture in each() {
        for (service, exchanges) in [
            (&fixed, std::slice::from_ref(&fixed_exchange)),
            (&kv, &kv_exchanges),
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
                println!("{architecture} {name}: {allocations} allocations of {requests} requests");
                assert!(allocations <= *allocations_max, "{architecture} {name}: {allocations} of {requests} requests");
            }
            drop(streams);
            server.stop().unwrap_or_else(|error| panic!("{architecture}: {error}"));
        }
        let udp = ServiceSpec::Udp { ports: CONNECTIONS as u32, request_bytes: 128, response_bytes: 128 };
        if architecture.can_serve(&udp).is_ok() {
            datagrams(architecture, &udp);
        }
    }
}

/// The same of datagrams: requests to each port.
fn datagrams(architecture: Architecture, udp: &ServiceSpec) {
    let server = start(architecture, udp);
    let host = server.address().ip().unwrap().ip();
    let targets: Vec<SocketAddr> = server.ports().unwrap().iter().map(|port| (host, port).into()).collect();
    let socket = UdpSocket::bind((host, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let exchange = |rounds: usize| {
        let mut response = [0; 128];
        for _ in 0..rounds {
            targets.iter().for_each(|target| assert_eq!(socket.send_to(&[1; 128], target).unwrap(), 128));
            targets.iter().for_each(|_| assert_eq!(socket.recv(&mut response).unwrap(), 128));
        }
    };
    exchange(20);
    let before = ALLOCATIONS.load(Relaxed);
    exchange(ROUNDS);
    let allocations = ALLOCATIONS.load(Relaxed) - before;
    let requests = CONNECTIONS * ROUNDS;
    println!("{architecture} udp: {allocations} allocations of {requests} requests");
    assert!(allocations <= GROWTH_MAX, "{architecture} udp: {allocations} of {requests} requests");
    server.stop().unwrap_or_else(|error| panic!("{architecture}: {error}"));
}
