//! A plan becomes a run, is stored as it goes, and is shown: what `compare` and `run` share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use lab::experiment::Experiment;
use lab::host::{Host, differences};
use lab::plan::{Plan, plan};
use lab::record::{Run, RunHeader, Trial, VerdictKind};
use lab::runner::{self, Ended};
use lab::store::{self, Store};

use crate::output;
use crate::progress::Progress;

/// No trial is valid: the run is done, and its figures are not to be believed.
pub const NO_VALID_TRIAL: u8 = 3;
/// Stopped by a signal, as shells have it.
const STOPPED: u8 = 130;

/// Flags of commands that run something.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Finish a stopped run: its folder, or the newest one; other flags are taken from there
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Start the commands that the experiment's `exec` tables name; without it they are only shown
    #[arg(long)]
    allow_exec: bool,
    /// Exit with 3 unless every trial is valid
    #[arg(long)]
    strict: bool,
    /// Say why: system calls, events, switches and CPU a request, and what sets each architecture apart from the best
    #[arg(long)]
    explain: bool,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

impl ExecutionArgs {
    /// Whether an earlier run is to be finished instead of making a new one.
    pub fn is_resume(&self) -> bool {
        self.resume.is_some()
    }
}

/// Plans `experiment` for this host.
///
/// # Errors
/// When it cannot be placed here.
pub fn plan_here(experiment: &Experiment) -> anyhow::Result<(Plan, Host)> {
    let host = Host::this();
    let plan = plan(experiment, &host).map_err(anyhow::Error::msg)?;
    Ok((plan, host))
}

/// Runs an experiment from the beginning.
///
/// # Errors
/// When nothing of it can be run here, or it cannot be stored.
pub fn start(experiment: &Experiment, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    let (folder, store, header) = begin(experiment, args.output.as_deref(), args.allow_exec)?;
    let (run, ended) = execute(&folder, store, &header, &[], args.quiet)?;
    show(&folder, &run, ended, args)
}

/// Runs an experiment in `folder`, or what an earlier call left of it.
///
/// # Errors
/// When nothing of it can be run here, or it cannot be stored, or another process is at it.
pub fn complete(experiment: &Experiment, folder: &Path, quiet: bool) -> anyhow::Result<(Run, Ended)> {
    if !folder.join("run.json").exists() {
        let (folder, store, header) = begin(experiment, Some(folder), false)?;
        return execute(&folder, store, &header, &[], quiet);
    }
    let (store, run) = Store::resume(folder)?;
    let (plan, _) = plan_here(experiment)?;
    if plan.trials != run.header.trials {
        bail!(
            "{}: what was begun there is not what would be run now, by this version on this machine; name another folder \
             with --output",
            folder.display()
        );
    }
    execute(folder, store, &run.header, &run.records, quiet)
}

/// Plans an experiment and makes its store.
fn begin(
    experiment: &Experiment,
    output: Option<&Path>,
    allow_exec: bool,
) -> anyhow::Result<(PathBuf, Store, RunHeader)> {
    experiment.check().map_err(anyhow::Error::msg)?;
    let (plan, host) = plan_here(experiment)?;
    if let Some(trial) = plan.trials.first().filter(|_| plan.trials.iter().all(|trial| !trial.impossible.is_empty())) {
        bail!("nothing of this can be run here:\n{}", trial.impossible.join("\n"));
    }
    for warning in &plan.warnings {
        anstream::eprintln!("muxbench: beware: {warning}");
    }
    allow_commands(&plan.trials, allow_exec)?;
    let time = now();
    let name = format!("{}-{}", time.replace([':', '-'], "").trim_end_matches('Z'), plan.experiment);
    let folder = output.map_or_else(|| Path::new("results").join(&name), Path::to_owned);
    let header = RunHeader {
        name: folder.file_name().map_or(name, |name| name.to_string_lossy().into_owned()),
        muxbench: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        started_at: time,
        experiment: plan.experiment,
        seed: plan.seed,
        trials: plan.trials,
        host: host.facts,
        placement: plan.placement,
    };
    let store = Store::create(&folder, &header)?;
    Ok((folder, store, header))
}

