//! Clients that are ranks of a job: the first rank's side. It meets the others over TCP, tells them what to do, and takes in
//! what they saw.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use load::Event;
use load::config::LoadConfig;
use load::merge::Account;
use wire::Address;

use super::launcher::Membership;
use super::message::{self, Channel, HandshakeMessage, Hello, Message, Session};
use super::pending::PendingHandshakes;
use super::secret::{self, Key, Proof, Side, Transcript};
use super::{
    ClientLink, ClientMessage, Draft, Fleet, Gathered, Timeouts, WaitHook, assign_cpus, await_event, await_ready,
    await_report, draft_of, monotonic_ns, ready_timeout, report_deadline, round_trip, worker,
};
use crate::deadline_stream::DeadlineStream;
use crate::files;
use crate::model::{FleetFacts, LoadOrder};
use crate::netns::surrounding::Surrounding;
use crate::samples;
use crate::spec::units::Cpus;

/// How often it is looked whether somebody has come.
const LOOK: Duration = Duration::from_millis(20);
/// So many of those who were refused are told, and how many more there were.
const REFUSED_MAX: usize = 8;
/// So many groups of ranks are told that are kept to some CPUs, and how many ranks more there are.
const TOLD_MAX: usize = 8;
/// How often ranks are asked for their time before each trial: the quickest answer says it best...
const PINGS: u32 = 8;
/// ...and no more once that has taken so long.
const PINGS_MAX: Duration = Duration::from_secs(1);
/// Between the last rank's being ready and the beginning of all, in nanoseconds: what telling them may take, ...
const LEAD_NS: u64 = 50_000_000;
/// ...so much longer for each of them, ...
const LEAD_NS_PER_RANK: u64 = 5_000_000;
/// ...so many times the way there and back, ...
const LEAD_ROUND_TRIPS: u64 = 2;
/// ...and this where a packet may be lost, of which the kernel notices after 200 ms, and twice that if the next is lost too, ...
const LEAD_NS_OF_LOSS: u64 = 500_000_000;
/// ...as one may where one answer took so much longer than another.
const LOST_NS: u64 = 100_000_000;
/// A file of samples may have so many bytes for each request that is planned...
const BYTES_PER_SAMPLE: u64 = 128;
/// ...and so many besides.
const BYTES_BESIDE: u64 = 16 << 20;

/// What is done when a rank is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPolicy {
    /// The run ends after the trial that it spoilt, and can be resumed.
    #[default]
    EndRun,
    /// The others go on, and divide its connections and its rate among themselves.
    Continue,
}

/// The ranks of a job besides the first.
pub struct Workers {
    members: Vec<ConnectedWorker>,
    loss: LossPolicy,
    /// The first rank's machine...
    machine: String,
    /// ...and its network there.
    network: u64,
    /// Counts trials, so that what is said of an earlier one is known as that.
    trial: u32,
    /// CPUs of the trial's server.
    server_cpus: Vec<usize>,
    patience: Timeouts,
    deadline: Instant,
    /// The lab whose hosts are those of the ranks.
    surrounding: Option<Surrounding>,
}

struct ConnectedWorker {
    hello: Hello,
    line: Channel,
    /// The address of ours that it came to: it can reach a server there...
    ours: IpAddr,
    /// ...from this one.
    theirs: IpAddr,
    is_lost: bool,
    trial: u32,
    config: Option<LoadConfig>,
    samples: Option<Draft>,
}

impl Workers {
    /// Meets the other ranks of a job.
    ///
    /// # Errors
    /// When the address is taken, or not all come in time: who is missing, and who came and was refused.
    pub fn accept_all(place: &Membership, loss: LossPolicy) -> anyhow::Result<Self> {
        let listener = listen(place.port).with_context(|| {
            format!(
                "port {} is where the ranks meet, and cannot be listened on; set MUXBENCH_RENDEZVOUS to HOST:PORT with another",
                place.port
            )
        })?;
        Self::meet_on(&listener, place, loss, Timeouts::USUAL)
    }

