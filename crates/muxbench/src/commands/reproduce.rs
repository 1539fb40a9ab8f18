//! `muxbench reproduce`: a paper's experiments on this machine, beside what it published and claims.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::PossibleValuesParser;
use lab::presets;
use lab::runner::Ended;
use report::deviation::SendsOf;
use report::paper::{self, Beside, PAPERS};

use super::report::{sends, show_beside};
use crate::{execution, output};

/// Run a paper's experiments, and say which of its claims hold here
///
/// What an earlier call has finished is not run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench reproduce kawai2008             # Figures 6, 8, 10 and 11, at the quick scale
  muxbench reproduce kawai2006 --full      # Tables 3, 4 and 5 as the paper measured: hours
  muxbench reproduce voras2009 --json > claims.json")]
pub struct Args {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: String,
    /// The same matrix with shorter windows: minutes; this is the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Windows and repeats as the paper has them: hours
    #[arg(long)]
    full: bool,
    /// Folder for the results, one below it for each experiment [default: results/reproduce-PAPER-SCALE]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Print JSON: the tables and every figure that a claim was held against
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a row for each published value, or where there are none, for each figure that a claim was held against
    #[arg(long)]
    csv: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

/// Runs what is missing, and shows all of it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(paper) = paper::find(&args.paper) else { bail!("no such paper: {}", args.paper) };
    let scale = if args.full { "full" } else { "quick" };
    let usual = || Path::new("results").join(format!("reproduce-{}-{scale}", paper.name));
    let folder = args.output.clone().unwrap_or_else(usual);
    let mut runs = Vec::new();
    for name in paper.experiments {
        let experiment = presets::find(name).expect("a test finds them all").experiment();
        let experiment = if args.full { experiment } else { experiment.quick() };
        if !args.quiet {
            anstream::eprintln!("muxbench: {name}, in {}", folder.join(name).display());
        }
        let (run, ended) = execution::complete(&experiment, &folder.join(name), args.quiet)?;
        if ended == Ended::Stopped {
            return Ok(execution::stopped(&format!(
                "muxbench reproduce {} --{scale} --output {}",
                paper.name,
                folder.display()
            )));
        }
        runs.push(run);
    }
    let folders: Vec<PathBuf> = paper.experiments.iter().map(|name| folder.join(name)).collect();
    let mut sends_of: Vec<_> = folders.iter().map(|folder| |trial| sends(folder, trial)).collect();
    let mut sends_of: Vec<&mut SendsOf<'_>> = sends_of.iter_mut().map(|sends_of| sends_of as _).collect();
    let beside = Beside::of(paper, paper::Part::Whole, &runs, &mut sends_of)?;
    show_beside(&beside, args.json, args.csv)?;
    if !args.json && !args.csv {
        output::print(&format!("Results: {}\n", folder.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
