//! The client against small servers with known behaviour and faults.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use muxbench_load::config::{
    Loop, Pace, Pacing, Phases, Popularity, RateProfile, Requests, Roles, Schedule, Segment, Think, Timestamps,
    Transport,
};
use muxbench_load::result::{Hardware, PARTS};
use muxbench_load::time::clock::monotonic_ns;
use muxbench_load::tools::reflector::Reflector;
use muxbench_load::{Event, Listener, LoadConfig, LoadError, Outcome, Sample};
use rustix::net::{AddressFamily, SocketType, sockopt};
use wire::{Address, ServiceSpec};

use crate::server::{REQUEST, RESPONSE, answer_all, reserve_port, server, service};

/// Answers request `n`, from 0, with `response(n)` bytes. Closes the connection on `None`.
fn answer(mut stream: TcpStream, response: impl Fn(u32) -> Option<usize>) {
    for number in 0.. {
        if stream.read_exact(&mut [0; REQUEST]).is_err() {
            return;
        }
        let Some(bytes) = response(number) else {
            // Read everything first: closing with unread input would reset the connection.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        };
        if stream.write_all(&vec![0; bytes]).is_err() {
            return;
        }
    }
}

fn config(target: impl Into<Address>) -> LoadConfig {
    LoadConfig::new(target, service()).with(|it| {
        it.connections = 10;
        it.set_rate(Some(600.0));
        it.phases = Phases {
            ramp_ns: 50_000_000,
            warm_up_ns: 50_000_000,
            measure_ns: 300_000_000,
            cool_down_ns: 60_000_000_000,
        };
        it.client.timeout_ns = 60_000_000_000;
    })
}

fn as_datagrams(config: &mut LoadConfig) {
    config.the_loop = Loop::Datagrams(config.requests().unwrap().clone());
}

fn run(config: &LoadConfig) -> Outcome {
    muxbench_load::run(config, &mut |_| ()).unwrap()
}

#[test]
fn sockets_have_the_chosen_nodelay() {
    for tcp_nodelay in [true, false] {
        let config = config(server(answer_all)).with(|it| it.client.tcp_nodelay = tcp_nodelay);
        let connections = run(&config).connections;
        assert_eq!(connections.len(), 10);
        assert!(connections.iter().all(|it| sockopt::tcp_nodelay(it).unwrap() == tcp_nodelay), "{tcp_nodelay}");
    }
}

#[test]
fn every_role_and_pacing_completes_all_requests() {
    let target = server(answer_all);
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        for pacing in [Pacing::Yield, Pacing::Spin, Pacing::SleepSpin, Pacing::Auto] {
            for clients in [1, 3] {
                let config = config(target)
                    .with(|it| (it.client.roles, it.client.pacing, it.client.clients) = (roles, pacing, clients));
                let Outcome { report, samples, .. } = run(&config);
                let what = format!("{roles:?} {pacing:?} {clients}: {report:?}");
                assert_eq!(report.errors.total(), 0, "{what}");
                assert_eq!((report.planned, report.sent, report.completed), (180, 180, 180), "{what}");
                assert_eq!(report.roles, roles);
                assert!(report.pacing.is_some_and(|pacing| pacing != Pacing::Auto));
                assert_eq!(samples.len(), 180);
                for sample in samples {
                    assert!(sample.planned_ns <= sample.sent_ns && sample.sent_ns < sample.complete_ns, "{sample:?}");
                    assert!((0..300_000_000).contains(&sample.planned_ns));
                }
            }
        }
    }
}

#[test]
fn window_lasts_as_long_as_its_profile() {
    let target = server(answer_all);
    let segments = vec![Segment::hold(600.0, 100_000_000), Segment::hold(0.0, 400_000_000)];
    let pace = Pace { rate_profile: Some(RateProfile { segments }), ..Pace::new(Schedule::SlotRandom, 120.0) };
    let mut config = config(target).with(|it| it.the_loop = Loop::open(pace));
    config.phases.measure_ns = 500_000_000;
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let started = Instant::now();
        let Outcome { report, .. } = run(&config.clone().with(|it| it.client.roles = roles));
        assert!(started.elapsed() >= Duration::from_millis(600), "{roles:?}: {:?}", started.elapsed());
        assert!(report.completed > 0 && report.completed == report.planned, "{report:?}");
    }
}

/// Ends the window a second after the start.
#[derive(Default)]
struct Impatient(Option<u64>);

