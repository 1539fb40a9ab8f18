//! A request's head: where it ends, and what it asks for.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Error, Header};

use super::status::Status;

/// Longest line of a request: RFC 9112 section 3 recommends at least 8000.
pub(super) const LINE_BYTES_MAX: usize = 8 << 10;
/// Longest head.
pub(super) const HEAD_BYTES_MAX: usize = 32 << 10;
/// Most fields of a head.
pub(super) const FIELDS_MAX: usize = 100;

/// How far the search for a head's end is. The bytes searched must begin with the head, and only grow.
#[derive(Debug, Default)]
pub(super) struct Scan {
    line_at: u32,
    searched_bytes: u32,
}

impl Scan {
    /// Where the head ends, behind its empty line; `None` if that has not come.
    ///
    /// A line ends with CR LF and nothing else: what another party takes for a line must not be something else to us.
    #[inline]
    pub fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        loop {
            let searched_bytes = self.searched_bytes as usize;
            let found = memchr::memchr(b'\n', &bytes[searched_bytes..]);
            let end = found.map_or(bytes.len(), |found| searched_bytes + found);
            if self.line_at == 0 && end > LINE_BYTES_MAX {
                return Err(Status::UriTooLong);
            }
            if end > HEAD_BYTES_MAX {
                return Err(Status::HeadTooLarge);
            }
            // It fits: a head is shorter than 4 GiB.
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

    /// Whether the head's first byte has still to come.
    #[inline]
    pub fn is_new(&self) -> bool {
        self.searched_bytes == 0
    }
}

/// What a request asks for, in its own words where they are needed.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub method: Method,
    pub target: &'a str,
    pub connection: Connection,
    pub body: Framing,
    /// The client awaits_continue to be told to go on before it sends the body.
    pub awaits_continue: bool,
    /// The client expects what we do not know.
    pub expects_other: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    /// One of RFC 9110's, or PATCH: there is no content for which it is allowed.
    NotAllowed,
    Unknown,
}

/// What becomes of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// It stays, as is usual in HTTP/1.1.
    Persists,
    /// It stays, which a client of HTTP/1.0 has to be told.
    AnnouncesPersistence,
    Closes,
}

/// How a request's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// Reads a whole head. An error is one after which the connection ends, for where the next request begins is in doubt.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<Head<'_>, Status> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        // A head that ends before its empty line is what httparse makes of empty lines, which are taken before.
        Ok(parsed) if parsed == httparse::Status::Complete(bytes.len()) => {}
        Err(Error::TooManyHeaders) => return Err(Status::HeadTooLarge),
        Err(Error::Version) if is_other_version(bytes) => return Err(Status::VersionNotSupported),
        _ => return Err(Status::BadRequest),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Status::BadRequest);
    };
    let fields = Fields::read(request.headers)?;
    if fields.hosts > 1 || (fields.hosts == 0 && minor > 0) {
        return Err(Status::BadRequest);
    }
    let body = match (fields.length, fields.coding) {
        (length, None) => Framing::Length(length.unwrap_or(0)),
        // Two ways to say where a request ends, or one that HTTP/1.0 has not: somebody may be smuggling.
        (Some(_), Some(_)) => return Err(Status::BadRequest),
        (None, Some(_)) if minor == 0 => return Err(Status::BadRequest),
        (None, Some(coding)) => framing(coding)?,
    };
    let connection = match (minor, fields.options.close, fields.options.keep_alive) {
        (_, true, _) | (0, false, false) => Connection::Closes,
        (0, false, true) => Connection::AnnouncesPersistence,
        (_, false, _) => Connection::Persists,
    };
    let expectation = fields.expectation.filter(|_| minor > 0);
    let awaits_continue = expectation.is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"));
    Ok(Head {
        method: method_of(method),
        target,
        connection,
        body,
        awaits_continue: awaits_continue && body != Framing::Length(0),
        expects_other: expectation.is_some() && !awaits_continue,
    })
}

fn method_of(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" => Method::NotAllowed,
        _ => Method::Unknown,
    }
}

/// The fields that matter to us.
#[derive(Default)]
struct Fields<'a> {
    hosts: u32,
    length: Option<u64>,
    coding: Option<&'a [u8]>,
    expectation: Option<&'a [u8]>,
    options: Options,
}

/// What `Connection` says.
#[derive(Default)]
pub(super) struct Options {
    pub close: bool,
    pub keep_alive: bool,
}

impl Options {
    /// Reads the field, or one more of it.
    pub fn add(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

impl<'a> Fields<'a> {
    #[inline]
    fn read(headers: &[Header<'a>]) -> Result<Self, Status> {
        let mut fields = Self::default();
        for &Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            match name.len() {
                4 if is("host") => {
                    fields.hosts += 1;
                    if !value.iter().copied().all(is_of_host) {
                        return Err(Status::BadRequest);
                    }
                }
                10 if is("connection") => fields.options.add(value),
                14 if is("content-length") => once(&mut fields.length, digits(value).ok_or(Status::BadRequest)?)?,
                17 if is("transfer-encoding") => once(&mut fields.coding, value)?,
                6 if is("expect") => fields.expectation = Some(value),
                _ => {}
            }
        }
        Ok(fields)
    }
}

/// What is said twice is not believed, the same or not: RFC 9110 section 8.6 leaves that to us.
pub(super) fn once<T>(said: &mut Option<T>, value: T) -> Result<(), Status> {
    match said.replace(value) {
        None => Ok(()),
        Some(_) => Err(Status::BadRequest),
    }
}

/// Whether the byte may be part of a host and port (RFC 3986 section 3.2).
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

/// Only `chunked` is understood. What does not end in it has no end at all (RFC 9112 section 6.3).
fn framing(coding: &[u8]) -> Result<Framing, Status> {
    let mut are_chunked =
        coding.rsplit(|&byte| byte == b',').map(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked"));
    match (are_chunked.next(), are_chunked.next()) {
        (Some(true), None) => Ok(Framing::Chunked),
        (Some(true), Some(false)) if !are_chunked.any(|is_chunked| is_chunked) => Err(Status::NotImplemented),
        _ => Err(Status::BadRequest),
    }
}

/// Whether the third word of the first line, its last, is a version of the form that all have.
fn is_other_version(bytes: &[u8]) -> bool {
    matches!(&bytes[version_at(bytes)], [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
}

/// Where the third word of the first line is, to the line's end.
fn version_at(bytes: &[u8]) -> Range<usize> {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let version_bytes = line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default().len();
    line.len() - version_bytes..line.len()
}

/// A copy of a request's head that says HTTP/1.1, if it says a higher minor version: RFC 9110 section 2.5 has a server
/// process it so, but `httparse` refuses it.
#[cold]
pub(super) fn request_as_1_1(bytes: &[u8]) -> Option<Vec<u8>> {
    replace_version(bytes, version_at(bytes))
}

/// The same of a response's head.
#[cold]
pub(super) fn response_as_1_1(bytes: &[u8]) -> Option<Vec<u8>> {
    replace_version(bytes, 0..bytes.iter().position(|&byte| byte == b' ')?)
}

fn replace_version(bytes: &[u8], version: Range<usize>) -> Option<Vec<u8>> {
    let is_higher = matches!(bytes[version.clone()], [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9']);
    is_higher.then(|| {
        let mut copy = bytes.to_vec();
        copy[version.end - 1] = b'1';
        copy
    })
}

/// A number of digits only, which are not more than a number can have.
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
