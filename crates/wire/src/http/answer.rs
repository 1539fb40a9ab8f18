//! What is said of each request.

use super::Http;
use super::content::Found;
use super::date::{DATE_BYTES, date};
use super::head::{Connection, Framing, Head, Method};
use super::status::Status;
use super::{target, turn};
use crate::Clock;

/// Content up to this size is copied behind its head, so that one write sends both. About here the copy takes as much of
/// a CPU as a second write would.
pub(super) const COPIED_BYTES_MAX: u64 = 32 << 10;

const OK: &str = "HTTP/1.1 200 OK\r\n";
const SERVER: &[u8] = b"Server: muxbench\r\nDate: ";

/// A response before it is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub what: Result<Found, Status>,
    pub connection: Connection,
    /// Whether the request was HEAD: everything is said but the content.
    pub is_bare: bool,
}

/// Content that is sent from where it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub found: Found,
    /// So much of it is sent.
    pub at_bytes: u64,
}

/// The time, which is asked for only once in a turn.
pub(super) struct Now<'a> {
    clock: &'a Clock,
    date: Option<[u8; DATE_BYTES]>,
}

impl<'a> Now<'a> {
    pub fn new(clock: &'a Clock) -> Self {
        Self { clock, date: None }
    }

    #[inline]
    fn date(&mut self) -> &[u8; DATE_BYTES] {
        self.date.get_or_insert_with(|| date((self.clock)()))
    }
}

impl Answer {
    /// The last response of a connection.
    pub fn last(status: Status) -> Self {
        Self { what: Err(status), connection: Connection::Ends, is_bare: false }
    }
}

impl Http {
    /// The answer to a request, to be said once its body is there. An error is the last answer, which waits for nothing.
    #[inline]
    pub(super) fn answer(&self, head: &Head<'_>) -> Result<Answer, Answer> {
        let is_bare = head.method == Method::Head;
        let refuse = |status| Err(Answer { is_bare, ..Answer::last(status) });
        if head.expects_other {
            return refuse(Status::ExpectationFailed);
        }
        if matches!(head.body, Framing::Length(bytes) if bytes > turn::BODY_BYTES_MAX) {
            return refuse(Status::ContentTooLarge);
        }
        let what = match head.method {
            Method::Get | Method::Head => match target::path(head.target).and_then(|path| self.content.find(path)) {
                Some(found) => found.ok_or(Status::NotFound),
                None => return refuse(Status::BadRequest),
            },
            Method::NotAllowed => Err(Status::MethodNotAllowed),
            Method::Unknown => Err(Status::NotImplemented),
        };
        Ok(Answer { what, connection: head.connection, is_bare })
    }

    /// Says it; what of the content is to follow from where it is kept.
    #[inline]
    pub(super) fn say(&self, answer: Answer, now: &mut Now<'_>, out: &mut Vec<u8>) -> Option<Body> {
        let last_field = match answer.connection {
            Connection::Stays => &b"\r\n"[..],
            Connection::SaidToStay => b"Connection: keep-alive\r\n\r\n",
            Connection::Ends => b"Connection: close\r\n\r\n",
        };
        let mut number = itoa::Buffer::new();
        let found = match answer.what {
            Ok(found) => found,
            Err(status) => {
                let (line, fields, body) = status.parts();
                let body_bytes = number.format(body.len());
                begin(out, line, now, body.len());
                say_all(out, [fields, "Content-Length: ", body_bytes, "\r\n"].map(str::as_bytes));
                out.extend_from_slice(last_field);
                if !answer.is_bare {
                    out.extend_from_slice(body.as_bytes());
                }
                return None;
            }
        };
        let total_bytes = if answer.is_bare { 0 } else { self.content.total_bytes(found) };
        let is_copied = total_bytes <= COPIED_BYTES_MAX;
        let copied_bytes = if is_copied { total_bytes as usize } else { 0 };
        begin(out, OK, now, copied_bytes);
        match found {
            Found::Page(page) => out.extend_from_slice(self.content.page(page).fields.as_bytes()),
            Found::Generated { bytes } => {
                let fields =
                    ["Content-Type: application/octet-stream\r\nContent-Length: ", number.format(bytes), "\r\n"];
                say_all(out, fields.map(str::as_bytes));
            }
        }
        out.extend_from_slice(last_field);
        if copied_bytes > 0 {
            // In one piece, for it is generated in larger ones.
            out.extend_from_slice(self.content.from(found, 0));
        }
        (!is_copied).then_some(Body { found, at_bytes: 0 })
    }
}

/// Room for everything of a head that is not content.
const HEAD_BYTES: usize = 256;

#[inline]
fn begin(out: &mut Vec<u8>, line: &str, now: &mut Now<'_>, body_bytes: usize) {
    out.reserve(HEAD_BYTES + body_bytes);
    say_all(out, [line.as_bytes(), SERVER, now.date(), b"\r\n"]);
}

#[inline]
fn say_all<const N: usize>(out: &mut Vec<u8>, parts: [&[u8]; N]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}
