//! Plans an experiment, runs it and stores each trial.

mod show;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use harness::exec::event::RunEnd;
use harness::exec::launch::Muxbench;
use harness::exec::runner;
use harness::fleet::launcher::Membership;
use harness::fleet::local::Local;
use harness::fleet::workers::{LossPolicy, Workers};
use harness::fleet::{Fleet, launcher, worker};
use harness::host::{self, Host, differences};
use harness::model::{Run, RunHeader, Strategy, Trial, TrialOutcome, TrialRecord};
use harness::netns::conditions::{self, Found};
use harness::netns::surrounding::Surrounding;
use harness::plan::{Plan, plan};
use harness::process::stop::Stop;
use harness::spec::Experiment;
use harness::spec::transport::Transport;
use harness::store::{self, Store};
use harness::strategy;
use signal_hook::consts::SIGINT;

use crate::options::execution::ExecutionArgs;
use crate::output;
use crate::progress::Progress;
use crate::signals::stop_at_signals;

pub use show::print_places;
use show::show;

/// The clients of a run.
enum Clients {
    /// Processes started for each trial.
    Here,
    /// The workers of a distributed run.
    Workers(Box<Workers>),
}

/// Joins the distributed run, if the user requested one. Any process but the first serves as a worker and does not
/// return: it needs neither the experiment nor the folder. `transport` selects one of several addresses of the first
/// process.
fn join(args: &ExecutionArgs, transport: impl FnOnce() -> Option<Transport>) -> anyhow::Result<Clients> {
    if !args.distributed {
        return Ok(Clients::Here);
    }
    let place = launcher::membership().map_err(anyhow::Error::msg)?;
    if place.rank > 0 {
        let place = Membership { transport: transport(), ..place };
        // A launcher sends SIGINT to all processes. Only the first process acts on it, after the current trial.
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
    let continues = matches!(args.lost_worker.as_deref(), Some("continue" | "go-on"));
    let loss = if continues { LossPolicy::Continue } else { LossPolicy::EndRun };
    let mut workers = Workers::accept_all(&place, loss)?;
    workers.surrounding = Surrounding::here()?;
    let sentence = workers.sentence();
    output::note(format_args!(
        "distributed run of {} processes, started by {}: {sentence}",
        place.ranks, place.launcher
    ));
    if let Some(limits) = workers.cpu_limits() {
        output::note(report::format::visible(&limits));
    }
    Ok(Clients::Workers(Box::new(workers)))
}

/// Warns of workers that may not use the planned CPUs. All trials use the same CPUs.
fn warn_of_cpus(clients: &Clients, trials: &[Trial]) {
    if let (Clients::Workers(workers), Some(trial)) = (clients, trials.first())
        && let Some(warning) = workers.missing_planned_cpus(&trial.load.cpus)
    {
        output::warn(warning);
    }
}

fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot start servers and clients: the path of this program is unknown")
}

/// Plans `experiment` for this host.
pub fn plan_here(experiment: &Experiment) -> anyhow::Result<(Plan, Host)> {
    let host = host::detect();
    let plan = plan(experiment, &host).map_err(anyhow::Error::msg)?;
    Ok((plan, host))
}

/// Runs an experiment. In a distributed run only the first process reads it, once all workers have joined.
pub fn start(experiment: impl Fn() -> anyhow::Result<Experiment>, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    start_as(experiment, args, |plan, _| Ok((plan, Strategy::Whole))).map(|(code, _)| code)
}

/// Runs an experiment with the strategy that `course` chooses. Also returns the folder of the run.
pub fn start_as(
    experiment: impl Fn() -> anyhow::Result<Experiment>,
    args: &ExecutionArgs,
    course: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let clients = join(args, || Some(experiment().ok()?.workload.transport))?;
    let experiment = &experiment()?;
    let feasible = |plan, host: &Host| {
        let (plan, course) = course(plan, host)?;
        match plan.trials.first() {
            Some(trial) if plan.trials.iter().all(|trial| !trial.infeasible.is_empty()) => {
                bail!("no trial can run on this host:\n{}", trial.infeasible.join("\n"))
            }
            _ => Ok((plan, course)),
        }
    };
    let (folder, store, header) = begin(experiment, args.output.as_deref(), args.allow_exec, &clients, feasible)?;
    let (run, ended) = execute(&folder, store, &header, &[], args.quiet, clients, &stop_at_signals()?)?;
    Ok((show(&folder, &run, ended, args)?, folder))
}

