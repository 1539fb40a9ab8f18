//! `muxbench report`: a run again, or two side by side, from their stores alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use lab::store;
use report::{Versus, versus};

use crate::output;

/// Print a run again, or two runs side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench report                          # the newest under results/
  muxbench report results/20260101T120000-compare --csv > trials.csv
  muxbench report results/old-kernel results/new-kernel          # the second against the first")]
pub struct Args {
    /// The run's folder [default: the newest under results/]; with a second one, that is compared with the first
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print JSON: everything
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a row a trial; of two runs, a row for what is compared
    #[arg(long)]
    csv: bool,
}

/// Prints it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = match args.runs.as_slice() {
        [] => store::latest(Path::new("results"))?,
        [folder] => folder.clone(),
        [a, b] => return side_by_side(args, a, b),
        runs => {
            bail!("{} runs are given; name one to print it, or two to compare the second with the first", runs.len())
        }
    };
    let run = store::read(&folder)?;
    if args.json {
        output::print_json(&report::json::of(&run))?;
    } else if args.csv {
        output::print(&report::csv::of(&run)?)?;
    } else {
        output::print(&report::terminal::render(&run, output::width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn side_by_side(args: &Args, a: &Path, b: &Path) -> anyhow::Result<ExitCode> {
    let versus = Versus::of(&store::read(a)?, &store::read(b)?);
    if args.json {
        output::print_json(&versus)?;
    } else if args.csv {
        output::print(&versus::csv(&versus)?)?;
    } else {
        output::print(&versus::render(&versus, output::width()))?;
    }
    Ok(ExitCode::SUCCESS)
}
