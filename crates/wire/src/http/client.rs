//! The client side of the protocol, without I/O: requests, and incremental reading of responses.

use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::chunked::{Chunked, Malformed, Part};
use super::head::{self, FIELDS_MAX, Options, Scan, as_1_1, digits, once};
use super::status::Status;

/// Largest head of a response, which curl limits so too.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 300 << 10;
/// Most header fields of a response, which curl limits so too.
const RESPONSE_FIELDS_MAX: usize = 5_000;

/// A URL: `http://HOST[:PORT]/PATH?QUERY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port; 80 by default.
    pub port: u16,
    /// Host and port as written, for the `Host` header.
    pub authority: String,
    /// Path and query as written.
    pub target: String,
}

/// An invalid request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not a supported URL.
    #[error("invalid URL `{0}`: expected http://127.0.0.1:8080/path, without user and fragment")]
    Url(String),
    /// Text that is not exactly one request.
    #[error(
        "invalid request `{0}`: encode all but ASCII (%20 for a space), remove line ends, Content-Length, \
         Transfer-Encoding, Connection and Expect from the headers, and use another method than CONNECT"
    )]
    Request(String),
}

impl FromStr for Url {
    type Err = RequestError;

    fn from_str(url: &str) -> Result<Self, RequestError> {
        // Unlike `parse`, without a sign.
        let number = |digits: &str| digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let parse = || {
            let (scheme, rest) = url.split_once("://")?;
            let authority_bytes = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, target) = rest.split_at(authority_bytes);
            let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
            // The colons of an IPv6 address are inside brackets.
            let port_at = authority.rfind(':').filter(|&at| !authority[at..].contains(']'));
            let host = &authority[..port_at.unwrap_or(authority.len())];
            let port = port_at.map_or(Some(80), |at| number(&authority[at + 1..]))?;
            let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let is_host = match bracketed {
                Some(address) => address.split('%').next()?.parse::<Ipv6Addr>().is_ok(),
                None => !host.contains(['[', ']', ':']),
            };
            let host = bracketed.unwrap_or(host);
            // Before the path, `@` would follow a user name.
            let is_known = !rest.contains('#') && !authority.contains('@');
            let is_one = scheme.eq_ignore_ascii_case("http") && !host.is_empty() && is_host && is_known;
            is_one.then(|| Self { host: host.to_owned(), port, authority: authority.to_owned(), target })
        };
        parse().ok_or_else(|| RequestError::Url(url.to_owned()))
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The bytes to send.
    pub bytes: Vec<u8>,
    /// Whether the method is HEAD, whose response has no body.
    pub is_head: bool,
}

impl Request {
    /// Creates a request. A body gets a `Content-Length`, even if it is empty, and so does a method that usually has one (RFC 9110,
    /// section 8.6).
    pub fn new(method: &str, url: &Url, headers: &[(&str, &str)], body: Option<&[u8]>) -> Result<Self, RequestError> {
        let mut text = format!("{method} {} HTTP/1.1\r\n", url.target);
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        let host = (!headers.iter().any(|(name, _)| is(name, "host"))).then_some(("Host", &*url.authority));
        let body = body.or(matches!(method, "POST" | "PUT" | "PATCH").then_some(&[]));
        let length = body.map(|body| body.len().to_string());
        let length = length.as_deref().map(|length| ("Content-Length", length));
        for (name, value) in host.into_iter().chain(headers.iter().copied()).chain(length) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        // Accept only text that a server parses as exactly this request, so that no header contains a line end.
        let reserved = ["content-length", "transfer-encoding", "connection", "expect"];
        let is_one_line = |word: &str| word.is_ascii() && !word.contains(['\r', '\n']);
        // The response to CONNECT would be a tunnel.
        let is_one = method != "CONNECT"
            && is_one_line(method)
            && is_one_line(&url.target)
            && headers.iter().all(|(name, value)| is_one_line(name) && is_one_line(value))
            && !headers.iter().any(|(name, _)| reserved.iter().any(|other| is(name, other)))
            && Scan::default().find(text.as_bytes()) == Ok(Some(text.len()))
            && head::parse(text.as_bytes()).is_ok();
        if !is_one {
            return Err(RequestError::Request(text.escape_debug().to_string()));
        }
        let bytes = [text.as_bytes(), body.unwrap_or_default()].concat();
        Ok(Self { bytes, is_head: method == "HEAD" })
    }
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Size of the received content.
    pub body_bytes: u64,
    /// Whether the connection ends after this response.
    pub closes: bool,
}

