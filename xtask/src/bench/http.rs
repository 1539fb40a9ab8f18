//! The service `http` against nginx with one worker: how many requests a second for a small file each answers to the same
//! `wrk`, whose connections stay.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::{Bound, CLIENT_CPU, Process, SERVER_CPU, Spread, muxbench};

const CONNECTIONS: u32 = 100;
const FILE: &str = "file";

/// Runs `rounds` of each pair, A B A B.
pub(super) fn run(rounds: usize, sizes: &[usize]) -> anyhow::Result<()> {
    let peers = crate::peers::prepare()?;
    println!(
        "GET of a file that both keep open or in memory, muxbench / nginx, wrk -t1 -c{CONNECTIONS}, {rounds} rounds"
    );
    for &bytes in sizes {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join(FILE), vec![b'x'; bytes])?;
        let (mut rates, mut costs, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mine = measure(&peers, bytes, |address| ours(address, folder.path()))?;
            let theirs = measure(&peers, bytes, |address| nginx(&peers, address, folder.path()))?;
            rates.push(mine.rate_per_s / theirs.rate_per_s);
            costs.push(mine.cpu_ns_per_request / theirs.cpu_ns_per_request);
            busy.push(mine.busy.min(theirs.busy));
        }
        let [rate, cost, busy] = [rates, costs, busy].map(Spread::of);
        let rate = rate.to_reach(Bound::AtLeast(1.0));
        println!("  {bytes:6} B  rate {rate}; CPU a request {cost}  of the server's CPU {busy}");
    }
    println!("  both had the machine to themselves if they had all of the server's CPU");
    Ok(())
}

fn ours(address: SocketAddr, folder: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(muxbench()?);
    command.args(["serve", "--service", "http", "--arch", "epoll", "--cpus", SERVER_CPU]);
    command.args(["--listen", &address.to_string(), "--folder"]).arg(folder);
    Process::start(command, || TcpStream::connect(address).is_ok())
}

/// One worker without a master, which would leave it behind when it is killed.
pub(super) fn nginx(peers: &Path, address: SocketAddr, folder: &Path) -> anyhow::Result<Process> {
    let place = folder.display();
    // The file stays open, nothing is logged, and no connection ends by the number of its requests. A small file costs it
    // less CPU read and written with its head than with sendfile, tcp_nopush or not: 12 µs a request against 15 and 17.
    let said = format!(
        "daemon off; master_process off; pid {place}/nginx.pid; error_log stderr crit;
         events {{ use epoll; worker_connections 1024; multi_accept on; }}
         http {{
           access_log off; sendfile off; tcp_nodelay on;
           keepalive_timeout 75s; keepalive_requests 1000000000;
           open_file_cache max=16 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;
           client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
           uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
           server {{ listen {address} backlog=4096; root {place}; }}
         }}"
    );
    let configuration = folder.join("nginx.conf");
    fs::write(&configuration, said)?;
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_CPU]).arg(peers.join("nginx")).arg("-c").arg(&configuration);
    command.arg("-p").arg(folder).args(["-e", "stderr"]);
    Process::start(command, || TcpStream::connect(address).is_ok())
}

/// What one server did for the client.
struct Figures {
    rate_per_s: f64,
    /// CPU time of its threads.
    cpu_ns_per_request: f64,
    /// The share of its CPU that this was. With little of it, others had the CPU, and the rate says nothing.
    busy: f64,
}

fn measure(
    peers: &Path,
    bytes: usize,
    start: impl FnOnce(SocketAddr) -> anyhow::Result<Process>,
) -> anyhow::Result<Figures> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let server = start(address)?;
    let url = format!("http://{address}/{FILE}");
    let wrk = |time: &str| -> anyhow::Result<String> {
        let mut command = Command::new("taskset");
        command.args(["-c", &CLIENT_CPU.to_string()]).arg(peers.join("wrk"));
        command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{time}"), &url]);
        let output = command.output().context("cannot run taskset wrk")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success() && !said.contains("Non-2xx") && !said.contains("Socket errors"), "wrk: {said}");
        Ok(said)
    };
    // What is opened and grown at first.
    wrk("1s")?;
    let (started, before_ns) = (Instant::now(), server.cpu_ns()?);
    let said = wrk("3s")?;
    let (elapsed, cpu_ns) = (started.elapsed(), (server.cpu_ns()? - before_ns) as f64);
    let line = |sign: &str| said.lines().find(|line| line.contains(sign)).map(str::trim).unwrap_or_default();
    let rate = line("Requests/sec:").split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    let requests = line(" requests in ").split(' ').next().and_then(|word| word.parse::<f64>().ok());
    let (Some(rate_per_s), Some(requests)) = (rate, requests) else { bail!("wrk tells no rate: {said}") };
    ensure!(requests > 0.0, "wrk had no response of {bytes} B: {said}");
    Ok(Figures { rate_per_s, cpu_ns_per_request: cpu_ns / requests, busy: cpu_ns / elapsed.as_nanos() as f64 })
}