/// Runs an experiment in `folder`, or finishes the run there, until `stop` is set. If no trial can run here, the run
/// has no trials and states the reasons.
pub fn complete(experiment: &Experiment, folder: &Path, quiet: bool, stop: &Stop) -> anyhow::Result<(Run, RunEnd)> {
    if !folder.join("run.json").exists() {
        let whole = |plan, _: &Host| Ok((plan, Strategy::Whole));
        let (folder, store, header) = begin(experiment, Some(folder), false, &Clients::Here, whole)?;
        return execute(&folder, store, &header, &[], quiet, Clients::Here, stop);
    }
    let (store, run) = Store::resume(folder)?;
    warn_of_damage(folder, &run);
    let (plan, _) = plan_here(experiment)?;
    // Reasons for infeasible trials contain figures that change over time, so do not compare them.
    let without_reasons = |trial: &Trial| Trial { infeasible: Vec::new(), ..trial.clone() };
    let trials = |trials: &[Trial]| trials.iter().map(without_reasons).collect::<Vec<_>>();
    if trials(&plan.trials) != trials(&run.header.trials) {
        bail!(
            "cannot finish the run in {}: its plan differs from the one of this version and this machine; try another \
             folder with --output",
            folder.display()
        );
    }
    warn_of_differences(&run.header);
    // A trial may have become feasible, for example with a raised limit or free memory.
    let mut header = run.header.clone();
    for (trial, planned) in header.trials.iter_mut().zip(plan.trials) {
        if !run.records.iter().any(|record| record.trial.index == trial.index) {
            trial.infeasible = planned.infeasible;
        }
    }
    if header.trials != run.header.trials {
        store.replace_header(&header)?;
    }
    execute(folder, store, &header, &run.records, quiet, Clients::Here, stop)
}

/// Returns the folder, with a number if a run of the same second uses it.
fn unused(folder: &Path) -> PathBuf {
    let numbered = |number: u32| PathBuf::from(format!("{}-{number}", folder.display()));
    let candidates = std::iter::once(folder.to_owned()).chain((2..).map(numbered));
    candidates.into_iter().find(|candidate| !candidate.exists()).unwrap_or_else(|| folder.to_owned())
}

/// Warns of damaged trials of a stored run.
pub fn warn_of_damage(folder: &Path, run: &Run) {
    for damage in &run.damage {
        output::warn(format_args!("{}: {damage}", folder.display()));
    }
}

/// Warns of changes of this host since the run began.
fn warn_of_differences(header: &RunHeader) {
    for (fact, before, now) in differences(&header.host, &host::detect().facts) {
        if fact != "network" || !header.is_fleet_s {
            output::warn(format_args!("this host has changed since the run began: {fact}: {before}, now {now}"));
        }
    }
}

/// Plans an experiment and creates its store.
fn begin(
    experiment: &Experiment,
    output: Option<&Path>,
    allow_exec: bool,
    clients: &Clients,
    course: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
) -> anyhow::Result<(PathBuf, Store, RunHeader)> {
    experiment.check().map_err(anyhow::Error::msg)?;
    let mut experiment = experiment.clone();
    let mut host = host::detect();
    if let Clients::Workers(workers) = clients {
        experiment.client.processes = NonZeroU32::new(workers.count());
        if experiment.network.is_none() {
            experiment.network = workers.facts().lab.map(|(network, _)| network);
        }
        host.fleet = Some(workers.facts());
        experiment.check().map_err(anyhow::Error::msg)?;
    }
    let mut plan = plan(&experiment, &host).map_err(anyhow::Error::msg)?;
    if let Clients::Workers(workers) = clients {
        plan.placement = format!("{}; {}", plan.placement, workers.sentence());
        host.facts.insert("network".into(), workers.network());
    }
    let (plan, course) = course(plan, &host)?;
    for warning in &plan.warnings {
        output::warn(report::format::visible(warning));
    }
    warn_of_cpus(clients, &plan.trials);
    allow_commands(&plan.trials, allow_exec)?;
    let time = now();
    let name = format!("{}-{}", time.replace([':', '-'], "").trim_end_matches('Z'), plan.experiment);
    let folder = output.map_or_else(|| unused(&Path::new("results").join(&name)), Path::to_owned);
    let header = RunHeader {
        name: folder.file_name().map_or(name, |name| name.to_string_lossy().into_owned()),
        muxbench: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        started_at: time,
        experiment: plan.experiment,
        seed: plan.seed,
        trials: plan.trials,
        strategy: course,
        host: host.facts,
        placement: plan.placement,
        is_fleet_s: matches!(clients, Clients::Workers(_)),
    };
    let store = Store::create(&folder, &header)?;
    Ok((folder, store, header))
}

/// Finishes an interrupted run.
pub fn resume(args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    resume_with(args, || Ok(()), |_| Ok(())).map(|(code, _)| code)
}

/// Finishes an interrupted run after `check` has passed and `change` has adapted its header. Also returns the folder
/// of the run.
pub fn resume_with(
    args: &ExecutionArgs,
    check: impl FnOnce() -> anyhow::Result<()>,
    change: impl FnOnce(&mut RunHeader) -> anyhow::Result<()>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let clients = join(args, || transport_of(&folder_to_resume(args).ok()?))?;
    check()?;
    let folder = folder_to_resume(args)?;
    let (store, mut run) = Store::resume(&folder)?;
    warn_of_damage(&folder, &run);
    let course = run.header.strategy.clone();
    change(&mut run.header).with_context(|| format!("cannot resume {}", folder.display()))?;
    if run.header.strategy != course {
        store.replace_header(&run.header)?;
    }
    Ok((finish(&folder, store, &run, args, clients)?, folder))
}

