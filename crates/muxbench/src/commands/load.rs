//! `muxbench load`: one client, against a server that is there already.

use std::fmt::Write;
use std::io::{self, BufRead};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use ::load::config::{Choice, HttpTraffic, LoadConfig, Phases, Schedule, Transport};
use ::load::report::Measured;
use ::load::{Event, LoadReport, Outcome};
use anyhow::{Context, bail};
use lab::experiment::{List, Service};
use lab::record::{Trial, VerdictKind};
use lab::runner::LoadOrder;
use lab::units::{Cpus, Rate, Share, Time};
use lab::{experiment, presets, verdict};
use report::{format, sentence};
use wire::{Address, Ports, ServiceSpec};

use crate::commands::compare::{ClientArgs, TrafficArgs, named};
use crate::commands::url;
use crate::{execution, output};

/// Load a server that is already there, and print what the client measured
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench load --target 127.0.0.1:7007 --connections 400 --rate 2000
  muxbench load --target 127.0.0.1:7007 --request 1B --response 1B --rate 8000 --cpus 1 --samples lag.parquet
  muxbench load --target unix:/tmp/muxbench.sock --request 1B --response 1B
  muxbench load --target 127.0.0.1:7007 --schedule poisson --active 1/16 --timestamps kernel
  muxbench load --target 127.0.0.1:20000 --service udp --ports 1000 --rate 100
  muxbench load http://127.0.0.1:8080/index.html --connections 100 --rate 5000
  muxbench load http://127.0.0.1:8080/ --rate 1000 --calls-per-connection 10     # sessions, as httperf has them
  muxbench load http://localhost/ --schedule closed --header 'Accept: text/html' --expect-status 200
  muxbench load --target 127.0.0.1:11211 --schedule closed --service kv --connections 100 --hold 0")]
pub struct Args {
    /// What to ask for, of the service `http`: `http://HOST[:PORT]/PATH`
    #[arg(value_name = "URL", conflicts_with_all = ["target", "path"])]
    url: Option<String>,
    /// The server's address: `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["control", "url"])]
    target: Option<Address>,
    /// How requests get there: tcp or unix, as the address says; udp, one datagram each way
    #[arg(long, value_name = "TRANSPORT", value_parser = named::<Transport>)]
    transport: Option<Transport>,
    /// Connections held open [default: 400]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroU32>,
    /// Ports of `udp`: how many from that of the target on [default: 10], or which, as `serve` says: 7000-7004,7010-7014
    #[arg(long, value_name = "N|PORTS", conflicts_with = "connections")]
    ports: Option<PortsArg>,
    /// Connections held open besides, that nothing is sent on
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    /// Share of the connections that requests are sent on, as in 1/16 or 6.25%
    #[arg(long, value_name = "SHARE", default_value = "1")]
    active: Share,
    /// How a request's connection is chosen: uniform, zipf (exponent 1), zipf:0.8
    #[arg(long, value_name = "CHOICE", default_value = "uniform")]
    choice: Choice,
    /// When requests are sent: slot-random, constant, poisson; closed: when the last response came
    #[arg(long, value_name = "SCHEDULE", default_value = "slot-random", value_parser = named::<Schedule>)]
    schedule: Schedule,
    /// Requests a second [default: 2000; a closed loop has none]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// The rate grows exponentially to its target for so long
    #[arg(long, value_name = "TIME", default_value = "1s")]
    ramp: Time,
    /// The rate is held for so long before measuring
    #[arg(long, value_name = "TIME", default_value = "1s")]
    hold: Time,
    /// Requests planned in this time are the result
    #[arg(long, value_name = "TIME", default_value = "5s")]
    measure: Time,
    /// At most this long is waited for the last responses
    #[arg(long, value_name = "TIME", default_value = "2s")]
    drain: Time,
    /// CPUs of the client, as in 0-1,3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<Cpus>,
    /// Seed of the schedule
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the raw samples to this Parquet file
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Take the configuration as a line on standard input, and say what happens in JSON lines
    #[arg(long, hide = true)]
    control: bool,
}

/// Connections when nothing is said.
const CONNECTIONS: u32 = 400;
/// Ports likewise, as `serve` has them.
const PORTS: u32 = 10;

/// How many ports, or which.
#[derive(Clone, Debug)]
enum PortsArg {
    Count(NonZeroU32),
    These(Ports),
}

impl FromStr for PortsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) if text.contains(['-', ',']) => text.parse().map(Self::These),
            Err(_) => Err(format!("`{text}` is no number of ports; write one above 0, or ports like 7000-7099")),
        }
    }
}

/// Loads.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.control { controlled(args) } else { by_hand(args) }
}

/// In a closed loop one client for each CPU.
fn clients(args: &Args) -> u32 {
    let cpus = args.cpus.as_ref().map(|cpus| cpus.0.len());
    let cpus = cpus.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    (cpus as u32).clamp(1, args.connections.map_or(CONNECTIONS, NonZeroU32::get))
}