impl Listener for Impatient {
    fn on(&mut self, _: Event) {}

    fn ends_at_ns(&mut self) -> Option<u64> {
        Some(*self.0.get_or_insert_with(|| monotonic_ns() + 1_000_000_000))
    }
}

#[test]
fn window_that_ends_early_has_the_figures_until_then() {
    let target = server(answer_all);
    let closed = config(target).with(|it| it.the_loop = Loop::CLOSED);
    let udp = Reflector::start(Transport::Udp, &service(), None, || Duration::ZERO).unwrap();
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let open = config(target).with(|it| it.client.roles = roles);
        let requests = open.requests().unwrap().clone();
        let (requests_per_connection, think) = (3, Think::default());
        let sessions = [
            Loop::Sessions { requests_per_connection, pace: requests.pace.clone() },
            Loop::ClosedSessions { requests_per_connection, think },
        ]
        .map(|the_loop| open.clone().with(|it| it.the_loop = the_loop));
        let datagrams =
            open.clone().with(|it| (it.target, it.the_loop) = (udp.address().clone(), Loop::Datagrams(requests)));
        for mut config in [open, closed.clone(), datagrams].into_iter().chain(sessions) {
            config.phases.measure_ns = 60_000_000_000;
            let started = Instant::now();
            let report = muxbench_load::run_with(&config, &mut Impatient::default()).unwrap().report;
            let (elapsed, window) = (started.elapsed(), Duration::from_nanos(report.window_ns));
            assert!(elapsed < Duration::from_secs(30) && window < elapsed, "{window:?} of {elapsed:?}");
            assert_eq!((report.errors.total(), report.completed), (0, report.planned), "{report:?}");
            let per_s = report.completed as f64 / window.as_secs_f64();
            assert!((report.rate_achieved_per_s / per_s - 1.0).abs() < 0.05, "{per_s} {}", report.rate_achieved_per_s);
            // A busy machine may suspend the client for some parts.
            let used = report.completed_by_part.iter().filter(|count| **count > 0).count();
            assert!(used > PARTS / 2, "{:?}", report.completed_by_part);
        }
    }
}

/// Asks once, before the window, for its end.
struct Early(Option<u64>);

impl Listener for Early {
    fn on(&mut self, _: Event) {}

    fn ends_at_ns(&mut self) -> Option<u64> {
        self.0.take()
    }
}

#[test]
fn window_that_ends_before_its_start_ends_soon_after_it() {
    let open = config(server(answer_all));
    let closed = open.clone().with(|it| it.the_loop = Loop::CLOSED);
    for mut config in [open, closed] {
        config.phases.measure_ns = 60_000_000_000;
        let started = Instant::now();
        let report = muxbench_load::run_with(&config, &mut Early(Some(monotonic_ns()))).unwrap().report;
        assert!(started.elapsed() < Duration::from_secs(30) && report.window_ns < 1_000_000_000, "{report:?}");
        assert_eq!((report.errors.total(), report.completed), (0, report.planned), "{report:?}");
    }
}

#[test]
fn queued_share_of_a_cut_window_is_that_of_all_requests_sent() {
    // Each connection has a request per 17 ms, and is busy for 5 ms of them.
    let target = server(|stream| {
        answer(stream, |_| {
            thread::sleep(Duration::from_millis(5));
            Some(RESPONSE)
        });
    });
    let mut config = config(target);
    config.phases.measure_ns = 60_000_000_000;
    let report = muxbench_load::run_with(&config, &mut Early(Some(monotonic_ns()))).unwrap().report;
    // More requests queue in the cool-down than the window has.
    assert!(report.queued_share.is_some_and(|share| share > 0.0 && share < 0.9), "{:?}", report.queued_share);
}

#[test]
fn several_requests_may_be_outstanding_on_one_connection() {
    // One connection with three requests per response time: each response takes 5 ms.
    let target = server(|stream| {
        answer(stream, |_| {
            thread::sleep(Duration::from_millis(5));
            Some(RESPONSE)
        });
    });
    let mut config = config(target).with(|it| it.connections = 1);
    // Long enough for a machine that is busy for part of the window.
    config.phases.measure_ns = 1_000_000_000;
    let Outcome { report, samples, .. } = run(&config);
    assert_eq!(report.sent, 600, "no planned request is skipped");
    assert!(report.completed >= 590, "{report:?}");
    assert!(report.outstanding.at_end >= 40, "{:?}", report.outstanding);
    assert!(report.service.distribution.p99_ns > 100_000_000, "requests wait for the responses to earlier ones");
    // Responses arrive in the order of the requests.
    let complete: Vec<i64> = samples.iter().map(|sample| sample.complete_ns).collect();
    assert!(complete.is_sorted());
}

