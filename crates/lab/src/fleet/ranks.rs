//! Clients that are ranks of a job: the first rank's side. It meets the others over TCP, tells them what to do, and takes in
//! what they saw.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use load::Event;
use load::config::LoadConfig;
use load::merge::Account;
use wire::Address;

use super::engine::Place;
use super::frame::{self, Frame, Hello, Line};
use super::secret::{self, Side};
use super::{
    CLIENT_PATIENCE, Draft, Fleet, Gathered, Look, Member, await_ready, await_report, deadline_of, draft_of,
    monotonic_ns, placed, rank,
};
use crate::network::Network;
use crate::network::surrounding::Surrounding;
use crate::runner::LoadOrder;
use crate::samples;

/// Engines may take so long to start all of a job.
pub(super) const MEETING_MAX: Duration = Duration::from_secs(120);
/// What a greeting may take.
pub(super) const GREETING_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody has come.
const LOOK: Duration = Duration::from_millis(20);
/// How often a rank is asked for its time before each trial: the quickest answer says it best.
const PINGS: u32 = 8;
/// Between the last rank's being ready and the beginning of all, in nanoseconds: what telling them may take.
const LEAD_NS: u64 = 50_000_000;
/// ...and so much longer for each of them.
const LEAD_NS_PER_RANK: u64 = 5_000_000;
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
    /// The first rank's machine.
    machine: String,
    /// Counts trials, so that what is said of an earlier one is known as that.
    trial: u32,
    deadline: Instant,
    /// The lab whose hosts are those of the ranks.
    surrounding: Option<Surrounding>,
}

struct Rank {
    hello: Hello,
    line: Line,
    /// The address of ours that it came to: it can reach a server there.
    ours: IpAddr,
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
        Self::meet_within(place, loss, MEETING_MAX)
    }

    fn meet_within(place: &Place, loss: Loss, meeting_max: Duration) -> anyhow::Result<Self> {
        let listener = listen(place.port).with_context(|| {
            format!(
                "port {} is where the ranks meet, and cannot be listened on; set MUXBENCH_RENDEZVOUS to HOST:PORT with another",
                place.port
            )
        })?;
        listener.set_nonblocking(true)?;
        let deadline = Instant::now() + meeting_max;
        let mut came: BTreeMap<u32, Rank> = BTreeMap::new();
        let mut refused = Vec::new();
        while came.len() as u32 + 1 < place.ranks {
            if Instant::now() >= deadline {
                let missing: Vec<String> =
                    (1..place.ranks).filter(|rank| !came.contains_key(rank)).map(|rank| rank.to_string()).collect();
                bail!(
                    "of {} ranks, {} did not come to port {} within {} s{}",
                    place.ranks,
                    missing.join(", "),
                    place.port,
                    meeting_max.as_secs(),
                    refused.iter().map(|why| format!("; refused: {why}")).collect::<String>()
                );
            }
            let Ok((stream, peer)) = listener.accept() else {
                thread::sleep(LOOK);
                continue;
            };
            match greet(stream, place, &came) {
                Ok(rank) => drop(came.insert(rank.hello.rank, rank)),
                Err(error) => {
                    let why = format!("{}: {error:#}", peer.ip());
                    if !refused.contains(&why) {
                        refused.push(why);
                    }
                }
            }
        }
        let members = came.into_values().collect();
        let machine = rank::machine();
        Ok(Self { members, loss, machine, trial: 0, deadline: Instant::now(), surrounding: None })
    }

    /// The same on the hosts of a lab.
    #[must_use]
    pub fn within(mut self, surrounding: Option<Surrounding>) -> Self {
        self.surrounding = surrounding;
        self
    }

    /// The network of the lab that they are in, if they are in one.
    pub fn lab(&self) -> Option<&Network> {
        self.surrounding.as_ref().map(Surrounding::network)
    }

    /// How many clients there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Whether none of them is on our machine, which is the server's alone then.
    pub fn are_elsewhere(&self) -> bool {
        self.members.iter().all(|member| member.hello.machine != self.machine)
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

    /// What requests pass through, in words.
    pub fn network(&self) -> String {
        let mut ways: Vec<String> = self.members.iter().map(|member| member.ours.to_string()).collect();
        ways.sort();
        ways.dedup();
        format!("between ranks, to {}", ways.join(", "))
    }

    fn present(&mut self) -> impl Iterator<Item = &mut Rank> {
        self.members.iter_mut().filter(|member| !member.is_lost)
    }
}