    fn meet_on(
        listener: &TcpListener,
        place: &Membership,
        loss: LossPolicy,
        patience: Timeouts,
    ) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        let deadline = Instant::now() + patience.meeting;
        let mut came: BTreeMap<u32, ConnectedWorker> = BTreeMap::new();
        let mut refused = Refusals::default();
        // Each is greeted by a thread, so that one who is slow keeps nobody waiting.
        let (sender, greeted) = mpsc::channel();
        let mut greetings = PendingHandshakes::default();
        while came.len() as u32 + 1 < place.ranks {
            if Instant::now() >= deadline {
                let missing: Vec<String> =
                    (1..place.ranks).filter(|rank| !came.contains_key(rank)).map(|rank| rank.to_string()).collect();
                bail!(
                    "of {} ranks, {} did not come to port {} within {} s{refused}",
                    place.ranks,
                    missing.join(", "),
                    place.port,
                    patience.meeting.as_secs()
                );
            }
            let visitor = if greetings.has_room() { listener.accept().ok() } else { None };
            let pause = if visitor.is_some() { Duration::ZERO } else { LOOK };
            if let Some((stream, peer)) = visitor {
                let stream = Arc::new(stream);
                let number = greetings.begin(peer.ip(), stream.clone());
                let (place, sender) = (place.clone(), sender.clone());
                let greet = move || {
                    let met = greet(&stream, &place, patience.greeting);
                    let _ = sender.send((number, peer, met.map(|met| (stream, met))));
                };
                if let Err(error) = thread::Builder::new().name("greeting".into()).spawn(greet) {
                    greetings.end(number);
                    refused.push(format!("{}: no thread to greet it: {error}", peer.ip()));
                }
            }
            let Ok((number, peer, outcome)) = greeted.recv_timeout(pause) else { continue };
            // Its own end of the connection is dropped, so that the rank has the only one.
            greetings.end(number);
            let admitted = outcome.and_then(|(stream, met)| {
                let stream = Arc::into_inner(stream).context("its connection is still in use")?;
                admit(stream, met, place, &came, patience.greeting)
            });
            match admitted {
                Ok(rank) => drop(came.insert(rank.hello.rank, rank)),
                Err(error) => refused.push(format!("{}: {error:#}", peer.ip())),
            }
        }
        let members = came.into_values().collect();
        Ok(Self {
            members,
            loss,
            machine: worker::machine(),
            network: worker::network(),
            trial: 0,
            server_cpus: Vec::new(),
            patience,
            deadline: Instant::now(),
            surrounding: None,
        })
    }

    /// The same on the hosts of a lab.
    #[must_use]
    pub fn within(mut self, surrounding: Option<Surrounding>) -> Self {
        self.surrounding = surrounding;
        self
    }

    /// How many clients there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// What a planner has to know of them.
    pub fn facts(&self) -> FleetFacts {
        let is_here = |member: &&ConnectedWorker| member.hello.machine == self.machine;
        let cpus = |member: &ConnectedWorker| {
            let beside = self.members.iter().filter(|it| it.hello.machine == member.hello.machine);
            let cpus = &member.hello.cpus;
            // As [`Fleet::broadcast`] divides them.
            let are_shared = beside.clone().all(|it| it.hello.cpus == *cpus);
            (cpus.len() / if are_shared { beside.count() } else { 1 }).max(1) as u32
        };
        let mut ways: Vec<IpAddr> = self.members.iter().map(|member| member.ours).collect();
        ways.sort();
        ways.dedup();
        let is_beside = |member: &&ConnectedWorker| is_here(member) && member.hello.network == self.network;
        FleetFacts {
            here: self.members.iter().filter(is_here).count() as u32,
            elsewhere_cpus: self.members.iter().filter(|member| !is_here(member)).map(cpus).min(),
            ways,
            lab: self.surrounding.as_ref().map(|lab| (lab.network().clone(), lab.applied())),
            beside_server: self.members.iter().filter(is_beside).map(|member| member.hello.rank).collect(),
        }
    }

    /// Where they are, in a sentence.
    pub fn sentence(&self) -> String {
        let mut hosts: Vec<(&str, u32)> = Vec::new();
        for member in &self.members {
            match hosts.iter_mut().find(|(host, _)| *host == member.hello.host) {
                Some((_, count)) => *count += 1,
                None => hosts.push((&member.hello.host, 1)),
            }
        }
        let hosts: Vec<String> = hosts
            .into_iter()
            .map(|(host, count)| if count == 1 { host.to_owned() } else { format!("{host} ({count})") })
            .collect();
        format!("server on {}, clients on {}", worker::host(), hosts.join(", "))
    }

    /// Which of them, the first too, may use only some of their hosts' CPUs; `None` if all may use all.
    pub fn cpu_limits(&self) -> Option<String> {
        let ((cpus, of_host), host) = (worker::cpus(), worker::host());
        let first = CpuLimit { rank: 0, host: &host, cpus: &cpus, of_host };
        let others = self.members.iter().map(|member| {
            let Hello { rank, host, cpus, cpus_of_host, .. } = &member.hello;
            CpuLimit { rank: *rank, host, cpus, of_host: *cpus_of_host }
        });
        kept_to_cpus(std::iter::once(first).chain(others))
    }

    /// Which of those on this machine may not use all CPUs that a plan has for clients here; `None` if all may.
    pub fn missing_planned_cpus(&self, planned: &[usize]) -> Option<String> {
        let here = self.members.iter().filter(|member| member.hello.machine == self.machine);
        missing_planned_cpus(planned, here.map(|member| (member.hello.rank, member.hello.cpus.as_slice())))
    }

    /// What requests pass through, in words.
    pub fn network(&self) -> String {
        let ways: Vec<String> = self.facts().ways.iter().map(ToString::to_string).collect();
        format!("between ranks, to {}", ways.join(", "))
    }

    fn present(&mut self) -> impl Iterator<Item = &mut ConnectedWorker> {
        self.members.iter_mut().filter(|member| !member.is_lost)
    }

    /// Asks all ranks for their time, several times: what each answered.
    fn ask_for_time(&mut self, look: &mut WaitHook<'_>) -> anyhow::Result<Vec<ClockSamples>> {
        let (started, patience) = (Instant::now(), self.patience.rank);
        let mut all: Vec<ClockSamples> = self.present().map(|_| ClockSamples::default()).collect();
        for number in 0..PINGS {
            let asked_ns: Vec<u64> =
                self.present().map(|member| member.ask_for_time(number)).collect::<anyhow::Result<_>>()?;
            let deadline = Instant::now() + patience;
            for ((member, asked_ns), answers) in self.present().zip(asked_ns).zip(&mut all) {
                answers.0.push(member.hear_time(number, asked_ns, deadline, look)?);
            }
            if started.elapsed() >= PINGS_MAX {
                break;
            }
        }
        Ok(all)
    }
}

