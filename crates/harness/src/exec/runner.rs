//! Plan → run: one trial after the other, each with a fresh server and a fresh client, each committed as it ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use load::idle::IdleReport;
use load::report::PARTS;
use load::{LoadConfig, LoadReport};
use server::control::Event as ServerEvent;
use server::mechanism::Spins;
use server::model::PerConnection;
use server::{Moved, ServerCounters, Snapshot, Subject};
use wire::stream::Direction;
use wire::{Address, Ports};

use crate::course::{self, Finding};
use crate::exec::idle::Holders;
use crate::fleet::{self, Fleet};
use crate::interrupts::{self, Accounting};
use crate::model::network::NetworkReport;
use crate::model::order::LoadOrder;
use crate::netns::Testbed;
use crate::placement;
use crate::process::child::Child;
use crate::process::stop::{LOOK, Stop};
use crate::record::{RunHeader, Trial, TrialRecord, Verdict};
use crate::samples::Unwritten;
use crate::store::Store;
use crate::stream;
use crate::ticks::{Reading, Shares};
use crate::transport::{SocketFolder, Transport};
use crate::verdict::{self, ServerSide};

/// The server is marked this long before the window begins, so that marking does not fall into it...
const MARK_LEAD_NS: u64 = 200_000_000;
/// ...and so much longer for each connection, which may be a process to ask: seen to take 20 to 40 µs.
const MARK_LEAD_NS_PER_CONNECTION: u64 = 50_000;
/// What a server may take to start, and to answer a mark: ten thousand processes are asked for theirs.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);
/// When a server dies, its client may tell so first.
const BLAME_PATIENCE: Duration = Duration::from_secs(3);

/// What a runner needs besides the plan.
#[derive(Debug)]
pub struct Options<'a> {
    /// The muxbench binary, of which `serve` and `load` are started.
    pub program: PathBuf,
    /// Set when the run is to stop, after the trial that runs or at once. What is finished by then is kept.
    pub stop: &'a Stop,
}

