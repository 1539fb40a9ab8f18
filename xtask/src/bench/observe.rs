//! `observe` beside running experiments, whose traffic is known.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::numbers::Numbers;
use super::process::{CLIENT_CPU, MEASURED, Server, Sizes, muxbench, number, printed};
use super::spread::{Bound, Spread, rounds};
use crate::child::Process;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Observe {
    /// Workloads, as in 1-3,7
    #[arg(long, default_value = "1-10")]
    workloads: Numbers,
    /// Seconds of each observation
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The traffic of an experiment.
struct Traffic {
    architecture: &'static str,
    /// Further flags of the client.
    flags: &'static str,
    connections: u32,
    idle: u32,
    active: f64,
    sizes: Sizes,
    /// Connections are short-lived, so their number is not constant.
    is_short_lived: bool,
}

impl Traffic {
    const fn new(flags: &'static str, connections: u32, sizes: Sizes) -> Self {
        Self { architecture: "epoll", flags, connections, idle: 0, active: 1.0, sizes, is_short_lived: false }
    }
}

/// Messages fit in a segment of the loopback interface.
const WORKLOADS: [Traffic; 10] = [
    Traffic::new("--rate 2000", 400, (128, 10_240)),
    Traffic::new("--rate 5000 --schedule poisson", 100, (1, 1)),
    Traffic { active: 1.0 / 4.0, ..Traffic::new("--rate 1000", 400, (64, 1_000)) },
    Traffic { active: 1.0 / 16.0, ..Traffic::new("--rate 500", 800, (300, 20_000)) },
    Traffic { active: 1.0 / 64.0, ..Traffic::new("--rate 2000", 1_280, (128, 128)) },
    Traffic { idle: 300, ..Traffic::new("--rate 500", 100, (512, 512)) },
    Traffic { architecture: "mt", ..Traffic::new("--rate 800 --schedule constant", 50, (1_000, 30_000)) },
    Traffic::new("--schedule closed --think 10ms", 40, (128, 4_096)),
    Traffic { is_short_lived: true, ..Traffic::new("--rate 400 --requests-per-connection 1", 50, (128, 1_024)) },
    Traffic { is_short_lived: true, ..Traffic::new("--rate 600 --requests-per-connection 4", 50, (128, 1_024)) },
];

pub(super) fn run(count: usize, args: &Observe) -> anyhow::Result<()> {
    let binary = muxbench()?;
    println!("observe for {} s beside experiments with known traffic; {count} rounds", args.seconds);
    for (number, traffic) in args.workloads.choose(&WORKLOADS)? {
        let Traffic { architecture, flags, connections, idle, active, sizes, .. } = traffic;
        println!(
            "{number}: {architecture}, {connections} connections, {active} active, {idle} idle, {} B -> {} B, {flags}",
            sizes.0, sizes.1
        );
        let [connections, share, bytes, rate] = rounds(count, || round(&binary, traffic, args.seconds))?;
        let shown = |spread: &Spread, most| spread.check(Bound::AtMost(most));
        println!("  wrong connections {}; wrong bytes of messages {}", shown(&connections, 0.0), shown(&bytes, 0.0));
        println!("  relative error of the active share {}; of the rate {}", shown(&share, 0.1), shown(&rate, 0.02));
    }
    Ok(())
}

/// Returns the differences between an observation and the traffic: connections, active share, sizes and rate.
fn round(binary: &Path, traffic: &Traffic, seconds: u64) -> anyhow::Result<[f64; 4]> {
    let server = Server::ours(traffic.architecture, traffic.sizes)?;
    let folder = tempfile::tempdir()?;
    let mut client = load(binary, traffic, &server, seconds, folder.path())?;
    let mut messages = BufReader::new(client.0.stderr.take().context("no standard error")?).lines();
    ensure!(messages.any(|line| line.is_ok_and(|line| line.starts_with("measure:"))), "the client ended early");
    let mut command = Command::new(binary);
    command.args(["observe", "--port", &server.address.port().to_string(), "--json", "--duration"]);
    let seen: Value = serde_json::from_str(&printed(command.arg(format!("{seconds}s")), &[0])?)?;
    let report = finish(&mut client.0, messages)?;
    let seen_number = |path: &str| number(&seen["observation"], path);
    let error = |seen: f64, known: f64| (seen / known - 1.0).abs();
    let count = f64::from(traffic.connections + traffic.idle);
    let (connections, share) = if traffic.is_short_lived {
        let opened_per_s = seen_number("/connections/opened")? * 1e9 / seen_number("/window_ns")?;
        let known_per_s = number(&report, "/report/churn/opened_per_s")?;
        println!("  {opened_per_s:.1} connections opened per second, of {known_per_s:.1}");
        (0.0, 0.0)
    } else {
        let edges = ["/connections/open/start", "/connections/open/end", "/connections/open/max"];
        let wrong =
            edges.iter().map(|path| Ok((seen_number(path)? - count).abs())).collect::<anyhow::Result<Vec<_>>>()?;
        let active = f64::from(traffic.connections) * traffic.active / count;
        (wrong.into_iter().fold(0.0, f64::max), error(seen_number("/connections/active_share")?, active))
    };
    let bytes = (seen_number("/requests/request/bytes")? - f64::from(traffic.sizes.0)).abs()
        + (seen_number("/requests/response/bytes")? - f64::from(traffic.sizes.1)).abs();
    let rate = error(seen_number("/requests/rate_per_s")?, number(&report, "/report/rate_achieved_per_s")?);
    Ok([connections, share, bytes, rate])
}

/// Starts a client whose window is longer than the observation.
fn load(binary: &Path, traffic: &Traffic, server: &Server, seconds: u64, folder: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(binary);
    command.args(["load", &format!("tcp://{}", server.address), "--json", "--ramp", "500ms", "--warm-up", "500ms"]);
    command.args(["--request", &format!("{}B", traffic.sizes.0), "--response", &format!("{}B", traffic.sizes.1)]);
    command.args(["--connections", &traffic.connections.to_string(), "--client-cpus", &CLIENT_CPU.to_string()]);
    command.args(["--measure", &format!("{}s", seconds + 2), "--output"]).arg(folder.join("run"));
    command.args(traffic.flags.split(' '));
    if traffic.idle > 0 {
        command.args(["--idle", &traffic.idle.to_string()]);
    }
    if traffic.active < 1.0 {
        command.args(["--active", &traffic.active.to_string()]);
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start muxbench")?;
    Ok(Process(child))
}

/// Waits for a client, and returns its report.
fn finish(client: &mut Child, messages: impl Iterator<Item = std::io::Result<String>>) -> anyhow::Result<Value> {
    let messages: Vec<String> = messages.map_while(Result::ok).collect();
    let mut text = String::new();
    client.stdout.take().context("no standard output")?.read_to_string(&mut text)?;
    let status = client.wait()?;
    // A disturbed trial is not valid, but its rate is known.
    let is_measured = status.code().is_some_and(|code| MEASURED.contains(&code));
    ensure!(is_measured, "the client failed ({status}): {}", messages.join("\n"));
    serde_json::from_str(&text).context("`load` prints no JSON")
}
