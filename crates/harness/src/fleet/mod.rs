//! A fleet: the clients of a trial, wherever they are. They are told what to do, begin together, and give their accounts; in
//! between nobody talks to them.
//!
//! # Layout
//! - here: what a fleet does, and what it brings together
//! - [`local`]: clients that are processes of this machine
//! - [`ranks`]: clients that are ranks of a job, which an engine started; `rank`: what one of these does
//! - [`engine`]: which rank this process is, and where the first one is to be met
//! - `frame`: what ranks say to each other, and how; `secret`: how they know each other; `way`: how far apart they are
//! - `greetings`: connections of those who are not known yet; `plausible`: whether an account can be of a client

pub mod launcher;
pub mod local;
mod message;
mod pending;
mod round_trip;
mod secret;
mod validate;
pub mod worker;
pub mod workers;

pub use message::reencode;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use load::clock::monotonic_ns;
use load::config::{LoadConfig, Pacing};
use load::merge::{self, Account};
use load::{Event, LoadReport};

use crate::model::LoadOrder;
use crate::netns::TestbedHost;
use crate::netns::surrounding::Surrounding;
use crate::samples;

/// How long others are waited for. Tests have less.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// Engines may take so long to start all of a job.
    meeting: Duration,
    /// What connecting to one address may take, before the next is tried; each time that all were, twice as long.
    connecting: Duration,
    /// A greeting may take this, all of it, and more where the way is long ([`round_trip::greeting`]). A rank that it was too short for
    /// comes again until the meeting is over.
    greeting: Duration,
    /// What a client may take beyond its phases: summarising, and writing samples.
    client: Duration,
    /// What a rank may take beyond its client, which it ends itself if that hangs, and to answer.
    rank: Duration,
}

impl Timeouts {
    const USUAL: Self = Self {
        meeting: Duration::from_secs(120),
        connecting: Duration::from_secs(5),
        greeting: Duration::from_secs(5),
        client: Duration::from_secs(60),
        rank: Duration::from_secs(30),
    };
}

/// Is called while something is waited for: with each thing that a client says, and when it last wished to be. It says when
/// it wants to be called next; an error ends the waiting.
pub type WaitHook<'a> = dyn FnMut(Option<&Event>) -> anyhow::Result<Instant> + 'a;

/// The clients of trials.
pub trait Fleet {
    /// Has the clients to come run in `hosts` of a lab, in turn; where this is if there are none.
    ///
    /// # Errors
    /// When they are on machines of their own.
    fn set_client_hosts(&mut self, hosts: &[TestbedHost]) -> anyhow::Result<()> {
        match hosts {
            [] => Ok(()),
            _ => bail!("network: the clients of this fleet are where an engine started them; leave the network out"),
        }
    }

    /// Tells each client its part of a trial; they begin to connect. Samples of one alone go to `draft`, those of several
    /// beside it.
    ///
    /// # Errors
    /// When one cannot be told.
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()>;

