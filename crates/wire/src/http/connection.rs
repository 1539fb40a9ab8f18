//! One connection. A batch answers requests until one is incomplete, or the output is large enough to send.

use super::chunked::{Chunked, Malformed, Part};
use super::head::{Connection, Framing, Scan, as_1_1, parse};
use super::response::{BODY_BYTES_MAX, Body, Http, Response};
use super::status::Status;
use crate::buffers::{Processed, ReadBuffer, WriteBuffer};
use crate::service::{OneByOne, Service};

pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Largest input that is read and discarded after the response that ends a connection.
pub(super) const DROPPED_BYTES_MAX: u64 = 16 << 20;

/// State of a connection. An idle connection has at most a small buffer on the heap.
#[derive(Debug, Default)]
pub struct HttpConn {
    pub(super) output: WriteBuffer,
    pub(super) input: ReadBuffer,
    batch: BatchState,
}

#[derive(Debug, Default)]
struct BatchState {
    scan: Scan,
    /// A request body being discarded.
    body: Option<Discarded>,
    /// Content to send without copying. Input waits until the content is sent.
    sending: Option<Body>,
    ending: Ending,
}

#[derive(Debug, Default)]
enum Ending {
    #[default]
    NotYet,
    /// After a successful response to a request that ends the connection, if no input follows the request.
    Clean,
    /// The client may still be sending, as after a refused request. Counts the discarded input.
    CutShort { dropped_bytes: u64 },
}

/// A request body in transit, and the response to send after it.
#[derive(Debug)]
struct Discarded {
    left: Left,
    response: Response,
}

#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunks { chunked: Chunked, received_bytes: u64 },
}

/// Processed bytes and the response that they lead to; `None` if the input is incomplete.
type Step = Result<Option<(usize, Option<Response>)>, Status>;

impl BatchState {
    fn is_over(&self) -> bool {
        !matches!(self.ending, Ending::NotYet)
    }
}

impl Service for Http {
    type Conn = HttpConn;

    #[inline]
    fn receive(&self, conn: &mut HttpConn, input: &[u8]) -> u64 {
        self.take::<false>(conn, input)
    }

    fn reject(&self, conn: &mut HttpConn, input: &[u8]) -> Option<u64> {
        Some(self.take::<true>(conn, input))
    }

    /// Returns heads and small content first, then larger content. While larger content waits, no response is added.
    #[inline]
    fn unsent<'a>(&'a self, conn: &'a HttpConn) -> &'a [u8] {
        match (conn.output.unsent(), conn.batch.sending) {
            ([], Some(body)) => self.content.from(body.found, body.at_bytes),
            (unsent, _) => unsent,
        }
    }

    /// Returns the larger content whose head is the end of [`Service::unsent`].
    #[inline]
    fn unsent_tail<'a>(&'a self, conn: &'a HttpConn) -> &'a [u8] {
        match conn.batch.sending {
            Some(body) if !conn.output.is_empty() && conn.output.ends_with_unsent() => {
                self.content.from(body.found, body.at_bytes)
            }
            _ => &[],
        }
    }

