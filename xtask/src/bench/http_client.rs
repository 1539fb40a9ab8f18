//! The HTTP client on one core against `wrk -t1`, on the same nginx; and its pacing against `httperf`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use load::config::{HttpTarget, HttpTraffic, LoadConfig, Phases, Schedule};
use rustix::thread::CpuSet;
use wire::ServiceSpec;

use super::process::{CLIENT_CPU, SERVER_CPU, cpu_ns_of, free_address, muxbench};
use super::spread::{Bound, Spread};
use super::wrk::CONNECTIONS;
use super::{http, wrk};
use crate::environment::peers;

const FILE: &str = "file";
/// Rate of the pacing measurement, in requests per second.
const RATE_PER_S: f64 = 8_000.0;
/// Requests per connection of the pacing measurement.
const CALLS: u32 = 10;
/// Median and 99th percentile, in µs, of the delay that a timer with a resolution of one millisecond adds.
const MILLISECOND_DELAY_US: [f64; 2] = [500.0, 990.0];

/// The figures of one client.
struct Figures {
    rate_per_s: f64,
    cpu_ns_per_request: f64,
}

pub(super) fn run(rounds: usize) -> anyhow::Result<()> {
    let peers = peers::prepare()?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(FILE), [b'x'; 128])?;
    let address = free_address()?;
    let server = http::nginx(&peers, address, folder.path())?;
    let (mut rates, mut costs, mut busy, mut per_s) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (started, before_ns) = (Instant::now(), server.cpu_ns()?);
        let ours = ours(address)?;
        let theirs = run_wrk(&peers, address)?;
        busy.push((server.cpu_ns()? - before_ns) as f64 / started.elapsed().as_nanos() as f64);
        rates.push(ours.rate_per_s / theirs.rate_per_s);
        costs.push(ours.cpu_ns_per_request / theirs.cpu_ns_per_request);
        per_s.push(ours.rate_per_s);
    }
    let [rate, cost, busy, per_s] = [rates, costs, busy, per_s].map(Spread::of);
    println!("GET of 128 B from nginx in a closed loop, muxbench / wrk -t1 -c{CONNECTIONS}, {rounds} rounds");
    println!("  rate {}; CPU of the client a request {cost}", rate.check(Bound::AtLeast(1.0)));
    println!("  our requests a second {per_s}; share of the server's CPU {busy} (near 1, the server was the limit)");
    Ok(())
}

fn traffic(address: SocketAddr, path: &str) -> LoadConfig {
    let targets = vec![HttpTarget { path: path.to_owned(), body_bytes: None }];
    LoadConfig {
        connections: CONNECTIONS,
        http: Some(HttpTraffic { host: None, targets, headers: Vec::new(), status: 200 }),
        cpus: vec![CLIENT_CPU],
        ..LoadConfig::new(address, ServiceSpec::Http { folder: None })
    }
}

fn ours(address: SocketAddr) -> anyhow::Result<Figures> {
    let phases = Phases { ramp_ns: 500_000_000, warm_up_ns: 0, measure_ns: 2_000_000_000, cool_down_ns: 1_000_000_000 };
    let config =
        LoadConfig { rate_per_s: None, schedule: Schedule::Closed, phases, ..traffic(address, &format!("/{FILE}")) };
    let report = load::run(&config, &mut |_| ())?.report;
    ensure!(report.errors.total() == 0, "{:?}", report.errors);
    let requests = report.rate_achieved_per_s * 2.0;
    Ok(Figures { rate_per_s: report.rate_achieved_per_s, cpu_ns_per_request: report.cpu_ns as f64 / requests })
}

fn run_wrk(peers: &Path, address: SocketAddr) -> anyhow::Result<Figures> {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut command = wrk::command(peers, "2s", &format!("http://{address}/{FILE}"));
    let child = command.stdout(Stdio::piped()).spawn().context("cannot run taskset wrk")?;
    // taskset becomes wrk by exec; its CPU time is readable only while it runs.
    std::thread::sleep(Duration::from_millis(500));
    let (started, before_ns) = (Instant::now(), cpu_ns_of(child.id())?);
    std::thread::sleep(WINDOW);
    let used = (cpu_ns_of(child.id())? - before_ns) as f64 / started.elapsed().as_secs_f64();
    let (rate_per_s, _) = wrk::figures(&child.wait_with_output()?)?;
    Ok(Figures { rate_per_s, cpu_ns_per_request: used / rate_per_s })
}