/// Started by a runner.
fn controlled(args: &Args) -> anyhow::Result<ExitCode> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let LoadOrder { config, trial } = serde_json::from_str(&line).context("the order on standard input")?;
    // When nobody listens any more the runner has died: we are about to be killed, or have to end by ourselves.
    let say = &mut |event| output::print_line(&event).unwrap_or_else(|_| std::process::exit(1));
    let outcome = load(&config, Some(&trial), args, say);
    match outcome {
        Ok(Outcome { report, connections, .. }) => {
            output::print_line(&Event::Finished { report: Box::new(report) })?;
            // Until the runner has asked the server what all these connections cost.
            io::stdin().lock().read_line(&mut line)?;
            drop(connections);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            output::print_line(&Event::Failed { reason: format!("{error:#}") })?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// How many connections or, of `udp`, ports, and which these are if that is said.
fn sockets(args: &Args, service: Service) -> anyhow::Result<(u32, Option<Ports>)> {
    match (service, &args.ports) {
        (Service::Udp, _) if args.connections.is_some() => {
            bail!("--connections: udp has none; give --ports in its place")
        }
        (Service::Udp, None) => Ok((PORTS, None)),
        (Service::Udp, Some(PortsArg::Count(count))) => Ok((count.get(), None)),
        (Service::Udp, Some(PortsArg::These(ports))) => Ok((ports.count(), Some(ports.clone()))),
        (_, Some(_)) => bail!("--ports: only udp has ports; add --service udp"),
        (_, None) => Ok((args.connections.map_or(CONNECTIONS, NonZeroU32::get), None)),
    }
}

/// Started by a user.
fn by_hand(args: &Args) -> anyhow::Result<ExitCode> {
    let mut client = experiment::Client::default();
    args.client.apply(&mut client);
    let mut traffic = presets::find("compare").expect("it is in the table").experiment().workload;
    if args.url.is_some() {
        traffic.service = Service::Http;
        // What is there is as long as it is, unless something is said.
        traffic.response = None;
    }
    args.traffic.apply(&mut traffic);
    let asked = args.url.as_deref().map(url::read).transpose()?;
    let target = asked.as_ref().map(|asked| asked.target.clone()).or_else(|| args.target.clone());
    let target = target.context("--target: where is the server?")?;
    let closed = args.schedule == Schedule::Closed;
    let kv = traffic.kv.clone().unwrap_or_default();
    if traffic.kv.is_some() && traffic.service != Service::Kv {
        bail!("--records and the like are of a key-value store; add --service kv, or leave them out");
    }
    if traffic.http.is_some() && traffic.service != Service::Http {
        bail!("--path, --header and --expect-status are of HTTP; add --service http or give a URL, or leave them out");
    }
    let (connections, ports) = sockets(args, traffic.service)?;
    let mut http = None;
    let (service, kv) = match (traffic.service, traffic.request, traffic.response) {
        (Service::Fixed, Some(request), Some(response)) => {
            (ServiceSpec::Fixed { request_bytes: request.0, response_bytes: response.0 }, None)
        }
        (Service::Udp, Some(request), Some(response)) => {
            (ServiceSpec::Udp { ports: connections, request_bytes: request.0, response_bytes: response.0 }, None)
        }
        (Service::Kv, None, None) => {
            kv.check().map_err(|why| anyhow::anyhow!("--{why}"))?;
            (kv.service(), Some(kv.traffic()))
        }
        (Service::Http, None, response) => {
            let mut said = traffic.http.clone().unwrap_or_default();
            if let Some(asked) = &asked {
                said.paths = Some(List(vec![asked.path.clone()]));
            }
            let asked_for = said.traffic(response, false).map_err(|why| anyhow::anyhow!("--{why}"))?;
            http = Some(HttpTraffic { host: asked.as_ref().map(|asked| asked.host.clone()), ..asked_for });
            (said.service(), None)
        }
        (Service::Http, ..) => bail!("--request: a request of http is what its path and headers make; leave it out"),
        _ => bail!("--request, --response: kv has none; its sizes are those of its records, --value-size"),
    };
    let config = LoadConfig {
        datagrams: args.transport == Some(Transport::Udp),
        ports,
        connections,
        calls_per_connection: traffic.calls_per_connection.map(NonZeroU32::get),
        idle: args.idle,
        active: args.active.0,
        choice: args.choice,
        rate_per_s: args.rate.or((!closed).then_some(Rate(2_000.0))).map(|rate| rate.0),
        think: traffic.think.0,
        kv,
        http,
        schedule: args.schedule,
        phases: Phases {
            ramp_ns: args.ramp.0,
            hold_ns: args.hold.0,
            measure_ns: args.measure.0,
            drain_ns: args.drain.0,
        },
        pacing: client.pacing,
        roles: client.roles,
        clients: client.clients.map_or_else(|| if closed { clients(args) } else { 1 }, NonZeroU32::get),
        cpus: args.cpus.clone().map(|cpus| cpus.0).unwrap_or_default(),
        clock: client.clock,
        timestamps: client.timestamps,
        seed: args.seed,
        timeout_ns: client.timeout.0,
        ..LoadConfig::new(target, service)
    };
    if let Some(said) = args.transport.filter(|said| *said != config.transport()) {
        bail!(
            "--transport {}: {} is no address of that; leave --transport out, or give another --target",
            format::name(&said),
            config.target
        );
    }
    let mut shown = String::new();
    let Outcome { report, .. } = load(&config, None, args, &mut |event| {
        if let Event::Progress { phase, sent, completed, .. } = event
            && phase != shown
        {
            anstream::eprintln!("{phase}: {sent} sent, {completed} completed so far");
            shown = phase;
        }
    })?;
    let verdict = verdict::judge(&report, None);
    if args.json {
        output::print_json(&serde_json::json!({"config": config, "report": report, "verdict": verdict}))?;
    } else {
        output::print(&text(&report, &verdict))?;
    }
    Ok(if verdict.kind == VerdictKind::Valid { ExitCode::SUCCESS } else { ExitCode::from(execution::NO_VALID_TRIAL) })
}

fn load(
    config: &LoadConfig,
    trial: Option<&Trial>,
    args: &Args,
    on_event: &mut dyn FnMut(Event),
) -> anyhow::Result<Outcome> {
    let outcome = ::load::run(config, on_event)?;
    if let Some(path) = &args.samples {
        let mut parameters =
            vec![("muxbench", env!("CARGO_PKG_VERSION").to_owned()), ("load", serde_json::to_string(config)?)];
        if let Some(trial) = trial {
            parameters.push(("architecture", trial.architecture.to_string()));
            parameters.push(("trial", serde_json::to_string(trial)?));
        }
        lab::samples::write(path, &outcome.samples, &parameters)?;
    }
    Ok(outcome)
}

fn text(report: &LoadReport, verdict: &lab::record::Verdict) -> String {
    let mut text = format!(
        "{:25} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  (µs)\n",
        "", "p1", "p25", "p50", "p75", "p99", "p99.9", "max"
    );
    let mut line = |name: &str, measured: &Measured| {
        let d = &measured.distribution;
        let _ = write!(text, "{name:25}");
        for ns in [d.p1_ns, d.p25_ns, d.p50_ns, d.p75_ns, d.p99_ns, d.p999_ns, d.max_ns] {
            let _ = write!(text, " {:>9}", format::us(ns as f64));
        }
        text.push('\n');
    };
    line("lag", &report.lag);
    line("service time", &report.service);
    line("response time", &report.response);
    if let Some(churn) = &report.churn {
        line("SYN to established", &churn.connect);
        line("SYN to first byte", &churn.first_byte);
    }
    if let Some(kernel) = &report.kernel {
        line("t2 to scheduler", &kernel.to_scheduler);
        line("t2 to driver (t2k)", &kernel.to_driver);
        line("arrival (t3k) to t3", &kernel.from_arrival);
        line("service time, kernel's", &kernel.service);
        if let Some(hardware) = &kernel.hardware_service {
            line("service time, interface's", hardware);
        }
        let _ = writeln!(
            text,
            "kernel timestamps on {} (hardware timestamps: {}): {} requests and {} responses without, {} out of order{}",
            kernel.interface,
            format::name(&kernel.hardware),
            kernel.unstamped_sent,
            kernel.unstamped_arrived,
            kernel.out_of_order,
            if kernel.wall_clock_stepped { "; the wall clock was set meanwhile, so that none can be used" } else { "" }
        );
    }
    let rate = format::digits(report.rate_achieved_per_s);
    let _ = match (&report.closed, report.rate_asked_per_s) {
        (Some(closed), _) => {
            let beyond = match closed.unsampled {
                0 => String::new(),
                count => format!("; the last {count} are no samples, whose memory was full"),
            };
            let busy = 100.0 * closed.busy_share;
            let (completed, errors) = (report.completed, report.errors.total());
            writeln!(
                text,
                "{completed} transactions{beyond}, {rate} transactions/s, {errors} errors, {busy:.0} % of the client's CPUs in use"
            )
        }
        (None, asked) => writeln!(
            text,
            "{} of {} requests completed, {rate} of {} requests/s, {} errors",
            report.completed,
            report.planned,
            asked.map_or("-".into(), format::digits),
            report.errors.total()
        ),
    };
    if let Some(datagrams) = &report.datagrams {
        let _ = writeln!(text, "{}", sentence::datagrams(datagrams, report.planned));
    }
    if let Some(churn) = &report.churn {
        let calls = churn.calls_per_connection;
        let rate = format::digits(churn.opened_per_s);
        let waited = match churn.waited {
            0 => String::new(),
            count => format!("; {count} sessions waited for another to end"),
        };
        let from = match churn.sources {
            0 | 1 => String::new(),
            count => format!(", from {count} addresses"),
        };
        let _ =
            writeln!(text, "{} connections of {calls} requests each, {rate} connections/s{from}{waited}", churn.opened);
    }
    let failed = report.errors.by_class().into_iter().filter(|(_, count)| *count > 0);
    for (class, count) in failed {
        let why = match class {
            "closed" => " (the server ends connections after some responses; --calls-per-connection has others follow)",
            _ => "",
        };
        let _ = writeln!(text, "  {class}: {count}{why}");
    }
    let _ = writeln!(text, "{}: {}", sentence::name(verdict.kind), verdict.reason);
    text
}
