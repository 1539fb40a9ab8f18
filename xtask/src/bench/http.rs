//! The service `http` against nginx with one worker: a small file, requested by `wrk` over persistent connections.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use xtask::root;

use super::comparison::{Figures, compare, print_note};
use super::process::{CLIENT_CPU, SERVER_CPU, cpu_during, free_address, listen, muxbench, on_cpu, serve};
use crate::child::Process;
use crate::environment::peers;

pub(super) const CONNECTIONS: u32 = 100;
/// The name of the file that clients request.
pub(super) const FILE: &str = "file";

pub(super) fn run(count: usize, sizes: &[usize]) -> anyhow::Result<()> {
    let (binary, peers) = (muxbench()?, peers::prepare()?);
    println!(
        "GET of a file (muxbench keeps it in memory, nginx open), muxbench / nginx, wrk -t1 -c{CONNECTIONS}, {count} rounds"
    );
    for &bytes in sizes {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join(FILE), vec![b'x'; bytes])?;
        compare(
            &format!("{bytes:6} B "),
            count,
            1.0,
            || measure(&peers, |address| ours(&binary, address, folder.path())),
            || measure(&peers, |address| nginx(&peers, address, folder.path(), false)),
        )?;
    }
    print_note();
    Ok(())
}

/// Starts our `epoll` server.
pub(super) fn ours(binary: &Path, address: SocketAddr, folder: &Path) -> anyhow::Result<Process> {
    let mut command = serve(binary, "epoll", &address.into(), &["--service", "http", "--folder"]);
    command.arg(folder);
    listen(command, &address.into())
}

/// Starts nginx without a master process, because a worker would survive a killed master.
pub(super) fn nginx(peers: &Path, address: SocketAddr, folder: &Path, has_tls: bool) -> anyhow::Result<Process> {
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
    fs::write(&configuration, text)?;
    let mut command = on_cpu(SERVER_CPU, peers.join("nginx"));
    command.arg("-c").arg(&configuration).arg("-p").arg(folder).args(["-e", "stderr"]);
    listen(command, &address.into())
}

fn measure(peers: &Path, start: impl FnOnce(SocketAddr) -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
    let address = free_address()?;
    let server = start(address)?;
    let url = format!("http://{address}/{FILE}");
    let run = |duration: &str| wrk(peers, duration, &url).output().context("cannot run taskset wrk");
    // Warm up: the server opens files and grows buffers.
    wrk_figures(&run("1s")?)?;
    let (output, used_ns, busy) = cpu_during(&server.0, || run("3s"))?;
    let (rate_per_s, requests) = wrk_figures(&output)?;
    Ok(Figures { rate_per_s, cpu_ns_per_request: used_ns / requests, busy })
}

/// Returns the command that runs the client `wrk` with one thread.
pub(super) fn wrk(peers: &Path, duration: &str, url: &str) -> Command {
    let mut command = on_cpu(CLIENT_CPU, peers.join("wrk"));
    command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{duration}"), url]);
    command
}

/// Returns the rate per second and the number of requests from the output of `wrk`.
pub(super) fn wrk_figures(output: &Output) -> anyhow::Result<(f64, f64)> {
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && !text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk: {text}");
    let number = |label: &str, word: usize| {
        let line = text.lines().find(|line| line.contains(label))?;
        line.split_whitespace().nth(word)?.parse::<f64>().ok().filter(|&number| number > 0.0)
    };
    number("Requests/sec:", 1).zip(number(" requests in ", 0)).with_context(|| format!("wrk reports no rate: {text}"))
}
