//! `muxbench load`: loads one running server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;

use ::load::config::Trace;
use ::load::result::{HttpResult, LateSends, Measured};
use ::load::tools::idle::IdleResult;
use ::load::{Arrivals, Event, Listener, LoadConfig, LoadResult, Outcome};
use anyhow::{Context, bail};
use harness::host::Host;
use harness::plan::Plan;
use harness::record::{LoadOrder, Strategy, Trial, Verdict, VerdictKind};
use harness::samples::Unwritten;
use harness::spec::Service;
use harness::spec::profile::Profile;
use report::analysis::workload::over_time;
use report::format;
use report::text::{Medium, load_result, table, tail_mark};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::idle;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::BaseArgs;
use crate::options::given::Options;
use crate::options::setup::{changed, checked, shorten};
use crate::options::target::TargetArgs;
use crate::{control, execution, exit, files, output};

/// Load a running server, and store the client's measurements
///
/// The run is stored as those of other commands. To compare the server with others, or to find its capacity, see --target of
/// `compare`, `sweep` and `capacity`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench load http://127.0.0.1:8080/index.html -c 100 -r 5000 -z 10s
  muxbench load https://host/a -d @a.json -H 'Content-Type: application/json'
  muxbench load http://localhost/ -H 'Accept: text/html'
  muxbench load http://localhost --path '/ x9' --path /cart
  muxbench load http://localhost --requests-file requests.jsonl
  muxbench load http://localhost --rate-profile ramp:100..9k:30s
  muxbench load http://localhost --trace day.csv --speed 2 \\
      --trace-from peak --trace-length 10min
  muxbench load memcached://127.0.0.1 --schedule closed
  muxbench load tcp://127.0.0.1:7007 --client-cpus 1 --samples samples.parquet
  muxbench load udp://127.0.0.1:20000 --ports 1000
  muxbench load --target 127.0.0.1:7007 --connections 400 --rate 2000
  muxbench load --target unix:/tmp/muxbench.sock --request 1B --response 1B
  muxbench load --target 127.0.0.1:7007 --service stream --connections 1")]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    options: Options,
    /// Write the raw samples to a Parquet file
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    samples: Option<PathBuf>,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// Read the configuration as a line on standard input, and print events as JSON lines
    #[arg(long, hide = true)]
    control: bool,
}

/// The output as JSON.
#[derive(Serialize, JsonSchema)]
pub struct Loaded<'a> {
    config: &'a LoadConfig,
    report: &'a LoadResult,
    /// The last check of the idle connections.
    idle: Option<&'a IdleResult>,
    verdict: &'a Verdict,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.control { for_runner(args) } else { for_user(args) }
}

