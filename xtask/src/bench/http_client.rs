//! The client of HTTP from one core against `wrk -t1`, on the same nginx; and how evenly both loops of other tools and ours
//! send.

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

use super::{Bound, CLIENT_CPU, SERVER_CPU, Spread, cpu_ns_of, http};

const CONNECTIONS: u32 = 100;
const FILE: &str = "file";
/// The rate at which pacing is looked at, in requests a second, and requests on each connection there.
const RATE_PER_S: f64 = 8_000.0;
const CALLS: u32 = 10;
/// What is planned between two ticks of a timer of a millisecond goes out with the next one: the median and the 99th
/// percentile of how late that is, in µs.
const MILLISECOND_PACING_US: [f64; 2] = [500.0, 990.0];

/// What a client did.
struct Figures {
    rate_per_s: f64,
    cpu_ns_per_request: f64,
}

/// Runs `rounds` of each pair, A B A B.
pub(super) fn run(rounds: usize) -> anyhow::Result<()> {
    let peers = crate::peers::prepare()?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(FILE), [b'x'; 128])?;
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let server = http::nginx(&peers, address, folder.path())?;
    let (mut rates, mut costs, mut busy, mut per_s) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (started, before_ns) = (Instant::now(), server.cpu_ns()?);
        let ours = ours(address)?;
        let theirs = wrk(&peers, address)?;
        busy.push((server.cpu_ns()? - before_ns) as f64 / started.elapsed().as_nanos() as f64);
        rates.push(ours.rate_per_s / theirs.rate_per_s);
        costs.push(ours.cpu_ns_per_request / theirs.cpu_ns_per_request);
        per_s.push(ours.rate_per_s);
    }
    let [rate, cost, busy, per_s] = [rates, costs, busy, per_s].map(Spread::of);
    println!("GET of 128 B from nginx in a closed loop, muxbench / wrk -t1 -c{CONNECTIONS}, {rounds} rounds");
    println!("  rate {}; CPU of the client a request {cost}", rate.to_reach(Bound::AtLeast(1.0)));
    println!(
        "  ours a second {per_s}; of the server's CPU {busy}: with all of it, it is the server that was the limit"
    );
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
    let phases = Phases { ramp_ns: 500_000_000, hold_ns: 0, measure_ns: 2_000_000_000, drain_ns: 1_000_000_000 };
    let config =
        LoadConfig { rate_per_s: None, schedule: Schedule::Closed, phases, ..traffic(address, &format!("/{FILE}")) };
    let report = load::run(&config, &mut |_| ())?.report;
    ensure!(report.errors.total() == 0, "{:?}", report.errors);
    let requests = report.rate_achieved_per_s * 2.0;
    Ok(Figures { rate_per_s: report.rate_achieved_per_s, cpu_ns_per_request: report.cpu_ns as f64 / requests })
}

fn wrk(peers: &Path, address: SocketAddr) -> anyhow::Result<Figures> {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut command = Command::new("taskset");
    command.args(["-c", &CLIENT_CPU.to_string()]).arg(peers.join("wrk"));
    command.args(["-t1", &format!("-c{CONNECTIONS}"), "-d2s", &format!("http://{address}/{FILE}")]);
    let child = command.stdout(Stdio::piped()).spawn().context("cannot run taskset wrk")?;
    // taskset becomes wrk, whose CPU time is looked at while it runs.
    std::thread::sleep(Duration::from_millis(500));
    let (started, before_ns) = (Instant::now(), cpu_ns_of(child.id())?);
    std::thread::sleep(WINDOW);
    let used = (cpu_ns_of(child.id())? - before_ns) as f64 / started.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && !said.contains("Non-2xx") && !said.contains("Socket errors"), "wrk: {said}");
    let line = said.lines().find(|line| line.contains("Requests/sec:")).unwrap_or_default();
    let rate = line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    let rate_per_s = rate.with_context(|| format!("wrk tells no rate: {said}"))?;
    Ok(Figures { rate_per_s, cpu_ns_per_request: used / rate_per_s })
}

