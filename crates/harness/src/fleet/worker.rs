//! What a rank does that is not the first: it meets the first, and for each trial starts a client, as a runner would, and says
//! what that says. While the client measures, it sleeps.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::{Event, LoadConfig, LoadReport};
use rustix::io::FdFlags;

use super::launcher::{Addresses, Membership};
use super::message::{self, Channel, HandshakeMessage, Hello, Message, Session};
use super::secret::{self, Side, Transcript};
use super::{
    Timeouts, await_ready, await_report, instant_of, local, monotonic_ns, ready_timeout, report_deadline, round_trip,
};
use crate::deadline_stream::DeadlineStream;
use crate::host;
use crate::host::interrupts;
use crate::host::ticks::Reading;
use crate::model::LoadOrder;
use crate::process::child::{Child, Process, ProcessHandle};
use crate::samples::Unwritten;

/// Pause before the first rank is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// The longest that connecting to one address may take, which is doubled each time that no address answered.
const CONNECTING_MAX: Duration = Duration::from_secs(60);
/// So much of a refusal is shown: it may be anybody's.
const REFUSAL_CHARACTERS_MAX: usize = 200;
/// Samples are sent in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;
/// So long before the window it is looked what the CPUs have done by then, in nanoseconds.
const LOOK_LEAD_NS: u64 = 50_000_000;
/// The remedy where secrets differ.
pub(super) const SAME_SECRET: &str = "set MUXBENCH_SECRET to the same in all ranks";
/// While there is nothing to look for.
const LONG: Duration = Duration::from_secs(3600);

/// The client that is at work, if one is: whoever hears that the trial is over may end it.
type CurrentClient = Arc<Mutex<Option<(u32, ProcessHandle)>>>;

/// Meets the first rank, and does what it says until it says that all is over.
///
/// # Errors
/// When it cannot be met, or is gone.
pub fn run(place: &Membership, program: &Path) -> anyhow::Result<()> {
    follow_within(place, program, Timeouts::USUAL)
}

/// The same, with another patience.
pub(super) fn follow_within(place: &Membership, program: &Path, patience: Timeouts) -> anyhow::Result<()> {
    let at_work = CurrentClient::default();
    let ending = at_work.clone();
    let line = Channel::new(meet(place, patience)?, move |frame| end_client(&ending, frame))
        .with_context(|| format!("rank {}: the connection to the first one", place.rank))?;
    let rank = Worker { line, program: program.to_owned(), at_work, patience };
    rank.follow().with_context(|| format!("rank {} on {}, of the first", place.rank, host()))
}

/// A name for the reader.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What two processes have in common if they are of one machine: host names and addresses may differ there.
pub(super) fn machine() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| host(), |id| id.trim().to_owned())
}

/// What two processes of one machine have in common if they take ports of the same addresses.
pub(super) fn network() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}

/// The CPUs that this process may use, and how many its host has; 0 where that is not known.
pub(super) fn cpus() -> (Vec<usize>, u32) {
    let host = host::detect();
    (host.cores.concat(), host.cpus_online().unwrap_or(0) as u32)
}

/// Tries until the first rank is there.
pub(super) fn meet(place: &Membership, patience: Timeouts) -> anyhow::Result<Session> {
    let deadline = Instant::now() + patience.meeting;
    let mut why = anyhow!("no address is known of {}", place.hosts.join(", "));
    // One who listened and did not take us in says more than one who does not listen now.
    let mut refusal = None;
    let (mut addresses, mut connecting) = (Addresses::of(place), patience.connecting);
    while Instant::now() < deadline {
        let mut took_too_long = false;
        let mut refused = Vec::new();
        for address in addresses.at(Instant::now()) {
            match TcpStream::connect_timeout(address, connecting) {
                Ok(stream) => {
                    // Between the better ones and this one it may have begun to listen, on all of them.
                    let better = refused.iter().find_map(|it| TcpStream::connect_timeout(it, connecting).ok());
                    match greet(better.unwrap_or(stream), place, patience.greeting) {
                        Ok(session) => return Ok(session),
                        // Another may be meant by that address, or the first rank sees us to be another.
                        Err(error) => refusal = Some(error.context(format!("who listens on {address}"))),
                    }
                }
                Err(error) => {
                    // The way there may be long.
                    took_too_long |= error.kind() == ErrorKind::TimedOut;
                    if error.kind() == ErrorKind::ConnectionRefused {
                        refused.push(*address);
                    }
                    why = anyhow!("{address}: {error}");
                }
            }
        }
        if took_too_long {
            connecting = (connecting * 2).min(CONNECTING_MAX.max(patience.connecting));
        }
        thread::sleep(RETRY);
    }
    Err(refusal.unwrap_or(why)).with_context(|| {
        format!(
            "rank {} on {} cannot meet the first one within {} s; set MUXBENCH_RENDEZVOUS to its HOST:PORT in all ranks",
            place.rank,
            host(),
            patience.meeting.as_secs()
        )
    })
}

