//! A worker other than the first: it joins the first worker, starts a client for each trial, and forwards the client's
//! messages. The worker sleeps during the window.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use harness::clients::instant_of;
use harness::host::Reading;
use harness::record::LoadOrder;
use harness::samples::Unwritten;
use load::time::clock::monotonic_ns;
use load::{Event, LoadConfig, LoadResult};
use process::child::{Child, Process, ProcessHandle};
use rustix::io::FdFlags;

use super::addresses::{Addresses, slurm_address};
use super::channel::{Channel, Session};
use super::client::{SINGLE, Timeouts, await_ready, await_report, ready_timeout, report_deadline};
use super::launcher::Membership;
use super::message::Message;
use super::{handshake, identity, local};

/// The pause before the next attempt to join.
const RETRY: Duration = Duration::from_millis(100);
const CONNECTING_MAX: Duration = Duration::from_secs(60);
const PART_BYTES: u64 = 1 << 20;
/// The time from the reading of the CPUs' counters to the window, in nanoseconds.
const CPU_READ_LEAD_NS: u64 = 50_000_000;
/// The time to the next call of a [`WaitHook`](harness::clients::WaitHook) that has nothing to do.
const LONG: Duration = Duration::from_secs(3600);

/// The running clients, by trial. A client is killed if its trial is given up.
type RunningClients = Mutex<BTreeMap<u32, ProcessHandle>>;

/// Joins the first worker and obeys it until the run ends.
pub fn run(membership: &Membership, program: &Path) -> anyhow::Result<()> {
    run_within(membership, program, Timeouts::DEFAULT)
}

/// Does the same as [`run`], with other timeouts.
pub(super) fn run_within(membership: &Membership, program: &Path, timeouts: Timeouts) -> anyhow::Result<()> {
    let channel = Channel::new(join(membership, timeouts)?)
        .with_context(|| format!("worker {}: cannot use the connection to the first worker", membership.rank))?;
    let worker = Worker { channel, program: program.to_owned(), running: RunningClients::default(), timeouts };
    worker.obey().with_context(|| format!("worker {} on {}: first worker", membership.rank, identity::host_name()))
}

/// Connects to the first worker repeatedly until it accepts this worker, at most for `timeouts.joining`.
pub(super) fn join(membership: &Membership, timeouts: Timeouts) -> anyhow::Result<Session> {
    let deadline = Instant::now() + timeouts.joining;
    let mut failure = anyhow!("cannot resolve {}", membership.hosts.join(", "));
    // A refusal is a better explanation than a later failure to connect.
    let mut refusal = None;
    let (mut addresses, mut connecting) = (Addresses::new(membership), timeouts.connecting);
    while Instant::now() < deadline {
        let mut has_timed_out = false;
        let mut refused = Vec::new();
        for address in addresses.at(Instant::now(), &mut slurm_address) {
            match TcpStream::connect_timeout(address, connecting) {
                Ok(stream) => {
                    // The first worker starts to listen on all addresses at once, so an address that refused may accept now.
                    let better =
                        refused.iter().find_map(|it| Some((it, TcpStream::connect_timeout(it, connecting).ok()?)));
                    let (address, stream) = better.unwrap_or((address, stream));
                    match handshake::connect(stream, membership, timeouts.handshake) {
                        Ok(session) => return Ok(session),
                        Err(error) => refusal = Some(error.context(format!("the listener on {address}"))),
                    }
                }
                Err(error) => {
                    has_timed_out |= error.kind() == ErrorKind::TimedOut;
                    if error.kind() == ErrorKind::ConnectionRefused {
                        refused.push(*address);
                    }
                    failure = anyhow!("{address}: {error}");
                }
            }
        }
        if has_timed_out {
            connecting = (connecting * 2).min(CONNECTING_MAX.max(timeouts.connecting));
        }
        thread::sleep(RETRY);
    }
    Err(refusal.unwrap_or(failure)).with_context(|| {
        format!(
            "worker {} on {} cannot join the first worker within {} s; set MUXBENCH_RENDEZVOUS to its HOST:PORT in all workers",
            membership.rank,
            identity::host_name(),
            timeouts.joining.as_secs()
        )
    })
}

struct Worker {
    channel: Channel,
    program: PathBuf,
    running: RunningClients,
    timeouts: Timeouts,
}

/// The messages about one trial. The sender is dropped when the run ends.
struct TrialMessages {
    trial: u32,
    received: mpsc::Receiver<Message>,
}

