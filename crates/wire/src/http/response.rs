//! The choice of a response to each request, and the bytes of responses.

use std::sync::Arc;

use super::content::{COPIED_BYTES_MAX, Content, Found};
use super::date::{Date, date};
use super::head::{Connection, Framing, Head, Method};
use super::status::Status;
use super::target;
use crate::service::Clock;

/// Largest body of a request, including chunk lines (nginx's default). The service discards bodies.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 20;
const OK: &str = "HTTP/1.1 200 OK\r\n";
const SERVER: &[u8] = b"Server: muxbench\r\nDate: ";
const HEAD_BYTES: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub result: Result<Found, Status>,
    pub connection: Connection,
    /// Whether to omit the content, as for HEAD.
    pub is_bare: bool,
}

/// Content that is sent without copying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub found: Found,
    pub at_bytes: u64,
}

/// HTTP for content in memory.
pub struct Http {
    pub(super) content: Arc<Content>,
    /// The clock for the `Date` of responses, read once per batch.
    pub(super) clock: Clock,
    pub(super) is_one_by_one: bool,
}

impl Http {
    /// Creates a service for this content. It reads no clock except `clock`.
    pub fn new(content: impl Into<Arc<Content>>, clock: Clock) -> Self {
        Self { content: content.into(), clock, is_one_by_one: false }
    }

    /// Returns the response to write after the request's body. An `Err` ends the connection without waiting for the body.
    #[inline]
    pub(super) fn respond(&self, head: &Head<'_>) -> Result<Response, Response> {
        let is_bare = head.method == Method::Head;
        let refuse = |status| Err(Response { result: Err(status), connection: Connection::Closes, is_bare });
        if head.expects_other {
            return refuse(Status::ExpectationFailed);
        }
        if matches!(head.body, Framing::Length(bytes) if bytes > BODY_BYTES_MAX) {
            return refuse(Status::ContentTooLarge);
        }
        let result = match head.method {
            Method::Get | Method::Head => match target::path(head.target).and_then(|path| self.content.find(path)) {
                Some(found) => found.ok_or(Status::NotFound),
                None => return refuse(Status::BadRequest),
            },
            Method::NotAllowed => Err(Status::MethodNotAllowed),
            Method::Unknown => Err(Status::NotImplemented),
        };
        Ok(Response { result, connection: head.connection, is_bare })
    }

    /// Writes a response; `now` keeps the date for the rest of the batch. Returns content to send without copying, if any.
    #[inline]
    pub(super) fn write(&self, response: Response, now: &mut Option<Date>, out: &mut Vec<u8>) -> Option<Body> {
        let now = now.get_or_insert_with(|| date((self.clock)()));
        let last_field = match response.connection {
            Connection::Persists => &b"\r\n"[..],
            Connection::AnnouncesPersistence => b"Connection: keep-alive\r\n\r\n",
            Connection::Closes => b"Connection: close\r\n\r\n",
        };
        let mut number = itoa::Buffer::new();
        let found = match response.result {
            Ok(found) => found,
            Err(status) => {
                let (line, fields, body) = status.parts();
                let body_bytes = number.format(body.len());
                begin(out, line, now, body.len());
                append(out, [fields, "Content-Length: ", body_bytes, "\r\n"].map(str::as_bytes));
                out.extend_from_slice(last_field);
                if !response.is_bare {
                    out.extend_from_slice(body.as_bytes());
                }
                return None;
            }
        };
        let total_bytes = if response.is_bare { 0 } else { self.content.total_bytes(found) };
        let is_copied = total_bytes <= COPIED_BYTES_MAX;
        let copied_bytes = if is_copied { total_bytes as usize } else { 0 };
        begin(out, OK, now, copied_bytes);
        match found {
            Found::Page(page) => out.extend_from_slice(self.content.page(page).fields.as_bytes()),
            Found::Generated { bytes } => {
                let fields =
                    ["Content-Type: application/octet-stream\r\nContent-Length: ", number.format(bytes), "\r\n"];
                append(out, fields.map(str::as_bytes));
            }
        }
        out.extend_from_slice(last_field);
        if copied_bytes > 0 {
            // This is all of the content: FILL_BYTES is at least COPIED_BYTES_MAX.
            out.extend_from_slice(self.content.from(found, 0));
        }
        (!is_copied).then_some(Body { found, at_bytes: 0 })
    }
}

#[inline]
fn begin(out: &mut Vec<u8>, line: &str, now: &Date, body_bytes: usize) {
    out.reserve(HEAD_BYTES + body_bytes);
    append(out, [line.as_bytes(), SERVER, now, b"\r\n"]);
}

#[inline]
fn append<const N: usize>(out: &mut Vec<u8>, parts: [&[u8]; N]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}
