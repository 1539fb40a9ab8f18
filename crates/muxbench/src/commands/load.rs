//! `muxbench load`: one client against an external server.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::config::{LoadConfig, Popularity, Schedule, Transport};
use ::load::report::{LateSends, Measured};
use ::load::{Event, Listener, LoadReport, Outcome, Sample};
use anyhow::{Context, bail};
use harness::exec::idle::IdleHolders;
use harness::exec::launch::Muxbench;
use harness::judge::Judgement;
use harness::model::{LoadOrder, Trial, Verdict, VerdictKind};
use harness::process::stop::Stop;
use harness::samples::Unwritten;
use harness::spec::units::{Cpus, Rate, Share, Time};
use harness::spec::{self, stream};
use report::format;
use report::text::{Medium, load_report, table, tail_mark};

use crate::commands::idle;
use crate::options::format::FormatArgs;
use crate::options::named;
use crate::options::settings::{ClientArgs, PhaseArgs};
use crate::options::target::TargetArgs;
use crate::{control, exit, output};

/// Load an external server and print the client's measurements
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench load --target 127.0.0.1:7007 --connections 400 --rate 2000
  muxbench load --target unix:/tmp/muxbench.sock --request 1B --response 1B
  muxbench load --target 127.0.0.1:7007 --cpus 1 --samples samples.parquet
  muxbench load http://127.0.0.1:8080/index.html --rate 5000
  muxbench load http://localhost/ --header 'Accept: text/html'
  muxbench load --target 127.0.0.1:20000 --service udp --ports 1000
  muxbench load --target 127.0.0.1:7007 --service stream --connections 1
  muxbench load --target 127.0.0.1:11211 --schedule closed --service kv")]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Transport: tcp, unix, udp (one datagram each way) [default: tcp or unix, by the address]
    #[arg(long, value_name = "TRANSPORT", value_parser = named::<Transport>)]
    transport: Option<Transport>,
    /// Additional idle connections, held by a separate process
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    /// Share of the connections that carry requests, such as 1/16 or 6.25%
    #[arg(long, value_name = "SHARE", default_value = "1")]
    active: Share,
    /// Connection popularity: uniform, zipf (exponent 1), zipf:0.8
    #[arg(long, value_name = "POPULARITY", alias = "choice", default_value = "uniform")]
    popularity: Popularity,
    /// Send times: slot-random, constant, poisson (open loop); closed (closed loop: send when the response has arrived)
    /// [default: slot-random; stream: closed]
    #[arg(long, value_name = "SCHEDULE", value_parser = named::<Schedule>)]
    schedule: Option<Schedule>,
    /// Requests per second, in an open loop [default: 2000]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    #[command(flatten)]
    phases: PhaseArgs,
    /// CPUs of the client, such as 0-1,3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<Cpus>,
    /// Seed of all random numbers
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the raw samples to a Parquet file
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
    /// Read the configuration as a line on standard input, and print events as JSON lines
    #[arg(long, hide = true)]
    control: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.control { for_runner(args) } else { for_user(args) }
}

/// Returns the number of clients of a closed loop: one per CPU, but at most one per connection.
fn closed_loop_clients(args: &Args, connections: u32) -> u32 {
    let cpus = args.cpus.as_ref().map(|cpus| cpus.0.len());
    let cpus = cpus.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    (cpus as u32).clamp(1, connections)
}

fn for_runner(args: &Args) -> anyhow::Result<ExitCode> {
    let LoadOrder { config, trial, is_quiet } = control::read_order()?;
    let outcome = ::load::run_with(&config, &mut Runner { is_quiet }).map_err(Into::into);
    let result = outcome.and_then(|Outcome { report, connections, samples, .. }| {
        write_samples(args, &config, Some(&trial), &samples)?;
        control::send(&Event::Finished { report: Box::new(report) });
        // Keep the connections open until the runner has read their cost from the server.
        control::read_line()?;
        drop(connections);
        Ok(())
    });
    Ok(control::exit_code(result, |error| Event::Failed {
        reason: format!("{error:#}"),
        is_unwritten: error.is::<Unwritten>(),
    }))
}

/// Sends events to a runner and waits for its start signal.
struct Runner {
    is_quiet: bool,
}

impl Listener for Runner {
    fn on(&mut self, event: Event) {
        if !self.is_quiet || !matches!(event, Event::Progress { .. }) {
            control::send(&event);
        }
    }

    fn begin(&mut self) -> Result<Option<u64>, String> {
        self.on(Event::Ready);
        let line = control::read_line().map_err(|error| format!("cannot read standard input: {error}"))?;
        let start_ns = line.trim().strip_prefix("begin ").and_then(|ns| ns.parse().ok());
        start_ns.map(Some).ok_or_else(|| format!("unexpected line `{line}` on standard input: expected `begin NS`"))
    }
}

