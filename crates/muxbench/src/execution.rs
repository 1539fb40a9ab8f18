//! A plan becomes a run, is stored as it goes, and is shown: what `compare` and `run` share.

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
use harness::model::{Run, RunHeader, Trial, TrialRecord};
use harness::model::{Strategy, TrialOutcome};
use harness::netns::conditions::{self, Found};
use harness::netns::surrounding::Surrounding;
use harness::plan::{Plan, plan};
use harness::process::stop::Stop;
use harness::spec::Experiment;
use harness::spec::transport::Transport;
use harness::spec::units::Time;
use harness::store::{self, Store};
use harness::strategy;
use signal_hook::consts::SIGINT;

use crate::options::execution::ExecutionArgs;
use crate::output;
use crate::progress::Progress;
use crate::signals::stop_at_signals;

use show::show;

/// Who the clients of a run are.
enum Clients {
    /// Processes that are started for each trial.
    Here,
    /// The other workers of a distributed run.
    Workers(Box<Workers>),
}

/// Becomes a rank, if that is asked for; where the first can be reached in more than one way, as requests are to go, if this one
/// can know. One that is not the first does what it is told until all is over, and ends: it needs nothing that the first does,
/// neither the experiment nor a folder.
///
/// # Errors
/// When the ranks do not meet.
fn join(args: &ExecutionArgs, transport: impl FnOnce() -> Option<Transport>) -> anyhow::Result<Clients> {
    if !args.distributed {
        return Ok(Clients::Here);
    }
    let place = launcher::membership().map_err(anyhow::Error::msg)?;
    if place.rank > 0 {
        let place = Membership { transport: transport(), ..place };
        // An engine passes an interrupt on to all ranks, and it is the first that ends the run, after the trial that runs.
        signal_hook::flag::register(SIGINT, Arc::default()).context("cannot listen to signals")?;
        worker::run(&place, &program()?)?;
        std::process::exit(0);
    }
    if let Some(weakness) = place.weakness {
        output::tell(format_args!(
            "muxbench: warning: {weakness}: on a network with others, set MUXBENCH_SECRET to the same random text in all ranks \
             (32 characters, such as `openssl rand -hex 16` prints)"
        ));
    }
    let is_continued = matches!(args.lost_worker.as_deref(), Some("continue" | "go-on"));
    let loss = if is_continued { LossPolicy::Continue } else { LossPolicy::EndRun };
    let ranks = Workers::accept_all(&place, loss)?.within(Surrounding::here()?);
    output::tell(format_args!(
        "muxbench: a fleet of {}, started by {}: {}",
        place.ranks,
        place.launcher,
        ranks.sentence()
    ));
    if let Some(words) = ranks.cpu_limits() {
        output::tell(format_args!("muxbench: {}", report::format::visible(&words)));
    }
    Ok(Clients::Workers(Box::new(ranks)))
}

/// Says which ranks may not use the CPUs that trials, which all have the same, have for clients.
fn tell_cpus(clients: &Clients, trials: &[Trial]) {
    if let (Clients::Workers(ranks), Some(trial)) = (clients, trials.first())
        && let Some(words) = ranks.missing_planned_cpus(&trial.load.cpus)
    {
        output::tell(format_args!("muxbench: beware: {words}"));
    }
}

fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find our own binary, which servers and clients are run from")
}

/// Plans `experiment` for this host.
///
/// # Errors
/// When it cannot be placed here.
pub fn plan_here(experiment: &Experiment) -> anyhow::Result<(Plan, Host)> {
    let host = host::detect();
    let plan = plan(experiment, &host).map_err(anyhow::Error::msg)?;
    Ok((plan, host))
}

/// Runs an experiment from the beginning. Of a fleet the first rank alone needs it: once all are there it is read.
///
/// # Errors
/// When it cannot be read, nothing of it can be run here, or it cannot be stored.
pub fn start(experiment: impl Fn() -> anyhow::Result<Experiment>, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    start_as(experiment, args, |plan, _| Ok((plan, Strategy::Whole))).map(|(code, _)| code)
}

/// Runs an experiment, in what order and how far is for `course` to say, from the beginning. The folder of the run too.
///
/// # Errors
/// As [`start`].
pub fn start_as(
    experiment: impl Fn() -> anyhow::Result<Experiment>,
    args: &ExecutionArgs,
    course: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Strategy)>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let clients = join(args, || Some(experiment().ok()?.workload.transport))?;
    let experiment = &experiment()?;
    let course = |plan, host: &Host| {
        let (plan, course) = course(plan, host)?;
        let all_impossible = plan.trials.iter().all(|trial| !trial.infeasible.is_empty());
        match plan.trials.first().filter(|_| all_impossible) {
            Some(trial) => bail!("nothing of this can be run here:\n{}", trial.infeasible.join("\n")),
            None => Ok((plan, course)),
        }
    };
    let (folder, store, header) = begin(experiment, args.output.as_deref(), args.allow_exec, &clients, course)?;
    let (run, ended) = execute(&folder, store, &header, &[], args.quiet, clients, &stop_at_signals()?)?;
    Ok((show(&folder, &run, ended, args)?, folder))
}

