//! `muxbench capacity`: the highest rate within a limit of the response time, or the most connections at a rate.

use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::bail;
use clap::error::ErrorKind;
use harness::host::Host;
use harness::plan::{self, Plan};
use harness::record::{RunHeader, SearchGoal, Strategy, Varied};
use harness::spec::OneOrMany;
use harness::spec::units::{Rate, Time};

use crate::options::execution::ExecutionArgs;
use crate::options::experiment::BaseArgs;
use crate::options::search::{SearchArgs, SearchDefaults};
use crate::options::setup::{SetupArgs, checked, separate, set_slices_of_search};
use crate::{execution, output};

/// The defaults of `--to`: requests per second, and connections.
const MOST_PER_S: f64 = 10e6;
const MOST_CONNECTIONS: f64 = 10e3;
const SEARCH: SearchDefaults = SearchDefaults { precision: 0.05, time_max_ns: 300_000_000_000 };

/// Find the highest rate within a limit of the response time
///
/// The response time runs from the planned send of a request to the last byte of its response, and so includes queueing. A
/// probe is a short trial at one rate. It succeeds if it meets all limits, achieves 95 % of the planned rate, and has no errors
/// (`udp`: loses at most 1 %).
///
/// The search doubles the rate until two probes in a row fail, or halves it until one succeeds. It then estimates the capacity
/// from all probes and their reliability, so that one disturbed probe does not mislead it. The printed interval contains the
/// capacity with a probability of 95 %. If the client is the bottleneck, the result is a lower bound.
///
/// With --at-rate the search is for the most simultaneous connections at this rate. It needs no limit: without one, a probe
/// succeeds if it achieves its rate and has no errors.
///
/// The searches take turns. Near the capacity, where architectures are compared, their probes share a window: all servers are
/// up at once and loaded in turns (--interleave never: separately).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench capacity --p99 1ms --arch epoll,symped:2,mt --connections 1000
  muxbench capacity --p99 5ms --target mine=http://127.0.0.1:8080/
  muxbench capacity --p99 1ms
  muxbench capacity --p50 200us --p999 5ms --precision 2% --time-max 30min
  muxbench capacity --at-rate 2000 --to 20000  # most connections
  muxbench capacity --resume --time-max 1h  # continue, with one hour in all")]
pub struct Args {
    #[command(flatten)]
    base: BaseArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Search for the most connections at this rate, not for the highest rate; servers then never share a window
    #[arg(long, value_name = "RATE", conflicts_with_all = ["connections", "interleave", "slice"], help_heading = "Search", hide_short_help = true)]
    at_rate: Option<Rate>,
    /// First rate, in requests per second, or with --at-rate number of connections [default: 1000]
    #[arg(long, value_name = "N", help_heading = "Search", hide_short_help = true)]
    from: Option<Rate>,
    /// Highest rate or number of connections to try [default: 10000000 requests per second, or as memory allows; 10000
    /// connections]
    #[arg(long, value_name = "N", help_heading = "Search", hide_short_help = true)]
    to: Option<Rate>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let usage = |kind, reason: &str| Err(clap::Error::raw(kind, reason).into());
    let limits = args.search.limits();
    if limits.is_empty() && args.at_rate.is_none() && args.execution.resume.is_none() {
        let reason = "a search needs a limit: add --p99 1ms, or another of --p50, --p90, --p95, --p99 and --p999";
        return usage(ErrorKind::MissingRequiredArgument, reason);
    }
    let precision = args.search.precision(&SEARCH)?;
    let from = args.from.unwrap_or(Rate(1_000.0));
    let (varied, most) = match args.at_rate {
        Some(_) => (Varied::Connections, MOST_CONNECTIONS),
        None => (Varied::Rate, MOST_PER_S),
    };
    let most = args.to.map_or(most, |to| to.0);
    let experiment = || {
        let mut experiment = args.setup.experiment_of_rates(&args.base, "capacity")?;
        if experiment.workload.profile.is_some() {
            bail!("capacity searches for a constant rate; remove the rate profile, or try `muxbench sweep`");
        }
        set_slices_of_search(&mut experiment, &limits)?;
        if args.at_rate.is_some() {
            let Some(connections) = NonZeroU32::new(most as u32).filter(|it| f64::from(it.get()) == most) else {
                bail!("--to {most}: expected a number of connections; try 10000");
            };
            // The plan then checks whether this host can run the most connections.
            experiment.workload.connections = OneOrMany(vec![connections]);
            // A server answers later with more connections, in the turns of others.
            separate(&mut experiment, "--at-rate")?;
        }
        let (flag, rate) = args.at_rate.map_or(("--from", from), |rate| ("--at-rate", rate));
        experiment.workload.rate = Some(OneOrMany(vec![rate]));
        let (experiment, _) = checked(&experiment, &args.setup.options, args.base.has_file())?;
        let min_rate_per_s = SearchGoal::min_rate_per_s(experiment.phases.measure.0);
        if rate.0 < min_rate_per_s {
            bail!(
                "{flag} {rate}: too few requests for a percentile; try {min_rate_per_s} or more, or a longer --measure"
            );
        }
        Ok(experiment)
    };
    let strategy = |mut plan: Plan, host: &Host| {
        // Searches are compared by their capacities, which need no links between groups.
        plan.trials.retain(|trial| !trial.is_reference);
        let in_memory = plan.trials.iter().map(|trial| plan::rate_max_per_s(trial, host).round());
        let most = in_memory.filter(|_| varied == Varied::Rate).fold(most, f64::min);
        if most < from.0 {
            bail!("--from {from} exceeds the highest value, {most} (--to, or the limit of memory); try a lower one");
        }
        if !args.execution.quiet {
            interleaving(&plan).iter().for_each(|sentence| output::note(format_args!("interleaving: {sentence}")));
        }
        let (limits, from) = (limits.clone(), from.0);
        let time_max_ns = args.search.time_max_ns(&SEARCH);
        Ok((plan, Strategy::Capacity(SearchGoal { limits, varied, from, most, precision, time_max_ns })))
    };
    let change = |header: &mut RunHeader| {
        match (&mut header.strategy, args.search.time_max) {
            (Strategy::Capacity(goal), Some(time_max)) => goal.time_max_ns = time_max.0,
            (_, Some(_)) => bail!("--time-max: the run is no search; omit it"),
            (_, None) => {}
        }
        Ok(())
    };
    Ok(execution::run(&args.execution, experiment, strategy, change)?.0)
}

/// Describes the probes that share windows, and the separate ones with the reasons.
fn interleaving(plan: &Plan) -> Vec<String> {
    let slices = plan.trials.iter().find_map(|trial| trial.client.slices);
    let shared = slices.map(|slices| {
        let (turns, overload_max) = (Time(slices.slice_ns), slices.overload_max());
        format!(
            "probes up to {overload_max} times the highest rate that met the limits share windows, in turns of {turns}; the others \
             run separately, because they may answer in the turns of other servers, or need longer windows"
        )
    });
    let separate = plan.interleaving.iter().filter(|sentence| sentence.starts_with("separate: "));
    shared.into_iter().chain(separate.cloned()).collect()
}
