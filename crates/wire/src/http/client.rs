//! The client's side of the protocol, sans I/O: requests, and responses as they come.

use std::fmt;
use std::mem::MaybeUninit;
use std::str::FromStr;

use super::chunked::{Chunked, Malformed, Part};
use super::head::{self, FIELDS_MAX, Options, Scan, digits, once, response_as_1_1};

/// Where a request goes, and what it asks for there: `http://HOST[:PORT]/PATH?QUERY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port; 80 if none is named.
    pub port: u16,
    /// Host and port as they were written, which is what the server is told.
    pub authority: String,
    /// Path and query, encoded as they were.
    pub target: String,
}

/// Why a request cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// It is no URL of a kind that is asked for here.
    Url(String),
    /// The request would not be one, or would be several.
    Request(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{url}: not a URL as http://127.0.0.1:8080/path, without user and fragment"),
            Self::Request(line) => write!(
                f,
                "{line}: not a request; encode what is no ASCII (%20 for a space), and leave line ends, Content-Length, \
                 Transfer-Encoding, Connection and Expect out of the headers"
            ),
        }
    }
}

impl std::error::Error for RequestError {}

impl FromStr for Url {
    type Err = RequestError;

    fn from_str(url: &str) -> Result<Self, RequestError> {
        let parse = || {
            let (scheme, rest) = url.split_once("://")?;
            let authority_bytes = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, target) = rest.split_at(authority_bytes);
            let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
            // Colons of an IPv6 address are within its brackets.
            let port_at = authority.rfind(':').filter(|&at| !authority[at..].contains(']'));
            let host = &authority[..port_at.unwrap_or(authority.len())];
            let port = port_at.map_or(Some(80), |at| authority[at + 1..].parse().ok())?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            // In a path or query `@` is a letter like others; before them it would follow a user's name.
            let is_known = !rest.contains('#') && !authority.contains('@');
            let is_one = scheme.eq_ignore_ascii_case("http") && !host.is_empty() && is_known;
            is_one.then(|| Self { host: host.to_owned(), port, authority: authority.to_owned(), target })
        };
        parse().ok_or_else(|| RequestError::Url(url.to_owned()))
    }
}

/// A request without a body, as it is sent each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Vec<u8>,
    is_head: bool,
}

impl Request {
    /// `method` is GET, HEAD or another that needs no body; `headers` are names and values. `closes` tells the server to end
    /// the connection after its response.
    pub fn new(method: &str, url: &Url, headers: &[(&str, &str)], closes: bool) -> Result<Self, RequestError> {
        let mut text = format!("{method} {} HTTP/1.1\r\n", url.target);
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        let mut add = |name: &str, value: &str| text.extend([name, ": ", value, "\r\n"]);
        if !headers.iter().any(|(name, _)| is(name, "host")) {
            add("Host", &url.authority);
        }
        if closes {
            add("Connection", "close");
        }
        for (name, value) in headers {
            add(name, value);
        }
        text.push_str("\r\n");
        // It is what a server would make of it, or it is refused: nobody smuggles a line end into a header.
        let ours = ["content-length", "transfer-encoding", "connection", "expect"];
        let is_of_line = |word: &str| !word.contains(['\r', '\n']);
        let is_one = is_of_line(method)
            && is_of_line(&url.target)
            && headers.iter().all(|(name, value)| is_of_line(name) && is_of_line(value))
            && !headers.iter().any(|(name, _)| ours.iter().any(|other| is(name, other)))
            && Scan::default().find(text.as_bytes()) == Ok(Some(text.len()))
            && head::parse(text.as_bytes()).is_ok();
        if !is_one {
            return Err(RequestError::Request(text.escape_debug().to_string()));
        }
        Ok(Self { bytes: text.into_bytes(), is_head: method == "HEAD" })
    }

    /// What is to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is HEAD, whose response has no body.
    pub fn is_head(&self) -> bool {
        self.is_head
    }
}

/// A whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// How long the content was that came.
    pub body_bytes: u64,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// What a response should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The status code.
    pub status: u16,
    /// How long the content is, if that is known.
    pub body_bytes: Option<u64>,
}

impl Expected {
    /// Whether it is.
    #[inline]
    pub fn is(&self, response: &Response) -> bool {
        self.status == response.status && self.body_bytes.is_none_or(|bytes| bytes == response.body_bytes)
    }
}

/// No response as HTTP/1.1 has them, and why. Where the next begins cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(pub &'static str);

/// What has come of one connection's response, whose bytes may come in any pieces.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a head or of a chunk's line whose end has not come: seldom anything.
    kept: Vec<u8>,
    scan: Scan,
    within: Within,
    response: Option<Response>,
}

/// Where in a response the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Head,
    /// So much of the body is still to come.
    Length(u64),
    Chunks(Chunked),
    /// The body is all that comes until the connection ends.
    UntilEnd,
}

/// How a response's body ends, if there is one.
type Body = Option<Within>;

