//! `muxbench report`: shows one stored run, the difference of two, or the history of many.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use harness::record::{Run, Strategy};
use harness::store;
use harness::strategy::advise;
use papers::html::Origin;
use papers::{PAPERS, PaperComparison};
use report::analysis::deviation::{Deviations, INTERLEAVED};
use report::analysis::gate_history::GateHistory;
use report::analysis::history;
use report::export::csv;
use report::plot::{Drawn, gate_history, trends};
use report::{Overloads, RunDiff, export, format, html, text};

use crate::files::{send_times, write, write_figures, write_paper_figures};
use crate::options::format::FormatArgs;
use crate::options::given::Actions;
use crate::{execution, output};

/// Flags that choose what to print, so `--html` and `--figures` conflict with them.
const NOT_FOR_PAGES: [&str; 9] =
    ["json", "explain", "csv", "markdown", "wide", "legend", "versus", "send_deviation", "openmetrics"];

/// Show a stored run, the difference of two, or the history of many
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench report                          # the newest run under results/
  muxbench report results/RUN --csv > trials.csv
  muxbench report results/OLD results/NEW  # the second run against the first
  muxbench report results                  # the history of all runs in a folder
  muxbench report results --html index.html
  muxbench report --explain                # with causes of the differences
  muxbench report gate.jsonl               # the gates of a history file
  muxbench report --html --figures plots   # a page, and figures as SVG
  muxbench report --paper kawai2008 --figure 6")]
pub struct Args {
    /// Folder of a run [default: the newest under results/]
    ///
    /// Two runs are compared; with --html or --figures they are shown as a history. So are more runs, a folder of runs, and a file of
    /// `muxbench gate --history`
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Show the run beside a paper
    ///
    /// The tables with the published values, and which claims hold here
    #[arg(long, value_name = "NAME", conflicts_with = "send_deviation")]
    #[arg(value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    paper: Option<String>,
    /// Show only this figure of the paper
    #[arg(long, value_name = "N", requires = "paper")]
    figure: Option<String>,
    /// Show only this table of the paper
    #[arg(long, value_name = "N", conflicts_with = "figure", requires = "paper")]
    table: Option<String>,
    /// Write an HTML page [default: RUN/report.html]
    ///
    /// A single file; `-` is standard output. The default is RUN/PAPER.html with --paper (RUN/PAPER-figure-N.html with
    /// --figure N, RUN/PAPER-table-N.html with --table N), and index.html for a folder of runs
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = NOT_FOR_PAGES)]
    html: Option<Option<PathBuf>>,
    /// Write each figure of the page as SVG
    ///
    /// Builds with `--features png` also write PNG.
    #[arg(long, value_name = "DIR", conflicts_with_all = NOT_FOR_PAGES)]
    figures: Option<PathBuf>,
    /// Print the deviation of sends from even intervals
    ///
    /// The deviation of each trial (kawai2006), from the stored samples
    #[arg(long)]
    send_deviation: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    actions: Actions,
    /// Print CSV
    ///
    /// A row is a trial (one run), a server (an overload), an architecture and workload (two runs), or a point of a trend (history). With --paper, a row is
    /// a published value, or a claim if there are no tables; with --figure a point, with --table a row
    #[arg(long, help_heading = "Results", conflicts_with_all = ["json", "markdown", "wide", "legend"])]
    csv: bool,
    /// Print OpenMetrics text, for Prometheus
    ///
    /// The figures of each trial, at the time of the trial, the ratios to the best architecture, and results of searches. `promtool tsdb
    /// create-blocks-from openmetrics` imports them
    #[arg(long, help_heading = "Results")]
    #[arg(conflicts_with_all = ["json", "csv", "markdown", "wide", "legend", "explain", "paper", "send_deviation"])]
    openmetrics: bool,
}

impl Args {
    fn is_page(&self) -> bool {
        self.html.is_some() || self.figures.is_some()
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let is_folder_of_runs = |folder: &PathBuf| !store::is_run(folder) && !store::runs(folder).is_empty();
    if let [_, _, ..] = args.runs.as_slice()
        && let Some(file) = args.runs.iter().find(|it| it.is_file())
    {
        let file = file.display();
        bail!("cannot compare {file}: it is a file, not the folder of a run; name a history of gates alone");
    }
    let needs_one = args.paper.is_some() || args.send_deviation || args.openmetrics;
    match args.runs.as_slice() {
        [file] if file.is_file() => show_gate_history(args, file),
        [] => show_run(args, &store::latest(Path::new("results"))?),
        runs if needs_one && (runs.len() > 1 || runs.iter().any(is_folder_of_runs)) => {
            let reason = "--paper, --send-deviation and --openmetrics show one run, but there are several; name one";
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, reason).into())
        }
        [folder] if !is_folder_of_runs(folder) => show_run(args, folder),
        [a, b] if !args.is_page() && !is_folder_of_runs(a) && !is_folder_of_runs(b) => show_difference(args, a, b),
        runs => show_history(args, runs),
    }
}

