//! Time limits of requests, and retries, against servers that stall or close connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use muxbench_load::config::{Loop, Pace, Phases, RequestTimeout, Roles, Schedule};
use muxbench_load::{LoadConfig, Outcome, Sample};

use crate::server::{REQUEST, answer_all, answer_one, server, service};

const TIMEOUT_NS: u64 = 100_000_000;

/// Starts a server that passes the number of each connection, in the order of acceptance, to `serve`.
fn numbered(serve: impl Fn(u32, TcpStream) + Send + Sync + 'static) -> std::net::SocketAddr {
    let count = AtomicU32::new(0);
    server(move |stream| serve(count.fetch_add(1, Ordering::Relaxed), stream))
}

fn config(target: std::net::SocketAddr, retries: u32, retry_budget: Option<f64>) -> LoadConfig {
    LoadConfig::new(target, service()).with(|it| {
        it.connections = 10;
        let request_timeout = Some(RequestTimeout { timeout_ns: TIMEOUT_NS, retries, retry_budget });
        it.the_loop =
            Loop::Open { requests: Pace::new(Schedule::SlotRandom, 600.0).into(), request_timeout, no_overlap: false };
        it.phases = Phases {
            ramp_ns: 50_000_000,
            warm_up_ns: 50_000_000,
            measure_ns: 500_000_000,
            cool_down_ns: 3_000_000_000,
        };
    })
}

fn run(config: &LoadConfig) -> Outcome {
    muxbench_load::run(config, &mut |_| ()).unwrap()
}

/// Answers only the request that verifies the connection.
fn stall(mut stream: TcpStream) {
    let _ = answer_one(&mut stream);
    thread::sleep(Duration::from_secs(20));
}

#[test]
fn stalled_requests_succeed_on_other_connections() {
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let target = numbered(|number, stream| if number == 0 { stall(stream) } else { answer_all(stream) });
        let Outcome { report, samples, .. } = run(&config(target, 2, None).with(|it| it.client.roles = roles));
        // A busy machine may answer some other attempt late, and a third attempt too.
        assert!(report.completed >= report.planned / 2, "{roles:?}: {report:?}");
        let goodput = report.goodput.unwrap();
        assert!(goodput.timeouts > 10 && goodput.retries > 10, "a tenth of the requests stalls: {goodput:?}");
        let response_ns = |it: &Sample| it.complete_ns - it.planned_ns;
        let again = samples.iter().filter(|it| it.complete_ns != Sample::NEVER && response_ns(it) >= TIMEOUT_NS as i64);
        assert!(again.clone().count() > 10, "the response time of a retry runs from the planned first send");
        assert!(again.clone().all(|it| it.sent_ns - it.planned_ns < response_ns(it)), "the first send is recorded");
    }
}

#[test]
fn late_response_counts_as_none() {
    let target = server(|mut stream| {
        let _ = answer_one(&mut stream);
        thread::sleep(Duration::from_millis(2_500));
        answer_all(stream);
    });
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let Outcome { report, samples, .. } = run(&config(target, 0, None).with(|it| it.client.roles = roles));
        assert_eq!((report.planned, report.completed), (300, 0), "{roles:?}: {report:?}");
        assert!(samples.iter().all(|sample| sample.complete_ns == Sample::NEVER));
        let goodput = report.goodput.unwrap();
        assert!(goodput.timeouts == report.errors.timeout && goodput.timeouts > 300, "{goodput:?} {:?}", report.errors);
        assert_eq!((report.errors.total(), goodput.retries), (report.errors.timeout, 0));
        assert_eq!(report.outstanding.after_cool_down, 0, "a request that has timed out is not in flight");
        let bins = goodput.bins.iter().fold((0, 0), |sum, bin| (sum.0 + bin.planned, sum.1 + bin.in_time));
        assert_eq!((goodput.bins.len(), bins), (5, (300, 0)));
    }
}

#[test]
fn requests_of_closed_connections_succeed_on_others() {
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let target = numbered(|number, mut stream| {
            if number < 5 {
                let _ = (0..4).try_for_each(|_| answer_one(&mut stream));
                // The last response is cut off.
                let _ = stream.read_exact(&mut [0; REQUEST]).and_then(|()| stream.write_all(&[0]));
            } else {
                answer_all(stream);
            }
        });
        let started = std::time::Instant::now();
        let mut config = config(target, 3, None).with(|it| it.client.roles = roles);
        if let Loop::Open { request_timeout: Some(limit), .. } = &mut config.the_loop {
            limit.timeout_ns = 60_000_000_000;
        }
        config.phases.cool_down_ns = 60_000_000_000;
        let Outcome { report, .. } = run(&config);
        assert_eq!((report.planned, report.completed), (300, 300), "{roles:?}: {report:?}");
        let goodput = report.goodput.unwrap();
        assert!(goodput.retries > 100 && goodput.timeouts == 0, "half of the requests: {goodput:?}");
        assert_eq!(report.errors.total(), 5, "each failed connection counts once: {:?}", report.errors);
        assert!(started.elapsed() < Duration::from_secs(30), "retries do not wait for the time limit");
    }
}

#[test]
fn request_without_answer_uses_up_its_retries() {
    let target = server(stall);
    let Outcome { report, .. } = run(&config(target, 2, None));
    let (goodput, requests) = (report.goodput.unwrap(), report.errors.timeout);
    assert!(report.completed == 0 && requests > 300, "{:?}", report.errors);
    assert_eq!((goodput.retries, goodput.timeouts), (2 * requests, 3 * requests));
}

#[test]
fn budget_limits_the_share_of_retries() {
    let target = server(stall);
    let Outcome { report, .. } = run(&config(target, 5, Some(0.1)));
    let (goodput, requests) = (report.goodput.unwrap(), report.errors.timeout);
    assert!((requests / 20..=requests / 10 + 1).contains(&goodput.retries), "{goodput:?}, {requests} requests");
}