/// Measures the delay of sessions that a client starts at constant intervals, as the server's `accept` sees it.
pub(super) fn pacing(rounds: usize) -> anyhow::Result<()> {
    let peers = peers::prepare()?;
    let mut delays = [Vec::new(), Vec::new()];
    let mut late = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..rounds {
        let mut delay_us = [0.0; 2];
        let ours = accepted(|address| {
            let phases =
                Phases { ramp_ns: 0, warm_up_ns: 500_000_000, measure_ns: 3_500_000_000, cool_down_ns: 10_000_000_000 };
            let config = LoadConfig {
                rate_per_s: Some(RATE_PER_S),
                schedule: Schedule::Constant,
                requests_per_connection: Some(CALLS),
                phases,
                ..traffic(address, "/")
            };
            let report = load::run(&config, &mut |_| ())?.report;
            ensure!(report.errors.total() == 0, "{:?}", report.errors);
            // Only the first request of a session has a planned time; the others follow a response.
            delay_us = [report.send_delay.distribution.p50_ns, report.send_delay.distribution.p99_ns]
                .map(|ns| ns as f64 / 1e3);
            Ok(())
        })?;
        let theirs = accepted(|address| httperf(&peers, address))?;
        for which in 0..2 {
            delays[which].push(delay_us[which]);
            late[0][which].push(ours[which]);
            late[1][which].push(theirs[which]);
        }
    }
    let [delay_p50, delay_p99] = delays.map(Spread::of);
    let [ours, theirs] = late.map(|figures| figures.map(Spread::of));
    println!(
        "sessions of {CALLS} requests at constant intervals, {RATE_PER_S} requests/s, in µs, {rounds} rounds of 4 s"
    );
    let [p50, p99] = MILLISECOND_DELAY_US;
    println!("  timer of one millisecond    p50 {p50}; p99 {p99}; the limit is a tenth of it");
    let [delay_p50, delay_p99] =
        [delay_p50.check(Bound::AtMost(p50 / 10.0)), delay_p99.check(Bound::AtMost(p99 / 10.0))];
    println!("  send delay, as reported     p50 {delay_p50}; p99 {delay_p99}");
    println!("  delay at accept, muxbench   p50 {}; p99 {}", ours[0], ours[1]);
    println!("  delay at accept, httperf    p50 {}; p99 {}", theirs[0], theirs[1]);
    calibrate()
}

/// Prints the result of `calibrate` at that rate: the client's error for a known latency.
fn calibrate() -> anyhow::Result<()> {
    let rate = RATE_PER_S.to_string();
    let flags = ["--rate", &rate, "--connections", "400", "--hold", "100us,1ms", "--law", "fixed", "--quiet"];
    let output = Command::new(muxbench()?).arg("calibrate").args(flags).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "calibrate: {}", String::from_utf8_lossy(&output.stderr));
    println!("muxbench calibrate {}", flags.join(" "));
    text.lines().for_each(|line| println!("  {line}"));
    Ok(())
}

fn httperf(peers: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let mut command = Command::new("taskset");
    command.args(["-c", &CLIENT_CPU.to_string()]).arg(peers.join("httperf"));
    let sessions_per_s = RATE_PER_S / f64::from(CALLS);
    command.args(["--hog", "--server", "127.0.0.1", "--port", &address.port().to_string(), "--uri", "/"]);
    command.args(["--rate", &sessions_per_s.to_string(), "--num-conns", &(4.0 * sessions_per_s).to_string()]);
    command.args(["--num-calls", &CALLS.to_string()]);
    let output = command.output().context("cannot run taskset httperf")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("Errors: total 0 "), "httperf: {text}");
    Ok(())
}

/// Runs a client against a minimal server; returns the median and the 99th percentile of the delay of its
/// connections, in µs. Connections are due at constant intervals; the earliest counts as punctual.
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
    let came: Vec<f64> = accepted.iter().skip(1).map(|at| (*at - accepted[0]).as_nanos() as f64 / 1e3).collect();
    if came.len() < 1_000 {
        bail!("only {} connections were accepted", came.len());
    }
    let interval_us = 1e6 / (RATE_PER_S / f64::from(CALLS));
    let mut late: Vec<f64> = came.iter().enumerate().map(|(at, us)| us - at as f64 * interval_us).collect();
    late.sort_by(f64::total_cmp);
    // Use one of the earliest as reference, because the very first may be an outlier of the clock.
    let earliest = late[late.len() / 1_000];
    let rank = |share: f64| late[((late.len() as f64 * share) as usize).min(late.len() - 1)] - earliest;
    Ok([rank(0.5), rank(0.99)])
}

/// Answers all requests and records when it accepted each connection. It polls on its own CPU without sleeping.
fn serve(listener: &TcpListener, over: &AtomicBool) -> anyhow::Result<Vec<Instant>> {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut cpus = CpuSet::new();
    cpus.set(SERVER_CPU.parse()?);
    rustix::thread::sched_setaffinity(None, &cpus)?;
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
        // A small request arrives in one segment.
        streams.retain_mut(|stream| match stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(_) => stream.write_all(RESPONSE).is_ok(),
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
    }
    Ok(accepted)
}