#[test]
fn request_without_overlap_waits_for_a_free_connection() {
    let overlaps = Arc::new(AtomicU64::new(0));
    let counted = overlaps.clone();
    // Three requests become due in the time of a response.
    let target = server(move |mut stream| {
        while stream.read_exact(&mut [0; REQUEST]).is_ok() {
            thread::sleep(Duration::from_millis(5));
            stream.set_nonblocking(true).unwrap();
            counted.fetch_add(u64::from(stream.peek(&mut [0]).is_ok()), SeqCst);
            stream.set_nonblocking(false).unwrap();
            stream.write_all(&[0; RESPONSE]).unwrap();
        }
    });
    for (no_overlap, active, used) in [(true, 1.0, 2), (true, 0.5, 1), (false, 1.0, 2)] {
        overlaps.store(0, SeqCst);
        let Outcome { report, samples, .. } = run(&config(target).with(|it| {
            let requests = Requests { active, ..it.requests().unwrap().clone() };
            (it.connections, it.the_loop) = (2, Loop::Open { requests, request_timeout: None, no_overlap });
        }));
        assert_eq!((report.errors.total(), report.completed), (0, 180), "{report:?}");
        assert_eq!(overlaps.load(SeqCst) == 0, no_overlap);
        assert!(report.queued_share.is_some_and(|share| share > 0.3 && share <= 1.0), "{:?}", report.queued_share);
        // The wait is the server's: 180 responses of 5 ms take longer than the window.
        assert!(report.service.distribution.p90_ns > 50_000_000, "{:?}", report.service.distribution);
        assert_eq!(samples.iter().map(|it| it.connection).collect::<BTreeSet<u32>>().len(), used);
    }
    let quick = run(&config(server(answer_all)).with(|it| {
        let requests = it.requests().unwrap().clone();
        it.the_loop = Loop::Open { requests, request_timeout: None, no_overlap: true };
    }))
    .report;
    assert_eq!((quick.completed, quick.roles), (180, Roles::OneLoop));
}

#[test]
fn request_unanswered_after_the_cool_down_is_a_timeout() {
    let target = server(|stream| answer(stream, |number| Some(if number == 0 { RESPONSE } else { 0 })));
    let mut config = config(target);
    // Long enough for a busy machine to send all requests.
    config.phases.cool_down_ns = 2_000_000_000;
    let Outcome { report, samples, .. } = run(&config);
    assert_eq!((report.sent, report.completed), (180, 0));
    assert_eq!(report.errors.timeout, report.outstanding.after_cool_down);
    assert!(report.errors.timeout >= 180);
    assert_eq!(
        report.trial_requests, report.errors.timeout,
        "all requests of the trial fail, those before the window too"
    );
    assert!(samples.iter().all(|sample| sample.complete_ns == Sample::NEVER));
}

#[test]
fn dead_server_ends_the_load_early() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || {
        let streams: Vec<TcpStream> = listener.incoming().flatten().take(10).collect();
        drop(listener);
        let serve = |stream| thread::spawn(|| answer(stream, |number| (number < 2).then_some(RESPONSE)));
        let serving: Vec<_> = streams.into_iter().map(serve).collect();
        let _reserved = reserve_port(target);
        serving.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let mut config = config(target);
    config.phases.measure_ns = 30_000_000_000;
    let started = Instant::now();
    let Outcome { report, samples, .. } = run(&config);
    assert!(started.elapsed() < Duration::from_secs(20), "the load ends before the window does");
    let failed = report.errors.short + report.errors.reset + report.errors.refused;
    assert_eq!(failed, report.errors.total(), "{:?}", report.errors);
    assert!(report.errors.refused > 0, "the client tries to connect again: {:?}", report.errors);
    // The server answers one request of the trial per connection. All other requests in the window fail, sent or not.
    assert!(report.completed <= 10);
    assert!(failed >= report.planned - report.completed, "{report:?}");
    assert!(samples.iter().any(|sample| sample.sent_ns == Sample::NEVER), "no request is sent on a failed connection");
}