    /// Waits until all are connected and prepared, and then has all begin at the same moment: when that is, on our
    /// CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// When one fails, ends, or takes too long: which, and why.
    fn barrier(&mut self, look: &mut WaitHook<'_>) -> anyhow::Result<u64>;

    /// Waits until all have measured: their accounts, and where their samples are. Their connections stay.
    ///
    /// # Errors
    /// As [`Fleet::barrier`].
    fn gather(&mut self, look: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>>;

    /// Has all end, whatever they are at.
    fn dismiss(&mut self);

    /// Where the server is to listen so that all reach it; `None` if they do wherever the trial has it.
    fn server_ip(&self) -> Option<IpAddr> {
        None
    }

    /// The lab on whose hosts its clients are already; `None` if they are on none, or where [`Fleet::place`] has them.
    fn surrounding(&self) -> Option<&Surrounding> {
        None
    }

    /// Whether none of them is on this machine, which is the server's alone then.
    fn are_all_remote(&self) -> bool {
        false
    }

    /// Whether a client is lost for the trials to come, and they are not to be run without it.
    fn must_end_run(&self) -> bool {
        false
    }
}

/// What came from one client.
pub struct Gathered {
    /// What it saw.
    pub account: Account,
    /// Its samples.
    pub samples: Draft,
}

/// A file that is there for a while: unless it is kept, it is removed when dropped.
pub struct Draft {
    path: PathBuf,
    is_kept: bool,
}

impl Draft {
    pub(crate) fn new(path: PathBuf, is_kept: bool) -> Self {
        Self { path, is_kept }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The report of all clients together. Of one alone it is what it said; of several, samples are merged into `draft`.
///
/// # Errors
/// When samples cannot be read or written.
pub fn merge(order: &LoadOrder, gathered: Vec<Gathered>, draft: &Path) -> anyhow::Result<LoadReport> {
    let (accounts, files): (Vec<Account>, Vec<Draft>) = gathered.into_iter().map(|it| (it.account, it.samples)).unzip();
    if let ([one], [file]) = (&accounts[..], &files[..])
        && file.path == draft
    {
        return Ok(one.report.clone());
    }
    let read = |(account, file): (&Account, &Draft)| Ok((account.config.clone(), samples::read(&file.path)?));
    let parts = accounts.iter().zip(&files).map(read).collect::<anyhow::Result<Vec<_>>>()?;
    for (number, (account, (_, samples))) in accounts.iter().zip(&parts).enumerate() {
        if let Err(why) = validate::check(account, samples) {
            let name = match account.place.as_str() {
                "" => format!("client {} of {}", number + 1, accounts.len()),
                place => place.to_owned(),
            };
            bail!("cannot add up what the clients saw: the account of {name} is impossible: {why}; is its host sound?");
        }
    }
    let merged = merge::samples(parts);
    samples::write(draft, &merged, &samples::parameters(&order.config, Some(&order.trial))?)?;
    Ok(merge::report(&order.config, &accounts, &merged))
}

/// Where the samples of one of several clients go.
fn draft_of(draft: &Path, number: usize) -> PathBuf {
    let mut name = draft.as_os_str().to_owned();
    name.push(format!("-{number}"));
    name.into()
}

/// A client's part with CPUs of its own, where it is one of `count` on a machine. Those that have to share a CPU must not
/// spin on it.
fn assign_cpus(config: LoadConfig, cpus: &[usize], number: usize, count: usize) -> LoadConfig {
    if count <= cpus.len() {
        let until = |number: usize| cpus.len() * number / count;
        return LoadConfig { cpus: cpus[until(number)..until(number + 1)].to_vec(), ..config };
    }
    let pacing = match config.pacing {
        Pacing::Auto if config.rate_per_s.is_some() => Pacing::SleepSpin,
        pacing => pacing,
    };
    let cpus = cpus.get(number % cpus.len().max(1)).copied().into_iter().collect();
    LoadConfig { cpus, pacing, ..config }
}

/// What a client says, or the rank that has started it.
enum ClientMessage {
    /// The client.
    Event(Event),
    /// The rank: the client has given its account, which waits to be collected.
    Ended {
        /// The share of the client's CPUs that was in use over the window, by whomever; `None` where that is not known.
        used: Option<f64>,
    },
}

/// A client, wherever it is.
trait ClientLink {
    /// What it is called.
    fn name(&self) -> String;

    /// What it says next; `None` when `deadline` passes first.
    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>>;

    /// Why its trial fails, where it is one of several by its name.
    fn blamed(&self, reason: &str) -> String;

    /// It hangs: what it said last.
    fn give_up(&mut self) -> String;
}

/// Waits until a client says what `wanted` takes. `deadline` is put off by `patience` each time that it tells of progress.
fn await_event<T>(
    member: &mut dyn ClientLink,
    mut deadline: Instant,
    patience: Option<Duration>,
    look: &mut WaitHook<'_>,
    mut wanted: impl FnMut(ClientMessage) -> Result<T, ClientMessage>,
) -> anyhow::Result<T> {
    let mut next = look(None)?;
    loop {
        // What it has said by then counts, however late we are to hear it.
        let is_over = Instant::now() >= deadline;
        let said = member.next(deadline.min(next))?;
        if is_over && said.is_none() {
            let name = member.name();
            let words = member.give_up();
            bail!("{name} took longer than it may: it hangs, or the machine is overloaded ({words})");
        }
        let event = match &said {
            Some(ClientMessage::Event(event)) => Some(event),
            Some(ClientMessage::Ended { .. }) | None => None,
        };
        if let (Some(Event::Connecting { .. } | Event::Preparing { .. }), Some(patience)) = (event, patience) {
            deadline = Instant::now() + patience;
        }
        next = look(event)?;
        match said.map(&mut wanted) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(ClientMessage::Event(Event::Failed { reason, is_unwritten }))) => {
                return Err(samples::failure(member.blamed(&reason), is_unwritten));
            }
            Some(Err(_)) | None => {}
        }
    }
}

/// Waits until a client is ready.
fn await_ready(member: &mut dyn ClientLink, patience: Duration, look: &mut WaitHook<'_>) -> anyhow::Result<()> {
    let is_ready = |said| if matches!(said, ClientMessage::Event(Event::Ready)) { Ok(()) } else { Err(said) };
    await_event(member, Instant::now() + patience, Some(patience), look, is_ready)
}

/// How long a client may say nothing before it is ready: until it has connected, its own timeouts hold; this is for one that
/// hangs.
fn ready_timeout(config: &LoadConfig, patience: Duration) -> Duration {
    Duration::from_nanos(config.timeout_ns) + patience
}

/// Waits until a client gives its account.
fn await_report(member: &mut dyn ClientLink, deadline: Instant, look: &mut WaitHook<'_>) -> anyhow::Result<LoadReport> {
    await_event(member, deadline, None, look, |said| match said {
        ClientMessage::Event(Event::Finished { report }) => Ok(*report),
        other => Err(other),
    })
}

/// When a client that begins now, or soon, must have given its account.
fn report_deadline(config: &LoadConfig, patience: Duration) -> Instant {
    Instant::now() + Duration::from_nanos(config.phases.sending_ns() + config.phases.drain_ns) + patience
}

/// The instant at which CLOCK_MONOTONIC, which `Instant` is, shows `ns`.
pub(crate) fn instant_of(ns: u64) -> Instant {
    let (now_ns, instant) = (monotonic_ns(), Instant::now());
    if ns >= now_ns { instant + Duration::from_nanos(ns - now_ns) } else { instant - Duration::from_nanos(now_ns - ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(rate_per_s: Option<f64>) -> LoadConfig {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        LoadConfig { rate_per_s, ..LoadConfig::new(([127, 0, 0, 1], 80), service) }
    }

    #[test]
    fn clients_of_one_machine_divide_its_cpus_or_take_turns() {
        let of = |cpus: &[usize], count| {
            (0..count).map(|number| assign_cpus(config(Some(1.0)), cpus, number, count).cpus).collect::<Vec<_>>()
        };
        assert_eq!(of(&[1, 2, 3, 4, 5], 2), [vec![1, 2], vec![3, 4, 5]]);
        assert_eq!(of(&[1, 3], 3), [[1], [3], [1]]);
        assert_eq!(of(&[], 2), [[0; 0], [0; 0]], "wherever the system puts them");
        let pacing = |rate, cpus: &[usize], count| assign_cpus(config(rate), cpus, 0, count).pacing;
        assert_eq!(pacing(Some(1.0), &[1], 1), Pacing::Auto);
        assert_eq!(pacing(Some(1.0), &[1], 2), Pacing::SleepSpin, "one that spins keeps the other from the CPU");
        assert_eq!(pacing(None, &[1], 2), Pacing::Auto, "a closed loop sleeps anyway");
    }

    /// A client whose words wait, the last first, and that says nothing more.
    struct Waiting(Vec<Event>);

    impl ClientLink for Waiting {
        fn name(&self) -> String {
            "it".into()
        }

        fn next(&mut self, _: Instant) -> anyhow::Result<Option<ClientMessage>> {
            Ok(self.0.pop().map(ClientMessage::Event))
        }

        fn blamed(&self, reason: &str) -> String {
            reason.to_owned()
        }

        fn give_up(&mut self) -> String {
            "silent".into()
        }
    }

    #[test]
    fn what_a_client_has_said_counts_however_late_it_is_heard() {
        let mut member = Waiting(vec![Event::Ready, Event::Connecting { done: 1, total: 2 }]);
        let (over, mut look) = (Instant::now(), |_: Option<&Event>| Ok(Instant::now()));
        let is_ready = |said| if matches!(said, ClientMessage::Event(Event::Ready)) { Ok(()) } else { Err(said) };
        await_event(&mut member, over, None, &mut look, is_ready).unwrap();
        let error = await_event(&mut member, over, None, &mut look, is_ready).unwrap_err().to_string();
        assert!(error.contains("it took longer than it may") && error.contains("silent"), "{error}");
    }

    #[test]
    fn impossible_counts_of_a_worker_fail_its_trial_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let draft = folder.path().join("draft");
        let experiment = crate::spec::presets::find("compare").unwrap().experiment();
        let trial = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap().trials.remove(0);
        let order = LoadOrder::new(LoadConfig { processes: 2, ..trial.load.clone() }, trial);
        let merged = |reports: [LoadReport; 2], sample: load::Sample| {
            let gathered = order.config.parts().into_iter().zip(reports).enumerate();
            let gathered = gathered.map(|(number, (config, report))| {
                let path = draft_of(&draft, number);
                samples::write(&path, &[sample], &[]).unwrap();
                let place = format!("rank {} on host{number}", number + 1);
                let account = Account { config, machine: "a".into(), place, report, cpus_used: None };
                Gathered { account, samples: Draft::new(path, false) }
            });
            merge(&order, gathered.collect(), &draft)
        };
        let (healthy, sample) = (crate::judge::tests::healthy, load::Sample::UNKNOWN);
        assert_eq!(merged([healthy(), healthy()], sample).unwrap().planned, 2_000);
        let why = merged([healthy(), LoadReport { planned: u64::MAX, ..healthy() }], sample).unwrap_err().to_string();
        assert!(why.contains("rank 2 on host1") && why.contains("planned is 18446744073709551615"), "{why}");
        let why =
            merged([healthy(), healthy()], load::Sample { connection: u32::MAX, ..sample }).unwrap_err().to_string();
        assert!(why.contains("rank 1 on host0") && why.contains("connection 4294967295"), "{why}");
    }

    #[test]
    fn a_draft_is_gone_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for is_kept in [true, false] {
            let path = draft_of(&folder.path().join("0001.part"), 3);
            assert!(path.ends_with("0001.part-3"));
            std::fs::write(&path, "").unwrap();
            drop(Draft::new(path.clone(), is_kept));
            assert_eq!(path.exists(), is_kept);
        }
    }
}
