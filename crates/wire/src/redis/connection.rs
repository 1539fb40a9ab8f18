//! One connection. A batch executes commands until one is incomplete, or the output is large enough to send.

use super::command::Next;
use super::frame::{Arguments, Scan, Unread};
use super::storage::Redis;
use crate::buffers::{Processed, ReadBuffer, WriteBuffer};
use crate::service::{OneByOne, Service};

/// Size of the output at which a batch ends, because a short request can ask for much output.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// State of a connection. An idle connection has at most a small buffer on the heap.
#[derive(Debug, Default)]
pub struct RedisConn {
    pub(super) output: WriteBuffer,
    pub(super) input: ReadBuffer,
    batch: BatchState,
}

#[derive(Debug, Default)]
struct BatchState {
    scan: Scan,
    /// Set if the input begins with the remaining keys of an `MGET` that is partly answered.
    keys: Option<Unread>,
    is_over: bool,
}

impl Redis {
    #[inline]
    fn process(&self, state: &mut BatchState, input: &[u8], out: &mut Vec<u8>) -> Processed {
        let (mut at, mut requests) = (0, 0);
        while !state.is_over && out.len() < OUTPUT_BYTES_MAX && at < input.len() {
            let rest = &input[at..];
            if let Some(unread) = state.keys {
                at += self.look_up_keys(state, Arguments::resume(rest, unread), out);
                if self.is_one_by_one {
                    break;
                }
                continue;
            }
            let request = match state.scan.find(rest, self.limits) {
                Ok(None) => break,
                Ok(Some(request)) => request,
                Err(error) => {
                    error.write(out);
                    (state.is_over, requests) = (true, requests + 1);
                    break;
                }
            };
            let mut arguments = request.arguments;
            at += request.bytes;
            let Some(name) = arguments.next() else { continue };
            requests += 1;
            match self.execute(name, arguments, out) {
                Next::Request => {}
                Next::Keys(keys) => {
                    at -= keys.bytes();
                    at += self.look_up_keys(state, keys, out);
                }
                Next::End => state.is_over = true,
            }
            if self.is_one_by_one {
                break;
            }
        }
        Processed { bytes: at, requests, is_last: state.is_over }
    }

    /// Looks up keys until the output is large enough to send. Returns the size of the answered keys.
    fn look_up_keys(&self, state: &mut BatchState, mut keys: Arguments<'_>, out: &mut Vec<u8>) -> usize {
        let all_bytes = keys.bytes();
        while out.len() < OUTPUT_BYTES_MAX
            && let Some(key) = keys.next()
        {
            self.look_up(key, out);
        }
        state.keys = keys.unread();
        all_bytes - keys.bytes()
    }
}

impl OneByOne for Redis {
    fn one_by_one(self) -> Self {
        Self { is_one_by_one: true, ..self }
    }
}

impl Service for Redis {
    type Conn = RedisConn;

    #[inline]
    fn receive(&self, conn: &mut RedisConn, input: &[u8]) -> u64 {
        if conn.batch.is_over {
            return 0;
        }
        conn.input.receive(input, |input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a RedisConn) -> &'a [u8] {
        conn.output.unsent()
    }

    #[inline]
    fn sent(&self, conn: &mut RedisConn, count: usize) -> u64 {
        conn.output.sent(count);
        if !conn.output.is_empty() {
            return 0;
        }
        conn.input.resume(|input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn is_over(&self, conn: &RedisConn) -> bool {
        conn.batch.is_over
    }
}
