//! Storage commands: their effect on the store, for classic and meta commands alike.

use std::sync::Arc;

use super::command::{StoreMode, StoreRequest, unsigned};
use super::counters::Count;
use super::service::Kv;
use super::store::{After, BINARY, Item, STALE, WON};

/// Parameters that only meta commands set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreOptions {
    /// CAS value of the new item, instead of the next one.
    pub cas: Option<u64>,
    pub is_binary: bool,
    /// Whether `append` and `prepend` create a missing item.
    pub creates: bool,
    /// Whether an older value is stored too, marked as stale.
    pub accepts_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    // Stored in an item with this CAS value and size.
    Yes { cas: u64, bytes: usize },
    No,
    // The item has another CAS value than the client knows.
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
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Item> {
        let found = self.store.get(key);
        self.counters.add(if found.is_some() { Count::GetHit } else { Count::GetMiss });
        found
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

    #[inline]
    pub(super) fn store_value(&self, request: &StoreRequest<'_>, options: StoreOptions, value: &[u8]) -> Stored {
        self.counters.add(Count::Set);
        let stored = if request.mode == StoreMode::Set {
            let cas = self.store.set(request.key, || self.new_item(request, options, value));
            Stored::Yes { cas, bytes: value.len() }
        } else {
            self.store_if(request, options, value)
        };
        if matches!(stored, Stored::Yes { .. }) {
            self.counters.add(Count::Stored);
        }
        stored
    }

    #[inline]
    fn new_item(&self, request: &StoreRequest<'_>, options: StoreOptions, value: &[u8]) -> Item {
        self.store.item(value.into(), request.flags, request.exptime, options.cas, options.is_binary)
    }

    fn store_if(&self, request: &StoreRequest<'_>, options: StoreOptions, value: &[u8]) -> Stored {
        let StoreRequest { mode, cas, key, .. } = *request;
        let make = || self.new_item(request, options, value);
        let replace = |item: &mut Item| {
            *item = make();
            Stored::from_item(item)
        };
        let stored = match mode {
            StoreMode::Set => unreachable!("it has no condition"),
            StoreMode::Add => self.store.enter(key, Some(make), |item, is_new| {
                After::Keep(if is_new { Stored::from_item(item) } else { Stored::No })
            }),
            StoreMode::Replace => self.store.update(key, replace),
            StoreMode::Append | StoreMode::Prepend => {
                self.store.enter(key, options.creates.then_some(make), |item, is_new| {
                    After::Keep(if is_new {
                        Stored::from_item(item)
                    } else if cas != 0 && cas != item.cas {
                        Stored::Changed
                    } else if self.join(key, item, value, mode == StoreMode::Append, options.cas) {
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
                    } else if options.accepts_stale && cas != 0 && cas < item.cas {
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
            *item = self.store.item(parts.concat().into(), item.flags, 0, cas, item.is_binary());
            item.expires = expires;
        }
        fits
    }

    /// Adds to or subtracts from an item; `None` if the item is not a number. Addition wraps at 64 bits, subtraction stops at
    /// 0. Spaces follow a number that became shorter.
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
        item.data = Arc::from(data);
        item.cas = cas.unwrap_or_else(|| self.store.next_cas());
        Some(sum)
    }
}
