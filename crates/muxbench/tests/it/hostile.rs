//! Hostile and broken clients against every service in every architecture: honest clients stay served, memory stays bounded,
//! and the server survives. `conformance`, `http` and `kv` test single errors.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::cases::{Cases, KINDS, case};
use crate::common::{Serve, eventually};
use load::LoadConfig;
use load::tools::hostile::{Crowd, MANNERS, Manner, manner};
use server::{Accept, Architecture};
use wire::fixed::Fixed;
use wire::http::{Content, Http};
use wire::kv::{Kv, KvConfig};
use wire::redis::Redis;
use wire::stream::{Direction, GREETING, Stream, Streaming};
use wire::udp::{Udp, put_id};
use wire::{SERVICES, Service, ServiceSpec};

/// Clients of each manner, and the number of turns. In a turn, each client acts once.
const OF_EACH_MANNER: usize = 3;
const TURNS: usize = 6;
/// Limit of connections of a server: more than all clients, and small enough that `io_uring`'s receive buffers (64 KiB each)
/// take 4 MiB.
const CONNECTION_LIMIT: [&str; 2] = ["--connections-max", "64"];
/// Limit of a server's memory growth. About a dozen clients of `kv` send or request values. A connection holds at most a value
/// (1 MiB) and responses (256 KiB plus a value).
const MEMORY_MAX_BYTES: u64 = 32 << 20;
/// Bytes that all clients of an endless manner send together, the endless manners, and the number of clients of each. A server
/// that stored this input would grow by as many bytes, less those in socket buffers.
const ENDLESS_BYTES: u64 = 64 << 20;
const ENDLESS_MANNERS: [&str; 2] = ["endless", "heavy"];
const ENDLESS_CLIENTS: usize = 2;
/// Limit of the memory growth with endless input. The allocator keeps the freed memory of each thread for a second.
const ENDLESS_MEMORY_MAX_BYTES: u64 = 48 << 20;

/// The services to test for a row of [`SERVICES`].
fn specs(name: &str) -> Vec<ServiceSpec> {
    let stream =
        Stream { packet_bytes: 1_001, packets: 777, ack_bytes: 33, direction: Direction::In, by_packet: false };
    let specs = match name {
        "fixed" => vec![ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 }],
        "kv" => vec![ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 }],
        "redis" => vec![ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 }],
        "http" => vec![ServiceSpec::HTTP],
        "udp" => vec![ServiceSpec::Udp { ports: 10, request_bytes: 16, response_bytes: 40 }],
        "stream" => [Direction::In, Direction::Out]
            .map(|direction| ServiceSpec::Stream(Stream { direction, ..stream }))
            .to_vec(),
        other => panic!("no attacks on the service {other}; add its requests and expected responses"),
    };
    assert!(specs.iter().all(|spec| spec.name() == name));
    specs
}

/// The service's response, computed without a network.
fn answer<S: Service>(service: &S, request: &[u8]) -> Vec<u8> {
    let mut conn = S::Conn::default();
    service.receive(&mut conn, request);
    let mut printed = Vec::new();
    while !service.unsent(&conn).is_empty() {
        let count = service.unsent(&conn).len();
        printed.extend_from_slice(service.unsent(&conn));
        service.sent(&mut conn, count);
    }
    printed
}

/// The requests of an honest client, and the expected responses.
fn conversation(service: &ServiceSpec) -> (Vec<u8>, Vec<u8>) {
    let with_response = |request: Vec<u8>, answer: &dyn Fn(&[u8]) -> Vec<u8>| {
        let response = answer(&request);
        assert!(!response.is_empty());
        (request, response)
    };
    match *service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            with_response(vec![7; request_bytes as usize], &|request| {
                answer(&Fixed::new(request_bytes, response_bytes), request)
            })
        }
        ServiceSpec::Kv { .. } => with_response(b"set key 0 0 5\r\nhello\r\nget key\r\n".to_vec(), &|request| {
            answer(&Kv::new(KvConfig::default(), Box::new(|| 1)), request)
        }),
        ServiceSpec::Redis { .. } => with_response(b"SET key hello\r\nMGET key none\r\n".to_vec(), &|request| {
            answer(&Redis::new(&KvConfig::default(), Box::new(|| 1)), request)
        }),
        ServiceSpec::Http { .. } => {
            with_response(b"GET /bytes/2000 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &|request| {
                answer(&Http::new(Content::generated(), Box::new(|| 1)), request)
            })
        }
        ServiceSpec::Stream(stream) => with_response(vec![GREETING; stream.sizes(true).0 as usize], &|request| {
            answer(&Streaming::new(stream), request)
        }),
        ServiceSpec::Udp { .. } => unreachable!("datagrams have no connections"),
    }
}

