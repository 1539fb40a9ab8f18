//! `muxbench report`: a run again, as a paper or a page has it, two side by side, or many from run to run, from their stores
//! alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use harness::model::Run;
use harness::model::Strategy;
use harness::store;
use papers::html::Origin;
use papers::{PAPERS, PaperComparison};
use report::model::deviation::Deviations;
use report::model::history;
use report::plot::{Drawn, trends};
use report::{RunDiff, export, format, html, text};

use crate::files::{pictures, pictures_of_paper, sends, write};
use crate::{execution, output};

/// Print a run again, two runs side by side, or many from run to run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench report                          # the newest under results/
  muxbench report results/20260101T120000-compare --csv > trials.csv
  muxbench report results/old-kernel results/new-kernel          # the second against the first
  muxbench report results                  # all runs in a folder, and what was measured again from run to run
  muxbench report results --html index.html                      # the same as a page with a link to each run's
  muxbench report --explain                # and why
  muxbench report --html                   # as a page, with figures: report.html in the run's folder
  muxbench report results/RUN --html - --figures plots           # the page to standard output, figures as SVG and PNG
  muxbench report --paper kawai2006        # as the paper's tables and figures, beside the published values, and its claims
  muxbench report --paper kawai2008 --figure 6                   # one of its figures
  muxbench report --send-deviation         # how evenly each trial's requests were sent")]
pub struct Args {
    /// The run's folder [default: the newest under results/]; with a second one, that is compared with the first; more, or a
    /// folder of runs, are shown from run to run
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print JSON: everything
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Say why: system calls, events, switches and CPU a request, and what sets each architecture apart from the best
    #[arg(long, conflicts_with_all = ["json", "csv", "paper", "send_deviation"])]
    explain: bool,
    /// Print CSV: a row a trial; of two runs, a row for what is compared; of many, one for what was measured again in each; of a
    /// paper, a row for each published value of its tables, or where it has none, for each figure that a claim was held against;
    /// with --figure, for each of its points, with --table its rows
    #[arg(long)]
    csv: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with_all = ["json", "csv", "html", "figures"])]
    markdown: bool,
    /// Print the run beside a paper: its tables with the published values, and which of its claims hold here
    #[arg(long, value_name = "NAME", conflicts_with = "send_deviation")]
    #[arg(value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: Option<String>,
    /// With --paper, one of its figures and nothing else: its number there
    #[arg(long, value_name = "N", requires = "paper")]
    figure: Option<String>,
    /// With --paper, one of its tables and nothing else: its number there
    #[arg(long, value_name = "N", requires = "paper", conflicts_with = "figure")]
    table: Option<String>,
    /// Write the run as one page that needs nothing else; `-` is standard output [default: report.html in RUN, with --paper
    /// PAPER.html there, or of a folder of runs index.html]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "explain", "csv", "send_deviation"])]
    html: Option<Option<PathBuf>>,
    /// Write each figure of the page as SVG and PNG into a folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "explain", "csv", "send_deviation"])]
    figures: Option<PathBuf>,
    /// Print how far each trial's sends are from even intervals (kawai2006), from the stored samples
    #[arg(long)]
    send_deviation: bool,
}

