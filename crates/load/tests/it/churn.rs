//! Short-lived connections in both loops, against servers that count them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use muxbench_load::config::{HttpTarget, HttpTraffic, Loop, Pace, Phases, Schedule, Think};
use muxbench_load::{LoadConfig, LoadError, Outcome, Sample};
use wire::ServiceSpec;

use crate::server::{self, REQUEST, RESPONSE, answer_all, answer_one, http, reserve_port};

/// A server's observations.
#[derive(Default)]
struct Seen {
    accepted: AtomicU32,
    open: AtomicU32,
    /// The number of connections by their number of requests.
    by_requests: Mutex<HashMap<u32, u32>>,
    sources: Mutex<HashMap<std::net::IpAddr, u32>>,
}

impl Seen {
    /// Waits until every connection has ended.
    fn all_ended(&self) {
        let started = Instant::now();
        while self.open.load(SeqCst) > 0 {
            assert!(started.elapsed() < Duration::from_secs(20), "{} are open", self.open.load(SeqCst));
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Starts a server that counts connections. `serve` answers one request; `None` ends the connection.
fn server(serve: impl Fn(&mut TcpStream, u32) -> Option<()> + Send + Sync + 'static) -> (SocketAddr, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    let address = server::server(move |mut stream| {
        // A client may reset a connection before this thread runs.
        let Ok(peer) = stream.peer_addr() else { return };
        counted.accepted.fetch_add(1, SeqCst);
        counted.open.fetch_add(1, SeqCst);
        *counted.sources.lock().unwrap().entry(peer.ip()).or_default() += 1;
        let mut requests = 0;
        while serve(&mut stream, requests).is_some() {
            requests += 1;
        }
        drop(stream);
        *counted.by_requests.lock().unwrap().entry(requests).or_default() += 1;
        counted.open.fetch_sub(1, SeqCst);
    });
    (address, seen)
}

/// Answers every request correctly.
fn honest(stream: &mut TcpStream, _number: u32) -> Option<()> {
    answer_one(stream)
}

/// Waits for a request, at most for `patience` by the clock. A timeout of the kernel alone would end early on a paused machine,
/// because the kernel counts ticks.
fn await_request(stream: &TcpStream, patience: Duration) -> Option<()> {
    let started = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    loop {
        match stream.peek(&mut [0]) {
            Ok(0) => return None,
            Ok(_) => break,
            Err(_) if started.elapsed() >= patience => return None,
            Err(_) => {}
        }
    }
    stream.set_read_timeout(None).unwrap();
    Some(())
}

fn thinking(requests_per_connection: u32, mean_ns: u64) -> Loop {
    Loop::ClosedSessions { requests_per_connection, think: Think { mean_ns, exponential: false } }
}

fn closed(target: SocketAddr, requests: u32) -> LoadConfig {
    LoadConfig::new(target, server::service()).with(|it| {
        it.connections = 5;
        it.the_loop = thinking(requests, 0);
        it.phases =
            Phases { ramp_ns: 50_000_000, warm_up_ns: 0, measure_ns: 200_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
    })
}

/// Creates an open loop of sessions with 600 requests per second.
fn open(target: SocketAddr, requests: u32) -> LoadConfig {
    let pace = Pace::new(Schedule::Constant, 600.0);
    let mut config =
        closed(target, requests).with(|it| it.the_loop = Loop::Sessions { requests_per_connection: requests, pace });
    config.phases = Phases { ramp_ns: 0, measure_ns: 300_000_000, ..config.phases };
    config
}

/// Extends the window for a busy machine.
fn for_long(config: LoadConfig) -> LoadConfig {
    config.with(|it| it.phases.measure_ns = 2_000_000_000)
}

fn over_http(config: LoadConfig) -> LoadConfig {
    let http = HttpTraffic::new(vec![HttpTarget::get("/", None)]);
    config.with(|it| (it.service, it.http) = (ServiceSpec::HTTP, Some(http)))
}

fn run(config: &LoadConfig) -> Outcome {
    muxbench_load::run(config, &mut |_| ()).unwrap()
}

#[test]
fn closed_loop_replaces_connections() {
    for (requests, clients) in [(1, 1), (7, 2)] {
        let (target, seen) = server(honest);
        let config = for_long(closed(target, requests).with(|it| it.client.clients = clients));
        let Outcome { report, samples, connections } = run(&config);
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        assert!(connections.is_empty(), "all connections are closed");
        seen.all_ended();
        let by_requests = seen.by_requests.lock().unwrap();
        // Incomplete connections: the one that verified the server, and up to five that the end of the window cut short.
        let whole = by_requests.get(&requests).copied().unwrap_or(0);
        let accepted = seen.accepted.load(SeqCst);
        assert!(whole >= 10 && accepted - whole <= 6, "{by_requests:?}");
        assert!(by_requests.keys().all(|&had| had <= requests), "{by_requests:?}");
        let churn = report.churn.unwrap();
        let sources = seen.sources.lock().unwrap().len() as u32;
        assert_eq!((churn.requests_per_connection, churn.waited), (requests, 0));
        assert!(0 < sources && sources <= churn.sources, "{sources} of {}", churn.sources);
        assert!(churn.opened > 0 && churn.opened <= accepted.into(), "{} of {accepted}", churn.opened);
        assert_eq!(churn.opened_per_s, churn.opened as f64 / 2.0);
        let (connect, first_byte) = (churn.connect.distribution, churn.first_byte.distribution);
        assert_eq!((connect.count, first_byte.count), (churn.opened, churn.opened));
        assert!(0 < connect.p50_ns && connect.p50_ns < first_byte.p50_ns, "{connect:?} {first_byte:?}");
        assert!(report.closed.is_some() && report.completed == samples.len() as u64);
        for sample in samples {
            assert!(sample.planned_ns <= sample.sent_ns && sample.sent_ns < sample.complete_ns, "{sample:?}");
        }
    }
}

#[test]
fn sessions_follow_the_schedule() {
    for (requests, clients) in [(1, 1), (6, 1), (6, 2)] {
        let (target, seen) = server(honest);
        let Outcome { report, samples, connections } =
            run(&open(target, requests).with(|it| it.client.clients = clients));
        assert_eq!((report.errors.total(), connections.len()), (0, 0), "{:?}", report.errors);
        // 180 requests in 180 / requests sessions, plus the connection that verified the server.
        assert_eq!(seen.accepted.load(SeqCst), 180 / requests + 1);
        seen.all_ended();
        let mut expected = HashMap::from([(requests, 180 / requests)]);
        *expected.entry(1).or_default() += 1;
        assert_eq!(*seen.by_requests.lock().unwrap(), expected);
        // On a busy machine, some of the window's sessions begin after it.
        assert!((1..=180).contains(&report.completed), "{}", report.completed);
        assert_eq!((report.planned, report.closed.is_none()), (report.completed, true));
        let churn = report.churn.unwrap();
        assert!(churn.opened <= u64::from(180 / requests), "{churn:?}");
        // t1 of a session's first request is the planned time of the session; other requests may have any t1.
        let interval_ns = 1_000_000_000 * i64::from(requests) / 600;
        let planned = |sample: &&Sample| {
            (sample.planned_ns + interval_ns / 2).rem_euclid(interval_ns).abs_diff(interval_ns / 2) < 2_000
        };
        let firsts = samples.iter().filter(planned).count() as u32;
        assert!(firsts >= 180 / requests, "{firsts}");
        assert!(
            report.response.distribution.max_ns >= churn.first_byte.distribution.max_ns,
            "response time includes connecting"
        );
    }
}

#[test]
fn excess_sessions_wait_for_a_connection() {
    // Two connections with 20 ms per request serve at most 100 of the 600 requests per second.
    let asked = Arc::new(Mutex::new((0, 0)));
    let counted = asked.clone();
    let (target, _) = server(move |stream, _| {
        stream.read_exact(&mut [0; REQUEST]).ok()?;
        {
            let (now, most) = &mut *counted.lock().unwrap();
            *now += 1;
            *most = *now.max(most);
        }
        thread::sleep(Duration::from_millis(20));
        // Decrement before the client can know of the response.
        counted.lock().unwrap().0 -= 1;
        stream.write_all(&[0; RESPONSE]).ok()
    });
    let Outcome { report, .. } = run(&open(target, 1).with(|it| it.connections = 2));
    assert_eq!((report.completed, report.errors.total()), (180, 0), "no request is dropped: {:?}", report.errors);
    assert_eq!(*asked.lock().unwrap(), (0, 2), "current and highest number of requests in service");
    assert!(report.churn.unwrap().waited > 100);
    assert!(report.response.distribution.max_ns > 1_000_000_000, "{:?}", report.response.distribution);
    let service = report.service.distribution;
    assert!(service.p50_ns < report.response.distribution.p50_ns / 2, "service time excludes the wait");
    let send_delay = report.send_delay.distribution;
    assert!(
        send_delay.p50_ns < report.response.distribution.p50_ns / 2,
        "send delay excludes the wait: {send_delay:?}"
    );
}

#[test]
fn unbegun_sessions_count_as_planned() {
    // Each request takes 50 ms, so each connection begins about 14 of the 400 sessions by the end of the cool-down.
    let (target, _) = server(|stream, number| {
        thread::sleep(Duration::from_millis(50));
        honest(stream, number)
    });
    for clients in [1, 2] {
        // A cool-down with time for at most one response.
        let phases = Phases { cool_down_ns: 20_000_000, ..for_long(open(target, 3)).phases };
        let config =
            open(target, 3).with(|it| (it.connections, it.client.clients, it.phases) = (clients, clients, phases));
        let report = run(&config).report;
        // The remaining requests of a session that runs at the end of the window are due after it.
        let rest = u64::from(2 * clients);
        assert!((1200 - rest..=1200).contains(&report.planned), "{}", report.planned);
        assert!(report.sent <= 41 * u64::from(clients) + 5 && report.completed <= report.sent, "{report:?}");
        // Most of the 1200 requests wait at the end of the window and after the cool-down.
        assert!((100..=1200).contains(&report.outstanding.at_end), "{:?}", report.outstanding);
        assert!((1100..=1200).contains(&report.outstanding.after_cool_down), "{:?}", report.outstanding);
        assert_eq!(report.outstanding.at_start, 0);
        assert_eq!(report.send_delay.distribution.count, report.sent, "unsent requests have no send delay");
    }
}

#[test]
fn unsent_requests_of_failed_session_stay_planned() {
    // Every connection except the first ends at its second request.
    let first = AtomicU32::new(0);
    let (target, _) = server(move |stream, number| match first.fetch_add(1, SeqCst) {
        0 => honest(stream, number),
        _ if number == 1 => stream.read_exact(&mut [0; REQUEST]).ok().filter(|()| false),
        _ => honest(stream, number),
    });
    let report = run(&for_long(open(target, 6))).report;
    assert!(report.errors.short > 0 && report.errors.short == report.errors.total(), "{:?}", report.errors);
    // Each of 200 sessions has one response. The next request fails unless it was due after the window.
    assert_eq!(report.completed, 200);
    let failed = report.sent - 200;
    assert!((1..=200).contains(&failed), "{failed}");
    assert_eq!(report.planned, 200 + failed * 5, "four more requests were planned per failed session");
}

#[test]
fn client_reconnects_after_the_server_closes() {
    for config in [closed as fn(SocketAddr, u32) -> LoadConfig, open] {
        let (target, seen) = server(http(3));
        let Outcome { report, .. } = run(&for_long(over_http(config(target, 10))));
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        assert!(report.completed > 0, "{}", report.completed);
        seen.all_ended();
        let by_requests = seen.by_requests.lock().unwrap().clone();
        assert!(by_requests.keys().all(|&had| had <= 3) && by_requests.contains_key(&3), "{by_requests:?}");
    }
}

#[test]
fn failures_are_counted_by_class() {
    for config in [closed as fn(SocketAddr, u32) -> LoadConfig, open] {
        // The server answers only the first connection and closes all others.
        let first = AtomicU32::new(0);
        let (target, _) = server(move |stream, number| {
            if first.fetch_add(1, SeqCst) == 0 {
                return honest(stream, number);
            }
            stream.read_exact(&mut [0; REQUEST]).ok()?;
            None
        });
        let report = run(&config(target, 2)).report;
        assert!(report.errors.short > 0 && report.errors.short == report.errors.total(), "{:?}", report.errors);
        assert_eq!(report.completed, 0);
    }
    // The server answers only the first request.
    let first = AtomicU32::new(0);
    let (target, seen) = server(move |stream, number| {
        if first.fetch_add(1, SeqCst) == 0 {
            return honest(stream, number);
        }
        stream.read(&mut [0; REQUEST + 1]).ok().filter(|&count| count > 0).map(drop)
    });
    // The connection that verifies the server has the same timeout.
    let base = closed(target, 2);
    let started = Instant::now();
    let report = run(&for_long(base.with(|it| it.client.timeout_ns = 2_000_000_000))).report;
    assert!(report.errors.timeout > 0 && report.errors.timeout == report.errors.total(), "{:?}", report.errors);
    assert!(started.elapsed() < Duration::from_secs(40), "the load ends before the cool-down does");
    seen.all_ended();
    // The server stops after the first connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        let _reserved = reserve_port(target);
        answer_all(stream);
    });
    let report = run(&open(target, 2)).report;
    serving.join().unwrap();
    assert_eq!((report.errors.refused, report.errors.total()), (90, 90), "{:?}", report.errors);
    assert_eq!((report.sent, report.completed), (0, 0));
}