/// Returns the folder that `--resume` names, or the folder of the newest run.
fn folder_to_resume(args: &ExecutionArgs) -> anyhow::Result<PathBuf> {
    match args.resume.clone().flatten() {
        Some(folder) => Ok(folder),
        None => store::latest(Path::new("results")),
    }
}

/// Returns the transport of a stored run; `None` if this host does not have the run, for example a worker's host.
fn transport_of(folder: &Path) -> Option<Transport> {
    store::header(folder).ok()?.trials.first().map(|trial| trial.workload.transport)
}

/// Runs the missing trials of a stored run.
fn finish(folder: &Path, store: Store, run: &Run, args: &ExecutionArgs, clients: Clients) -> anyhow::Result<ExitCode> {
    check_clients(run, &clients).with_context(|| format!("cannot resume {}", folder.display()))?;
    if args.explain && matches!(run.header.strategy, Strategy::Capacity(_)) {
        bail!("--explain: the probes of a search differ in rate and cannot be compared; omit it");
    }
    allow_commands(&run.header.trials, args.allow_exec)?;
    // Check now: without the counts each trial would fail, and failed trials are not repeated.
    if run.header.trials.iter().any(|trial| trial.serve.ours().is_some_and(|serve| serve.count_syscalls)) {
        server::metrics::tracepoints::can_count().map_err(|reason| anyhow!("server.count-syscalls: {reason}"))?;
    }
    warn_of_differences(&run.header);
    warn_of_cpus(&clients, &run.header.trials);
    let (run, ended) = execute(folder, store, &run.header, &run.records, args.quiet, clients, &stop_at_signals()?)?;
    show(folder, &run, ended, args)
}

/// Checks that a run can continue with these clients. All trials of a run share a network and a number of clients.
fn check_clients(run: &Run, clients: &Clients) -> anyhow::Result<()> {
    let trial = run.header.trials.first();
    let planned = trial.map_or(1, |trial| trial.load.processes);
    let reasons = match clients {
        Clients::Workers(workers) if workers.count() != planned => bail!(
            "the run has {planned} workers, and this distributed run has {}; start {} processes",
            workers.count(),
            planned + 1
        ),
        Clients::Workers(_) if !run.header.is_fleet_s => bail!("the run is not distributed; omit --distributed"),
        Clients::Here if run.header.is_fleet_s => {
            bail!("the run is distributed; try --distributed with {} processes", planned + 1)
        }
        Clients::Workers(workers) => {
            trial.map(|trial| harness::plan::infeasible_for_workers(trial, &workers.facts())).unwrap_or_default()
        }
        Clients::Here => trial
            .and_then(|trial| trial.workload.network.as_ref())
            .and_then(|network| conditions::choose(network, &Found::here()).err())
            .unwrap_or_default(),
    };
    if !reasons.is_empty() {
        bail!("this host does not meet its needs:\n{}", reasons.join("\n"));
    }
    Ok(())
}

/// Shows the commands that an experiment starts, and rejects them unless `allowed`, because they may do anything.
fn allow_commands(trials: &[Trial], allowed: bool) -> anyhow::Result<()> {
    let commands = harness::model::commands(trials).join("\n  ");
    if commands.is_empty() {
        return Ok(());
    }
    if !allowed {
        bail!("this experiment starts commands on this machine:\n  {commands}\nadd --allow-exec if you trust them");
    }
    output::note(format_args!("starting these commands:\n  {commands}"));
    Ok(())
}

/// Returns the current time in UTC to the second, as in RFC 3339.
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// Runs all trials without a record, and returns the run as stored.
fn execute(
    folder: &Path,
    store: Store,
    header: &RunHeader,
    done: &[TrialRecord],
    quiet: bool,
    clients: Clients,
    stop: &Stop,
) -> anyhow::Result<(Run, RunEnd)> {
    let findings: Vec<TrialOutcome> = done.iter().map(|record| TrialOutcome::new(record, &header.strategy)).collect();
    let mut progress = (!quiet).then(|| match &header.strategy {
        Strategy::Capacity(question) => Progress::for_search(question, &findings),
        Strategy::Whole | Strategy::Sweep { .. } => Progress::new(&strategy::ahead(header, &findings)),
    });
    let launch = Muxbench { program: program()? };
    let options = runner::Options { launch: &launch, stop };
    let mut fleet: Box<dyn Fleet> = match clients {
        Clients::Here => Box::new(Local::new(launch.program.clone())),
        Clients::Workers(workers) => workers,
    };
    let ended = runner::run(header, done, &store, &options, &mut *fleet, &mut |event| {
        if let Some(progress) = &mut progress {
            progress.on(&event);
        }
    });
    if let Some(progress) = progress {
        progress.end();
    }
    let ended = ended.with_context(|| {
        let folder = folder.display();
        format!(
            "the run failed; finished trials are saved. Correct the cause, then try `muxbench run --resume {folder}`"
        )
    })?;
    drop(store);
    Ok((store::read(folder)?, ended))
}
