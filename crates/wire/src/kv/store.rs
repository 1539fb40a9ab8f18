//! The items: a concurrent map that keeps within a memory limit, each change of an item atomic.
//!
//! The map is `quick_cache`: sharded, a read lock and no allocation for each look-up, the key hashed once (by foldhash,
//! with a random seed), and eviction by CLOCK over a hot and a cold part, which approximates LRU as memcached's own
//! segments do. Plain concurrent maps look up some tens of nanoseconds faster, next to microseconds of system calls for
//! each request, and would need an eviction of ours beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::config::KvConfig;
use crate::service::Clock;

/// A value and what is known of it. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub data: Arc<[u8]>,
    /// Unique to each change of any item, and growing, unless a client chose it.
    pub cas: u64,
    pub flags: u32,
    /// When it is gone, in seconds since 1970; 0 is never.
    pub expires: u32,
    /// When it was last stored or fetched, as far as that is recorded: see [`Store::record_fetches`].
    pub accessed: u32,
    /// How many flushes there had been when it was stored; another one takes it.
    flushes: u16,
    pub marks: Marks,
}

/// What the meta commands remember of an item, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks(u8);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// A client has fetched it.
    Fetched = 1,
    /// A client declared it out of date.
    Stale = 2,
    /// A client was told to replace it.
    Won = 4,
    /// Its key was written in base64, and is to be answered so.
    Binary = 8,
}

impl Marks {
    #[inline]
    pub fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    #[inline]
    pub fn set(&mut self, mark: Mark, value: bool) {
        self.0 = self.0 & !(mark as u8) | if value { mark as u8 } else { 0 };
    }

    /// Those of a new item.
    #[inline]
    pub fn for_key(is_binary: bool) -> Self {
        Self(if is_binary { Mark::Binary as u8 } else { 0 })
    }

    /// Those of an item that takes this one's place under the same key.
    pub fn for_successor(self) -> Self {
        Self(self.0 & Mark::Binary as u8)
    }
}

/// What becomes of an item that [`Store::enter`] found.
pub(super) enum After<T> {
    Keep(T),
    Remove(T),
}

/// What an item costs beside its key and data: the entry and its links, two allocations with their headers, its hash.
pub(super) const ITEM_OVERHEAD_BYTES: usize = 152;
/// A time to live above this is a time since 1970 (memcached's protocol.txt).
const RELATIVE_MAX_S: u32 = 60 * 60 * 24 * 30;
/// What is gone already expires then.
const LONG_AGO: u32 = 1;

