//! The interface of a client on any host, and functions that wait for its messages.

use std::time::{Duration, Instant};

use anyhow::bail;
use harness::clients::WaitHook;
use harness::samples;
use load::config::LoadConfig;
use load::time::schedule;
use load::{Event, LoadResult};

pub(super) const SINGLE: &str = "the client";
/// The time to summarise a request and to write its sample, in nanoseconds, with a margin for slow hosts.
const SUMMARY_NS_PER_REQUEST: u64 = 5_000;
/// The limit of the time for all requests, so that a client that hangs ends some time.
const SUMMARY_MAX: Duration = Duration::from_secs(3600);

/// Timeouts for other workers and for clients. Tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For all workers to join, including the launcher's time to start them.
    pub(super) joining: Duration,
    /// For connecting to one address. Doubles after each round in which an address timed out.
    pub(super) connecting: Duration,
    /// For a handshake; longer over a slow network ([`super::round_trip`]). A worker repeats failed handshakes within the timeout
    /// `joining`.
    pub(super) handshake: Duration,
    /// The margin added to a client's connection timeout, and to the length of its phases and its summary. It allows for other
    /// work.
    pub(super) client: Duration,
    /// For a worker to answer, and to end a client that hangs.
    pub(super) worker: Duration,
}

impl Timeouts {
    pub(super) const DEFAULT: Self = Self {
        joining: Duration::from_secs(120),
        connecting: Duration::from_secs(5),
        handshake: Duration::from_secs(5),
        client: Duration::from_secs(60),
        worker: Duration::from_secs(30),
    };
}

/// A message of a client, or of the worker that started it.
pub(super) enum ClientMessage {
    Event(Event),
    /// The worker has the client's report. `used` is the utilisation of the client's CPUs by all programs, if known.
    Ended {
        used: Option<f64>,
    },
}

pub(super) trait ClientLink {
    fn name(&self) -> String;

    /// The next message of the client; `None` after `deadline`.
    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>>;

    /// The reason of a failure, with the client's name if there are several clients.
    fn blame(&self, reason: &str) -> String {
        if self.name() == SINGLE { reason.to_owned() } else { format!("{}: {reason}", self.name()) }
    }

    /// Kills a local client that hangs and returns its exit report. Closes the connection of a remote worker and says so.
    fn give_up(&mut self) -> String;
}

/// Waits for a message for which `accept` returns `Ok`. Progress events move the deadline to `extension` from now, if given.
pub(super) fn await_message<T>(
    client: &mut dyn ClientLink,
    mut deadline: Instant,
    extension: Option<Duration>,
    hook: &mut WaitHook<'_>,
    mut accept: impl FnMut(ClientMessage) -> Result<T, ClientMessage>,
) -> anyhow::Result<T> {
    let mut next = hook(None)?;
    loop {
        // A message that arrived in time counts even if it is read late.
        let is_over = Instant::now() >= deadline;
        let message = client.next(deadline.min(next))?;
        if is_over && message.is_none() {
            let (name, report) = (client.name(), client.give_up());
            bail!("{name} exceeded its time limit: it hangs, or the machine is overloaded ({report})");
        }
        let event = match &message {
            Some(ClientMessage::Event(event)) => Some(event),
            Some(ClientMessage::Ended { .. }) | None => None,
        };
        if let (Some(Event::Connecting { .. } | Event::Preparing { .. }), Some(extension)) = (event, extension) {
            deadline = Instant::now() + extension;
        }
        next = hook(event)?;
        match message.map(&mut accept) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(ClientMessage::Event(Event::Failed { reason, is_unwritten }))) => {
                return Err(samples::failure(client.blame(&reason), is_unwritten));
            }
            Some(Err(_)) | None => {}
        }
    }
}

pub(super) fn await_ready(
    client: &mut dyn ClientLink,
    timeout: Duration,
    hook: &mut WaitHook<'_>,
) -> anyhow::Result<()> {
    await_message(client, Instant::now() + timeout, Some(timeout), hook, |message| match message {
        ClientMessage::Event(Event::Ready) => Ok(()),
        other => Err(other),
    })
}

pub(super) fn await_report(
    client: &mut dyn ClientLink,
    deadline: Instant,
    hook: &mut WaitHook<'_>,
) -> anyhow::Result<LoadResult> {
    await_message(client, deadline, None, hook, |message| match message {
        ClientMessage::Event(Event::Finished { report }) => Ok(*report),
        other => Err(other),
    })
}

/// The longest silence of a client that is not ready. It detects a client that hangs; the client itself ends slow connections.
pub(super) fn ready_timeout(config: &LoadConfig, margin: Duration) -> Duration {
    Duration::from_nanos(config.client.timeout_ns) + margin
}

/// The deadline for the reports of clients that start about now.
pub(super) fn report_deadline<'a>(configs: impl IntoIterator<Item = &'a LoadConfig>, margin: Duration) -> Instant {
    Instant::now() + configs.into_iter().map(report_time).max().unwrap_or_default() + margin
}

/// The time from the start of a client to its report.
fn report_time(config: &LoadConfig) -> Duration {
    // The clients of all processes and contestants may summarise at the same time, on the same CPUs.
    let clients =
        u64::from(config.all_clients()) * u64::from(config.client.slices.map_or(1, |slices| slices.contestants));
    let requests = schedule::records_max(config).saturating_mul(clients);
    let summary = Duration::from_nanos(requests.saturating_mul(SUMMARY_NS_PER_REQUEST)).min(SUMMARY_MAX);
    Duration::from_nanos(config.window_ns().end + config.phases.cool_down_ns) + summary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends these events in reverse order and then hangs.
    struct Scripted(Vec<Event>);

    impl ClientLink for Scripted {
        fn name(&self) -> String {
            "the client".into()
        }

        fn next(&mut self, _: Instant) -> anyhow::Result<Option<ClientMessage>> {
            Ok(self.0.pop().map(ClientMessage::Event))
        }

        fn give_up(&mut self) -> String {
            "silent".into()
        }
    }

    #[test]
    fn deadline_grows_with_requests_up_to_a_limit() {
        let deadline_s = |rate_per_s| {
            let target = ([127, 0, 0, 1], 80);
            let config = LoadConfig::small(target).with(|it| it.set_rate(Some(rate_per_s)));
            report_deadline([&config], Duration::ZERO).duration_since(Instant::now()).as_secs()
        };
        assert!(deadline_s(1e3) < deadline_s(1e7) && deadline_s(1e18) < 2 * SUMMARY_MAX.as_secs());
    }

    #[test]
    fn message_read_after_the_deadline_counts() {
        let mut client = Scripted(vec![Event::Ready, Event::Connecting { done: 1, total: 2 }]);
        let mut hook = |_: Option<&Event>| Ok(Instant::now());
        await_ready(&mut client, Duration::ZERO, &mut hook).unwrap();
        let error = await_ready(&mut client, Duration::ZERO, &mut hook).unwrap_err().to_string();
        assert!(error.contains("the client exceeded its time limit") && error.contains("silent"), "{error}");
    }
}
