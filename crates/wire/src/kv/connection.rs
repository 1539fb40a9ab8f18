//! One connection. A batch executes commands until one is incomplete, or the output is large enough to send.

use super::command::{Command, Get, StoreMode, parse};
use super::counters::Count;
use super::meta_flags::MetaSet;
use super::protocol::{BAD_DATA, KEYS_BYTES_MAX, LINE_BYTES_MAX, OUTPUT_BYTES_MAX, TOO_LARGE, write_line};
use super::storage::Kv;
use crate::buffers::{Processed, ReadBuffer, WriteBuffer};
use crate::service::{OneByOne, Service};

const END: &[u8] = b"\r\n";

/// State of a connection. An idle connection has at most a small buffer on the heap.
#[derive(Debug, Default)]
pub struct KvConn {
    pub(super) output: WriteBuffer,
    pub(super) input: ReadBuffer,
    batch: BatchState,
}

#[derive(Debug, Default)]
struct BatchState {
    /// The length of the input that is known to have no line end.
    searched_bytes: usize,
    /// Input below this size is known to be incomplete.
    needed_bytes: usize,
    /// Remaining bytes of a value that is discarded because it is too large.
    discarded_bytes: usize,
    /// Set if the input begins with the remaining keys of a line that is partly answered.
    get: Option<Get>,
    over: bool,
}

impl Service for Kv {
    type Conn = KvConn;

    #[inline]
    fn receive(&self, conn: &mut KvConn, input: &[u8]) -> u64 {
        if conn.batch.over {
            return 0;
        }
        conn.input.receive(input, |input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a KvConn) -> &'a [u8] {
        conn.output.unsent()
    }

