//! HTTP/1.1 (RFC 9112) for content in memory: GET and HEAD, connections that stay, pipelined requests.
//!
//! The parser is `httparse`. Where it is lenient we are not: a line ends with CR LF, a request has one `Host` and at most
//! one way to say how long its body is. After what cannot be understood the connection ends, for where the next request
//! begins would be a guess. What is left out, and answered as the RFC wants it: ranges and conditions (ignored), other
//! methods (405, or 501 if they are unknown), other major versions (505; a higher minor version is answered as 1.1), transfer
//! codings but `chunked` (501).
//!
//! A client cannot make us keep more than a head (32 KiB, 431 or 414 beyond it) besides what is read at once; bodies of
//! requests are thrown away as they come, up to 1 MiB (413). Time is not seen here: `server::limits` cuts off who takes too
//! long, by what [`Service::is_idle`] says.
//!
//! # Layout
//! - `head`: a request's head, `target`: the path it names, `chunked`: bodies in chunks
//! - `content`: what there is to be had; `answer`, `status`, `date`: what is said of it
//! - `turn`: what is taken of the input, and when more must come first
//! - [`ask`]: the other side: requests, and responses as they come

mod answer;
pub mod ask;
mod chunked;
mod content;
mod date;
mod head;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod turn;

pub use content::{Content, ContentError, GENERATED_BYTES_MAX};

use std::sync::Arc;

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::{Clock, Service};
use turn::Turn;

/// The service, shared by all threads.
pub struct Http {
    content: Arc<Content>,
    /// For the date, asked once in a turn that says something.
    clock: Clock,
}

/// A connection. While it is idle nothing of it is on the heap but a small buffer, once it was used.
#[derive(Debug, Default)]
pub struct HttpConn {
    /// Heads, and small content behind them.
    outbox: Outbox,
    inbox: Inbox,
    turn: Turn,
}

impl Http {
    /// Serves this content. It never looks at a clock but the one given.
    pub fn new(content: impl Into<Arc<Content>>, clock: Clock) -> Self {
        Self { content: content.into(), clock }
    }
}

impl Service for Http {
    type Conn = HttpConn;

    #[inline]
    fn receive(&self, conn: &mut HttpConn, input: &[u8]) -> u64 {
        if conn.turn.is_over() {
            conn.turn.drop_input(input.len());
            return 0;
        }
        conn.inbox.receive(input, |input| self.take(&mut conn.turn, input, conn.outbox.room()))
    }

    /// Heads and small content first. Nothing is added to them while larger content waits behind them.
    #[inline]
    fn unsent<'a>(&'a self, conn: &'a HttpConn) -> &'a [u8] {
        match (conn.outbox.unsent(), conn.turn.sending) {
            ([], Some(body)) => self.content.from(body.found, body.at_bytes),
            (unsent, _) => unsent,
        }
    }

    #[inline]
    fn sent(&self, conn: &mut HttpConn, count: usize) -> u64 {
        if !conn.outbox.is_empty() {
            conn.outbox.sent(count);
        } else if let Some(body) = &mut conn.turn.sending {
            body.at_bytes += count as u64;
            if body.at_bytes >= self.content.total_bytes(body.found) {
                conn.turn.sending = None;
            }
        }
        if !conn.outbox.is_empty() || conn.turn.sending.is_some() {
            return 0;
        }
        conn.inbox.go_on(|input| self.take(&mut conn.turn, input, conn.outbox.room()))
    }

    #[inline]
    fn is_over(&self, conn: &HttpConn) -> bool {
        conn.turn.is_over()
    }

    #[inline]
    fn is_cut_short(&self, conn: &HttpConn) -> bool {
        conn.turn.is_cut_short()
    }

    #[inline]
    fn is_idle(&self, conn: &HttpConn) -> bool {
        // Half an empty line is kept until the other half comes, and is no part of a request either.
        conn.turn.is_between_requests() && matches!(conn.inbox.kept(), b"" | b"\r")
    }
}
