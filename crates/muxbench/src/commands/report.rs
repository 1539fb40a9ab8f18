//! `muxbench report`: a run again, from its store alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::store;

use crate::output;

/// Print a run again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench report                          # the newest under results/
  muxbench report results/20260101T120000-compare --csv > trials.csv")]
pub struct Args {
    /// The run's folder [default: the newest under results/]
    #[arg(value_name = "RUN")]
    run: Option<PathBuf>,
    /// Print JSON: everything
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a row a trial
    #[arg(long)]
    csv: bool,
}

/// Prints it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = match &args.run {
        Some(folder) => folder.clone(),
        None => store::latest(Path::new("results"))?,
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
