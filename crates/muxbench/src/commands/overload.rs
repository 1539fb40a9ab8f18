//! `muxbench overload`: how servers behave beyond their capacity, and how long they take to recover.

use std::cell::Cell;
use std::process::ExitCode;

use anyhow::bail;
use clap::error::ErrorKind;
use harness::host::Host;
use harness::plan::{self, Plan};
use harness::record::{CapacitySource, OverloadGoal, Pulse, RunHeader, SearchGoal, Strategy, Varied};
use harness::spec::units::{Rate, Time};
use harness::spec::{Experiment, OneOrMany, Service};
use harness::strategy::overload::pulse;
use load::config::RequestTimeout;

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::BaseArgs;
use crate::options::search::{SearchArgs, SearchDefaults};
use crate::options::setup::{SetupArgs, checked, separate, set_slices_of_search};

/// A pulse of 1.5 times the capacity needs no exact capacity.
const SEARCH: SearchDefaults = SearchDefaults { precision: 0.1, time_max_ns: 180_000_000_000 };
/// The default of `--request-timeout`.
const REQUEST_TIMEOUT: Time = Time(1_000_000_000);
const MS: u64 = 1_000_000;
const HEADING: &str = "Load";

/// Load servers beyond their capacity, and time their recovery
///
/// Each server is loaded at 0.7 times its capacity, then at 1.5 times (the pulse), and again at 0.7 times. The capacity is given
/// (--capacity), or found first, as `capacity` does within limits such as --p99 5ms. --measure is the window of a probe of this
/// search.
///
/// Goodput is the rate of requests that are answered in time: within --request-timeout, which each retry has anew. With --retries,
/// the client sends a request again after a timeout or a lost connection, on another connection, so an overloaded server gets even
/// more load.
///
/// A server has recovered when 95 % of its requests are answered in time, and their median response time is low. Low is at most
/// twice the median before the pulse, and always up to 1 ms. It must stay so to the end. Single bins of 100 ms (at low
/// rates up to 1 s) may be worse.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench overload --p99 5ms --arch epoll,mt,seda
  muxbench overload --capacity 20k --target mine=http://127.0.0.1:8080/
  muxbench overload --p99 5ms --request-timeout 200ms --retries 3
  muxbench overload --p99 5ms --retries 3 --retry-budget 10%  # as in a mesh
  muxbench overload --p99 5ms --pulse 3 --pulse-length 1s --after 1min
  muxbench report --html                   # goodput over time, as a figure")]
pub struct Args {
    #[command(flatten)]
    base: BaseArgs,
    /// Capacity of all servers, instead of a search
    ///
    /// In requests per second
    #[arg(long, value_name = "RATE", help_heading = "Search", conflicts_with_all = ["interleave", "slice"])]
    capacity: Option<Rate>,
    /// Rate before and after the pulse, as a multiple of the capacity [default: 0.7]
    #[arg(long = "base", value_name = "FACTOR", value_parser = factor, help_heading = HEADING, hide_short_help = true)]
    base_rate: Option<f64>,
    /// Pulse, as a multiple of the capacity [default: 1.5]
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = HEADING)]
    pulse: Option<f64>,
    /// Time before the pulse [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = HEADING, hide_short_help = true)]
    before: Option<Time>,
    /// Time of the pulse [default: 5s]
    #[arg(long, value_name = "TIME", help_heading = HEADING, hide_short_help = true)]
    pulse_length: Option<Time>,
    /// Time after the pulse [default: 20s]
    #[arg(long, value_name = "TIME", help_heading = HEADING, hide_short_help = true)]
    after: Option<Time>,
    #[command(flatten)]
    search: SearchArgs,
    /// First rate, in requests per second [default: 1000]
    #[arg(long, value_name = "RATE", help_heading = "Search", hide_short_help = true)]
    from: Option<Rate>,
    /// Highest rate to try [default: as memory allows]
    #[arg(long, value_name = "RATE", help_heading = "Search", hide_short_help = true)]
    to: Option<Rate>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

/// Parses a multiple of the capacity.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let error = || format!("invalid factor `{text}`: expected a number above 0, such as 1.5");
    number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(error)
}

impl Args {
    /// Returns the rates over time.
    fn pulse(&self) -> anyhow::Result<Pulse> {
        let (base, peak) = (self.base_rate.unwrap_or(0.7), self.pulse.unwrap_or(1.5));
        if peak <= base {
            bail!("--pulse {peak}: expected a rate above that before the pulse, --base {base}; try {}", 2.0 * base);
        }
        // Bins of goodput must not contain an edge of the pulse.
        let whole = |flag: &str, time: Option<Time>, default_ns: u64| match time.map_or(default_ns, |time| time.0) {
            0 => bail!("--{flag} 0: too short; try 5s"),
            ns if ns.is_multiple_of(100 * MS) => Ok(ns),
            ns => bail!(
                "--{flag} {}: expected a multiple of 100ms; try {}",
                Time(ns),
                Time(ns.next_multiple_of(100 * MS))
            ),
        };
        let pulse = Pulse {
            base,
            peak,
            before_ns: whole("before", self.before, 10_000 * MS)?,
            length_ns: whole("pulse-length", self.pulse_length, 5_000 * MS)?,
            after_ns: whole("after", self.after, 20_000 * MS)?,
        };
        let longest = Time(100_000 * MS);
        if pulse.before_ns.saturating_add(pulse.length_ns).saturating_add(pulse.after_ns) > longest.0 {
            bail!("--before, --pulse-length and --after: together more than {longest}; shorten one of them");
        }
        Ok(pulse)
    }