/// Every item of the service.
pub(super) struct Store {
    cache: Cache<Vec<u8>, Item, Weight, DefaultHashBuilder, Evicted>,
    /// Asked when an item is stored or has a time to live, while a delayed flush is pending, and once fetches are recorded: a
    /// plain get reads no clock, and no thread need keep one for it.
    pub clock: Clock,
    item_max_bytes: usize,
    memory_max_bytes: AtomicU64,
    /// Items stored before the last flush are dropped when they are met.
    flushes: AtomicU16,
    /// When a flush is due; 0 is never.
    flush_at: AtomicU32,
    /// Whether each fetch is to leave its time.
    records_fetches: AtomicBool,
    /// See [`Store::notice_fetches`].
    notices_fetches: AtomicBool,
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
            memory_max_bytes: AtomicU64::new(config.memory_max_bytes),
            flushes: AtomicU16::new(0),
            flush_at: AtomicU32::new(0),
            records_fetches: AtomicBool::new(false),
            notices_fetches: AtomicBool::new(false),
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
        if exptime == 0 { 0 } else { expires_after(exptime, (self.clock)()) }
    }

    /// An item stored now. Without a number it gets the next.
    #[inline]
    pub fn item(&self, data: Arc<[u8]>, flags: u32, exptime: i32, cas: Option<u64>, marks: Marks) -> Item {
        self.flush_if_due();
        let now = (self.clock)();
        Item {
            data,
            cas: cas.unwrap_or_else(|| self.next_cas()),
            flags,
            expires: expires_after(exptime, now),
            accessed: now,
            flushes: self.flushes.load(Relaxed),
            marks,
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
        let is_news = !item.marks.has(Mark::Fetched) && self.notices_fetches.load(Relaxed);
        if is_news || self.records_fetches.load(Relaxed) {
            self.note_fetch(key, item.cas);
        }
        Some(item)
    }

    /// Looks at an item, which counts for nothing.
    pub fn peek(&self, key: &[u8]) -> Option<Item> {
        self.flush_if_due();
        self.cache.peek(key).filter(|item| self.is_live(item))
    }

    /// The first fetch of an item leaves a mark, and later ones their time, where that is recorded.
    #[cold]
    fn note_fetch(&self, key: &[u8], cas: u64) {
        self.cache.entry(key, Some(Duration::ZERO), |_, item| {
            // Another may have stored a new one since.
            if item.cas == cas {
                self.mark_fetched(item);
            }
            EntryAction::Retain(())
        });
    }

    /// Marks an item as fetched now.
    pub fn mark_fetched(&self, item: &mut Item) {
        item.marks.set(Mark::Fetched, true);
        if self.records_fetches.load(Relaxed) {
            item.accessed = (self.clock)();
        }
    }

    /// From the first meta command on, the first fetch of an item marks it, which takes a second look-up and a shard's lock.
    /// Clients without meta commands cannot ask for the mark, and do not pay for it.
    pub fn notice_fetches(&self) {
        if !self.notices_fetches.load(Relaxed) {
            self.notices_fetches.store(true, Relaxed);
        }
    }

    /// From now on each fetch reads the clock, and changes its item: nobody pays for that before the first client asks when an
    /// item was last accessed. Until then that is when it was stored.
    pub fn record_fetches(&self) {
        if !self.records_fetches.load(Relaxed) {
            self.records_fetches.store(true, Relaxed);
        }
    }

    /// Stores an item whatever was there; its number. The key is copied first: its hash would wait for a copy just written.
    #[inline]
    pub fn set(&self, key: &[u8], make: impl FnOnce() -> Item) -> u64 {
        let key = key.to_vec();
        let item = make();
        let cas = item.cas;
        self.cache.insert(key, item);
        cas
    }

    /// Changes an item that is there, alone with it; what `change` answers, or `None` if there is no item.
    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut Item) -> T) -> Option<T> {
        self.enter(key, None::<fn() -> Item>, |item, _| After::Keep(change(item)))
    }

    /// Changes or removes an item, alone with it. If there is none, `change` gets the one that `make` makes, and is told so.
    /// Without `make` the answer is then `None`.
    pub fn enter<T>(
        &self,
        key: &[u8],
        mut make: Option<impl FnOnce() -> Item>,
        change: impl FnOnce(&mut Item, bool) -> After<T>,
    ) -> Option<T> {
        self.flush_if_due();
        // To look first is cheaper: the cache would set a place aside for a key that is not there.
        if make.is_none() && !self.cache.contains_key(key) {
            return None;
        }
        let patience = make.is_none().then_some(Duration::ZERO);
        let (mut change, mut removed, mut grown_bytes) = (Some(change), None, 0);
        let result = self.cache.entry(key, patience, |_, item| {
            let before_bytes = item.data.len();
            let is_new = !self.is_live(item);
            if is_new {
                let Some(make) = make.take() else { return EntryAction::Remove };
                *item = make();
            }
            let change = change.take().expect("called once");
            match change(item, is_new) {
                After::Keep(answer) => {
                    grown_bytes = item.data.len().saturating_sub(before_bytes);
                    EntryAction::Retain(answer)
                }
                After::Remove(answer) => {
                    removed = Some(answer);
                    EntryAction::Remove
                }
            }
        });
        self.grown(grown_bytes);
        match result {
            EntryResult::Retained(answer) => Some(answer),
            EntryResult::Removed(..) => removed,
            EntryResult::Vacant(guard) => {
                let mut item = make.take()?();
                let (After::Keep(answer) | After::Remove(answer)) = change.take()?(&mut item, true);
                // Refused if another has set or deleted it since: then ours was there before that.
                let _ = guard.insert(item);
                Some(answer)
            }
            // Being added by another this moment: it was not there before.
            EntryResult::Timeout => None,
            EntryResult::Replaced(..) => unreachable!("not asked for"),
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

    /// Some items with their keys, at most as many as are looked at in a moment.
    pub fn some(&self) -> impl Iterator<Item = (Vec<u8>, Item)> {
        const MAX: usize = 20_000;
        self.cache.iter().take(MAX).filter(|(_, item)| self.is_live(item))
    }

    /// Memory for items.
    pub fn memory_max_bytes(&self) -> u64 {
        self.memory_max_bytes.load(Relaxed)
    }

    /// Changes how much memory there is for items, and evicts what is too much; whether the largest items would still fit.
    pub fn set_memory_max_bytes(&self, bytes: u64) -> bool {
        let fits = bytes / self.cache.num_shards() as u64 >= 2 * self.item_max_bytes as u64;
        if fits {
            self.memory_max_bytes.store(bytes, Relaxed);
            self.cache.set_capacity(bytes);
        }
        fits
    }

    /// What an item takes of the memory.
    pub fn weight(key: &[u8], item: &Item) -> usize {
        weight(key.len(), item.data.len())
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
        item.flushes == self.flushes.load(Relaxed) && (item.expires == 0 || item.expires > (self.clock)())
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
        // memcached numbers a flush like a change.
        self.next_cas();
        if self.flushes.fetch_add(1, Relaxed) == u16::MAX {
            // The count begins again, and so must the items.
            self.cache.clear();
        }
    }

    /// Has the cache make room once items have grown by as much as one item may have.
    fn grown(&self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes > 0 && self.grown_bytes.fetch_add(bytes, Relaxed) + bytes > self.item_max_bytes as u64 {
            self.grown_bytes.store(0, Relaxed);
            // Another may change the limit meanwhile: the last to set it must have seen the last limit.
            let mut limit_bytes = self.memory_max_bytes();
            loop {
                self.cache.set_capacity(limit_bytes);
                let now_bytes = self.memory_max_bytes();
                if now_bytes == limit_bytes {
                    break;
                }
                limit_bytes = now_bytes;
            }
        }
    }
}
