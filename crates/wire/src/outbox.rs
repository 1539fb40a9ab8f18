//! What a connection has to say: two buffers, of which one may be with the kernel.

use std::mem;

/// Empty buffers up to this size are kept for the next answer.
pub(crate) const KEPT_BYTES_MAX: usize = 4 << 10;

/// Bytes to send. What is in `sending` may be being read by the kernel, and is neither moved nor added to until it is
/// all sent; what is said meanwhile waits.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    sending: Vec<u8>,
    sent_bytes: usize,
    waiting: Vec<u8>,
}

impl Outbox {
    /// The buffer to write answers to until bytes are offered again.
    #[inline]
    pub fn room(&mut self) -> &mut Vec<u8> {
        // An empty buffer is nowhere else.
        if self.sending.is_empty() { &mut self.sending } else { &mut self.waiting }
    }

    /// The next bytes to send, where they stay until they are sent.
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        &self.sending[self.sent_bytes..]
    }

    #[inline]
    pub fn sent(&mut self, count: usize) {
        self.sent_bytes += count;
        debug_assert!(self.sent_bytes <= self.sending.len(), "more sent than there was");
        if self.sent_bytes == self.sending.len() {
            self.sent_bytes = 0;
            recycle(&mut self.sending);
            mem::swap(&mut self.sending, &mut self.waiting);
        }
    }

    /// Whether everything is sent. What is offered next may be asked for now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }
}

/// Empties a buffer, and gives a big one back.
#[inline]
pub(crate) fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
}
