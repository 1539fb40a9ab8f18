//! `muxbench capacity`: the highest rate within a limit of the response time, or the most connections at a rate.

use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::bail;
use clap::ArgGroup;
use harness::host::Host;
use harness::plan::{self, Plan};
use harness::record::{RunHeader, SearchGoal, Strategy, Varied};
use harness::spec::OneOrMany;
use harness::spec::interleave::Interleave;
use harness::spec::units::{Rate, Time};

use crate::options::execution::ExecutionArgs;
use crate::options::search::{goal, limits};
use crate::options::setup::{SetupArgs, set_slices_of_search};
use crate::{execution, output};

/// The defaults of `--to`: requests per second, and connections.
const MOST_PER_S: f64 = 10e6;
const MOST_CONNECTIONS: f64 = 10e3;

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
#[command(override_usage = "muxbench capacity [OPTIONS] --p99 <TIME> [FILE]")]
#[command(group = ArgGroup::new("goal").args(["p50", "p90", "p95", "p99", "p999", "at-rate", "resume"]).required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = &args.execution.actions;
    let (limits, at_rate) = (limits(options), options.get::<Rate>("at-rate"));
    let from: Rate = options.get_or_default("from", "capacity");
    let (varied, most) = match at_rate {
        Some(_) => (Varied::Connections, MOST_CONNECTIONS),
        None => (Varied::Rate, MOST_PER_S),
    };
    let most = options.get::<Rate>("to").map_or(most, |to| to.0);
    let experiment = || {
        let mut experiment = args.setup.experiment_of_rates("capacity")?;
        if experiment.workload.rate_profile.is_some() {
            bail!("capacity searches for a constant rate; remove the rate profile, or try `muxbench sweep`");
        }
        set_slices_of_search(&mut experiment, &limits);
        if at_rate.is_some() {
            let Some(connections) = NonZeroU32::new(most as u32).filter(|it| f64::from(it.get()) == most) else {
                bail!("--to {most}: expected a number of connections; try 10000");
            };
            // The plan then checks whether this host can run the most connections.
            experiment.workload.connections = OneOrMany(vec![connections]);
            // A server answers later with more connections, in the turns of others.
            experiment.interleave = Interleave::Never;
        }
        let (flag, rate) = at_rate.map_or(("--from", from), |rate| ("--at-rate", rate));
        experiment.workload.rate = Some(OneOrMany(vec![rate]));
        let (experiment, _) = args.setup.checked(&experiment)?;
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
        if !options.has("quiet") {
            interleaving(&plan).iter().for_each(|sentence| output::note(format_args!("interleaving: {sentence}")));
        }
        Ok((plan, Strategy::Capacity(goal(options, "capacity", varied, most))))
    };
    let change = |header: &mut RunHeader| {
        match (&mut header.strategy, options.get::<Time>("time-max")) {
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
