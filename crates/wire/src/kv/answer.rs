//! What each command does to the store, and what is said of it: memcached 1.6's own words.

use std::sync::Arc;

use super::Kv;
use super::command::{Command, Get, How, More, Put, Words, unsigned};
use super::counters::Count;
use super::stats::version;
use super::store::{After, Item, Mark, Marks};
use super::turn::OUTPUT_BYTES_MAX;

const NOT_FOUND: &str = "NOT_FOUND";
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(super) const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
pub(super) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is stored, in an item of this number with so many bytes.
    Yes {
        cas: u64,
        bytes: usize,
    },
    No,
    /// The item has another number than its client knows.
    Changed,
    Missing,
}

impl Stored {
    #[inline]
    fn of(item: &Item) -> Self {
        Self::Yes { cas: item.cas, bytes: item.data.len() }
    }
}

/// Writes a line.
pub(super) fn say(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

impl Kv {
    /// Looks keys up until there are no more, or as much is said as one turn may say; the keys that are left, or `None`
    /// if all are answered.
    #[inline]
    pub(super) fn look_up<'a>(&self, keys: &'a [u8], get: Get, out: &mut Vec<u8>) -> Option<&'a [u8]> {
        let mut words = Words(keys);
        while out.len() < OUTPUT_BYTES_MAX {
            let Some(key) = words.next() else {
                out.extend_from_slice(b"END\r\n");
                return None;
            };
            let found = match get.touch {
                None => self.get(key),
                Some(exptime) => self.touch(key, exptime),
            };
            if let Some(item) = found {
                write_value(out, key, &item, get.cas);
            }
        }
        Some(words.0)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<Item> {
        let found = self.store.get(key);
        self.counters.add(if found.is_some() { Count::GetHit } else { Count::GetMiss });
        found
    }

    /// Does what a line without a value asks for.
    pub(super) fn answer(&self, command: Command<'_>, out: &mut Vec<u8>) {
        match command {
            Command::Delete { key } => {
                let deleted = self.store.delete(key);
                self.counters.add(if deleted { Count::DeleteHit } else { Count::DeleteMiss });
                say(out, if deleted { "DELETED" } else { NOT_FOUND });
            }
            Command::Add { key, delta, up } => self.add(key, delta, up, out),
            Command::Touch { key, exptime } => {
                say(out, if self.touch(key, exptime).is_some() { "TOUCHED" } else { NOT_FOUND });
            }
            Command::FlushAll { exptime } => {
                self.counters.add(Count::Flush);
                self.store.flush_all(exptime);
                say(out, "OK");
            }
            Command::Stats { what, more } => self.stats(what, more, out),
            Command::MemoryLimit { mebibytes } => say(out, self.limit_memory(mebibytes)),
            Command::Meta(verb, words) => self.meta(verb, words, out),
            Command::Version => say(out, concat!("VERSION ", version!())),
            Command::Answer(line) => say(out, line),
            // Those that need more than a line have been dealt with.
            Command::Quit | Command::Get { .. } | Command::Store(_) | Command::MetaSet(_) => {}
        }
    }

    /// Stores a value, and says what became of it.
    pub(super) fn put(&self, put: &Put<'_>, value: &[u8], out: &mut Vec<u8>) {
        let line = match self.store_value(put, More::default(), value) {
            Stored::Yes { .. } => "STORED",
            Stored::No => "NOT_STORED",
            Stored::Changed => "EXISTS",
            Stored::Missing => NOT_FOUND,
        };
        say(out, line);
    }

    /// Stores a value.
    #[inline]
    pub(super) fn store_value(&self, put: &Put<'_>, more: More, value: &[u8]) -> Stored {
        self.counters.add(Count::Set);
        let stored = if put.how == How::Set {
            Stored::Yes { cas: self.store.set(put.key, || self.item(put, more, value)), bytes: value.len() }
        } else {
            self.store_if(put, more, value)
        };
        if matches!(stored, Stored::Yes { .. }) {
            self.counters.add(Count::Stored);
        }
        stored
    }

    #[inline]
    fn item(&self, put: &Put<'_>, more: More, value: &[u8]) -> Item {
        self.store.item(value.into(), put.flags, put.exptime, more.cas, Marks::of_new(more.is_binary))
    }

    /// Stores a value if what is there lets it.
    fn store_if(&self, put: &Put<'_>, more: More, value: &[u8]) -> Stored {
        let Put { how, number, key, .. } = *put;
        let make = || self.item(put, more, value);
        let replace = |item: &mut Item| {
            *item = make();
            Stored::of(item)
        };
        match how {
            How::Set => unreachable!("nothing that is there hinders it"),
            How::Add => self
                .store
                .enter(key, Some(make), |item, is_new| After::Keep(if is_new { Stored::of(item) } else { Stored::No }))
                .unwrap_or(Stored::No),
            How::Replace => self.store.update(key, replace).unwrap_or(Stored::No),
            How::Append | How::Prepend => self
                .store
                .enter(key, more.or_add.then_some(make), |item, is_new| {
                    After::Keep(if is_new {
                        Stored::of(item)
                    } else if number != 0 && number != item.cas {
                        Stored::Changed
                    } else if self.join(key, item, value, how == How::Append, more.cas) {
                        Stored::of(item)
                    } else {
                        Stored::No
                    })
                })
                .unwrap_or(Stored::No),
            How::Cas => {
                let stored = self.store.update(key, |item| {
                    if number != 0 && number == item.cas {
                        replace(item)
                    } else if more.or_older && number != 0 && number < item.cas {
                        let old = item.clone();
                        let stored = replace(item);
                        item.expires = old.expires;
                        item.marks.set(Mark::Stale, true);
                        item.marks.set(Mark::Won, old.marks.has(Mark::Won));
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
                stored
            }
        }
    }

    /// Joins a value to an item, which keeps its flags and time to live; whether it is not too large for that.
    fn join(&self, key: &[u8], item: &mut Item, value: &[u8], behind: bool, cas: Option<u64>) -> bool {
        let fits = self.store.fits(key.len(), item.data.len() + value.len());
        if fits {
            let parts = if behind { [&item.data, value] } else { [value, &item.data] };
            let expires = item.expires;
            *item = self.store.item(parts.concat().into(), item.flags, 0, cas, item.marks.of_successor());
            item.expires = expires;
        }
        fits
    }

    /// `incr` wraps at 64 bits, `decr` stops at 0. A number that became shorter is followed by spaces. The sum, if the item is
    /// a number.
    pub(super) fn add_to(&self, item: &mut Item, delta: u64, up: bool, cas: Option<u64>) -> Option<u64> {
        let value = unsigned(&item.data)?;
        let sum = if up { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(sum).as_bytes();
        let mut data = vec![b' '; digits.len().max(item.data.len())];
        data[..digits.len()].copy_from_slice(digits);
        if digits.len() > item.data.len() {
            // To memcached it is another item, for it is in another place.
            item.marks = item.marks.of_successor();
        }
        item.data = Arc::from(data);
        item.cas = cas.unwrap_or_else(|| self.store.next_cas());
        Some(sum)
    }

    fn add(&self, key: &[u8], delta: u64, up: bool, out: &mut Vec<u8>) {
        let sum = self.store.update(key, |item| self.add_to(item, delta, up, None));
        let (hit, miss) = if up { (Count::IncrHit, Count::IncrMiss) } else { (Count::DecrHit, Count::DecrMiss) };
        match sum {
            Some(Some(sum)) => {
                self.counters.add(hit);
                say(out, itoa::Buffer::new().format(sum));
            }
            Some(None) => say(out, NOT_A_NUMBER),
            None => {
                self.counters.add(miss);
                say(out, NOT_FOUND);
            }
        }
    }

    /// Gives an item a new time to live; the item, if it was there.
    fn touch(&self, key: &[u8], exptime: i32) -> Option<Item> {
        let expires = self.store.expires(exptime);
        let touched = self.store.update(key, |item| {
            item.expires = expires;
            self.store.fetched(item);
            item.clone()
        });
        self.counters.add(if touched.is_some() { Count::TouchHit } else { Count::TouchMiss });
        touched
    }

    /// Changes how much memory there is for items.
    fn limit_memory(&self, mebibytes: u32) -> &'static str {
        match mebibytes {
            0..8 => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            1_000_000_001.. => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            _ if self.store.set_memory_max_bytes(u64::from(mebibytes) << 20) => "OK",
            _ => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
        }
    }
}

#[inline]
fn write_value(out: &mut Vec<u8>, key: &[u8], item: &Item, with_cas: bool) {
    let mut number = itoa::Buffer::new();
    // At once, so that a long value does not move what is there more than once.
    out.reserve(key.len() + item.data.len() + 64);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(number.format(item.flags).as_bytes());
    out.push(b' ');
    out.extend_from_slice(number.format(item.data.len()).as_bytes());
    if with_cas {
        out.push(b' ');
        out.extend_from_slice(number.format(item.cas).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&item.data);
    out.extend_from_slice(b"\r\n");
}