/// The response without its date.
fn without_date(mut printed: Vec<u8>) -> Vec<u8> {
    const NAME: &[u8] = b"\r\nDate: ";
    if let Some(at) = printed.windows(NAME.len()).position(|bytes| bytes == NAME) {
        printed[at + NAME.len()..][.."Fri, 15 Jan 2027 08:00:00 GMT".len()].fill(b'x');
    }
    printed
}

/// An honest client that keeps its connection.
enum Honest {
    /// A connection, its requests, and the responses without their date.
    Stream {
        stream: TcpStream,
        request: Vec<u8>,
        expected: Vec<u8>,
    },
    Datagrams {
        socket: UdpSocket,
        ports: Vec<SocketAddr>,
        udp: Udp,
        asked: u64,
    },
}

impl Honest {
    fn new(serve: &Serve, service: &ServiceSpec) -> Self {
        if let &ServiceSpec::Udp { request_bytes, response_bytes, .. } = service {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            // A flooded socket may drop a datagram: send it again.
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let ports = serve.ports.as_ref().expect("the server lists its ports");
            let ports = ports.iter().map(|port| SocketAddr::new(serve.ip().ip(), port)).collect();
            return Self::Datagrams { socket, ports, udp: Udp::new(request_bytes, response_bytes), asked: 0 };
        }
        let (request, expected) = conversation(service);
        Self::Stream { stream: serve.connect(), request, expected: without_date(expected) }
    }

    /// Returns another client with the same requests.
    fn another(&self, serve: &Serve, service: &ServiceSpec) -> Self {
        match self {
            Self::Stream { request, expected, .. } => {
                let (request, expected) = (request.clone(), expected.clone());
                Self::Stream { stream: serve.connect(), request, expected }
            }
            Self::Datagrams { .. } => Self::new(serve, service),
        }
    }

    /// Sends a request and checks the response.
    fn exchange(&mut self, what: &str) {
        match self {
            Self::Stream { stream, request, expected } => {
                stream.write_all(request).unwrap_or_else(|error| panic!("{what}: {error}"));
                let mut printed = vec![0; expected.len()];
                stream.read_exact(&mut printed).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(without_date(printed) == *expected, "{what}: the response is correct");
            }
            Self::Datagrams { socket, ports, udp, asked } => {
                *asked += 1;
                let mut request = udp.request();
                put_id(&mut request, *asked);
                eventually(what, || {
                    socket.send_to(&request, ports[*asked as usize % ports.len()]).unwrap();
                    is_answered(socket, udp, *asked)
                });
            }
        }
    }
}

