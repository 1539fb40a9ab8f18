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

    /// Whether the buffer has no bytes beyond those of [`WriteBuffer::unsent`].
    #[inline]
    pub fn ends_with_unsent(&self) -> bool {
        self.waiting.is_empty()
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
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    /// The length of the processed beginning of `bytes`. Each batch moves this cursor instead of the rest of the bytes.
    processed_bytes: usize,
}

impl ReadBuffer {
    /// Processes the pending input followed by `input`, and keeps the rest; returns the number of completed requests.
    #[inline]
    pub fn receive(&mut self, input: &[u8], process: impl FnOnce(&[u8]) -> Processed) -> u64 {
        if !self.bytes.is_empty() {
            // Drop the processed beginning before the buffer would grow, if that moves fewer bytes than it drops.
            let is_full = self.bytes.capacity() - self.bytes.len() < input.len();
            if is_full && self.processed_bytes > self.bytes.len() / 2 {
                self.bytes.drain(..self.processed_bytes);
                self.processed_bytes = 0;
            }
            self.bytes.extend_from_slice(input);
            return self.resume(process);
        }
        let processed = process(input);
        if processed.bytes < input.len() && !processed.is_last {
            self.bytes.extend_from_slice(&input[processed.bytes..]);
        }
        processed.requests
    }

    /// Processes the pending input, if any; returns the number of completed requests.
    #[inline]
    pub fn resume(&mut self, process: impl FnOnce(&[u8]) -> Processed) -> u64 {
        if self.bytes.is_empty() {
            return 0;
        }
        let processed = process(self.pending());
        self.processed_bytes += processed.bytes;
        if self.processed_bytes == self.bytes.len() || processed.is_last {
            clear(&mut self.bytes);
            self.processed_bytes = 0;
        }
        processed.requests
    }

    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.processed_bytes..]
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
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
        assert_eq!((buffer.receive(b"12", process), buffer.bytes.len()), (2, 0), "whole requests are not copied");
        assert_eq!((buffer.receive(b"345", process), buffer.pending()), (2, &b"5"[..]));
        assert_eq!(
            (buffer.receive(b"6789", process), buffer.pending()),
            (2, &b"789"[..]),
            "new input follows the pending input"
        );
        assert_eq!((buffer.resume(process), buffer.pending()), (2, &b"9"[..]));
        assert_eq!((buffer.receive(b".123", process), buffer.bytes.len()), (1, 0), "the end clears the buffer");
    }

    #[test]
    fn pending_input_is_moved_only_when_its_buffer_is_full() {
        let mut buffer = ReadBuffer::default();
        buffer.receive(&[b'1'; 10_000], process);
        let place = buffer.pending().as_ptr();
        for batch in 1..=2_600 {
            assert_eq!(buffer.resume(process), 2);
            assert_eq!(buffer.pending().as_ptr(), place.wrapping_add(2 * batch), "the rest stays in place");
        }
        // As much input as was processed reuses its room.
        let capacity = buffer.capacity();
        buffer.receive(&[b'1'; 2_000], process);
        assert_eq!((buffer.capacity(), buffer.pending().len()), (capacity, 10_000 + 2_000 - 2 - 2 * 2_601));
        while buffer.resume(process) > 0 {}
        assert_eq!(buffer.pending(), b"");
    }
}
