//! `muxbench sweep`: a series of rates up to saturation.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use harness::plan::Plan;
use harness::record::{Strategy, SweepGoal};
use harness::spec::OneOrMany;
use harness::spec::units::Rates;
use harness::store;
use report::analysis::Sweep;
use report::export::autobench;

use crate::options::execution::ExecutionArgs;
use crate::options::set;
use crate::options::setup::SetupArgs;
use crate::{execution, files};

/// Raise the rate in steps until each architecture is saturated
///
/// A step is all repeats of all architectures at one rate, which take turns where possible. An architecture is past saturation
/// at a step if most of its repeats are saturated, have failed, or achieved less than 95 % of the planned rate. After --past
/// such steps in a row, the sweep skips the architecture, so that one disturbed step has no effect.
///
/// The columns are those of autobench: dem_req_rate, req_rate, con_rate, min_rep_rate, avg_rep_rate, max_rep_rate,
/// stddev_rep_rate (requests, connections and replies per second), resp_time (mean response time from the planned send, ms),
/// net_io (KiB/s), errors (%). --csv writes a row per architecture and step, with more columns. --tsv writes autobench's
/// layout: a row per step, with the architecture as suffix of each column name.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench sweep --rate 10000..45000+5000
  muxbench sweep --arch epoll,mt --rate '1k..64k*2' --csv steps.csv
  muxbench sweep --target mine=http://127.0.0.1:8080/ --rate '1k..64k*2'
  muxbench sweep --rate 10k,20k --measure 40s --past never
  muxbench sweep --resume --csv steps.csv  # finish the run, or export its rows")]
pub struct Args {
    #[command(flatten)]
    setup: SetupArgs,
    /// Requests per second, as in 1k..9k+2k; required
    ///
    /// Comma-separated: FIRST..LAST+STEP, FIRST..LAST*FACTOR, or one rate. Only --resume needs none
    #[arg(long, short, value_name = "RATES", value_delimiter = ',', required_unless_present = "resume")]
    #[arg(help_heading = "Load", display_order = 0)]
    rate: Vec<Rates>,
    /// Steps past saturation before a skip, or never [default: 2]
    ///
    /// After this number of steps in a row, the sweep skips the architecture
    #[arg(long, value_name = "STEPS", help_heading = "Trials")]
    past: Option<Past>,
    /// Write the rows to a CSV file
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    csv: Option<PathBuf>,
    /// Write the rows to a TSV file, in autobench's layout
    #[arg(long, value_name = "FILE", help_heading = "Results", hide_short_help = true)]
    tsv: Option<PathBuf>,
    #[command(flatten)]
    execution: ExecutionArgs,
}

/// The value of `--past`; `None` means never.
#[derive(Clone, Copy, Debug)]
struct Past(Option<u32>);

impl FromStr for Past {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let error = |_| format!("invalid number of steps `{text}`: expected a number above 0, or never");
        text.parse::<NonZeroU32>().map(|steps| Self(Some(steps.get()))).map_err(error)
    }
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Check the files now instead of after hours.
    let check = || {
        files::check_distinct([("--csv", &args.csv), ("--tsv", &args.tsv)])?;
        [&args.csv, &args.tsv].into_iter().flatten().try_for_each(|file| files::check_in_place(file))
    };
    let experiment = || {
        check()?;
        let mut experiment = args.setup.experiment_of_rates("sweep")?;
        let rates = args.rate.iter().flat_map(|rates| rates.0.iter().copied());
        experiment.workload.rate = Some(OneOrMany(rates.collect()));
        set(&mut experiment.repeats, args.setup.options.get::<NonZeroU32>("repeats"));
        Ok(args.setup.checked(&experiment)?.0)
    };
    let past = args.past.map_or(Some(2), |past| past.0);
    let strategy = |plan: Plan, _: &_| Ok((plan.by_rate(), Strategy::Sweep(SweepGoal { past })));
    let (code, folder) = execution::run(&args.execution, experiment, strategy, |_| check())?;
    write(args, &folder)?;
    Ok(code)
}

fn write(args: &Args, folder: &Path) -> anyhow::Result<()> {
    for (file, format) in [(&args.csv, autobench::csv as fn(&Sweep) -> String), (&args.tsv, autobench::tsv)] {
        let Some(file) = file else { continue };
        let Some(sweep) = Sweep::of(&store::read(folder)?) else {
            bail!("--csv, --tsv: the run in {} is no sweep; try `muxbench report --csv`", folder.display())
        };
        std::fs::write(file, format(&sweep)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
