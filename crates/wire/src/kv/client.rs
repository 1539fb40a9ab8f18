//! The client side of key-value protocols, without I/O: requests, and incremental reading of responses.

use std::io::Write;
use std::marker::PhantomData;

/// A protocol of a key-value store. Its responses consist of lines, and values after lines.
pub trait Dialect {
    /// The line that follows a value, if any.
    const AFTER_VALUE: Option<&'static [u8]>;

    /// Writes a request for one key.
    fn get(out: &mut Vec<u8>, key: &[u8]);

    /// Writes a request to store a value without flags and expiry.
    fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]);

    /// Interprets the first line of the response to a request for `key`.
    fn line(line: &[u8], key: &[u8]) -> Line;
}

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole response.
    Whole(KvReply),
    /// A value follows, with a line end.
    Value {
        /// The size of the value.
        bytes: usize,
    },
}

/// The text protocol of memcached.
#[derive(Debug, Default)]
pub struct Memcached;

impl Dialect for Memcached {
    const AFTER_VALUE: Option<&'static [u8]> = Some(b"END");

    #[inline]
    fn get(out: &mut Vec<u8>, key: &[u8]) {
        for part in [&b"get "[..], key, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }

    #[inline]
    fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        out.extend_from_slice(b"set ");
        out.extend_from_slice(key);
        write!(out, " 0 0 {}\r\n", value.len()).expect("writing to a vector cannot fail");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn line(line: &[u8], key: &[u8]) -> Line {
        Line::Whole(match line {
            b"END" => KvReply::Miss,
            b"STORED" => KvReply::Stored,
            b"NOT_STORED" => KvReply::NotStored,
            b"ERROR" => KvReply::Error,
            _ if line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"SERVER_ERROR") => KvReply::Error,
            _ => match value_bytes(line, key) {
                Some(bytes) => return Line::Value { bytes },
                None => KvReply::Garbage,
            },
        })
    }
}

/// Returns the request that begins a connection to a server with passwords (`-Y`), and the line that answers it. The server takes user
/// and password as the value of any key.
pub fn login(user: &[u8], password: &[u8]) -> Vec<(Vec<u8>, &'static [u8])> {
    let mut request = Vec::new();
    Memcached::set(&mut request, b"auth", &[user, b" ", password].concat());
    vec![(request, b"STORED")]
}

/// A complete response to [`Dialect::get`] or [`Dialect::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvReply {
    /// The expected value.
    Hit,
    /// Another value under the requested key.
    Wrong,
    /// No value.
    Miss,
    /// Stored.
    Stored,
    /// `NOT_STORED`, which gives no reason.
    NotStored,
    /// An error of the protocol, such as `SERVER_ERROR`.
    Error,
    /// Not a response of the protocol. The start of the next response is unknown.
    Garbage,
}

