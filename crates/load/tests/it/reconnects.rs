//! Reconnects after the server has closed a connection: between two requests, or after a response that announced it.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use muxbench_load::config::{
    HttpTarget, HttpTraffic, Loop, Pace, Phases, RequestTimeout, Roles, Schedule, Slices, Think,
};
use muxbench_load::result::Errors;
use muxbench_load::{LoadConfig, LoadError, Outcome};
use rustix::net::sockopt;
use wire::{Address, ServiceSpec};

use crate::server::{answer_one, http, read_head, reserve_port, server, service};

fn closed(target: Address) -> LoadConfig {
    let traffic = HttpTraffic::new(vec![HttpTarget::get("/", None)]);
    LoadConfig::new(target, ServiceSpec::HTTP).with(|it| {
        it.connections = 5;
        it.the_loop = Loop::CLOSED;
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 2_000_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
        it.http = Some(traffic);
    })
}

fn thinking(mean_ns: u64) -> Loop {
    Loop::Closed { think: Think { mean_ns, exponential: false }, pipeline: 1 }
}

fn pipelined(target: Address, pipeline: u32) -> LoadConfig {
    closed(target).with(|it| it.the_loop = Loop::Closed { think: Think::default(), pipeline })
}

/// Creates an open loop with 600 requests per second.
fn without_overlap(config: &mut LoadConfig) {
    if let Loop::Open { no_overlap, .. } = &mut config.the_loop {
        *no_overlap = true;
    }
}

fn open(target: Address) -> LoadConfig {
    closed(target).with(|it| it.the_loop = Loop::open(Pace::new(Schedule::Constant, 600.0)))
}

fn run(config: &LoadConfig) -> Outcome {
    muxbench_load::run(config, &mut |_| ()).unwrap()
}

/// Starts a server that announces the end of each connection in response `last`. Returns its counter of connections.
fn closing(last: u32) -> (Address, Arc<AtomicU64>) {
    let accepted = Arc::new(AtomicU64::new(0));
    let (counted, serve) = (accepted.clone(), http(last));
    let target = server(move |mut stream| {
        counted.fetch_add(1, SeqCst);
        (0..).all(|number| serve(&mut stream, number).is_some());
    });
    (target.into(), accepted)
}

#[test]
fn both_loops_reconnect() {
    for config in [closed as fn(Address) -> LoadConfig, open] {
        let (target, accepted) = closing(3);
        let report = run(&config(target)).report;
        assert_eq!(report.errors, Errors::default());
        // One response of each of the first five connections verified it. Each connection has at most three.
        let reconnects = report.closed_by_server;
        assert!(reconnects > 5 && report.completed <= 10 + 3 * reconnects, "{reconnects}, {}", report.completed);
        // The server may not have accepted the last connections, and the client may not have counted five that it began.
        let accepted = accepted.load(SeqCst);
        assert!((reconnects..=10 + reconnects).contains(&accepted), "{reconnects}, {accepted}");
    }
}

/// A connection is idle for a multiple of 200 ms, and the server closes it after 100 ms.
#[test]
fn idle_connections_that_the_server_closes_are_opened_again() {
    let idle = |serve: fn(&mut TcpStream) -> Option<()>| -> Address {
        let serve = move |mut stream: TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            while serve(&mut stream).is_some() {}
        };
        server(serve).into()
    };
    let http_target = idle(|stream| http(u32::MAX)(stream, 0));
    let reset = server(|mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while http(u32::MAX)(&mut stream, 0).is_some() {}
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let slow = |config: LoadConfig| {
        config.with(|it| {
            it.set_rate(Some(5.0));
            it.phases.measure_ns = 3_000_000_000;
        })
    };
    let fixed = slow(open(idle(answer_one))).with(|it| (it.http, it.service) = (None, service()));
    let two_threads = slow(open(http_target.clone())).with(|it| it.client.roles = Roles::TwoThreads);
    let open_http = slow(open(http_target.clone()));
    let free = open_http.clone().with(without_overlap);
    let thinking = |target| closed(target).with(|it| it.the_loop = thinking(500_000_000));
    let resets = [slow(open(reset.into())), thinking(reset.into())];
    let all = [open_http, two_threads, free, fixed, thinking(http_target)];
    for config in all.into_iter().chain(resets) {
        let report = run(&config).report;
        assert_eq!((report.errors, report.completed), (Errors::default(), report.planned), "{:?}", config.the_loop);
        assert!(report.completed > 10 && report.closed_by_server > 10, "{}", report.closed_by_server);
    }
}

