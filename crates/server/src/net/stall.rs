//! Stalls of a network thread, and the connections that wait for their end.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::payload::Message;
use super::queue::Mailbox;
use super::{ACCEPTS, ServerContext};
use crate::metrics::workers::Counters;
use crate::spec::options::Stall;

/// The longest sleep before a stalled thread checks whether the server stops.
const SLICE: Duration = Duration::from_millis(10);

/// Requests a stall of a network thread again and again, until the sender of `running` is dropped.
pub(super) fn request_stalls(stall: Stall, mailbox: &Mailbox<Message>, running: &Receiver<()>) {
    let counters = Counters::default();
    while running.recv_timeout(Duration::from_nanos(stall.every_ns)) == Err(RecvTimeoutError::Timeout) {
        mailbox.send(Message::Stall, &counters);
    }
}

/// The state of stalls in the loop of a network thread.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    is_due: bool,
    /// Whether the next turn is the first one after a stall.
    has_ended: bool,
    /// The connections of this thread at the start of the turn, while it handles connections that waited.
    assigned_before: Option<u64>,
}

impl Stalls {
    /// Requests a stall at the end of this turn.
    pub(super) fn request(&mut self) {
        self.is_due = true;
    }

    /// Begins a turn in which `ready` connections have something to do.
    #[inline]
    pub(super) fn begin_turn(&mut self, counters: &Counters, ready: impl FnOnce() -> u64) {
        if self.has_ended {
            self.has_ended = false;
            counters.hung.add(ready());
            self.assigned_before = Some(counters.assigned.get());
        }
    }

    /// Ends a turn, perhaps with a stall.
    #[inline]
    pub(super) fn end_turn(&mut self, counters: &Counters, context: &ServerContext<'_>) {
        if let Some(before) = self.assigned_before {
            let now = counters.assigned.get();
            counters.hung.add(now - before);
            // After a full turn more connections may have waited.
            self.assigned_before = (now - before >= ACCEPTS as u64).then_some(now);
        }
        if self.is_due {
            self.is_due = false;
            self.has_ended = true;
            hold(context);
        }
    }
}

/// Sleeps for the time of a stall, or until the server stops.
fn hold(context: &ServerContext<'_>) {
    let Some(stall) = context.options.stall else { return };
    let (started, time) = (Instant::now(), Duration::from_nanos(stall.for_ns));
    while !context.stopping.load(Relaxed) {
        let Some(left) = time.checked_sub(started.elapsed()) else { return };
        thread::sleep(left.min(SLICE));
    }
}