impl TrialMessages {
    /// Waits for a message for which `accept` returns a value. Returns an error if the trial ends first.
    fn receive<T>(&self, accept: impl Fn(&Message) -> Option<T>) -> anyhow::Result<T> {
        loop {
            let message = self.received.recv().context("the run is over")?;
            match accept(&message) {
                Some(found) => return Ok(found),
                None if message == (Message::Dismiss { trial: self.trial }) => bail!("the trial was given up"),
                None => {}
            }
        }
    }

    fn await_message(&self, expected: &Message) -> anyhow::Result<()> {
        self.receive(|message| (message == expected).then_some(()))
    }
}

impl Worker {
    /// Runs each trial in a thread of its own, because the contestants of a heat run at the same time.
    fn obey(&self) -> anyhow::Result<()> {
        thread::scope(|scope| {
            let mut trials: BTreeMap<u32, mpsc::Sender<Message>> = BTreeMap::new();
            let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            let outcome = loop {
                match self.channel.receive_blocking() {
                    Ok(Message::Order { trial, order }) => {
                        // Clients of the previous heat must not disturb this one.
                        let ending = if trials.is_empty() { std::mem::take(&mut threads) } else { Vec::new() };
                        ending.into_iter().for_each(|it| it.join().expect("a trial's thread does not panic"));
                        let (sender, received) = mpsc::channel();
                        trials.insert(trial, sender);
                        let messages = TrialMessages { trial, received };
                        threads.push(scope.spawn(move || self.run_order(&order, &messages)));
                    }
                    Ok(Message::Ping { number }) => {
                        if let Err(error) = self.channel.send(&Message::Pong { number, monotonic_ns: monotonic_ns() }) {
                            break Err(error);
                        }
                    }
                    Ok(Message::End) => break Ok(()),
                    Ok(message) => {
                        let Some(trial) = message.trial() else { continue };
                        let is_over = matches!(message, Message::Dismiss { .. });
                        if is_over && let Some(client) = self.lock_running().remove(&trial) {
                            client.kill();
                        }
                        // A message about an earlier trial has no receiver.
                        let _ = trials.get(&trial).map(|sender| sender.send(message));
                        if is_over {
                            trials.remove(&trial);
                        }
                    }
                    Err(error) => break Err(error),
                }
            };
            trials.clear();
            self.lock_running().values().for_each(ProcessHandle::kill);
            outcome
        })
    }

    fn lock_running(&self) -> MutexGuard<'_, BTreeMap<u32, ProcessHandle>> {
        // The value is valid even if a thread panicked while it held the lock.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_event(&self, trial: u32, event: &Event) -> anyhow::Result<()> {
        self.channel.send(&Message::Event { trial, event: serde_json::to_string(event)? })
    }

    /// Runs one trial and reports its failure. If that fails too, closes the connection, which ends the run.
    fn run_order(&self, order: &str, messages: &TrialMessages) {
        let Err(error) = self.run_trial(order, messages) else { return };
        let failed = Event::Failed { reason: format!("{error:#}"), is_unwritten: error.is::<Unwritten>() };
        if self.send_event(messages.trial, &failed).is_err() {
            self.channel.close();
        }
    }

    /// Runs one trial. An error kills the client.
    fn run_trial(&self, order: &str, messages: &TrialMessages) -> anyhow::Result<()> {
        let trial = messages.trial;
        let order: LoadOrder = serde_json::from_str(order).context("invalid order")?;
        // Progress messages would wake this process during the window.
        let order = LoadOrder { is_quiet: true, ..order };
        // An unnamed file leaves nothing behind if this process is killed. The client opens the file by its descriptor.
        let mut samples =
            tempfile::tempfile().context("cannot create a file for samples; set TMPDIR to a folder with free space")?;
        rustix::io::fcntl_setfd(&samples, FdFlags::empty()).context("cannot pass the samples file to the client")?;
        let command = local::command(&self.program, Path::new(&format!("/dev/fd/{}", samples.as_raw_fd())));
        let mut client: Child<Event> = Child::start(SINGLE, command, &order)?;
        self.lock_running().insert(trial, client.handle.clone());
        let outcome = self.measure(messages, &order.config, &mut client);
        // From here on, a `Dismiss` is the normal end of the trial and must not kill the client.
        self.lock_running().remove(&trial);
        let (report, used) = outcome?;
        self.channel.send(&Message::Ended { trial, used_ppm: used.map(|share| (share * 1e6) as u32) })?;
        messages.await_message(&Message::Collect { trial })?;
        self.send_event(trial, &Event::Finished { report: Box::new(report) })?;
        self.send_samples(trial, &mut samples)?;
        // The client's connections remain open until the first worker has read the server's counters.
        messages.await_message(&Message::Dismiss { trial })?;
        client.end();
        Ok(())
    }

    /// Forwards the client's messages until it is ready, starts it at the first worker's command, and waits silently for its
    /// report. Returns the report and the utilisation of the client's CPUs.
    fn measure(
        &self,
        messages: &TrialMessages,
        config: &LoadConfig,
        client: &mut Child<Event>,
    ) -> anyhow::Result<(LoadResult, Option<f64>)> {
        let trial = messages.trial;
        let mut forward = |event: Option<&Event>| {
            if let Some(event @ (Event::Connecting { .. } | Event::Preparing { .. } | Event::Connected { .. })) = event
            {
                self.send_event(trial, event)?;
            }
            Ok(Instant::now() + LONG)
        };
        await_ready(client, ready_timeout(config, self.timeouts.client), &mut forward)?;
        self.send_event(trial, &Event::Ready)?;
        let start_ns = messages.receive(|message| match message {
            Message::Begin { start_ns, .. } => Some(*start_ns),
            _ => None,
        })?;
        client.send(&format!("begin {start_ns}"))?;
        let mut usage = CpuUsage::new(config, start_ns);
        let mut hook = |_: Option<&Event>| Ok(usage.read_if_due(Instant::now()));
        let report = await_report(client, report_deadline([config], self.timeouts.client), &mut hook)?;
        Ok((report, usage.used()))
    }

    fn send_samples(&self, trial: u32, file: &mut File) -> anyhow::Result<()> {
        let place = "cannot read the client's samples";
        file.rewind().context(place)?;
        loop {
            let mut bytes = Vec::new();
            Read::by_ref(file).take(PART_BYTES).read_to_end(&mut bytes).context(place)?;
            let is_end = bytes.is_empty();
            self.channel.send(&Message::Samples { trial, bytes })?;
            if is_end {
                return Ok(());
            }
        }
    }
}