    #[inline]
    fn sent(&self, conn: &mut KvConn, count: usize) -> u64 {
        conn.output.sent(count);
        if !conn.output.is_empty() {
            return 0;
        }
        conn.input.resume(|input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn is_over(&self, conn: &KvConn) -> bool {
        conn.batch.over
    }
}

impl OneByOne for Kv {
    fn one_by_one(self) -> Self {
        Self { is_one_by_one: true, ..self }
    }
}

impl Kv {
    #[inline]
    fn process(&self, state: &mut BatchState, input: &[u8], out: &mut Vec<u8>) -> Processed {
        let (mut at, mut requests) = (0, 0);
        if input.len() < state.needed_bytes {
            return Processed { bytes: 0, requests: 0, is_last: false };
        }
        state.needed_bytes = 0;
        while !state.over && out.len() < OUTPUT_BYTES_MAX {
            if state.discarded_bytes > 0 {
                let discarded_bytes = state.discarded_bytes.min(input.len() - at);
                state.discarded_bytes -= discarded_bytes;
                at += discarded_bytes;
            }
            let rest = &input[at..];
            if rest.is_empty() {
                break;
            }
            let Some(end) = memchr::memchr(b'\n', &rest[state.searched_bytes..]) else {
                state.over = is_too_long(rest);
                state.searched_bytes = rest.len();
                state.needed_bytes = rest.len() + 1;
                requests += u64::from(state.over);
                break;
            };
            let end = state.searched_bytes + end;
            state.searched_bytes = 0;
            let is_new = state.get.is_none();
            let Some(taken_bytes) = self.process_one(state, rest, end, out) else { break };
            at += taken_bytes;
            requests += u64::from(is_new);
            if self.is_one_by_one {
                break;
            }
        }
        Processed { bytes: at, requests, is_last: state.over }
    }

    /// Executes the command whose line ends at `end`; returns its size, or `None` if its value is incomplete.
    fn process_one(&self, state: &mut BatchState, rest: &[u8], end: usize, out: &mut Vec<u8>) -> Option<usize> {
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let line_bytes = end + 1;
        if let Some(get) = state.get {
            return Some(self.process_keys(state, get, line, 0, line_bytes, out));
        }
        if is_too_long(line) {
            state.over = true;
            return Some(line_bytes);
        }
        let (command, is_quiet) = parse(line);
        let output_bytes = out.len();
        let taken_bytes = match command {
            Command::Get { keys, get } => self.process_keys(state, get, line, line.len() - keys.len(), line_bytes, out),
            Command::Store(request) if !self.store.fits(request.key.len(), request.value_bytes) => {
                // Delete the older value too, because the client expects it to be replaced.
                let is_replaced = request.mode == StoreMode::Set;
                self.refuse_value(state, request.value_bytes, is_replaced.then_some(request.key), out);
                line_bytes
            }
            Command::Store(request) => take_value(state, rest, line_bytes, request.value_bytes, out, |value, out| {
                self.write_stored(&request, value, out);
            })?,
            Command::MetaSet(words) => match MetaSet::parse(words) {
                Err((reason, value_bytes)) => {
                    state.discarded_bytes = value_bytes.map_or(0, |value_bytes| value_bytes + END.len());
                    write_line(out, reason);
                    line_bytes
                }
                Ok(meta) if !self.store.fits(meta.request().key.len(), meta.value_bytes) => {
                    self.refuse_value(state, meta.value_bytes, Some(meta.request().key), out);
                    line_bytes
                }
                Ok(meta) => take_value(state, rest, line_bytes, meta.value_bytes, out, |value, out| {
                    self.meta_set(&meta, value, out);
                })?,
            },
            Command::Quit => {
                state.over = true;
                line_bytes
            }
            command => {
                self.execute(command, out);
                line_bytes
            }
        };
        if is_quiet {
            out.truncate(output_bytes);
        }
        Some(taken_bytes)
    }

    /// Looks up the keys of a line from `start` on. Returns the size of the answered part of the line.
    #[inline]
    fn process_keys(
        &self,
        state: &mut BatchState,
        get: Get,
        line: &[u8],
        start: usize,
        line_bytes: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let left = self.look_up(&line[start..], get, out);
        state.get = left.map(|_| get);
        left.map_or(line_bytes, |left| line.len() - left.len())
    }

    /// Refuses a value that is too large, and deletes the item of this key.
    fn refuse_value(&self, state: &mut BatchState, value_bytes: usize, key: Option<&[u8]>, out: &mut Vec<u8>) {
        state.discarded_bytes = value_bytes + END.len();
        self.counters.add(Count::TooLarge);
        if let Some(key) = key {
            self.store.delete(key);
        }
        write_line(out, TOO_LARGE);
    }
}

/// Passes the value after a line to `store`. Returns the size of line and value, or `None` if the value is incomplete.
#[inline]
fn take_value(
    state: &mut BatchState,
    rest: &[u8],
    line_bytes: usize,
    value_bytes: usize,
    out: &mut Vec<u8>,
    store: impl FnOnce(&[u8], &mut Vec<u8>),
) -> Option<usize> {
    let total_bytes = line_bytes + value_bytes + END.len();
    let Some(value) = rest.get(line_bytes..total_bytes) else {
        state.needed_bytes = total_bytes;
        return None;
    };
    match value.strip_suffix(END) {
        Some(value) => store(value, out),
        None => write_line(out, BAD_DATA),
    }
    Some(total_bytes)
}

/// Whether a line, or the beginning of a line, is too long.
#[inline]
fn is_too_long(line: &[u8]) -> bool {
    line.len() > LINE_BYTES_MAX && (line.len() > KEYS_BYTES_MAX || !is_list_of_keys(line))
}

fn is_list_of_keys(line: &[u8]) -> bool {
    // Like memcached, accept at most 100 leading spaces.
    let spaces = line.iter().take(101).take_while(|&&byte| byte == b' ').count();
    let line = &line[spaces..];
    [&b"get "[..], b"gets ", b"gat ", b"gats ", b"bget "].iter().any(|verb| line.starts_with(verb))
}