/// Says who we are, proves it, and finds out whether the other side is the first rank.
pub(super) fn greet(stream: TcpStream, place: &Membership, patience: Duration) -> anyhow::Result<Session> {
    let mut line = DeadlineStream::within(&stream, round_trip::greeting(&stream, patience));
    message::compare_versions(&mut line)?;
    let HandshakeMessage::Challenge { nonce: theirs } = message::hear_greeting(&mut line)? else {
        bail!("it does not answer")
    };
    let (rank, ranks) = (place.rank, place.ranks);
    let nonce = secret::nonce()?;
    let (machine, network, (cpus, cpus_of_host)) = (machine(), network(), cpus());
    let hello = Hello { rank, ranks, host: host(), machine, network, cpus, cpus_of_host, nonce };
    let hello = postcard::to_stdvec(&hello)?;
    let transcript = Transcript::new(&message::preamble(), &theirs, &hello);
    let proof = place.secret.prove(Side::Other, &transcript);
    message::greet(&mut line, &HandshakeMessage::Claim { hello, proof })?;
    match message::hear_greeting(&mut line)? {
        HandshakeMessage::Welcome { proof } if place.secret.is_proven(Side::First, &transcript, &proof) => {
            Ok(Session { stream, key: place.secret.session(&transcript), side: Side::Other })
        }
        HandshakeMessage::Welcome { .. } => bail!("it does not know this job's secret; {SAME_SECRET}"),
        HandshakeMessage::Refused { reason } => {
            let reason: String = reason.chars().take(REFUSAL_CHARACTERS_MAX).flat_map(char::escape_debug).collect();
            bail!("it refuses: {reason}")
        }
        HandshakeMessage::Challenge { .. } | HandshakeMessage::Claim { .. } => bail!("it does not answer"),
    }
}

/// Ends the client that is at work, if what was heard is the end of its trial, or of everything.
fn end_client(at_work: &CurrentClient, frame: Option<&Message>) {
    let is_over = |trial: u32| match frame {
        None | Some(Message::End) => true,
        Some(Message::Dismiss { trial: it }) => *it == trial,
        Some(_) => false,
    };
    // Whoever holds it has it in order, whatever became of that thread.
    let client = at_work.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((trial, process)) = &*client
        && is_over(*trial)
    {
        process.kill();
    }
}

struct Worker {
    line: Channel,
    program: PathBuf,
    at_work: CurrentClient,
    patience: Timeouts,
}

impl Worker {
    fn follow(&self) -> anyhow::Result<()> {
        loop {
            match self.line.hear_next()? {
                Message::Order { trial, order } => {
                    if let Err(error) = self.serve(trial, &order) {
                        let is_unwritten = error.is::<Unwritten>();
                        self.say(trial, &Event::Failed { reason: format!("{error:#}"), is_unwritten })?;
                    }
                    self.set_at_work(None);
                }
                Message::End => return Ok(()),
                // Of a trial that is over here already.
                _ => {}
            }
        }
    }

    fn say(&self, trial: u32, event: &Event) -> anyhow::Result<()> {
        self.line.say(&Message::Event { trial, event: serde_json::to_string(event)? })
    }

