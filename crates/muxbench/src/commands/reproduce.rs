//! `muxbench reproduce`: runs the experiments of a paper, and shows the results beside the published values and claims.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::builder::PossibleValuesParser;
use harness::exec::event::RunEnd;
use harness::spec::{Experiment, presets};
use harness::store;
use papers::html::Origin;
use papers::{PAPERS, Paper, PaperComparison};
use report::analysis::deviation::SendsOf;
use report::format;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::execution::print_places;
use crate::files::{check_folder, send_times, write, write_paper_figures};
use crate::options::format::{FormatArgs, given_flags};
use crate::{execution, exit, output, signals};

const EXAMPLES: &str = "Examples:
  muxbench reproduce kawai2008                  # all experiments, in minutes
  muxbench reproduce kawai2006 --full           # the paper's durations: hours
  muxbench reproduce maharjan2012 --figure 5.3  # one figure
  muxbench reproduce welsh2001 --figures plots  # also figures as SVG
  muxbench reproduce voras2009 --json > claims.json";

/// Run the experiments of a paper, and check its claims
///
/// A second call runs only the missing trials. muxbench also writes the result as a page in the results folder:
/// PAPER.html, or PAPER-figure-N.html with --figure N, or PAPER-table-N.html with --table N.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct Args {
    /// Name of the paper
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: String,
    /// Run for 9 to 12 minutes (default)
    ///
    /// With shorter phases, fewer repeats or points, and one client. Where the paper compares architectures, they share windows in
    /// turns (interleaved). A busy host takes longer
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run the paper's phases, repeats and clients, in hours
    ///
    /// One server at a time
    #[arg(long)]
    full: bool,
    /// Run and show only this figure of the paper
    #[arg(long, value_name = "N", conflicts_with = "table")]
    figure: Option<String>,
    /// Run and show only this table of the paper
    #[arg(long, value_name = "N")]
    table: Option<String>,
    /// Folder [default: results/reproduce-PAPER-SCALE]
    ///
    /// It gets a folder for each experiment
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write each figure to this folder, as SVG
    ///
    /// Builds with `--features png` also write PNG.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
    /// Print CSV
    ///
    /// A row is a published value, or a claim if the paper has no tables; with --figure a point, with --table a row of the table
    #[arg(long, conflicts_with_all = ["json", "markdown", "wide", "legend"], help_heading = "Results")]
    csv: bool,
    /// Print no progress
    #[arg(long, short, help_heading = "Results")]
    quiet: bool,
}

/// Lists all papers with their experiments, and examples.
fn help() -> String {
    let paper = |paper: &Paper| {
        let (name, parts, about, experiments) = (paper.name, paper.parts(), paper.about, paper.experiments.join(", "));
        format!("  {name} ({parts})\n      {about};\n      runs {experiments}\n")
    };
    let papers: String = PAPERS.iter().map(paper).collect();
    format!("Papers:\n{papers}\n{EXAMPLES}")
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(paper) = papers::find(&args.paper) else { bail!("unknown paper {}", args.paper) };
    let part = paper.part(args.figure.as_deref(), args.table.as_deref())?;
    let scale = if args.full { "full" } else { "quick" };
    let default = || Path::new("results").join(format!("reproduce-{}-{scale}", paper.name));
    let folder = args.output.clone().unwrap_or_else(default);
    let (scale_flag, shown_folder) = (format!("--{scale}"), folder.display().to_string());
    let base_command = ["muxbench", "reproduce", paper.name, &scale_flag, "--output", &shown_folder].map(str::to_owned);
    let words: Vec<String> = base_command.iter().cloned().chain(part.flags()).collect();
    args.figures.as_deref().map_or(Ok(()), check_folder)?;
    if store::is_run(&folder) {
        bail!("{}: contains a run already; choose another folder with --output", folder.display());
    }
    let stop = signals::stop_at_signals()?;
    let names = paper.experiments_of(part);
    let experiment = |name: &&str| {
        let experiment = presets::find(name).expect("every experiment of a paper is a preset").experiment();
        if args.full { experiment } else { experiment.quick() }
    };
    let experiments: Vec<Experiment> = names.iter().map(experiment).collect();
    let folders: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    // Check all folders before the first trial: an experiment takes minutes or hours.
    for (experiment, folder) in experiments.iter().zip(&folders) {
        execution::check_plan(experiment, folder)?;
    }
    let mut runs = Vec::new();
    for ((name, experiment), folder) in names.iter().zip(&experiments).zip(&folders) {
        if !args.quiet {
            output::note(format_args!("{name}, in {}", folder.display()));
        }
        let (run, ended) = execution::complete(experiment, folder, args.quiet, &stop)?;
        if ended == RunEnd::Stopped || stop.is_requested() {
            return Ok(exit::stopped(&format::command(&[words, display_flags(args)].concat())));
        }
        runs.push(run);
    }
    // All trials are stored now, so a signal may end the process at any time.
    for signal in [SIGINT, SIGTERM] {
        let at_once = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, exit::STOPPED.into(), at_once)?;
    }
    let sends_of = folders.iter().zip(&runs).map(|(folder, run)| move |trial| send_times(folder, run, trial));
    let mut sends_of: Vec<_> = sends_of.collect();
    let mut sends_of: Vec<&mut SendsOf<'_>> = sends_of.iter_mut().map(|sends_of| sends_of as _).collect();
    let comparison = PaperComparison::of(paper, part, &runs, &mut sends_of)?;
    let page = folder.join(comparison.file_name());
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let origin = Origin { command: &words, of_one: &base_command, folders: &folders };
    write(&page, papers::html::render(&comparison, &runs, &origin)?.as_bytes())?;
    args.format.print_comparison(args.csv, &comparison)?;
    if !args.format.json && !args.csv {
        let places = format!("\nPage: {}\nResults: {}\n", page.display(), folder.display());
        print_places(&places, args.format.markdown)?;
    }
    // Fails without any figure, so the results come first.
    if let Some(folder) = &args.figures {
        write_paper_figures(&comparison, folder)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn display_flags(args: &Args) -> Vec<String> {
    let flags = given_flags(args.format.flags().into_iter().chain([("--csv", args.csv), ("--quiet", args.quiet)]));
    let figures = args.figures.iter().flat_map(|folder| ["--figures".to_owned(), folder.display().to_string()]);
    figures.chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn command_of_a_stopped_run_keeps_each_display_flag() {
        for flags in ["--figures plots --json", "--csv", "--markdown", "--wide --quiet"] {
            let line = format!("reproduce kawai2006 {flags}");
            let Line { args } = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(display_flags(&args).join(" "), flags);
        }
    }
}