    /// Returns the experiment of the probes, and the time limit of requests.
    fn experiment(&self) -> anyhow::Result<(Experiment, RequestTimeout)> {
        let mut experiment = self.setup.experiment_of_rates(&self.base, "overload")?;
        let workload = &experiment.workload;
        if workload.requests_per_connection.is_some() || workload.service == Service::Udp {
            bail!(
                "overload: only requests over lasting connections can be sent again; try fixed, kv or http without --requests-per-connection"
            );
        }
        if workload.profile.is_some() {
            bail!("overload has a rate profile of its own; remove that of FILE");
        }
        experiment.client.request_timeout.get_or_insert(REQUEST_TIMEOUT);
        let rate = match self.capacity {
            None => {
                set_slices_of_search(&mut experiment, &self.search.limits())?;
                self.from.unwrap_or(Rate(1_000.0))
            }
            Some(capacity) => {
                separate(&mut experiment, "--capacity")?;
                capacity
            }
        };
        experiment.workload.rate = Some(OneOrMany(vec![rate]));
        let (mut experiment, _) = checked(&experiment, &self.setup.options, self.base.has_file())?;
        let (flag, window_ns) = match self.capacity {
            None => ("--from", experiment.phases.measure.0),
            Some(_) => ("--capacity", self.pulse()?.profile(rate.0).length_ns()),
        };
        let min_per_s = SearchGoal::min_rate_per_s(window_ns);
        if rate.0 < min_per_s {
            bail!("{flag} {rate}: too few requests for a percentile; try {min_per_s} or more");
        }
        let request_timeout = experiment.client.request_timeout().expect("the limit is set above");
        // Probes measure response times without a limit, and without retries.
        let client = &mut experiment.client;
        (client.request_timeout, client.retries, client.retry_budget) = (None, None, None);
        Ok((experiment, request_timeout))
    }

    fn check(&self) -> anyhow::Result<()> {
        let usage = |kind, reason: &str| Err(clap::Error::raw(kind, reason).into());
        let has_search = self.search.is_given() || self.from.is_some() || self.to.is_some();
        if self.capacity.is_some() && has_search {
            let reason = "--capacity: a given capacity needs no search; omit the flags of the search, such as --p99";
            return usage(ErrorKind::ArgumentConflict, reason);
        }
        if self.capacity.is_none() && self.search.limits().is_empty() && self.execution.resume.is_none() {
            let reason = "the search for the capacity needs a limit: add --p99 5ms (or --p50, --p90, --p95, --p999), or give \
                          the capacity with --capacity RATE";
            return usage(ErrorKind::MissingRequiredArgument, reason);
        }
        Ok(())
    }
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.check()?;
    let (over_time, precision) = (args.pulse()?, args.search.precision(&SEARCH)?);
    let limit = Cell::new(None);
    let experiment = || {
        let (experiment, request_timeout) = args.experiment()?;
        limit.set(Some(request_timeout));
        Ok(experiment)
    };
    let strategy = |mut plan: Plan, host: &Host| {
        plan.trials.retain(|trial| !trial.is_reference);
        let request_timeout = limit.get().expect("the experiment comes before its plan");
        let from = args.from.map_or(1_000.0, |from| from.0);
        let goal = |capacity| OverloadGoal { capacity, pulse: over_time, request_timeout };
        // The pulse has the most requests, all of which need memory.
        let of_unit = goal(CapacitySource::Given { per_s: 1.0 });
        let in_memory = plan.trials.iter().map(|trial| {
            let trial = pulse(trial, plan.seed, 0, &of_unit, 1.0);
            (plan::rate_max_per_s(&trial, host) / trial.workload.rate_per_s.unwrap_or(1.0)).round()
        });
        let in_memory = in_memory.fold(f64::INFINITY, f64::min);
        let (flag, given) = args.capacity.map_or(("--from", from), |capacity| ("--capacity", capacity.0));
        let most = args.to.map_or(in_memory, |to| to.0.min(in_memory));
        if given > most {
            bail!(
                "{flag} {given} exceeds the highest value, {most} (--to, or the limit of memory); try a lower one, a shorter \
                 pulse, or fewer --retries"
            );
        }
        let capacity = match args.capacity {
            Some(capacity) => CapacitySource::Given { per_s: capacity.0 },
            None => CapacitySource::Search(SearchGoal {
                limits: args.search.limits(),
                varied: Varied::Rate,
                from,
                most,
                precision,
                time_max_ns: args.search.time_max_ns(&SEARCH),
            }),
        };
        Ok((plan, Strategy::Overload(goal(capacity))))
    };
    let change = |header: &mut RunHeader| match header.strategy {
        Strategy::Overload(_) => Ok(()),
        _ => bail!("--resume: the run is no overload; name one, as in `muxbench overload --resume FOLDER`"),
    };
    Ok(execution::run(&args.execution, experiment, strategy, change)?.0)
}
