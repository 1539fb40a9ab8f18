//! The items: a concurrent map with a memory limit and atomic changes of items.
//!
//! `quick_cache` has shards. A look-up takes a read lock and hashes the key once, without allocation. Eviction is CLOCK over a
//! hot and a cold part, an approximation of LRU like memcached's segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::value::Value;
use crate::service::Clock;

/// Sizes of the store and of its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// Memory for items, with their bookkeeping; the store evicts items beyond it.
    pub memory_max_bytes: u64,
    /// Largest item, at most a quarter of the memory. A value must be a little smaller.
    pub item_max_bytes: u32,
    /// Process id for `stats`.
    pub pid: u32,
}

impl Default for KvConfig {
    /// The defaults of memcached: 64 MiB, and 1 MiB an item.
    fn default() -> Self {
        Self { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20, pid: 0 }
    }
}

/// A value with its metadata. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub data: Value,
    /// The number of the item's last change, counted over all items, unless a client chose the value.
    pub cas: u64,
    pub flags: u32,
    /// Expiry in seconds since 1970; 0 is never.
    pub expires: u32,
    /// Time of storing, or of the last fetch once [`Store::record_fetches`] was called.
    pub accessed: u32,
    /// Number of flushes before the item was stored; the next flush removes the item.
    flushes: u16,
    pub marks: u8,
}

/// The mark of a fetched item. `get` sets it once a client has used a meta command.
pub(crate) const FETCHED: u8 = 1;
/// The mark of an item that a client declared out of date.
pub(crate) const STALE: u8 = 2;
/// The mark of an item that a client was asked to replace.
pub(crate) const WON: u8 = 4;
/// The mark of an item whose key is in base64, in replies too.
pub(crate) const BINARY: u8 = 8;

impl Item {
    pub fn is_binary(&self) -> bool {
        self.marks & BINARY != 0
    }
}

/// Decision about an item in [`Store::enter`].
pub(crate) enum After<T> {
    Keep(T),
    Remove(T),
}

/// Memory of an item beyond key and data: the entry and its links, two allocations with their headers, its hash.
pub(crate) const ITEM_OVERHEAD_BYTES: usize = 152;
/// Longest time to live; a larger number is a time since 1970 (memcached's protocol.txt).
const RELATIVE_MAX_S: u32 = 60 * 60 * 24 * 30;
const LONG_AGO: u32 = 1;

pub(crate) struct Store {
    cache: Cache<Vec<u8>, Item, Weight, DefaultHashBuilder, Evicted>,
    /// Read to store an item, check a time to live, run a pending flush or record a fetch; any other get reads no clock.
    pub clock: Clock,
    item_max_bytes: usize,
    memory_max_bytes: AtomicU64,
    /// The number of flushes. A command that finds an item from before the last flush drops it.
    flushes: AtomicU16,
    /// The time of a pending flush; 0 if none is pending.
    flush_at: AtomicU32,
    records_fetches: AtomicBool,
    notices_fetches: AtomicBool,
    /// The growth of items in place since [`Store::make_room`] last evicted. The cache itself evicts only on insertion.
    grown_bytes: AtomicU64,
    evicted: Evicted,
    /// The last CAS value. Every change writes it, so its cache lines are apart from the fields that every get reads.
    cas: Isolated<AtomicU64>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Isolated<T>(T);

#[derive(Clone)]
struct Weight;

impl Weighter<Vec<u8>, Item> for Weight {
    fn weight(&self, key: &Vec<u8>, item: &Item) -> u64 {
        weight(key.len(), item.data.len()) as u64
    }
}

pub(crate) fn weight(key_bytes: usize, data_bytes: usize) -> usize {
    key_bytes + data_bytes + ITEM_OVERHEAD_BYTES
}

/// Counts evicted items, and frees them outside the lock.
#[derive(Clone, Default)]
struct Evicted(Arc<AtomicU64>);

impl Lifecycle<Vec<u8>, Item> for Evicted {
    type RequestState = Option<(Vec<u8>, Item)>;

