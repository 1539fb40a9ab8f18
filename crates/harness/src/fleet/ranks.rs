//! Clients that are ranks of a job: the first rank's side. It meets the others over TCP, tells them what to do, and takes in
//! what they saw.

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

use super::engine::Place;
use super::frame::{self, Frame, Greeting, Hello, Line, Session};
use super::greetings::Greetings;
use super::secret::{self, Key, Proof, Side, Transcript};
use super::{
    Draft, Facts, Fleet, Gathered, Look, Member, Patience, Said, await_event, await_ready, await_report, deadline_of,
    draft_of, monotonic_ns, patience_of, placed, rank, way,
};
use crate::files;
use crate::model::order::LoadOrder;
use crate::netns::surrounding::Surrounding;
use crate::samples;
use crate::units::Cpus;
use crate::until::Until;

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
pub enum Loss {
    /// The run ends after the trial that it spoilt, and can be resumed.
    #[default]
    End,
    /// The others go on, and divide its connections and its rate among themselves.
    GoOn,
}

/// The ranks of a job besides the first.
pub struct Ranks {
    members: Vec<Rank>,
    loss: Loss,
    /// The first rank's machine...
    machine: String,
    /// ...and its network there.
    network: u64,
    /// Counts trials, so that what is said of an earlier one is known as that.
    trial: u32,
    /// CPUs of the trial's server.
    server_cpus: Vec<usize>,
    patience: Patience,
    deadline: Instant,
    /// The lab whose hosts are those of the ranks.
    surrounding: Option<Surrounding>,
}

struct Rank {
    hello: Hello,
    line: Line,
    /// The address of ours that it came to: it can reach a server there...
    ours: IpAddr,
    /// ...from this one.
    theirs: IpAddr,
    is_lost: bool,
    trial: u32,
    config: Option<LoadConfig>,
    samples: Option<Draft>,
}

impl Ranks {
    /// Meets the other ranks of a job.
    ///
    /// # Errors
    /// When the address is taken, or not all come in time: who is missing, and who came and was refused.
    pub fn meet(place: &Place, loss: Loss) -> anyhow::Result<Self> {
        let listener = listen(place.port).with_context(|| {
            format!(
                "port {} is where the ranks meet, and cannot be listened on; set MUXBENCH_RENDEZVOUS to HOST:PORT with another",
                place.port
            )
        })?;
        Self::meet_on(&listener, place, loss, Patience::USUAL)
    }