#[test]
fn load_does_not_wait_for_requests_of_failed_connections() {
    // The server answers each connection's third request with only one byte and ends the connection at the fourth, so some
    // requests are outstanding.
    let target =
        server(|stream| answer(stream, |number| (number < 3).then_some(if number < 2 { RESPONSE } else { 1 })));
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let mut config = config(target).with(|it| it.client.roles = roles);
        config.phases.cool_down_ns = 60_000_000_000;
        let started = Instant::now();
        let Outcome { report, .. } = run(&config);
        assert!(started.elapsed() < Duration::from_secs(30), "the cool-down ends early");
        assert!(report.errors.short > 0, "some responses are incomplete: {:?}", report.errors);
        assert_eq!(report.errors.timeout, 0, "{:?}", report.errors);
    }
}

#[test]
fn overloaded_client_ends_after_the_cool_down() {
    let target = server(answer_all);
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        // 20 ns per request: less than two readings of the clock.
        let mut config = config(target).with(|it| it.client.roles = roles);
        config.set_rate(Some(50_000_000.0));
        config.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 50_000_000, cool_down_ns: 10_000_000 };
        let Outcome { report, .. } = run(&config);
        assert!(report.sent < report.planned);
        assert!(report.rate_sent_per_s < report.rate_asked_per_s.unwrap());
        assert_eq!(report.errors.total(), report.outstanding.after_cool_down, "{:?}", report.errors);
    }
}

#[test]
fn excess_byte_of_a_response_is_wrong() {
    let target = server(|stream| answer(stream, |number| Some(if number == 3 { RESPONSE + 1 } else { RESPONSE })));
    let Outcome { report, .. } = run(&config(target));
    assert!(report.errors.wrong > 0, "{:?}", report.errors);
    assert_eq!(report.first_wrong.as_deref(), Some("the server sent bytes that no request asked for"));
}

#[test]
fn unread_requests_do_not_delay_the_schedule() {
    // The server answers the first request and nothing more. Requests exceed the socket buffers.
    let target = server(|mut stream| {
        stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
        stream.write_all(&[0; RESPONSE]).unwrap();
        thread::sleep(Duration::from_secs(20));
    });
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let mut config = config(target).with(|it| (it.connections, it.client.roles) = (2, roles));
        config.service = ServiceSpec::Fixed { request_bytes: 1 << 20, response_bytes: RESPONSE as u32 };
        config.phases.cool_down_ns = 2_000_000_000;
        let Outcome { report, .. } = run(&config);
        assert_eq!((report.sent, report.completed), (180, 0), "{roles:?}");
    }
}

#[test]
fn refused_connection_is_reported() {
    // A bound socket reserves the port and refuses connections.
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address: SocketAddr = rustix::net::getsockname(&held).unwrap().try_into().unwrap();
    let error = muxbench_load::run(&config(address), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Connect { class: "refused", number: 1, .. }), "{error}");
    assert!(error.to_string().contains("is the server running there?"));
}

#[test]
#[cfg(target_os = "linux")]
fn connecting_keeps_to_the_pace_of_a_small_backlog() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 2).unwrap();
    let target = listener.local_addr().unwrap();
    let accepts = Arc::new(AtomicBool::new(true));
    let goes_on = accepts.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
            thread::sleep(Duration::from_millis(5));
            while !goes_on.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // The kernel sends a dropped SYN again after 1, 3 and 7 s.
    let config = config(target).with(|it| (it.connections, it.client.timeout_ns) = (60, 10_000_000_000));
    assert_eq!(run(&config).report.errors.total(), 0);
    // The server stops accepting when the first connection is answered.
    let mut on_event = |event| accepts.store(matches!(event, Event::Connecting { done: 0, .. }), SeqCst);
    let impatient = config.with(|it| (it.connections, it.client.timeout_ns) = (400, 3_000_000_000));
    let error = muxbench_load::run(&impatient, &mut on_event).unwrap_err().to_string();
    // The last connections wait in the backlog, or are not accepted.
    assert!(error.contains("other connections got their") && error.contains("dropped"), "{error}");
    assert!(error.contains("listen(2), net.core.somaxconn"), "{error}");
}

#[test]
fn silent_server_fails_before_the_ramp() {
    let target = server(|_| thread::sleep(Duration::from_secs(20)));
    let error =
        muxbench_load::run(&config(target).with(|it| it.client.timeout_ns = 100_000_000), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Connect { class: "timeout", .. }), "{error}");
}