/// CPUs that a rank may use, of so many that its host has; 0 where that is not known.
struct CpuLimit<'a> {
    rank: u32,
    host: &'a str,
    cpus: &'a [usize],
    of_host: u32,
}

fn kept_to_cpus<'a>(ranks: impl Iterator<Item = CpuLimit<'a>>) -> Option<String> {
    let is_kept = |it: &CpuLimit<'_>| !it.cpus.is_empty() && it.cpus.len() < it.of_host as usize;
    let words = |it: CpuLimit<'_>| (it.rank, format!("CPU {} of the {} of {}", in_order(it.cpus), it.of_host, it.host));
    let told = told_together(ranks.filter(is_kept).map(words))?;
    Some(format!(
        "{told}: who started them keeps them to these (`mpirun --bind-to none` and `srun --cpu-bind=none` do not)"
    ))
}

fn missing_planned_cpus<'a>(planned: &[usize], ranks: impl Iterator<Item = (u32, &'a [usize])>) -> Option<String> {
    let words = |(rank, cpus): (u32, &[usize])| {
        let left: Vec<usize> = planned.iter().copied().filter(|cpu| cpus.contains(cpu)).collect();
        match left.len() {
            _ if cpus.is_empty() => None,
            all if all == planned.len() => None,
            0 => Some((rank, format!("none of them, but CPU {}", in_order(cpus)))),
            _ => Some((rank, format!("CPU {} alone", in_order(&left)))),
        }
    };
    let told = told_together(ranks.filter_map(words))?;
    Some(format!("the plan has clients on CPU {} of the server's host, and {told}", in_order(planned)))
}

fn in_order(cpus: &[usize]) -> Cpus {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    Cpus(cpus)
}

