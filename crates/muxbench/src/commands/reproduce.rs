//! `muxbench reproduce`: a paper's experiments on this machine, beside what it published and claims.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::builder::PossibleValuesParser;
use harness::exec::event::RunEnd;
use harness::spec::presets;
use papers::html::Origin;
use papers::{PAPERS, Paper, PaperComparison};
use report::html;
use report::model::deviation::SendsOf;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::files::{pictures_of_paper, sends, write};
use crate::{execution, exit, output, signals};

const EXAMPLES: &str = "Examples:
  muxbench reproduce kawai2008                     # all of it, at the quick scale
  muxbench reproduce kawai2006 --full              # as the paper measured, where it says: hours
  muxbench reproduce maharjan2012 --figure 5.3     # one figure, of the experiments that it is drawn from
  muxbench reproduce welsh2001 --figures plots     # its graphs as SVG and PNG too
  muxbench reproduce voras2009 --json > claims.json";

/// Run a paper's experiments: its figures and tables, and which of its claims hold here
///
/// What an earlier call has finished is not run again. All of it goes into one page, PAPER.html in the folder for the results.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct Args {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: String,
    /// The same matrix with shorter windows: minutes; this is the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Windows and repeats as the paper has them, where it says: hours
    #[arg(long)]
    full: bool,
    /// Run only the experiments that one figure is drawn from, and show nothing else: its number in the paper
    #[arg(long, value_name = "N", conflicts_with = "table")]
    figure: Option<String>,
    /// One table and nothing else: its number in the paper
    #[arg(long, value_name = "N")]
    table: Option<String>,
    /// Folder for the results, one below it for each experiment [default: results/reproduce-PAPER-SCALE]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write each figure as SVG and PNG into a folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Print JSON: the tables, the figures and every figure that a claim was held against
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a row for each published value of its tables, or where it has none, for each figure that a claim was held
    /// against; with --figure, for each of its points, with --table its rows
    #[arg(long)]
    csv: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    markdown: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

/// What there is to reproduce, and how.
fn help() -> String {
    let paper = |paper: &Paper| {
        let (name, parts, about, experiments) = (paper.name, paper.parts(), paper.about, paper.experiments.join(", "));
        format!("  {name} ({parts})\n      {about};\n      runs {experiments}\n")
    };
    let papers: String = PAPERS.iter().map(paper).collect();
    format!("Papers:\n{papers}\n{EXAMPLES}")
}

/// Runs what is missing, and shows all of it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(paper) = papers::find(&args.paper) else { bail!("no such paper: {}", args.paper) };
    let part = paper.part(args.figure.as_deref(), args.table.as_deref())?;
    let scale = if args.full { "full" } else { "quick" };
    let usual = || Path::new("results").join(format!("reproduce-{}-{scale}", paper.name));
    let folder = args.output.clone().unwrap_or_else(usual);
    let (scale_flag, shown_folder) = (format!("--{scale}"), folder.display().to_string());
    let of_one = ["muxbench", "reproduce", paper.name, &scale_flag, "--output", &shown_folder].map(str::to_owned);
    let words: Vec<String> = of_one.iter().cloned().chain(part.flags()).collect();
    let stopped = || exit::stopped(&html::command(&[words.clone(), shown_as(args)].concat()));
    let stop = signals::stop_at_signals()?;
    let experiments = paper.experiments_of(part);
    // All are had, or none is begun.
    let presets = experiments.iter().map(|name| presets::of_a_paper(name));
    let presets = presets.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?;
    let mut runs = Vec::new();
    for (name, preset) in experiments.iter().zip(presets) {
        let experiment = preset.experiment();
        let experiment = if args.full { experiment } else { experiment.quick() };
        if !args.quiet {
            output::tell(format_args!("muxbench: {name}, in {}", folder.join(name).display()));
        }
        let (run, ended) = execution::complete(&experiment, &folder.join(name), args.quiet, &stop)?;
        if ended == RunEnd::Stopped || stop.is_requested() {
            return Ok(stopped());
        }
        runs.push(run);
    }
    // All is kept, and what follows can be left at any time.
    for signal in [SIGINT, SIGTERM] {
        let at_once = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, exit::STOPPED.into(), at_once)?;
    }
    let folders: Vec<PathBuf> = experiments.iter().map(|name| folder.join(name)).collect();
    let mut sends_of: Vec<_> = folders.iter().map(|folder| |trial| sends(folder, trial)).collect();
    let mut sends_of: Vec<&mut SendsOf<'_>> = sends_of.iter_mut().map(|sends_of| sends_of as _).collect();
    let beside = PaperComparison::of(paper, part, &runs, &mut sends_of)?;
    if let Some(folder) = &args.figures {
        pictures_of_paper(&beside, folder)?;
    }
    let page = folder.join(beside.file_name());
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let origin = Origin { command: &words, of_one: &of_one, folders: &folders };
    let document = papers::html::render(&beside, &runs, &origin)?;
    write(&page, document.as_bytes())?;
    output::show_beside(&beside, args.json, args.csv, output::medium(args.markdown))?;
    let places = format!("Page: {}\nResults: {}\n", page.display(), folder.display());
    if args.markdown {
        // It is not to be pasted.
        output::tell(places.trim_end());
    } else if !args.json && !args.csv {
        output::print(&format!("\n{places}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Flags that say how it is shown, and not what is run.
fn shown_as(args: &Args) -> Vec<String> {
    let flags = [("--json", args.json), ("--csv", args.csv), ("--markdown", args.markdown), ("--quiet", args.quiet)];
    let flags = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned());
    let figures = args.figures.iter().flat_map(|folder| ["--figures".to_owned(), folder.display().to_string()]);
    figures.chain(flags).collect()
}