#[test]
fn short_lived_connections_have_think_times() {
    let (target, seen) = server(honest);
    let Outcome { report, connections, .. } = run(&closed(target, 2).with(|it| it.the_loop = thinking(2, 10_000_000)));
    assert_eq!((report.errors.total(), connections.len()), (0, 0), "{:?}", report.errors);
    // Five connections with 10 ms between requests.
    assert!(report.rate_achieved_per_s <= 525.0, "{}", report.rate_achieved_per_s);
    seen.all_ended();
}

#[test]
fn thinking_connection_ended_by_server_is_replaced_after_pause() {
    let patience = Duration::from_millis(40);
    let (target, _) =
        server(move |stream, number| await_request(stream, patience).and_then(|()| honest(stream, number)));
    let the_loop = thinking(1_000, 50_000_000);
    let config = closed(target, 1_000).with(|it| (it.connections, it.the_loop) = (10, the_loop));
    let Outcome { report, samples, .. } = run(&for_long(config));
    let errors = report.errors;
    // A client that waits for a CPU may write before it reads the end of the connection.
    assert!(errors.reset > 0 && errors.reset + errors.short == errors.total(), "{errors:?}");
    for connection in 0..10 {
        let of: Vec<_> =
            samples.iter().filter(|it| it.connection == connection && it.sent_ns != Sample::NEVER).collect();
        assert!(of.iter().all(|it| it.planned_ns <= it.sent_ns), "{of:?}");
        // The server's 40 ms and the client's pause of 10 ms.
        let apart =
            |pair: &[&Sample]| pair[0].complete_ns == Sample::NEVER || pair[1].sent_ns - pair[0].sent_ns >= 49_000_000;
        assert!(of.windows(2).all(apart), "{of:?}");
    }
}