/// What ranks may use, as in `ranks 1, 2 may use CPU 0 of the 2 of a; rank 3 may use...`; `None` of no rank.
fn told_together(ranks: impl Iterator<Item = (u32, String)>) -> Option<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, what) in ranks {
        match groups.iter_mut().find(|(it, _)| *it == what) {
            Some((_, ranks)) => ranks.push(rank.to_string()),
            None => groups.push((what, vec![rank.to_string()])),
        }
    }
    let words = |(what, ranks): &(String, Vec<String>)| {
        format!("rank{} {} may use {what}", if ranks.len() == 1 { "" } else { "s" }, ranks.join(", "))
    };
    let mut told: Vec<String> = groups.iter().take(TOLD_MAX).map(words).collect();
    let more: usize = groups.iter().skip(TOLD_MAX).map(|(_, ranks)| ranks.len()).sum();
    if more > 0 {
        told.push(format!("and so it is with {more} more"));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// What an answer to a question for the time says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClockSample {
    /// How long it took, in nanoseconds.
    round_trip_ns: u64,
    /// How far the rank's CLOCK_MONOTONIC is ahead of ours, in nanoseconds: to half of that.
    ahead_ns: i64,
}

/// What one rank answered.
#[derive(Default)]
struct ClockSamples(Vec<ClockSample>);

impl ClockSamples {
    /// The quickest.
    fn best(&self) -> ClockSample {
        *self.0.iter().min().expect("it was asked")
    }

    /// Whether one took so much longer that something may have been lost on its way.
    fn show_loss(&self) -> bool {
        let least_ns = self.best().round_trip_ns;
        self.0.iter().any(|answer| answer.round_trip_ns >= least_ns + LOST_NS)
    }
}

/// How long it may take to tell all when to begin, in nanoseconds.
fn lead_ns(answers: &[ClockSamples], has_loss: bool) -> u64 {
    let round_trip_ns = answers.iter().map(|answers| answers.best().round_trip_ns).max().unwrap_or(0);
    let of_loss = if has_loss || answers.iter().any(ClockSamples::show_loss) { LEAD_NS_OF_LOSS } else { 0 };
    LEAD_NS + LEAD_NS_PER_RANK * answers.len() as u64 + LEAD_ROUND_TRIPS * round_trip_ns + of_loss
}

/// On all addresses of this host: which of them the others reach is not known.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Who came and does not belong to the fleet, as far as it is told.
#[derive(Default)]
struct Refusals {
    told: Vec<String>,
    more: u64,
}

impl Refusals {
    fn push(&mut self, why: String) {
        match () {
            () if self.told.contains(&why) => {}
            () if self.told.len() < REFUSED_MAX => self.told.push(why),
            () => self.more += 1,
        }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told.iter().try_for_each(|why| write!(f, "; refused: {why}"))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; refused: {more} more"),
        }
    }
}

/// One that knows this job's secret.
struct Authenticated {
    hello: Hello,
    /// Our own proof, for a rank that belongs to the fleet.
    proof: Proof,
    key: Key,
}

/// Finds out who has come, and whether they know this job's secret. Until they have proven that, nothing made with it is sent,
/// nor is what they say of themselves parsed.
fn greet(stream: &TcpStream, place: &Membership, patience: Duration) -> anyhow::Result<Authenticated> {
    stream.set_nonblocking(false)?;
    let mut line = DeadlineStream::within(stream, round_trip::greeting(stream, patience));
    message::compare_versions(&mut line)?;
    let nonce = secret::nonce()?;
    message::greet(&mut line, &HandshakeMessage::Challenge { nonce })?;
    let HandshakeMessage::Claim { hello, proof } = message::hear_greeting(&mut line)? else {
        bail!("it does not say which rank it is")
    };
    let transcript = Transcript::new(&message::preamble(), &nonce, &hello);
    if !place.secret.is_proven(Side::Other, &transcript, &proof) {
        let reason = "it does not know this job's secret";
        let told = format!("this job has another secret; {}", worker::SAME_SECRET);
        message::greet(&mut line, &HandshakeMessage::Refused { reason: told })?;
        bail!(reason);
    }
    let proof = place.secret.prove(Side::First, &transcript);
    Ok(Authenticated { hello: message::understood_hello(&hello)?, proof, key: place.secret.session(&transcript) })
}

