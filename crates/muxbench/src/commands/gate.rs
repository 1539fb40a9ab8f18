//! `muxbench gate`: whether a new build of a server is slower than an old one.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use harness::exec::event::RunEnd;
use harness::host::Host;
use harness::plan::Plan;
use harness::record::{Figure, GateGoal, GateLimit, Strategy, Trial, TrialRecord, VerdictKind};
use harness::spec::Experiment;
use harness::spec::units::{Share, Time, time_above_0};
use harness::strategy::gate::{GateOutcome, REPEATS_MAX, cannot_run, repeat_ns};
use report::analysis::gate_history::{GateEntry, GateHistory};
use report::{GateReport, export, format, text};
use stats::excess::REPEATS_MIN;

use crate::exit::{COULD_NOT_RUN, NO_VALID_TRIAL, SLOWER, UNDECIDED};
use crate::files::in_shell;
use crate::options::execution::ExecutionArgs;
use crate::options::servers::Builds;
use crate::options::setup::{SetupArgs, check_options};
use crate::{execution, files, output};

/// The default of `--budget`, in nanoseconds.
const BUDGET_NS: u64 = 90_000_000_000;
const HEADING: &str = "Gate";

/// Test whether a new build of a server is slower than an old one
///
/// Both builds are up at the same time and take turns to be loaded, except with --requests-per-connection. Each repeat starts builds
/// that do not run yet. The gate ends when a figure of
/// the new build is worse by more than its tolerance (exit code 1), when all are known to be within tolerance (0), or at the end
/// of the budget (4). The interval in the table decides: all of it is beyond the tolerance, or within.
///
/// A build that is no slower fails in at most 5 % of gates, and one with a figure beyond its tolerance passes in at most 5 %.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench gate './a {port}' './b {port}' --service http --path / --allow-exec
  muxbench gate http://127.0.0.1:8080/ http://127.0.0.1:8081/ --rate 5000
  muxbench gate old new --exec old='...' --exec new='...' --allow-exec
  muxbench gate epoll io_uring --limit p50=3%,memory=off --budget 3min
  muxbench gate epoll epoll                     # noise: a build against itself
  muxbench gate epoll mt profile.toml           # see observe
  muxbench gate OLD NEW --markdown --junit gate.xml --history gate.jsonl
  muxbench report gate.jsonl --figures plots    # changes from build to build")]
pub struct Args {
    /// Old build: command with {port}, URL, name or architecture
    ///
    /// A name is that of an --exec or --target, or of a table [exec.NAME] or [target.NAME] of FILE
    #[arg(value_name = "OLD", required_unless_present = "resume")]
    old: Option<String>,
    /// New build, in the same forms
    #[arg(value_name = "NEW", required_unless_present = "resume")]
    new: Option<String>,
    /// Tolerances of figures, as in p50=3%,memory=off
    ///
    /// Comma-separated; `off` leaves a figure out [default: p50=2.5%, p90=35%, p95=off, p99=off, rate=5%, cpu=10% (CPU time a
    /// request), memory=10% (a connection), errors=0.1% (more requests that fail)]
    #[arg(long, value_name = "FIGURE=SHARE", value_delimiter = ',', help_heading = HEADING)]
    limit: Vec<Tolerance>,
    /// Longest time of the run [default: 90s]
    ///
    /// A decision needs three repeats. A budget without time for them is refused
    #[arg(long, value_name = "TIME", value_parser = time_above_0, help_heading = HEADING)]
    budget: Option<Time>,
    /// Write the result as JUnit XML, for CI systems
    #[arg(long, value_name = "FILE", help_heading = "Results", hide_short_help = true)]
    junit: Option<PathBuf>,
    /// Append the result, and look for lasting changes
    ///
    /// Each gate is a line of JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    history: Option<PathBuf>,
    /// Name of the new build in the history, such as a commit [default: the start time]
    #[arg(long, value_name = "TEXT", requires = "history", help_heading = "Results", hide_short_help = true)]
    label: Option<String>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

impl Args {
    fn time_max_ns(&self) -> u64 {
        self.budget.map_or(BUDGET_NS, |time| time.0)
    }

