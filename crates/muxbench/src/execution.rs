//! Plans an experiment, runs it and stores each trial.

mod show;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use fleet::launcher::Membership;
use fleet::local::Local;
use fleet::workers::{LossPolicy, Workers};
use fleet::{launcher, worker};
use harness::clients::Fleet;
use harness::exec::event::RunEnd;
use harness::exec::launch::Muxbench;
use harness::exec::runner;
use harness::host::{self, Host, differences, idle_cpus};
use harness::plan::{self, Plan};
use harness::record::{Run, RunHeader, Strategy, Trial, TrialOutcome, TrialRecord};
use harness::spec::Experiment;
use harness::spec::transport::Transport;
use harness::store::{self, Store};
use netns::conditions::{self, HostCapabilities};
use netns::surrounding::Surrounding;
use process::stop::Stop;
use signal_hook::consts::SIGINT;
use wire::secret;

use crate::files::in_shell;
use crate::options::execution::ExecutionArgs;
use crate::options::given::Options;
use crate::progress::Progress;
use crate::signals::stop_at_signals;
use crate::{exit, output};

use show::resume_command;
pub use show::{code, print_places, show};

/// The workers of a distributed run; `None` if each trial starts its own client processes.
type Clients = Option<Box<Workers>>;

/// A stored run whose missing trials can run.
struct Session {
    folder: PathBuf,
    store: Store,
    header: RunHeader,
    done: Vec<TrialRecord>,
    clients: Clients,
}

/// Joins the distributed run, if the user requested one. Does not return in a worker, which needs neither the experiment
/// nor the folder. `transport` selects one of several addresses of the first process.
fn join(args: &ExecutionArgs, transport: impl FnOnce() -> Option<Transport>) -> anyhow::Result<Clients> {
    if !args.has("distributed") {
        return Ok(None);
    }
    let place = launcher::membership().map_err(anyhow::Error::msg)?;
    if place.rank > 0 {
        let place = Membership { transport: transport(), ..place };
        // A launcher sends SIGINT to all processes. Workers ignore it: the first process stops the run after the current trial.
        signal_hook::flag::register(SIGINT, Arc::default()).context("cannot handle signals")?;
        worker::run(&place, &program()?)?;
        std::process::exit(0);
    }
    if let Some(weakness) = place.weakness {
        output::warn(format_args!(
            "{weakness}: on a shared network, set MUXBENCH_SECRET to the same random text in all processes \
             (32 characters, such as `openssl rand -hex 16` prints)"
        ));
    }
    let continues = args.actions.get::<String>("lost-worker").as_deref() == Some("continue");
    let loss = if continues { LossPolicy::Continue } else { LossPolicy::EndRun };
    let mut workers = Workers::accept_all(&place, loss)?;
    workers.surrounding = Surrounding::here()?;
    workers.measure_clocks()?;
    let (ranks, launcher, sentence) = (place.ranks, place.launcher, workers.sentence());
    output::note(format_args!("distributed run of {ranks} processes, started by {launcher}: {sentence}"));
    if let Some(limits) = workers.cpu_limits() {
        output::note(report::format::visible(&limits));
    }
    Ok(Some(Box::new(workers)))
}

/// Warns of workers on this machine that are not allowed to use all planned CPUs, which are the same in all trials.
fn warn_of_cpus(clients: &Clients, trials: &[Trial]) {
    if let (Some(workers), Some(trial)) = (clients, trials.first())
        && let Some(warning) = workers.missing_planned_cpus(&trial.client.cpus)
    {
        output::warn(warning);
    }
}

fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot start servers and clients: the path of this program is unknown")
}

pub fn plan_here(experiment: &Experiment) -> anyhow::Result<(Plan, Host)> {
    let host = host::detect();
    let plan = plan::plan(experiment, &host).map_err(anyhow::Error::msg)?;
    Ok((plan, host))
}

pub fn whole(plan: Plan, _: &Host) -> anyhow::Result<(Plan, Strategy)> {
    Ok((plan, Strategy::Whole))
}