/// Finishes a stopped run.
///
/// # Errors
/// When there is none, or another process is at it.
pub fn resume(args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    let folder = match args.resume.clone().flatten() {
        Some(folder) => folder,
        None => store::latest(Path::new("results"))?,
    };
    let (store, run) = Store::resume(&folder)?;
    allow_commands(&run.header.trials, args.allow_exec)?;
    if run.header.trials.iter().any(|trial| trial.serve.ours().is_some_and(|serve| serve.count_syscalls)) {
        // A trial that fails is not run again.
        server::tracepoints::can_count().map_err(|reason| anyhow!("server.count-syscalls: {reason}"))?;
    }
    for (fact, before, now) in differences(&run.header.host, &Host::this().facts) {
        anstream::eprintln!(
            "muxbench: this host differs from that of the run's beginning: {fact}: {before}, now {now}"
        );
    }
    let (run, ended) = execute(&folder, store, &run.header, &run.records, args.quiet)?;
    show(&folder, &run, ended, args)
}

/// Shows the commands that an experiment names, which anything may be, before any of them is started.
///
/// # Errors
/// When they are not allowed: what would be run, and by which flag.
fn allow_commands(trials: &[Trial], allowed: bool) -> anyhow::Result<()> {
    let commands = lab::contender::commands(trials);
    if commands.is_empty() {
        return Ok(());
    }
    let shown = commands.join("\n  ");
    if !allowed {
        bail!("this experiment starts commands on this machine:\n  {shown}\nadd --allow-exec if you trust them");
    }
    anstream::eprintln!("muxbench: these commands will be started:\n  {shown}");
    Ok(())
}

/// UTC to the second, RFC 3339.
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

fn execute(
    folder: &Path,
    store: Store,
    header: &RunHeader,
    done: &[lab::record::TrialRecord],
    quiet: bool,
) -> anyhow::Result<(Run, Ended)> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot listen to signals")?;
    }
    let is_done = |index| done.iter().any(|record| record.trial.index == index);
    let to_run: Vec<_> =
        header.trials.iter().filter(|trial| trial.impossible.is_empty() && !is_done(trial.index)).collect();
    let mut progress = (!quiet).then(|| Progress::new(&to_run));
    let options = runner::Options {
        program: std::env::current_exe()
            .context("cannot find our own binary, which servers and clients are run from")?,
        stop: &stop,
    };
    let ended = runner::run(header, done, &store, &options, &mut |event| {
        if let Some(progress) = &mut progress {
            progress.on(&event);
        }
    });
    if let Some(progress) = progress {
        progress.end();
    }
    let ended = ended?;
    drop(store);
    Ok((store::read(folder)?, ended))
}

fn show(folder: &Path, run: &Run, ended: Ended, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        output::print_json(&report::json::of(run))?;
    } else {
        output::print(&report::terminal::render(run, output::width()))?;
        if args.explain {
            output::print(&format!("\n{}", report::explain::render(&report::Summary::of(run), output::width())))?;
        }
        output::print(&format!("Results: {}\n", folder.display()))?;
        if let Some(paper) = report::paper::of_experiment(&run.header.experiment) {
            let (folder, name) = (folder.display(), paper.name);
            output::print(&format!("Beside the paper: muxbench report {folder} --paper {name}\n"))?;
        }
    }
    if ended == Ended::Stopped {
        return Ok(stopped(&format!("muxbench run --resume {}", folder.display())));
    }
    let valid = run.records.iter().filter(|record| record.verdict.kind == VerdictKind::Valid).count();
    let needed = if args.strict { run.header.trials.len() } else { 1 };
    Ok(if valid >= needed { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) })
}

/// What a command that a signal stopped says and ends with.
pub fn stopped(how_to_finish: &str) -> ExitCode {
    anstream::eprintln!("muxbench: stopped; what is finished is kept. Finish it with: {how_to_finish}");
    ExitCode::from(STOPPED)
}
