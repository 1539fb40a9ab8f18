//! The HTTP client's rate on one core against `wrk -t1`, with the same server: nginx over http and https, and ours. Also its pacing
//! against `httperf`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use load::config::{HttpTarget, HttpTraffic, LoadConfig, Phases, Schedule, TlsConfig};
use wire::ServiceSpec;

use super::http::{self, CONNECTIONS, FILE};
use super::loads::load_report;
use super::process::{CLIENT_CPU, SERVER_CPU, cpu_during, free_address, muxbench, on_cpu};
use super::spread::{Bound, rounds};
use crate::child::pin;
use crate::command;
use crate::environment::peers;

/// The largest ratio of the CPU time of a request over plain HTTP.
const COST_MAX: f64 = 0.85;
/// Rate of the pacing measurement, in requests per second.
const RATE_PER_S: f64 = 8_000.0;
/// Requests per connection of the pacing measurement.
const REQUESTS: u32 = 10;
/// Median and 99th percentile, in µs, of the delay that a timer with a resolution of one millisecond adds.
const MILLISECOND_DELAY_US: [f64; 2] = [500.0, 990.0];

pub(super) fn run(count: usize) -> anyhow::Result<()> {
    let (binary, peers) = (muxbench()?, peers::prepare()?);
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(FILE), [b'x'; 128])?;
    println!("GET of 128 B in a closed loop, muxbench / wrk -t1 -c{CONNECTIONS}, {count} rounds");
    for (name, scheme) in [("nginx", "http"), ("nginx", "https"), ("our epoll", "http")] {
        let address = free_address()?;
        let (has_tls, url) = (scheme == "https", format!("{scheme}://{address}/{FILE}"));
        let server = match name {
            "nginx" => http::nginx(&peers, address, folder.path(), has_tls)?,
            _ => http::ours(&binary, address, folder.path())?,
        };
        let [rate, cost, busy, per_s] = rounds(count, || {
            let both = || anyhow::Ok((ours(address, has_tls)?, run_wrk(&peers, &url)?));
            let ((ours, theirs), _, busy) = cpu_during(&server.0, both)?;
            Ok([ours[0] / theirs[0], ours[1] / theirs[1], busy, ours[0]])
        })?;
        // With TLS most of the client's time goes to the ciphers.
        let cost = if has_tls { cost.to_string() } else { cost.check(Bound::AtMost(COST_MAX)) };
        println!("  {name}, {scheme}: rate {}; client CPU time per request {cost}", rate.check(Bound::AtLeast(1.0)));
        println!(
            "    muxbench's requests per second {per_s}; the server's share of its CPU {busy} (near 1: the server was the limit)"
        );
    }
    Ok(())
}

/// Returns requests to a server. Like `wrk`, the client accepts any certificate.
fn traffic(address: SocketAddr, path: &str, has_tls: bool) -> LoadConfig {
    let tls = TlsConfig { server_name: address.ip().to_string(), is_insecure: true, ..TlsConfig::default() };
    LoadConfig {
        connections: CONNECTIONS,
        http: Some(HttpTraffic::new(vec![HttpTarget::get(path, None)])),
        tls: has_tls.then_some(tls),
        cpus: vec![CLIENT_CPU],
        ..LoadConfig::new(address, ServiceSpec::Http { folder: None })
    }
}

/// Returns the rate per second and the client's CPU time per request, in nanoseconds.
fn ours(address: SocketAddr, has_tls: bool) -> anyhow::Result<[f64; 2]> {
    let phases = Phases { ramp_ns: 500_000_000, warm_up_ns: 0, measure_ns: 2_000_000_000, cool_down_ns: 1_000_000_000 };
    let traffic = traffic(address, &format!("/{FILE}"), has_tls);
    let config = LoadConfig { rate_per_s: None, schedule: Schedule::Closed, phases, ..traffic };
    let report = load_report(&config)?;
    let requests = report.rate_achieved_per_s * 2.0;
    Ok([report.rate_achieved_per_s, report.cpu_ns as f64 / requests])
}

/// Returns the rate per second of wrk, and its CPU time per request in nanoseconds.
fn run_wrk(peers: &Path, url: &str) -> anyhow::Result<[f64; 2]> {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut command = http::wrk(peers, "2s", url);
    let child = command.stdout(Stdio::piped()).spawn().context("cannot run taskset wrk")?;
    // taskset becomes wrk by exec; its CPU time is readable only while it runs.
    std::thread::sleep(Duration::from_millis(500));
    let sleep = || {
        std::thread::sleep(WINDOW);
        Ok(())
    };
    let ((), _, busy) = cpu_during(&child, sleep)?;
    let (rate_per_s, _) = http::wrk_figures(&child.wait_with_output()?)?;
    Ok([rate_per_s, busy * 1e9 / rate_per_s])
}

