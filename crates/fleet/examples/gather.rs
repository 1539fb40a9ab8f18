//! Measures how fast the first of six workers gathers the samples that the clients of the other five generate. Each round
//! prints a line of JSON with the seconds to collect the samples, to merge them, and to merge the same samples in one process.
//! Start it with `cargo run --release -p muxbench-fleet --example gather -- SAMPLES ROUNDS`.

use std::io::BufRead;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use harness::clients::{self, Fleet};
use harness::record::LoadOrder;
use harness::spec::presets;
use harness::{host, plan, samples};
use load::config::{LoadConfig, Phases};
use load::report::merge::{self, Account};
use load::report::samples::{measured, response_ns, send_delay_ns, service_ns};
use load::report::{LoadReport, Outstanding};
use load::{Event, Sample};
use muxbench_fleet::workers::{LossPolicy, Workers};
use muxbench_fleet::{launcher, worker};

const RANKS: u32 = 6;
/// The clients' window.
const WINDOW_NS: u64 = 1_000_000_000;
/// The lowest service time.
const SERVICE_NS: i64 = 50_000;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", .., path] => client(Path::new(path)),
        ["rank", samples, rounds] => run_worker(samples.parse()?, rounds.parse()?),
        [samples, rounds] => start_workers(samples, rounds),
        _ => bail!("usage: gather SAMPLES ROUNDS"),
    }
}

/// Starts all workers as a launcher would.
fn start_workers(samples: &str, rounds: &str) -> anyhow::Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let start = |rank: u32| -> anyhow::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["rank", samples, rounds]).env("MUXBENCH_SECRET", "gather");
        command.env("MUXBENCH_RANK", rank.to_string()).env("MUXBENCH_RANKS", RANKS.to_string());
        command.env("MUXBENCH_RENDEZVOUS", format!("127.0.0.1:{port}")).stdin(Stdio::null());
        Ok(command.spawn()?)
    };
    let workers = (0..RANKS).map(start).collect::<anyhow::Result<Vec<Child>>>()?;
    // All other workers end when the first one does.
    for mut worker in workers {
        let status = worker.wait()?;
        ensure!(status.success(), "a worker failed ({status})");
    }
    Ok(())
}

fn run_worker(samples: u64, rounds: usize) -> anyhow::Result<()> {
    let place = launcher::membership().map_err(anyhow::Error::msg)?;
    if place.rank > 0 {
        return worker::run(&place, &std::env::current_exe()?);
    }
    let mut workers = Workers::accept_all(&place, LossPolicy::EndRun)?;
    let folder = tempfile::tempdir()?;
    let draft = folder.path().join("samples");
    for _ in 0..rounds {
        let order = order(samples)?;
        let mut hook = |_: Option<&Event>| Ok(Instant::now() + Duration::from_millis(200));
        workers.broadcast(&order, &draft)?;
        workers.await_ready(&mut hook)?;
        workers.begin(&mut hook)?;
        let started = Instant::now();
        let gathered = workers.gather(0, &mut hook)?;
        let gather_s = started.elapsed().as_secs_f64();
        workers.dismiss();
        let started = Instant::now();
        let report = clients::merge(&order, gathered, &draft)?;
        let merge_s = started.elapsed().as_secs_f64();
        ensure!(
            report.planned == report.service.distribution.count,
            "{} requests, {} ordered",
            report.planned,
            samples
        );
        let alone_s = alone(&order, &folder.path().join("alone"))?;
        println!(
            "{}",
            serde_json::json!({
                "samples": report.planned, "gather_s": gather_s, "merge_s": merge_s, "alone_s": alone_s
            })
        );
    }
    Ok(())
}

/// A trial with this number of requests.
fn order(samples: u64) -> anyhow::Result<LoadOrder> {
    let experiment = presets::find("compare").context("no preset `compare`")?.experiment();
    let mut trial = plan::plan(&experiment, &host::detect()).map_err(anyhow::Error::msg)?.trials.remove(0);
    let phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: WINDOW_NS, cool_down_ns: 0 };
    trial.load = LoadConfig {
        rate_per_s: Some(samples as f64 * 1e9 / WINDOW_NS as f64),
        phases,
        processes: RANKS - 1,
        ..trial.load
    };
    Ok(LoadOrder::new(trial.load.clone(), trial))
}

/// A client that has its results as soon as it is started.
fn client(path: &Path) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut read = || lines.next().context("standard input ended")?.context("standard input");
    let LoadOrder { config, .. } = serde_json::from_str(&read()?)?;
    let samples = generated(&config);
    samples::write(path, &samples, &samples::parameters(&config, None)?)?;
    let report = Box::new(report(&config, &samples));
    println!("{}", serde_json::to_string(&Event::Ready)?);
    read()?;
    println!("{}", serde_json::to_string(&Event::Finished { report })?);
    // The client ends when its standard input ends.
    let _ = read();
    Ok(())
}

/// Seconds to merge the same samples in this process.
fn alone(order: &LoadOrder, draft: &Path) -> anyhow::Result<f64> {
    let parts: Vec<(LoadConfig, Vec<Sample>)> =
        order.config.parts().into_iter().map(|config| (config.clone(), generated(&config))).collect();
    let account = |(config, samples): &(LoadConfig, Vec<Sample>)| Account {
        config: config.clone(),
        machine: String::new(),
        place: String::new(),
        report: report(config, samples),
        cpus_used: None,
    };
    let accounts: Vec<Account> = parts.iter().map(account).collect();
    let started = Instant::now();
    let merged = merge::samples(parts);
    samples::write(draft, &merged, &samples::parameters(&order.config, Some(&order.trial))?)?;
    let report = merge::report(&order.config, &accounts, &merged);
    ensure!(report.planned == merged.len() as u64, "{} samples of {} requests", merged.len(), report.planned);
    Ok(started.elapsed().as_secs_f64())
}

/// Requests at a constant rate, with varying latencies.
fn generated(config: &LoadConfig) -> Vec<Sample> {
    let count = (config.rate_per_s.unwrap_or(0.0) * WINDOW_NS as f64 / 1e9).round() as i64;
    let part = config.part.map_or(0, |part| i64::from(part.number));
    let sample = |at: i64| {
        let planned_ns = at * WINDOW_NS as i64 / count + part;
        let sent_ns = planned_ns + at % 97 * 10;
        Sample {
            planned_ns,
            sent_ns,
            complete_ns: sent_ns + SERVICE_NS + at * at % 7_919,
            connection: (at % i64::from(config.connections)) as u32,
            ..Sample::UNKNOWN
        }
    };
    (0..count).map(sample).collect()
}

fn report(config: &LoadConfig, samples: &[Sample]) -> LoadReport {
    let count = samples.len() as u64;
    LoadReport {
        connections: config.connections,
        active: config.connections,
        window_ns: WINDOW_NS,
        rate_asked_per_s: config.rate_per_s,
        planned: count,
        sent: count,
        completed: count,
        rate_achieved_per_s: count as f64,
        rate_sent_per_s: count as f64,
        outstanding: Outstanding::default(),
        send_delay: measured(samples, WINDOW_NS, send_delay_ns),
        service: measured(samples, WINDOW_NS, service_ns),
        response: measured(samples, WINDOW_NS, response_ns),
        ..testkit::load_report()
    }
}
