//! The service that all threads share, and the effect of storage commands on its store.

use super::command::{StoreMode, StoreRequest, unsigned};
use super::counters::{Count, Counters};
use super::meta_flags::Options;
use super::store::{After, BINARY, Item, KvConfig, STALE, Store, WON};
use super::value::Value;
use crate::service::Clock;

/// A key-value store with its counters.
pub struct Kv {
    pub(super) store: Store,
    pub(super) counters: Counters,
    pub(super) config: KvConfig,
    /// Start of the service for `stats`, in seconds since 1970.
    pub(super) started: u32,
    pub(super) is_one_by_one: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    // Stored in an item with this CAS value and size.
    Yes { cas: u64, bytes: usize },
    No,
    // The item's CAS value is not the one that the client sent.
    Changed,
    Missing,
}

impl Stored {
    #[inline]
    fn from_item(item: &Item) -> Self {
        Self::Yes { cas: item.cas, bytes: item.data.len() }
    }
}

impl Kv {
    /// Creates an empty store. It reads no clock except `clock`.
    pub fn new(config: KvConfig, clock: Clock) -> Self {
        let started = clock();
        Self { store: Store::new(&config, clock), counters: Counters::default(), config, started, is_one_by_one: false }
    }

    /// Gives an item a new time to live; returns the item.
    pub(super) fn touch(&self, key: &[u8], exptime: i32) -> Option<Item> {
        let expires = self.store.expires(exptime);
        let touched = self.store.update(key, |item| {
            item.expires = expires;
            self.store.mark_fetched(item);
            item.clone()
        });
        self.counters.add(if touched.is_some() { Count::TouchHit } else { Count::TouchMiss });
        touched
    }

    /// Stores a value. `meta` has the options of a meta command.
    #[inline]
    pub(super) fn store_value(&self, request: &StoreRequest<'_>, meta: Option<&Options>, value: &[u8]) -> Stored {
        self.counters.add(Count::Set);
        let stored = if request.mode == StoreMode::Set {
            let cas = self.store.set(request.key, || self.new_item(request, meta, value));
            Stored::Yes { cas, bytes: value.len() }
        } else {
            self.store_if(request, meta, value)
        };
        if matches!(stored, Stored::Yes { .. }) {
            self.counters.add(Count::Stored);
        }
        stored
    }

    #[inline]
    fn new_item(&self, request: &StoreRequest<'_>, meta: Option<&Options>, value: &[u8]) -> Item {
        self.store.item(
            value.into(),
            request.flags,
            request.exptime,
            meta.and_then(|meta| meta.new_cas),
            meta.is_some_and(|meta| meta.is_binary),
        )
    }

    fn store_if(&self, request: &StoreRequest<'_>, meta: Option<&Options>, value: &[u8]) -> Stored {
        let StoreRequest { mode, cas, key, .. } = *request;
        let make = || self.new_item(request, meta, value);
        let replace = |item: &mut Item| {
            *item = make();
            Stored::from_item(item)
        };
        let stored = match mode {
            StoreMode::Set => unreachable!("`set` is unconditional"),
            StoreMode::Add => self.store.enter(key, Some(make), |item, is_new| {
                After::Keep(if is_new { Stored::from_item(item) } else { Stored::No })
            }),
            StoreMode::Replace => self.store.update(key, replace),
            StoreMode::Append | StoreMode::Prepend => {
                self.store.enter(key, meta.is_some_and(|meta| meta.vivify.is_some()).then_some(make), |item, is_new| {
                    After::Keep(if is_new {
                        Stored::from_item(item)
                    } else if cas != 0 && cas != item.cas {
                        Stored::Changed
                    } else if self.join(key, item, value, mode == StoreMode::Append, meta.and_then(|meta| meta.new_cas))
                    {
                        Stored::from_item(item)
                    } else {
                        Stored::No
                    })
                })
            }
            StoreMode::Cas => {
                let stored = self.store.update(key, |item| {
                    if cas != 0 && cas == item.cas {
                        replace(item)
                    } else if meta.is_some_and(|meta| meta.stale) && cas != 0 && cas < item.cas {
                        let old = item.clone();
                        let stored = replace(item);
                        item.expires = old.expires;
                        item.marks |= old.marks & WON | STALE;
                        stored
                    } else {
                        Stored::Changed
                    }
                });
                let stored = stored.unwrap_or(Stored::Missing);
                self.counters.add(match stored {
                    Stored::Yes { .. } => Count::CasHit,
                    Stored::Missing => Count::CasMiss,
                    Stored::No | Stored::Changed => Count::CasBad,
                });
                Some(stored)
            }
        };
        stored.unwrap_or(Stored::No)
    }

    /// Joins a value to an item, which keeps its flags and time to live; returns whether the result fits.
    fn join(&self, key: &[u8], item: &mut Item, value: &[u8], is_append: bool, cas: Option<u64>) -> bool {
        let fits = self.store.fits(key.len(), item.data.len() + value.len());
        if fits {
            let parts = if is_append { [&item.data, value] } else { [value, &item.data] };
            let expires = item.expires;
            *item = self.store.item(Value::from(&parts.concat()[..]), item.flags, 0, cas, item.is_binary());
            item.expires = expires;
        }
        fits
    }

    /// Adds or subtracts; `None` if the item is not a number. Addition wraps at 64 bits, subtraction stops at 0.
    pub(super) fn add_to(&self, item: &mut Item, delta: u64, up: bool, cas: Option<u64>) -> Option<u64> {
        let value = unsigned(&item.data)?;
        let sum = if up { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(sum).as_bytes();
        let mut data = vec![b' '; digits.len().max(item.data.len())];
        data[..digits.len()].copy_from_slice(digits);
        if digits.len() > item.data.len() {
            // memcached stores the result in a new item.
            item.marks &= BINARY;
        }
        item.data = Value::from(&data[..]);
        item.cas = cas.unwrap_or_else(|| self.store.next_cas());
        Some(sum)
    }
}
