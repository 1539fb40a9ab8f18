//! `muxbench capacity`: the highest rate at which a limit of the response time is met.

use std::process::ExitCode;

use anyhow::bail;
use clap::error::ErrorKind;
use harness::model::Strategy;
use harness::model::{LatencyLimit, SearchGoal};
use harness::plan;
use harness::spec::OneOrMany;
use harness::spec::units::{Rate, Share, Time};

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::setup::{SetupArgs, checked};

/// No rate beyond this is tried, even if there were memory for it.
const MOST_PER_S: f64 = 10e6;

/// Find the highest rate at which each architecture meets a limit of its response time
///
/// The response time runs from when a request was due to the last byte of its response, so that a wait for others is in it.
/// A probe is a short trial at one rate: it meets the limits, achieving 95 % of what was due without an error, or it does not. Of
/// datagrams one in a hundred may be lost; the response times are of the others. The rate is doubled until two probes in a row
/// do not meet the limits, then where the edge is follows from all probes, whose reliability is inferred as well: a probe that a
/// neighbour spoilt, or near the edge chance, misleads no more than it should. The interval holds the rate with a probability of
/// 95 %. Architectures take turns, so that what disturbs the machine disturbs all alike. Where it is the client that cannot keep
/// up, the rate is told as what the server can at least.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench capacity --p99 1ms
  muxbench capacity --p99 1ms --arch epoll,symped:2,mt --connections 1000 --request 1B --response 1B
  muxbench capacity --p50 200us --p999 5ms --arch epoll --precision 2% --time-max 30min
  muxbench capacity --resume                # go on with the newest run
  muxbench capacity --resume --time-max 1h  # and give it more time, an hour in all")]
pub struct Args {
    /// Limit of the median response time
    #[arg(long, value_name = "TIME", help_heading = "Limits (all that are given must be met)")]
    p50: Option<Time>,
    /// Limit of its 90th percentile
    #[arg(long, value_name = "TIME", help_heading = "Limits (all that are given must be met)")]
    p90: Option<Time>,
    /// Limit of its 99th percentile
    #[arg(long, value_name = "TIME", help_heading = "Limits (all that are given must be met)")]
    p99: Option<Time>,
    /// Limit of its 99.9th percentile; --p99.9 too
    #[arg(long, value_name = "TIME", alias = "p99.9", help_heading = "Limits (all that are given must be met)")]
    p999: Option<Time>,

    /// First rate, in requests a second [default: 1000]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    from: Option<Rate>,
    /// Highest rate that is tried [default: what there is memory for]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    to: Option<Rate>,
    /// A search ends when its interval is within this share of the rate, on either side [default: 5%]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    precision: Option<Share>,
    /// No probe is begun after this time, of all searches together; --resume takes another [default: 10min]
    #[arg(long, value_name = "TIME", help_heading = "Search")]
    time_max: Option<Time>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

impl Args {
    fn limits(&self) -> Vec<LatencyLimit> {
        let limits = [(0.5, self.p50), (0.9, self.p90), (0.99, self.p99), (0.999, self.p999)];
        limits.into_iter().filter_map(|(quantile, time)| Some(LatencyLimit { quantile, max_ns: time?.0 })).collect()
    }
}

/// Searches.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.execution.explain {
        let what = "--explain is of trials at one rate, and each probe has its own; see `muxbench compare --explain`";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, what).into());
    }
    if args.execution.is_resume() {
        return match args.time_max {
            Some(time_max) => execution::resume_search(&args.execution, time_max),
            None => execution::resume(&args.execution),
        };
    }
    let limits = args.limits();
    if limits.is_empty() {
        let what = "a capacity needs a limit, as in --p99 1ms; there are --p50, --p90, --p99 and --p999";
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, what).into());
    }
    let precision = args.precision.map_or(0.05, |share| share.0);
    if !(0.005..=0.5).contains(&precision) {
        bail!("--precision {}: write a share from 0.5% to 50%", Share(precision));
    }
    let from = args.from.unwrap_or(Rate(1_000.0));
    let experiment = || {
        let mut experiment = args.setup.experiment_of_rates("capacity", Time(1_000_000_000))?;
        if experiment.workload.is_closed() {
            bail!("--schedule closed: a closed loop has no rate to search; try an open-loop schedule");
        }
        experiment.workload.rate = Some(OneOrMany(vec![from]));
        let (experiment, _) = checked(&experiment)?;
        let least_per_s = SearchGoal::least_per_s(experiment.phases.measure.0);
        if from.0 < least_per_s {
            bail!(
                "--from {from}: so few requests say nothing of a percentile; write {least_per_s} or more, or raise --measure"
            );
        }
        Ok(experiment)
    };
    let course = |plan: plan::Plan, host: &harness::host::Host| {
        let there_is_memory = plan.trials.iter().map(|trial| plan::rate_max_per_s(trial, host).round());
        let most_per_s = there_is_memory.fold(args.to.map_or(MOST_PER_S, |rate| rate.0), f64::min);
        if most_per_s < from.0 {
            bail!("--from {from}: no rate beyond {most_per_s} is tried (--to, or what there is memory for); lower it");
        }
        let time_max_ns = args.time_max.map_or(600_000_000_000, |time| time.0);
        Ok((plan, Strategy::Capacity(SearchGoal { limits, from_per_s: from.0, most_per_s, precision, time_max_ns })))
    };
    Ok(execution::start_as(experiment, &args.execution, course)?.0)
}