/// The usage of a client's CPUs over its window.
struct CpuUsage<'a> {
    config: &'a LoadConfig,
    /// The times to read the counters: shortly before the window, and after the window.
    due: [Instant; 2],
    readings: Vec<Reading>,
}

impl<'a> CpuUsage<'a> {
    fn new(config: &'a LoadConfig, start_ns: u64) -> Self {
        let (start, phases) = (instant_of(start_ns), config.phases);
        let window_ns = config.window_ns();
        let due = [window_ns.start - CPU_READ_LEAD_NS.min(phases.warm_up_ns), window_ns.end];
        Self { config, due: due.map(|ns| start + Duration::from_nanos(ns)), readings: Vec::new() }
    }

    /// Reads the counters if a reading is due. Returns the time of the next reading.
    fn read_if_due(&mut self, now: Instant) -> Instant {
        let [before, after] = self.due;
        let is_due = match self.readings.len() {
            // Skip the first reading if a busy machine delayed it by a quarter of the time between the readings or more.
            0 => now >= before && now < before + (after - before) / 4,
            1 => now >= after,
            _ => false,
        };
        if is_due {
            self.readings.push(Reading::now());
        }
        match self.readings.len() {
            0 if now < before => before,
            1 => after,
            _ => now + LONG,
        }
    }

    /// The utilisation of the CPUs by all programs.
    fn used(mut self) -> Option<f64> {
        // The client may have reported before the second reading.
        self.read_if_due(Instant::now());
        let [before, after] = &self.readings[..] else { return None };
        before.used_until(after, &self.config.client.cpus)
    }
}

#[cfg(test)]
mod tests {
    use harness::host;

    use super::*;

    #[test]
    fn cpu_usage_is_read_around_the_window_or_not_at_all() {
        let cpus = host::detect().cores.concat();
        let config = LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| it.client.cpus = cpus);
        // Ramp 1 s, warm-up 1 s, window 5 s, all in the past.
        let usage = || CpuUsage::new(&config, monotonic_ns() - 10_000_000_000);
        let at = |usage: &CpuUsage<'_>, ms: u64| usage.due[1] + Duration::from_millis(ms) - Duration::from_secs(7);
        let readings = |times: &[u64]| {
            let mut usage = usage();
            for ms in times {
                usage.read_if_due(at(&usage, *ms));
            }
            usage.readings.len()
        };
        assert_eq!(readings(&[0, 1_949]), 0);
        assert_eq!(readings(&[1_950, 4_000, 6_999]), 1);
        assert_eq!(readings(&[1_950, 7_000, 7_100]), 2);
        assert_eq!(readings(&[6_000, 7_000]), 0, "a late first reading is skipped");
        let mut usage = usage();
        let due = usage.due;
        let [first, second, last] = [0, 1_960, 7_000].map(|ms| usage.read_if_due(at(&usage, ms)));
        assert!([first, second] == due && last > due[1] + LONG / 2);
        assert_eq!(CpuUsage::new(&config, 0).used(), None, "without readings the usage is unknown");
    }
}