/// Reads the responses of one connection from input in any pieces.
#[derive(Debug, Default)]
pub struct ReplyReader<D> {
    /// The beginning of an incomplete line; usually empty.
    line: Vec<u8>,
    position: Position,
    wrong: bool,
    was_value: bool,
    dialect: PhantomData<D>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Position {
    #[default]
    Line,
    /// In a value and its line end, of which `received_bytes` of `total_bytes` have arrived.
    Value { received_bytes: usize, total_bytes: usize },
}

/// Longest line: a line with the longest key and numbers, or an error.
const LINE_BYTES_MAX: usize = 512;

impl<D: Dialect + Default> ReplyReader<D> {
    /// Reads input for the requested `key` and the expected `value`. Returns the bytes taken, and the response if complete.
    pub fn read(&mut self, bytes: &[u8], key: &[u8], value: &[u8]) -> (usize, Option<KvReply>) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.position {
                Position::Value { received_bytes, total_bytes } => {
                    let taken_bytes = self.read_value(&bytes[at..], value, received_bytes, total_bytes);
                    if received_bytes + taken_bytes == total_bytes && D::AFTER_VALUE.is_none() {
                        let reply = self.value_reply();
                        (self.wrong, self.was_value) = (false, false);
                        return (at + taken_bytes, Some(reply));
                    }
                    taken_bytes
                }
                Position::Line => match memchr::memchr(b'\n', &bytes[at..]) {
                    end if self.line.len() + end.unwrap_or(bytes.len() - at) > LINE_BYTES_MAX => {
                        *self = Self::default();
                        return (bytes.len(), Some(KvReply::Garbage));
                    }
                    Some(end) => {
                        let line = &bytes[at..at + end];
                        let mut whole = std::mem::take(&mut self.line);
                        let reply = if whole.is_empty() {
                            self.end_line(line, key, value)
                        } else {
                            whole.extend_from_slice(line);
                            self.end_line(&whole, key, value)
                        };
                        whole.clear();
                        self.line = whole;
                        if let Some(reply) = reply {
                            (self.position, self.wrong, self.was_value) = (Position::Line, false, false);
                            return (at + end + 1, Some(reply));
                        }
                        end + 1
                    }
                    None => {
                        self.line.extend_from_slice(&bytes[at..]);
                        bytes.len() - at
                    }
                },
            };
        }
        (at, None)
    }

    fn read_value(&mut self, bytes: &[u8], value: &[u8], received_bytes: usize, total_bytes: usize) -> usize {
        let taken = &bytes[..bytes.len().min(total_bytes - received_bytes)];
        let value_part_bytes = taken.len().min((total_bytes - 2).saturating_sub(received_bytes));
        let (content, end) = taken.split_at(value_part_bytes);
        self.wrong |=
            !content.is_empty() && value.get(received_bytes..received_bytes + value_part_bytes) != Some(content);
        let end_at = (received_bytes + value_part_bytes).saturating_sub(total_bytes - 2);
        self.wrong |= !end.is_empty() && b"\r\n"[end_at..end_at + end.len()] != *end;
        let received_bytes = received_bytes + taken.len();
        self.position = if received_bytes == total_bytes {
            Position::Line
        } else {
            Position::Value { received_bytes, total_bytes }
        };
        taken.len()
    }

    /// Interprets a line; returns the response if the line completes it.
    fn end_line(&mut self, line: &[u8], key: &[u8], value: &[u8]) -> Option<KvReply> {
        let Some(line) = line.strip_suffix(b"\r") else { return Some(KvReply::Garbage) };
        if self.was_value {
            return Some(if D::AFTER_VALUE == Some(line) { self.value_reply() } else { KvReply::Garbage });
        }
        match D::line(line, key) {
            Line::Whole(reply) => Some(reply),
            Line::Value { bytes } => {
                self.was_value = true;
                self.wrong = bytes != value.len();
                self.position = Position::Value { received_bytes: 0, total_bytes: bytes + 2 };
                None
            }
        }
    }

    fn value_reply(&self) -> KvReply {
        if self.wrong { KvReply::Wrong } else { KvReply::Hit }
    }
}