/// Prints it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_folder_of_runs = |folder: &PathBuf| !store::is_run(folder) && !store::runs(folder).is_empty();
    let is_page = args.html.is_some() || args.figures.is_some();
    let of_one = args.paper.is_some() || args.send_deviation;
    let folder = match args.runs.as_slice() {
        [] => store::latest(Path::new("results"))?,
        runs if of_one && (runs.len() > 1 || runs.iter().any(is_folder_of_runs)) => {
            let what = "--paper and --send-deviation are of one run, and several are given; name one";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, what).into());
        }
        runs if runs.iter().any(is_folder_of_runs) || (runs.len() == 2 && is_page) => {
            return from_run_to_run(args, runs);
        }
        [folder] => folder.clone(),
        [a, b] => return side_by_side(args, a, b),
        runs => return from_run_to_run(args, runs),
    };
    let run = read(&folder)?;
    for (flag, is_given) in [
        ("--explain", args.explain),
        ("--html", args.html.is_some()),
        ("--figures", args.figures.is_some()),
        ("--paper", args.paper.is_some()),
    ] {
        if is_given && matches!(run.header.strategy, Strategy::Capacity(_)) {
            bail!(
                "{flag} is of trials at given rates, and each probe of this search has its own; see `muxbench compare`"
            );
        }
    }
    let mut sends_of = |trial| sends(&folder, trial);
    if let Some(paper) = args.paper.as_deref().and_then(papers::find) {
        let part = paper.part(args.figure.as_deref(), args.table.as_deref())?;
        let beside = PaperComparison::of(paper, part, std::slice::from_ref(&run), &mut [&mut sends_of])?;
        if let Some(file) = &args.html {
            let shown = [folder.display().to_string()];
            let of_one = ["muxbench", "report", &shown[0], "--paper", paper.name].map(str::to_owned);
            let origin = Origin { command: &run.header.command, of_one: &of_one, folders: &shown };
            let document = papers::html::render(&beside, std::slice::from_ref(&run), &origin)?;
            page(&document, file.clone().unwrap_or_else(|| folder.join(beside.file_name())))?;
        }
        if let Some(folder) = &args.figures {
            pictures_of_paper(&beside, folder)?;
        }
        if args.html.is_none() && args.figures.is_none() {
            output::show_beside(&beside, args.json, args.csv, output::medium(args.markdown))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.html.is_some() || args.figures.is_some() {
        if let Some(file) = &args.html {
            page(&html::render(&run)?, file.clone().unwrap_or_else(|| folder.join("report.html")))?;
        }
        if let Some(folder) = &args.figures {
            let Drawn { architectures, figures } = Drawn::of(&run, &report::model::Summary::of(&run));
            let figures = figures.iter().map(|(figure, chart)| (figure.name, figure.title, chart));
            pictures(figures, &architectures, folder)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let medium = output::medium(args.markdown);
    if args.send_deviation {
        let deviations = Deviations::of(&run, &mut sends_of);
        if args.json {
            output::print_json(&deviations)?;
        } else if args.csv {
            output::print(&export::deviation::csv(&deviations)?)?;
        } else {
            output::print(&text::deviation::render(&deviations, medium))?;
        }
    } else if args.json {
        output::print_json(&report::export::json::of(&run))?;
    } else if args.csv {
        output::print(&report::export::csv::of(&run)?)?;
    } else {
        output::print(&report::text::render(&run, medium))?;
        if args.explain {
            output::print(&format!("\n{}", report::text::cost::render(&report::model::Summary::of(&run), medium)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page, and says where it is.
fn page(page: &str, path: PathBuf) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return output::print_as_it_is(page);
    }
    if path.is_dir() {
        let path = path.display();
        bail!("{path}: a folder; name a file for the page, and the run before --html: `muxbench report {path} --html`");
    }
    write(&path, page.as_bytes())?;
    output::tell(format_args!("muxbench: {} ({})", path.display(), format::bytes(page.len() as f64)));
    Ok(())
}

/// Many runs, and what was measured again in them.
fn from_run_to_run(args: &Args, given: &[PathBuf]) -> anyhow::Result<ExitCode> {
    if args.explain {
        bail!("--explain is of one run, and several are given; name one");
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in given {
        let found = store::runs(folder);
        if found.is_empty() {
            bail!("{}: no run is there; name a run's folder, or one that holds runs", folder.display());
        }
        folders.extend(found.into_iter().filter(|it| !folders.contains(it)).collect::<Vec<_>>());
    }
    let mut builder = history::Builder::default();
    for folder in &folders {
        let name = folder.display().to_string();
        match read(folder) {
            Ok(run) => builder.add(&name, &run),
            Err(error) => {
                output::tell(format_args!("muxbench: left out: {error:#}"));
                builder.add_unreadable(&name, &error);
            }
        }
    }
    let history = builder.finish(0);
    if args.html.is_some() || args.figures.is_some() {
        if let Some(file) = &args.html {
            let path = match (file, given) {
                (Some(path), _) => path.clone(),
                (None, [folder]) => folder.join("index.html"),
                (None, _) => bail!("several folders are given; name a file for their page, as in --html index.html"),
            };
            let links = history.runs.iter().map(|run| link(&path, Path::new(&run.folder)));
            page(&html::index::page(&history, &links.collect::<anyhow::Result<Vec<_>>>()?)?, path.clone())?;
        }
        if let Some(folder) = &args.figures {
            let (architectures, figures) = trends::drawn(&history);
            let figures = figures.iter().map(|(figure, chart)| (figure.name, figure.title, chart));
            pictures(figures, &architectures, folder)?;
        }
    } else if args.json {
        output::print_json(&history)?;
    } else if args.csv {
        output::print(&export::history::csv(&history)?)?;
    } else {
        output::print(&text::history::render(&history, output::medium(args.markdown)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// From a page to a run's, or to its folder where no page was written; of a page on standard output, from here.
fn link(page: &Path, run: &Path) -> anyhow::Result<String> {
    let folder = match page.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let place = |path: &Path| path.canonicalize().with_context(|| format!("{}: is it there?", path.display()));
    let (from, to) = (place(folder)?, place(run)?);
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| "..".to_owned());
    let down = to.components().skip(common).map(|part| escaped(&part.as_os_str().to_string_lossy()));
    let mut parts: Vec<String> = up.chain(down).collect();
    let page = if run.join("report.html").exists() { "report.html" } else { "" };
    parts.push(page.to_owned());
    // A part with a colon at the beginning would be taken for a scheme.
    Ok(format!("./{}", parts.join("/")))
}

/// A part of an address, without what means something there.
fn escaped(part: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    part.bytes().map(one).collect()
}

/// Reads a run, and says what is damaged of it.
fn read(folder: &Path) -> anyhow::Result<Run> {
    let run = store::read(folder)?;
    execution::tell_damage(folder, &run);
    Ok(run)
}

fn side_by_side(args: &Args, a: &Path, b: &Path) -> anyhow::Result<ExitCode> {
    let (first, second) = (read(a)?, read(b)?);
    for (folder, run) in [(a, &first), (b, &second)] {
        if matches!(run.header.strategy, Strategy::Capacity(_)) {
            bail!(
                "{}: a search has no trials at given rates to lay beside others'; report each by itself",
                folder.display()
            );
        }
    }
    let versus = RunDiff::of(&first, &second);
    if args.json {
        output::print_json(&versus)?;
    } else if args.csv {
        output::print(&export::run_diff::csv(&versus)?)?;
    } else {
        output::print(&text::run_diff::render(&versus, output::medium(args.markdown)))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_relative_and_can_be_followed() {
        let folder = tempfile::tempdir().unwrap();
        let of = |path: &str| folder.path().join(path);
        for run in ["results/a b#1", "results/deep/c"] {
            fs::create_dir_all(of(run)).unwrap();
        }
        fs::create_dir_all(of("pages")).unwrap();
        fs::write(of("results/deep/c/report.html"), "").unwrap();
        let link = |page: &str, run: &str| link(&of(page), &of(run)).unwrap();
        assert_eq!(link("results/index.html", "results/a b#1"), "./a%20b%231/");
        assert_eq!(link("results/index.html", "results/deep/c"), "./deep/c/report.html");
        assert_eq!(link("pages/index.html", "results/deep/c"), "./../results/deep/c/report.html");
        assert_eq!(link("results/deep/c/index.html", "results/deep/c"), "./report.html");
    }
}