    fn set_at_work(&self, client: Option<(u32, ProcessHandle)>) {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Waits until the first rank says what `wanted` takes. That the trial is over is an error otherwise.
    fn hear<T>(&self, trial: u32, mut wanted: impl FnMut(&Message) -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
        loop {
            let frame = self.line.hear_next()?;
            if let Some(found) = wanted(&frame)? {
                return Ok(found);
            }
            match frame {
                Message::Dismiss { trial: it } if it == trial => bail!("the trial was given up"),
                Message::End => bail!("the run is over"),
                _ => {}
            }
        }
    }

    /// One trial. An error is the client's, which ends with it; one of the connection shows again at the next thing said.
    fn serve(&self, trial: u32, order: &str) -> anyhow::Result<()> {
        let order: LoadOrder = serde_json::from_str(order).context("an order that is not understood")?;
        // What it said while it measures would wake us.
        let order = LoadOrder { is_quiet: true, ..order };
        // It has no name, so that nothing of it is left whatever ends us; the client gets to it by its number.
        let mut samples = tempfile::tempfile().context("no file for samples; have TMPDIR name a folder with room")?;
        rustix::io::fcntl_setfd(&samples, FdFlags::empty()).context("no file for samples")?;
        let command = local::command(&self.program, Path::new(&format!("/dev/fd/{}", samples.as_raw_fd())));
        let mut client: Child<Event> = Child::start(local::ALONE, command, &order)?;
        self.set_at_work(Some((trial, client.handle())));
        let outcome = self.until_measured(trial, &order.config, &mut client);
        // From here on it waits to be told to end.
        self.set_at_work(None);
        let (report, used) = outcome?;
        self.line.say(&Message::Ended { trial, used_ppm: used.map(|share| (share * 1e6) as u32) })?;
        let is = |said: Message| move |frame: &Message| Ok((*frame == said).then_some(()));
        self.hear(trial, is(Message::Collect { trial }))?;
        self.say(trial, &Event::Finished { report: Box::new(report) })?;
        self.send_samples(trial, &mut samples)?;
        // Its connections stay until the server has been asked what they cost.
        self.hear(trial, is(Message::Dismiss { trial }))?;
        client.end();
        Ok(())
    }

    /// Says what the client says until it is ready, begins when told, and then waits for its account in silence: that, and the
    /// share of its CPUs that was in use.
    fn until_measured(
        &self,
        trial: u32,
        config: &LoadConfig,
        client: &mut Child<Event>,
    ) -> anyhow::Result<(LoadReport, Option<f64>)> {
        let mut tell = |event: Option<&Event>| {
            if let Some(event @ (Event::Connecting { .. } | Event::Preparing { .. } | Event::Connected { .. })) = event
            {
                self.say(trial, event)?;
            }
            Ok(Instant::now() + LONG)
        };
        await_ready(client, ready_timeout(config, self.patience.client), &mut tell)?;
        self.say(trial, &Event::Ready)?;
        let start_ns = self.hear(trial, |frame| match frame {
            Message::Ping { number } => {
                self.line.say(&Message::Pong { number: *number, monotonic_ns: monotonic_ns() }).map(|()| None)
            }
            Message::Begin { trial: it, start_ns } if *it == trial => Ok(Some(*start_ns)),
            _ => Ok(None),
        })?;
        client.send(&format!("begin {start_ns}"))?;
        let mut cpus = Cpus::of(config, start_ns);
        let mut look = |_: Option<&Event>| Ok(cpus.look(Instant::now()));
        let report = await_report(client, report_deadline(config, self.patience.client), &mut look)?;
        let used = cpus.used();
        Ok((report, used))
    }

    fn send_samples(&self, trial: u32, file: &mut File) -> anyhow::Result<()> {
        let place = "cannot read samples back";
        file.rewind().context(place)?;
        loop {
            let mut bytes = Vec::new();
            Read::by_ref(file).take(PIECE_BYTES).read_to_end(&mut bytes).context(place)?;
            let is_end = bytes.is_empty();
            self.line.say(&Message::Samples { trial, bytes })?;
            if is_end {
                return Ok(());
            }
        }
    }
}

/// What a client's CPUs do over its window, as far as it was looked at in time.
struct Cpus<'a> {
    config: &'a LoadConfig,
    /// When it is to be looked at: shortly before the window, and after it.
    edges: [Instant; 2],
    looks: Vec<Reading>,
}

impl<'a> Cpus<'a> {
    fn of(config: &'a LoadConfig, start_ns: u64) -> Self {
        let (start, phases) = (instant_of(start_ns), config.phases);
        let window_ns = phases.ramp_ns + phases.hold_ns;
        let edges = [window_ns - LOOK_LEAD_NS.min(phases.hold_ns), phases.sending_ns()];
        Self { config, edges: edges.map(|ns| start + Duration::from_nanos(ns)), looks: Vec::new() }
    }

    /// Looks, if it is time for that; when it will be next.
    fn look(&mut self, now: Instant) -> Instant {
        let [before, after] = self.edges;
        let is_due = match self.looks.len() {
            // One that a busy machine has made late says nothing of the window.
            0 => now >= before && now < before + (after - before) / 4,
            1 => now >= after,
            _ => false,
        };
        if is_due {
            self.looks.push(Reading::now());
        }
        match self.looks.len() {
            0 if now < before => before,
            1 => after,
            _ => now + LONG,
        }
    }

    /// The share of them that was in use, interrupts that no process is charged with aside; whose it was is not known here.
    fn used(mut self) -> Option<f64> {
        // The client may have been quicker than we.
        self.look(Instant::now());
        let [before, after] = &self.looks[..] else { return None };
        Some(before.until(after, &self.config.cpus)?.taken_by_others(0.0, interrupts::accounting()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_looked_at_around_the_window_or_not_at_all() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let cpus = host::detect().cores.concat();
        let config = LoadConfig { cpus, ..LoadConfig::new(([127, 0, 0, 1], 80), service) };
        // 1 s of ramp, 1 s of hold, 5 s of window, which are long over.
        let cpus = || Cpus::of(&config, monotonic_ns() - 10_000_000_000);
        let at = |cpus: &Cpus<'_>, ms: u64| cpus.edges[1] + Duration::from_millis(ms) - Duration::from_secs(7);
        let looks_at = |times: &[u64]| {
            let mut cpus = cpus();
            for ms in times {
                cpus.look(at(&cpus, *ms));
            }
            cpus.looks.len()
        };
        assert_eq!(looks_at(&[0, 1_949]), 0);
        assert_eq!(looks_at(&[1_950, 4_000, 6_999]), 1);
        assert_eq!(looks_at(&[1_950, 7_000, 7_100]), 2);
        assert_eq!(looks_at(&[6_000, 7_000]), 0, "it came too late");
        let mut cpus = cpus();
        let edges = cpus.edges;
        let [first, second, last] = [0, 1_960, 7_000].map(|ms| cpus.look(at(&cpus, ms)));
        assert!([first, second] == edges && last > edges[1] + LONG / 2);
        assert_eq!(Cpus::of(&config, 0).used(), None, "it was never looked at");
    }
}
