//! Effect of thousands of hostile clients on honest clients: the p99 of the honest clients' latency with and without them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use load::LoadResult;
use load::config::{HttpTarget, HttpTraffic, LoadConfig, Pacing, Timestamps};
use load::tools::hostile::{MANNERS, Tally, manner};
use wire::ServiceSpec;

use super::loads::{CONNECTIONS, load_read, phases};
use super::spread::{Bound, rounds};
use crate::hostile::Hostile;
use crate::process::{CLIENT_CPU, SERVER_CPU, Server, cpu_ns, muxbench, wait_until};

/// Number of hostile clients. A third reconnects repeatedly: at any time a ninth of all is disconnected, and 10 000 are connected.
const HOSTILE: u32 = 11_250;
/// Share of the hostile clients that must be connected before the measurement.
const CONNECTED_MIN: f64 = 0.85;
const RATE_PER_S: f64 = 2_000.0;
const SERVICE: ServiceSpec = ServiceSpec::HTTP;
/// Acts of each hostile client per second. `slow-writer`s together send 3 750 bytes per second. `garbage` clients reconnect
/// after three acts, so together they open 1 250 connections per second.
const ACTS_PER_S: f64 = 1.0;
/// Windows of one measurement. The median of their percentiles ignores a pause caused by another process.
const WINDOWS: usize = 5;
const WINDOW_MS: u64 = 1_200;
/// Limit on the ratio of the 99th percentiles, with to without hostile clients.
const LIMIT: f64 = 3.0;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Architectures, with commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "epoll,epoll-et,io_uring,io_uring-poll,symped:1/epoll,amped:0+1/epoll,seda:1+1/epoll,tokio,poll,select"
    )]
    arch: Vec<String>,
    /// Hostile clients
    #[arg(long, default_value_t = HOSTILE)]
    hostile: u32,
    /// Manners of hostile clients, with commas, or `all`
    #[arg(long, value_delimiter = ',', default_value = "half,slow-writer,garbage")]
    manners: Vec<String>,
    /// Honest requests a second
    #[arg(long, default_value_t = RATE_PER_S)]
    rate: f64,
}

/// Measures an honest load alone and with hostile clients, in turn.
pub(super) fn run(count: usize, args: &Options) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let known: Vec<&str> = MANNERS.iter().map(|manner| manner.name).collect();
    let manners =
        if args.manners == ["all"] { known.iter().map(|&it| it.to_owned()).collect() } else { args.manners.clone() };
    if let Some(unknown) = manners.iter().find(|name| manner(name).is_none()) {
        bail!("unknown --manners `{unknown}`: use {} or all", known.join(", "));
    }
    println!(
        "p99 of the latency of {CONNECTIONS} honest connections at {} requests/s of http, by the kernel's timestamps, with {} hostile \
         clients ({}) / without them; median of {count} rounds (lowest to highest), each the median of {WINDOWS} windows of {WINDOW_MS} ms",
        args.rate,
        args.hostile,
        manners.join(", "),
    );
    for architecture in &args.arch {
        let [ratio, client_ratio, alone_us, hostile_us, alone_busy, busy, open, begun_per_s] = rounds(count, || {
            let crowd = |manners| measure(args, &binary, architecture, manners).with_context(|| architecture.clone());
            let [p99, client_p99, alone_busy, ..] = crowd(&[])?;
            let [hostile_p99, hostile_client_p99, busy, open, begun] = crowd(&manners)?;
            let client_ratio = hostile_client_p99 / client_p99;
            Ok([hostile_p99 / p99, client_ratio, p99, hostile_p99, alone_busy, busy, open, begun])
        })?;
        println!("  {architecture:16} {}; by the client's clock {client_ratio}", ratio.check(Bound::AtMost(LIMIT)));
        println!("      p99 in µs {alone_us} without, {hostile_us} with hostile clients");
        println!("      share of the server's CPU {alone_busy} and {busy}");
        println!("      hostile connections {open}, new ones a second {begun_per_s}");
    }
    Ok(())
}

/// Returns medians over windows: the 99th percentile in µs by the kernel's timestamps, which exclude waits for the
/// client's CPU, and by the client's clock; the server's share of its CPU; open hostile connections, and new ones per second.
fn measure(args: &Options, binary: &Path, architecture: &str, manners: &[String]) -> anyhow::Result<[f64; 5]> {
    let server = Server::start(binary, architecture, &["--service=http", &format!("--cpus={SERVER_CPU}")])?;
    let mut crowd = None;
    if !manners.is_empty() {
        let config =
            honest(args, &server).with(|it| (it.connections, it.client.cpus) = (args.hostile, vec![CLIENT_CPU]));
        let mut hostile = Hostile::start(config, manners.to_vec(), ACTS_PER_S);
        let connected = (f64::from(args.hostile) * CONNECTED_MIN) as u32;
        hostile.wait_until("the hostile clients are connected", |tally| tally.open >= connected.into())?;
        let condition = format!("the server has accepted {connected} connections (limit of descriptors: ulimit -Hn)");
        wait_until(&condition, Duration::from_secs(60), || {
            let descriptors =
                fs::read_dir(format!("/proc/{}/fd", server.process.0.id())).context("the server ended")?;
            Ok(descriptors.count() >= connected as usize * 9 / 10)
        })?;
        crowd = Some(hostile);
    }
    let tally = || crowd.as_ref().map(Hostile::tally).unwrap_or_default();
    let figures = rounds(WINDOWS, || window(args, &server, &tally))?;
    if crowd.is_some() {
        ensure!(tally().open >= u64::from(args.hostile) / 2, "most hostile clients are disconnected: {:?}", tally());
    }
    Ok(figures.map(|spread| spread.median()))
}

/// Measures one honest load while the hostile clients, if any, stay connected.
fn window(args: &Options, server: &Server, tally: &dyn Fn() -> Tally) -> anyhow::Result<[f64; 5]> {
    let (report, [first, last]) = load_read(&honest(args, server), || Ok((cpu_ns(&server.process)?, tally())))?;
    let LoadResult { kernel, service, planned, completed, .. } = &report;
    ensure!(planned == completed, "{completed} of {planned} requests answered");
    let kernel = &kernel.as_ref().context("there are no timestamps of the kernel")?.service;
    let elapsed_ns = (last.0 - first.0) as f64;
    let ((cpu_before_ns, before), (cpu_after_ns, after)) = (first.2, last.2);
    let p99_us = [kernel, service].map(|latency| latency.distribution.p99_ns as f64 / 1e3);
    let busy = (cpu_after_ns - cpu_before_ns) as f64 / elapsed_ns;
    let begun_per_s = (after.begun - before.begun) as f64 * 1e9 / elapsed_ns;
    Ok([p99_us[0], p99_us[1], busy, after.open as f64, begun_per_s])
}

fn honest(args: &Options, server: &Server) -> LoadConfig {
    LoadConfig::new(server.address, SERVICE).with(|it| {
        it.connections = CONNECTIONS;
        it.set_rate(Some(args.rate));
        it.http = Some(HttpTraffic::new(vec![HttpTarget::get("/bytes/1024", Some(1024))]));
        it.phases = phases([100, 100, WINDOW_MS, 10_000]);

        // Leave the CPU to the hostile clients while no request is due.

        it.client.pacing = Pacing::SleepSpin;
        it.client.cpus = vec![CLIENT_CPU];
        it.client.timestamps = Timestamps::Kernel;
        it.client.timeout_ns = 30_000_000_000;
    })
}
