//! The client's side of the protocol, sans I/O: requests, and responses as they come.

use std::io::Write;

/// Writes a request for one key.
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    for part in [&b"get "[..], key, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes a request to store a value without flags, for ever.
pub fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    write!(out, " 0 0 {}\r\n", value.len()).expect("a vector takes everything");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// A whole response to [`get`] or [`set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The value that was expected.
    Hit,
    /// A value under the key that was asked for, but not the one expected.
    Wrong,
    /// No value.
    Miss,
    /// Stored.
    Stored,
    /// Not stored, and why is not said: the response was `NOT_STORED`.
    NotStored,
    /// An error in the protocol's words: `ERROR`, `CLIENT_ERROR` or `SERVER_ERROR`.
    Error,
    /// No response that the protocol knows. Where the next begins cannot be known.
    Garbage,
}

/// What has come of one connection's response, whose bytes may come in any pieces.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a line whose end has not come: seldom anything.
    line: Vec<u8>,
    within: Within,
    /// Whether what came of the value is as expected.
    wrong: bool,
    was_value: bool,
}

/// Where in a response the next byte belongs.
#[derive(Clone, Copy, Debug, Default)]
enum Within {
    #[default]
    Line,
    /// Of a value of so many bytes, so many have come; the line end after it is counted with it.
    Value { came_bytes: usize, total_bytes: usize },
}

/// A line is at most a value's, with the longest key and the longest numbers, or an error's.
const LINE_BYTES_MAX: usize = 512;

impl Reader {
    /// Reads on; how many of `bytes` belong to this response, and the response if they end it. Then the reader is ready for
    /// the next one.
    ///
    /// `key` and `value` are what was asked for and what is expected, and must be the same until the response is whole.
    pub fn read(&mut self, bytes: &[u8], key: &[u8], value: &[u8]) -> (usize, Option<Reply>) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.within {
                Within::Value { came_bytes, total_bytes } => {
                    self.read_value(&bytes[at..], value, came_bytes, total_bytes)
                }
                Within::Line => match memchr::memchr(b'\n', &bytes[at..]) {
                    Some(end) => {
                        let line = &bytes[at..at + end];
                        let reply = if self.line.is_empty() {
                            self.end_line(line, key, value)
                        } else {
                            let mut whole = std::mem::take(&mut self.line);
                            whole.extend_from_slice(line);
                            let reply = self.end_line(&whole, key, value);
                            whole.clear();
                            self.line = whole;
                            reply
                        };
                        if let Some(reply) = reply {
                            (self.within, self.wrong, self.was_value) = (Within::Line, false, false);
                            return (at + end + 1, Some(reply));
                        }
                        end + 1
                    }
                    None if self.line.len() + bytes.len() - at > LINE_BYTES_MAX => {
                        *self = Self::default();
                        return (bytes.len(), Some(Reply::Garbage));
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

    /// Compares what came of a value, and its end, with what is expected.
    fn read_value(&mut self, bytes: &[u8], value: &[u8], came_bytes: usize, total_bytes: usize) -> usize {
        let taken = &bytes[..bytes.len().min(total_bytes - came_bytes)];
        let of_value = taken.len().min((total_bytes - 2).saturating_sub(came_bytes));
        let (content, end) = taken.split_at(of_value);
        self.wrong |= value.get(came_bytes..came_bytes + of_value) != Some(content);
        let end_at = (came_bytes + of_value).saturating_sub(total_bytes - 2);
        self.wrong |= !end.is_empty() && b"\r\n"[end_at..end_at + end.len()] != *end;
        let came_bytes = came_bytes + taken.len();
        self.within = if came_bytes == total_bytes { Within::Line } else { Within::Value { came_bytes, total_bytes } };
        taken.len()
    }

    /// What a line says, if it ends the response.
    fn end_line(&mut self, line: &[u8], key: &[u8], value: &[u8]) -> Option<Reply> {
        let Some(line) = line.strip_suffix(b"\r") else { return Some(Reply::Garbage) };
        if self.was_value {
            return Some(match line {
                b"END" if self.wrong => Reply::Wrong,
                b"END" => Reply::Hit,
                _ => Reply::Garbage,
            });
        }
        Some(match line {
            b"END" => Reply::Miss,
            b"STORED" => Reply::Stored,
            b"NOT_STORED" => Reply::NotStored,
            b"ERROR" => Reply::Error,
            _ if line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"SERVER_ERROR") => Reply::Error,
            _ => match value_bytes(line, key) {
                Some(value_bytes) => {
                    self.was_value = true;
                    self.wrong = value_bytes != value.len();
                    self.within = Within::Value { came_bytes: 0, total_bytes: value_bytes + 2 };
                    return None;
                }
                None => Reply::Garbage,
            },
        })
    }
}

/// The size of the value that a `VALUE` line announces, if it is for this key.
fn value_bytes(line: &[u8], key: &[u8]) -> Option<usize> {
    let numbers = line.strip_prefix(b"VALUE ")?.strip_prefix(key)?.strip_prefix(b" ")?;
    let (flags, bytes) = std::str::from_utf8(numbers).ok()?.split_once(' ')?;
    flags.parse::<u32>().ok()?;
    bytes.parse::<u32>().ok().map(|bytes| bytes as usize)
}
