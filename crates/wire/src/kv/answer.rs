//! What each command does to the store, and what is said of it: memcached 1.6's own words.

use std::sync::Arc;

use super::Kv;
use super::command::{Command, ERROR, Get, How, Put, Words, unsigned};
use super::counters::Count;
use super::store::Item;
use super::turn::OUTPUT_BYTES_MAX;

const NOT_FOUND: &str = "NOT_FOUND";
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(super) const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// The memcached that we speak like: clients adapt to its number, and `memccapable` tests by it.
macro_rules! version {
    () => {
        "1.6.18-muxbench"
    };
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
            Command::Stats { what } => self.stats(what, out),
            Command::Version => say(out, concat!("VERSION ", version!())),
            Command::Verbosity => say(out, "OK"),
            Command::Wrong(why) => say(out, why),
            // Those that need more than a line have been dealt with.
            Command::Quit | Command::Get { .. } | Command::Store(_) => {}
        }
    }

    /// Stores a value.
    pub(super) fn put(&self, put: &Put<'_>, value: &[u8], out: &mut Vec<u8>) {
        self.counters.add(Count::Set);
        let expires = self.store.expires(put.exptime);
        let Put { how, key, flags, .. } = *put;
        let replace = |item: &mut Item| {
            *item = Item { data: value.into(), cas: self.store.next_cas(), flags, expires };
        };
        // An item that grows keeps its flags and time, and must not become too large.
        let join = |item: &mut Item, behind: bool| {
            let fits = self.store.fits(key.len(), item.data.len() + value.len());
            if fits {
                let parts = if behind { [&item.data, value] } else { [value, &item.data] };
                item.data = parts.concat().into();
                item.cas = self.store.next_cas();
            }
            fits
        };
        let stored = match how {
            How::Set => {
                self.store.set(key, flags, expires, value);
                true
            }
            How::Add => self.store.add(key, flags, expires, value),
            How::Replace => self.store.update(key, replace).is_some(),
            How::Append => self.store.update(key, |item| join(item, true)) == Some(true),
            How::Prepend => self.store.update(key, |item| join(item, false)) == Some(true),
            How::Cas(number) => {
                let same = self.store.update(key, |item| {
                    let same = item.cas == number;
                    if same {
                        replace(item);
                    }
                    same
                });
                let (count, line) = match same {
                    Some(true) => (Count::CasHit, "STORED"),
                    Some(false) => (Count::CasBad, "EXISTS"),
                    None => (Count::CasMiss, NOT_FOUND),
                };
                self.counters.add(count);
                if same == Some(true) {
                    self.counters.add(Count::Stored);
                }
                return say(out, line);
            }
        };
        if stored {
            self.counters.add(Count::Stored);
        }
        say(out, if stored { "STORED" } else { "NOT_STORED" });
    }

    /// `incr` wraps at 64 bits, `decr` stops at 0. A number that became shorter is followed by spaces.
    fn add(&self, key: &[u8], delta: u64, up: bool, out: &mut Vec<u8>) {
        let sum = self.store.update(key, |item| {
            let value = unsigned(&item.data)?;
            let sum = if up { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(sum).as_bytes();
            let mut data = vec![b' '; digits.len().max(item.data.len())];
            data[..digits.len()].copy_from_slice(digits);
            item.data = Arc::from(data);
            item.cas = self.store.next_cas();
            Some(sum)
        });
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
            item.clone()
        });
        self.counters.add(if touched.is_some() { Count::TouchHit } else { Count::TouchMiss });
        touched
    }

    fn stats(&self, what: &[u8], out: &mut Vec<u8>) {
        match what {
            b"" => self.general_stats(out),
            b"reset" => {
                self.counters.reset();
                return say(out, "RESET");
            }
            // There are no slabs to speak of, and the settings are the trial's.
            b"settings" | b"items" | b"slabs" | b"sizes" | b"conns" => {}
            _ => return say(out, ERROR),
        }
        say(out, "END");
    }

    fn general_stats(&self, out: &mut Vec<u8>) {
        let mut stat = |name: &str, value: u64| say(out, &format!("STAT {name} {value}"));
        let sum = |count| self.counters.sum(count);
        let now = (self.store.clock)();
        let (items, bytes) = self.store.size();
        stat("pid", self.config.pid.into());
        stat("uptime", now.saturating_sub(self.started).into());
        stat("time", now.into());
        stat("pointer_size", usize::BITS.into());
        stat("cmd_get", sum(Count::GetHit) + sum(Count::GetMiss));
        stat("cmd_set", sum(Count::Set));
        stat("cmd_flush", sum(Count::Flush));
        stat("cmd_touch", sum(Count::TouchHit) + sum(Count::TouchMiss));
        for (name, count) in [
            ("get_hits", Count::GetHit),
            ("get_misses", Count::GetMiss),
            ("delete_misses", Count::DeleteMiss),
            ("delete_hits", Count::DeleteHit),
            ("incr_misses", Count::IncrMiss),
            ("incr_hits", Count::IncrHit),
            ("decr_misses", Count::DecrMiss),
            ("decr_hits", Count::DecrHit),
            ("cas_misses", Count::CasMiss),
            ("cas_hits", Count::CasHit),
            ("cas_badval", Count::CasBad),
            ("touch_hits", Count::TouchHit),
            ("touch_misses", Count::TouchMiss),
            ("store_too_large", Count::TooLarge),
            ("total_items", Count::Stored),
        ] {
            stat(name, sum(count));
        }
        stat("limit_maxbytes", self.config.memory_max_bytes);
        stat("bytes", bytes);
        stat("curr_items", items as u64);
        stat("evictions", self.store.evictions());
        say(out, concat!("STAT version ", version!()));
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
