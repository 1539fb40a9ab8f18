//! The receive buffers of an io_uring (IORING_REGISTER_PBUF_RING): a ring of entries for free buffers, and the buffers' memory.

use std::sync::atomic::{AtomicU16, Ordering};
use std::{io, slice};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::platform;

/// The gap between buffers: a cache line, so that they begin in different cache sets.
const GAP_BYTES: usize = 64;

pub(super) struct Buffers {
    /// The ring's entries, followed by the buffers.
    mapping: *mut u8,
    count: u16,
    pub(super) bytes_each: usize,
    /// The index of the next entry to fill. `give_back` publishes it to the kernel.
    tail: u16,
}

impl Buffers {
    /// The id of the only buffer group of an io_uring.
    pub(super) const GROUP: u16 = 0;

    /// Maps `count` free buffers of `bytes_each` bytes; `count` must be a power of two.
    pub(super) fn new(count: u16, bytes_each: usize) -> io::Result<Self> {
        let mapping = platform::map(length(count, bytes_each), libc::MAP_PRIVATE)?;
        let mut buffers = Self { mapping, count, bytes_each, tail: 0 };
        (0..count).for_each(|buffer| buffers.give_back(buffer));
        Ok(buffers)
    }

    /// Registers the buffers with an io_uring, which must be dropped before the buffers.
    pub(super) fn register(&self, ring: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: the mapping begins with `count` page-aligned entries and outlives the ring.
        unsafe { ring.register_buf_ring_with_flags(self.mapping as u64, self.count, Self::GROUP, 0) }
    }

    #[inline]
    pub(super) fn give_back(&mut self, buffer: u16) {
        let entries = self.mapping.cast::<BufRingEntry>();
        let at = usize::from(self.tail & (self.count - 1));
        // SAFETY: `at` is below `count`, zeros are a valid entry, and the kernel reads only entries below the tail.
        let entry = unsafe { &mut *entries.add(at) };
        entry.set_addr(self.address(buffer) as u64);
        entry.set_len(self.bytes_each as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the ring's first entry, which contains the aligned tail; the kernel only reads the tail.
        let tail = unsafe { &*BufRingEntry::tail(entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    /// The first bytes of a buffer that is not free.
    #[inline]
    pub(super) fn bytes(&self, buffer: u16, count: usize) -> &[u8] {
        // SAFETY: the mapped buffer belongs to the server until it is given back, and the kernel has filled in `count` bytes.
        unsafe { slice::from_raw_parts(self.address(buffer), count.min(self.bytes_each)) }
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        assert!(buffer < self.count, "the buffer belongs to another ring");
        self.mapping.wrapping_add(entries_bytes(self.count) + usize::from(buffer) * (self.bytes_each + GAP_BYTES))
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and the io_uring that used it is gone.
        unsafe { libc::munmap(self.mapping.cast(), length(self.count, self.bytes_each)) };
    }
}

/// The size of the ring's entries, rounded up to the largest page size.
fn entries_bytes(count: u16) -> usize {
    (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(64 << 10)
}

fn length(count: u16, bytes_each: usize) -> usize {
    entries_bytes(count) + usize::from(count) * (bytes_each + GAP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap_and_end_within_the_mapping() {
        for bytes_each in [1, 64 << 10, 1 << 20] {
            let buffers = Buffers::new(16, bytes_each).unwrap();
            for at in 1..16 {
                assert!(buffers.address(at) as usize >= buffers.address(at - 1) as usize + bytes_each);
            }
            assert!(buffers.address(15) as usize + bytes_each <= buffers.mapping as usize + length(16, bytes_each));
        }
    }
}