/// Measures the delay of sessions that a client starts at constant intervals, as the server's `accept` sees it.
pub(super) fn pacing(count: usize) -> anyhow::Result<()> {
    let peers = peers::prepare()?;
    let [delay_p50, delay_p99, ours_p50, ours_p99, theirs_p50, theirs_p99] = rounds(count, || {
        let mut delay_us = [0.0; 2];
        let ours = accepted(|address| {
            let phases =
                Phases { ramp_ns: 0, warm_up_ns: 500_000_000, measure_ns: 3_500_000_000, cool_down_ns: 10_000_000_000 };
            let report = load_report(&LoadConfig {
                rate_per_s: Some(RATE_PER_S),
                schedule: Schedule::Constant,
                requests_per_connection: Some(REQUESTS),
                phases,
                ..traffic(address, "/", false)
            })?;
            // The send delay covers every request. Only the first request of a session follows the schedule; each later one is due
            // when the previous response arrives, so its delay is close to zero.
            delay_us = [report.send_delay.distribution.p50_ns, report.send_delay.distribution.p99_ns]
                .map(|ns| ns as f64 / 1e3);
            Ok(())
        })?;
        let theirs = accepted(|address| httperf(&peers, address))?;
        Ok([delay_us[0], delay_us[1], ours[0], ours[1], theirs[0], theirs[1]])
    })?;
    println!(
        "sessions of {REQUESTS} requests at constant intervals, {RATE_PER_S} requests/s, in µs, {count} rounds of 4 s"
    );
    let [p50, p99] = MILLISECOND_DELAY_US;
    println!("  timer of one millisecond    p50 {p50}; p99 {p99}; the limit is a tenth of these");
    let checked = [delay_p50.check(Bound::AtMost(p50 / 10.0)), delay_p99.check(Bound::AtMost(p99 / 10.0))];
    println!("  send delay, as reported     p50 {}; p99 {}", checked[0], checked[1]);
    println!("  delay at accept, muxbench   p50 {ours_p50}; p99 {ours_p99}");
    println!("  delay at accept, httperf    p50 {theirs_p50}; p99 {theirs_p99}");
    calibrate()
}

/// Prints the result of `calibrate` at the same rate: the client's error for a known latency.
fn calibrate() -> anyhow::Result<()> {
    let rate = RATE_PER_S.to_string();
    let flags = ["--rate", &rate, "--connections", "400", "--hold", "100us,1ms", "--law", "fixed", "--quiet"];
    let text = command::output(Command::new(muxbench()?).arg("calibrate").args(flags))?;
    println!("muxbench calibrate {}", flags.join(" "));
    text.lines().for_each(|line| println!("  {line}"));
    Ok(())
}

fn httperf(peers: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let mut command = on_cpu(CLIENT_CPU, peers.join("httperf"));
    let sessions_per_s = RATE_PER_S / f64::from(REQUESTS);
    command.args(["--hog", "--server", "127.0.0.1", "--port", &address.port().to_string(), "--uri", "/"]);
    command.args(["--rate", &sessions_per_s.to_string(), "--num-conns", &(4.0 * sessions_per_s).to_string()]);
    command.args(["--num-calls", &REQUESTS.to_string()]);
    let text = command::output(&mut command).context("httperf")?;
    ensure!(text.contains("Errors: total 0 "), "httperf: {text}");
    Ok(())
}

/// Runs a client against a minimal server; returns the median and the 99th percentile of the delay of its connections, in µs.
/// Connections are due at constant intervals.
fn accepted(client: impl FnOnce(SocketAddr) -> anyhow::Result<()>) -> anyhow::Result<[f64; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let over = AtomicBool::new(false);
    let accepted = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &over));
        let outcome = client(address);
        over.store(true, Relaxed);
        let accepted = server.join().expect("the server does not panic");
        outcome.and(accepted)
    })?;
    // Skip the first connection: muxbench uses it to check the server before the schedule begins.
    let arrivals_us: Vec<f64> = accepted.iter().skip(1).map(|at| (*at - accepted[0]).as_nanos() as f64 / 1e3).collect();
    ensure!(arrivals_us.len() >= 1_000, "only {} connections were accepted", arrivals_us.len());
    let interval_us = 1e6 / (RATE_PER_S / f64::from(REQUESTS));
    let mut late: Vec<f64> = arrivals_us.iter().enumerate().map(|(at, us)| us - at as f64 * interval_us).collect();
    late.sort_by(f64::total_cmp);
    let quantile = |share| stats::quantile(&late, share).unwrap_or(f64::NAN);
    // The reference is one of the lowest values, because the very lowest may be an outlier of the clock.
    Ok([0.5, 0.99].map(|share| quantile(share) - quantile(0.001)))
}

/// Answers all requests and records when it accepted each connection. It polls on its own CPU without sleeping.
fn serve(listener: &TcpListener, over: &AtomicBool) -> anyhow::Result<Vec<Instant>> {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    pin(&[SERVER_CPU])?;
    rustix::net::listen(listener, 4_096)?;
    listener.set_nonblocking(true)?;
    let (mut accepted, mut streams, mut buffer) = (Vec::with_capacity(100_000), Vec::<TcpStream>::new(), [0; 4_096]);
    while !over.load(Relaxed) {
        while let Ok((stream, _)) = listener.accept() {
            accepted.push(Instant::now());
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        // Answer each read, because a small request arrives in one segment.
        streams.retain_mut(|stream| match stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(_) => stream.write_all(RESPONSE).is_ok(),
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
    }
    Ok(accepted)
}
