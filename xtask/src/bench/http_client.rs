//! The HTTP client's rate on one core against `wrk -t1`, with the same server: nginx over http and https, and ours.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use load::config::{HttpTarget, HttpTraffic, LoadConfig, TlsConfig};
use wire::ServiceSpec;
use xtask::root;

use super::loads::{closed, load_result, phases};
use super::spread::{Bound, rounds};
use crate::environment::peers;
use crate::process::{CLIENT_CPU, Process, SERVER_CPU, Server, cpu_ns, free_address, listen, muxbench, on_cpu, start};

/// The largest ratio of the CPU time of a request over plain HTTP.
const COST_MAX: f64 = 0.85;
const CONNECTIONS: u32 = 100;
/// The name of the file that clients request.
const FILE: &str = "file";

pub(super) fn run(count: usize) -> anyhow::Result<()> {
    let (binary, peers) = (muxbench()?, peers::prepare()?);
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(FILE), [b'x'; 128])?;
    println!("GET of 128 B in a closed loop, muxbench / wrk -t1 -c{CONNECTIONS}, {count} rounds");
    for scheme in ["http", "https"] {
        let address = free_address()?;
        let server = nginx(&peers, address, folder.path(), scheme == "https")?;
        compare(&format!("nginx, {scheme}"), count, &server, &peers, &format!("{scheme}://{address}"))?;
    }
    let [cpus, content] = [format!("--cpus={SERVER_CPU}"), format!("--folder={}", folder.path().display())];
    let server = Server::start(&binary, "epoll", &["--service=http", &cpus, &content])?;
    compare("our epoll, http", count, &server.process, &peers, &format!("http://{}", server.address))
}

/// Prints the ratios of both clients at a server.
fn compare(name: &str, count: usize, server: &Process, peers: &Path, url: &str) -> anyhow::Result<()> {
    let has_tls = url.starts_with("https");
    let (_, address) = url.split_once("://").context("a URL")?;
    let address: SocketAddr = address.parse()?;
    let [rate, cost, busy, per_s] = rounds(count, || {
        let (started, before_ns) = (Instant::now(), cpu_ns(server)?);
        let (ours, theirs) = (ours(address, has_tls)?, wrk(peers, &format!("{url}/{FILE}"))?);
        let busy = (cpu_ns(server)? - before_ns) as f64 / started.elapsed().as_nanos() as f64;
        Ok([ours[0] / theirs[0], ours[1] / theirs[1], busy, ours[0]])
    })?;
    // With TLS most of the client's time goes to the ciphers.
    let cost = if has_tls { cost.to_string() } else { cost.check(Bound::AtMost(COST_MAX)) };
    println!("  {name}: rate {}; client CPU time per request {cost}", rate.check(Bound::AtLeast(1.0)));
    println!(
        "    muxbench's requests per second {per_s}; the server's share of its CPU {busy} (near 1: the server was the limit)"
    );
    Ok(())
}

/// Returns the rate per second of our client, and its CPU time per request in nanoseconds. Like `wrk`, it accepts any certificate.
fn ours(address: SocketAddr, has_tls: bool) -> anyhow::Result<[f64; 2]> {
    let tls = TlsConfig { server_name: address.ip().to_string(), is_insecure: true, ..TlsConfig::default() };
    let traffic = LoadConfig::new(address, ServiceSpec::HTTP).with(|it| {
        it.connections = CONNECTIONS;
        it.http = Some(HttpTraffic::new(vec![HttpTarget::get(format!("/{FILE}"), None)]));
        it.client.tls = has_tls.then_some(tls);
    });
    let report = load_result(&closed(phases([500, 0, 2_000, 1_000]), traffic))?;
    let requests = report.rate_achieved_per_s * 2.0;
    Ok([report.rate_achieved_per_s, report.cpu_ns as f64 / requests])
}

/// Returns the rate per second of wrk, and its CPU time per request in nanoseconds.
fn wrk(peers: &Path, url: &str) -> anyhow::Result<[f64; 2]> {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut command = on_cpu(CLIENT_CPU, peers.join("wrk"));
    command.args(["-t1", &format!("-c{CONNECTIONS}"), "-d2s", url]);
    let mut wrk = start(command.stdout(Stdio::piped()))?;
    // taskset becomes wrk by exec; its CPU time is readable only while it runs.
    thread::sleep(Duration::from_millis(500));
    let before_ns = cpu_ns(&wrk)?;
    thread::sleep(WINDOW);
    let used_ns = (cpu_ns(&wrk)? - before_ns) as f64 / WINDOW.as_secs_f64();
    let text = std::io::read_to_string(wrk.0.stdout.take().context("standard output is piped")?)?;
    let is_clean = wrk.0.wait()?.success() && !text.contains("Non-2xx") && !text.contains("Socket errors");
    ensure!(is_clean, "wrk: {text}");
    let rate_per_s = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse::<f64>().ok());
    let rate_per_s = rate_per_s.with_context(|| format!("wrk reports no rate: {text}"))?;
    Ok([rate_per_s, used_ns / rate_per_s])
}

/// Starts nginx without a master process, because a worker would survive a killed master.
fn nginx(peers: &Path, address: SocketAddr, folder: &Path, has_tls: bool) -> anyhow::Result<Process> {
    let (place, keys) = (folder.display(), root().join("crates/load/tests/tls/localhost"));
    let tls = if has_tls {
        format!("ssl; ssl_certificate {0}.pem; ssl_certificate_key {0}.key", keys.display())
    } else {
        String::new()
    };
    // The file stays open, logs are off, and the limit of requests per connection is not reached. For a small file nginx uses
    // 12 µs of CPU per request without sendfile, 15 µs with sendfile and tcp_nopush, and 17 µs with sendfile alone.
    let text = format!(
        "daemon off; master_process off; pid {place}/nginx.pid; error_log stderr crit;
         events {{ use epoll; worker_connections 1024; multi_accept on; }}
         http {{
           access_log off; sendfile off; tcp_nodelay on;
           keepalive_timeout 75s; keepalive_requests 1000000000;
           open_file_cache max=16 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;
           client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
           uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
           server {{ listen {address} backlog=4096 {tls}; root {place}; }}
         }}"
    );
    let configuration = folder.join("nginx.conf");
    xtask::write(&configuration, &text)?;
    let mut command = on_cpu(SERVER_CPU, peers.join("nginx"));
    command.arg("-c").arg(&configuration).arg("-p").arg(folder).args(["-e", "stderr"]);
    listen(&mut command, address)
}