    #[inline]
    fn sent(&self, conn: &mut HttpConn, count: usize) -> u64 {
        let copied = count.min(conn.output.unsent().len());
        if copied > 0 {
            conn.output.sent(copied);
        }
        if let Some(body) = &mut conn.batch.sending {
            body.at_bytes += (count - copied) as u64;
            if body.at_bytes >= self.content.total_bytes(body.found) {
                conn.batch.sending = None;
            }
        }
        if !conn.output.is_empty() || conn.batch.sending.is_some() {
            return 0;
        }
        conn.input.resume(|input| self.process::<false>(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn is_over(&self, conn: &HttpConn) -> bool {
        conn.batch.is_over()
    }

    #[inline]
    fn is_cut_short(&self, conn: &HttpConn) -> bool {
        matches!(conn.batch.ending, Ending::CutShort { dropped_bytes } if dropped_bytes < DROPPED_BYTES_MAX)
    }

    #[inline]
    fn is_idle(&self, conn: &HttpConn) -> bool {
        // The buffer may hold the first half of an empty line, which is not part of a request.
        let is_between_requests = conn.batch.scan.is_new() && conn.batch.body.is_none();
        is_between_requests && matches!(conn.input.pending(), b"" | b"\r")
    }
}

impl OneByOne for Http {
    fn one_by_one(self) -> Self {
        Self { is_one_by_one: true, ..self }
    }
}

impl Http {
    #[inline]
    fn take<const REJECTS: bool>(&self, conn: &mut HttpConn, input: &[u8]) -> u64 {
        if conn.batch.is_over() {
            if let Ending::CutShort { dropped_bytes } = &mut conn.batch.ending {
                *dropped_bytes += input.len() as u64;
            }
            return 0;
        }
        conn.input.receive(input, |input| self.process::<REJECTS>(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn process<const REJECTS: bool>(&self, state: &mut BatchState, input: &[u8], out: &mut Vec<u8>) -> Processed {
        let (mut at, mut requests) = (0, 0);
        let mut date = None;
        while !state.is_over() && state.sending.is_none() && out.len() < OUTPUT_BYTES_MAX && at < input.len() {
            let rest = &input[at..];
            let step = match state.body {
                None => self.take_head(state, rest, out),
                Some(ref mut body) => body.take(rest),
            };
            let response = match step {
                Ok(None) => break,
                Ok(Some((taken_bytes, response))) => {
                    at += taken_bytes;
                    response
                }
                Err(status) => Some(Response { result: Err(status), connection: Connection::Closes, is_bare: false }),
            };
            if let Some(mut response) = response {
                if REJECTS && response.result.is_ok() {
                    response.result = Err(Status::ServiceUnavailable);
                }
                state.body = None;
                state.sending = self.write(response, &mut date, out);
                if response.connection == Connection::Closes {
                    // More bytes of a refused request may follow.
                    let is_cut_short = response.result.is_err() || at < input.len();
                    state.ending = if is_cut_short { Ending::CutShort { dropped_bytes: 0 } } else { Ending::Clean };
                }
                requests += 1;
                if self.is_one_by_one && !REJECTS {
                    break;
                }
            }
        }
        Processed { bytes: at, requests, is_last: state.is_over() }
    }

    /// Takes a head. The response waits if a body follows.
    fn take_head(&self, state: &mut BatchState, rest: &[u8], out: &mut Vec<u8>) -> Step {
        if state.scan.is_new() {
            match rest {
                // Clients that miscount leave an extra line end after a body (RFC 9112 section 2.2).
                [b'\r', b'\n', ..] => return Ok(Some((2, None))),
                [b'\r'] => return Ok(None),
                // TLS begins like this, but no method does. Respond at once, because a TLS client waits for an answer.
                [first, ..] if !first.is_ascii_graphic() => return Err(Status::BadRequest),
                _ => {}
            }
        }
        let Some(head_bytes) = state.scan.find(rest)? else { return Ok(None) };
        state.scan = Scan::default();
        let bytes = &rest[..head_bytes];
        let copy;
        let head = match parse(bytes) {
            Err(Status::VersionNotSupported) => {
                copy = as_1_1(bytes).ok_or(Status::VersionNotSupported)?;
                parse(&copy)?
            }
            parsed => parsed?,
        };
        let response = match self.respond(&head) {
            Ok(response) if head.body != Framing::Length(0) => response,
            Ok(response) | Err(response) => return Ok(Some((head_bytes, Some(response)))),
        };
        if head.awaits_continue {
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let left = match head.body {
            Framing::Length(bytes) => Left::Bytes(bytes),
            Framing::Chunked => Left::Chunks { chunked: Chunked::default(), received_bytes: 0 },
        };
        state.body = Some(Discarded { left, response });
        Ok(Some((head_bytes, None)))
    }
}

impl Discarded {
    fn take(&mut self, rest: &[u8]) -> Step {
        match &mut self.left {
            Left::Bytes(left) => {
                let taken_bytes = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken_bytes as u64;
                Ok(Some((taken_bytes, (*left == 0).then_some(self.response))))
            }
            Left::Chunks { chunked, received_bytes } => {
                let taken = chunked.take(rest).map_err(|Malformed| Status::BadRequest)?;
                let Some((taken_bytes, part)) = taken else { return Ok(None) };
                // Count a chunk at its size line, so that the result does not depend on how the input is split.
                *received_bytes = match part {
                    Part::Size(bytes) => received_bytes.saturating_add(bytes).saturating_add(taken_bytes as u64),
                    Part::Other | Part::Last => *received_bytes + taken_bytes as u64,
                    Part::Content => *received_bytes,
                };
                if *received_bytes > BODY_BYTES_MAX {
                    return Err(Status::ContentTooLarge);
                }
                Ok(Some((taken_bytes, (part == Part::Last).then_some(self.response))))
            }
        }
    }
}
