//! `muxbench sweep`: a series of rates, one row a step, up to saturation.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use harness::model::Strategy;
use harness::spec::OneOrMany;
use harness::spec::units::{Rates, Time};
use harness::store;
use report::export::autobench;
use report::model::Sweep;

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::set;
use crate::options::setup::{SetupArgs, checked};

/// Run a series of rates, one row a step, until each architecture is past saturation
///
/// Rates ascend; at each, all architectures take turns, with all their repeats, before the next begins. A step is past
/// saturation when most of its repeats are saturated, failed, or achieved less than 95 % of what was due. After two such steps in a
/// row an architecture is left out, so that one step that a neighbour spoilt stops nothing, and the others go on.
///
/// The columns are autobench's: dem_req_rate, req_rate, con_rate, min_rep_rate, avg_rep_rate, max_rep_rate,
/// stddev_rep_rate (requests, connections and replies a second), resp_time (mean, ms, from when a request was due),
/// net_io (KiB/s), errors (%). --csv has a row for each architecture and step, with more columns; --tsv is autobench's own
/// layout, a row a step, where the columns of several architectures are told apart by their names' ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench sweep --rate 10000..45000+5000
  muxbench sweep --arch epoll,mt --rate 1k..64k*2 --repeats 3 --csv steps.csv --tsv steps.tsv
  muxbench sweep --arch epoll --rate 10k,15k,20k --measure 40s --past never   # as httperf looks: every 5 s
  muxbench sweep --resume --csv steps.csv           # finish the newest run, or write its rows again")]
pub struct Args {
    /// Requests a second: FIRST..LAST+STEP, FIRST..LAST*FACTOR, or one rate; several with commas
    #[arg(long, value_name = "RATES", value_delimiter = ',', required_unless_present = "resume")]
    rate: Vec<Rates>,
    /// How often each step is run [default: 1]
    #[arg(long, value_name = "N")]
    repeats: Option<NonZeroU32>,
    /// Steps in a row past saturation after which an architecture is left out; never: none is [default: 2]
    #[arg(long, value_name = "STEPS")]
    past: Option<Past>,
    /// Write the rows to a file as CSV
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    csv: Option<PathBuf>,
    /// Write them as TSV, in autobench's layout
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    tsv: Option<PathBuf>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

/// Steps in a row past saturation after which an architecture is left out; `None`: it never is.
#[derive(Clone, Copy, Debug)]
struct Past(Option<u32>);

impl FromStr for Past {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let steps =
            text.parse::<NonZeroU32>().map_err(|_| format!("`{text}` is no number of steps; write 2, or never"))?;
        Ok(Self(Some(steps.get())))
    }
}

/// Sweeps.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Before hours are spent.
    let check = || [&args.csv, &args.tsv].into_iter().flatten().try_for_each(|file| check_place(file));
    let experiment = || {
        check()?;
        let mut experiment = args.setup.experiment_of_rates("sweep", Time(2_000_000_000))?;
        let rates = args.rate.iter().flat_map(|rates| rates.0.iter().copied());
        experiment.workload.rate = Some(OneOrMany(rates.collect()));
        set(&mut experiment.repeats, args.repeats);
        Ok(checked(&experiment)?.0)
    };
    let (code, folder) = if args.execution.is_resume() {
        execution::resume_after(&args.execution, check)?
    } else {
        let course = Strategy::Sweep { past: args.past.map_or(Some(2), |past| past.0) };
        execution::start_as(experiment, &args.execution, |plan, _| Ok((plan.by_rate(), course)))?
    };
    write(args, &folder)?;
    Ok(code)
}

/// Writes the rows to the files that were asked for.
fn write(args: &Args, folder: &Path) -> anyhow::Result<()> {
    type Writer = fn(&Sweep) -> anyhow::Result<String>;
    let files: [(&Option<PathBuf>, Writer); 2] = [(&args.csv, autobench::csv), (&args.tsv, autobench::tsv)];
    if files.iter().all(|(file, _)| file.is_none()) {
        return Ok(());
    }
    let Some(sweep) = Sweep::of(&store::read(folder)?) else {
        bail!("{}: that run is no sweep, and has no rows of one; see `muxbench report --csv`", folder.display())
    };
    for (file, of) in files {
        let Some(file) = file else { continue };
        std::fs::write(file, of(&sweep)?).with_context(|| format!("{}: cannot write the rows", file.display()))?;
    }
    Ok(())
}

fn check_place(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() || file.is_dir() {
        bail!("{}: no file can be written there; make its folder, or name another", file.display());
    }
    Ok(())
}