#[test]
fn events_follow_the_order_of_phases() {
    let mut events = Vec::new();
    muxbench_load::run(&config(server(answer_all)), &mut |event| events.push(event)).unwrap();
    let connected = events.iter().position(|event| matches!(event, Event::Connected { connections: 10, .. })).unwrap();
    let started = events.iter().position(|event| matches!(event, Event::Started { .. })).unwrap();
    assert_eq!(connected + 1, started);
    assert!(matches!(events.last(), Some(Event::Progress { .. })));
}

/// A listener that may set a start time in the past.
struct Begins {
    ago_ns: Option<u64>,
}

impl Listener for Begins {
    fn on(&mut self, _event: Event) {}

    fn begin(&mut self) -> Result<Option<u64>, String> {
        Ok(self.ago_ns.map(|ago_ns| monotonic_ns() - ago_ns))
    }
}

#[test]
fn late_start_message_is_reported() {
    let late_ns = |ago_ns| {
        let reflector = Reflector::start(Transport::Tcp, &service(), None, || Duration::ZERO).unwrap();
        let outcome = muxbench_load::run_with(&config(reflector.address().clone()), &mut Begins { ago_ns }).unwrap();
        outcome.report.begun_late_ns
    };
    assert_eq!(late_ns(None), 0);
    assert!(late_ns(Some(50_000_000)) >= 50_000_000);
}

#[test]
fn invalid_configuration_is_rejected_before_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let base = config(listener.local_addr().unwrap());
    for wrong in [base.clone().with(|it| it.client.clients = 0), base.with(|it| it.client.cpus = vec![1023])] {
        assert!(matches!(muxbench_load::run(&wrong, &mut |_| ()), Err(LoadError::Config(_))), "{wrong:?}");
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// The largest error between the wall clock and the client's clock: tens of nanoseconds, and more if the client is interrupted while
/// it reads both. Requests are farther apart, so a timestamp of another request exceeds it.
const CLOCKS_NS: i64 = 500_000;

#[test]
fn kernel_timestamps_lie_between_client_timestamps() {
    for datagrams in [false, true] {
        let transport = if datagrams { Transport::Udp } else { Transport::Tcp };
        for (roles, clients) in [(Roles::OneLoop, 1), (Roles::TwoThreads, 2)] {
            let reflector = Reflector::start(transport, &service(), None, || Duration::ZERO).unwrap();
            let timestamps = Timestamps::Kernel;
            let base = config(reflector.address().clone()).with(|it| {
                if datagrams {
                    as_datagrams(it)
                }
            });
            // With many connections, hardly any has two responses to read at once.
            let config = base.with(|it| {
                it.connections = 400;
                it.client.roles = roles;
                it.client.clients = clients;
                it.client.timestamps = timestamps;
            });
            let Outcome { report, samples, .. } = run(&config);
            assert_eq!((report.completed, report.errors.total()), (180, 0), "{transport:?} {roles:?}: {report:?}");
            let kernel = report.kernel.unwrap();
            assert!(!kernel.wall_clock_stepped);
            assert_eq!(kernel.hardware, Hardware::None, "{}", kernel.interface);
            assert_eq!(kernel.unstamped_sent, 0, "{transport:?} {roles:?}");
            // An interrupted reading of the two clocks shifts the timestamps that follow it.
            assert!(kernel.out_of_order < 90, "{}", kernel.out_of_order);
            // Responses in one read have no separate timestamps.
            let stamped = kernel.service.distribution.count;
            assert!(
                stamped > 0 && stamped + kernel.unstamped_arrived == 180,
                "{stamped}, {}",
                kernel.unstamped_arrived
            );
            for sample in samples {
                let times =
                    [sample.sent_ns, sample.scheduler_ns, sample.driver_ns, sample.arrived_ns, sample.complete_ns];
                if sample.arrived_ns == Sample::NEVER {
                    continue;
                }
                assert!(
                    times.windows(2).all(|pair| pair[0] <= pair[1] + CLOCKS_NS),
                    "{transport:?} {roles:?}: {sample:?}"
                );
            }
        }
    }
}

#[test]
fn kernel_timestamps_are_absent_by_default() {
    let Outcome { report, samples, .. } = run(&config(server(answer_all)));
    assert!(report.kernel.is_none());
    assert!(samples.iter().all(|sample| sample.driver_ns == Sample::NEVER && sample.arrived_ns == Sample::NEVER));
}

#[test]
fn known_delay_is_part_of_the_measured_time() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Unix] {
        let hold = Duration::from_millis(2);
        let reflector = Reflector::start(transport, &service(), None, move || hold).unwrap();
        let config = config(reflector.address().clone());
        let Outcome { report, samples, .. } =
            run(&if transport == Transport::Udp { config.with(as_datagrams) } else { config });
        assert_eq!(report.transport, transport);
        assert_eq!((report.completed, report.errors.total()), (180, 0));
        assert!(samples.iter().all(|sample| sample.complete_ns - sample.sent_ns >= 2_000_000));
        let held = reflector.stop().unwrap();
        assert!(held.len() >= 180 && held.iter().all(|held| held.held_ns >= 2_000_000 && held.peer < 10));
    }
}

