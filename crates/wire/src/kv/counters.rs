//! Counters of `stats`, in separate memory for each thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    GetHit,
    GetMiss,
    Set,
    Flush,
    DeleteHit,
    DeleteMiss,
    IncrHit,
    IncrMiss,
    DecrHit,
    DecrMiss,
    CasHit,
    CasMiss,
    CasBad,
    TouchHit,
    TouchMiss,
    Stored,
    TooLarge,
    MetaDebug,
}

const KINDS: usize = Count::MetaDebug as usize + 1;
const SHARDS: usize = 32;

/// Counters of all threads. A thread adds to a shard that few or no other threads write.
#[derive(Debug, Default)]
pub(super) struct Counters([Shard; SHARDS]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; KINDS]);

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % SHARDS
    };
}

impl Counters {
    #[inline]
    pub fn add(&self, count: Count) {
        SHARD.with(|&shard| self.0[shard].0[count as usize].fetch_add(1, Relaxed));
    }

    pub fn sum(&self, count: Count) -> u64 {
        self.0.iter().map(|shard| shard.0[count as usize].load(Relaxed)).sum()
    }

    pub fn reset(&self) {
        self.0.iter().flat_map(|shard| &shard.0).for_each(|count| count.store(0, Relaxed));
    }
}
