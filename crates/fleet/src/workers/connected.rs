//! The first worker's view of a worker that has joined.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use harness::clients::{Draft, WaitHook};
use harness::{files, samples};
use load::Event;
use load::config::LoadConfig;
use load::time::clock::monotonic_ns;

use super::super::channel::Channel;
use super::super::client::{ClientLink, ClientMessage};
use super::super::message::{Hello, Message};
use super::clocks::ClockSample;

/// The limit of a samples file, in bytes: an amount for each planned request, and a constant.
const BYTES_PER_SAMPLE: u64 = 128;
const BYTES_BESIDE_SAMPLES: u64 = 16 << 20;

pub(super) struct ConnectedWorker {
    pub(super) hello: Hello,
    pub(super) channel: Channel,
    /// The address of this host at which the worker reaches the server.
    pub(super) ours: IpAddr,
    pub(super) theirs: IpAddr,
    pub(super) is_lost: bool,
    /// The trial whose messages [`Self::receive`] returns.
    pub(super) trial: u32,
    /// The parts of the heat's contestants that this worker has.
    pub(super) assignments: Vec<Assignment>,
    /// Messages about other contestants, with their arrival times.
    pub(super) waiting: Vec<(u64, Message)>,
    /// The latest comparison of clocks.
    pub(super) clock: Option<ClockSample>,
    /// The time of the last request for the worker's time, in nanoseconds of this host's CLOCK_MONOTONIC.
    pub(super) asked_ns: u64,
}

/// The part of a trial that a worker has.
pub(super) struct Assignment {
    pub(super) trial: u32,
    pub(super) config: LoadConfig,
    /// `None` after the samples have been collected.
    pub(super) samples: Option<Draft>,
}

impl ConnectedWorker {
    /// A worker that has just joined.
    pub(super) fn new(hello: Hello, channel: Channel, ours: IpAddr, theirs: IpAddr) -> Self {
        let (assignments, waiting) = (Vec::new(), Vec::new());
        Self { hello, channel, ours, theirs, is_lost: false, trial: 0, assignments, waiting, clock: None, asked_ns: 0 }
    }

    pub(super) fn send(&mut self, message: &Message) -> anyhow::Result<()> {
        self.channel.send(message).map_err(|error| self.lose(&error))
    }

    /// Gives up the worker and closes its connection. Returns an error with its name and the reason.
    fn lose(&mut self, reason: &anyhow::Error) -> anyhow::Error {
        self.give_up();
        anyhow!("{} is lost: {reason}", self.name())
    }

    /// The next message of this trial or without a trial, and its arrival by CLOCK_MONOTONIC (ns); `None` after `deadline`.
    fn receive(&mut self, deadline: Instant) -> anyhow::Result<Option<(u64, Message)>> {
        if let Some(at) = self.waiting.iter().position(|(_, message)| message.trial() == Some(self.trial)) {
            return Ok(Some(self.waiting.remove(at)));
        }
        loop {
            let received = self.channel.receive_timed(deadline).map_err(|error| self.lose(&error))?;
            match received.as_ref().and_then(|(_, message)| message.trial()) {
                Some(trial) if trial != self.trial => {
                    let is_of_heat = self.assignments.iter().any(|assignment| assignment.trial == trial);
                    self.waiting.extend(received.filter(|_| is_of_heat));
                }
                _ => return Ok(received),
            }
        }
    }

    /// Turns to the messages about a contestant, by its number.
    pub(super) fn turn_to(&mut self, contestant: usize) -> anyhow::Result<()> {
        self.trial = self.assignments.get(contestant).context("a worker has no order")?.trial;
        Ok(())
    }

    /// Requests the worker's time.
    pub(super) fn ask_time(&mut self, number: u32) -> anyhow::Result<()> {
        self.asked_ns = monotonic_ns();
        self.send(&Message::Ping { number })
    }

    /// Waits for the answer to [`Self::ask_time`].
    pub(super) fn await_time(
        &mut self,
        number: u32,
        deadline: Instant,
        hook: &mut WaitHook<'_>,
    ) -> anyhow::Result<ClockSample> {
        loop {
            let next = hook(None)?;
            match self.receive(deadline.min(next))? {
                Some((answered_ns, Message::Pong { number: it, monotonic_ns })) if it == number => {
                    let ahead_ns = monotonic_ns.wrapping_sub(self.asked_ns / 2 + answered_ns / 2) as i64;
                    return Ok(ClockSample { round_trip_ns: answered_ns.saturating_sub(self.asked_ns), ahead_ns });
                }
                None if Instant::now() >= deadline => return Err(self.lose(&anyhow!("it does not answer"))),
                Some(_) | None => {}
            }
        }
    }

    pub(super) fn receive_samples(
        &mut self,
        config: &LoadConfig,
        draft: &Draft,
        timeout: Duration,
        hook: &mut WaitHook<'_>,
    ) -> anyhow::Result<()> {
        let unwritten = |error| samples::unwritten(&draft.path, &error);
        let requests = load::time::schedule::count_max(config).saturating_mul(config.client.clients.into());
        let bytes_max = requests.saturating_mul(BYTES_PER_SAMPLE).saturating_add(BYTES_BESIDE_SAMPLES);
        let mut file = files::create(&draft.path).map_err(unwritten)?;
        let mut total_bytes = 0;
        let mut deadline = Instant::now() + timeout;
        loop {
            let next = hook(None)?;
            match self.receive(next.min(deadline))?.map(|(_, message)| message) {
                Some(Message::Samples { bytes, .. }) if bytes.is_empty() => return Ok(()),
                Some(Message::Samples { bytes, .. }) => {
                    total_bytes += bytes.len() as u64;
                    if total_bytes > bytes_max {
                        return Err(self.lose(&anyhow!("its samples exceed the limit of {bytes_max} bytes")));
                    }
                    file.write_all(&bytes).map_err(unwritten)?;
                    deadline = Instant::now() + timeout;
                }
                Some(Message::Event { event, .. }) => match serde_json::from_str(&event) {
                    Ok(Event::Failed { reason, is_unwritten }) => {
                        return Err(samples::failure(self.blame(&reason), is_unwritten));
                    }
                    _ => return Err(self.lose(&anyhow!("it sent `{event:.100}` instead of samples"))),
                },
                None if Instant::now() >= deadline => return Err(self.lose(&anyhow!("it sends no samples"))),
                Some(_) | None => {}
            }
        }
    }
}

impl ClientLink for ConnectedWorker {
    fn name(&self) -> String {
        format!("worker {} on {}", self.hello.rank, self.hello.host)
    }

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>> {
        match self.receive(deadline)? {
            Some((_, Message::Event { event, .. })) => match serde_json::from_str(&event) {
                Ok(event) => Ok(Some(ClientMessage::Event(event))),
                Err(error) => Err(self.lose(&anyhow!("it sent an invalid event: {event:.200}: {error}"))),
            },
            Some((_, Message::Ended { used_ppm, .. })) => {
                Ok(Some(ClientMessage::Ended { used: used_ppm.map(|parts| f64::from(parts) / 1e6) }))
            }
            _ => Ok(None),
        }
    }

    /// Marks the worker as lost and closes its connection. After a timeout the fault is the worker's: it should have killed a
    /// client that hangs.
    fn give_up(&mut self) -> String {
        self.is_lost = true;
        self.channel.close();
        "its connection is closed".to_owned()
    }
}