/// Runs an experiment in `folder`, or what an earlier call left of it, until `stop` is set. One of which nothing can be run here
/// is a run without trials, which says why.
///
/// # Errors
/// When it cannot be stored, or another process is at it.
pub fn complete(experiment: &Experiment, folder: &Path, quiet: bool, stop: &Stop) -> anyhow::Result<(Run, RunEnd)> {
    if !folder.join("run.json").exists() {
        let whole = |plan, _: &Host| Ok((plan, Strategy::Whole));
        let (folder, store, header) = begin(experiment, Some(folder), false, &Clients::Here, whole)?;
        return execute(&folder, store, &header, &[], quiet, Clients::Here, stop);
    }
    let (store, run) = Store::resume(folder)?;
    tell_damage(folder, &run);
    let (plan, _) = plan_here(experiment)?;
    // Why some cannot be run may differ: it has numbers of this moment in it.
    let alike = |(a, b): (&Trial, &Trial)| {
        Trial { infeasible: Vec::new(), ..a.clone() } == Trial { infeasible: Vec::new(), ..b.clone() }
    };
    if plan.trials.len() != run.header.trials.len() || !plan.trials.iter().zip(&run.header.trials).all(alike) {
        bail!(
            "{}: what was begun there is not what would be run now, by this version on this machine; name another folder \
             with --output",
            folder.display()
        );
    }
    tell_differences(&run.header);
    // What could not be run then may be possible now: a limit was raised, memory is free.
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

/// The folder, or where another run began in the same second, it with a number.
fn unused(folder: &Path) -> PathBuf {
    let numbered = |number: u32| PathBuf::from(format!("{}-{number}", folder.display()));
    let candidates = std::iter::once(folder.to_owned()).chain((2..).map(numbered));
    candidates.into_iter().find(|candidate| !candidate.exists()).unwrap_or_else(|| folder.to_owned())
}

/// Says what is damaged of a run.
pub fn tell_damage(folder: &Path, run: &Run) {
    for what in &run.damage {
        output::tell(format_args!("muxbench: {}: {what}", folder.display()));
    }
}

/// Says in what this host is not as it was when a run began.
fn tell_differences(header: &RunHeader) {
    for (fact, before, now) in differences(&header.host, &host::detect().facts) {
        if fact == "network" && header.is_fleet_s {
            continue;
        }
        output::tell(format_args!(
            "muxbench: this host differs from that of the run's beginning: {fact}: {before}, now {now}"
        ));
    }
}

/// Plans an experiment and makes its store.
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
    if let Clients::Workers(ranks) = clients {
        experiment.client.processes = NonZeroU32::new(ranks.count());
        if experiment.network.is_none() {
            experiment.network = ranks.facts().lab.map(|(network, _)| network);
        }
        host.fleet = Some(ranks.facts());
        experiment.check().map_err(anyhow::Error::msg)?;
    }
    let mut plan = plan(&experiment, &host).map_err(anyhow::Error::msg)?;
    if let Clients::Workers(ranks) = clients {
        plan.placement = format!("{}; {}", plan.placement, ranks.sentence());
        host.facts.insert("network".into(), ranks.network());
    }
    let (plan, course) = course(plan, &host)?;
    for warning in &plan.warnings {
        output::tell(format_args!("muxbench: beware: {}", report::format::visible(warning)));
    }
    tell_cpus(clients, &plan.trials);
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

/// Finishes a stopped run.
///
/// # Errors
/// When there is none, or another process is at it.
pub fn resume(args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    resume_after(args, || Ok(())).map(|(code, _)| code)
}

/// The same, once it is known that what comes after can be done. The folder of the run too.
///
/// # Errors
/// As [`resume`].
pub fn resume_after(
    args: &ExecutionArgs,
    check: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let clients = join(args, || transport_of(&folder_to_resume(args).ok()?))?;
    check()?;
    let folder = folder_to_resume(args)?;
    let (store, run) = Store::resume(&folder)?;
    tell_damage(&folder, &run);
    Ok((go_on(&folder, store, &run, args, clients)?, folder))
}

/// Gives a stopped search so much time in all, which changes none of its earlier probes, and finishes it.
///
/// # Errors
/// As [`resume`]; and when the run is no search.
pub fn resume_search(args: &ExecutionArgs, time_max: Time) -> anyhow::Result<ExitCode> {
    let clients = join(args, || transport_of(&folder_to_resume(args).ok()?))?;
    let folder = folder_to_resume(args)?;
    let (store, mut run) = Store::resume(&folder)?;
    tell_damage(&folder, &run);
    let Strategy::Capacity(question) = &mut run.header.strategy else {
        bail!("{}: that run is no search, which --time-max is of; leave it out", folder.display())
    };
    if question.time_max_ns != time_max.0 {
        question.time_max_ns = time_max.0;
        store.replace_header(&run.header)?;
    }
    go_on(&folder, store, &run, args, clients)
}

/// The folder of the run that is to be finished.
///
/// # Errors
/// When none is named, and there is none.
fn folder_to_resume(args: &ExecutionArgs) -> anyhow::Result<PathBuf> {
    match args.resume.clone().flatten() {
        Some(folder) => Ok(folder),
        None => store::latest(Path::new("results")),
    }
}

/// How the requests of the run in a folder go; of a rank's host that does not have it, nothing is known.
fn transport_of(folder: &Path) -> Option<Transport> {
    store::header(folder).ok()?.trials.first().map(|trial| trial.workload.transport)
}

fn go_on(folder: &Path, store: Store, run: &Run, args: &ExecutionArgs, clients: Clients) -> anyhow::Result<ExitCode> {
    let planned = run.header.trials.first().map_or(1, |trial| trial.load.processes);
    if let Clients::Workers(ranks) = &clients
        && ranks.count() != planned
    {
        bail!(
            "{}: that run is of {planned} clients, and of this fleet's ranks {} are; start {} ranks",
            folder.display(),
            ranks.count(),
            planned + 1
        );
    }
    if matches!(clients, Clients::Here) && run.header.is_fleet_s {
        bail!("{}: that run is a fleet's; go on with --fleet, and with as many ranks as there were", folder.display());
    }
    if matches!(clients, Clients::Workers(_)) && !run.header.is_fleet_s {
        bail!("{}: that run's clients were on this host; go on without --fleet", folder.display());
    }
    if args.explain && matches!(run.header.strategy, Strategy::Capacity(_)) {
        bail!("--explain is of trials at one rate, and each probe of this search has its own; leave it out");
    }
    allow_commands(&run.header.trials, args.allow_exec)?;
    // A trial that fails is not run again.
    if run.header.trials.iter().any(|trial| trial.serve.ours().is_some_and(|serve| serve.count_syscalls)) {
        server::metrics::tracepoints::can_count().map_err(|reason| anyhow!("server.count-syscalls: {reason}"))?;
    }
    // All have the same.
    if let Some(trial) = run.header.trials.first() {
        let mut reasons = match &clients {
            Clients::Here => Vec::new(),
            Clients::Workers(ranks) => harness::plan::infeasible_for_ranks(trial, &ranks.facts()),
        };
        if let (Some(network), Clients::Here) = (&trial.workload.network, &clients) {
            reasons.extend(conditions::choose(network, &Found::here()).err().unwrap_or_default());
        }
        if !reasons.is_empty() {
            bail!("{}: this cannot be gone on with here:\n{}", folder.display(), reasons.join("\n"));
        }
    }
    tell_differences(&run.header);
    tell_cpus(&clients, &run.header.trials);
    let (run, ended) = execute(folder, store, &run.header, &run.records, args.quiet, clients, &stop_at_signals()?)?;
    show(folder, &run, ended, args)
}

/// Shows the commands that an experiment names, which anything may be, before any of them is started.
///
/// # Errors
/// When they are not allowed: what would be run, and by which flag.
fn allow_commands(trials: &[Trial], allowed: bool) -> anyhow::Result<()> {
    let commands = harness::model::commands(trials);
    if commands.is_empty() {
        return Ok(());
    }
    let shown = commands.join("\n  ");
    if !allowed {
        bail!("this experiment starts commands on this machine:\n  {shown}\nadd --allow-exec if you trust them");
    }
    output::tell(format_args!("muxbench: these commands will be started:\n  {shown}"));
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
    done: &[TrialRecord],
    quiet: bool,
    clients: Clients,
    stop: &Stop,
) -> anyhow::Result<(Run, RunEnd)> {
    let outcomes: Vec<TrialOutcome> = done.iter().map(|record| TrialOutcome::new(record, &header.strategy)).collect();
    let mut progress = (!quiet).then(|| match &header.strategy {
        Strategy::Capacity(question) => Progress::of_search(question, &outcomes),
        Strategy::Whole | Strategy::Sweep { .. } => Progress::new(&strategy::ahead(header, &outcomes)),
    });
    let launch = Muxbench { program: program()? };
    let options = runner::Options { launch: &launch, stop };
    let mut fleet: Box<dyn Fleet> = match clients {
        Clients::Here => Box::new(Local::new(launch.program.clone())),
        Clients::Workers(ranks) => ranks,
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
        format!("the run ends early; what is finished is kept. Finish it with `muxbench run --resume {folder}`, once this is mended")
    })?;
    drop(store);
    Ok((store::read(folder)?, ended))
}
