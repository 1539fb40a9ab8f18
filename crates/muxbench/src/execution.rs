//! A plan becomes a run, is stored as it goes, and is shown: what `compare` and `run` share.

use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow, bail};
use harness::capacity::{Answer, Pursuit};
use harness::course::{self, Course, Finding};
use harness::experiment::Experiment;
use harness::fleet::engine::Place;
use harness::fleet::local::Local;
use harness::fleet::ranks::{Loss, Ranks};
use harness::fleet::{Fleet, engine, rank};
use harness::host::{Host, differences};
use harness::network::conditions::{self, Found};
use harness::network::surrounding::Surrounding;
use harness::plan::{Plan, plan};
use harness::record::{Run, RunHeader, Trial, TrialRecord, VerdictKind};
use harness::runner::{self, Ended};
use harness::stop::{Stop, ends_at_hangup};
use harness::store::{self, Store};
use harness::transport::Transport;
use harness::units::Time;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output;
use crate::progress::Progress;

/// No trial is valid: the run is done, and its figures are not to be believed.
pub const NO_VALID_TRIAL: u8 = 3;
/// Stopped by a signal, as shells have it.
pub const STOPPED: u8 = 130;
/// What the first Ctrl-C is answered.
const FINISHING: &str = "muxbench: the trial that runs is finished first; once more stops at once\n";

/// Flags of commands that run something.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Finish a stopped run: its folder, or the newest one; what it is of is taken from there, and no flag may say it again
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Start the commands that the experiment's `exec` tables name; without it they are only shown
    #[arg(long)]
    allow_exec: bool,
    /// Exit with 3 unless every trial is valid; of a sweep, valid or past saturation; of a search, every capacity precise
    #[arg(long)]
    strict: bool,
    /// Be a rank of a job that srun, mpirun or Kubernetes started: the first runs the servers and keeps the results, the
    /// others are the clients, and divide connections and rate among themselves
    #[arg(long, help_heading = "Fleet")]
    fleet: bool,
    /// When a rank is lost, the trial fails. Then the run ends, or goes on with the others: end, go-on [default: end]
    #[arg(long, value_name = "WHAT", value_parser = ["end", "go-on"], requires = "fleet", help_heading = "Fleet")]
    lost_rank: Option<String>,
    /// Say why: system calls, events, switches and CPU a request, and what sets each architecture apart from the best
    #[arg(long)]
    explain: bool,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