fn show_run(args: &Args, folder: &Path) -> anyhow::Result<()> {
    let run = read(folder)?;
    let is_overload = matches!(run.header.strategy, Strategy::Overload(_));
    for (flag, is_given) in [
        ("--explain", args.actions.has("explain")),
        ("--html", args.html.is_some() && !is_overload),
        ("--figures", args.figures.is_some() && !is_overload),
        ("--paper", args.paper.is_some()),
    ] {
        if is_given && run.header.strategy.is_search() {
            bail!("{flag}: the run is a search, whose probes differ in rate; try a run of `muxbench compare`");
        }
    }
    let path = |name: &str| args.html.clone().map(|file| file.unwrap_or_else(|| folder.join(name)));
    let versus = args.actions.versus(&run.header.trials)?;
    let mut sends_of = |trial| send_times(folder, &run, trial);
    let summary = || report::analysis::Summary::of(&run);
    if let Some(paper) = args.paper.as_deref().and_then(papers::find) {
        let part = paper.part(args.figure.as_deref(), args.table.as_deref())?;
        let comparison = PaperComparison::of(paper, part, std::slice::from_ref(&run), &mut [&mut sends_of])?;
        if let Some(path) = path(&comparison.file_name()) {
            let shown = [folder.display().to_string()];
            let base_command = ["muxbench", "report", &shown[0], "--paper", paper.name].map(str::to_owned);
            let origin = Origin { command: &run.header.command, of_one: &base_command, folders: &shown };
            write_page(&papers::html::render(&comparison, std::slice::from_ref(&run), &origin)?, path)?;
        }
        if let Some(folder) = &args.figures {
            write_paper_figures(&comparison, folder)?;
        }
        if !args.is_page() {
            args.format.print_comparison(args.csv, &comparison)?;
        }
    } else if args.is_page() {
        if let Some(path) = path("report.html") {
            write_page(&html::render(&run)?, path)?;
        }
        if let Some(folder) = &args.figures {
            let Drawn { architectures, figures } = Drawn::of(&run, &summary());
            let figures = figures.iter().map(|(figure, chart)| (figure.name, figure.title, chart));
            write_figures(figures, &architectures, folder)?;
        }
    } else if args.send_deviation {
        if run.records.iter().all(|record| record.trial.client.slices.is_some()) && !run.records.is_empty() {
            bail!("--send-deviation: {INTERLEAVED}; try a run with `--interleave never`");
        }
        let deviations = Deviations::of(&run, &mut sends_of);
        let show = |medium| text::deviation::render(&deviations, medium);
        args.format.print_or_csv(args.csv, || &deviations, || csv::of_rows(&deviations.trials), show)?;
    } else if args.openmetrics {
        output::print_raw(export::openmetrics::of(&run))?;
    } else {
        let show = |medium| {
            let explanation = || format!("\n{}", text::cost::render(&summary(), medium));
            text::render_versus(&run, versus.as_deref(), medium)
                + &if args.actions.has("explain") { explanation() } else { String::new() }
        };
        let csv = || Overloads::of(&run).map_or_else(|| csv::of_rows(&run.records), |it| csv::of_rows(&it.rows));
        args.format.print_or_csv(args.csv, || export::json::of(&run), csv, show)?;
    }
    Ok(())
}

fn write_page(page: &str, path: PathBuf) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return output::print_raw(page);
    }
    if path.is_dir() {
        let path = path.display();
        bail!("--html: {path} is a folder; name a file, or put the run before --html: `muxbench report {path} --html`");
    }
    write(&path, page.as_bytes())?;
    output::note(format_args!("{} ({})", path.display(), format::bytes(page.len() as f64)));
    Ok(())
}

fn show_history(args: &Args, given: &[PathBuf]) -> anyhow::Result<()> {
    let mut builder = history::HistoryBuilder::default();
    for folder in &folders_of(given)? {
        let name = folder.display().to_string();
        match read(folder) {
            Ok(run) => builder.add(&name, &run),
            Err(error) => {
                output::warn(format_args!("skipped: {error:#}"));
                builder.add_unreadable(&name, &error);
            }
        }
    }
    let history = builder.finish();
    if args.is_page() {
        if let Some(file) = &args.html {
            let path = match (file, given) {
                (Some(path), _) => path.clone(),
                (None, [folder]) => folder.join("index.html"),
                (None, _) => bail!("--html needs a file for several folders; try --html index.html"),
            };
            let links = history.runs.iter().map(|run| link(&path, Path::new(&run.folder)));
            write_page(&html::index::page(&history, &links.collect::<anyhow::Result<Vec<_>>>()?)?, path.clone())?;
        }
        if let Some(folder) = &args.figures {
            let (architectures, figures) = trends::drawn(&history);
            let figures = figures.iter().map(|(figure, chart)| (figure.name.as_str(), figure.title.as_str(), chart));
            write_figures(figures, &architectures, folder)?;
        }
        return Ok(());
    }
    let show = |medium| text::history::render(&history, medium);
    args.format.print_or_csv(args.csv, || &history, || csv::of_rows(history.rows()), show)
}

