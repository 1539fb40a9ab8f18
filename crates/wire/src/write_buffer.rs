use std::mem;

/// Largest capacity that an empty buffer keeps.
pub(crate) const KEPT_BYTES_MAX: usize = 4 << 10;

/// Bytes to send. The kernel may be reading `sending`, which neither moves nor grows; new output goes to `waiting`.
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

/// Empties a buffer and frees a large one.
#[inline]
pub(crate) fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
}