fn for_runner(args: &Args) -> anyhow::Result<ExitCode> {
    let LoadOrder { config, trial, is_quiet, .. } = control::read_order()?;
    let mut runner = Runner { is_quiet, lines: None };
    let outcome = ::load::run_with(&config, &mut runner).map_err(Into::into);
    let result = outcome.and_then(|Outcome { report, connections, samples, .. }| {
        if let Some(path) = &args.samples {
            harness::samples::write(path, &samples, &harness::samples::parameters(&config, Some(&trial))?)?;
        }
        control::send(&Event::Finished { report: Box::new(report) });
        // Keep the connections open until the runner has read their cost from the server.
        if let Some(lines) = &runner.lines {
            while lines.recv().is_ok_and(|line| end_of(&line).is_some()) {}
        }
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
    /// The lines that follow the start signal.
    lines: Option<Receiver<String>>,
}

/// Returns the time of an `end` message, which ends the window before its planned end.
fn end_of(line: &str) -> Option<u64> {
    line.trim().strip_prefix("end ")?.parse().ok()
}

impl Listener for Runner {
    fn on(&mut self, event: Event) {
        if !self.is_quiet || !matches!(event, Event::Progress { .. }) {
            control::send(&event);
        }
    }

    fn arrivals(&mut self, trace: &Trace) -> Result<Arrivals, String> {
        traffic::trace::replay(trace)
    }

    fn ends_at_ns(&mut self) -> Option<u64> {
        end_of(&self.lines.as_ref()?.try_recv().ok()?)
    }

    fn begin(&mut self) -> Result<Option<u64>, String> {
        self.on(Event::Ready);
        let line = control::read_line().map_err(|error| format!("cannot read standard input: {error}"))?;
        let start_ns = line.trim().strip_prefix("begin ").and_then(|ns| ns.parse().ok());
        self.lines = Some(control::lines().map_err(|error| format!("cannot start a thread: {error}"))?);
        start_ns.map(Some).ok_or_else(|| format!("unexpected line `{line}` on standard input: expected `begin NS`"))
    }
}

fn for_user(args: &Args) -> anyhow::Result<ExitCode> {
    args.samples.as_deref().map_or(Ok(()), files::check_in_place)?;
    let experiment = || {
        let options = args.target.add_to(&args.options)?;
        let mut experiment = changed(&options, BaseArgs::default().read()?, false, options.servers()?)?;
        experiment.name = "load".into();
        let cool_down = experiment.phases.cool_down;
        shorten(&args.options, &mut experiment, "load", None)?;
        if experiment.workload.service == Service::Stream {
            experiment.phases.cool_down = cool_down;
        }
        Ok(checked(&experiment, &args.options, false)?.0)
    };
    // Several loads with one seed send the same requests, whatever their rates: clients of key-value stores then expect the same values.
    let strategy = |mut plan: Plan, _: &Host| {
        if args.samples.is_some() && plan.trials.len() > 1 {
            bail!(
                "--samples: a file has the samples of one load, and there are {}; give one, or omit it",
                plan.trials.len()
            );
        }
        let seed = plan.seed;
        plan.trials.iter_mut().for_each(|trial| trial.client.seed = seed);
        Ok((plan, Strategy::Whole))
    };
    let (folder, run, ended) = execution::measure(&args.execution, experiment, strategy, |_| Ok(()), true)?;
    let [record] = run.records.as_slice() else { return execution::show(&folder, &run, ended, &args.execution) };
    let Some(report) = &record.load else { bail!("{}", record.verdict.reason) };
    let (verdict, format) = (&record.verdict, &args.execution.format);
    if format.json {
        let config = &record.trial.load();
        output::print_json(&Loaded { config, report, idle: record.idle.as_ref(), verdict })?;
    } else {
        output::print(&record.idle.as_ref().map(idle::text).unwrap_or_default())?;
        output::print(&text(&record.trial, report, verdict, format.medium()))?;
        execution::print_places(&format!("Results: {}\n", folder.display()), format.markdown)?;
    }
    // Copy the samples last: a failure must not hide the result.
    if let Some(path) = &args.samples {
        let stored = harness::store::samples_path(&folder, record.trial.index);
        std::fs::copy(&stored, path)
            .with_context(|| format!("cannot write {}; the samples are in {}", path.display(), stored.display()))?;
    }
    Ok(exit::of_validity(verdict.kind == VerdictKind::Valid))
}

fn text(trial: &Trial, report: &LoadResult, verdict: &Verdict, medium: Medium) -> String {
    let over_time = over_time(&trial.workload, Profile::words).map(|it| format!("over the window: {it}\n"));
    let facts = medium.prose(&(over_time.unwrap_or_default() + &facts(trial, report, verdict, medium)));
    medium.finished(format!("{}\n{facts}\n", times(report, medium)))
}

/// Formats the percentiles of all measured times.
fn times(report: &LoadResult, medium: Medium) -> String {
    let mut rows = Vec::new();
    // `own` is for times that late sends cannot falsify: those of the client itself, and of bursts, which have no planned send.
    let late = report.late_sends();
    let own = LateSends { sent: late.sent, ..LateSends::default() };
    let mut line = |name: &str, measured: &Measured, late: &LateSends| {
        let d = &measured.distribution;
        let ns = [d.p1_ns, d.p25_ns, d.p50_ns, d.p75_ns, d.p90_ns, d.p95_ns, d.p99_ns, d.p999_ns, d.max_ns];
        let quantiles = [0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
        let time = |(ns, q): (u64, f64)| match d.count {
            0 => "-".to_owned(),
            _ => tail_mark::mark(format::us(ns as f64), late, q),
        };
        let times = ns.into_iter().zip(quantiles).map(time);
        rows.push([name.to_owned()].into_iter().chain(times).collect());
    };
    if report.stream.is_some() {
        line("time of a burst", &report.service, &own);
    } else {
        line("send delay", &report.send_delay, &own);
        line("service time", &report.service, &late);
        line("response time", &report.response, &late);
    }
    if let Some(http) = &report.http {
        line("time to first byte", &http.first_byte, &late);
    }
    let both = report.tls.iter().flat_map(|tls| [("full handshake", &tls.full), ("resumed handshake", &tls.resumed)]);
    for (name, times) in both.filter(|(_, times)| times.distribution.count > 0) {
        line(name, times, &own);
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
    table::of_parts(1, ["µs", "p1", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"], rows, medium)
}

/// Formats counts, rates, errors and the verdict as lines of text.
fn facts(trial: &Trial, report: &LoadResult, verdict: &Verdict, medium: Medium) -> String {
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
    let (completed, errors) = (report.completed, load_result::errors(report));
    lines.push(match (&report.closed, &report.stream) {
        (Some(closed), Some(stream)) => load_result::stream(stream, closed, report),
        (Some(closed), None) => {
            let unsampled = match closed.unsampled {
                0 => String::new(),
                count => format!("; no samples of the last {count}, because the memory of samples was full"),
            };
            let busy = 100.0 * closed.busy_share;
            format!(
                "{completed} transactions{unsampled}, {rate} transactions/s, {errors}, {busy:.0} % of the client's CPUs in use"
            )
        }
        (None, _) => {
            let (planned, target) = (report.planned, report.rate_asked_per_s.map_or("-".into(), format::digits));
            format!("{completed} of {planned} requests completed, {rate} of {target} requests/s, {errors}")
        }
    });
    if let Some(churn) = &report.churn {
        let requests = format::counted(churn.requests_per_connection as usize, "request", "requests");
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
    if let Some(http) = report.http.as_ref().filter(|http| !http.statuses.is_empty()) {
        lines.push(format!("responses by status: {}", HttpResult::breakdown(&http.statuses)));
    }
    if report.closed_by_server > 0 {
        let count = format::counted(report.closed_by_server as usize, "connection", "connections");
        lines.push(format!("closed by the server: {count}, opened again"));
    }
    let no_overlap = trial.workload.no_overlap();
    let queued = load_result::queued("", report.queued_share, no_overlap);
    lines.extend(queued.map(|share| load_result::about_queued(&share, no_overlap)));
    lines.extend(report.tls.as_ref().map(|tls| {
        let [full, resumed] = [&tls.full, &tls.resumed].map(|times| times.distribution.count);
        format!("TLS with {}: {full} full handshakes, {resumed} resumed", tls.cipher)
    }));
    lines.extend(report.goodput.as_ref().map(|goodput| load_result::goodput(goodput, report)));
    lines.extend(report.datagrams.as_ref().map(|datagrams| load_result::datagrams(datagrams, report.planned)));
    for (class, count) in report.errors.by_class().into_iter().filter(|(_, count)| *count > 0) {
        lines.push(format!("  {class}: {count}"));
    }
    lines.extend(tail_mark::note_of_load(report));
    lines.push(load_result::verdict(verdict, medium));
    lines.join("\n")
}
