//! One client, wherever it runs, and waiting for its messages.

use std::time::{Duration, Instant};

use anyhow::bail;
use load::config::LoadConfig;
use load::{Event, LoadReport};

use crate::samples;

/// How long to wait for others. Tests use shorter times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For all workers to join: a launcher may take so long to start them.
    pub(super) joining: Duration,
    /// For connecting to one address before trying the next; doubles each time all addresses timed out.
    pub(super) connecting: Duration,
    /// For a whole handshake; longer over a slow network ([`super::round_trip`]). A worker that runs out of it tries again until
    /// `joining` is over.
    pub(super) handshake: Duration,
    /// For a client beyond its phases: it summarises and writes samples.
    pub(super) client: Duration,
    /// For a worker beyond its client, which it ends itself if that hangs; and for an answer.
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

/// Called while waiting: with each event of a client, and whenever its last return value is due. Returns when to be called next;
/// an error ends the waiting.
pub type WaitHook<'a> = dyn FnMut(Option<&Event>) -> anyhow::Result<Instant> + 'a;

/// A message of a client, or of the worker that started it.
pub(super) enum ClientMessage {
    /// From the client.
    Event(Event),
    /// From the worker: the client has reported, and its report waits to be collected.
    Ended {
        /// The share of the client's CPUs in use over the window, by any program; `None` if unknown.
        used: Option<f64>,
    },
}

/// A client, wherever it runs.
pub(super) trait ClientLink {
    fn name(&self) -> String;

    /// Its next message; `None` when `deadline` passes first.
    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<ClientMessage>>;

    /// The reason of a failure, with the client's name if there are several.
    fn blame(&self, reason: &str) -> String;

    /// Gives up a client that hangs; returns its last words.
    fn give_up(&mut self) -> String;
}

/// Waits for a message that `accept` takes. Each sign of progress puts `deadline` off by `extension`.
pub(super) fn await_message<T>(
    client: &mut dyn ClientLink,
    mut deadline: Instant,
    extension: Option<Duration>,
    hook: &mut WaitHook<'_>,
    mut accept: impl FnMut(ClientMessage) -> Result<T, ClientMessage>,
) -> anyhow::Result<T> {
    let mut next = hook(None)?;
    loop {
        // A message that arrived in time counts even if we read it late.
        let is_over = Instant::now() >= deadline;
        let message = client.next(deadline.min(next))?;
        if is_over && message.is_none() {
            let name = client.name();
            let last_words = client.give_up();
            bail!("{name} exceeded its time limit: it hangs, or the machine is overloaded ({last_words})");
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

/// Waits until a client is ready.
pub(super) fn await_ready(
    client: &mut dyn ClientLink,
    timeout: Duration,
    hook: &mut WaitHook<'_>,
) -> anyhow::Result<()> {
    await_message(client, Instant::now() + timeout, Some(timeout), hook, accept_ready)
}

fn accept_ready(message: ClientMessage) -> Result<(), ClientMessage> {
    if matches!(message, ClientMessage::Event(Event::Ready)) { Ok(()) } else { Err(message) }
}

/// Waits for a client's report.
pub(super) fn await_report(
    client: &mut dyn ClientLink,
    deadline: Instant,
    hook: &mut WaitHook<'_>,
) -> anyhow::Result<LoadReport> {
    await_message(client, deadline, None, hook, |message| match message {
        ClientMessage::Event(Event::Finished { report }) => Ok(*report),
        other => Err(other),
    })
}

/// How long a client may be silent before it is ready. Its own timeouts end slow connections; this catches one that hangs.
pub(super) fn ready_timeout(config: &LoadConfig, margin: Duration) -> Duration {
    Duration::from_nanos(config.timeout_ns) + margin
}

/// When a client that starts now, or soon, must have reported.
pub(super) fn report_deadline(config: &LoadConfig, margin: Duration) -> Instant {
    Instant::now() + Duration::from_nanos(config.phases.sending_ns() + config.phases.cool_down_ns) + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client with these messages, the last first, that is silent afterwards.
    struct Scripted(Vec<Event>);

    impl ClientLink for Scripted {
        fn name(&self) -> String {
            "the client".into()
        }

        fn next(&mut self, _: Instant) -> anyhow::Result<Option<ClientMessage>> {
            Ok(self.0.pop().map(ClientMessage::Event))
        }

        fn blame(&self, reason: &str) -> String {
            reason.to_owned()
        }

        fn give_up(&mut self) -> String {
            "silent".into()
        }
    }

    #[test]
    fn message_read_after_the_deadline_counts() {
        let mut client = Scripted(vec![Event::Ready, Event::Connecting { done: 1, total: 2 }]);
        let (deadline, mut hook) = (Instant::now(), |_: Option<&Event>| Ok(Instant::now()));
        await_message(&mut client, deadline, None, &mut hook, accept_ready).unwrap();
        let error = await_message(&mut client, deadline, None, &mut hook, accept_ready).unwrap_err().to_string();
        assert!(error.contains("the client exceeded its time limit") && error.contains("silent"), "{error}");
    }
}