fn for_user(args: &Args) -> anyhow::Result<ExitCode> {
    let mut client = spec::Client::default();
    args.client.apply(&mut client);
    let target = args.target.config()?;
    let (schedule, cool_down) = match target.service.stream() {
        Some(_) => (Schedule::Closed, stream::DRAIN),
        None => (Schedule::SlotRandom, Time(2_000_000_000)),
    };
    let schedule = args.schedule.unwrap_or(schedule);
    let is_closed = schedule == Schedule::Closed;
    let second = Time(1_000_000_000);
    let mut phases =
        spec::Phases { ramp: second, warm_up: second, measure: Time(5_000_000_000), sessions: None, cool_down };
    args.phases.apply(&mut phases);
    let clients = if is_closed { closed_loop_clients(args, target.connections) } else { 1 };
    let rate_per_s = args.rate.or((!is_closed).then_some(Rate(2_000.0))).map(|rate| rate.0);
    let requests_per_connection = target.requests_per_connection.and_then(NonZeroU32::new);
    if phases.sessions.is_some() && (is_closed || requests_per_connection.is_none()) {
        bail!("--sessions: only an open loop with --requests-per-connection has sessions; omit it");
    }
    let config = LoadConfig {
        datagrams: args.transport == Some(Transport::Udp),
        idle: args.idle,
        active: args.active.0,
        popularity: args.popularity,
        rate_per_s,
        schedule,
        phases: phases.of_load(rate_per_s, requests_per_connection),
        pacing: client.pacing,
        roles: client.roles,
        clients: client.clients.map_or(clients, NonZeroU32::get),
        cpus: args.cpus.clone().map(|cpus| cpus.0).unwrap_or_default(),
        clock: client.clock,
        timestamps: client.timestamps,
        seed: args.seed,
        timeout_ns: client.timeout.0,
        ..target
    };
    if let Some(transport) = args.transport.filter(|transport| *transport != config.transport()) {
        bail!(
            "--transport {}: {} is the address of another transport; omit --transport, or try another --target",
            format::name(&transport),
            config.target
        );
    }
    let program =
        std::env::current_exe().context("cannot hold idle connections: the path of this program is unknown")?;
    let holders = IdleHolders::start(&Muxbench { program }, &config, &[], &Stop::default(), &mut |_, _| ())?;
    let mut shown = String::new();
    let (mut shown_ns, mut shown_bytes) = (0, 0);
    let is_stream = config.service.stream().is_some();
    let Outcome { report, samples, .. } = ::load::run(&config, &mut |event| match event {
        // Print the bandwidth once per second. Progress arrives twice per second, sometimes slightly early.
        Event::Progress { phase, elapsed_ns, bytes, .. } if is_stream && elapsed_ns >= shown_ns + 900_000_000 => {
            let [from_s, to_s] = [shown_ns, elapsed_ns].map(|ns| ns as f64 / 1e9);
            let bandwidth = format::bandwidth((bytes - shown_bytes) as f64 / (to_s - from_s));
            output::tell(format_args!("{from_s:5.1} to {to_s:5.1} s  {bandwidth:>9}  {phase}"));
            (shown_ns, shown_bytes) = (elapsed_ns, bytes);
        }
        Event::Progress { phase, sent, completed, .. } if !is_stream && phase != shown => {
            output::tell(format_args!("{phase}: {sent} sent, {completed} completed so far"));
            shown = phase;
        }
        _ => {}
    })?;
    write_samples(args, &config, None, &samples)?;
    let held = if config.idle > 0 { Some(holders.verify(&Stop::default())?) } else { None };
    let mut judgement = Judgement::new(&report, None);
    if let Some(idle) = &held {
        judgement.add_idle(idle);
    }
    let verdict = judgement.decide();
    if args.format.json {
        let all = serde_json::json!({"config": config, "report": report, "idle": held, "verdict": verdict});
        output::print_json(&all)?;
    } else {
        output::print(&held.as_ref().map(idle::text).unwrap_or_default())?;
        output::print(&text(&report, &verdict, args.format.medium()))?;
    }
    Ok(exit::of_validity(verdict.kind == VerdictKind::Valid))
}

/// Writes the samples if the user requested them.
fn write_samples(args: &Args, config: &LoadConfig, trial: Option<&Trial>, samples: &[Sample]) -> anyhow::Result<()> {
    let Some(path) = &args.samples else { return Ok(()) };
    harness::samples::write(path, samples, &harness::samples::parameters(config, trial)?)?;
    Ok(())
}