/// On all addresses of this host: which of them the others reach is not known.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Finds out who has come, and whether they belong to the fleet.
fn greet(mut stream: TcpStream, place: &Place, came: &BTreeMap<u32, Rank>) -> anyhow::Result<Rank> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(GREETING_MAX))?;
    stream.set_write_timeout(Some(GREETING_MAX))?;
    frame::compare_versions(&mut stream)?;
    let Frame::Hello(hello) = frame::hear_greeting(&stream)? else { bail!("it does not say which rank it is") };
    let nonce = secret::nonce()?;
    let proof = place.secret.prove(Side::First, &hello.nonce, hello.rank);
    frame::say(&stream, &Frame::Challenge { proof, nonce })?;
    let belongs = match frame::hear_greeting(&stream)? {
        Frame::Proof(proof) if !place.secret.is_proven(Side::Other, &nonce, hello.rank, &proof) => {
            Err("it does not know this job's secret".to_owned())
        }
        Frame::Proof(_) if hello.ranks != place.ranks => {
            Err(format!("it is of {} ranks, and this job has {}", hello.ranks, place.ranks))
        }
        Frame::Proof(_) if hello.rank == 0 || hello.rank >= place.ranks || came.contains_key(&hello.rank) => {
            Err(format!("rank {} is there already, or cannot be", hello.rank))
        }
        Frame::Proof(_) => Ok(()),
        _ => Err("it does not answer".to_owned()),
    };
    if let Err(reason) = belongs {
        frame::say(&stream, &Frame::Refused { reason: reason.clone() })?;
        bail!(reason);
    }
    frame::say(&stream, &Frame::Welcome)?;
    let ours = stream.local_addr()?.ip().to_canonical();
    let line = Line::new(stream, |_| ())?;
    Ok(Rank { hello, line, ours, is_lost: false, trial: 0, config: None, samples: None })
}