    fn on_evict(&self, last: &mut Self::RequestState, key: Vec<u8>, item: Item) {
        self.0.fetch_add(1, Relaxed);
        *last = Some((key, item));
    }
}

fn expires_after(exptime: i32, now: u32) -> u32 {
    match u32::try_from(exptime) {
        Ok(0) => 0,
        Ok(seconds) if seconds <= RELATIVE_MAX_S => now + seconds,
        Ok(absolute) => absolute,
        Err(_) => LONG_AGO,
    }
}

impl Store {
    pub fn new(config: &KvConfig, clock: Clock) -> Self {
        assert!(
            config.item_max_bytes > 0 && u64::from(config.item_max_bytes) <= config.memory_max_bytes / 4,
            "an item may take at most a quarter of the memory: {config:?}"
        );
        let evicted = Evicted::default();
        // Each shard needs room for several of the largest items, or it would refuse them.
        let shards = (config.memory_max_bytes / (4 * u64::from(config.item_max_bytes))).clamp(1, 64);
        let options = OptionsBuilder::new()
            .weight_capacity(config.memory_max_bytes)
            .estimated_items_capacity((config.memory_max_bytes / 512) as usize)
            .shards(1 << shards.ilog2())
            .build()
            .expect("capacity and items are set");
        Self {
            cache: Cache::with_options(options, Weight, DefaultHashBuilder::default(), evicted.clone()),
            clock,
            item_max_bytes: config.item_max_bytes as usize,
            memory_max_bytes: AtomicU64::new(config.memory_max_bytes),
            flushes: AtomicU16::new(0),
            flush_at: AtomicU32::new(0),
            records_fetches: AtomicBool::new(false),
            notices_fetches: AtomicBool::new(false),
            grown_bytes: AtomicU64::new(0),
            evicted,
            cas: Isolated::default(),
        }
    }

    pub fn fits(&self, key_bytes: usize, data_bytes: usize) -> bool {
        weight(key_bytes, data_bytes) <= self.item_max_bytes
    }

    pub fn expires(&self, exptime: i32) -> u32 {
        if exptime == 0 { 0 } else { expires_after(exptime, (self.clock)()) }
    }

    /// Returns a new item, with the next CAS value unless one is given.
    #[inline]
    pub fn item(&self, data: Value, flags: u32, exptime: i32, cas: Option<u64>, is_binary: bool) -> Item {
        self.flush_if_due();
        let now = (self.clock)();
        Item {
            data,
            cas: cas.unwrap_or_else(|| self.next_cas()),
            flags,
            expires: expires_after(exptime, now),
            accessed: now,
            flushes: self.flushes.load(Relaxed),
            marks: if is_binary { BINARY } else { 0 },
        }
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Item> {
        self.flush_if_due();
        let item = self.cache.get(key)?;
        if !self.is_live(&item) {
            self.cache.remove_if(key, |item| !self.is_live(item));
            return None;
        }
        let is_first_fetch = item.marks & FETCHED == 0 && self.notices_fetches.load(Relaxed);
        if is_first_fetch || self.records_fetches.load(Relaxed) {
            self.record_fetch(key, item.cas);
        }
        Some(item)
    }

    /// Returns an item without counting it as a fetch.
    pub fn peek(&self, key: &[u8]) -> Option<Item> {
        self.flush_if_due();
        self.cache.peek(key).filter(|item| self.is_live(item))
    }

    /// Records a fetch: a mark, and the time if enabled.
    #[cold]
    fn record_fetch(&self, key: &[u8], cas: u64) {
        self.cache.entry(key, Some(Duration::ZERO), |_, item| {
            // Another thread may have replaced the item meanwhile.
            if item.cas == cas {
                self.mark_fetched(item);
            }
            EntryAction::Retain(())
        });
    }

    pub fn mark_fetched(&self, item: &mut Item) {
        item.marks |= FETCHED;
        if self.records_fetches.load(Relaxed) {
            item.accessed = (self.clock)();
        }
    }

    /// Enables the mark of fetched items, which costs a second look-up at the first fetch. Each meta command calls this.
    pub fn notice_fetches(&self) {
        if !self.notices_fetches.load(Relaxed) {
            self.notices_fetches.store(true, Relaxed);
        }
    }

    /// Enables the time of fetches, which costs a clock reading and a change of the item. Requests for this time call this.
    pub fn record_fetches(&self) {
        if !self.records_fetches.load(Relaxed) {
            self.records_fetches.store(true, Relaxed);
        }
    }

    /// Stores an item; returns its CAS value. The key is copied before `make`, because hashing a fresh copy would stall.
    #[inline]
    pub fn set(&self, key: &[u8], make: impl FnOnce() -> Item) -> u64 {
        let key = key.to_vec();
        let item = make();
        let cas = item.cas;
        self.cache.insert(key, item);
        cas
    }

    /// Changes an existing item atomically. Returns the result of `change`, or `None` if there is no item.
    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut Item) -> T) -> Option<T> {
        self.enter(key, None::<fn() -> Item>, |item, _| After::Keep(change(item)))
    }

