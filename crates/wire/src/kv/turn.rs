//! One turn of a connection: commands are taken from the input and answered until one is incomplete, or enough is said.

use super::Kv;
use super::answer::{BAD_DATA, TOO_LARGE, say};
use super::command::{Command, Get, How, Put, parse};
use super::counters::Count;
use super::meta::{MetaPut, Refused};
use crate::inbox::Taken;

/// Once a turn has said so much, the rest waits until that is sent: a short request can ask for a lot.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Longest line that is not a list of keys: memcached gives up at as many bytes without an end.
pub(super) const LINE_BYTES_MAX: usize = 2 << 10;
/// Longest list of keys. memcached knows no limit.
pub(super) const KEYS_BYTES_MAX: usize = 1 << 20;
/// Each value ends as a line does.
const END: &[u8] = b"\r\n";

/// How far a connection is with its input.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// How much of the input is known to hold no end of a line.
    searched_bytes: usize,
    /// The input need not be looked at before there is so much of it.
    enough_bytes: usize,
    /// Of a value that is too large, so much is still to be thrown away.
    unwanted_bytes: usize,
    /// The input begins with keys that belong to this: the line has been answered in part.
    get: Option<Get>,
    over: bool,
}

impl Turn {
    /// Whether nothing more is taken, ever.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl Kv {
    /// Takes what can be taken of `input` and answers it.
    #[inline]
    pub(super) fn take(&self, turn: &mut Turn, input: &[u8], out: &mut Vec<u8>) -> Taken {
        let (mut at, mut requests) = (0, 0);
        if input.len() < turn.enough_bytes {
            return Taken { bytes: 0, requests: 0, is_last: false };
        }
        turn.enough_bytes = 0;
        while !turn.over && out.len() < OUTPUT_BYTES_MAX {
            if turn.unwanted_bytes > 0 {
                let unwanted_bytes = turn.unwanted_bytes.min(input.len() - at);
                turn.unwanted_bytes -= unwanted_bytes;
                at += unwanted_bytes;
            }
            let rest = &input[at..];
            if rest.is_empty() {
                break;
            }
            let Some(end) = memchr::memchr(b'\n', &rest[turn.searched_bytes..]) else {
                turn.over = is_too_long(rest);
                turn.searched_bytes = rest.len();
                turn.enough_bytes = rest.len() + 1;
                requests += u64::from(turn.over);
                break;
            };
            let end = turn.searched_bytes + end;
            turn.searched_bytes = 0;
            let is_new = turn.get.is_none();
            let Some(taken_bytes) = self.take_one(turn, rest, end, out) else { break };
            at += taken_bytes;
            requests += u64::from(is_new);
        }
        Taken { bytes: at, requests, is_last: turn.over }
    }

    /// Takes the command whose line ends at `end`; `None` if its value is not all there.
    #[inline]
    fn take_one(&self, turn: &mut Turn, rest: &[u8], end: usize, out: &mut Vec<u8>) -> Option<usize> {
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let line_bytes = end + 1;
        if let Some(get) = turn.get {
            return Some(self.take_keys(turn, get, line, 0, line_bytes, out));
        }
        if is_too_long(line) {
            turn.over = true;
            return Some(line_bytes);
        }
        let request = parse(line);
        let said_bytes = out.len();
        let taken_bytes = match request.command {
            Command::Get { keys, get } => self.take_keys(turn, get, line, line.len() - keys.len(), line_bytes, out),
            Command::Store(put) if !self.store.fits(put.key.len(), put.value_bytes) => {
                turn.unwanted_bytes = put.value_bytes + END.len();
                self.refuse(&put, out);
                line_bytes
            }
            Command::Store(put) => {
                let (total_bytes, value) = take_value(turn, rest, line_bytes, put.value_bytes)?;
                match value {
                    Some(value) => self.put(&put, value, out),
                    None => say(out, BAD_DATA),
                }
                total_bytes
            }
            Command::MetaSet(words) => match MetaPut::read(words) {
                Err(Refused { why, value_bytes }) => {
                    turn.unwanted_bytes = value_bytes.map_or(0, |value_bytes| value_bytes + END.len());
                    say(out, why);
                    line_bytes
                }
                Ok(meta) if !self.store.fits(meta.put().key.len(), meta.value_bytes) => {
                    turn.unwanted_bytes = meta.value_bytes + END.len();
                    self.counters.add(Count::TooLarge);
                    self.store.delete(meta.put().key);
                    say(out, TOO_LARGE);
                    line_bytes
                }
                Ok(meta) => {
                    let (total_bytes, value) = take_value(turn, rest, line_bytes, meta.value_bytes)?;
                    match value {
                        Some(value) => self.meta_put(&meta, value, out),
                        None => say(out, BAD_DATA),
                    }
                    total_bytes
                }
            },
            Command::Quit => {
                turn.over = true;
                line_bytes
            }
            command => {
                self.answer(command, out);
                line_bytes
            }
        };
        if request.quiet {
            out.truncate(said_bytes);
        }
        Some(taken_bytes)
    }

    /// Takes keys of a line, from `start`, until all are looked up or enough is said.
    #[inline]
    fn take_keys(
        &self,
        turn: &mut Turn,
        get: Get,
        line: &[u8],
        start: usize,
        line_bytes: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        match self.look_up(&line[start..], get, out) {
            None => {
                turn.get = None;
                line_bytes
            }
            Some(rest) => {
                turn.get = Some(get);
                line.len() - rest.len()
            }
        }
    }

    /// Does not store a value, nor keep an older one that its client believes replaced.
    fn refuse(&self, put: &Put<'_>, out: &mut Vec<u8>) {
        self.counters.add(Count::TooLarge);
        if put.how == How::Set {
            self.store.delete(put.key);
        }
        say(out, TOO_LARGE);
    }
}

/// The value behind a line, and how much of the input both are; no value if it does not end as one, and nothing while it is not
/// all there.
#[inline]
fn take_value<'a>(
    turn: &mut Turn,
    rest: &'a [u8],
    line_bytes: usize,
    value_bytes: usize,
) -> Option<(usize, Option<&'a [u8]>)> {
    let total_bytes = line_bytes + value_bytes + END.len();
    let Some(value) = rest.get(line_bytes..total_bytes) else {
        turn.enough_bytes = total_bytes;
        return None;
    };
    Some((total_bytes, value.strip_suffix(END)))
}

/// Whether a line, or the beginning of one, is longer than is put up with.
#[inline]
fn is_too_long(line: &[u8]) -> bool {
    line.len() > LINE_BYTES_MAX && (line.len() > KEYS_BYTES_MAX || !is_list_of_keys(line))
}

fn is_list_of_keys(line: &[u8]) -> bool {
    // memcached puts up with so many spaces, and no more.
    let spaces = line.iter().take(101).take_while(|&&byte| byte == b' ').count();
    let line = &line[spaces..];
    [&b"get "[..], b"gets ", b"gat ", b"gats ", b"bget "].iter().any(|verb| line.starts_with(verb))
}
