//! The receive buffers of an io_uring (IORING_REGISTER_PBUF_RING): a ring of entries for free buffers, and the buffers' memory.

use std::sync::atomic::{AtomicU16, Ordering};
use std::{io, iter, slice};

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
    /// The buffer that was given back last.
    last: u16,
    /// The buffer that was given back after each buffer, which is the next one of a bundle; empty without bundles.
    successors: Vec<u16>,
}

impl Buffers {
    /// The id of the only buffer group of an io_uring.
    pub(super) const GROUP: u16 = 0;

    /// Maps `count` free buffers of `bytes_each` bytes; `count` must be a power of two.
    pub(super) fn new(count: u16, bytes_each: usize, has_bundles: bool) -> io::Result<Self> {
        let mapping = platform::map(length(count, bytes_each), libc::MAP_PRIVATE)?;
        let successors = if has_bundles { vec![0; count.into()] } else { Vec::new() };
        let mut buffers = Self { mapping, count, bytes_each, tail: 0, last: 0, successors };
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
        if let Some(successor) = self.successors.get_mut(usize::from(self.last)) {
            *successor = buffer;
            self.last = buffer;
        }
    }

    /// Gives back the buffers of a bundle of `count` bytes.
    #[inline]
    pub(super) fn give_back_bundle(&mut self, first: u16, count: usize) {
        let mut buffer = first;
        for _ in 1..count.div_ceil(self.bytes_each) {
            // Giving a buffer back changes its successor.
            let next = self.successors[usize::from(buffer)];
            self.give_back(buffer);
            buffer = next;
        }
        self.give_back(buffer);
    }

    /// The bytes of a bundle. The kernel fills buffers in the order in which they were given back.
    #[inline]
    pub(super) fn bundle(&self, first: u16, count: usize) -> impl Iterator<Item = &[u8]> {
        let (mut buffer, mut left) = (first, count);
        iter::from_fn(move || {
            let part = (left > 0).then(|| self.bytes(buffer, left))?;
            left -= part.len();
            if left > 0 {
                buffer = self.successors[usize::from(buffer)];
            }
            Some(part)
        })
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
            let buffers = Buffers::new(16, bytes_each, false).unwrap();
            for at in 1..16 {
                assert!(buffers.address(at) as usize >= buffers.address(at - 1) as usize + bytes_each);
            }
            assert!(buffers.address(15) as usize + bytes_each <= buffers.mapping as usize + length(16, bytes_each));
        }
    }

    #[test]
    fn bundle_follows_the_order_of_given_back_buffers() {
        let mut buffers = Buffers::new(4, 10, true).unwrap();
        let places = |buffers: &Buffers, first, count| -> Vec<(usize, usize)> {
            let parts = buffers.bundle(first, count);
            parts.map(|part| (part.as_ptr() as usize, part.len())).collect()
        };
        let at = [0, 1, 2, 3].map(|buffer| buffers.address(buffer) as usize);
        assert_eq!(places(&buffers, 0, 25), [(at[0], 10), (at[1], 10), (at[2], 5)]);
        assert_eq!(places(&buffers, 2, 0), []);
        // The second bundle returns first, so the kernel fills buffers 2, 3, 0, 1 next.
        buffers.give_back_bundle(2, 11);
        buffers.give_back_bundle(0, 20);
        assert_eq!(places(&buffers, 3, 30), [(at[3], 10), (at[0], 10), (at[1], 10)]);
        assert_eq!(places(&buffers, 2, 10), [(at[2], 10)]);
    }
}