/// Returns whether this request is answered in time. Responses to earlier requests may arrive first.
fn is_answered(socket: &UdpSocket, udp: &Udp, id: u64) -> bool {
    let mut inbox = [0; 100];
    loop {
        match socket.recv_from(&mut inbox) {
            Ok((bytes, _)) if udp.response_id(&inbox[..bytes]) == Some(id) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn crowd(serve: &Serve, service: &ServiceSpec, clients: usize, manners: &[&'static Manner]) -> Crowd<'static> {
    let config = LoadConfig::new(serve.address.clone(), service.clone())
        .with(|it| (it.connections, it.ports) = (clients as u32, serve.ports.clone()));
    Crowd::new(&config, &[], manners).unwrap()
}

fn named(names: &[&str]) -> Vec<&'static Manner> {
    names.iter().map(|name| manner(name).unwrap_or_else(|| panic!("unknown manner {name}"))).collect()
}

/// Checks that a server survives all hostile clients. A pool has more workers than clients, because each worker serves only
/// one connection.
fn service_withstands_every_attack(architecture: Architecture, service: &ServiceSpec) {
    let what = format!("{architecture} {service:?}");
    let serve = Serve::start_of(architecture, service, connection_limit(service));
    let pid = serve.pid();
    let mut honest = Honest::new(&serve, service);
    honest.exchange(&what);
    // Idle threads and processes may still be starting.
    serve.settle();
    let (memory_bytes, descriptors) = (crate::common::memory_bytes_of(pid), crate::common::descriptors_of_all(pid));
    let children = serve.children().len();

    let mut crowds: Vec<_> = MANNERS.iter().map(|manner| crowd(&serve, service, OF_EACH_MANNER, &[manner])).collect();
    for turn in 0..TURNS {
        crowds.iter_mut().for_each(Crowd::act_all);
        honest.exchange(&what);
        honest.another(&serve, service).exchange(&what);
        let more_bytes = crate::common::memory_bytes_of(pid).saturating_sub(memory_bytes);
        assert!(more_bytes < MEMORY_MAX_BYTES, "{what}: {more_bytes} bytes more after {turn} turns");
    }
    for (manner, crowd) in MANNERS.iter().zip(&crowds) {
        let tally = crowd.tally();
        assert!(tally.begun >= OF_EACH_MANNER as u64 && tally.failed == 0, "{what} {manner:?}: {tally:?}");
        assert!(tally.sent_bytes > 0 || manner.name == "flood", "{what} {manner:?}: {tally:?}");
    }

    drop(crowds);
    eventually(&format!("{what}: all resources of the hostile clients are released"), || {
        crate::common::descriptors_of_all(pid) <= descriptors && serve.children().len() <= children
    });
    honest.exchange(&what);
    let (status, totals) = serve.stop();
    assert!(status.success(), "{what}: {status}");
    assert!(matches!(totals["crashed"].as_u64(), None | Some(0)), "{what}: {totals}");
}

/// Flags that limit connections, if the service has any.
fn connection_limit(service: &ServiceSpec) -> &'static [&'static str] {
    if matches!(service, ServiceSpec::Udp { .. }) { &[] } else { &CONNECTION_LIMIT }
}

/// Clients that never stop sending: the server refuses or discards their input.
fn endless_input_takes_bounded_memory(architecture: Architecture, service: &ServiceSpec) {
    let what = format!("{architecture} {service:?}");
    let serve = Serve::start_of(architecture, service, connection_limit(service));
    let pid = serve.pid();
    let mut honest = Honest::new(&serve, service);
    honest.exchange(&what);
    let memory_bytes = crate::common::memory_bytes_of(pid);
    let mut crowds = ENDLESS_MANNERS.map(|manner| crowd(&serve, service, ENDLESS_CLIENTS, &named(&[manner])));
    let sent = |crowds: &[Crowd<'_>]| crowds.iter().map(|crowd| crowd.tally().sent_bytes).collect::<Vec<_>>();
    let (started, mut most_bytes) = (Instant::now(), 0);
    for turn in 0.. {
        let before = sent(&crowds);
        let behind = crowds.iter_mut().filter(|crowd| crowd.tally().sent_bytes < ENDLESS_BYTES);
        behind.for_each(Crowd::act_all);
        let now = sent(&crowds);
        let is_over = now.iter().all(|bytes| *bytes >= ENDLESS_BYTES);
        if turn % 64 == 0 || is_over {
            most_bytes = most_bytes.max(crate::common::memory_bytes_of(pid).saturating_sub(memory_bytes));
        }
        if is_over {
            break;
        }
        if now == before {
            // Wait until the server has read more.
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            started.elapsed() < crate::common::TIMEOUT,
            "{what}: the server reads or refuses endless input: {now:?}"
        );
    }
    println!("{what}: {most_bytes} bytes more");
    assert!(most_bytes < ENDLESS_MEMORY_MAX_BYTES, "{what}: {most_bytes} bytes more: {:?}", sent(&crowds));
    honest.exchange(&what);
    let (status, _) = serve.stop();
    assert!(status.success(), "{what}: {status}");
}

/// Clients that send requests without end and read no response. A server stops to read from them, however it reads.
fn deaf_clients_take_bounded_memory(architecture: Architecture) {
    const CLIENTS: usize = 48;
    /// A read budget, and a batch of responses in a buffer that has doubled; a thread of its own has its own freed memory too.
    const EACH_MAX_BYTES: u64 = 2 << 20;
    let what = architecture.to_string();
    let serve = Serve::start_http(architecture, &CONNECTION_LIMIT);
    let requests = b"GET /bytes/100 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(5_000);
    let memory_bytes = crate::common::memory_bytes_of(serve.pid());
    // Each client with its place in the requests.
    let mut clients: Vec<(TcpStream, usize)> = (0..CLIENTS).map(|_| (serve.connect(), 0)).collect();
    clients.iter().for_each(|(client, _)| client.set_nonblocking(true).unwrap());
    let (mut most_bytes, mut idle_turns) = (0, 0);
    while idle_turns < 20 {
        let mut is_idle = true;
        for (client, at) in &mut clients {
            if let Ok(count) = client.write(&requests[*at..]) {
                *at = (*at + count) % requests.len();
                is_idle = false;
            }
        }
        idle_turns = if is_idle { idle_turns + 1 } else { 0 };
        most_bytes = most_bytes.max(crate::common::memory_bytes_of(serve.pid()).saturating_sub(memory_bytes));
        std::thread::sleep(Duration::from_millis(if is_idle { 20 } else { 1 }));
    }
    println!("{what}: {most_bytes} bytes more");
    assert!(most_bytes < CLIENTS as u64 * EACH_MAX_BYTES, "{what}: {most_bytes} bytes more");
    let mut honest = Honest::new(&serve, &ServiceSpec::HTTP);
    honest.exchange(&what);
}

/// Clients beyond the limit are refused, and accepted clients stay served.
fn connection_flood_leaves_accepted_connections_served(architecture: Architecture) {
    let service = ServiceSpec::Fixed { request_bytes: 10, response_bytes: 1_000 };
    let what = architecture.to_string();
    let serve = Serve::start_of(architecture, &service, &["--connections-max", "8"]);
    let mut inside = Honest::new(&serve, &service);
    inside.exchange(&what);
    let mut flood = crowd(&serve, &service, 60, &named(&["half", "flood", "slow-writer"]));
    // Refused clients notice the refusal at their next action. The server ends no accepted connection.
    eventually(&format!("{what}: some connections are refused"), || {
        flood.act_all();
        inside.exchange(&what);
        flood.tally().ended > 0
    });
    drop(flood);
    let is_served = || {
        let (request, expected) = conversation(&service);
        let mut stream = serve.try_connect().ok()?;
        stream.write_all(&request).ok()?;
        stream.read_exact(&mut vec![0; expected.len()]).ok()
    };
    eventually(&format!("{what}: a new connection is served again"), || is_served().is_some());
    let (status, totals) = serve.stop();
    assert!(status.success(), "{what}: {status}");
    assert!(totals["refused"].as_u64().is_some_and(|refused| refused > 0), "{what}: {totals}");
}

/// A worker serves one connection at a time, so slow clients occupy a pool until the request timeout ends their connections.
fn pool_serves_again_after_slow_clients_time_out(pool: Architecture, accept: Accept) {
    const LIMIT: Duration = Duration::from_secs(1);
    let service = ServiceSpec::HTTP;
    let what = format!("{pool} {accept}");
    let accept = accept.to_string();
    let serve = Serve::start_http(pool, &["--accept", &accept, "--request-timeout", "1s"]);
    let started = Instant::now();
    let mut slow = crowd(&serve, &service, 1, &named(&["half"]));
    slow.act_all();
    let mut honest = Honest::new(&serve, &service);
    honest.exchange(&what);
    assert!(started.elapsed() >= LIMIT, "{what}: the worker serves one connection at a time");
    let (status, totals) = serve.stop();
    assert!(status.success(), "{what}: {status}");
    assert_eq!(totals["timed_out"], 1, "{what}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    for service in SERVICES.iter().flat_map(|row| specs(row.name)) {
        let (name, check) = case!(service_withstands_every_attack);
        let name = format!("{name}::{}", service.name());
        let served = service.clone();
        let check = (&*name, move |architecture| check(architecture, &served));
        match service {
            // Their protocols have one parser, which gets all bytes.
            ServiceSpec::Kv { .. } | ServiceSpec::Redis { .. } => cases.kinds(&service, check),
            _ => cases.serving(&service, check),
        }
    }
    let stream =
        Stream { packet_bytes: 1_001, packets: 777, ack_bytes: 33, direction: Direction::In, by_packet: false };
    let services = [
        ServiceSpec::Fixed { request_bytes: 1 << 20, response_bytes: 1 },
        ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
        ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
        ServiceSpec::HTTP,
        ServiceSpec::Stream(stream),
    ];
    for service in services {
        let (name, check) = case!(endless_input_takes_bounded_memory);
        let name = format!("{name}::{}", service.name());
        cases.named(KINDS, (&name, move |architecture| check(architecture, &service)));
    }
    cases.named(KINDS, case!(deaf_clients_take_bounded_memory));
    // A full pool lets connections wait.
    cases.each_that(|it| !it.model.is_pool(), case!(connection_flood_leaves_accepted_connections_served));
    cases.pools(&["mt-pool:1", "mp-prefork:1"], case!(pool_serves_again_after_slow_clients_time_out));
}