/// Runs an experiment with the strategy that `strategy` chooses, or finishes an earlier run after `change` has adapted
/// its header. Also returns the folder of the run. In a distributed run the first process reads the experiment after all
/// workers have joined. A worker uses only the experiment's transport, and joins even if it cannot read the experiment.
pub fn run(
    args: &ExecutionArgs,
    experiment: impl Fn() -> anyhow::Result<Experiment>,
    strategy: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
    change: impl FnOnce(&mut RunHeader) -> anyhow::Result<()>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let (folder, run, ended) = measure(args, experiment, strategy, change, false)?;
    Ok((show(&folder, &run, ended, args)?, folder))
}

/// Refuses to resume a run of another command.
pub fn of_command(name: &str) -> impl FnOnce(&mut RunHeader) -> anyhow::Result<()> {
    move |header| match header.strategy.command() {
        command if command == name => Ok(()),
        command => bail!("--resume: this is a run of `{command}`; name one of `{name}`"),
    }
}

/// Does the same as [`run`], and returns the run without showing it. With `ends_window`, the first Ctrl-C ends the window of a trial.
pub fn measure(
    args: &ExecutionArgs,
    experiment: impl Fn() -> anyhow::Result<Experiment>,
    strategy: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
    change: impl FnOnce(&mut RunHeader) -> anyhow::Result<()>,
    ends_window: bool,
) -> anyhow::Result<(PathBuf, Run, RunEnd)> {
    let (session, stop) = if args.has("resume") {
        let folder = || args.actions.path("resume").map_or_else(|| store::latest(Path::new("results")), Ok);
        // The host of a worker may not have the folder of the run.
        let header = || store::header(&folder().ok()?).ok();
        let clients = join(args, || Some(header()?.trials.first()?.workload.transport))?;
        let folder = folder()?;
        let stop = stop_at_signals()?;
        let session = Session::resume(&folder, args.has("allow-exec"), clients, change)
            .with_context(|| format!("cannot resume {}", folder.display()))?;
        args.actions.versus(&session.header.trials)?;
        (session, stop)
    } else {
        let clients = join(args, || Some(experiment().ok()?.workload.transport))?;
        // Read the experiment before the signals are handled: it may come from standard input, where Ctrl-C ends the wait.
        let experiment = experiment()?;
        let stop = stop_at_signals()?;
        let feasible = |plan, host: &Host| {
            // A signal may have disturbed the probes of the plan, so store nothing.
            if stop.is_requested() {
                bail!("stopped");
            }
            let (mut plan, strategy) = strategy(plan, host)?;
            args.actions.versus(&plan.trials)?;
            if !strategy.is_search() {
                plan.check_windows();
            } else if plan.is_profiled {
                bail!("profile: the probes of a search differ in rate, so their stacks cannot be compared; omit it");
            }
            match plan.trials.first() {
                Some(trial) if plan.trials.iter().all(|trial| !trial.infeasible.is_empty()) => {
                    bail!("no trial can run on this host:\n{}", trial.infeasible.join("\n"))
                }
                _ => Ok((plan, strategy)),
            }
        };
        let begun = Session::begin(&experiment, args.output().as_deref(), args.has("allow-exec"), clients, feasible);
        if begun.is_err() && stop.is_requested() {
            output::note("stopped before the first trial; nothing is stored");
            std::process::exit(exit::STOPPED.into());
        }
        (begun?, stop)
    };
    let folder = session.folder.clone();
    let resume = resume_command(&session.header, &in_shell(&folder), &args.display_flags());
    let (run, ended) = session.execute(args.has("quiet"), &stop, ends_window).with_context(|| failed(&resume))?;
    Ok((folder, run, ended))
}

/// The context of an error that ends a run whose folder the same command finishes.
const REPEAT: &str = "the run failed; finished trials are saved. Correct the cause, then repeat the command";

/// Returns the context of an error that ends a run, with the command that finishes it.
pub fn failed(resume: &str) -> String {
    format!("the run failed; finished trials are saved. Correct the cause, then try `{resume}`")
}

