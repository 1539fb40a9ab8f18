//! The items: a concurrent map that keeps within a memory limit, each change of an item atomic.
//!
//! The map is `quick_cache`: sharded, a read lock and no allocation for each look-up, the key hashed once (by foldhash,
//! with a random seed), and eviction by CLOCK over a hot and a cold part, which approximates LRU as memcached's own
//! segments do. Plain concurrent maps look up some tens of nanoseconds faster, next to microseconds of system calls for
//! each request, and would need an eviction of ours beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::KvConfig;
use crate::Clock;

/// A value and what is known of it. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub data: Arc<[u8]>,
    /// Unique to each change of any item, and growing.
    pub cas: u64,
    pub flags: u32,
    /// When it is gone, in seconds since 1970; 0 is never.
    pub expires: u32,
}

/// What an item costs beside its key and data: the entry and its links, two allocations with their headers, its hash.
pub(super) const ITEM_OVERHEAD_BYTES: usize = 144;
/// A time to live above this is a time since 1970 (memcached's protocol.txt).
const RELATIVE_MAX_S: u32 = 60 * 60 * 24 * 30;
/// What is gone already expires then.
const LONG_AGO: u32 = 1;

/// Every item of the service.
pub(super) struct Store {
    cache: Cache<Vec<u8>, Item, Weight, DefaultHashBuilder, Evicted>,
    /// Asked when a time to live is given, when an item has one, and while a delayed flush is pending: a plain get reads no
    /// clock, and no thread need keep one for it.
    pub clock: Clock,
    item_max_bytes: usize,
    /// Items with this number or less have been flushed; they are dropped when they are met.
    flushed_cas: AtomicU64,
    /// When a flush is due; 0 is never.
    flush_at: AtomicU32,
    /// Bytes by which items grew in place. The cache makes room only when something is inserted, so it is told at times.
    grown_bytes: AtomicU64,
    evicted: Evicted,
    /// Written by each change: on lines of its own, away from what each get reads.
    cas: Alone<AtomicU64>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

#[derive(Clone)]
struct Weight;

impl Weighter<Vec<u8>, Item> for Weight {
    fn weight(&self, key: &Vec<u8>, item: &Item) -> u64 {
        weight(key.len(), item.data.len()) as u64
    }
}

fn weight(key_bytes: usize, data_bytes: usize) -> usize {
    key_bytes + data_bytes + ITEM_OVERHEAD_BYTES
}

/// Counts what is evicted, and lets it be freed outside the lock.
#[derive(Clone, Default)]
struct Evicted(Arc<AtomicU64>);

impl Lifecycle<Vec<u8>, Item> for Evicted {
    type RequestState = Option<(Vec<u8>, Item)>;

    fn on_evict(&self, last: &mut Self::RequestState, key: Vec<u8>, item: Item) {
        self.0.fetch_add(1, Relaxed);
        *last = Some((key, item));
    }
}

impl Store {
    pub fn new(config: &KvConfig, clock: Clock) -> Self {
        let evicted = Evicted::default();
        // A shard must have room for several of the largest items, or it would refuse them.
        let shards = (config.memory_max_bytes / (4 * u64::from(config.item_max_bytes))).clamp(1, 64);
        let options = OptionsBuilder::new()
            .weight_capacity(config.memory_max_bytes)
            .estimated_items_capacity((config.memory_max_bytes / 512) as usize)
            .shards(1 << shards.ilog2())
            .build()
            .expect("capacity and items are given");
        Self {
            cache: Cache::with_options(options, Weight, DefaultHashBuilder::default(), evicted.clone()),
            clock,
            item_max_bytes: config.item_max_bytes as usize,
            flushed_cas: AtomicU64::new(0),
            flush_at: AtomicU32::new(0),
            grown_bytes: AtomicU64::new(0),
            evicted,
            cas: Alone::default(),
        }
    }

    /// Whether an item of such sizes may be stored.
    pub fn fits(&self, key_bytes: usize, data_bytes: usize) -> bool {
        weight(key_bytes, data_bytes) <= self.item_max_bytes
    }