    /// Changes or removes an item atomically. `make` creates a missing item, for which `change` gets `true`.
    pub fn enter<T>(
        &self,
        key: &[u8],
        mut make: Option<impl FnOnce() -> Item>,
        change: impl FnOnce(&mut Item, bool) -> After<T>,
    ) -> Option<T> {
        self.flush_if_due();
        // This look-up costs less than an entry, for which the cache would reserve a place.
        if make.is_none() && !self.cache.contains_key(key) {
            return None;
        }
        let timeout = make.is_none().then_some(Duration::ZERO);
        let (mut change, mut removed, mut grown_bytes) = (Some(change), None, 0);
        let entry = self.cache.entry(key, timeout, |_, item| {
            let before_bytes = item.data.len();
            let is_new = !self.is_live(item);
            if is_new {
                let Some(make) = make.take() else { return EntryAction::Remove };
                *item = make();
            }
            let change = change.take().expect("called once");
            match change(item, is_new) {
                After::Keep(result) => {
                    grown_bytes = item.data.len().saturating_sub(before_bytes);
                    EntryAction::Retain(result)
                }
                After::Remove(result) => {
                    removed = Some(result);
                    EntryAction::Remove
                }
            }
        });
        self.make_room(grown_bytes);
        match entry {
            EntryResult::Retained(result) => Some(result),
            EntryResult::Removed(..) => removed,
            EntryResult::Vacant(guard) => {
                let mut item = make.take()?();
                let (After::Keep(result) | After::Remove(result)) = change.take()?(&mut item, true);
                // If another thread has set or deleted the item, this fails, and this change counts as the earlier one.
                let _ = guard.insert(item);
                Some(result)
            }
            // Another thread is adding the item, so there was no item before.
            EntryResult::Timeout => None,
            EntryResult::Replaced(..) => unreachable!("no change replaces an entry"),
        }
    }

    pub fn delete(&self, key: &[u8]) -> bool {
        self.flush_if_due();
        self.cache.remove(key).is_some_and(|(_, item)| self.is_live(&item))
    }

    /// Removes all items, immediately (0 or less) or when an item with this time to live would expire.
    pub fn flush_all(&self, exptime: i32) {
        // A new flush replaces a pending one.
        if exptime > 0 {
            self.flush_at.store(self.expires(exptime), Relaxed);
        } else {
            self.flush_at.store(0, Relaxed);
            self.flush();
        }
    }

    pub fn next_cas(&self) -> u64 {
        self.cas.0.fetch_add(1, Relaxed) + 1
    }

    /// Returns a limited number of items with their keys.
    pub fn some(&self) -> impl Iterator<Item = (Vec<u8>, Item)> {
        const MAX: usize = 20_000;
        self.cache.iter().take(MAX).filter(|(_, item)| self.is_live(item))
    }

    pub fn memory_max_bytes(&self) -> u64 {
        self.memory_max_bytes.load(Relaxed)
    }

    /// Changes the memory for items and evicts the excess; returns false if the largest items would not fit.
    pub fn set_memory_max_bytes(&self, bytes: u64) -> bool {
        let fits = bytes / self.cache.num_shards() as u64 >= 2 * self.item_max_bytes as u64;
        if fits {
            self.memory_max_bytes.store(bytes, Relaxed);
            self.cache.set_capacity(bytes);
        }
        fits
    }

    /// Returns the number of items and their memory, including expired items that no command has found.
    pub fn size(&self) -> (usize, u64) {
        (self.cache.len(), self.cache.weight())
    }

    pub fn evictions(&self) -> u64 {
        self.evicted.0.load(Relaxed)
    }

    #[inline]
    fn is_live(&self, item: &Item) -> bool {
        item.flushes == self.flushes.load(Relaxed) && (item.expires == 0 || item.expires > (self.clock)())
    }

    /// Runs a pending flush. Every command calls this first, so that nothing is stored between the due time and the flush.
    #[inline]
    fn flush_if_due(&self) {
        let at = self.flush_at.load(Relaxed);
        if at != 0 && at <= (self.clock)() && self.flush_at.compare_exchange(at, 0, Relaxed, Relaxed).is_ok() {
            self.flush();
        }
    }

    fn flush(&self) {
        // As in memcached, a flush uses up a CAS value.
        self.next_cas();
        if self.flushes.fetch_add(1, Relaxed) == u16::MAX {
            // The counter wraps, so items of 65 536 flushes ago would become live again.
            self.cache.clear();
        }
    }

    /// Makes the cache evict once items have grown by the size of the largest item.
    fn make_room(&self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes > 0 && self.grown_bytes.fetch_add(bytes, Relaxed) + bytes > self.item_max_bytes as u64 {
            self.grown_bytes.store(0, Relaxed);
            // Another thread may change the limit meanwhile, so repeat until it stays the same.
            let mut limit_bytes = 0;
            while limit_bytes != self.memory_max_bytes() {
                limit_bytes = self.memory_max_bytes();
                self.cache.set_capacity(limit_bytes);
            }
        }
    }
}