/// A server that serves one connection, keeps its backlog full for a while, and then serves all others.
#[cfg(target_os = "linux")]
macro_rules! busy_for_a_while {
    ($listener:expr, $fill:expr) => {{
        let listener = $listener;
        // The backlog has room for one connection.
        rustix::net::listen(&listener, 0).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; REQUEST]).unwrap();
            let waiting = std::iter::from_fn($fill).collect::<Vec<_>>();
            assert!(!waiting.is_empty());
            stream.write_all(&[0; RESPONSE]).unwrap();
            // Sleep past the end of the window.
            thread::sleep(Duration::from_millis(2_500));
            drop(waiting);
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer_all(stream));
            }
        });
    }};
}

#[cfg(target_os = "linux")]
#[test]
fn window_end_waits_for_connections_in_progress() {
    let verify = |target: wire::Address| {
        let base = closed(([127, 0, 0, 1], 1).into(), 1);
        let phases = Phases { ramp_ns: 0, ..base.phases };
        let Outcome { report, samples, .. } = run(&base.with(|it| (it.target, it.phases) = (target, phases)));
        assert_eq!((report.errors.total(), report.completed), (0, 5), "{:?}", report.errors);
        assert!(
            samples.iter().all(|it| it.complete_ns > 200_000_000),
            "all responses arrive after the window: {samples:?}"
        );
    };
    // The kernel repeats a dropped SYN after one second, and again after two more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    busy_for_a_while!(listener, move || TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok());
    verify(address.into());
    // connect(2) to a Unix socket with a full backlog fails at once, and the client retries repeatedly.
    let path = std::env::temp_dir().join(format!("muxbench-churn-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let target = path.clone();
    busy_for_a_while!(listener, move || {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&target).unwrap()).ok().map(|()| socket)
    });
    verify(wire::Address::Unix(path.clone()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn address_without_ports_is_skipped() {
    // This host does not have the addresses of RFC 5737, so they have no ports.
    let sources =
        vec![Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(192, 0, 2, 2).into()];
    for config in [closed as fn(SocketAddr, u32) -> LoadConfig, open] {
        let (target, seen) = server(honest);
        let report = run(&for_long(config(target, 2).with(|it| it.sources = sources.clone()))).report;
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        assert!(report.completed > 0);
        seen.all_ended();
        let staying = config(target, 1).with(|it| {
            it.the_loop = it.pace().cloned().map_or(Loop::CLOSED, Loop::open);
            it.sources = sources.clone();
        });
        assert_eq!(run(&staying).report.errors.total(), 0);
        // Without a usable address, the load fails.
        let none = staying.with(|it| it.sources = sources[..1].to_vec());
        let error = muxbench_load::run(&none, &mut |_| ()).unwrap_err();
        assert!(matches!(&error, LoadError::Connect { class: "no-addresses", .. }), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn several_addresses_provide_more_ports() {
    // A closed loop's estimated need exceeds the ports of one address on any machine.
    let (target, seen) = server(honest);
    let report = run(&closed(target, 1)).report;
    assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
    seen.all_ended();
    let sources = seen.sources.lock().unwrap();
    let first = std::net::IpAddr::from(Ipv4Addr::LOCALHOST);
    assert!(sources.contains_key(&first), "{sources:?}");
    assert_eq!(sources.len() as u32, report.churn.unwrap().sources, "{sources:?}");
}