    /// When an item with this time to live is gone.
    pub fn expires(&self, exptime: i32) -> u32 {
        match u32::try_from(exptime) {
            Ok(0) => 0,
            Ok(seconds) if seconds <= RELATIVE_MAX_S => (self.clock)() + seconds,
            Ok(absolute) => absolute,
            Err(_) => LONG_AGO,
        }
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Item> {
        self.flush_if_due();
        let item = self.cache.get(key)?;
        if self.is_live(&item) {
            return Some(item);
        }
        self.cache.remove_if(key, |item| !self.is_live(item));
        None
    }

    /// Stores an item whatever was there.
    pub fn set(&self, key: &[u8], flags: u32, expires: u32, data: &[u8]) {
        self.flush_if_due();
        self.cache.insert(key.to_vec(), Item { data: data.into(), cas: self.next_cas(), flags, expires });
    }

    /// Stores an item unless there is one; whether it did.
    pub fn add(&self, key: &[u8], flags: u32, expires: u32, data: &[u8]) -> bool {
        self.flush_if_due();
        let mut item = Some(Item { data: data.into(), cas: self.next_cas(), flags, expires });
        let mut grown_bytes = 0;
        let result = self.cache.entry(key, None, |_, old| match item.take_if(|_| !self.is_live(old)) {
            Some(item) => {
                grown_bytes = item.data.len().saturating_sub(old.data.len());
                *old = item;
                EntryAction::Retain(true)
            }
            None => EntryAction::Retain(false),
        });
        let added = match result {
            EntryResult::Retained(added) => added,
            EntryResult::Vacant(guard) => {
                // Refused if another has set or deleted it since: then ours was there before that.
                let _ = item.map(|item| guard.insert(item));
                true
            }
            EntryResult::Removed(..) | EntryResult::Replaced(..) | EntryResult::Timeout => {
                unreachable!("neither asked for")
            }
        };
        self.grown(grown_bytes);
        added
    }

    /// Changes an item that is there, alone with it; what `change` answers, or `None` if there is no item.
    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut Item) -> T) -> Option<T> {
        self.flush_if_due();
        // To look first is cheaper: the cache would set a place aside for a key that is not there.
        if !self.cache.contains_key(key) {
            return None;
        }
        let mut grown_bytes = 0;
        let result = self.cache.entry(key, Some(Duration::ZERO), |_, item| {
            if !self.is_live(item) {
                return EntryAction::Remove;
            }
            let before_bytes = item.data.len();
            let answer = change(item);
            grown_bytes = item.data.len().saturating_sub(before_bytes);
            EntryAction::Retain(answer)
        });
        self.grown(grown_bytes);
        match result {
            EntryResult::Retained(answer) => Some(answer),
            // Gone, or being added by another this moment: it was not there before.
            _ => None,
        }
    }

    /// Deletes an item; whether there was one.
    pub fn delete(&self, key: &[u8]) -> bool {
        self.flush_if_due();
        self.cache.remove(key).is_some_and(|(_, item)| self.is_live(&item))
    }

    /// Flushes everything that is there, at once (0 or less) or as late as an item with this time to live would be gone.
    pub fn flush_all(&self, exptime: i32) {
        // This takes the place of one that is still due.
        if exptime > 0 {
            self.flush_at.store(self.expires(exptime), Relaxed);
        } else {
            self.flush_at.store(0, Relaxed);
            self.flush();
        }
    }

    /// A number for a change.
    pub fn next_cas(&self) -> u64 {
        self.cas.0.fetch_add(1, Relaxed) + 1
    }

    /// Items and their bytes, those gone but not yet met included.
    pub fn size(&self) -> (usize, u64) {
        (self.cache.len(), self.cache.weight())
    }

    pub fn evictions(&self) -> u64 {
        self.evicted.0.load(Relaxed)
    }

    #[inline]
    fn is_live(&self, item: &Item) -> bool {
        item.cas > self.flushed_cas.load(Relaxed) && (item.expires == 0 || item.expires > (self.clock)())
    }

    /// Every command looks first, so that nothing is stored between the flush's time and its being noticed.
    #[inline]
    fn flush_if_due(&self) {
        let at = self.flush_at.load(Relaxed);
        if at != 0 && at <= (self.clock)() && self.flush_at.compare_exchange(at, 0, Relaxed, Relaxed).is_ok() {
            self.flush();
        }
    }

    fn flush(&self) {
        self.flushed_cas.fetch_max(self.cas.0.load(Relaxed), Relaxed);
    }

    /// Has the cache make room once items have grown by as much as one item may have.
    fn grown(&self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes > 0 && self.grown_bytes.fetch_add(bytes, Relaxed) + bytes > self.item_max_bytes as u64 {
            self.grown_bytes.store(0, Relaxed);
            self.cache.set_capacity(self.cache.capacity());
        }
    }
}