/// The reason why the input is not an HTTP/1.1 response. The start of the next response is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(pub &'static str);

/// Reads the responses of one connection from input in any pieces.
#[derive(Debug, Default)]
pub struct ResponseReader {
    /// The beginning of an incomplete head or chunk line; usually empty.
    pending: Vec<u8>,
    scan: Scan,
    position: Position,
    response: Option<Response>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Head,
    Length(u64),
    Chunks(Chunked),
    /// In a body that extends to the end of the connection.
    UntilEnd,
}

impl ResponseReader {
    /// Reads input. Returns the number of bytes taken, and the response if complete. `is_head`: the request was HEAD.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], is_head: bool) -> (usize, Option<Result<Response, Garbage>>) {
        match self.read_parts(bytes, is_head) {
            Ok((taken_bytes, response)) => (taken_bytes, response.map(Ok)),
            Err(garbage) => {
                *self = Self::default();
                (bytes.len(), Some(Err(garbage)))
            }
        }
    }

    /// Handles the end of the connection; returns the response that it completes or truncates.
    pub fn end(&mut self) -> Option<Result<Response, Garbage>> {
        let Self { pending, position, response, .. } = std::mem::take(self);
        match position {
            Position::Head if pending.is_empty() => None,
            Position::UntilEnd => response.map(Ok),
            _ => Some(Err(Garbage("the connection ended within a response"))),
        }
    }

    fn read_parts(&mut self, bytes: &[u8], is_head: bool) -> Result<(usize, Option<Response>), Garbage> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.position {
                Position::Head | Position::Chunks(_) if !self.pending.is_empty() => {
                    // A head and a chunk line both end with a line feed.
                    let taken_bytes = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                    let mut pending = std::mem::take(&mut self.pending);
                    pending.extend_from_slice(&rest[..taken_bytes]);
                    if self.take(&pending, is_head)? > 0 {
                        pending.clear();
                    }
                    self.pending = pending;
                    taken_bytes
                }
                _ => {
                    let taken_bytes = self.take(rest, is_head)?;
                    if taken_bytes == 0 {
                        self.pending.extend_from_slice(rest);
                        rest.len()
                    } else {
                        taken_bytes
                    }
                }
            };
            if self.position == Position::Head
                && let Some(response) = self.response.take()
            {
                return Ok((at, Some(response)));
            }
        }
        Ok((at, None))
    }

    /// Takes a head, a line or content; returns its size, 0 if incomplete. A complete response sets the position to `Head`.
    #[inline]
    fn take(&mut self, bytes: &[u8], is_head: bool) -> Result<usize, Garbage> {
        let mut count = |content_bytes: usize| {
            if let Some(response) = &mut self.response {
                response.body_bytes += content_bytes as u64;
            }
        };
        match &mut self.position {
            Position::Head => {
                let found = self.scan.find_within(bytes, RESPONSE_HEAD_BYTES_MAX, RESPONSE_HEAD_BYTES_MAX);
                let found = found.map_err(|status| match status {
                    Status::BadRequest => Garbage("a line of its head that ends in LF without CR"),
                    _ => Garbage("a head of more than 300 KiB"),
                })?;
                let Some(head_bytes) = found else { return Ok(0) };
                self.scan = Scan::default();
                if let Some((response, body)) = begin(&bytes[..head_bytes], is_head)? {
                    self.response = Some(response);
                    self.position = body.unwrap_or_default();
                }
                Ok(head_bytes)
            }
            Position::Length(left) => {
                let taken_bytes = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken_bytes as u64;
                count(taken_bytes);
                if *left == 0 {
                    self.position = Position::Head;
                }
                Ok(taken_bytes)
            }
            Position::Chunks(chunked) => {
                let taken = chunked.take(bytes).map_err(|Malformed| Garbage("chunks that are malformed"))?;
                let Some((taken_bytes, part)) = taken else { return Ok(0) };
                match part {
                    Part::Content => count(taken_bytes),
                    Part::Last => self.position = Position::Head,
                    Part::Size(_) | Part::Other => {}
                }
                Ok(taken_bytes)
            }
            Position::UntilEnd => {
                count(bytes.len());
                Ok(bytes.len())
            }
        }
    }
}

