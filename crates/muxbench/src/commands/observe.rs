//! `muxbench observe`: the traffic of a running server, as a traffic profile for other commands.

use std::io::{IsTerminal, stderr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use harness::spec::Experiment;
use harness::spec::units::Time;
use harness::traffic_profile;
use report::format;
use schemars::JsonSchema;
use serde::Serialize;
use traffic::observe::flows::observe_capture;
use traffic::observe::{self, Observation};

use crate::options::format::FormatArgs;
use crate::{files, output, signals};

/// The default and the bounds of `--duration`.
const DURATION: Time = Time(10_000_000_000);
const DURATION_MIN: Time = Time(1_000_000_000);
const DURATION_MAX: Time = Time(600_000_000_000);
/// The round-trip time from which a lab shows an effect.
const ROUND_TRIP_MIN_NS: u64 = 1_000_000;

/// Observe a running server, and write its traffic profile
///
/// Reads the kernel's counters of the server's TCP connections (sock_diag) several times a second. The server gets no request
/// and needs no change. With --pcap reads a capture, which has the exact size and time of each message.
///
/// Prints connections, their active share, sizes, rates and times. The traffic profile is an experiment file for `advise`,
/// `gate`, `compare`, `sweep`, `capacity` and `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench observe --port 8080 --output profile.toml
  muxbench advise profile.toml
  muxbench observe --pid 1234 --duration 1min --json
  tcpdump -i any -s 100 -w server.pcap tcp port 8080
  muxbench observe --pcap server.pcap --port 8080 --output profile.toml")]
#[command(group = clap::ArgGroup::new("source").args(["port", "pid", "pcap"]).required(true).multiple(true))]
pub struct Args {
    /// TCP port of the server, on this host or in the capture
    #[arg(long, value_name = "PORT", value_parser = port)]
    port: Option<NonZeroU16>,
    /// Process of the server on this host, which listens on one port
    #[arg(long, value_name = "PID", conflicts_with_all = ["port", "pcap"])]
    pid: Option<NonZeroU32>,
    /// Capture to read in place of the kernel's counters, in the format pcap or pcapng
    #[arg(long, value_name = "FILE", conflicts_with = "duration")]
    pcap: Option<PathBuf>,
    /// Duration, from 1s to 10min; Ctrl-C ends it earlier [default: 10s]
    #[arg(long, short = 'z', value_name = "TIME")]
    duration: Option<Time>,
    /// Write the traffic profile to this file
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Parses a port.
fn port(text: &str) -> Result<NonZeroU16, &'static str> {
    text.parse().map_err(|_| "expected a port from 1 to 65535")
}

/// The output as JSON.
#[derive(Serialize, JsonSchema)]
pub struct Observed<'a> {
    observation: &'a Observation,
    /// The same traffic as an experiment; absent if too little was seen.
    experiment: Option<&'a Experiment>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.output.as_deref().map_or(Ok(()), files::check_path)?;
    let (port, traffic) = match (&args.pcap, args.pid) {
        (Some(file), _) => observe_capture(file, args.port)?,
        (None, Some(pid)) => observe_live(args, observe::port_of(pid.get())?)?,
        (None, None) => observe_live(args, args.port.context("--port: missing")?)?,
    };
    let observation = Observation::of(port, &traffic);
    let experiment = traffic_profile::experiment(&observation);
    if args.format.json {
        output::print_json(&Observed { observation: &observation, experiment: experiment.as_ref().ok() })?;
    } else {
        let next = if experiment.is_ok() { next(args, &observation) } else { Vec::new() };
        output::print(&report::text::observation::render(&observation, &next, args.format.medium()))?;
    }
    if let Some(file) = &args.output {
        let experiment = experiment.map_err(anyhow::Error::msg)?;
        let text = traffic_profile::text_of(&observation, &experiment).map_err(anyhow::Error::msg)?;
        files::write(file, text.as_bytes())?;
        output::note(format_args!("traffic profile in {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn observe_live(args: &Args, port: NonZeroU16) -> anyhow::Result<(NonZeroU16, observe::traffic::Traffic)> {
    let duration = args.duration.unwrap_or(DURATION);
    if !(DURATION_MIN..=DURATION_MAX).contains(&duration) {
        bail!("--duration {duration}: expected a time from {DURATION_MIN} to {DURATION_MAX}");
    }
    let stop = signals::flag_at_signals()?;
    if stderr().is_terminal() {
        output::tell(format_args!("observing port {port} for {duration}; Ctrl-C ends this earlier"));
    }
    Ok((port, observe::observe(port, Duration::from_nanos(duration.0), &stop)?))
}

/// Returns the next commands for the reader.
fn next(args: &Args, observation: &Observation) -> Vec<String> {
    let shown = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let (file, pcap, port) = (shown(&args.output), shown(&args.pcap), observation.port.to_string());
    let mut next = Vec::new();
    if file.is_none() {
        let mut words = vec!["muxbench", "observe"];
        words.extend(pcap.iter().flat_map(|file| ["--pcap", file]));
        words.extend(["--port", &port, "--output", "profile.toml"]);
        next.push(format::command(&words));
    }
    let file = file.as_deref().unwrap_or("profile.toml");
    next.push(format::command(&["muxbench", "advise", file]));
    next.push(format::command(&["muxbench", "compare", file]));
    next.push(format::command(&["muxbench", "capacity", file, "--p99", "10ms"]));
    if let Some(round_trip_ns) = observation.round_trip_ns.filter(|ns| *ns >= ROUND_TRIP_MIN_NS) {
        let delay = Time(round_trip_ns / 2 / 10_000 * 10_000).to_string();
        let words = ["muxbench", "compare", file, "--network", "lab", "--delay", &delay];
        next.push(format!("{}  # with the round-trip time", format::command(&words)));
    }
    next
}
