//! `muxbench calibrate`: the client's error for known response times.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroU32;
use std::process::ExitCode;

use ::load::LoadConfig;
use ::load::config::{Loop, Pace, Phases, Schedule, Transport};
use anyhow::{Context, bail};
use harness::calibration::{self, Hold, Law, Settings};
use harness::host::{self, idle_cpus, placement};
use harness::record::Check;
use harness::spec;
use harness::spec::units::{Rate, Time, count, time_above_0};
use wire::{Address, ServiceSpec};

use crate::options::format::FormatArgs;
use crate::options::given::Options;
use crate::options::named;
use crate::{exit, output};

/// Measure known response times: the bias and spread of the client
///
/// The client loads a null server, and servers that hold each response for a known time. The difference between measured and
/// known times is the client's error on this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench calibrate  # 0, 100 us and 1 ms, in half a minute
  muxbench calibrate --hold 50us,200us --law exponential --rounds 9
  muxbench calibrate --transport udp --timestamps kernel --json")]
pub struct Args {
    /// Mean time for which the server holds a response
    ///
    /// Several, comma-separated
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_value = "100us,1ms", value_parser = time_above_0)]
    hold: Vec<Time>,
    /// Law of hold times: fixed, uniform, exponential
    ///
    /// Several, comma-separated
    #[arg(long, value_name = "LAW", value_delimiter = ',', default_value = "fixed,exponential", value_parser = named::<Law>)]
    law: Vec<Law>,
    /// Rounds
    ///
    /// Each measures the null server and every pair of --hold and --law once
    #[arg(long, value_name = "N", default_value = "5", value_parser = count::<NonZeroU32>)]
    rounds: NonZeroU32,
    /// Transport: tcp, udp, unix
    #[arg(long, value_name = "TRANSPORT", default_value = "tcp", value_parser = named::<Transport>)]
    transport: Transport,
    /// Open connections
    #[arg(long, short, value_name = "N", default_value = "16", value_parser = count::<NonZeroU32>)]
    connections: NonZeroU32,
    /// Requests per second
    #[arg(long, short, value_name = "RATE", default_value = "1000")]
    rate: Rate,
    /// Duration of each measurement
    #[arg(long, short = 'z', value_name = "TIME", default_value = "800ms")]
    measure: Time,
    #[command(flatten)]
    options: Options,
    /// Exit with 3 unless every bias is within its limit
    #[arg(long, help_heading = "Results")]
    strict: bool,
    #[command(flatten)]
    format: FormatArgs,
    /// Print no progress
    #[arg(long, short, help_heading = "Results", hide_short_help = true)]
    quiet: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client: spec::Client = args.options.read("client.")?;
    if let Some(hold) = args.hold.iter().find(|hold| hold.0 >= client.timeout.0) {
        bail!(
            "--hold {hold}: a client waits for the first response only for {} (--timeout); try a shorter hold, or a longer \
             --timeout",
            client.timeout
        );
    }
    let cpus: spec::Placement = args.options.read("placement.")?;
    let requests = args.rate.0 * args.measure.0 as f64 / 1e9;
    if requests < Check::REQUESTS_MIN {
        bail!(
            "--rate {}, --measure {}: about {requests:.0} requests are too few for a calibration, which needs {}; raise the rate, \
             or lengthen the window",
            args.rate.0,
            args.measure,
            Check::REQUESTS_MIN
        );
    }
    let host = host::detect();
    let placed = placement::place(&host.cores, &cpus).map_err(anyhow::Error::msg)?;
    if placed.is_shared() {
        bail!(
            "--server-cpus, --client-cpus: {}; the calibration server polls all the time, so give each side CPUs of its own",
            placed.sentence
        );
    }
    // As in a trial, so that the client's error is that of a trial.
    let polls = idle_cpus::decide(cpus.idle_cpus, &host).map_err(anyhow::Error::msg)?;
    let _polling =
        polls.then(idle_cpus::poll).transpose().context("cannot let idle CPUs poll; try --idle-cpus sleep")?;
    let any = if args.transport == Transport::Unix { "unix:reflector" } else { "127.0.0.1:0" };
    // An exponential random value hardly ever exceeds twenty times its mean.
    let cool_down_ns = args.hold.iter().map(|hold| hold.0.saturating_mul(20)).max().unwrap_or(0) + 2_000_000_000;
    let load = client
        .configure(LoadConfig::new(
            any.parse::<Address>().expect("the address is valid"),
            ServiceSpec::Fixed { request_bytes: 128, response_bytes: 128 },
        ))
        .with(|it| {
            let requests = Pace::new(Schedule::SlotRandom, args.rate.0).into();
            it.the_loop = match args.transport {
                Transport::Udp => Loop::Datagrams(requests),
                Transport::Tcp | Transport::Unix => Loop::open(requests),
            };
            it.connections = args.connections.get();
            it.phases = Phases { ramp_ns: 0, warm_up_ns: 200_000_000, measure_ns: args.measure.0, cool_down_ns };
            it.client.cpus = placed.client;
        });
    let holds = args.hold.iter().flat_map(|hold| args.law.iter().map(|&law| Hold { mean_ns: hold.0, law }));
    let settings = Settings { holds: holds.collect(), rounds: args.rounds.get(), server_cpu: placed.server[0], load };
    let shows = !args.quiet && stderr().is_terminal();
    let calibration = calibration::calibrate(&settings, &mut |at, total, hold| {
        if shows {
            let left_s = (total - at) as u64 * (args.measure.0 + 300_000_000) / 1_000_000_000;
            let (at, mean, law) = (at + 1, Time(hold.mean_ns), hold.law.name());
            output::tell_in_line(format_args!("\r{at} of {total}: hold {mean} {law}, {left_s} s left   "));
        }
    })?;
    if shows {
        output::tell_in_line(format_args!("\r{:60}\r", ""));
    }
    args.format.print(&calibration, report::text::calibration::render)?;
    let is_recovered = calibration.conditions.iter().all(calibration::Condition::is_recovered);
    Ok(exit::of_validity(is_recovered || !args.strict))
}