fn value_bytes(line: &[u8], key: &[u8]) -> Option<usize> {
    let numbers = line.strip_prefix(b"VALUE ")?.strip_prefix(key)?.strip_prefix(b" ")?;
    let (flags, bytes) = std::str::from_utf8(numbers).ok()?.split_once(' ')?;
    flags.parse::<u32>().ok()?;
    bytes.parse::<u32>().ok().map(|bytes| bytes as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a stream in pieces of this size; returns its responses.
    fn read(stream: &[u8], piece_bytes: usize, key: &[u8], value: &[u8]) -> Vec<KvReply> {
        let (mut reader, mut replies) = (ReplyReader::<Memcached>::default(), Vec::new());
        for mut piece in stream.chunks(piece_bytes) {
            while !piece.is_empty() {
                let (taken_bytes, reply) = reader.read(piece, key, value);
                replies.extend(reply);
                piece = &piece[taken_bytes..];
            }
        }
        replies
    }

    #[test]
    fn responses_in_any_pieces_are_read() {
        let stream = b"VALUE k 0 9\r\nEND\r\nabcd\r\nEND\r\nEND\r\nSTORED\r\nNOT_STORED\r\nERROR\r\nSERVER_ERROR out of memory\r\n\
            VALUE k 0 9\r\nEND\r\nabcX\r\nEND\r\nVALUE k 7 2\r\nEN\r\nEND\r\nVALUE k 0 0\r\n\r\nEND\r\nEND\r\n";
        for piece_bytes in crate::piece_sizes(stream.len()) {
            assert_eq!(
                read(stream, piece_bytes, b"k", b"END\r\nabcd"),
                [
                    KvReply::Hit,
                    KvReply::Miss,
                    KvReply::Stored,
                    KvReply::NotStored,
                    KvReply::Error,
                    KvReply::Error,
                    KvReply::Wrong,
                    KvReply::Wrong,
                    KvReply::Wrong,
                    KvReply::Miss
                ],
                "in pieces of {piece_bytes}"
            );
        }
    }

    fn response() -> impl Strategy<Value = Vec<u8>> {
        let whole = ["END\r\n", "STORED\r\n", "NOT_STORED\r\n", "ERROR\r\n", "SERVER_ERROR out of memory\r\n"];
        let whole = prop::sample::select(whole.to_vec()).prop_map(|line| line.as_bytes().to_vec());
        let value = prop_oneof![Just(b"END\r\nabcd".to_vec()), prop::collection::vec(any::<u8>(), 0..40)];
        let value = (any::<u32>(), value).prop_map(|(flags, value)| {
            [format!("VALUE k {flags} {}\r\n", value.len()).as_bytes(), &value, b"\r\nEND\r\n"].concat()
        });
        let garbage = prop::collection::vec(any::<u8>(), 1..40);
        prop_oneof![4 => whole, 4 => value, 1 => garbage]
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_replies(
            responses in prop::collection::vec(response(), 1..8),
            cuts in prop::collection::vec(prop_oneof![1usize..5, 1usize..60], 1..30),
        ) {
            let stream = responses.concat();
            let read = |cuts: &[usize]| {
                let (mut reader, mut replies, mut rest) =
                    (ReplyReader::<Memcached>::default(), Vec::new(), &stream[..]);
                for length in cuts.iter().cycle() {
                    let (mut piece, later) = rest.split_at(rest.len().min(*length));
                    while !piece.is_empty() {
                        let (taken_bytes, reply) = reader.read(piece, b"k", b"END\r\nabcd");
                        replies.extend(reply);
                        // The start of the next response is unknown.
                        if reply == Some(KvReply::Garbage) {
                            return replies;
                        }
                        piece = &piece[taken_bytes..];
                    }
                    rest = later;
                    if rest.is_empty() {
                        break;
                    }
                }
                replies
            };
            prop_assert_eq!(read(&cuts), read(&[usize::MAX]));
        }
    }

    #[test]
    fn unknown_response_is_garbage() {
        for stream in [
            &b"VALUE other 0 1\r\n"[..],
            b"VALUE k 0 x\r\n",
            b"VALUE k 0 1 2\r\n",
            b"VALUE k 0 1\r\nv\r\nVALUE k 0 1\r\n",
            b"VALUE k 0 1\r\nv\r\nSTORED\r\n",
            b"END\n",
            b"HTTP/1.1 200 OK\r\n",
            &[b'x'; 600],
            // An error longer than the limit of a line.
            &[&b"ERROR"[..], &[b'x'; 600], b"\r\n"].concat(),
            &[&b"SERVER_ERROR "[..], &[b'x'; 600], b"\r\n"].concat(),
        ] {
            let text = String::from_utf8_lossy(stream);
            assert_eq!(read(stream, stream.len(), b"k", b"v"), [KvReply::Garbage], "{text}");
            assert_eq!(read(stream, 1, b"k", b"v")[0], KvReply::Garbage, "{text}");
        }
        // A value without its line end is not a hit, whatever follows.
        assert_ne!(read(b"VALUE k 0 1\r\nvxxEND\r\n", 3, b"k", b"v"), [KvReply::Hit]);
    }

    #[test]
    fn service_answers_requests_of_the_client() {
        use crate::Service;
        use crate::kv::records::{self, Records};
        use crate::kv::{Kv, KvConfig, KvConn};

        let kv = Kv::new(KvConfig::default(), Box::new(|| 1));
        let records = Records::new(10, 1000, 3);
        let (mut conn, mut reader) = (KvConn::default(), ReplyReader::<Memcached>::default());
        let mut request = Vec::new();
        for (write, number, expected) in (0..200).flat_map(|number| {
            [(false, number, KvReply::Miss), (true, number, KvReply::Stored), (false, number, KvReply::Hit)]
        }) {
            let key = records::key(number);
            request.clear();
            if write {
                Memcached::set(&mut request, &key, records.value(number));
            } else {
                Memcached::get(&mut request, &key);
            }
            assert_eq!(kv.receive(&mut conn, &request), 1);
            let response = kv.unsent(&conn);
            let response_bytes = response.len();
            assert_eq!(reader.read(response, &key, records.value(number)), (response_bytes, Some(expected)));
            kv.sent(&mut conn, response_bytes);
        }
    }
}
