//! Heads of requests: their end and their meaning.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Error, Header};

use super::status::Status;

/// Longest request line: RFC 9112 section 3 recommends at least 8000.
pub(super) const LINE_BYTES_MAX: usize = 8 << 10;
pub(super) const HEAD_BYTES_MAX: usize = 32 << 10;
pub(super) const FIELDS_MAX: usize = 100;

/// The state of the search for the end of a head. Each call passes all input since the beginning of the head.
#[derive(Debug, Default)]
pub(super) struct Scan {
    line_at: u32,
    searched_bytes: u32,
}

impl Scan {
    /// Returns the end of a request's head, after its empty line; `None` if it has not arrived. A line ends only with CR LF.
    #[inline]
    pub fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        self.find_within(bytes, LINE_BYTES_MAX, HEAD_BYTES_MAX)
    }

    /// Returns the end of a head whose first line and whose size have these limits.
    #[inline]
    pub fn find_within(&mut self, bytes: &[u8], line_max: usize, head_max: usize) -> Result<Option<usize>, Status> {
        loop {
            let searched_bytes = self.searched_bytes as usize;
            let found = memchr::memchr(b'\n', &bytes[searched_bytes..]);
            let end = found.map_or(bytes.len(), |found| searched_bytes + found);
            if self.line_at == 0 && end > line_max {
                return Err(Status::UriTooLong);
            }
            if end > head_max {
                return Err(Status::HeadTooLarge);
            }
            // No overflow: a head is shorter than 4 GiB.
            self.searched_bytes = end as u32;
            if found.is_none() {
                return Ok(None);
            }
            if end == 0 || bytes[end - 1] != b'\r' {
                return Err(Status::BadRequest);
            }
            let is_empty = end == self.line_at as usize + 1;
            self.searched_bytes += 1;
            self.line_at = self.searched_bytes;
            if is_empty {
                return Ok(Some(end + 1));
            }
        }
    }

    #[inline]
    pub fn is_new(&self) -> bool {
        self.searched_bytes == 0
    }
}

#[derive(Debug)]
pub(super) struct Head<'a> {
    pub method: Method,
    pub target: &'a str,
    pub connection: Connection,
    pub body: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    pub awaits_continue: bool,
    /// The client has an unknown expectation.
    pub expects_other: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    /// Another method of RFC 9110, or PATCH: known, but never allowed.
    NotAllowed,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Persistent, the default of HTTP/1.1.
    Persists,
    /// Persistent; the response has `Connection: keep-alive`, which an HTTP/1.0 client needs.
    AnnouncesPersistence,
    Closes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// Parses a complete head. The connection ends after an error, because the start of the next request is unknown.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<Head<'_>, Status> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let is_version = |word: &[u8]| matches!(word, [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        // The caller skips empty lines before a head; httparse would accept them as part of the head.
        Ok(parsed) if parsed == httparse::Status::Complete(bytes.len()) => {}
        Err(Error::TooManyHeaders) => return Err(Status::HeadTooLarge),
        Err(Error::Version) if is_version(&bytes[version_at(bytes)]) => return Err(Status::VersionNotSupported),
        _ => return Err(Status::BadRequest),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Status::BadRequest);
    };
    let (mut hosts, mut length, mut coding, mut expectation) = (0, None, None, None);
    let mut options = Options::default();
    for &Header { name, value } in request.headers.iter() {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            4 if is("host") && value.iter().copied().all(is_host_byte) => hosts += 1,
            4 if is("host") => return Err(Status::BadRequest),
            10 if is("connection") => options.add(value),
            14 if is("content-length") => once(&mut length, digits(value).ok_or(Status::BadRequest)?)?,
            17 if is("transfer-encoding") => once(&mut coding, value)?,
            6 if is("expect") => expectation = Some(value),
            _ => {}
        }
    }
    if hosts > 1 || (hosts == 0 && minor > 0) {
        return Err(Status::BadRequest);
    }
    let body = match (length, coding) {
        (length, None) => Framing::Length(length.unwrap_or(0)),
        // Two lengths, or a coding that HTTP/1.0 lacks, may be request smuggling.
        (Some(_), Some(_)) => return Err(Status::BadRequest),
        (None, Some(_)) if minor == 0 => return Err(Status::BadRequest),
        (None, Some(coding)) => framing(coding)?,
    };
    let connection = match (minor, options.close, options.keep_alive) {
        (_, true, _) | (0, false, false) => Connection::Closes,
        (0, false, true) => Connection::AnnouncesPersistence,
        (_, false, _) => Connection::Persists,
    };
    let expectation = expectation.filter(|_| minor > 0);
    let awaits_continue = expectation.is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"));
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" => Method::NotAllowed,
        _ => Method::Unknown,
    };
    Ok(Head {
        method,
        target,
        connection,
        body,
        awaits_continue: awaits_continue && body != Framing::Length(0),
        expects_other: expectation.is_some() && !awaits_continue,
    })
}

#[derive(Default)]
pub(super) struct Options {
    pub close: bool,
    pub keep_alive: bool,
}

impl Options {
    pub fn add(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Sets a field. Refuses a second value, even an equal one (RFC 9110 section 8.6 allows this refusal).
pub(super) fn once<T>(field: &mut Option<T>, value: T) -> Result<(), Status> {
    field.replace(value).map_or(Ok(()), |_| Err(Status::BadRequest))
}

/// Whether a host and port may contain the byte (RFC 3986 section 3.2).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

/// Parses transfer codings. Only `chunked` is supported. If it is not the last coding, the body has no known end (RFC 9112
/// section 6.3).
fn framing(coding: &[u8]) -> Result<Framing, Status> {
    let mut are_chunked =
        coding.rsplit(|&byte| byte == b',').map(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked"));
    match (are_chunked.next(), are_chunked.next()) {
        (Some(true), None) => Ok(Framing::Chunked),
        (Some(true), Some(false)) if !are_chunked.any(|is_chunked| is_chunked) => Err(Status::NotImplemented),
        _ => Err(Status::BadRequest),
    }
}

/// Returns the place of the version: the first word of a status line, the third of a request line.
fn version_at(bytes: &[u8]) -> Range<usize> {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.splitn(3, |&byte| byte == b' ');
    match words.next() {
        Some(first) if first.starts_with(b"HTTP/") => 0..first.len(),
        _ => line.len() - words.nth(1).unwrap_or_default().len()..line.len(),
    }
}

/// Copies a head with HTTP/1.1 instead of a higher minor version, which `httparse` refuses (RFC 9110 section 2.5).
#[cold]
pub(super) fn as_1_1(bytes: &[u8]) -> Option<Vec<u8>> {
    let version = version_at(bytes);
    let is_higher = matches!(bytes[version.clone()], [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9']);
    is_higher.then(|| {
        let mut copy = bytes.to_vec();
        copy[version.end - 1] = b'1';
        copy
    })
}

#[inline]
pub(super) fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