/// Runs an experiment in `folder`, or finishes the run there. `stop` ends it early. Trials that cannot run here have no
/// results; the stored plan states the reasons.
pub fn complete(experiment: &Experiment, folder: &Path, quiet: bool, stop: &Stop) -> anyhow::Result<(Run, RunEnd)> {
    if !store::is_run(folder) {
        return Session::begin(experiment, Some(folder), false, None, whole)?
            .execute(quiet, stop, false)
            .context(REPEAT);
    }
    let mut session = Session::open(folder, None)?;
    let plan = plan_as_stored(experiment, folder, &session.header)?;
    warn_of_differences(&session.header);
    // A trial may have become feasible, for example with a raised limit or free memory.
    let before = session.header.trials.clone();
    for (trial, planned) in session.header.trials.iter_mut().zip(plan.trials) {
        if !session.done.iter().any(|record| record.trial.index == trial.index) {
            trial.infeasible = planned.infeasible;
        }
    }
    if session.header.trials != before {
        session.store.replace_header(&session.header)?;
    }
    session.execute(quiet, stop, false).context(REPEAT)
}

/// Checks that [`complete`] can finish the run in `folder`, if there is one.
pub fn check_plan(experiment: &Experiment, folder: &Path) -> anyhow::Result<()> {
    if store::is_run(folder) {
        plan_as_stored(experiment, folder, &store::header(folder)?)?;
    }
    Ok(())
}

/// Plans an experiment, and checks that the plan is that of the run in `folder`.
fn plan_as_stored(experiment: &Experiment, folder: &Path, header: &RunHeader) -> anyhow::Result<Plan> {
    let (plan, _) = plan_here(experiment)?;
    // Reasons for infeasible trials contain figures that change over time, so do not compare them.
    // Slices and references follow from the feasible trials.
    let without_reasons = |trial: &Trial| Trial { infeasible: Vec::new(), ..trial.alone() };
    let trials =
        |trials: &[Trial]| trials.iter().filter(|it| !it.is_reference).map(without_reasons).collect::<Vec<_>>();
    if trials(&plan.trials) != trials(&header.trials) {
        bail!(
            "cannot finish the run in {}: its plan differs in scale (--quick, --full), version or machine; try the other \
             scale, or another folder with --output",
            folder.display()
        );
    }
    Ok(plan)
}

/// Plans an experiment, and stores the plan in `folder` as a run without trials, which [`finish`] runs.
pub fn prepare(
    experiment: &Experiment,
    folder: &Path,
    allow_exec: bool,
    strategy: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
) -> anyhow::Result<RunHeader> {
    Ok(Session::begin(experiment, Some(folder), allow_exec, None, strategy)?.header)
}

/// Runs the missing trials of a stored run. `stop` ends it early.
pub fn finish(folder: &Path, allow_exec: bool, quiet: bool, stop: &Stop) -> anyhow::Result<(Run, RunEnd)> {
    let session = Session::resume(folder, allow_exec, None, |_| Ok(()));
    session.with_context(|| format!("cannot resume {}", folder.display()))?.execute(quiet, stop, false)
}

/// Stores a changed header of a run that no process is writing.
pub fn replace_header(folder: &Path, header: &RunHeader) -> anyhow::Result<()> {
    Store::resume(folder)?.0.replace_header(header)
}

/// Returns a folder under `results` that does not exist, named after the time and `name`.
pub fn new_folder(name: &str) -> PathBuf {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string();
    unused(&Path::new("results").join(format!("{time}-{name}")))
}

/// Returns `folder`. Appends a number if it exists, because another run began in the same second.
fn unused(folder: &Path) -> PathBuf {
    let numbered = (2..).map(|number: u32| PathBuf::from(format!("{}-{number}", folder.display())));
    let mut candidates = std::iter::once(folder.to_owned()).chain(numbered);
    candidates.find(|candidate| !candidate.exists()).unwrap_or_else(|| folder.to_owned())
}