/// What happens while a run runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Started {
        /// It.
        trial: &'a Trial,
    },
    /// The client says something.
    Load(&'a load::Event),
    /// A trial is finished and committed.
    Finished {
        /// It.
        record: &'a TrialRecord,
    },
    /// A planned trial will not be run, for lower rates were past saturation.
    LeftOut {
        /// It.
        trial: &'a Trial,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All trials that can run here have, or those that the run's course asks for.
    Complete,
    /// It was stopped.
    Stopped,
    /// It lost a part of its fleet, and was not to go on without.
    Broken,
}

/// Runs the trials of `header` that can run here and are not in `done`, as its course has it.
///
/// # Errors
/// When what came of a trial cannot be stored, or one of its CPUs is gone: of that trial nothing is kept, and it is run again
/// with the rest. A trial that goes wrong is committed as failed, and the run goes on.
pub fn run(
    header: &RunHeader,
    done: &[TrialRecord],
    store: &Store,
    options: &Options<'_>,
    fleet: &mut dyn Fleet,
    on_event: &mut dyn FnMut(Event<'_>),
) -> anyhow::Result<Ended> {
    let mut findings: Vec<Finding> = done.iter().map(|record| Finding::of(record, &header.course)).collect();
    let mut left_out = course::left_out(header, &findings);
    // One for all trials of its network: taking one apart takes the kernel a while, in which the next is not to be measured.
    let mut lab = None;
    while let Some(trial) = course::next(header, &findings) {
        let trial = &trial;
        if options.stop.is_asked() {
            return Ok(Ended::Stopped);
        }
        check_cpus(trial, header)?;
        on_event(Event::Started { trial });
        let started_at = jiff::Timestamp::now().to_string();
        let started = Instant::now();
        let draft = store.samples_draft(trial.index);
        let mut account = Account::default();
        let outcome = enter_lab(trial, options, fleet, &mut lab, &mut account).and_then(|()| {
            let around = Around { options, lab: lab.as_ref() };
            run_trial(trial, &draft, &around, fleet, &mut account, on_event)
        });
        account.ask_relay(&mut lab, fleet);
        if outcome.is_err() && options.stop.is_now() {
            let _ = std::fs::remove_file(&draft);
            return Ok(Ended::Stopped);
        }
        // Without these the trials to come would go wrong too.
        let unwritten = outcome.as_ref().err().and_then(|error| error.downcast_ref::<Unwritten>());
        let lost = unwritten.map_or_else(|| check_cpus(trial, header), |error| Err(anyhow::anyhow!("{error}")));
        if lost.is_err() {
            let _ = std::fs::remove_file(&draft);
            lost?;
        }
        let mut counters = account.counters();
        if let Some(counters) = counters.as_mut().filter(|_| trial.load.kv.is_some()) {
            // The data set is in it, which was stored when the connections were there.
            counters.memory_user_bytes_per_connection = None;
        }
        if let Some(counters) = counters.as_mut().filter(|_| trial.load.calls_per_connection.is_some()) {
            // There were now more of them and now fewer.
            counters.memory_user_bytes_per_connection = None;
            counters.memory_kernel_bytes_per_connection = None;
            // Of threads and processes that come and go with them, most of what they waited was not seen.
            if trial.architecture.ours().is_none_or(|architecture| architecture.model.has_worker_per_connection()) {
                counters.totals.run_delay_ns = None;
            }
        }
        let (taken, interrupts_ns) = account.cpu_beside_server(trial, fleet.are_all_remote()).unzip();
        if let Some(counters) = counters.as_mut() {
            counters.interrupts_ns = interrupts_ns.flatten();
        }
        if !fleet.are_all_remote() {
            account.add_interrupts_to_client(&trial.load.cpus);
        }
        let verdict = match (&outcome, &account.load) {
            (Ok(()), Some(report)) => {
                let took_in = |counters: &ServerCounters| match trial.workload.service.stream()?.direction {
                    Direction::In => stream::server_bytes_per_s_by_part(Direction::In, &counters.moved),
                    Direction::Out => None,
                };
                let server = counters.as_ref().map(|counters| ServerSide {
                    counters,
                    cpus: cpus_at_once(trial),
                    late_ns: account.late_ns(),
                    taken,
                    spins: spins(trial),
                    took_in: took_in(counters),
                });
                let verdict = verdict::judge(report, server.as_ref());
                let verdict = match (trial.workload.service.stream(), &report.stream, &account.last) {
                    (Some(sizes), Some(stream), Some(last)) => {
                        verdict::with_bytes(verdict, sizes, trial.workload.idle, stream, &last.totals)
                    }
                    _ => verdict,
                };
                let verdict = verdict::with_idle(verdict, account.idle.as_ref());
                let verdict = verdict::with_clients(verdict, report, trial.load.phases);
                verdict::with_network(verdict, trial.workload.network.as_ref(), account.network.as_ref())
            }
            (Ok(()), None) => Verdict::failed("the client gave no account"),
            (Err(error), _) => Verdict::failed(format!("{error:#}")),
        };
        let record = TrialRecord {
            trial: trial.clone(),
            started_at,
            elapsed_ns: started.elapsed().as_nanos() as u64,
            server: counters,
            idle: account.idle,
            network: account.network,
            cpu_taken_by_others: taken,
            load: account.load,
            verdict,
        };
        let record = record.readable();
        store.commit(&record)?;
        findings.push(Finding::of(&record, &header.course));
        on_event(Event::Finished { record: &record });
        let left_out_now = course::left_out(header, &findings);
        for trial in header.trials.iter().filter(|it| left_out_now.contains(&it.index) && !left_out.contains(&it.index))
        {
            on_event(Event::LeftOut { trial });
        }
        left_out = left_out_now;
        if fleet.must_end_run() {
            return Ok(Ended::Broken);
        }
    }
    Ok(Ended::Complete)
}

/// Whether the CPUs are there that a trial is placed on. Those of a fleet's clients are on their own hosts.
fn check_cpus(trial: &Trial, header: &RunHeader) -> anyhow::Result<()> {
    let clients: &[usize] = if header.is_fleet_s { &[] } else { &trial.load.cpus };
    match placement::gone(trial.serve.cpus().iter().chain(clients)) {
        None => Ok(()),
        Some(cpu) => bail!(
            "trial {} is placed on CPU {cpu}, which is not among those this process may use; bring it back (it is off-line, \
             or withheld by taskset or a cgroup), or begin another run",
            trial.index
        ),
    }
}

/// CPUs that the trial's server can use at once.
fn cpus_at_once(trial: &Trial) -> usize {
    let cpus = match trial.serve.cpus().len() {
        // Placed nowhere: all there are.
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // How many threads somebody else's server has that serve is not known: it could use all.
    let threads = trial.architecture.ours().and_then(|architecture| architecture.threads_at_once());
    threads.map_or(cpus, |threads| cpus.min(threads as usize))
}

/// What both sides said, as far as they came.
#[derive(Default)]
struct Account {
    ready: Option<Snapshot>,
    start: Option<Mark>,
    end: Option<Mark>,
    /// Until when they are in time: CLOCK_MONOTONIC, in nanoseconds.
    due_ns: [u64; 2],
    /// Of streams, what the server had moved at the edges of the window and in between.
    moved: Vec<Moved>,
    /// What the server had counted in all after streams had ended.
    last: Option<Snapshot>,
    load: Option<LoadReport>,
    idle: Option<IdleReport>,
    network: Option<NetworkReport>,
}

/// The state of things at an edge of the window.
struct Mark {
    server: Snapshot,
    /// Before the server was asked, which costs one with thousands of processes a good part of a second of its CPUs, ...
    ticks_before: Reading,
    /// ...and after.
    ticks_after: Reading,
}

/// Where in the account a mark goes.
type Place = fn(&mut Account) -> &mut Option<Mark>;

impl Account {
    /// What the lab's relay did since the network was measured; one that no longer says is not asked again.
    fn ask_relay(&mut self, lab: &mut Option<Testbed>, fleet: &dyn Fleet) {
        let Some(report) = &mut self.network else { return };
        if let Some(surrounding) = fleet.surrounding() {
            report.relay = surrounding.account().ok().flatten();
            return;
        }
        match lab.as_mut().map(Testbed::account).transpose() {
            Ok(relay) => report.relay = relay.flatten(),
            Err(_) => *lab = None,
        }
    }

    fn counters(&self) -> Option<ServerCounters> {
        let counters =
            ServerCounters::between(self.ready.as_ref()?, &self.start.as_ref()?.server, &self.end.as_ref()?.server);
        Some(ServerCounters { moved: self.moved.clone(), ..counters })
    }

    /// By how much the later of both marks was, in nanoseconds.
    fn late_ns(&self) -> u64 {
        let marks = [&self.start, &self.end].into_iter().zip(self.due_ns);
        let late = marks.filter_map(|(mark, due_ns)| Some(mark.as_ref()?.server.at_ns.saturating_sub(due_ns)));
        late.max().unwrap_or(0)
    }

    /// Shares of these CPUs over the window. Asking the server for its counters is left out: it costs time that is neither
    /// the server's nor others'.
    fn shares_of(&self, cpus: &[usize]) -> Option<Shares> {
        self.start.as_ref()?.ticks_after.until(&self.end.as_ref()?.ticks_before, cpus)
    }

    /// The share of the server's CPUs that others took, and the CPU time of interrupts there that the server's own lacks.
    fn cpu_beside_server(&self, trial: &Trial, are_elsewhere: bool) -> Option<(f64, Option<u64>)> {
        let counters = self.counters()?;
        let (cpus, client) = (trial.serve.cpus(), &trial.load.cpus);
        let are_apart = are_elsewhere || !client.is_empty() && !cpus.iter().any(|cpu| client.contains(cpu));
        if !are_apart {
            return None;
        }
        let (shares, accounting) = (self.shares_of(cpus)?, interrupts::accounting()?);
        let cpus_ns = counters.window_ns as f64 * cpus.len() as f64;
        let taken = shares.taken_by_others(counters.totals.cpu_ns() as f64 / cpus_ns, accounting);
        let interrupts_ns = (shares.charged_to_nobody(accounting) * cpus_ns) as u64;
        Some((taken, (accounting == Accounting::Apart).then_some(interrupts_ns)))
    }

    /// Adds to what clients of a closed loop used of their CPUs the interrupts there that are in no process's CPU time: a client
    /// without any time to spare would seem to have some.
    fn add_interrupts_to_client(&mut self, cpus: &[usize]) {
        let Some(interrupts) =
            interrupts::accounting().and_then(|accounting| Some(self.shares_of(cpus)?.charged_to_nobody(accounting)))
        else {
            return;
        };
        if let Some(closed) = self.load.as_mut().and_then(|load| load.closed.as_mut()) {
            let busy_share = closed.busy_share + interrupts * cpus.len() as f64 / f64::from(closed.cpus.max(1));
            closed.busy_share = busy_share.min(1.0);
        }
    }
}

/// Has the lab that a trial needs, and measures what its network does.
fn enter_lab(
    trial: &Trial,
    options: &Options<'_>,
    fleet: &dyn Fleet,
    lab: &mut Option<Testbed>,
    account: &mut Account,
) -> anyhow::Result<()> {
    let Some(network) = &trial.workload.network else {
        *lab = None;
        return Ok(());
    };
    if let Some(surrounding) = fleet.surrounding() {
        if surrounding.network() != network {
            bail!(
                "the lab that this fleet is in is another than the trial's: {}, not {network}",
                surrounding.network()
            );
        }
        account.network = Some(surrounding.measure(options.stop).context("the lab")?);
        return Ok(());
    }
    if lab.as_ref().is_none_or(|lab| lab.network() != network) {
        *lab = None;
        let cpus = (trial.serve.cpus(), trial.load.cpus.as_slice());
        *lab = Some(Testbed::start(network, &options.program, cpus, trial.load.seed).context("the lab")?);
    }
    let measured = lab.as_mut().map(|lab| lab.measure(options.stop)).transpose();
    if measured.is_err() {
        // The next trial gets another.
        *lab = None;
    }
    account.network = measured.context("the lab")?;
    Ok(())
}

/// What is around all trials.
#[derive(Clone, Copy)]
struct Around<'a> {
    options: &'a Options<'a>,
    /// Whose hosts they run in; `None` over loopback.
    lab: Option<&'a Testbed>,
}

fn run_trial(
    trial: &Trial,
    samples: &Path,
    around: &Around<'_>,
    fleet: &mut dyn Fleet,
    account: &mut Account,
    on_event: &mut dyn FnMut(Event<'_>),
) -> anyhow::Result<()> {
    let Around { options, lab } = *around;
    // Dropped at the end, after the server: with what of it is left there.
    let folder = match trial.workload.transport {
        Transport::Unix => Some(SocketFolder::new().context("no folder for the server's socket")?),
        Transport::Tcp | Transport::Tcp6 => None,
    };
    let serve = match &folder {
        Some(folder) => trial.serve.clone().listening_on(folder.address().map_err(anyhow::Error::msg)?),
        None => match fleet.server_ip() {
            Some(ip) => trial.serve.clone().listening_on((ip, 0).into()),
            None => trial.serve.clone(),
        },
    };
    let mut command = Command::new(&options.program);
    command.args(["serve", "--control"]);
    if let Some(lab) = lab {
        lab.server().enter(&mut command);
    }
    let mut server: Child<ServerEvent> = Child::start("the server", command, &serve)?;
    let outcome = load_it(trial, samples, around, fleet, &mut server, account, on_event);
    fleet.dismiss();
    // One that ended after it was last asked has not served to the end.
    let outcome = outcome.and_then(|()| match server.has_ended() {
        true => blame(&mut server, anyhow::anyhow!("the server ended")),
        false => Ok(()),
    });
    // Whatever came of it: somebody else's server leaves nothing behind only if its keeper has the time to see to that.
    server.end();
    // Its connections are closed before the kernel says that it is dead.
    let outcome = outcome.and_then(|()| if server.was_killed() { Err(server.gone()) } else { Ok(()) });
    let ended: anyhow::Result<()> = match &trial.serve {
        // Not seen to by a keeper that was killed, by others or by us.
        #[cfg(target_os = "linux")]
        Subject::Exec(_) => crate::doctor::leftovers::end_all_of(server.pid()),
        _ => Ok(()),
    };
    match (outcome, ended) {
        (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
        (outcome, ended) => outcome.and(ended),
    }
}

/// Runs the clients against the server until all have given their account.
fn load_it(
    trial: &Trial,
    samples: &Path,
    around: &Around<'_>,
    fleet: &mut dyn Fleet,
    server: &mut Child<ServerEvent>,
    account: &mut Account,
    on_event: &mut dyn FnMut(Event<'_>),
) -> anyhow::Result<()> {
    let Around { options, lab } = *around;
    let stop = options.stop;
    let start_max = match &trial.serve {
        Subject::Ours(_) => SERVER_PATIENCE,
        Subject::Exec(exec) => SERVER_PATIENCE + Duration::from_nanos(exec.start_timeout_ns),
    };
    let (address, ports, snapshot) = until_ready(server, start_max, stop)?;
    account.ready = Some(snapshot);

    let mut config = LoadConfig { target: address, ports, ..trial.load.clone() };
    if let Some(lab) = lab {
        config.sources = lab.sources(&config).map_err(anyhow::Error::msg)?;
    }
    let hosts = lab.map_or(&[][..], Testbed::clients);
    let mut connecting = |done, total| on_event(Event::Load(&load::Event::Connecting { done, total }));
    let idle = Holders::start(&options.program, &config, hosts, stop, &mut connecting)
        .or_else(|error| turned_away(trial, server, account, stop, error))?;
    let order = LoadOrder::new(config, trial.clone());
    fleet.set_client_hosts(hosts)?;
    fleet.broadcast(&order, samples).or_else(|error| blame(server, error))?;
    let mut look = |event: Option<&load::Event>| {
        event.into_iter().for_each(|event| on_event(Event::Load(event)));
        stop.check().map(|()| Instant::now() + LOOK)
    };
    let met = fleet.barrier(&mut look);
    let start_ns = met.or_else(|error| turned_away(trial, server, account, stop, error))?;

    let phases = trial.workload.phases;
    let to_window_ns = phases.ramp_ns + phases.hold_ns;
    // Not before the rate is held, if that is long enough.
    let marking_ns = MARK_LEAD_NS_PER_CONNECTION * u64::from(trial.load.connections_and_idle());
    let lead_ns = MARK_LEAD_NS + marking_ns;
    let mark_ns = to_window_ns - lead_ns.min(phases.hold_ns * 9 / 10);
    account.due_ns = [to_window_ns, phases.sending_ns() + marking_ns].map(|ns| start_ns + ns);
    let started = fleet::instant_of(start_ns);
    let at = |ns: u64| started + Duration::from_nanos(ns);
    // When to mark the server next: at the window's start, then at its end.
    let mut marks: Vec<(Instant, Place)> =
        vec![(at(phases.sending_ns()), |account| &mut account.end), (at(mark_ns), |account| &mut account.start)];
    // When to ask next what it has moved.
    let part = Duration::from_nanos(phases.measure_ns / PARTS as u64);
    let is_stream = trial.workload.service.stream().is_some();
    let mut looks = is_stream.then(|| Looks { start: at(to_window_ns), part, taken: 0 });
    let mut look = |event: Option<&load::Event>| {
        event.into_iter().for_each(|event| on_event(Event::Load(event)));
        if server.has_ended() {
            // What came of somebody else's goes on serving without its keeper.
            bail!("the server ended");
        }
        // Before the mark at the window's end, which takes longer.
        while looks.as_mut().is_some_and(|looks| looks.is_due(Instant::now())) {
            account.moved.push(moved(server, stop)?);
        }
        while let Some((_, place)) = marks.pop_if(|(at, _)| Instant::now() >= *at) {
            *place(account) = Some(mark(server, stop)?);
        }
        stop.check()?;
        let due = marks.last().map(|(at, _)| *at).into_iter().chain(looks.as_ref().and_then(Looks::next));
        Ok(due.fold(Instant::now() + LOOK, Instant::min))
    };
    let gathered = fleet.gather(&mut look);
    let accounts = gathered.or_else(|error| turned_away(trial, server, account, stop, error))?;
    // Marks that a busy machine made late. The clients keep their connections until they are told to end.
    while let Some((_, place)) = marks.pop() {
        *place(account) = Some(mark(server, stop)?);
    }
    if is_stream {
        account.last = Some(mark(server, stop)?.server);
    }
    if trial.workload.idle > 0 {
        account.idle = Some(idle.verify(stop)?);
    }
    fleet.dismiss();
    account.load = Some(fleet::merge(&order, accounts, samples)?);
    Ok(())
}

/// The edges of a window's parts, at each of which the server is asked once what it has moved.
struct Looks {
    /// The first edge.
    start: Instant,
    part: Duration,
    /// How many of the edges are behind; there is one more than parts.
    taken: u32,
}

impl Looks {
    /// When the next is due; `None` after the last.
    fn next(&self) -> Option<Instant> {
        (self.taken <= PARTS as u32).then(|| self.start + self.part * self.taken)
    }

    /// Whether one is due, which then is taken; so are those before it that there was no time for.
    fn is_due(&mut self, now: Instant) -> bool {
        let mut is_due = false;
        while self.next().is_some_and(|at| now >= at) {
            is_due = true;
            self.taken += 1;
        }
        is_due
    }
}

/// Waits until the server listens: where, and what it had counted by then.
fn until_ready(
    server: &mut Child<ServerEvent>,
    patience: Duration,
    stop: &Stop,
) -> anyhow::Result<(Address, Option<Ports>, Snapshot)> {
    match server.next_unless(stop, Instant::now() + patience)? {
        Some(ServerEvent::Ready { address, ports, snapshot }) => Ok((address, ports, snapshot)),
        Some(ServerEvent::Failed { reason }) => bail!("the server: {reason}"),
        Some(ServerEvent::Mark { .. } | ServerEvent::Moved { .. }) => bail!("the server is not ready"),
        None => {
            server.kill();
            bail!("the server is not ready after {} s ({})", patience.as_secs(), server.last_words())
        }
    }
}

/// What a server said of its end, which nobody's guess replaces: it says so once.
#[derive(Debug, thiserror::Error)]
#[error("the server: {0}")]
struct ServerFailed(String);

fn server_says(server: &mut Child<ServerEvent>, stop: &Stop) -> anyhow::Result<ServerEvent> {
    match server.next_unless(stop, Instant::now() + SERVER_PATIENCE)? {
        Some(ServerEvent::Failed { reason }) => Err(ServerFailed(reason).into()),
        Some(event) => Ok(event),
        None => {
            server.kill();
            bail!("the server says nothing for {} s ({})", SERVER_PATIENCE.as_secs(), server.last_words())
        }
    }
}

/// Asks the server for its counters.
fn mark(server: &mut Child<ServerEvent>, stop: &Stop) -> anyhow::Result<Mark> {
    let ticks_before = Reading::now();
    server.say("mark").or_else(|error| blame(server, error))?;
    match server_says(server, stop)? {
        ServerEvent::Mark { snapshot } => Ok(Mark { server: snapshot, ticks_before, ticks_after: Reading::now() }),
        _ => bail!("the server did not count"),
    }
}

/// Asks the server what it has moved.
fn moved(server: &mut Child<ServerEvent>, stop: &Stop) -> anyhow::Result<Moved> {
    server.say("moved").or_else(|error| blame(server, error))?;
    match server_says(server, stop)? {
        ServerEvent::Moved { moved } => Ok(moved),
        _ => bail!("the server did not say what it moved"),
    }
}

/// Whether a trial's server keeps its CPUs busy though there may be nothing to do.
fn spins(trial: &Trial) -> bool {
    let mechanism = trial.architecture.ours().and_then(|architecture| architecture.mechanism);
    mechanism.is_some_and(|mechanism| mechanism.spins != Spins::Nothing)
}

/// When a client goes wrong, the server may have had no room for it: the plan knows its limits, and not what others on this
/// host take of them.
fn turned_away<T>(
    trial: &Trial,
    server: &mut Child<ServerEvent>,
    account: &Account,
    stop: &Stop,
    error: anyhow::Error,
) -> anyhow::Result<T> {
    if error.is::<ServerFailed>() || error.is::<Unwritten>() || stop.is_now() {
        return Err(error);
    }
    let refused = |snapshot: &Snapshot| snapshot.totals.refused.unwrap_or(0);
    let now = match mark(server, stop) {
        Ok(mark) => refused(&mark.server),
        Err(failed) if failed.is::<ServerFailed>() => return Err(failed),
        Err(_) => 0,
    };
    let count = now.saturating_sub(account.ready.as_ref().map_or(0, refused));
    let per_connection = trial.architecture.ours().map(|architecture| architecture.model.per_connection);
    let (what, limits) = match per_connection {
        _ if count == 0 => return blame(server, error),
        Some(PerConnection::Thread) => ("a thread", "ulimit -u, kernel.threads-max, the cgroup's pids.max, memory"),
        Some(PerConnection::Process) => ("a process", "ulimit -u, kernel.pid_max, the cgroup's pids.max, memory"),
        Some(PerConnection::Nothing | PerConnection::Stack) | None => ("a descriptor", "ulimit -n, fs.file-max"),
    };
    blame(
        server,
        anyhow::anyhow!(
            "{error:#}; the server turned {count} away, for there was not {what} for each: raise its limit ({limits})"
        ),
    )
}

/// When the client goes wrong, or the server no longer hears, what the server said last may be why.
fn blame<T>(server: &mut Child<ServerEvent>, error: anyhow::Error) -> anyhow::Result<T> {
    if error.is::<ServerFailed>() {
        return Err(error);
    }
    match server.next(Instant::now() + BLAME_PATIENCE) {
        Ok(Some(ServerEvent::Failed { reason })) => Err(ServerFailed(reason).into()),
        Err(server_error) => Err(server_error),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::plan::plan;
    use crate::presets;

    /// A server that has told why it ends, whoever reads that first.
    #[test]
    fn what_a_server_says_of_its_end_is_told_whoever_hears_it() {
        let experiment = presets::find("smoke").unwrap().experiment();
        let trial = &plan(&experiment, &Host::this()).unwrap().trials[0];
        let script = r#"read line; echo '{"event":"failed","reason":"out of luck"}'; exit 1"#;
        for heard_already in [false, true] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut server: Child<ServerEvent> = Child::start("the server", command, &42).unwrap();
            let client = anyhow::anyhow!("a connection was reset");
            let stop = Stop::default();
            let error = if heard_already { server_says(&mut server, &stop).unwrap_err() } else { client };
            let told = turned_away::<()>(trial, &mut server, &Account::default(), &stop, error).unwrap_err();
            assert_eq!(told.to_string(), "the server: out of luck");
        }
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for_when_an_end_is_wanted() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 1000"]);
        let mut server: Child<ServerEvent> = Child::start("the server", command, &42).unwrap();
        let stop = Stop::default();
        stop.ask_now();
        let why = |outcome: anyhow::Result<()>| outcome.unwrap_err().to_string();
        assert_eq!(why(mark(&mut server, &stop).map(drop)), "stopped");
        assert_eq!(why(moved(&mut server, &stop).map(drop)), "stopped");
    }
}
