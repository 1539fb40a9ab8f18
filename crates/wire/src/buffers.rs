//! Pending input and output of a connection.

use std::mem;

/// Largest capacity that an empty buffer keeps.
pub(crate) const KEPT_BYTES_MAX: usize = 4 << 10;

/// Bytes to send. The kernel may be reading a non-empty `sending`, which must not move, so new output goes to `waiting`.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    sending: Vec<u8>,
    sent_bytes: usize,
    waiting: Vec<u8>,
}

impl WriteBuffer {
    #[inline]
    pub fn space(&mut self) -> &mut Vec<u8> {
        // The kernel reads no empty buffer.
        if self.sending.is_empty() { &mut self.sending } else { &mut self.waiting }
    }

    /// Returns the next bytes to send, which stay in place until they are sent.
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        &self.sending[self.sent_bytes..]
    }

    #[inline]
    pub fn sent(&mut self, count: usize) {
        self.sent_bytes += count;
        debug_assert!(self.sent_bytes <= self.sending.len(), "the count exceeds the unsent bytes");
        if self.sent_bytes == self.sending.len() {
            self.sent_bytes = 0;
            clear(&mut self.sending);
            mem::swap(&mut self.sending, &mut self.waiting);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }
}

/// Empties a buffer; frees its memory if it is large.
#[inline]
pub(crate) fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processed {
    /// Length of the processed beginning of the input.
    pub bytes: usize,
    pub requests: u64,
    pub is_last: bool,
}

/// Input that a connection cannot process yet: part of a request, or more requests than one batch answers.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    /// Processes the pending input followed by `input`, and keeps the rest; returns the number of completed requests.
    #[inline]
    pub fn receive(&mut self, input: &[u8], process: impl FnOnce(&[u8]) -> Processed) -> u64 {
        if !self.0.is_empty() {
            self.0.extend_from_slice(input);
            return self.resume(process);
        }
        let processed = process(input);
        if processed.bytes < input.len() && !processed.is_last {
            self.0.extend_from_slice(&input[processed.bytes..]);
        }
        processed.requests
    }

    /// Processes the pending input, if any; returns the number of completed requests.
    #[inline]
    pub fn resume(&mut self, process: impl FnOnce(&[u8]) -> Processed) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let processed = process(&self.0);
        if processed.bytes == self.0.len() || processed.is_last {
            clear(&mut self.0);
        } else {
            self.0.drain(..processed.bytes);
        }
        processed.requests
    }

    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.0
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes requests of one digit each, at most two at once; a full stop ends the connection.
    fn process(input: &[u8]) -> Processed {
        let end = input.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        let is_last = input.get(end) == Some(&b'.');
        Processed { bytes: end, requests: end as u64, is_last }
    }

    #[test]
    fn unprocessed_input_waits() {
        let mut buffer = ReadBuffer::default();
        assert_eq!(buffer.resume(|_| unreachable!("processing must not start without input")), 0);
        assert_eq!((buffer.receive(b"12", process), buffer.0.len()), (2, 0), "whole requests are not copied");
        assert_eq!((buffer.receive(b"345", process), &buffer.0[..]), (2, &b"5"[..]));
        assert_eq!(
            (buffer.receive(b"6789", process), &buffer.0[..]),
            (2, &b"789"[..]),
            "new input follows the pending input"
        );
        assert_eq!((buffer.resume(process), &buffer.0[..]), (2, &b"9"[..]));
        assert_eq!((buffer.receive(b".123", process), buffer.0.len()), (1, 0), "the end clears the buffer");
    }
}