pub fn warn_of_damage(folder: &Path, run: &Run) {
    for damage in &run.damage {
        output::warn(format_args!("{}: {damage}", folder.display()));
    }
}

fn warn_of_differences(header: &RunHeader) {
    for (fact, before, now) in differences(&header.host, &host::detect().facts) {
        if fact != "network" || !header.is_distributed {
            output::warn(format_args!("this host has changed since the run began: {fact}: {before}, now {now}"));
        }
    }
}

/// Checks that a run can continue with these clients. All trials of a run have the same network and number of client processes.
fn check_clients(header: &RunHeader, clients: &Clients) -> anyhow::Result<()> {
    let trial = header.trials.first();
    let planned = trial.map_or(1, |trial| trial.client.processes);
    let reasons = match (clients, trial) {
        (Some(_), _) if !header.is_distributed => bail!("the run is not distributed; omit --distributed"),
        (Some(workers), _) if workers.count() != planned => bail!(
            "the run has {0} workers, and this distributed run has {1}; start {0} processes",
            planned + 1,
            workers.count() + 1
        ),
        (None, _) if header.is_distributed => {
            bail!("the run is distributed; try --distributed with {} processes", planned + 1)
        }
        (Some(workers), Some(trial)) => plan::infeasible_for_workers(trial, &workers.facts()),
        (None, Some(Trial { workload, .. })) => workload
            .network
            .as_ref()
            .and_then(|network| conditions::choose(network, &HostCapabilities::here()).err())
            .unwrap_or_default(),
        (_, None) => Vec::new(),
    };
    if !reasons.is_empty() {
        bail!("this host does not meet the run's needs:\n{}", reasons.join("\n"));
    }
    Ok(())
}

/// Checks that stacks can be sampled, if they must be.
fn check_profile(is_profiled: bool) -> anyhow::Result<()> {
    let checked = if is_profiled { profile::sampling::can_sample() } else { Ok(()) };
    checked.map_err(|reason| anyhow!("--profile: {reason}"))
}

/// Shows the commands that an experiment starts, and rejects them unless `allowed`, because they may do anything.
fn allow_commands(trials: &[Trial], allowed: bool) -> anyhow::Result<()> {
    let commands = harness::record::commands(trials).join("\n  ");
    if !commands.is_empty() && !allowed {
        bail!("this experiment starts commands on this machine:\n  {commands}\nadd --allow-exec if you trust them");
    }
    if !commands.is_empty() {
        output::note_once(format_args!("the experiment starts these commands:\n  {commands}"));
    }
    Ok(())
}

fn outcomes(header: &RunHeader, done: &[TrialRecord]) -> Vec<TrialOutcome> {
    done.iter().map(|record| TrialOutcome::new(record, &header.strategy)).collect()
}

impl Session {
    /// Plans an experiment and creates its store.
    fn begin(
        experiment: &Experiment,
        output: Option<&Path>,
        allow_exec: bool,
        clients: Clients,
        strategy: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
    ) -> anyhow::Result<Self> {
        experiment.check().map_err(anyhow::Error::msg)?;
        let mut experiment = experiment.clone();
        let mut host = host::detect();
        if let Some(workers) = &clients {
            experiment.client.processes = NonZeroU32::new(workers.count());
            if experiment.network.is_none() {
                experiment.network = workers.facts().lab.map(|(network, _)| network);
            }
            host.fleet = Some(workers.facts());
            experiment.check().map_err(anyhow::Error::msg)?;
        }
        let mut plan = plan::plan(&experiment, &host).map_err(anyhow::Error::msg)?;
        if let Some(workers) = &clients {
            plan.placement = format!("{}; {}", plan.placement, workers.sentence());
            host.facts.insert("network".into(), workers.network());
        }
        let (plan, strategy) = strategy(plan, &host)?;
        for warning in &plan.warnings {
            output::warn(report::format::visible(&Options::default().with_flag(warning.clone(), false)));
        }
        warn_of_cpus(&clients, &plan.trials);
        check_profile(plan.is_profiled)?;
        allow_commands(&plan.trials, allow_exec)?;
        let time = jiff::Timestamp::now();
        let name = format!("{}-{}", time.strftime("%Y%m%dT%H%M%S"), plan.experiment);
        let folder = output.map_or_else(|| unused(&Path::new("results").join(&name)), Path::to_owned);
        let header = RunHeader {
            name: folder.file_name().map_or(name, |name| name.to_string_lossy().into_owned()),
            muxbench: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args_os().map(|it| secret::redact(&it.to_string_lossy())).collect(),
            started_at: time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            experiment: plan.experiment,
            seed: plan.seed,
            trials: plan.trials,
            strategy,
            interleave: plan.interleave,
            host: host.facts,
            placement: plan.placement,
            idle_cpus_poll: plan.idle_cpus_poll,
            is_profiled: plan.is_profiled,
            is_distributed: clients.is_some(),
        };
        let store = Store::create(&folder, &header)?;
        Ok(Self { folder, store, header, done: Vec::new(), clients })
    }

