//! `muxbench report`: a run again, as a paper has it, or two side by side, from their stores alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use lab::{samples, store};
use load::Sample;
use report::deviation::{self, Deviations};
use report::paper::{self, Beside, PAPERS};
use report::{Versus, versus};

use crate::cli::Cli;
use crate::output;

/// Print a run again, or two runs side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench report                          # the newest under results/
  muxbench report results/20260101T120000-compare --csv > trials.csv
  muxbench report results/old-kernel results/new-kernel          # the second against the first
  muxbench report --explain                # and why
  muxbench report --paper kawai2006        # as the paper's tables, beside the published values, and its claims
  muxbench report --send-deviation         # how evenly each trial's requests were sent")]
pub struct Args {
    /// The run's folder [default: the newest under results/]; with a second one, that is compared with the first
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print JSON: everything
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Say why: system calls, events, switches and CPU a request, and what sets each architecture apart from the best
    #[arg(long, conflicts_with_all = ["json", "csv", "paper", "send_deviation"])]
    explain: bool,
    /// Print CSV: a row a trial; of two runs, a row for what is compared; of a paper, a row a published value
    #[arg(long)]
    csv: bool,
    /// Print the run beside a paper: its tables with the published values, and which of its claims hold here
    #[arg(long, value_name = "NAME", conflicts_with = "send_deviation")]
    #[arg(value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: Option<String>,
    /// Print how far each trial's sends are from even intervals (kawai2006), from the stored samples
    #[arg(long)]
    send_deviation: bool,
}

/// Prints it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = match args.runs.as_slice() {
        [] => store::latest(Path::new("results"))?,
        [folder] => folder.clone(),
        [_, _] if args.paper.is_some() || args.send_deviation => {
            let what = "--paper and --send-deviation are of one run, and two are given; name one";
            Cli::command().error(ErrorKind::ArgumentConflict, what).exit()
        }
        [a, b] => return side_by_side(args, a, b),
        runs => {
            bail!("{} runs are given; name one to print it, or two to compare the second with the first", runs.len())
        }
    };
    let run = store::read(&folder)?;
    let mut sends_of = |trial| sends(&folder, trial);
    if let Some(paper) = args.paper.as_deref().and_then(paper::find) {
        let beside = Beside::of(paper, std::slice::from_ref(&run), &mut [&mut sends_of])?;
        if args.json {
            output::print_json(&beside.json())?;
        } else if args.csv {
            output::print(&beside.csv()?)?;
        } else {
            output::print(&beside.render(output::width()))?;
        }
    } else if args.send_deviation {
        let deviations = Deviations::of(&run, &mut sends_of);
        if args.json {
            output::print_json(&deviations)?;
        } else if args.csv {
            output::print(&deviation::csv(&deviations)?)?;
        } else {
            output::print(&deviation::render(&deviations, output::width()))?;
        }
    } else if args.json {
        output::print_json(&report::json::of(&run))?;
    } else if args.csv {
        output::print(&report::csv::of(&run)?)?;
    } else {
        output::print(&report::terminal::render(&run, output::width()))?;
        if args.explain {
            output::print(&format!("\n{}", report::explain::render(&report::Summary::of(&run), output::width())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// When a trial's requests were sent, those that were.
pub fn sends(folder: &Path, trial: u32) -> anyhow::Result<Vec<i64>> {
    let samples = samples::read(&store::samples_path(folder, trial))?;
    Ok(samples.iter().map(|sample| sample.sent_ns).filter(|&sent_ns| sent_ns != Sample::NEVER).collect())
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