impl Fleet for Ranks {
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.trial += 1;
        let (trial, machine) = (self.trial, self.machine.clone());
        let mut present: Vec<&mut Rank> = self.present().collect();
        ensure!(!present.is_empty(), "no rank is left that could be a client");
        // Of those that are lost, the others take their parts.
        let processes = present.len() as u32;
        let parts = LoadConfig { processes, ..order.config.clone() }.parts();
        let places: Vec<(String, Vec<usize>)> =
            present.iter().map(|member| (member.hello.machine.clone(), member.hello.cpus.clone())).collect();
        for (at, (member, config)) in present.iter_mut().zip(&parts).enumerate() {
            let beside: Vec<usize> = (0..places.len()).filter(|&it| places[it].0 == places[at].0).collect();
            let (number, count) = (beside.iter().filter(|&&it| it < at).count(), beside.len());
            let own = &member.hello.cpus;
            // Where the server is too, clients keep to the CPUs that the plan has for them.
            let planned: Vec<usize> = order.config.cpus.iter().copied().filter(|cpu| own.contains(cpu)).collect();
            let config = if member.hello.machine == machine && !planned.is_empty() {
                placed(config.clone(), &planned, number, count)
            } else if beside.iter().all(|&it| places[it].1 == *own) {
                placed(config.clone(), own, number, count)
            } else {
                // The engine has given each its own.
                LoadConfig { cpus: own.clone(), ..config.clone() }
            };
            // Others of that machine take its ports too.
            let others: u32 = beside.iter().filter(|&&it| it != at).map(|&it| parts[it].connections).sum();
            let idle = if member.hello.machine == machine { order.config.idle } else { 0 };
            let target = match &config.target {
                Address::Ip(address) => Address::Ip(SocketAddr::new(member.ours, address.port())),
                Address::Unix(path) => Address::Unix(path.clone()),
            };
            let config = LoadConfig { idle: idle + others, target, ..config };
            let text = serde_json::to_string(&LoadOrder { config: config.clone(), trial: order.trial.clone() })?;
            member.trial = trial;
            member.samples = Some(Draft::new(draft_of(draft, at), false));
            member.config = Some(config);
            member.say(&Frame::Order { trial, order: text })?;
        }
        Ok(())
    }

    fn barrier(&mut self, look: &mut Look<'_>) -> anyhow::Result<u64> {
        for member in self.present() {
            let config = member.config.clone().context("it was told of no trial")?;
            await_ready(member, &config, look)?;
        }
        let mut ahead_ns = Vec::new();
        for member in self.present() {
            ahead_ns.push(member.ahead_ns()?);
        }
        let start_ns = monotonic_ns() + LEAD_NS + LEAD_NS_PER_RANK * ahead_ns.len() as u64;
        let trial = self.trial;
        for (member, ahead_ns) in self.present().zip(ahead_ns) {
            member.say(&Frame::Begin { trial, start_ns: start_ns.wrapping_add_signed(ahead_ns) })?;
        }
        let config = self.present().find_map(|member| member.config.clone()).context("no rank is left")?;
        self.deadline = deadline_of(&config);
        Ok(start_ns)
    }

    fn gather(&mut self, look: &mut Look<'_>) -> anyhow::Result<Vec<Gathered>> {
        let (deadline, machine) = (self.deadline, self.machine.clone());
        let mut gathered = Vec::new();
        for member in self.present() {
            let report = await_report(member, deadline, look)?;
            let config = member.config.take().context("it was told of no trial")?;
            let samples = member.samples.take().context("it was told of no trial")?;
            member.take_samples(&config, &samples, look)?;
            let Hello { rank, host, machine: its, .. } = &member.hello;
            let place = if *its == machine { format!("rank {rank}") } else { format!("rank {rank} on {host}") };
            gathered.push(Gathered { account: Account { config, machine: its.clone(), place, report }, samples });
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

    /// It is of no use any more: why, with its name.
    fn lost(&mut self, why: &anyhow::Error) -> anyhow::Error {
        self.is_lost = true;
        anyhow::anyhow!("{} is lost: {why}", self.name())
    }

    /// What it says of this trial, or that is of none; `None` when `deadline` passes first.
    fn hear(&mut self, deadline: Instant) -> anyhow::Result<Option<Frame>> {
        loop {
            match self.line.hear(deadline).map_err(|error| self.lost(&error))? {
                Some(Frame::Event { trial, .. } | Frame::Samples { trial, .. }) if trial != self.trial => {}
                frame => return Ok(frame),
            }
        }
    }

    /// How far its CLOCK_MONOTONIC is ahead of ours, in nanoseconds: to half of the time that the quickest answer took.
    fn ahead_ns(&mut self) -> anyhow::Result<i64> {
        let mut best: Option<(u64, i64)> = None;
        for number in 0..PINGS {
            let before_ns = monotonic_ns();
            self.say(&Frame::Ping { number })?;
            let deadline = Instant::now() + CLIENT_PATIENCE;
            let theirs_ns = loop {
                match self.hear(deadline)? {
                    Some(Frame::Pong { number: it, monotonic_ns }) if it == number => break monotonic_ns,
                    Some(_) => {}
                    None => return Err(self.lost(&anyhow::anyhow!("it does not answer"))),
                }
            };
            let after_ns = monotonic_ns();
            let ahead_ns = theirs_ns.wrapping_sub(before_ns / 2 + after_ns / 2) as i64;
            best = best.into_iter().chain([(after_ns - before_ns, ahead_ns)]).min();
        }
        Ok(best.expect("it was asked").1)
    }

    /// Takes in its file of samples.
    fn take_samples(&mut self, config: &LoadConfig, draft: &Draft, look: &mut Look<'_>) -> anyhow::Result<()> {
        let unwritten = |error| samples::unwritten(&draft.path, &error);
        let requests = load::schedule::count_max(config) * u64::from(config.clients);
        let bytes_max = requests * BYTES_PER_SAMPLE + BYTES_BESIDE;
        let mut file = File::create(&draft.path).map_err(unwritten)?;
        let mut total_bytes = 0;
        let mut deadline = Instant::now() + CLIENT_PATIENCE;
        loop {
            let next = look(None)?;
            match self.hear(next.min(deadline))? {
                Some(Frame::Samples { bytes, .. }) if bytes.is_empty() => return Ok(()),
                Some(Frame::Samples { bytes, .. }) => {
                    total_bytes += bytes.len() as u64;
                    ensure!(total_bytes <= bytes_max, "{}: more than {bytes_max} bytes of samples", self.name());
                    file.write_all(&bytes).map_err(unwritten)?;
                    deadline = Instant::now() + CLIENT_PATIENCE;
                }
                Some(Frame::Event { event, .. }) => match serde_json::from_str(&event) {
                    Ok(Event::Failed { reason, is_unwritten }) => {
                        return Err(samples::failure(format!("{}: {reason}", self.name()), is_unwritten));
                    }
                    _ => bail!("{}: said `{event:.100}` in place of its samples", self.name()),
                },
                Some(_) => {}
                None if Instant::now() >= deadline => {
                    return Err(self.lost(&anyhow::anyhow!("its samples do not come")));
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

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<Event>> {
        let Some(Frame::Event { event, .. }) = self.hear(deadline)? else { return Ok(None) };
        let event = serde_json::from_str(&event)
            .with_context(|| format!("{} said what is not understood: {event:.200}", self.name()))?;
        Ok(Some(match event {
            Event::Failed { reason, is_unwritten } => {
                Event::Failed { reason: format!("{}: {reason}", self.name()), is_unwritten }
            }
            event => event,
        }))
    }

    fn give_up(&mut self) -> String {
        self.is_lost = true;
        "it is left out from here on".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use load::LoadReport;

    use super::super::engine::Place;
    use super::super::secret::Secret;
    use super::*;

    fn place(rank: u32, port: u16, secret: &str) -> Place {
        Place {
            engine: "a test",
            rank,
            ranks: 3,
            hosts: vec!["127.0.0.1".into()],
            port,
            secret: Secret::new(secret),
            weakness: None,
        }
    }

    fn free_port() -> u16 {
        listen(0).unwrap().local_addr().unwrap().port()
    }

    /// Starts ranks as they are told, each in a thread, and meets them as the first.
    fn met(others: &[(u32, &'static str)], meeting_max: Duration) -> (anyhow::Result<Ranks>, Vec<anyhow::Result<()>>) {
        let port = free_port();
        let follow = |&(rank, secret): &(u32, &'static str)| {
            thread::spawn(move || {
                rank::follow_within(&place(rank, port, secret), Path::new("/nonexistent"), meeting_max)
            })
        };
        let others: Vec<_> = others.iter().map(follow).collect();
        let first = Ranks::meet_within(&place(0, port, "open sesame"), Loss::End, meeting_max);
        let sentence = first.as_ref().map(Ranks::sentence);
        let first = match sentence {
            // All that is over is heard by the others when it is dropped.
            Ok(sentence) => {
                assert!(sentence.contains("(2)"), "{sentence}");
                let ranks = first.unwrap();
                assert_eq!((ranks.count(), ranks.are_elsewhere()), (2, false));
                assert_eq!(ranks.server_ip(), Some(Ipv4Addr::LOCALHOST.into()));
                drop(ranks);
                Err(anyhow::anyhow!("they met"))
            }
            Err(_) => first,
        };
        (first, others.into_iter().map(|other| other.join().unwrap()).collect())
    }

    #[test]
    fn ranks_meet_in_whatever_order_they_come() {
        let (first, others) = met(&[(2, "open sesame"), (1, "open sesame")], Duration::from_secs(60));
        assert_eq!(first.err().unwrap().to_string(), "they met");
        assert!(others.iter().all(Result::is_ok), "{others:?}");
    }

    #[test]
    fn a_stranger_is_refused_and_who_is_missing_is_told() {
        let (first, others) = met(&[(1, "open sesame"), (2, "open")], Duration::from_secs(3));
        let why = first.err().unwrap().to_string();
        assert!(why.starts_with("of 3 ranks, 2 did not come"), "{why}");
        let why = format!("{:#}", others[1].as_ref().unwrap_err());
        assert!(why.contains("rank 2 on") && why.contains("does not know this job's secret"), "{why}");
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
            lag: measured(load::summary::lag_ns),
            service: measured(load::summary::service_ns),
            response: measured(load::summary::response_ns),
            ..crate::verdict::tests::healthy()
        };
        let said = serde_json::to_string(&Event::Finished { report: Box::new(report) }).unwrap();
        std::fs::write(folder.join("said"), said + "\n").unwrap();
        let (ready, place) = (serde_json::to_string(&Event::Ready).unwrap(), folder.display());
        let script = format!(
            "#!/bin/sh\nread order\necho '{ready}'\nread begin\ncp {place}/samples \"$4\"\ncat {place}/said\nread end\n"
        );
        let path = folder.join("client");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn what_five_ranks_saw_is_gathered_whole_in_each_trial() {
        let folder = tempfile::tempdir().unwrap();
        let (program, port) = (client(folder.path()), free_port());
        let place = move |rank| Place { ranks: 6, ..place(rank, port, "open sesame") };
        let follow = |rank| {
            let program = program.clone();
            thread::spawn(move || rank::follow_within(&place(rank), &program, Duration::from_secs(60)))
        };
        let others: Vec<_> = (1..6).map(follow).collect();
        let mut ranks = Ranks::meet_within(&place(0), Loss::End, Duration::from_secs(60)).unwrap();
        let experiment = crate::presets::find("compare").unwrap().experiment();
        let trial = crate::plan::plan(&experiment, &crate::host::Host::this()).unwrap().trials.remove(0);
        let config = LoadConfig { connections: 10, processes: 5, ..trial.load.clone() };
        let order = LoadOrder { config, trial };
        let draft = folder.path().join("draft");
        let mut look = |_: Option<&Event>| Ok(Instant::now() + Duration::from_millis(200));
        for _ in 0..2 {
            ranks.broadcast(&order, &draft).unwrap();
            assert!(ranks.barrier(&mut look).unwrap() > monotonic_ns());
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
    fn one_rank_comes_once() {
        let (first, others) = met(&[(1, "open sesame"), (1, "open sesame")], Duration::from_secs(3));
        let why = first.err().unwrap().to_string();
        assert!(why.starts_with("of 3 ranks, 2 did not come") && why.contains("is there already"), "{why}");
        assert!(others.iter().any(|it| it.as_ref().is_err_and(|why| format!("{why:#}").contains("is there already"))));
    }
}