    /// Returns the experiment of both builds, with as many repeats as may fit into the budget.
    fn experiment(&self, builds: &Builds) -> anyhow::Result<Experiment> {
        let mut experiment = self.setup.experiment_of_builds(builds)?;
        check_options(&experiment, "a gate compares two servers")?;
        experiment.repeats = repeats(&experiment, self.time_max_ns());
        Ok(self.setup.checked(&experiment)?.0)
    }

    /// Returns the given flags that choose how the gate is shown and where its result is written.
    fn display_flags(&self) -> Vec<String> {
        let shown = |path: Option<&PathBuf>| path.map(|it| it.display().to_string());
        let files = [("--junit", shown(self.junit.as_ref())), ("--history", shown(self.history.as_ref()))];
        let valued = files.into_iter().chain([("--label", self.label.clone())]);
        let words = valued.flat_map(|(flag, value)| value.map(|value| [flag.to_owned(), value])).flatten();
        self.execution.display_flags().into_iter().chain(words).collect()
    }
}

/// The tolerance of a figure; `None` leaves the figure out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tolerance {
    figure: Figure,
    tolerance: Option<f64>,
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Figure::limited().map(Figure::name).collect::<Vec<_>>().join(", ");
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!(
                "invalid tolerance `{text}`: expected FIGURE=SHARE, as in p50=5%, where FIGURE is one of {}",
                known()
            )
        })?;
        let figure = Figure::limited().find(|it| it.name() == name);
        let figure = figure.ok_or_else(|| format!("unknown figure `{name}`: expected one of {}", known()))?;
        let tolerance = match value {
            "off" => None,
            share => {
                let Share(share) = share.parse().map_err(|error: harness::spec::units::UnitError| error.to_string())?;
                Some(share)
            }
        };
        Ok(Self { figure, tolerance })
    }
}

/// Returns the limits of all figures: the given tolerances, and the defaults of the others.
fn limits(given: &[Tolerance]) -> anyhow::Result<Vec<GateLimit>> {
    let limit = |figure: Figure| {
        let given = given.iter().rev().find(|limit| limit.figure == figure);
        let tolerance = given.map_or(figure.tolerance(), |limit| limit.tolerance)?;
        Some(GateLimit { figure, tolerance, is_required: given.is_some() })
    };
    let limits: Vec<GateLimit> = Figure::limited().filter_map(limit).collect();
    if limits.iter().all(|limit| limit.figure == Figure::Errors) {
        bail!("--limit: a gate needs a figure besides errors; omit one of the figures that are off");
    }
    Ok(limits)
}

/// Runs a gate. A failure has an exit code of its own, because 1 means that the new build is slower.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    gate(args).or_else(|error| match error.downcast::<clap::Error>() {
        Ok(usage) => Err(usage.into()),
        Err(error) => {
            output::note(format::visible(&format!("{error:#}")));
            Ok(ExitCode::from(COULD_NOT_RUN))
        }
    })
}