impl Reader {
    /// Reads on; how many of `bytes` belong to this response, and the response if they end it. Then the reader is ready for
    /// the next one. `is_head` is of the request, and must be the same until the response is whole.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], is_head: bool) -> (usize, Option<Result<Response, Garbage>>) {
        match self.read_on(bytes, is_head) {
            Ok((taken_bytes, response)) => (taken_bytes, response.map(Ok)),
            Err(garbage) => {
                *self = Self::default();
                (bytes.len(), Some(Err(garbage)))
            }
        }
    }

    /// The server has ended the connection; the response that ended with it, or was cut short.
    pub fn end(&mut self) -> Option<Result<Response, Garbage>> {
        let Self { kept, within, response, .. } = std::mem::take(self);
        match within {
            Within::Head if kept.is_empty() => None,
            Within::UntilEnd => response.map(Ok),
            _ => Some(Err(Garbage("the connection ended within a response"))),
        }
    }

    fn read_on(&mut self, bytes: &[u8], is_head: bool) -> Result<(usize, Option<Response>), Garbage> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.within {
                Within::Head | Within::Chunks(_) if !self.kept.is_empty() => {
                    // A head and each line of chunks end with a line end.
                    let taken_bytes = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                    let mut kept = std::mem::take(&mut self.kept);
                    kept.extend_from_slice(&rest[..taken_bytes]);
                    if self.take(&kept, is_head)? > 0 {
                        kept.clear();
                    }
                    self.kept = kept;
                    taken_bytes
                }
                _ => {
                    let taken_bytes = self.take(rest, is_head)?;
                    if taken_bytes == 0 {
                        self.kept.extend_from_slice(rest);
                        rest.len()
                    } else {
                        taken_bytes
                    }
                }
            };
            if self.within == Within::Head
                && let Some(response) = self.response.take()
            {
                return Ok((at, Some(response)));
            }
        }
        Ok((at, None))
    }

    /// Takes a head, a line or content; how much that was, or nothing if it is not all there. [`Within::Head`] and a
    /// response is the end.
    #[inline]
    fn take(&mut self, bytes: &[u8], is_head: bool) -> Result<usize, Garbage> {
        let mut came = |content_bytes: usize| {
            if let Some(response) = &mut self.response {
                response.body_bytes += content_bytes as u64;
            }
        };
        match &mut self.within {
            Within::Head => {
                let found =
                    self.scan.find(bytes).map_err(|_| Garbage("a head too long, or lines that end in LF only"))?;
                let Some(head_bytes) = found else { return Ok(0) };
                self.scan = Scan::default();
                if let Some((response, body)) = begin(&bytes[..head_bytes], is_head)? {
                    self.response = Some(response);
                    self.within = body.unwrap_or_default();
                }
                Ok(head_bytes)
            }
            Within::Length(left) => {
                let taken_bytes = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken_bytes as u64;
                came(taken_bytes);
                if *left == 0 {
                    self.within = Within::Head;
                }
                Ok(taken_bytes)
            }
            Within::Chunks(chunked) => {
                let taken = chunked.take(bytes).map_err(|Malformed| Garbage("chunks that are malformed"))?;
                let Some((taken_bytes, part)) = taken else { return Ok(0) };
                match part {
                    Part::Content => came(taken_bytes),
                    Part::Last => self.within = Within::Head,
                    Part::Size(_) | Part::Other => {}
                }
                Ok(taken_bytes)
            }
            Within::UntilEnd => {
                came(bytes.len());
                Ok(bytes.len())
            }
        }
    }
}

/// What a head says, and how its body ends; `None` if another head follows, of the response proper.
#[inline]
fn begin(bytes: &[u8], is_head: bool) -> Result<Option<(Response, Body)>, Garbage> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    if parsed == Err(httparse::Error::Version)
        && let Some(copy) = response_as_1_1(bytes)
    {
        return begin(&copy, is_head);
    }
    if parsed != Ok(httparse::Status::Complete(bytes.len())) {
        return Err(Garbage("a head that is malformed"));
    }
    let (Some(status), Some(minor)) = (head.code, head.version) else {
        return Err(Garbage("a head without status"));
    };
    let (mut length, mut coding, mut options) = (None, None, Options::default());
    for field in head.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        match field.name.len() {
            14 if is("content-length") => {
                let said = digits(field.value).ok_or(Garbage("a Content-Length that is no number"))?;
                if length.replace(said).is_some_and(|earlier| earlier != said) {
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
        (101, ..) => return Err(Garbage("another protocol than was asked for")),
        (100..=199, ..) => return Ok(None),
        (204 | 304, ..) => None,
        _ if is_head => None,
        (_, Some(_), Some(_)) => return Err(Garbage("both a Content-Length and a Transfer-Encoding")),
        (_, Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Some(Within::Chunks(Chunked::default())),
        (_, Some(_), None) => return Err(Garbage("a Transfer-Encoding that was not asked for")),
        (_, None, Some(0)) => None,
        (_, None, Some(length)) => Some(Within::Length(length)),
        (_, None, None) => Some(Within::UntilEnd),
    };
    let closes = options.close || (minor == 0 && !options.keep_alive) || body == Some(Within::UntilEnd);
    Ok(Some((Response { status, body_bytes: 0, closes }, body)))
}

#[cfg(test)]
mod tests;