/// Takes in one who knows the secret, if it is a rank that is missing. One that came and is gone may come again.
fn admit(
    stream: TcpStream,
    met: Authenticated,
    place: &Membership,
    came: &BTreeMap<u32, ConnectedWorker>,
    patience: Duration,
) -> anyhow::Result<ConnectedWorker> {
    let Authenticated { hello, proof, key } = met;
    let mut line = DeadlineStream::within(&stream, patience);
    let is_there = came.get(&hello.rank).is_some_and(|rank| rank.line.is_there());
    let reason = match hello.rank {
        _ if hello.ranks != place.ranks => format!("it is of {} ranks, and this job has {}", hello.ranks, place.ranks),
        rank if rank == 0 || rank >= place.ranks || is_there => format!("rank {rank} is there already, or cannot be"),
        _ => {
            message::greet(&mut line, &HandshakeMessage::Welcome { proof })?;
            let ours = stream.local_addr()?.ip().to_canonical();
            let theirs = stream.peer_addr()?.ip().to_canonical();
            let line = Channel::new(Session { stream, key, side: Side::First }, |_| ())?;
            return Ok(ConnectedWorker {
                hello,
                line,
                ours,
                theirs,
                is_lost: false,
                trial: 0,
                config: None,
                samples: None,
            });
        }
    };
    message::greet(&mut line, &HandshakeMessage::Refused { reason: reason.clone() })?;
    bail!(reason)
}