fn gate(args: &Args) -> anyhow::Result<ExitCode> {
    let limits = limits(&args.limit)?;
    args.junit.as_deref().map_or(Ok(()), files::check_path)?;
    if let Some(path) = &args.history {
        files::check_in_place(path)?;
        read_history(path)?;
    }
    files::check_distinct([("--junit", &args.junit), ("--history", &args.history)])?;
    let builds = match (&args.old, &args.new) {
        (Some(old), Some(new)) => Some(args.setup.options.builds(old, new, &args.setup.base)?),
        _ => None,
    };
    let builds = || builds.as_ref().context("OLD and NEW are missing");
    let time_max_ns = args.time_max_ns();
    let experiment = || args.experiment(builds()?);
    let strategy = |plan: Plan, _: &Host| {
        if let Some(trial) = plan.trials.iter().find(|trial| !trial.infeasible.is_empty()) {
            bail!("{} cannot run on this host:\n{}", trial.label(), trial.infeasible.join("\n"));
        }
        check_budget(&plan.trials, Time(time_max_ns))?;
        Ok((plan, Strategy::Gate(GateGoal { old: builds()?.servers[0].clone(), limits: limits.clone(), time_max_ns })))
    };
    let (folder, run, ended) =
        execution::measure(&args.execution, experiment, strategy, execution::of_command("gate"), false)?;
    if let Strategy::Gate(goal) = &run.header.strategy
        && let Some(TrialRecord { verdict, trial, .. }) = run.records.iter().find(|it| cannot_run(goal, it))
    {
        bail!("nothing to compare with: the old build, {}, failed: {}", trial.label(), verdict.reason);
    }
    let report = GateReport::of(&run).context("the run is no gate")?;
    // A gate that an error ends prints no result, so a pipeline can tell an error from an undecided gate.
    if ended == RunEnd::Complete {
        if let Some(path) = &args.junit {
            files::write(path, export::junit::of(&report).as_bytes())?;
        }
        if let Some(path) = &args.history {
            append(path, &GateEntry::new(&report, args.label.as_deref()))?;
        }
    }
    args.execution.format.print(&report, text::gate::render)?;
    if !args.execution.format.json {
        if args.execution.has("explain") {
            let summary = report::analysis::Summary::of(&run);
            output::print(&format!("\n{}", text::cost::render(&summary, args.execution.format.medium())))?;
        }
        if run.header.is_profiled {
            let summary = report::analysis::Summary::of(&run);
            output::print(&format!("\n{}", text::profile::of_run(&summary, args.execution.format.medium())))?;
        }
        let places = places(&folder, report.outcome, args.execution.has("explain"), args.history.is_some());
        execution::print_places(&places, args.execution.format.markdown)?;
    }
    if let Some(code) = execution::code(&in_shell(&folder), &run, ended, &args.display_flags()) {
        return Ok(code);
    }
    let is_valid = run.records.iter().all(|record| record.verdict.kind == VerdictKind::Valid);
    Ok(match report.outcome {
        GateOutcome::Slower => ExitCode::from(SLOWER),
        GateOutcome::Undecided => ExitCode::from(UNDECIDED),
        GateOutcome::NotSlower if args.execution.has("strict") && !is_valid => ExitCode::from(NO_VALID_TRIAL),
        GateOutcome::NotSlower => ExitCode::SUCCESS,
    })
}

/// Returns the next command, unless the user gave its flags already, and the folder of the run.
fn places(folder: &Path, outcome: GateOutcome, is_explained: bool, has_history: bool) -> String {
    let folder = in_shell(folder);
    let next = match outcome {
        GateOutcome::Slower if !is_explained => {
            format!("Next: see why the new build is slower\n  muxbench report {folder} --explain\n")
        }
        GateOutcome::NotSlower if !has_history => {
            "Next: run this gate in CI, and find slow drift\n  muxbench gate OLD NEW --history gate.jsonl --label \
             COMMIT\n"
                .into()
        }
        // An undecided gate has its remedy in its sentence.
        _ => String::new(),
    };
    format!("{next}Results: {folder} (with all figures: muxbench report {folder})\n")
}

/// Rejects a budget with too little time for a decision.
fn check_budget(trials: &[Trial], budget: Time) -> anyhow::Result<()> {
    const SECOND_NS: u64 = 1_000_000_000;
    let needed = u64::from(REPEATS_MIN);
    // Repeats may take longer than estimated.
    let repeat_ns = (repeat_ns(trials).saturating_mul(5) / 4).max(1);
    let fits = budget.0 / repeat_ns;
    if fits < needed {
        let enough = Time(repeat_ns.saturating_mul(needed).div_ceil(SECOND_NS).saturating_mul(SECOND_NS));
        bail!(
            "--budget {budget}: has time for {} of up to {}, and a decision needs {needed}; try --budget {enough}, or a shorter \
             --measure",
            format::counted(fits as usize, "repeat", "repeats"),
            format::time(repeat_ns as f64)
        );
    }
    Ok(())
}

/// Returns the number of repeats that fit into the budget, and at least those that a decision needs.
fn repeats(experiment: &Experiment, time_max_ns: u64) -> NonZeroU32 {
    let phases = &experiment.phases;
    let repeat_ns = 2 * (phases.ramp.0 + phases.warm_up.0 + phases.measure.0);
    let count = (time_max_ns / repeat_ns.max(1) + 1).clamp(REPEATS_MIN.into(), REPEATS_MAX.into());
    NonZeroU32::new(count as u32).expect("at least 1")
}