/// Parses a head; returns the response and the position at the start of its body. An interim response gives `None`.
#[inline]
fn begin(bytes: &[u8], is_head: bool) -> Result<Option<(Response, Option<Position>)>, Garbage> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    match begin_with(bytes, is_head, &mut fields) {
        Err(TOO_MANY_FIELDS) => begin_with(bytes, is_head, &mut vec![MaybeUninit::uninit(); RESPONSE_FIELDS_MAX]),
        begun => begun,
    }
}

const TOO_MANY_FIELDS: Garbage = Garbage("more than 5000 header fields");

#[inline]
fn begin_with<'a>(
    bytes: &'a [u8],
    is_head: bool,
    fields: &mut [MaybeUninit<httparse::Header<'a>>],
) -> Result<Option<(Response, Option<Position>)>, Garbage> {
    let mut head = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    match config.parse_response_with_uninit_headers(&mut head, bytes, fields) {
        Ok(parsed) if parsed == httparse::Status::Complete(bytes.len()) => {}
        Err(httparse::Error::Version) => match as_1_1(bytes) {
            Some(copy) => return begin(&copy, is_head),
            None => return Err(Garbage("a version other than HTTP/1.x")),
        },
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_MANY_FIELDS),
        Err(httparse::Error::Status) => return Err(Garbage("a status line that is malformed")),
        Err(httparse::Error::HeaderName) => return Err(Garbage("a header whose name has an invalid character")),
        Err(httparse::Error::HeaderValue) => return Err(Garbage("a header whose value has an invalid character")),
        _ => return Err(Garbage("a head that is malformed")),
    }
    let (Some(status), Some(minor)) = (head.code, head.version) else { return Err(Garbage("a head without status")) };
    let (mut length, mut coding, mut options) = (None, None, Options::default());
    for field in head.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        match field.name.len() {
            14 if is("content-length") => {
                let new = digits(field.value).ok_or(Garbage("a Content-Length that is not a number"))?;
                if length.replace(new).is_some_and(|earlier| earlier != new) {
                    return Err(Garbage("several Content-Lengths"));
                }
            }
            17 if is("transfer-encoding") => {
                once(&mut coding, field.value).map_err(|_| Garbage("several Transfer-Encodings"))?;
            }
            10 if is("connection") => options.add(field.value),
            _ => {}
        }
    }
    let body = match (status, coding, length) {
        (101, ..) => return Err(Garbage("a switch to an unrequested protocol")),
        (100..=199, ..) => return Ok(None),
        (204 | 304, ..) | (_, None, Some(0)) => None,
        _ if is_head => None,
        (_, Some(_), Some(_)) => return Err(Garbage("both a Content-Length and a Transfer-Encoding")),
        (_, Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => {
            Some(Position::Chunks(Chunked::default()))
        }
        (_, Some(_), None) => return Err(Garbage("an unrequested Transfer-Encoding")),
        (_, None, Some(length)) => Some(Position::Length(length)),
        (_, None, None) => Some(Position::UntilEnd),
    };
    let closes = options.close || (minor == 0 && !options.keep_alive) || body == Some(Position::UntilEnd);
    Ok(Some((Response { status, body_bytes: 0, closes }, body)))
}

#[cfg(test)]
mod tests;