fn text(report: &LoadReport, verdict: &Verdict, medium: Medium) -> String {
    let (times, facts) = (times(report, medium), facts(report, verdict));
    match medium {
        Medium::Terminal(_) => format!("{times}\n{facts}"),
        Medium::Markdown => medium.finished(format!("{times}\n{}", medium.prose(&facts))),
    }
}

/// Formats the percentiles of all measured times.
fn times(report: &LoadReport, medium: Medium) -> String {
    let mut rows = Vec::new();
    // `own` is for times that late sends cannot falsify: those of the client itself, and of bursts, which have no planned send.
    let (late, own) = (report.late_sends(), LateSends::default());
    let mut line = |name: &str, measured: &Measured, late: &LateSends| {
        let d = &measured.distribution;
        let ns = [d.p1_ns, d.p25_ns, d.p50_ns, d.p75_ns, d.p90_ns, d.p95_ns, d.p99_ns, d.p999_ns, d.max_ns];
        let quantiles = [0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
        let times = ns.into_iter().zip(quantiles).map(|(ns, q)| tail_mark::mark(format::us(ns as f64), late, q));
        rows.push([name.to_owned()].into_iter().chain(times).collect());
    };
    if report.stream.is_some() {
        line("time of a burst", &report.service, &own);
    } else {
        line("send delay", &report.send_delay, &own);
        line("service time", &report.service, &late);
        line("response time", &report.response, &late);
    }
    if let Some(churn) = &report.churn {
        line("SYN to established", &churn.connect, &late);
        line("SYN to first byte", &churn.first_byte, &late);
    }
    if let Some(kernel) = &report.kernel {
        line("t2 to scheduler", &kernel.to_scheduler, &own);
        line("t2 to driver (t2k)", &kernel.to_driver, &own);
        line("arrival (t3k) to t3", &kernel.from_arrival, &own);
        line("service time, kernel's", &kernel.service, &late);
        if let Some(hardware) = &kernel.hardware_service {
            line("service time, interface's", hardware, &late);
        }
    }
    table::of_text(&["µs", "p1", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"], rows, medium)
}

/// Formats counts, rates, errors and the verdict as lines of text.
fn facts(report: &LoadReport, verdict: &Verdict) -> String {
    let mut lines = Vec::new();
    if let Some(kernel) = &report.kernel {
        lines.push(format!(
            "kernel timestamps on {} (hardware timestamps: {}): {} requests and {} responses have none, {} are out of order{}",
            kernel.interface,
            format::name(&kernel.hardware),
            kernel.unstamped_sent,
            kernel.unstamped_arrived,
            kernel.out_of_order,
            if kernel.wall_clock_stepped { "; unusable, because the wall clock was set during the run" } else { "" }
        ));
    }
    let rate = format::digits(report.rate_achieved_per_s);
    let (completed, errors) = (report.completed, report.errors.total());
    lines.push(match (&report.closed, &report.stream) {
        (Some(closed), Some(stream)) => load_report::stream(stream, closed, report),
        (Some(closed), None) => {
            let unsampled = match closed.unsampled {
                0 => String::new(),
                count => format!("; no samples of the last {count}, because the memory of samples was full"),
            };
            let busy = 100.0 * closed.busy_share;
            format!(
                "{completed} transactions{unsampled}, {rate} transactions/s, {errors} errors, {busy:.0} % of the client's CPUs in use"
            )
        }
        (None, _) => {
            let (planned, target) = (report.planned, report.rate_asked_per_s.map_or("-".into(), format::digits));
            format!("{completed} of {planned} requests completed, {rate} of {target} requests/s, {errors} errors")
        }
    });
    if let Some(churn) = &report.churn {
        let requests = match churn.requests_per_connection {
            1 => "1 request".to_owned(),
            count => format!("{count} requests"),
        };
        let waited = match churn.waited {
            0 => String::new(),
            count => format!("; {count} sessions waited for another session to end"),
        };
        let sources = match churn.sources {
            0 | 1 => String::new(),
            count => format!(", from {count} addresses"),
        };
        let rate = format::digits(churn.opened_per_s);
        lines.push(format!("{} connections of {requests} each, {rate} connections/s{sources}{waited}", churn.opened));
    }
    lines.extend(report.datagrams.as_ref().map(|datagrams| load_report::datagrams(datagrams, report.planned)));
    for (class, count) in report.errors.by_class().into_iter().filter(|(_, count)| *count > 0) {
        let remedy = match class {
            "closed" => " (the server closes connections after some responses; try --requests-per-connection)",
            _ => "",
        };
        lines.push(format!("  {class}: {count}{remedy}"));
    }
    lines.extend(tail_mark::note_of_load(report));
    lines.push(format!("{}: {}", format::verdict(verdict.kind), verdict.reason));
    lines.join("\n") + "\n"
}