impl ExecutionArgs {
    /// Whether an earlier run is to be finished instead of making a new one.
    pub fn is_resume(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether it is to be said why.
    pub fn explains(&self) -> bool {
        self.explain
    }
}

/// Who the clients of a run are.
enum Clients {
    /// Processes that are started for each trial.
    Here,
    /// Ranks of a job.
    Ranks(Box<Ranks>),
}

/// Becomes a rank, if that is asked for; where the first can be reached in more than one way, as requests are to go, if this one
/// can know. One that is not the first does what it is told until all is over, and ends: it needs nothing that the first does,
/// neither the experiment nor a folder.
///
/// # Errors
/// When the ranks do not meet.
fn join(args: &ExecutionArgs, transport: impl FnOnce() -> Option<Transport>) -> anyhow::Result<Clients> {
    if !args.fleet {
        return Ok(Clients::Here);
    }
    let place = engine::place().map_err(anyhow::Error::msg)?;
    if place.rank > 0 {
        let place = Place { transport: transport(), ..place };
        // An engine passes an interrupt on to all ranks, and it is the first that ends the run, after the trial that runs.
        signal_hook::flag::register(SIGINT, Arc::default()).context("cannot listen to signals")?;
        rank::follow(&place, &program()?)?;
        std::process::exit(0);
    }
    if let Some(weakness) = place.weakness {
        output::tell(format_args!(
            "muxbench: warning: {weakness}: on a network with others, set MUXBENCH_SECRET to the same random text in all ranks \
             (32 characters, such as `openssl rand -hex 16` prints)"
        ));
    }
    let loss = if args.lost_rank.as_deref() == Some("go-on") { Loss::GoOn } else { Loss::End };
    let ranks = Ranks::meet(&place, loss)?.within(Surrounding::here()?);
    output::tell(format_args!(
        "muxbench: a fleet of {}, started by {}: {}",
        place.ranks,
        place.engine,
        ranks.sentence()
    ));
    if let Some(words) = ranks.kept_to_cpus() {
        output::tell(format_args!("muxbench: {}", report::format::visible(&words)));
    }
    Ok(Clients::Ranks(Box::new(ranks)))
}

/// Says which ranks may not use the CPUs that trials, which all have the same, have for clients.
fn tell_cpus(clients: &Clients, trials: &[Trial]) {
    if let (Clients::Ranks(ranks), Some(trial)) = (clients, trials.first())
        && let Some(words) = ranks.without_planned_cpus(&trial.load.cpus)
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
    let host = Host::this();
    let plan = plan(experiment, &host).map_err(anyhow::Error::msg)?;
    Ok((plan, host))
}

/// Runs an experiment from the beginning. Of a fleet the first rank alone needs it: once all are there it is read.
///
/// # Errors
/// When it cannot be read, nothing of it can be run here, or it cannot be stored.
pub fn start(experiment: impl Fn() -> anyhow::Result<Experiment>, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    start_as(experiment, args, |plan, _| Ok((plan, Course::Whole))).map(|(code, _)| code)
}

/// Runs an experiment, in what order and how far is for `course` to say, from the beginning. The folder of the run too.
///
/// # Errors
/// As [`start`].
pub fn start_as(
    experiment: impl Fn() -> anyhow::Result<Experiment>,
    args: &ExecutionArgs,
    course: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Course)>,
) -> anyhow::Result<(ExitCode, PathBuf)> {
    let clients = join(args, || Some(experiment().ok()?.workload.transport))?;
    let experiment = &experiment()?;
    let course = |plan, host: &Host| {
        let (plan, course) = course(plan, host)?;
        let all_impossible = plan.trials.iter().all(|trial| !trial.impossible.is_empty());
        match plan.trials.first().filter(|_| all_impossible) {
            Some(trial) => bail!("nothing of this can be run here:\n{}", trial.impossible.join("\n")),
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
pub fn complete(experiment: &Experiment, folder: &Path, quiet: bool, stop: &Stop) -> anyhow::Result<(Run, Ended)> {
    if !folder.join("run.json").exists() {
        let whole = |plan, _: &Host| Ok((plan, Course::Whole));
        let (folder, store, header) = begin(experiment, Some(folder), false, &Clients::Here, whole)?;
        return execute(&folder, store, &header, &[], quiet, Clients::Here, stop);
    }
    let (store, run) = Store::resume(folder)?;
    tell_damage(folder, &run);
    let (plan, _) = plan_here(experiment)?;
    // Why some cannot be run may differ: it has numbers of this moment in it.
    let alike = |(a, b): (&Trial, &Trial)| {
        Trial { impossible: Vec::new(), ..a.clone() } == Trial { impossible: Vec::new(), ..b.clone() }
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
            trial.impossible = planned.impossible;
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
    for (fact, before, now) in differences(&header.host, &Host::this().facts) {
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
    course: impl FnOnce(Plan, &Host) -> anyhow::Result<(Plan, Course)>,
) -> anyhow::Result<(PathBuf, Store, RunHeader)> {
    experiment.check().map_err(anyhow::Error::msg)?;
    let mut experiment = experiment.clone();
    let mut host = Host::this();
    if let Clients::Ranks(ranks) = clients {
        experiment.client.processes = NonZeroU32::new(ranks.count());
        if experiment.network.is_none() {
            experiment.network = ranks.facts().lab.map(|(network, _)| network);
        }
        host.fleet = Some(ranks.facts());
        experiment.check().map_err(anyhow::Error::msg)?;
    }
    let mut plan = plan(&experiment, &host).map_err(anyhow::Error::msg)?;
    if let Clients::Ranks(ranks) = clients {
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
        course,
        host: host.facts,
        placement: plan.placement,
        is_fleet_s: matches!(clients, Clients::Ranks(_)),
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
    let Course::Capacity(question) = &mut run.header.course else {
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
    if let Clients::Ranks(ranks) = &clients
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
    if matches!(clients, Clients::Ranks(_)) && !run.header.is_fleet_s {
        bail!("{}: that run's clients were on this host; go on without --fleet", folder.display());
    }
    if args.explain && matches!(run.header.course, Course::Capacity(_)) {
        bail!("--explain is of trials at one rate, and each probe of this search has its own; leave it out");
    }
    allow_commands(&run.header.trials, args.allow_exec)?;
    // A trial that fails is not run again.
    if run.header.trials.iter().any(|trial| trial.serve.ours().is_some_and(|serve| serve.count_syscalls)) {
        server::tracepoints::can_count().map_err(|reason| anyhow!("server.count-syscalls: {reason}"))?;
    }
    // All have the same.
    if let Some(trial) = run.header.trials.first() {
        let mut reasons = match &clients {
            Clients::Here => Vec::new(),
            Clients::Ranks(ranks) => harness::plan::impossible_for_ranks(trial, &ranks.facts()),
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
    let commands = harness::contender::commands(trials);
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

/// What signals set, from now on: SIGINT has the trial that runs finished first, once more, SIGTERM or a hang-up stops at once.
///
/// # Errors
/// When signals cannot be listened to.
pub fn stop_at_signals() -> anyhow::Result<Stop> {
    const CANNOT: &str = "cannot listen to signals";
    let stop = Stop::default();
    // At once, so that whoever looks next sees it.
    signal_hook::flag::register(SIGINT, stop.asked.clone()).context(CANNOT)?;
    signal_hook::flag::register(SIGTERM, stop.now.clone()).context(CANNOT)?;
    if ends_at_hangup() {
        signal_hook::flag::register(SIGHUP, stop.now.clone()).context(CANNOT)?;
    }
    let mut interrupts = Signals::new([SIGINT]).context(CANNOT)?;
    let heard = stop.clone();
    let listen = move || {
        let mut heard_before = false;
        for _ in interrupts.forever() {
            if heard_before {
                heard.ask_now();
            } else {
                // Whoever closed standard error is not told.
                let _ = anstream::stderr().write_all(FINISHING.as_bytes());
            }
            heard_before = true;
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).context(CANNOT)?;
    Ok(stop)
}

fn execute(
    folder: &Path,
    store: Store,
    header: &RunHeader,
    done: &[TrialRecord],
    quiet: bool,
    clients: Clients,
    stop: &Stop,
) -> anyhow::Result<(Run, Ended)> {
    let findings: Vec<Finding> = done.iter().map(|record| Finding::of(record, &header.course)).collect();
    let mut progress = (!quiet).then(|| match &header.course {
        Course::Capacity(question) => Progress::of_search(question, &findings),
        Course::Whole | Course::Sweep { .. } => Progress::new(&course::ahead(header, &findings)),
    });
    let options = runner::Options { program: program()?, stop };
    let mut fleet: Box<dyn Fleet> = match clients {
        Clients::Here => Box::new(Local::new(options.program.clone())),
        Clients::Ranks(ranks) => ranks,
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

fn show(folder: &Path, run: &Run, ended: Ended, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        output::print_json(&report::json::of(run))?;
    } else {
        let medium = output::medium(args.markdown);
        output::print(&report::render(run, medium))?;
        if args.explain {
            output::print(&format!("\n{}", report::explain::render(&report::Summary::of(run), medium)))?;
        }
        let place = folder.display();
        let page = match run.header.course {
            // A page is of trials at given rates.
            Course::Capacity(_) => String::new(),
            Course::Whole | Course::Sweep { .. } => {
                format!(" (as a page with figures: muxbench report {place} --html)")
            }
        };
        // What is not to be pasted is said beside it.
        let say = |text: &str| match args.markdown {
            true => {
                output::tell(text.trim_end());
                Ok(())
            }
            false => output::print(text),
        };
        say(&format!("Results: {place}{page}\n"))?;
        if let Some(paper) = report::paper::of_experiment(&run.header.experiment) {
            let (folder, name) = (folder.display(), paper.name);
            say(&format!("Beside the paper: muxbench report {folder} --paper {name}\n"))?;
        }
    }
    if ended == Ended::Stopped {
        let fleet = if run.header.is_fleet_s { " --fleet" } else { "" };
        return Ok(stopped(&format!("muxbench run{fleet} --resume {}", folder.display())));
    }
    if ended == Ended::Broken {
        let folder = folder.display();
        output::tell(format_args!(
            "muxbench: a rank is lost, and the run ends; what is finished is kept. Finish it, with as many ranks as there \
             were: muxbench run --fleet --resume {folder}; with --lost-rank go-on a run goes on without"
        ));
        return Ok(ExitCode::from(NO_VALID_TRIAL));
    }
    Ok(if is_believable(run, args.strict) { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) })
}

/// Whether there is a figure to be believed; with `strict`, whether all are. That a sweep's last steps are past saturation is
/// what it looks for. A capacity is one only if the server bounds it.
fn is_believable(run: &Run, strict: bool) -> bool {
    let valid = |record: &&TrialRecord| record.verdict.kind == VerdictKind::Valid;
    let findings = || run.records.iter().map(|record| Finding::of(record, &run.header.course)).collect::<Vec<_>>();
    let count = run.records.iter().filter(valid).count();
    match &run.header.course {
        Course::Whole => count >= if strict { run.header.trials.len() } else { 1 },
        Course::Sweep { .. } if strict => {
            let past = run.records.iter().filter(|record| record.verdict.kind == VerdictKind::Saturated).count();
            count > 0 && count + past + course::left_out(&run.header, &findings()).len() == run.header.trials.len()
        }
        Course::Sweep { .. } => count >= 1,
        Course::Capacity(question) => {
            let pursuits = harness::capacity::pursuits(&run.header, question, &findings());
            let is_found = |it: &Pursuit<'_>| matches!(it.answer(), Some(Answer::Server { .. }));
            let is_precise = |it: &Pursuit<'_>| is_found(it) && it.ended == Some(harness::capacity::Ended::Precise);
            if strict { pursuits.iter().all(is_precise) } else { pursuits.iter().any(|it| it.answer().is_some()) }
        }
    }
}

/// What a command that a signal stopped says and ends with.
pub fn stopped(how_to_finish: &str) -> ExitCode {
    output::tell(format_args!("muxbench: stopped; what is finished is kept. Finish it with: {how_to_finish}"));
    ExitCode::from(STOPPED)
}
