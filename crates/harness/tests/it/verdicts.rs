//! Tests of verdicts, with a real client and servers that are slow or fast in a known way.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use load::LoadConfig;
use load::config::{Loop, Pace, Phases, Roles, Schedule, Transport};
use load::tools::reflector::Reflector;
use muxbench_harness::judge::judge;
use muxbench_harness::record::VerdictKind;
use wire::ServiceSpec;

const CONNECTIONS: u32 = 20;
/// Low enough that the server can hold requests for much longer than a busy machine delays them.
const RATE_PER_S: u32 = 200;
const INTERVAL_NS: u64 = 1_000_000_000 / RATE_PER_S as u64;
/// Requests in the warm-up and in the window.
const WARM_UP_REQUESTS: u32 = 40;
const MEASURED_REQUESTS: u32 = 400;

/// A reflector never sleeps. Two at once would take each other's CPU time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the verdict on a server that holds its `n`th request for `hold(n)`. Verification requests count too.
fn verdict(transport: Transport, hold: impl Fn(u32) -> Duration + Send + 'static) -> muxbench_harness::record::Verdict {
    let service = ServiceSpec::Fixed { request_bytes: 8, response_bytes: 8 };
    let mut number = 0;
    let hold = move || {
        number += 1;
        hold(number - 1)
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let reflector = Reflector::start(transport, &service, None, hold).unwrap();
    let config = LoadConfig::new(reflector.address().clone(), service).with(|it| {
        let requests = Pace::new(Schedule::SlotRandom, RATE_PER_S.into()).into();
        it.the_loop = if transport == Transport::Udp { Loop::Datagrams(requests) } else { Loop::open(requests) };
        it.connections = CONNECTIONS;
        it.phases = Phases {
            ramp_ns: 0,
            warm_up_ns: u64::from(WARM_UP_REQUESTS) * INTERVAL_NS,
            measure_ns: u64::from(MEASURED_REQUESTS) * INTERVAL_NS,
            cool_down_ns: 1_000_000_000,
        };
    });
    let report = load::run(&config, &mut |_| ()).unwrap().report;
    judge(&report, None)
}

/// The index of the first request in the second half of the window.
const HALF_WAY: u32 = CONNECTIONS + WARM_UP_REQUESTS + MEASURED_REQUESTS / 2;

/// Asserts that `check` fails, and that the first failed check decides the verdict.
fn assert_unsteady(found: &muxbench_harness::record::Verdict, check: &str) {
    assert!(found.checks.iter().any(|it| !it.passed && it.name.contains(check)), "{check}: {}", words(found));
    // On a busy machine, another check may fail first: the client may be late, or requests may be unanswered.
    let first = found.checks.iter().find(|it| !it.passed).map(|it| it.decides);
    assert_eq!(Some(found.kind), first, "{}", words(found));
}

#[test]
fn server_that_slows_halfway_is_unsteady() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let found = verdict(transport, |number| Duration::from_millis(if number < HALF_WAY { 30 } else { 200 }));
        assert_unsteady(&found, "Pettitt");
    }
}

#[test]
fn server_that_slows_gradually_is_unsteady() {
    let found = verdict(Transport::Tcp, |number| Duration::from_micros(30_000 + 600 * u64::from(number)));
    assert_unsteady(&found, "Mann-Kendall");
}

#[test]
fn constant_server_is_steady() {
    // A neighbour may disturb a trial, but hardly every repeat.
    let is_steady = || {
        let found = verdict(Transport::Tcp, |_| Duration::from_millis(100));
        let unsteady = found.checks.iter().any(|check| !check.passed && check.decides == VerdictKind::Unsteady);
        if unsteady {
            println!("{}", words(&found));
        }
        !unsteady
    };
    assert!((0..5).any(|_| is_steady()), "at least one of five runs is steady");
}