#[test]
fn closed_port_refuses_datagrams() {
    // A bound socket reserves the port. Connected to itself, it refuses other peers.
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = held.local_addr().unwrap();
    held.connect(nobody).unwrap();
    let config = config(nobody).with(as_datagrams);
    let Err(error @ LoadError::Connect { .. }) = muxbench_load::run(&config, &mut |_| ()) else { panic!() };
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn seed_determines_the_active_connections() {
    let target = server(answer_all);
    let used = |active, popularity, seed| {
        let config = config(target).with(|it| {
            let pace = Pace::new(Schedule::Constant, 600.0);
            it.the_loop = Loop::open(Requests { active, popularity, ..pace.into() });
            it.client.seed = seed;
        });
        let mut used: Vec<u32> = run(&config).samples.iter().map(|sample| sample.connection).collect();
        used.sort_unstable();
        used.dedup();
        used
    };
    let three = used(0.3, Popularity::Uniform, 1);
    assert_eq!(three.len(), 3);
    assert_eq!(three, used(0.3, Popularity::Uniform, 1));
    assert_eq!(used(1.0 / 64.0, Popularity::Zipf { exponent: 1.0 }, 1).len(), 1, "at least one connection is active");
}

/// A path in the temporary directory for one test only; no file exists there.
fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("muxbench-client-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn unix_socket_completes_all_requests() {
    let reflector = Reflector::start(Transport::Unix, &service(), None, || Duration::ZERO).unwrap();
    let config = config(reflector.address().clone());
    for (roles, clients) in [(Roles::OneLoop, 1), (Roles::TwoThreads, 2)] {
        let Outcome { report, .. } =
            run(&config.clone().with(|it| (it.client.roles, it.client.clients) = (roles, clients)));
        assert_eq!((report.completed, report.errors.total()), (180, 0), "{roles:?}: {report:?}");
        assert_eq!(report.transport, Transport::Unix);
    }
    let file = reflector.address().path().unwrap().to_owned();
    assert!(file.exists());
    drop(reflector);
    assert!(!file.exists());
}

#[test]
fn missing_unix_listener_is_reported() {
    let path = path("nobody");
    let config = config(Address::unix(path.clone()).unwrap());
    let error = muxbench_load::run(&config, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("is the server running there?"), "{error}");
    drop(UnixListener::bind(&path).unwrap());
    let error = muxbench_load::run(&config, &mut |_| ()).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(error, LoadError::Connect { class: "refused", .. }), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn connection_waits_for_full_backlog_then_gives_up() {
    let path = path("full");
    let listener = UnixListener::bind(&path).unwrap();
    // The backlog has room for two connections.
    rustix::net::listen(&listener, 1).unwrap();
    let target = Address::unix(path.clone()).unwrap();
    let few = config(target.clone()).with(|it| it.client.timeout_ns = 100_000_000);
    let error = muxbench_load::run(&few, &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Connect { class: "timeout", number: 3, .. }), "{error}");

    let patient = config(target).with(|it| it.client.timeout_ns = 20_000_000_000);
    let serving = thread::spawn(move || {
        // The clients now wait in connect(2).
        thread::sleep(Duration::from_millis(50));
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
        }
    });
    let Outcome { report, .. } = run(&patient);
    assert_eq!((report.completed, report.errors.total()), (180, 0), "{report:?}");
    std::fs::remove_file(&path).unwrap();
    drop(serving);
}