impl Fleet for Workers {
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.trial += 1;
        self.server_cpus = order.trial.serve.cpus().to_vec();
        let Self { members, surrounding, machine, network, trial, .. } = self;
        let trial = *trial;
        let mut present: Vec<&mut ConnectedWorker> = members.iter_mut().filter(|member| !member.is_lost).collect();
        ensure!(!present.is_empty(), "no rank is left that could be a client");
        // Of those that are lost, the others take their parts.
        let processes = present.len() as u32;
        let parts = LoadConfig { processes, ..order.config.clone() }.parts();
        let places: Vec<Hello> = present.iter().map(|member| member.hello.clone()).collect();
        for (at, (member, config)) in present.iter_mut().zip(&parts).enumerate() {
            let beside: Vec<usize> = (0..places.len()).filter(|&it| places[it].machine == places[at].machine).collect();
            let (number, count) = (beside.iter().filter(|&&it| it < at).count(), beside.len());
            let own = &member.hello.cpus;
            // Where the server is too, clients keep to the CPUs that the plan has for them.
            let planned: Vec<usize> = order.config.cpus.iter().copied().filter(|cpu| own.contains(cpu)).collect();
            let is_here = member.hello.machine == *machine;
            let config = if is_here && !planned.is_empty() {
                assign_cpus(config.clone(), &planned, number, count)
            } else if beside.iter().all(|&it| places[it].cpus == *own) {
                assign_cpus(config.clone(), own, number, count)
            } else {
                // The engine has given each its own.
                LoadConfig { cpus: own.clone(), ..config.clone() }
            };
            // Others of that network take its ports too.
            let others = beside.iter().filter(|&&it| it != at && places[it].network == member.hello.network);
            let others: u32 = others.map(|&it| parts[it].connections).sum();
            let idle = if is_here && member.hello.network == *network { order.config.idle } else { 0 };
            let target = match &config.target {
                Address::Ip(address) => Address::Ip(SocketAddr::new(member.ours, address.port())),
                Address::Unix(path) => Address::Unix(path.clone()),
            };
            let mut config = LoadConfig { idle: idle + others, target, ..config };
            if let Some(surrounding) = surrounding {
                config.sources = surrounding.sources(&config, member.theirs).map_err(anyhow::Error::msg)?;
            }
            let text = serde_json::to_string(&LoadOrder::new(config.clone(), order.trial.clone()))?;
            member.trial = trial;
            member.samples = Some(Draft::new(draft_of(draft, at), false));
            member.config = Some(config);
            member.say(&Message::Order { trial, order: text })?;
        }
        Ok(())
    }

    fn barrier(&mut self, look: &mut WaitHook<'_>) -> anyhow::Result<u64> {
        let patience = self.patience;
        for member in self.present() {
            let config = member.config.clone().context("it was told of no trial")?;
            await_ready(member, ready_timeout(&config, patience.client + patience.rank), look)?;
        }
        let answers = self.ask_for_time(look)?;
        let has_loss = self.surrounding.as_ref().is_some_and(|lab| lab.network().loss.is_some());
        let start_ns = monotonic_ns() + lead_ns(&answers, has_loss);
        let trial = self.trial;
        for (member, answers) in self.present().zip(answers) {
            let ahead_ns = answers.best().ahead_ns;
            member.say(&Message::Begin { trial, start_ns: start_ns.wrapping_add_signed(ahead_ns) })?;
        }
        let config = self.present().find_map(|member| member.config.clone()).context("no rank is left")?;
        self.deadline = report_deadline(&config, patience.client + patience.rank);
        Ok(start_ns)
    }

    fn gather(&mut self, look: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>> {
        let (deadline, machine, trial, patience) = (self.deadline, self.machine.clone(), self.trial, self.patience);
        let server_cpus = self.server_cpus.clone();
        // Before the last has ended nobody has more to say than that: others may measure.
        let mut used = Vec::new();
        for member in self.present() {
            used.push(await_event(member, deadline, None, look, |said| match said {
                ClientMessage::Ended { used } => Ok(used),
                said @ ClientMessage::Event(_) => Err(said),
            })?);
        }
        // One after the other, so that what is on its way is one's.
        let mut gathered = Vec::new();
        for (member, used) in self.present().zip(used) {
            member.say(&Message::Collect { trial })?;
            let report = await_report(member, Instant::now() + patience.rank, look)?;
            let config = member.config.take().context("it was told of no trial")?;
            let samples = member.samples.take().context("it was told of no trial")?;
            member.take_samples(&config, &samples, patience.rank, look)?;
            let Hello { rank, host, machine: its, .. } = &member.hello;
            let (is_here, its) = (*its == machine, its.clone());
            let place = if is_here { format!("rank {rank}") } else { format!("rank {rank} on {host}") };
            // What the server used of CPUs that it shares is not told apart.
            let is_shared = is_here && server_cpus.iter().any(|cpu| config.cpus.contains(cpu));
            let cpus_used = used.filter(|_| !is_shared);
            gathered.push(Gathered { account: Account { config, machine: its, place, report, cpus_used }, samples });
        }
        Ok(gathered)
    }

    fn dismiss(&mut self) {
        let trial = self.trial;
        for member in self.present() {
            member.samples = None;
            // Who does not hear it is found out by the next trial.
            let _ = member.say(&Message::Dismiss { trial });
        }
    }

    fn server_ip(&self) -> Option<IpAddr> {
        let first = self.members.first()?.ours;
        let same = self.members.iter().all(|member| member.ours == first);
        Some(match first {
            _ if same => first,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        })
    }

    fn surrounding(&self) -> Option<&Surrounding> {
        self.surrounding.as_ref()
    }

    fn are_all_remote(&self) -> bool {
        self.facts().are_elsewhere()
    }

    fn must_end_run(&self) -> bool {
        let is_lost = |member: &ConnectedWorker| member.is_lost;
        // Without any, every trial left would fail, and be finished.
        self.members.iter().all(is_lost) || self.loss == LossPolicy::EndRun && self.members.iter().any(is_lost)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for member in self.present() {
            let _ = member.say(&Message::End);
        }
    }
}

impl ConnectedWorker {
    fn say(&mut self, frame: &Message) -> anyhow::Result<()> {
        self.line.say(frame).map_err(|error| self.lost(&error))
    }

    /// It is of no use any more: why, with its name. Should it still be there, it ends.
    fn lost(&mut self, why: &anyhow::Error) -> anyhow::Error {
        self.is_lost = true;
        self.line.close();
        anyhow!("{} is lost: {why}", self.name())
    }

    /// What it says of this trial, or that is of none; `None` when `deadline` passes first.
    fn hear(&mut self, deadline: Instant) -> anyhow::Result<Option<Message>> {
        Ok(self.hear_when(deadline)?.map(|(_, frame)| frame))
    }