#[test]
fn server_with_waiting_sessions_is_saturated() {
    // The server handles one connection at a time, each for 20 ms: 50 per second.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while stream.read_exact(&mut [0; 8]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                if stream.write_all(&[0; 8]).is_err() {
                    break;
                }
            }
        }
    });
    let service = ServiceSpec::Fixed { request_bytes: 8, response_bytes: 8 };
    let config = LoadConfig::new(address, service).with(|it| {
        it.connections = 1;
        let pace = Pace::new(Schedule::SlotRandom, RATE_PER_S.into());
        it.the_loop = Loop::Sessions { requests_per_connection: 1, pace };
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 1_000_000_000, cool_down_ns: 200_000_000 };
    });
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = judge(&load::run(&config, &mut |_| ()).unwrap().report, None);
    let saturated = found.checks.iter().filter(|check| !check.passed && check.decides == VerdictKind::Saturated);
    let names: Vec<&str> = saturated.map(|check| check.name.as_str()).collect();
    assert!(names.contains(&"increase of outstanding requests over the window"), "{}", words(&found));
    assert!(names.contains(&"requests unanswered after the cool-down"), "{}", words(&found));
    // On a busy machine, the client may be late too.
    assert!(matches!(found.kind, VerdictKind::Saturated | VerdictKind::ClientLimited), "{}", words(&found));
}

/// Starts a server that writes as fast as possible: `response_bytes` for each 8 bytes, with a thread per connection.
fn fast_server(response_bytes: usize) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let response = vec![0; response_bytes];
            std::thread::spawn(
                move || {
                    while stream.read_exact(&mut [0; 8]).is_ok() && stream.write_all(&response).is_ok() {}
                },
            );
        }
    });
    address
}

#[test]
fn busy_receiver_limits_the_client() {
    const RESPONSE_BYTES: u32 = 16 << 20;
    let service = ServiceSpec::Fixed { request_bytes: 8, response_bytes: RESPONSE_BYTES };
    let cpu = muxbench_harness::host::detect().cores[0][0];
    for roles in [Roles::TwoThreads, Roles::OneLoop] {
        let config = LoadConfig::new(fast_server(RESPONSE_BYTES as usize), service.clone()).with(|it| {
            it.connections = 4;

            // One CPU would have to read 17 GB/s.

            it.set_rate(Some(1_000.0));
            it.client.roles = roles;
            it.client.cpus = vec![cpu];
            it.phases =
                Phases { ramp_ns: 0, warm_up_ns: 200_000_000, measure_ns: 600_000_000, cool_down_ns: 100_000_000 };
        });
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = judge(&load::run(&config, &mut |_| ()).unwrap().report, None);
        assert_eq!(found.kind, VerdictKind::ClientLimited, "{roles:?}: {}", words(&found));
        // Other processes of a busy machine may take some of the CPU, so the share may stay just below its limit.
        let receiver = found.checks.iter().find(|check| check.name.contains("receiver was busy"));
        assert!(receiver.is_some_and(|check| check.value > 0.8), "{roles:?}: {}", words(&found));
    }
}

#[test]
fn server_that_stops_answering_has_failed() {
    let found = verdict(Transport::Tcp, |number| Duration::from_secs(if number < HALF_WAY { 0 } else { 60 }));
    let saturated = found.checks.iter().filter(|check| !check.passed && check.decides == VerdictKind::Saturated);
    let names: Vec<&str> = saturated.map(|check| check.name.as_str()).collect();
    assert!(names.contains(&"requests unanswered after the cool-down"), "{}", words(&found));
    assert_eq!(found.kind, VerdictKind::Failed, "{}", words(&found));
}

/// Formats the verdict and its checks with a value other than 0.
fn words(found: &muxbench_harness::record::Verdict) -> String {
    let checks = found.checks.iter().filter(|check| check.value != 0.0).map(|check| {
        format!(
            "{}: {} {:?} {} p {:?} passed {}",
            check.name, check.value, check.bound, check.limit, check.p_value, check.passed
        )
    });
    format!("{:?}\n{}", found.kind, checks.collect::<Vec<_>>().join("\n"))
}