    fn open(folder: &Path, clients: Clients) -> anyhow::Result<Self> {
        let (store, run) = Store::resume(folder)?;
        warn_of_damage(folder, &run);
        Ok(Self { folder: folder.to_owned(), store, header: run.header, done: run.records, clients })
    }

    /// Opens a stored run, changes its header, and checks that it can continue.
    fn resume(
        folder: &Path,
        allow_exec: bool,
        clients: Clients,
        change: impl FnOnce(&mut RunHeader) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let mut session = Self::open(folder, clients)?;
        let Self { header, store, done, clients, .. } = &mut session;
        let strategy = header.strategy.clone();
        change(header)?;
        if header.strategy != strategy {
            store.replace_header(header)?;
        }
        check_clients(header, clients)?;
        check_profile(header.is_profiled)?;
        allow_commands(&header.trials, allow_exec)?;
        plan::check_targets(&header.trials).map_err(anyhow::Error::msg)?;
        // Check now: without its files, or if the kernel cannot count, each trial would fail, and failed trials are not repeated.
        if !header.strategy.due(header, &outcomes(header, done)).is_empty() {
            plan::check_files(&header.trials).map_err(anyhow::Error::msg)?;
            secret::reveal(&serde_json::to_string(&header.trials)?)?;
        }
        if header.trials.iter().any(|trial| trial.serve.ours().is_some_and(|serve| serve.count_syscalls)) {
            server::metrics::tracepoints::can_count().map_err(|reason| anyhow!("server.count-syscalls: {reason}"))?;
        }
        warn_of_differences(header);
        warn_of_cpus(clients, &header.trials);
        Ok(session)
    }

    /// Runs all trials that have no record yet, and returns the stored run. With `ends_window`, a stop after the current trial ends
    /// its window.
    fn execute(self, quiet: bool, stop: &Stop, ends_window: bool) -> anyhow::Result<(Run, RunEnd)> {
        let Self { folder, store, header, done, clients } = self;
        let polling = header.idle_cpus_poll.then(idle_cpus::poll).transpose();
        let _polling = polling.context("cannot let idle CPUs poll, as the run requires; try again as root")?;
        let mut progress = (!quiet).then(|| Progress::new(&header, &outcomes(&header, &done)));
        let launch = Muxbench { program: program()? };
        let options = runner::Options { launch: &launch, stop };
        let mut fleet: Box<dyn Fleet> = match clients {
            None => {
                let mut local = Local::new(launch.program.clone());
                if ends_window {
                    local.ends_window = stop.after_trial.clone();
                }
                Box::new(local)
            }
            Some(workers) => workers,
        };
        let ended = runner::run(&header, &done, &store, &options, &mut *fleet, &mut |event| {
            if let Some(progress) = &mut progress {
                progress.on(&event);
            }
        });
        drop((progress, store));
        let ended = ended?;
        Ok((store::read(&folder)?, ended))
    }
}