#[test]
fn request_that_the_server_drops_is_the_only_error() {
    for (resets, roles) in [(false, Roles::Auto), (true, Roles::OneLoop), (true, Roles::TwoThreads)] {
        // Each connection answers one request, and ends instead of a second response.
        let target = server(move |mut stream| {
            http(2)(&mut stream, 0);
            read_head(&mut stream);
            if resets {
                return sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }
            // A client that was delayed has sent more, which would make the end a reset.
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let report = run(&open(target.into()).with(|it| it.client.roles = roles)).report;
        let lost = if resets { report.errors.reset } else { report.errors.short + report.errors.reset };
        assert!(lost > 0 && lost == report.errors.total() && report.closed_by_server > 0, "{:?}", report.errors);
        assert!(report.completed > 100 && report.completed + lost <= report.trial_requests, "{report:?}");
    }
}

#[test]
fn server_that_rejects_new_connections_is_not_flooded() {
    for config in [closed as fn(Address) -> LoadConfig, open] {
        let accepted = Arc::new(AtomicU64::new(0));
        let counted = accepted.clone();
        // It closes each of the first connections between two requests, and then each further one at once.
        let target = server(move |mut stream| {
            if counted.fetch_add(1, SeqCst) < 5 {
                http(2)(&mut stream, 0);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut config = config(target.into());
        config.set_rate(Some(1.0));
        if config.is_closed() {
            config.the_loop = thinking(300_000_000);
        }
        let report = run(&config).report;
        assert!(report.errors.reset >= 5 && accepted.load(SeqCst) <= 15, "{:?} {accepted:?}", report.errors);
    }
}

/// Requests that are behind the announced end get their responses on the next connection.
#[test]
fn open_loop_sends_unanswered_requests_again() {
    let unread = Arc::new(AtomicU64::new(0));
    let counted = unread.clone();
    let serve = http(5);
    let target = server(move |mut stream: TcpStream| {
        for number in 0..5 {
            if number == 4 {
                // More requests arrive meanwhile.
                thread::sleep(Duration::from_millis(30));
            }
            if serve(&mut stream, number).is_none() {
                return;
            }
        }
        stream.set_nonblocking(true).unwrap();
        counted.fetch_add(u64::from(stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)), SeqCst);
    });
    for (roles, clients) in [(Roles::OneLoop, 1), (Roles::TwoThreads, 2)] {
        unread.store(0, SeqCst);
        let Outcome { report, samples, connections } =
            run(&open(target.into()).with(|it| (it.client.roles, it.client.clients) = (roles, clients)));
        assert_eq!((report.errors, connections.len()), (Errors::default(), 5));
        assert_eq!((report.planned, report.completed), (1_200, 1_200));
        let (again, reconnects) = (unread.load(SeqCst), report.closed_by_server);
        assert!(reconnects >= 200 && again > 20, "{reconnects} reconnects, {again} of them with unanswered requests");
        assert!(samples.iter().all(|it| it.planned_ns <= it.sent_ns && it.sent_ns < it.complete_ns));
    }
}

/// A client whose contestant takes turns with another one is mostly outside of its slices when a connection ends.
#[test]
fn reconnects_continue_between_slices() {
    let slices = Slices {
        heat: 0,
        contestants: 2,
        contestant: 0,
        slice_ns: 10_000_000,
        gap_ns: 0,
        guard_ns: 2_000_000,
        seed: 1,
    };
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let (target, _) = closing(3);
        let report = run(&open(target).with(|it| (it.client.slices, it.client.roles) = (Some(slices), roles))).report;
        assert_eq!((report.errors, report.completed), (Errors::default(), report.planned));
        assert!(report.closed_by_server > 100);
    }
    for pipeline in [1, 7] {
        let (target, _) = closing(3);
        let report = run(&pipelined(target, pipeline).with(|it| it.client.slices = Some(slices))).report;
        assert_eq!((report.errors, report.completed), (Errors::default(), report.sent));
        assert!(report.closed_by_server > 5);
    }
}

/// An announced end is no reason for a retry.
#[test]
fn requests_with_retries_wait_for_a_reconnect() {
    let (target, _) = closing(2);
    let request_timeout = Some(RequestTimeout { timeout_ns: 30_000_000_000, retries: 2, retry_budget: None });
    let report = run(&open(target).with(|it| {
        let requests = it.requests().unwrap().clone();
        (it.connections, it.the_loop) = (1, Loop::Open { requests, request_timeout, no_overlap: false });
    }))
    .report;
    let goodput = report.goodput.unwrap();
    assert_eq!((report.errors, report.completed), (Errors::default(), 1_200));
    assert_eq!((goodput.timeouts, goodput.retries), (0, 0));
}

/// The kernel numbers the timestamps of each connection from its first byte.
#[test]
#[cfg(target_os = "linux")]
fn kernel_timestamps_continue_on_the_next_connection() {
    use muxbench_load::Sample;
    use muxbench_load::config::Timestamps;

    let (target, _) = closing(3);
    let Outcome { report, samples, .. } = run(&open(target).with(|it| it.client.timestamps = Timestamps::Kernel));
    assert_eq!((report.errors, report.completed), (Errors::default(), 1_200));
    // A first connection has two of them.
    let stamped: Vec<&Sample> = samples.iter().filter(|it| it.driver_ns != Sample::NEVER).collect();
    assert!(stamped.len() > 600, "{} of 1200 requests have a timestamp", stamped.len());
    assert!(stamped.iter().all(|it| it.sent_ns <= it.driver_ns && it.driver_ns < it.complete_ns));
}

#[test]
#[cfg(target_os = "linux")]
fn client_reconnects_over_unix_sockets() {
    let path = std::env::temp_dir().join(format!("muxbench-reconnects-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    // The backlog has room for one connection, so connect(2) sometimes fails.
    rustix::net::listen(&listener, 0).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::sleep(Duration::from_millis(1));
            let serve = http(3);
            thread::spawn(move || (0..).all(|number| serve(&mut stream, number).is_some()));
        }
    });
    for config in [closed as fn(Address) -> LoadConfig, open] {
        let report = run(&config(Address::Unix(path.clone()))).report;
        assert_eq!(report.errors, Errors::default());
        let reconnects = report.closed_by_server;
        assert!(reconnects > 5 && report.completed <= 10 + 3 * reconnects, "{reconnects}, {}", report.completed);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn closed_loop_sends_the_rest_of_a_pipeline_again() {
    for pipeline in [2, 7] {
        let (target, _) = closing(3);
        let report = run(&pipelined(target, pipeline)).report;
        let (http, closed) = (report.http.unwrap(), report.closed_by_server);
        assert_eq!((report.errors, http.statuses[&200]), (Errors::default(), report.completed));
        assert!(closed > 5 && report.completed <= 10 + 3 * closed, "{closed}");
        assert_eq!(report.completed % u64::from(pipeline), 0, "each request has a response");
    }
}

#[test]
fn one_response_for_each_connection_is_too_few() {
    let (target, _) = closing(1);
    let error = muxbench_load::run(&closed(target), &mut |_| ()).unwrap_err();
    assert!(matches!(&error, LoadError::Connect { class: "closed", .. }), "{error}");
    assert!(error.to_string().contains("--requests-per-connection"), "{error}");
}

#[test]
fn refused_reconnect_is_an_error() {
    for config in [closed as fn(Address) -> LoadConfig, open] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            // The client opens all connections before it waits for a response.
            let streams: Vec<TcpStream> = (0..5).map(|_| listener.accept().unwrap().0).collect();
            drop(listener);
            let _reserved = reserve_port(target);
            let serve = http(3);
            thread::scope(|scope| {
                for mut stream in streams {
                    let serve = &serve;
                    scope.spawn(move || (0..).all(|number| serve(&mut stream, number).is_some()));
                }
            });
        });
        let config = config(target.into());
        let report = run(&config).report;
        serving.join().unwrap();
        let is_closed = config.is_closed();
        // An open loop plans its requests before.
        let lost = if is_closed { 5 } else { report.planned - 10 };
        assert_eq!((report.errors.refused, report.errors.total()), (lost, lost), "{:?}", report.errors);
        let http = report.http.unwrap();
        // One more response of each connection verified it.
        assert_eq!((report.completed, http.statuses[&200], report.closed_by_server), (10, 10, 0));
        assert!(if is_closed { report.sent == 10 } else { report.sent >= 10 }, "{}", report.sent);
    }
}
