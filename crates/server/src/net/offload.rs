//! The pool of a loop that must not block: its threads make the blocking calls of requests, and tell the loop when one has returned.

use std::collections::VecDeque;

use super::connection::Connect;
use super::payload::Message;
use super::queue::{Jobs, Mailbox, WaitResult};
use crate::metrics::workers::Counters;
use crate::token::Token;

/// Blocking calls: the network thread and the connection of each.
pub(super) type Calls = Jobs<(usize, Token)>;

/// Makes calls until the queue is closed. Threads take one at a time, because the others would wait for it.
pub(super) fn work(calls: &Calls, mailboxes: &[Mailbox<Message>], service: &dyn Connect, counters: &Counters) {
    let mut taken = VecDeque::new();
    while calls.take(&mut taken, 1, None, counters) == WaitResult::Jobs {
        counters.events.add(taken.len() as u64);
        for (number, token) in taken.drain(..) {
            service.block();
            mailboxes[number].send(Message::Ready(token), counters);
        }
    }
}