/// Returns the folder of each given run once, even if several paths lead to it.
fn folders_of(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let (mut folders, mut known) = (Vec::new(), BTreeSet::new());
    for folder in given {
        let found = store::runs(folder);
        if found.is_empty() {
            bail!("no run in {}; name the folder of a run, or a folder of runs", folder.display());
        }
        let place = |run: &PathBuf| run.canonicalize().unwrap_or_else(|_| run.clone());
        folders.extend(found.into_iter().filter(|run| known.insert(place(run))));
    }
    Ok(folders)
}

fn show_gate_history(args: &Args, file: &Path) -> anyhow::Result<()> {
    let place = || format!("cannot read {}", file.display());
    for (flag, is_given) in [
        ("--html", args.html.is_some()),
        ("--csv", args.csv),
        ("--paper", args.paper.is_some()),
        ("--send-deviation", args.send_deviation),
        ("--openmetrics", args.openmetrics),
    ] {
        if is_given {
            bail!("{flag}: {} is a history of gates; try --json, --markdown or --figures", file.display());
        }
    }
    let text = String::from_utf8(harness::files::read(file).with_context(place)?).with_context(place)?;
    let history = GateHistory::parse(&text).with_context(place)?;
    if let Some(folder) = &args.figures {
        let (names, figures) = gate_history::drawn(&history);
        let figures = figures.iter().map(|it| (it.name.as_str(), it.title.as_str(), &it.chart));
        return write_figures(figures, &names, folder);
    }
    args.format.print(&history, text::gate_history::render)
}

/// Returns a relative link from a page to the page of a run, or to its folder if it has no page.
fn link(page: &Path, run: &Path) -> anyhow::Result<String> {
    let place = |path: &Path| path.canonicalize().with_context(|| format!("cannot find {}", path.display()));
    let (from, to) = (place(harness::files::parent(page))?, place(run)?);
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| "..".to_owned());
    let down = to.components().skip(common).map(|part| escaped(&part.as_os_str().to_string_lossy()));
    let mut parts: Vec<String> = up.chain(down).collect();
    let page = if run.join("report.html").exists() { "report.html" } else { "" };
    parts.push(page.to_owned());
    // Without `./`, a browser would read a colon in the first part as the end of a scheme.
    Ok(format!("./{}", parts.join("/")))
}

/// Escapes special characters in a part of a URL.
fn escaped(part: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    part.bytes().map(escape).collect()
}

fn read(folder: &Path) -> anyhow::Result<Run> {
    let run = store::read(folder)?;
    execution::warn_of_damage(folder, &run);
    Ok(run)
}

fn show_difference(args: &Args, a: &Path, b: &Path) -> anyhow::Result<()> {
    let (first, second) = (read(a)?, read(b)?);
    let (first, second) = (advise::as_planned(&first), advise::as_planned(&second));
    for (folder, run) in [(a, &first), (b, &second)] {
        if run.header.strategy.is_search() {
            bail!("cannot compare {}: a search has no trials at given rates; show it alone", folder.display());
        }
    }
    let diff = RunDiff::of(&first, &second);
    let show = |medium| text::run_diff::render(&diff, medium);
    args.format.print_or_csv(args.csv, || &diff, || csv::of_rows(diff.rows()), show)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_relative_and_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |path: &str| folder.path().join(path);
        for run in ["results/a b#1", "results/deep/c"] {
            fs::create_dir_all(path_of(run)).unwrap();
        }
        fs::create_dir_all(path_of("pages")).unwrap();
        fs::write(path_of("results/deep/c/report.html"), "").unwrap();
        let link = |page: &str, run: &str| link(&path_of(page), &path_of(run)).unwrap();
        assert_eq!(link("results/index.html", "results/a b#1"), "./a%20b%231/");
        assert_eq!(link("results/index.html", "results/deep/c"), "./deep/c/report.html");
        assert_eq!(link("pages/index.html", "results/deep/c"), "./../results/deep/c/report.html");
        assert_eq!(link("results/deep/c/index.html", "results/deep/c"), "./report.html");
    }

    #[test]
    fn run_reached_by_several_paths_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |path: &str| folder.path().join(path);
        for run in ["results/a", "results/b"] {
            fs::create_dir_all(path_of(run)).unwrap();
            fs::write(path_of(run).join("run.json"), "").unwrap();
        }
        std::os::unix::fs::symlink(path_of("results"), path_of("link")).unwrap();
        let given = ["results/a", "results", "link", "results/../results"].map(path_of);
        assert_eq!(folders_of(&given).unwrap(), ["results/a", "results/b"].map(path_of));
    }
}
