//! Memory for responses that is registered with an io_uring (IORING_REGISTER_BUFFERS), so that the kernel need not look up and
//! pin its pages for each send.

use std::{io, ptr, slice};

use io_uring::Submitter;

use crate::platform;

/// The number of buffers: more sends are rarely pending at once.
const COUNT: u16 = 256;

/// Buffers in one registered region.
pub(super) struct SendBuffers {
    mapping: *mut u8,
    free: Vec<u16>,
    /// The buffer of each slot's pending send.
    lent: Vec<Option<u16>>,
}

impl SendBuffers {
    /// The most bytes of a response that has room. All buffers are 4 MiB, half of the usual limit of locked memory.
    pub(super) const BYTES_EACH: usize = 16 << 10;
    /// The index of the only registered region of an io_uring.
    pub(super) const INDEX: u16 = 0;

    pub(super) fn new(slots: usize) -> io::Result<Self> {
        let mapping = platform::map(LENGTH, libc::MAP_PRIVATE)?;
        Ok(Self { mapping, free: (0..COUNT).rev().collect(), lent: vec![None; slots] })
    }

    /// Registers the buffers with an io_uring, which must be dropped before the buffers.
    pub(super) fn register(&self, ring: &Submitter<'_>) -> io::Result<()> {
        let region = libc::iovec { iov_base: self.mapping.cast(), iov_len: LENGTH };
        // SAFETY: the mapping outlives the ring.
        unsafe { ring.register_buffers(slice::from_ref(&region)) }
    }

    /// Copies the bytes that a slot is about to send, and returns the copy's address; `None` if there is no room.
    #[inline]
    pub(super) fn copy(&mut self, slot: usize, bytes: &[u8]) -> Option<*const u8> {
        let buffer = if bytes.len() <= Self::BYTES_EACH { self.free.pop()? } else { return None };
        self.lent[slot] = Some(buffer);
        // SAFETY: the buffer is within the mapping, has room for the bytes, and no send uses it.
        unsafe {
            let copy = self.mapping.add(usize::from(buffer) * Self::BYTES_EACH);
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            Some(copy)
        }
    }

    /// Frees the buffer, if any, of a slot's completed send.
    #[inline]
    pub(super) fn release(&mut self, slot: usize) {
        self.free.extend(self.lent[slot].take());
    }
}

impl Drop for SendBuffers {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and the io_uring that used it is gone.
        unsafe { libc::munmap(self.mapping.cast(), LENGTH) };
    }
}

const LENGTH: usize = COUNT as usize * SendBuffers::BYTES_EACH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_sends_have_buffers_of_their_own() {
        let slots = usize::from(COUNT) + 1;
        let mut buffers = SendBuffers::new(slots).unwrap();
        let full = vec![7; SendBuffers::BYTES_EACH];
        let mut copies: Vec<_> = (0..COUNT.into()).map(|slot| buffers.copy(slot, &full).unwrap() as usize).collect();
        assert_eq!(buffers.copy(slots - 1, b"x"), None, "all buffers are lent");
        copies.sort_unstable();
        assert!(copies.windows(2).all(|pair| pair[1] - pair[0] >= SendBuffers::BYTES_EACH));
        buffers.release(3);
        buffers.release(3);
        let copy = buffers.copy(slots - 1, b"x").expect("one buffer is free");
        // SAFETY: the copy is in the mapping.
        assert_eq!(unsafe { *copy }, b'x');
        assert_eq!(buffers.copy(3, b"x"), None, "a buffer is freed once");
        buffers.release(slots - 1);
        assert_eq!(buffers.copy(3, &vec![0; SendBuffers::BYTES_EACH + 1]), None, "too long for a buffer");
    }
}