    /// The same, with when it came, on our CLOCK_MONOTONIC in nanoseconds.
    fn hear_when(&mut self, deadline: Instant) -> anyhow::Result<Option<(u64, Message)>> {
        loop {
            match self.line.hear_when(deadline).map_err(|error| self.lost(&error))? {
                Some((
                    _,
                    Message::Event { trial, .. } | Message::Ended { trial, .. } | Message::Samples { trial, .. },
                )) if trial != self.trial => {}
                heard => return Ok(heard),
            }
        }
    }

    /// Asks for its time; when that was, on our CLOCK_MONOTONIC in nanoseconds.
    fn ask_for_time(&mut self, number: u32) -> anyhow::Result<u64> {
        let asked_ns = monotonic_ns();
        self.say(&Message::Ping { number })?;
        Ok(asked_ns)
    }

    /// What it answers.
    fn hear_time(
        &mut self,
        number: u32,
        asked_ns: u64,
        deadline: Instant,
        look: &mut WaitHook<'_>,
    ) -> anyhow::Result<ClockSample> {
        loop {
            let next = look(None)?;
            match self.hear_when(deadline.min(next))? {
                Some((heard_ns, Message::Pong { number: it, monotonic_ns })) if it == number => {
                    let ahead_ns = monotonic_ns.wrapping_sub(asked_ns / 2 + heard_ns / 2) as i64;
                    return Ok(ClockSample { round_trip_ns: heard_ns.saturating_sub(asked_ns), ahead_ns });
                }
                None if Instant::now() >= deadline => return Err(self.lost(&anyhow!("it does not answer"))),
                Some(_) | None => {}
            }
        }
    }

    /// Takes in its file of samples.
    fn take_samples(
        &mut self,
        config: &LoadConfig,
        draft: &Draft,
        patience: Duration,
        look: &mut WaitHook<'_>,
    ) -> anyhow::Result<()> {
        let unwritten = |error| samples::unwritten(&draft.path, &error);
        let requests = load::schedule::count_max(config).saturating_mul(config.clients.into());
        let bytes_max = requests.saturating_mul(BYTES_PER_SAMPLE).saturating_add(BYTES_BESIDE);
        let mut file = files::create(&draft.path).map_err(unwritten)?;
        let mut total_bytes = 0;
        let mut deadline = Instant::now() + patience;
        loop {
            let next = look(None)?;
            match self.hear(next.min(deadline))? {
                Some(Message::Samples { bytes, .. }) if bytes.is_empty() => return Ok(()),
                Some(Message::Samples { bytes, .. }) => {
                    total_bytes += bytes.len() as u64;
                    if total_bytes > bytes_max {
                        return Err(self.lost(&anyhow!("it has more than {bytes_max} bytes of samples")));
                    }
                    file.write_all(&bytes).map_err(unwritten)?;
                    deadline = Instant::now() + patience;
                }
                Some(Message::Event { event, .. }) => match serde_json::from_str(&event) {
                    Ok(Event::Failed { reason, is_unwritten }) => {
                        return Err(samples::failure(self.blamed(&reason), is_unwritten));
                    }
                    _ => return Err(self.lost(&anyhow!("it said `{event:.100}` in place of its samples"))),
                },
                Some(_) => {}
                None if Instant::now() >= deadline => {
                    return Err(self.lost(&anyhow!("its samples do not come")));
                }
                None => {}
            }
        }
    }
}

impl ClientLink for ConnectedWorker {
    fn name(&self) -> String {
        format!("rank {} on {}", self.hello.rank, self.hello.host)
    }

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>> {
        match self.hear(deadline)? {
            Some(Message::Event { event, .. }) => match serde_json::from_str(&event) {
                Ok(event) => Ok(Some(ClientMessage::Event(event))),
                Err(error) => Err(self.lost(&anyhow!("it said what is not understood: {event:.200}: {error}"))),
            },
            Some(Message::Ended { used_ppm, .. }) => {
                Ok(Some(ClientMessage::Ended { used: used_ppm.map(|parts| f64::from(parts) / 1e6) }))
            }
            _ => Ok(None),
        }
    }

    fn blamed(&self, reason: &str) -> String {
        format!("{}: {reason}", self.name())
    }

    /// It would have said that its client hangs, and ended that: it is the rank itself that does.
    fn give_up(&mut self) -> String {
        self.is_lost = true;
        self.line.close();
        "it is left out from here on".to_owned()
    }
}