/// Reads a history that may not exist yet. Returns its text, too.
fn read_history(path: &Path) -> anyhow::Result<(GateHistory, String)> {
    let place = || format!("cannot read the history {}", path.display());
    if !fs::exists(path).with_context(place)? {
        return Ok((GateHistory::of(Vec::new()), String::new()));
    }
    let bytes = harness::files::read(path).with_context(place)?;
    let text = String::from_utf8(bytes).with_context(place)?;
    Ok((GateHistory::parse(&text).with_context(place)?, text))
}

/// Appends a gate to a history that lacks it, and prints the newest lasting change.
fn append(path: &Path, entry: &GateEntry) -> anyhow::Result<()> {
    let place = || format!("cannot append to {}; check its folder", path.display());
    let (mut history, before) = read_history(path)?;
    if !history.has(entry) {
        // An editor may have removed the last end of a line.
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        let line = format!("{end}{}\n", serde_json::to_string(entry)?);
        harness::files::append(path, line.as_bytes()).with_context(place)?;
        history = GateHistory::parse(&(before + &line))?;
    }
    let sentence = format::visible(&history.sentence);
    output::note(format_args!("{}: {sentence}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use harness::spec::Service;
    use harness::spec::units::Rate;

    use super::*;
    use crate::options::parsed;

    #[test]
    fn junit_and_history_are_different_files() {
        let error = gate(&parsed("gate", "epoll mt --junit a --history ./a")).unwrap_err().to_string();
        assert!(error.starts_with("--junit and --history: both are a;"), "{error}");
    }

    #[test]
    fn flags_change_the_traffic_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile.toml");
        let text = "architectures = ['mt', 'exec:go', 'exec:old']\n[exec.go]\ncommand = ['./go', '{port}']\n[exec.old]\n\
                    command = ['./c', '{port}']\n[workload]\nconnections = [30, 50]\nrate = 700\nresponse = '2KiB'\n";
        fs::write(&file, text).unwrap();
        let experiment = |new: &str, flags: &str| {
            let args: Args = parsed("gate", &format!("old new {} {flags}", file.display()));
            let builds = args.setup.options.builds("./old {port}", new, &args.setup.base).unwrap();
            args.experiment(&builds).unwrap()
        };
        let numbers = |experiment: &Experiment| {
            let workload = &experiment.workload;
            let connections: Vec<u32> = workload.connections.0.iter().map(|it| it.get()).collect();
            (connections, workload.rate.clone().unwrap().0)
        };
        let of_file = experiment("./new {port}", "");
        let servers: Vec<String> = of_file.architectures.0.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["exec:old", "exec:new"], "the builds replace the servers of the file");
        assert_eq!(numbers(&of_file), (vec![30], vec![Rate(700.0)]));
        let commands = experiment("go", "").exec;
        assert_eq!(commands.keys().collect::<Vec<_>>(), ["go", "old"], "a build may be a server of the file");
        assert_eq!(commands["go"].command, ["./go", "{port}"]);
        assert_eq!(commands["old"].command, ["./old", "{port}"], "a build replaces a server of its name");
        let args: Args = parsed("gate", &format!("old new {}", file.display()));
        let error = args.setup.options.builds("./old {port}", "old", &args.setup.base).unwrap_err().to_string();
        assert!(error.starts_with("OLD and NEW are both named exec:old"), "{error}");
        let changed = experiment("epoll", "-c 9 -r 5 --service http --path /");
        assert_eq!(numbers(&changed), (vec![9], vec![Rate(5.0)]));
        assert_eq!((changed.workload.service, changed.workload.response), (Service::Http, None));
    }

    #[test]
    fn refused_gate_names_a_remedy() {
        for (line, words) in [
            ("epoll epol", "did you mean `epoll`?"),
            ("epoll mt --history Cargo.toml", "line 1 is no result of a gate"),
            ("epoll mt --junit absent/x", "cannot write absent/x: its folder does not exist"),
            ("./old ./new", "OLD `./old`: a command needs {port}, as in './old {port}'"),
            ("mt-pool mt-pool --accept shared,reuseport", "--accept: a gate compares two servers"),
        ] {
            let args: Args = parsed("gate", line);
            let error = format!("{:#}", gate(&args).unwrap_err());
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn budget_without_time_for_a_decision_names_one_that_suffices() {
        let trials = testkit::gate_run(0).header.trials;
        let estimated_ns = repeat_ns(&trials);
        assert!(check_budget(&trials, Time(3 * estimated_ns)).is_err(), "repeats may take longer than estimated");
        let repeat_ns = 5 * estimated_ns / 4;
        for (repeats, words) in [(0, "for 0 repeats of"), (1, "for 1 repeat of"), (2, "for 2 repeats of")] {
            let error = check_budget(&trials, Time((repeats + 1) * repeat_ns - 1)).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("and a decision needs 3; "), "{error}");
            let Some((_, remedy)) = error.split_once("try --budget ") else { panic!("{error}") };
            let enough: Time = remedy.split(',').next().unwrap().parse().unwrap();
            assert!(enough.0 > 3 * estimated_ns, "{error}");
            check_budget(&trials, enough).unwrap();
        }
    }

    #[test]
    fn resumed_gate_is_in_its_history_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.jsonl");
        let mut report = GateReport::of(&testkit::gate_run(0)).unwrap();
        for (label, started_at, lines) in [
            ("first", "2026-01-01T00:00:00Z", 1),
            ("resumed", "2026-01-01T00:00:00Z", 1),
            ("next", "2026-01-01T00:01:00Z", 2),
        ] {
            report.started_at = started_at.to_owned();
            append(&path, &GateEntry::new(&report, Some(label))).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), lines, "{label}");
        }
    }

    #[test]
    fn command_of_a_stopped_gate_keeps_each_display_flag() {
        for flags in ["--json --quiet --junit a.xml", "--strict --explain --history h.jsonl --label x"] {
            let args: Args = parsed("gate", &format!("epoll mt {flags}"));
            assert_eq!(args.display_flags().join(" "), flags);
        }
    }

    #[test]
    fn given_tolerances_replace_defaults_and_are_required() {
        let given = ["p50=3%", "p95=20%", "cpu=off", "errors=0.01"].map(|text| text.parse::<Tolerance>().unwrap());
        let limits = limits(&given).unwrap();
        let of = |figure| limits.iter().find(|limit| limit.figure == figure).map(|it| (it.tolerance, it.is_required));
        assert_eq!(of(Figure::P50), Some((0.03, true)));
        assert_eq!((of(Figure::P90), of(Figure::P95)), (Some((0.35, false)), Some((0.2, true))));
        assert_eq!((of(Figure::P99), of(Figure::Cpu)), (None, None));
        assert_eq!(of(Figure::Errors), Some((0.01, true)));
    }

    #[test]
    fn outcome_is_followed_by_the_next_command() {
        let places = |outcome, is_given| places(Path::new("results/x"), outcome, is_given, is_given);
        let results = "Results: results/x (with all figures: muxbench report results/x)\n";
        for (outcome, words) in [
            (GateOutcome::Slower, "Next: see why the new build is slower\n  muxbench report results/x --explain\n"),
            (GateOutcome::NotSlower, "--history gate.jsonl --label COMMIT"),
        ] {
            let text = places(outcome, false);
            assert!(text.starts_with("Next: ") && text.contains(words) && text.ends_with(results), "{text}");
            assert_eq!(places(outcome, true), results);
        }
        assert_eq!(places(GateOutcome::Undecided, false), results);
    }

    #[test]
    fn invalid_tolerances_name_valid_ones() {
        for (text, words) in [
            ("p50", "as in p50=5%"),
            ("p75=5%", "expected one of p50, p90, p95, p99, rate, cpu, memory, errors"),
            ("p50=5", "such as"),
        ] {
            let error = text.parse::<Tolerance>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let off = Figure::limited().map(|figure| Tolerance { figure, tolerance: None });
        assert!(limits(&off.collect::<Vec<_>>()).unwrap_err().to_string().contains("besides errors"));
    }
}