/// How late sessions of ten requests begin, as a server sees them accepted, that a client begins at constant intervals.
pub(super) fn pacing(rounds: usize) -> anyhow::Result<()> {
    let peers = crate::peers::prepare()?;
    let mut lags = [Vec::new(), Vec::new()];
    let mut late = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..rounds {
        let mut lag_us = [0.0; 2];
        let ours = accepted(|address| {
            let phases =
                Phases { ramp_ns: 0, hold_ns: 500_000_000, measure_ns: 3_500_000_000, drain_ns: 10_000_000_000 };
            let config = LoadConfig {
                rate_per_s: Some(RATE_PER_S),
                schedule: Schedule::Constant,
                calls_per_connection: Some(CALLS),
                phases,
                ..traffic(address, "/")
            };
            let report = load::run(&config, &mut |_| ())?.report;
            ensure!(report.errors.total() == 0, "{:?}", report.errors);
            // Of all requests but the last of a session t1 is when the response before it came: of the first it is planned.
            lag_us = [report.lag.distribution.p50_ns, report.lag.distribution.p99_ns].map(|ns| ns as f64 / 1e3);
            Ok(())
        })?;
        let theirs = accepted(|address| httperf(&peers, address))?;
        for which in 0..2 {
            lags[which].push(lag_us[which]);
            late[0][which].push(ours[which]);
            late[1][which].push(theirs[which]);
        }
    }
    let [lag_p50, lag_p99] = lags.map(Spread::of);
    let [ours, theirs] = late.map(|figures| figures.map(Spread::of));
    println!(
        "sessions of {CALLS} requests at constant intervals, {RATE_PER_S} requests/s, in µs, {rounds} rounds of 4 s"
    );
    let [p50, p99] = MILLISECOND_PACING_US;
    println!("  a timer of a millisecond   p50 {p50}; p99 {p99}; to reach is a tenth of it");
    let told = [lag_p50.to_reach(Bound::AtMost(p50 / 10.0)), lag_p99.to_reach(Bound::AtMost(p99 / 10.0))];
    println!("  lag by our own account     p50 {}; p99 {}", told[0], told[1]);
    println!("  late as accepted, muxbench p50 {}; p99 {}", ours[0], ours[1]);
    println!("  late as accepted, httperf  p50 {}; p99 {}", theirs[0], theirs[1]);
    calibrated()
}

/// What `calibrate` finds at that rate: what the client adds to a response time that is known.
fn calibrated() -> anyhow::Result<()> {
    let rate = RATE_PER_S.to_string();
    let flags = ["--rate", &rate, "--connections", "400", "--hold", "100us,1ms", "--law", "fixed", "--quiet"];
    let output = Command::new(super::muxbench()?).arg("calibrate").args(flags).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "calibrate: {}", String::from_utf8_lossy(&output.stderr));
    println!("muxbench calibrate {}", flags.join(" "));
    said.lines().for_each(|line| println!("  {line}"));
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
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && said.contains("Errors: total 0 "), "httperf: {said}");
    Ok(())
}

/// Runs `client` against a server of one thread that does nothing else, and says how late connections came of which one was due
/// at constant intervals: the median and the 99th percentile, in µs, beyond the one that came first.
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
    // The first connection is not of the schedule: ours verifies the server by it.
    let came: Vec<f64> = accepted.iter().skip(1).map(|at| (*at - accepted[0]).as_nanos() as f64 / 1e3).collect();
    if came.len() < 1_000 {
        bail!("only {} connections came", came.len());
    }
    let interval_us = 1e6 / (RATE_PER_S / f64::from(CALLS));
    let mut late: Vec<f64> = came.iter().enumerate().map(|(at, us)| us - at as f64 * interval_us).collect();
    late.sort_by(f64::total_cmp);
    // Against one of the earliest, not the very first, which a clock may have hurried.
    let earliest = late[late.len() / 1_000];
    let rank = |share: f64| late[((late.len() as f64 * share) as usize).min(late.len() - 1)] - earliest;
    Ok([rank(0.5), rank(0.99)])
}

/// Answers whoever asks, and notes when each connection came. It does not sleep, on a CPU of its own, with the few
/// connections that there are at a time.
fn serve(listener: &TcpListener, over: &AtomicBool) -> anyhow::Result<Vec<Instant>> {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut cpus = CpuSet::new();
    cpus.set(SERVER_CPU.parse()?);
    rustix::thread::sched_setaffinity(None, &cpus)?;
    rustix::net::listen(listener, 4_096)?;
    listener.set_nonblocking(true)?;
    let (mut accepted, mut streams, mut inbox) = (Vec::with_capacity(100_000), Vec::<TcpStream>::new(), [0; 4_096]);
    while !over.load(Relaxed) {
        while let Ok((stream, _)) = listener.accept() {
            accepted.push(Instant::now());
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        // A small request comes whole.
        streams.retain_mut(|stream| match stream.read(&mut inbox) {
            Ok(0) => false,
            Ok(_) => stream.write_all(RESPONSE).is_ok(),
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
    }
    Ok(accepted)
}
