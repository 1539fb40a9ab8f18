//! `muxbench overload`: how servers behave beyond their capacity, and how long they take to recover.

use std::cell::Cell;
use std::process::ExitCode;

use anyhow::bail;
use clap::ArgGroup;
use harness::host::Host;
use harness::plan::{self, Plan};
use harness::record::{CapacitySource, OverloadGoal, Pulse, SearchGoal, Strategy, Varied};
use harness::spec::interleave::Interleave;
use harness::spec::units::{Rate, Time};
use harness::spec::{Experiment, OneOrMany, Service};
use harness::strategy::overload::pulse;
use load::config::RequestTimeout;

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::search::{goal, limits};
use crate::options::setup::{SetupArgs, set_slices_of_search};

const NAME: &str = "overload";
/// The default of `--request-timeout`.
const REQUEST_TIMEOUT: Time = Time(1_000_000_000);
const LONGEST: Time = Time(100_000_000_000);

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
#[command(override_usage = "muxbench overload [OPTIONS] <--p99 <TIME>|--capacity <RATE>> [FILE]")]
#[command(group = ArgGroup::new("goal").args(["p50", "p90", "p95", "p99", "p999", "capacity", "resume"]).required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

impl Args {
    fn capacity(&self) -> Option<Rate> {
        self.execution.actions.get("capacity")
    }

    fn from(&self) -> Rate {
        self.execution.actions.get_or_default("from", NAME)
    }

    /// Returns the rates over time.
    fn pulse(&self) -> anyhow::Result<Pulse> {
        let options = &self.execution.actions;
        let ns = |name| options.get_or_default::<Time>(name, NAME).0;
        let pulse = Pulse {
            base: options.get_or_default("base", NAME),
            peak: options.get_or_default("pulse", NAME),
            before_ns: ns("before"),
            length_ns: ns("pulse-length"),
            after_ns: ns("after"),
        };
        if pulse.peak <= pulse.base {
            let (peak, base) = (pulse.peak, pulse.base);
            bail!("--pulse {peak}: expected a rate above that before the pulse, --base {base}; try {}", 2.0 * base);
        }
        if pulse.before_ns.saturating_add(pulse.length_ns).saturating_add(pulse.after_ns) > LONGEST.0 {
            bail!("--before, --pulse-length and --after: together more than {LONGEST}; shorten one of them");
        }
        Ok(pulse)
    }

    /// Returns the experiment of the probes, and the time limit of requests.
    fn experiment(&self) -> anyhow::Result<(Experiment, RequestTimeout)> {
        let mut experiment = self.setup.experiment_of_rates("overload")?;
        let workload = &experiment.workload;
        if workload.requests_per_connection.is_some() || workload.service == Service::Udp {
            bail!(
                "overload: only requests over lasting connections can be sent again; try fixed, kv or http without --requests-per-connection"
            );
        }
        if workload.rate_profile.is_some() {
            bail!("overload has a rate profile of its own; remove that of FILE");
        }
        experiment.client.request_timeout.get_or_insert(REQUEST_TIMEOUT);
        let rate = match self.capacity() {
            None => {
                set_slices_of_search(&mut experiment, &limits(&self.execution.actions));
                self.from()
            }
            Some(capacity) => {
                experiment.interleave = Interleave::Never;
                capacity
            }
        };
        experiment.workload.rate = Some(OneOrMany(vec![rate]));
        let (mut experiment, _) = self.setup.checked(&experiment)?;
        let (flag, window_ns) = match self.capacity() {
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
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (options, over_time) = (&args.execution.actions, args.pulse()?);
    let limit = Cell::new(None);
    let experiment = || {
        let (experiment, request_timeout) = args.experiment()?;
        limit.set(Some(request_timeout));
        Ok(experiment)
    };
    let strategy = |mut plan: Plan, host: &Host| {
        plan.trials.retain(|trial| !trial.is_reference);
        let request_timeout = limit.get().expect("the experiment comes before its plan");
        let goal_of = |capacity| OverloadGoal { capacity, pulse: over_time, request_timeout };
        // The pulse has the most requests, all of which need memory.
        let of_unit = goal_of(CapacitySource::Given { per_s: 1.0 });
        let in_memory = plan.trials.iter().map(|trial| {
            let trial = pulse(trial, plan.seed, 0, &of_unit, 1.0);
            (plan::rate_max_per_s(&trial, host) / trial.workload.rate_per_s().unwrap_or(1.0)).round()
        });
        let in_memory = in_memory.fold(f64::INFINITY, f64::min);
        let (flag, given) = args.capacity().map_or(("--from", args.from().0), |capacity| ("--capacity", capacity.0));
        let most = options.get::<Rate>("to").map_or(in_memory, |to| to.0.min(in_memory));
        if given > most {
            bail!(
                "{flag} {given} exceeds the highest value, {most} (--to, or the limit of memory); try a lower one, a shorter \
                 pulse, or fewer --retries"
            );
        }
        let capacity = match args.capacity() {
            Some(capacity) => CapacitySource::Given { per_s: capacity.0 },
            None => CapacitySource::Search(goal(options, NAME, Varied::Rate, most)),
        };
        Ok((plan, Strategy::Overload(goal_of(capacity))))
    };
    Ok(execution::run(&args.execution, experiment, strategy, execution::of_command(NAME))?.0)
}
