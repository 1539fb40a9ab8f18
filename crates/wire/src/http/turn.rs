//! One turn of a connection: requests are taken from the input and answered until one is incomplete, or enough is said.

use super::Http;
use super::answer::{Answer, Body, Now};
use super::chunked::{Chunked, Malformed, Part};
use super::head::{Connection, Framing, Scan, parse, request_as_1_1};
use super::status::Status;
use crate::inbox::Taken;

/// Once a turn has said so much, the rest waits until that is sent.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Largest body of a request, chunks' sizes included: it is of no use to anyone. nginx's default.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 20;

/// Most that is read of a client that was told that its connection ends, and sends on.
pub(super) const DROPPED_BYTES_MAX: u64 = 16 << 20;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How far a connection is.
#[derive(Debug, Default)]
pub(super) struct Turn {
    scan: Scan,
    /// A request's body is coming, and is thrown away.
    body: Option<Unwanted>,
    /// Content that is sent from where it is kept. Until it is, nothing more is taken.
    pub sending: Option<Body>,
    ending: Ending,
}

/// How a connection ends.
#[derive(Debug, Default)]
enum Ending {
    #[default]
    NotYet,
    /// After a request that the client knew to be the last.
    Clean,
    /// Amid what the client may still be sending, of which so much was thrown away.
    Amid { dropped_bytes: u64 },
}

/// A body that is coming, and what is said after it.
#[derive(Debug)]
struct Unwanted {
    left: Left,
    answer: Answer,
}

#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunks { chunked: Chunked, came_bytes: u64 },
}

impl Turn {
    /// Whether nothing more is taken, ever.
    #[inline]
    pub fn is_over(&self) -> bool {
        !matches!(self.ending, Ending::NotYet)
    }

    /// Whether it is over, and the client's input is worth being thrown away.
    #[inline]
    pub fn is_cut_short(&self) -> bool {
        matches!(self.ending, Ending::Amid { dropped_bytes } if dropped_bytes < DROPPED_BYTES_MAX)
    }

    /// Throws away so much of what came when it was over.
    pub fn drop_input(&mut self, bytes: usize) {
        if let Ending::Amid { dropped_bytes } = &mut self.ending {
            *dropped_bytes += bytes as u64;
        }
    }

    /// Whether no request's head or body has begun to come.
    #[inline]
    pub fn is_between_requests(&self) -> bool {
        self.scan.is_new() && self.body.is_none()
    }
}

impl Http {
    /// Takes what can be taken of `input` and answers it.
    #[inline]
    pub(super) fn take(&self, turn: &mut Turn, input: &[u8], out: &mut Vec<u8>) -> Taken {
        let (mut at, mut requests) = (0, 0);
        let mut now = Now::new(&self.clock);
        while !turn.is_over() && turn.sending.is_none() && out.len() < OUTPUT_BYTES_MAX && at < input.len() {
            let rest = &input[at..];
            let taken = match turn.body {
                None => self.take_head(turn, rest, out),
                Some(ref mut body) => body.take(rest),
            };
            let answer = match taken {
                Ok(None) => break,
                Ok(Some((taken_bytes, answer))) => {
                    at += taken_bytes;
                    answer
                }
                Err(status) => Some(Answer::last(status)),
            };
            if let Some(answer) = answer {
                turn.body = None;
                turn.sending = self.say(answer, &mut now, out);
                if answer.connection == Connection::Ends {
                    // What a request was refused for may be followed by more of it.
                    let is_amid = answer.what.is_err() || at < input.len();
                    turn.ending = if is_amid { Ending::Amid { dropped_bytes: 0 } } else { Ending::Clean };
                }
                requests += 1;
            }
        }
        Taken { bytes: at, requests, is_last: turn.is_over() }
    }

    /// Takes a head, and the answer if no body follows; `None` if it is not all there.
    #[inline]
    fn take_head(
        &self,
        turn: &mut Turn,
        rest: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, Option<Answer>)>, Status> {
        if turn.scan.is_new() {
            match rest {
                // Left over from an earlier body by clients that count wrong (RFC 9112 section 2.2).
                [b'\r', b'\n', ..] => return Ok(Some((2, None))),
                [b'\r'] => return Ok(None),
                // No method begins like this, but TLS does. It would wait for an answer.
                [first, ..] if !first.is_ascii_graphic() => return Err(Status::BadRequest),
                _ => {}
            }
        }
        let Some(head_bytes) = turn.scan.find(rest)? else { return Ok(None) };
        turn.scan = Scan::default();
        let bytes = &rest[..head_bytes];
        let copy;
        let head = match parse(bytes) {
            Err(Status::VersionNotSupported) => {
                copy = request_as_1_1(bytes).ok_or(Status::VersionNotSupported)?;
                parse(&copy)?
            }
            parsed => parsed?,
        };
        let answer = match self.answer(&head) {
            Ok(answer) if head.body != Framing::Length(0) => answer,
            Ok(answer) | Err(answer) => return Ok(Some((head_bytes, Some(answer)))),
        };
        if head.waits {
            out.extend_from_slice(CONTINUE);
        }
        let left = match head.body {
            Framing::Length(bytes) => Left::Bytes(bytes),
            Framing::Chunked => Left::Chunks { chunked: Chunked::default(), came_bytes: 0 },
        };
        turn.body = Some(Unwanted { left, answer });
        Ok(Some((head_bytes, None)))
    }
}

impl Unwanted {
    /// Takes some of the body, and the answer if that was the last of it; `None` if more must come first.
    fn take(&mut self, rest: &[u8]) -> Result<Option<(usize, Option<Answer>)>, Status> {
        match &mut self.left {
            Left::Bytes(left) => {
                let taken_bytes = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken_bytes as u64;
                Ok(Some((taken_bytes, (*left == 0).then_some(self.answer))))
            }
            Left::Chunks { chunked, came_bytes } => {
                let taken = chunked.take(rest).map_err(|Malformed| Status::BadRequest)?;
                let Some((taken_bytes, part)) = taken else { return Ok(None) };
                // A chunk counts when it begins, so that its pieces make no difference.
                *came_bytes = match part {
                    Part::Size(bytes) => came_bytes.saturating_add(bytes).saturating_add(taken_bytes as u64),
                    Part::Other | Part::Last => *came_bytes + taken_bytes as u64,
                    Part::Content => *came_bytes,
                };
                if *came_bytes > BODY_BYTES_MAX {
                    return Err(Status::ContentTooLarge);
                }
                Ok(Some((taken_bytes, (part == Part::Last).then_some(self.answer))))
            }
        }
    }
}