    fn meet_on(listener: &TcpListener, place: &Place, loss: Loss, patience: Patience) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        let deadline = Instant::now() + patience.meeting;
        let mut came: BTreeMap<u32, Rank> = BTreeMap::new();
        let mut refused = Refused::default();
        // Each is greeted by a thread, so that one who is slow keeps nobody waiting.
        let (sender, greeted) = mpsc::channel();
        let mut greetings = Greetings::default();
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
            machine: rank::machine(),
            network: rank::network(),
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
    pub fn facts(&self) -> Facts {
        let is_here = |member: &&Rank| member.hello.machine == self.machine;
        let cpus = |member: &Rank| {
            let beside = self.members.iter().filter(|it| it.hello.machine == member.hello.machine);
            let cpus = &member.hello.cpus;
            // As [`Fleet::broadcast`] divides them.
            let are_shared = beside.clone().all(|it| it.hello.cpus == *cpus);
            (cpus.len() / if are_shared { beside.count() } else { 1 }).max(1) as u32
        };
        let mut ways: Vec<IpAddr> = self.members.iter().map(|member| member.ours).collect();
        ways.sort();
        ways.dedup();
        let is_beside = |member: &&Rank| is_here(member) && member.hello.network == self.network;
        Facts {
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
        format!("server on {}, clients on {}", rank::host(), hosts.join(", "))
    }

    /// Which of them, the first too, may use only some of their hosts' CPUs; `None` if all may use all.
    pub fn kept_to_cpus(&self) -> Option<String> {
        let ((cpus, of_host), host) = (rank::cpus(), rank::host());
        let first = Kept { rank: 0, host: &host, cpus: &cpus, of_host };
        let others = self.members.iter().map(|member| {
            let Hello { rank, host, cpus, cpus_of_host, .. } = &member.hello;
            Kept { rank: *rank, host, cpus, of_host: *cpus_of_host }
        });
        kept_to_cpus(std::iter::once(first).chain(others))
    }

    /// Which of those on this machine may not use all CPUs that a plan has for clients here; `None` if all may.
    pub fn without_planned_cpus(&self, planned: &[usize]) -> Option<String> {
        let here = self.members.iter().filter(|member| member.hello.machine == self.machine);
        without_planned_cpus(planned, here.map(|member| (member.hello.rank, member.hello.cpus.as_slice())))
    }

    /// What requests pass through, in words.
    pub fn network(&self) -> String {
        let ways: Vec<String> = self.facts().ways.iter().map(ToString::to_string).collect();
        format!("between ranks, to {}", ways.join(", "))
    }

    fn present(&mut self) -> impl Iterator<Item = &mut Rank> {
        self.members.iter_mut().filter(|member| !member.is_lost)
    }

    /// Asks all ranks for their time, several times: what each answered.
    fn ask_for_time(&mut self, look: &mut Look<'_>) -> anyhow::Result<Vec<Answers>> {
        let (started, patience) = (Instant::now(), self.patience.rank);
        let mut all: Vec<Answers> = self.present().map(|_| Answers::default()).collect();
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
struct Kept<'a> {
    rank: u32,
    host: &'a str,
    cpus: &'a [usize],
    of_host: u32,
}

fn kept_to_cpus<'a>(ranks: impl Iterator<Item = Kept<'a>>) -> Option<String> {
    let is_kept = |it: &Kept<'_>| !it.cpus.is_empty() && it.cpus.len() < it.of_host as usize;
    let words = |it: Kept<'_>| (it.rank, format!("CPU {} of the {} of {}", in_order(it.cpus), it.of_host, it.host));
    let told = told_together(ranks.filter(is_kept).map(words))?;
    Some(format!(
        "{told}: who started them keeps them to these (`mpirun --bind-to none` and `srun --cpu-bind=none` do not)"
    ))
}

fn without_planned_cpus<'a>(planned: &[usize], ranks: impl Iterator<Item = (u32, &'a [usize])>) -> Option<String> {
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
struct Answer {
    /// How long it took, in nanoseconds.
    round_trip_ns: u64,
    /// How far the rank's CLOCK_MONOTONIC is ahead of ours, in nanoseconds: to half of that.
    ahead_ns: i64,
}

/// What one rank answered.
#[derive(Default)]
struct Answers(Vec<Answer>);

impl Answers {
    /// The quickest.
    fn best(&self) -> Answer {
        *self.0.iter().min().expect("it was asked")
    }

    /// Whether one took so much longer that something may have been lost on its way.
    fn show_loss(&self) -> bool {
        let least_ns = self.best().round_trip_ns;
        self.0.iter().any(|answer| answer.round_trip_ns >= least_ns + LOST_NS)
    }
}

/// How long it may take to tell all when to begin, in nanoseconds.
fn lead_ns(answers: &[Answers], has_loss: bool) -> u64 {
    let round_trip_ns = answers.iter().map(|answers| answers.best().round_trip_ns).max().unwrap_or(0);
    let of_loss = if has_loss || answers.iter().any(Answers::show_loss) { LEAD_NS_OF_LOSS } else { 0 };
    LEAD_NS + LEAD_NS_PER_RANK * answers.len() as u64 + LEAD_ROUND_TRIPS * round_trip_ns + of_loss
}

/// On all addresses of this host: which of them the others reach is not known.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Who came and does not belong to the fleet, as far as it is told.
#[derive(Default)]
struct Refused {
    told: Vec<String>,
    more: u64,
}

impl Refused {
    fn push(&mut self, why: String) {
        match () {
            () if self.told.contains(&why) => {}
            () if self.told.len() < REFUSED_MAX => self.told.push(why),
            () => self.more += 1,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told.iter().try_for_each(|why| write!(f, "; refused: {why}"))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; refused: {more} more"),
        }
    }
}

/// One that knows this job's secret.
struct Met {
    hello: Hello,
    /// Our own proof, for a rank that belongs to the fleet.
    proof: Proof,
    key: Key,
}

/// Finds out who has come, and whether they know this job's secret. Until they have proven that, nothing made with it is sent,
/// nor is what they say of themselves parsed.
fn greet(stream: &TcpStream, place: &Place, patience: Duration) -> anyhow::Result<Met> {
    stream.set_nonblocking(false)?;
    let mut line = Until::within(stream, way::greeting(stream, patience));
    frame::compare_versions(&mut line)?;
    let nonce = secret::nonce()?;
    frame::greet(&mut line, &Greeting::Challenge { nonce })?;
    let Greeting::Claim { hello, proof } = frame::hear_greeting(&mut line)? else {
        bail!("it does not say which rank it is")
    };
    let transcript = Transcript::new(&frame::preamble(), &nonce, &hello);
    if !place.secret.is_proven(Side::Other, &transcript, &proof) {
        let reason = "it does not know this job's secret";
        let told = format!("this job has another secret; {}", rank::SAME_SECRET);
        frame::greet(&mut line, &Greeting::Refused { reason: told })?;
        bail!(reason);
    }
    let proof = place.secret.prove(Side::First, &transcript);
    Ok(Met { hello: frame::understood_hello(&hello)?, proof, key: place.secret.session(&transcript) })
}

/// Takes in one who knows the secret, if it is a rank that is missing. One that came and is gone may come again.
fn admit(
    stream: TcpStream,
    met: Met,
    place: &Place,
    came: &BTreeMap<u32, Rank>,
    patience: Duration,
) -> anyhow::Result<Rank> {
    let Met { hello, proof, key } = met;
    let mut line = Until::within(&stream, patience);
    let is_there = came.get(&hello.rank).is_some_and(|rank| rank.line.is_there());
    let reason = match hello.rank {
        _ if hello.ranks != place.ranks => format!("it is of {} ranks, and this job has {}", hello.ranks, place.ranks),
        rank if rank == 0 || rank >= place.ranks || is_there => format!("rank {rank} is there already, or cannot be"),
        _ => {
            frame::greet(&mut line, &Greeting::Welcome { proof })?;
            let ours = stream.local_addr()?.ip().to_canonical();
            let theirs = stream.peer_addr()?.ip().to_canonical();
            let line = Line::new(Session { stream, key, side: Side::First }, |_| ())?;
            return Ok(Rank { hello, line, ours, theirs, is_lost: false, trial: 0, config: None, samples: None });
        }
    };
    frame::greet(&mut line, &Greeting::Refused { reason: reason.clone() })?;
    bail!(reason)
}

impl Fleet for Ranks {
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.trial += 1;
        self.server_cpus = order.trial.serve.cpus().to_vec();
        let Self { members, surrounding, machine, network, trial, .. } = self;
        let trial = *trial;
        let mut present: Vec<&mut Rank> = members.iter_mut().filter(|member| !member.is_lost).collect();
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
                placed(config.clone(), &planned, number, count)
            } else if beside.iter().all(|&it| places[it].cpus == *own) {
                placed(config.clone(), own, number, count)
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
            member.say(&Frame::Order { trial, order: text })?;
        }
        Ok(())
    }

    fn barrier(&mut self, look: &mut Look<'_>) -> anyhow::Result<u64> {
        let patience = self.patience;
        for member in self.present() {
            let config = member.config.clone().context("it was told of no trial")?;
            await_ready(member, patience_of(&config, patience.client + patience.rank), look)?;
        }
        let answers = self.ask_for_time(look)?;
        let has_loss = self.surrounding.as_ref().is_some_and(|lab| lab.network().loss.is_some());
        let start_ns = monotonic_ns() + lead_ns(&answers, has_loss);
        let trial = self.trial;
        for (member, answers) in self.present().zip(answers) {
            let ahead_ns = answers.best().ahead_ns;
            member.say(&Frame::Begin { trial, start_ns: start_ns.wrapping_add_signed(ahead_ns) })?;
        }
        let config = self.present().find_map(|member| member.config.clone()).context("no rank is left")?;
        self.deadline = deadline_of(&config, patience.client + patience.rank);
        Ok(start_ns)
    }

    fn gather(&mut self, look: &mut Look<'_>) -> anyhow::Result<Vec<Gathered>> {
        let (deadline, machine, trial, patience) = (self.deadline, self.machine.clone(), self.trial, self.patience);
        let server_cpus = self.server_cpus.clone();
        // Before the last has ended nobody has more to say than that: others may measure.
        let mut used = Vec::new();
        for member in self.present() {
            used.push(await_event(member, deadline, None, look, |said| match said {
                Said::Ended { used } => Ok(used),
                said @ Said::Event(_) => Err(said),
            })?);
        }
        // One after the other, so that what is on its way is one's.
        let mut gathered = Vec::new();
        for (member, used) in self.present().zip(used) {
            member.say(&Frame::Collect { trial })?;
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
            let _ = member.say(&Frame::Dismiss { trial });
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

    fn are_elsewhere(&self) -> bool {
        self.facts().are_elsewhere()
    }

    fn is_broken(&self) -> bool {
        let is_lost = |member: &Rank| member.is_lost;
        // Without any, every trial left would fail, and be finished.
        self.members.iter().all(is_lost) || self.loss == Loss::End && self.members.iter().any(is_lost)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for member in self.present() {
            let _ = member.say(&Frame::End);
        }
    }
}

impl Rank {
    fn say(&mut self, frame: &Frame) -> anyhow::Result<()> {
        self.line.say(frame).map_err(|error| self.lost(&error))
    }

    /// It is of no use any more: why, with its name. Should it still be there, it ends.
    fn lost(&mut self, why: &anyhow::Error) -> anyhow::Error {
        self.is_lost = true;
        self.line.close();
        anyhow!("{} is lost: {why}", self.name())
    }

    /// What it says of this trial, or that is of none; `None` when `deadline` passes first.
    fn hear(&mut self, deadline: Instant) -> anyhow::Result<Option<Frame>> {
        Ok(self.hear_when(deadline)?.map(|(_, frame)| frame))
    }

    /// The same, with when it came, on our CLOCK_MONOTONIC in nanoseconds.
    fn hear_when(&mut self, deadline: Instant) -> anyhow::Result<Option<(u64, Frame)>> {
        loop {
            match self.line.hear_when(deadline).map_err(|error| self.lost(&error))? {
                Some((_, Frame::Event { trial, .. } | Frame::Ended { trial, .. } | Frame::Samples { trial, .. }))
                    if trial != self.trial => {}
                heard => return Ok(heard),
            }
        }
    }

    /// Asks for its time; when that was, on our CLOCK_MONOTONIC in nanoseconds.
    fn ask_for_time(&mut self, number: u32) -> anyhow::Result<u64> {
        let asked_ns = monotonic_ns();
        self.say(&Frame::Ping { number })?;
        Ok(asked_ns)
    }

    /// What it answers.
    fn hear_time(
        &mut self,
        number: u32,
        asked_ns: u64,
        deadline: Instant,
        look: &mut Look<'_>,
    ) -> anyhow::Result<Answer> {
        loop {
            let next = look(None)?;
            match self.hear_when(deadline.min(next))? {
                Some((heard_ns, Frame::Pong { number: it, monotonic_ns })) if it == number => {
                    let ahead_ns = monotonic_ns.wrapping_sub(asked_ns / 2 + heard_ns / 2) as i64;
                    return Ok(Answer { round_trip_ns: heard_ns.saturating_sub(asked_ns), ahead_ns });
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
        look: &mut Look<'_>,
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
                Some(Frame::Samples { bytes, .. }) if bytes.is_empty() => return Ok(()),
                Some(Frame::Samples { bytes, .. }) => {
                    total_bytes += bytes.len() as u64;
                    if total_bytes > bytes_max {
                        return Err(self.lost(&anyhow!("it has more than {bytes_max} bytes of samples")));
                    }
                    file.write_all(&bytes).map_err(unwritten)?;
                    deadline = Instant::now() + patience;
                }
                Some(Frame::Event { event, .. }) => match serde_json::from_str(&event) {
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

impl Member for Rank {
    fn name(&self) -> String {
        format!("rank {} on {}", self.hello.rank, self.hello.host)
    }

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<Said>> {
        match self.hear(deadline)? {
            Some(Frame::Event { event, .. }) => match serde_json::from_str(&event) {
                Ok(event) => Ok(Some(Said::Event(event))),
                Err(error) => Err(self.lost(&anyhow!("it said what is not understood: {event:.200}: {error}"))),
            },
            Some(Frame::Ended { used_ppm, .. }) => {
                Ok(Some(Said::Ended { used: used_ppm.map(|parts| f64::from(parts) / 1e6) }))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvTimeoutError;
    use std::sync::{Arc, Barrier};

    use load::LoadReport;

    use super::super::engine::Place;
    use super::super::secret::Secret;
    use super::*;

    /// Long enough for the slowest machine: only a failing test waits for it.
    const LONG: Duration = Duration::from_secs(300);
    const PATIENT: Patience = Patience { meeting: LONG, connecting: LONG, greeting: LONG, client: LONG, rank: LONG };

    fn place(rank: u32, port: u16, secret: &str) -> Place {
        Place {
            engine: "a test",
            rank,
            ranks: 3,
            hosts: vec!["127.0.0.1".into()],
            port,
            secret: Secret::new(secret),
            weakness: None,
            transport: None,
        }
    }

    /// Where the first rank listens, and its port.
    fn meeting() -> (TcpListener, u16) {
        let listener = listen(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// Starts ranks as they are told, each in a thread, and meets them as the first.
    fn met(others: &[(u32, &'static str)], patience: Patience) -> (anyhow::Result<Ranks>, Vec<anyhow::Result<()>>) {
        let (listener, port) = meeting();
        let follow = |&(rank, secret): &(u32, &'static str)| {
            thread::spawn(move || rank::follow_within(&place(rank, port, secret), Path::new("/nonexistent"), patience))
        };
        let others: Vec<_> = others.iter().map(follow).collect();
        let first = Ranks::meet_on(&listener, &place(0, port, "open sesame"), Loss::End, patience);
        drop(listener);
        let Ok(ranks) = first else {
            return (first, others.into_iter().map(|other| other.join().unwrap()).collect());
        };
        assert!(ranks.sentence().contains("(2)"), "{}", ranks.sentence());
        assert_eq!((ranks.count(), ranks.are_elsewhere()), (2, false));
        assert_eq!(ranks.server_ip(), Some(Ipv4Addr::LOCALHOST.into()));
        let facts = ranks.facts();
        assert_eq!((facts.here, facts.elsewhere_cpus), (2, None));
        assert_eq!(facts.ways, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        assert_eq!((facts.lab, facts.beside_server), (None, vec![1, 2]));
        // All that is over is heard by the others when it is dropped.
        drop(ranks);
        (Err(anyhow!("they met")), others.into_iter().map(|other| other.join().unwrap()).collect())
    }

    #[test]
    fn ranks_meet_in_whatever_order_they_come() {
        let (first, others) = met(&[(2, "open sesame"), (1, "open sesame")], PATIENT);
        assert_eq!(first.err().unwrap().to_string(), "they met");
        assert!(others.iter().all(Result::is_ok), "{others:?}");
    }

    #[test]
    fn a_stranger_is_refused_and_who_is_missing_is_told() {
        let brief = Duration::from_secs(3);
        let patience = Patience { meeting: brief, greeting: brief, ..PATIENT };
        let (first, others) = met(&[(1, "open sesame"), (2, "open")], patience);
        let why = first.err().unwrap().to_string();
        // On a busy machine the first may be missing as well.
        assert!(why.starts_with("of 3 ranks, ") && why.contains("2 did not come to port"), "{why}");
        let why = format!("{:#}", others[1].as_ref().unwrap_err());
        assert!(why.contains("rank 2 on") && why.contains("cannot meet the first one within 3 s"), "{why}");
    }

    #[test]
    fn rank_with_another_secret_is_told_so() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let first =
            thread::spawn(move || greet(&listener.accept().unwrap().0, &place(0, port, "open sesame"), LONG).map(drop));
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let why = rank::greet(stream, &place(1, port, "open"), LONG).err().unwrap().to_string();
        assert!(why.contains("this job has another secret; set MUXBENCH_SECRET"), "{why}");
        let why = first.join().unwrap().unwrap_err().to_string();
        assert!(why.contains("does not know this job's secret"), "{why}");
    }

    /// Everything that comes until the other side has ended or says nothing more.
    fn heard_by_a_stranger(mut stream: &TcpStream) -> Vec<u8> {
        let mut heard = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let _ = std::io::Read::read_to_end(&mut stream, &mut heard);
        heard
    }

    /// What a rank says of itself, as it is sent.
    fn hello(nonce: secret::Nonce) -> Vec<u8> {
        let (machine, network, (cpus, cpus_of_host)) = (rank::machine(), rank::network(), rank::cpus());
        let hello = Hello { rank: 1, ranks: 3, host: rank::host(), machine, network, cpus, cpus_of_host, nonce };
        postcard::to_stdvec(&hello).unwrap()
    }

    /// One who greets the first rank of a job whose secret is "open sesame", and makes of its challenge what it claims; what the
    /// first rank says to that, and whether that takes it for a rank.
    fn greeted_by_a_stranger(claim: impl FnOnce(secret::Nonce) -> Greeting) -> (Vec<u8>, bool) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = place(0, port, "open sesame");
        let first = thread::spawn(move || greet(&listener.accept().unwrap().0, &place, LONG).map(drop));
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        frame::compare_versions(&mut stream).unwrap();
        let Greeting::Challenge { nonce } = frame::hear_greeting(&mut stream).unwrap() else { panic!("no challenge") };
        frame::greet(&mut stream, &claim(nonce)).unwrap();
        let heard = [&nonce[..], &heard_by_a_stranger(&stream)].concat();
        (heard, first.join().unwrap().is_ok())
    }

    #[test]
    fn stranger_gets_nothing_made_with_the_secret() {
        let (mut challenge, hello) = ([0; 32], hello([7; 32]));
        let (heard, is_met) = greeted_by_a_stranger(|nonce| {
            challenge = nonce;
            Greeting::Claim { hello: hello.clone(), proof: [7; 32] }
        });
        assert!(!is_met && heard.len() > challenge.len(), "it is told that it is refused");
        let transcript = Transcript::new(&frame::preamble(), &challenge, &hello);
        for side in [Side::First, Side::Other] {
            let made = Secret::new("open sesame").prove(side, &transcript);
            assert!(!heard.windows(made.len()).any(|it| it == made), "a secret can be guessed with that");
        }
    }

    #[test]
    fn claim_is_of_one_challenge_and_of_every_byte_of_its_hello() {
        let claim = |said: Vec<u8>, nonce, proven: &[u8]| {
            let transcript = Transcript::new(&frame::preamble(), &nonce, proven);
            Greeting::Claim { hello: said, proof: Secret::new("open sesame").prove(Side::Other, &transcript) }
        };
        let hello = hello([7; 32]);
        assert!(greeted_by_a_stranger(|nonce| claim(hello.clone(), nonce, &hello)).1);
        assert!(!greeted_by_a_stranger(|_| claim(hello.clone(), [7; 32], &hello)).1, "heard in another session");
        for at in [0, 1, hello.len() / 2, hello.len() - 1] {
            let mut changed = hello.clone();
            changed[at] ^= 1;
            assert!(!greeted_by_a_stranger(|nonce| claim(changed, nonce, &hello)).1, "byte {at}");
        }
    }

    #[test]
    fn first_rank_that_proves_nothing_is_not_followed() {
        let secret = || Secret::new("open sesame");
        // What one who does not know the secret has: a rank's own proof, and random bytes.
        for is_sent_back in [true, false] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let impostor = thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                frame::compare_versions(&mut stream).unwrap();
                frame::greet(&mut stream, &Greeting::Challenge { nonce: [7; 32] }).unwrap();
                let Greeting::Claim { hello, proof } = frame::hear_greeting(&mut stream).unwrap() else {
                    panic!("no claim")
                };
                let transcript = Transcript::new(&frame::preamble(), &[7; 32], &hello);
                assert!(secret().is_proven(Side::Other, &transcript, &proof));
                let proof = if is_sent_back { proof } else { [7; 32] };
                frame::greet(&mut stream, &Greeting::Welcome { proof }).unwrap();
            });
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let why = rank::greet(stream, &place(1, port, "open sesame"), LONG).err().unwrap().to_string();
            assert!(why.contains("does not know this job's secret; set MUXBENCH_SECRET"), "{why}");
            impostor.join().unwrap();
        }
    }

    #[test]
    fn silent_strangers_hold_up_no_rank() {
        let (listener, port) = meeting();
        let patience = Patience { meeting: Duration::from_secs(20), ..PATIENT };
        let silent: Vec<TcpStream> =
            (0..10).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        let first =
            thread::spawn(move || Ranks::meet_on(&listener, &place(0, port, "open sesame"), Loss::End, patience));
        let more: Vec<TcpStream> = (0..256).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        let others = [1, 2].map(|rank| thread::spawn(move || rank::meet(&place(rank, port, "open sesame"), patience)));
        let met = first.join().unwrap();
        drop((silent, more));
        assert!(met.is_ok(), "{}", met.err().unwrap());
        others.into_iter().for_each(|other| drop(other.join().unwrap().unwrap()));
    }

    #[test]
    fn ranks_that_may_not_use_all_cpus_are_told_together() {
        let told = |ranks: &[(u32, &str, Vec<usize>, u32)]| {
            let kept = |(rank, host, cpus, of_host): &(u32, &str, Vec<usize>, u32)| {
                kept_to_cpus(std::iter::once(Kept { rank: *rank, host, cpus, of_host: *of_host })).is_some()
            };
            let all =
                ranks.iter().map(|(rank, host, cpus, of_host)| Kept { rank: *rank, host, cpus, of_host: *of_host });
            (ranks.iter().filter(|it| kept(it)).count(), kept_to_cpus(all).unwrap_or_default())
        };
        let all = [(0, "a", vec![0, 1], 2), (1, "b", vec![], 4), (2, "c", vec![0, 1], 0)];
        assert_eq!(told(&all), (0, String::new()), "all may use all, or it is not known");
        let some = [(0, "a", vec![4, 0, 1], 8), (1, "b", vec![0], 2), (2, "b", vec![0], 2), (3, "b", vec![0, 1], 2)];
        let (kept, words) = told(&some);
        let expected =
            "rank 0 may use CPU 0-1,4 of the 8 of a; ranks 1, 2 may use CPU 0 of the 2 of b: who started them";
        assert!(kept == 3 && words.starts_with(expected), "{words}");
        let many: Vec<_> = (0..20).map(|rank| (rank, "a", vec![rank as usize], 64)).collect();
        let (kept, words) = told(&many);
        assert!(
            kept == 20 && words.contains("; rank 7 may use CPU 7 of the 64 of a; and so it is with 12 more: "),
            "{words}"
        );
    }

    #[test]
    fn ranks_that_may_not_use_what_a_plan_has_for_them_are_told() {
        let told = |ranks: &[(u32, &[usize])]| without_planned_cpus(&[2, 3], ranks.iter().copied()).unwrap_or_default();
        assert_eq!(told(&[(1, &[0, 1, 2, 3]), (2, &[2, 3]), (3, &[])]), "");
        assert_eq!(
            told(&[(1, &[0, 1]), (2, &[2]), (3, &[0, 1])]),
            "the plan has clients on CPU 2-3 of the server's host, and ranks 1, 3 may use none of them, but CPU 0-1; rank 2 \
             may use CPU 2 alone"
        );
    }

    #[test]
    fn so_many_of_the_refused_are_told() {
        let mut refused = Refused::default();
        assert_eq!(refused.to_string(), "");
        for number in [1, 1, 2] {
            refused.push(format!("a{number}"));
        }
        assert_eq!(refused.to_string(), "; refused: a1; refused: a2");
        (0..100).for_each(|number| refused.push(format!("b{number}")));
        let told = refused.to_string();
        assert!(told.ends_with("; refused: b5; refused: 94 more"), "{told}");
    }

    #[test]
    fn a_stranger_who_says_a_byte_now_and_then_keeps_nobody_waiting() {
        let ((listener, port), is_there) = (meeting(), Arc::new(Barrier::new(3)));
        let (over, is_over) = mpsc::channel::<()>();
        let came = is_there.clone();
        let stranger = thread::spawn(move || {
            let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            came.wait();
            while is_over.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout) {
                let _ = stranger.write_all(b"m");
            }
        });
        // A greeting could go on for longer than ranks are waited for.
        let patience = Patience { greeting: 2 * LONG, ..PATIENT };
        let follow = |rank| {
            let is_there = is_there.clone();
            thread::spawn(move || {
                is_there.wait();
                rank::follow_within(&place(rank, port, "open sesame"), Path::new("/nonexistent"), patience)
            })
        };
        let others = [1, 2].map(follow);
        drop(Ranks::meet_on(&listener, &place(0, port, "open sesame"), Loss::End, patience).unwrap());
        assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
        drop(over);
        stranger.join().unwrap();
    }

    /// A rank that says what a test has it say.
    struct Puppet(Line);

    impl Puppet {
        /// Meets the first rank.
        fn met(place: &Place) -> Self {
            Self(Line::new(rank::meet(place, PATIENT).unwrap(), |_| ()).unwrap())
        }

        fn hear(&self) -> Frame {
            self.0.hear(Instant::now() + LONG).unwrap().expect("something is said")
        }

        fn tell(&self, trial: u32, event: &Event) {
            self.0.say(&Frame::Event { trial, event: serde_json::to_string(event).unwrap() }).unwrap();
        }

        /// Does what it is told until its client has begun; which trial that is.
        fn begin(&self) -> u32 {
            loop {
                match self.hear() {
                    Frame::Order { trial, .. } => self.tell(trial, &Event::Ready),
                    Frame::Ping { number } => {
                        self.0.say(&Frame::Pong { number, monotonic_ns: monotonic_ns() }).unwrap();
                    }
                    Frame::Begin { trial, .. } => return trial,
                    frame => panic!("{frame:?}"),
                }
            }
        }
    }

    fn trial() -> crate::record::Trial {
        let experiment = crate::presets::find("compare").unwrap().experiment();
        crate::plan::plan(&experiment, &crate::host::Host::this()).unwrap().trials.remove(0)
    }

    fn look_now_and_then(_: Option<&Event>) -> anyhow::Result<Instant> {
        Ok(Instant::now() + Duration::from_millis(200))
    }

    #[test]
    fn nobody_is_asked_for_an_account_before_all_have_ended() {
        let (listener, port) = meeting();
        let (first_waits, second_ends) = mpsc::channel::<()>();
        let (first_is_through, second_is_asked) = mpsc::channel::<()>();
        let account = |puppet: &Puppet, trial| {
            assert_eq!(puppet.hear(), Frame::Collect { trial });
            puppet.tell(trial, &Event::Finished { report: Box::new(crate::verdict::tests::healthy()) });
            puppet.0.say(&Frame::Samples { trial, bytes: Vec::new() }).unwrap();
        };
        let first = thread::spawn(move || {
            let puppet = Puppet::met(&place(1, port, "open sesame"));
            let trial = puppet.begin();
            puppet.0.say(&Frame::Ended { trial, used_ppm: Some(250_000) }).unwrap();
            assert_eq!(puppet.0.hear(Instant::now() + Duration::from_millis(500)).unwrap(), None, "others measure");
            first_waits.send(()).unwrap();
            account(&puppet, trial);
            first_is_through.send(()).unwrap();
            assert_eq!(puppet.hear(), Frame::Dismiss { trial });
        });
        let second = thread::spawn(move || {
            let puppet = Puppet::met(&place(2, port, "open sesame"));
            let trial = puppet.begin();
            second_ends.recv().unwrap();
            puppet.0.say(&Frame::Ended { trial, used_ppm: None }).unwrap();
            account(&puppet, trial);
            // The first one's samples are all there by then, or this waits for what does not come.
            second_is_asked.recv_timeout(LONG).unwrap();
            assert_eq!(puppet.hear(), Frame::Dismiss { trial });
        });
        let folder = tempfile::tempdir().unwrap();
        let mut ranks = Ranks::meet_on(&listener, &place(0, port, "open sesame"), Loss::End, PATIENT).unwrap();
        let mut trial = trial();
        if let server::Subject::Ours(serve) = &mut trial.serve {
            // What was in use of CPUs that the server has too would not be told.
            serve.cpus = vec![usize::MAX];
        }
        let order = LoadOrder::new(trial.load.clone(), trial);
        ranks.broadcast(&order, &folder.path().join("draft")).unwrap();
        ranks.barrier(&mut look_now_and_then).unwrap();
        let gathered = ranks.gather(&mut look_now_and_then).unwrap();
        ranks.dismiss();
        let used: Vec<Option<f64>> = gathered.iter().map(|it| it.account.cpus_used).collect();
        assert_eq!(used, [Some(0.25), None]);
        first.join().unwrap();
        second.join().unwrap();
    }

    #[test]
    fn ranks_are_told_so_early_that_all_hear_it_in_time() {
        let answers = |ms: &[u64]| {
            let answer = |ms: &u64| Answer { round_trip_ns: ms * 1_000_000, ahead_ns: 7 };
            Answers(ms.iter().map(answer).collect())
        };
        let ms = |all: &[Answers], has_loss| lead_ns(all, has_loss) / 1_000_000;
        assert_eq!(ms(&[answers(&[0; 8]), answers(&[0; 8])], false), 60, "as before there were networks with delays");
        // The best of each, and of these the greatest.
        assert_eq!(ms(&[answers(&[200, 299]), answers(&[3, 4])], false), 60 + 400);
        assert_eq!(ms(&[answers(&[200, 299]), answers(&[3, 103])], false), 60 + 400 + 500, "something was lost");
        assert_eq!(ms(&[answers(&[1])], true), 55 + 2 + 500);
    }

    #[test]
    fn all_are_asked_for_their_time_before_any_has_answered_and_not_for_long() {
        let (listener, port) = meeting();
        let all_are_asked = Arc::new(Barrier::new(2));
        let rank = |rank| {
            let all_are_asked = all_are_asked.clone();
            thread::spawn(move || {
                let puppet = Puppet::met(&place(rank, port, "open sesame"));
                assert!(matches!(puppet.hear(), Frame::Order { .. }));
                puppet.tell(1, &Event::Ready);
                assert_eq!(puppet.hear(), Frame::Ping { number: 0 });
                all_are_asked.wait();
                thread::sleep(PINGS_MAX);
                puppet.0.say(&Frame::Pong { number: 0, monotonic_ns: monotonic_ns() }).unwrap();
                assert!(matches!(puppet.hear(), Frame::Begin { trial: 1, .. }), "it took long enough");
            })
        };
        let others = [1, 2].map(rank);
        let mut ranks = Ranks::meet_on(&listener, &place(0, port, "open sesame"), Loss::End, PATIENT).unwrap();
        let (trial, folder, before_ns) = (trial(), tempfile::tempdir().unwrap(), monotonic_ns());
        let order = LoadOrder::new(trial.load.clone(), trial);
        ranks.broadcast(&order, &folder.path().join("draft")).unwrap();
        let start_ns = ranks.barrier(&mut look_now_and_then).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        // What the answers took, and twice that.
        assert!(start_ns - before_ns >= 3 * PINGS_MAX.as_nanos() as u64);
    }

    #[test]
    fn a_rank_that_hangs_is_lost_and_told_by_its_name() {
        let (listener, port) = meeting();
        let place = move |rank| Place { ranks: 2, ..place(rank, port, "open sesame") };
        let hanging = thread::spawn(move || {
            let puppet = Puppet::met(&place(1));
            assert!(matches!(puppet.hear(), Frame::Order { .. }));
            // Had it slept, it would find this when it wakes.
            let is_over = |heard: anyhow::Result<Option<Frame>>| heard.is_err();
            assert!(is_over(puppet.0.hear(Instant::now() + LONG)));
        });
        let brief = Duration::from_millis(200);
        let patience = Patience { client: brief, rank: brief, ..PATIENT };
        let mut ranks = Ranks::meet_on(&listener, &place(0), Loss::End, patience).unwrap();
        let trial = trial();
        let config = LoadConfig { timeout_ns: 0, ..trial.load.clone() };
        let folder = tempfile::tempdir().unwrap();
        ranks.broadcast(&LoadOrder::new(config, trial), &folder.path().join("draft")).unwrap();
        let why = ranks.barrier(&mut look_now_and_then).unwrap_err().to_string();
        assert!(why.starts_with("rank 1 on ") && why.contains("it hangs"), "{why}");
        assert!(ranks.is_broken());
        hanging.join().unwrap();
    }

    /// Requests of each client, whose samples take many frames.
    const SAMPLES: i64 = 30_000;

    /// A program that does as a client does: it is ready, begins when told, and gives an account, and samples, that are there.
    fn client(folder: &Path) -> std::path::PathBuf {
        let samples = |at| load::Sample {
            planned_ns: at * 1_000,
            sent_ns: at * 1_000 + 7,
            complete_ns: at * 1_000 + 50_000 + at * at % 7_919,
            connection: (at % 2) as u32,
            ..load::Sample::UNKNOWN
        };
        let samples: Vec<load::Sample> = (0..SAMPLES).map(samples).collect();
        crate::samples::write(&folder.join("samples"), &samples, &[]).unwrap();
        let window_ns = SAMPLES as u64 * 1_000;
        let measured =
            |difference: fn(&load::Sample) -> Option<i64>| load::summary::measured(&samples, window_ns, difference);
        let report = LoadReport {
            window_ns,
            planned: SAMPLES as u64,
            connections: 2,
            active: 2,
            lag: measured(load::summary::lag_ns),
            service: measured(load::summary::service_ns),
            response: measured(load::summary::response_ns),
            ..crate::verdict::tests::healthy()
        };
        let said = serde_json::to_string(&Event::Finished { report: Box::new(report) }).unwrap();
        std::fs::write(folder.join("said"), said + "\n").unwrap();
        let (ready, place) = (serde_json::to_string(&Event::Ready).unwrap(), folder.display());
        // Where a file says so, it hangs.
        let script = format!(
            "#!/bin/sh\nread order\necho '{ready}'\nread begin\n[ ! -e {place}/hangs ] || exec sleep 1000\n\
             cp {place}/samples \"$4\"\ncat {place}/said\nread end\n"
        );
        let path = folder.join("client");
        crate::process::child::write_program(&path, &script);
        path
    }

    #[test]
    fn what_five_ranks_saw_is_gathered_whole_in_each_trial() {
        let folder = tempfile::tempdir().unwrap();
        let (program, (listener, port)) = (client(folder.path()), meeting());
        let place = move |rank| Place { ranks: 6, ..place(rank, port, "open sesame") };
        let follow = |rank| {
            let program = program.clone();
            thread::spawn(move || rank::follow_within(&place(rank), &program, PATIENT))
        };
        let others: Vec<_> = (1..6).map(follow).collect();
        let mut ranks = Ranks::meet_on(&listener, &place(0), Loss::End, PATIENT).unwrap();
        let trial = trial();
        let config = LoadConfig { connections: 10, processes: 5, ..trial.load.clone() };
        let order = LoadOrder::new(config, trial);
        let draft = folder.path().join("draft");
        let mut look = look_now_and_then;
        for _ in 0..2 {
            ranks.broadcast(&order, &draft).unwrap();
            let before_ns = monotonic_ns();
            assert!(ranks.barrier(&mut look).unwrap() > before_ns);
            let gathered = ranks.gather(&mut look).unwrap();
            ranks.dismiss();
            let started = Instant::now();
            let report = super::super::merge(&order, gathered, &draft).unwrap();
            println!("{} samples merged in {:?}", report.planned, started.elapsed());
            assert_eq!((report.planned, report.lag.distribution.count), (5 * SAMPLES as u64, 5 * SAMPLES as u64));
            assert_eq!(report.processes.len(), 5);
            let samples = crate::samples::read(&draft).unwrap();
            assert_eq!(samples.len() as u64, report.planned);
            assert!((0..5).all(|client| samples.iter().filter(|it| it.client == client).count() as i64 == SAMPLES));
            assert!(samples.iter().all(|it| it.connection / 2 == it.client));
        }
        drop(ranks);
        assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
    }

    #[test]
    fn a_client_that_hangs_fails_its_trial_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (program, (listener, port)) = (client(folder.path()), meeting());
        let place = move |rank| Place { ranks: 2, ..place(rank, port, "open sesame") };
        let patience = Patience { client: Duration::from_secs(1), ..PATIENT };
        let other = thread::spawn(move || rank::follow_within(&place(1), &program, patience));
        let mut ranks = Ranks::meet_on(&listener, &place(0), Loss::End, PATIENT).unwrap();
        let (trial, draft) = (trial(), folder.path().join("draft"));
        // How long a client may take after it has begun: in a trial with a long drain, long enough for any machine.
        let phases = |drain_ns| load::config::Phases { ramp_ns: 0, hold_ns: 0, measure_ns: 30_000_000, drain_ns };
        let order = |drain_ns| {
            let config =
                LoadConfig { timeout_ns: LONG.as_nanos() as u64, phases: phases(drain_ns), ..trial.load.clone() };
            LoadOrder::new(config, trial.clone())
        };
        let hangs = folder.path().join("hangs");
        std::fs::write(&hangs, "").unwrap();
        ranks.broadcast(&order(0), &draft).unwrap();
        ranks.barrier(&mut look_now_and_then).unwrap();
        let why = ranks.gather(&mut look_now_and_then).err().unwrap().to_string();
        assert!(why.starts_with("rank 1 on ") && why.contains("it hangs") && why.contains("SIGKILL"), "{why}");
        ranks.dismiss();
        assert!(!ranks.is_broken());

        std::fs::remove_file(&hangs).unwrap();
        let order = order(LONG.as_nanos() as u64);
        ranks.broadcast(&order, &draft).unwrap();
        ranks.barrier(&mut look_now_and_then).unwrap();
        let gathered = ranks.gather(&mut look_now_and_then).unwrap();
        ranks.dismiss();
        assert_eq!(super::super::merge(&order, gathered, &draft).unwrap().planned, SAMPLES as u64);
        drop(ranks);
        other.join().unwrap().unwrap();
    }

    #[test]
    fn one_rank_comes_once_unless_it_is_gone() {
        let (listener, port) = meeting();
        let place = move |rank| place(rank, port, "open sesame");
        let first = thread::spawn(move || Ranks::meet_on(&listener, &place(0), Loss::End, PATIENT));
        let one = Puppet::met(&place(1));
        let patience = Patience { meeting: Duration::from_secs(1), ..PATIENT };
        let why = format!("{:#}", rank::meet(&place(1), patience).err().unwrap());
        assert!(why.contains("is there already"), "{why}");
        drop(one);
        let others = [1, 2].map(|rank| Puppet::met(&place(rank)));
        let ranks = first.join().unwrap().unwrap();
        assert!(ranks.members.iter().all(|member| member.line.is_there()));
        drop(ranks);
        assert!(others.iter().all(|other| other.hear() == Frame::End));
    }
}
