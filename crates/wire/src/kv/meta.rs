//! Execution of the meta commands. Requested flags appear in the client's order in a reply, but `b` follows the key. `Z`, `X` and
//! `W`, which the server adds, come last.

use std::borrow::Cow;

use super::base64;
use super::command::{BAD_FORMAT, Words};
use super::counters::Count;
use super::meta_flags::{Error, LONG_OPAQUE, Meta, MetaSet, OPAQUE_BYTES_MAX};
use super::protocol::{KEY_BYTES_MAX, NOT_A_NUMBER, write_line};
use super::storage::{Kv, Stored};
use super::store::{After, FETCHED, Item, STALE, WON, weight};
use super::value::Value;

impl Kv {
    pub(super) fn meta_set(&self, set: &MetaSet<'_>, value: &[u8], out: &mut Vec<u8>) {
        self.store.notice_fetches();
        let options = &set.meta.options;
        let (code, cas, bytes) = match self.store_value(&set.request(), Some(options), value) {
            Stored::Yes { .. } if options.is_quiet => return,
            Stored::Yes { cas, bytes } => (b"HD", cas, bytes),
            Stored::No => (b"NS", 0, value.len()),
            Stored::Changed => (b"EX", 0, value.len()),
            Stored::Missing => (b"NF", 0, value.len()),
        };
        write_without_item(&set.meta, code, Some((cas, bytes)), out)
            .expect("the length of the opaque token was checked");
    }

    pub(super) fn meta(&self, letter: u8, words: &[u8], out: &mut Vec<u8>) {
        self.store.notice_fetches();
        let start = out.len();
        let words = Words(words);
        let result = match letter {
            b'g' => Meta::parse_get(words).and_then(|meta| self.meta_get(&meta, out)),
            b'd' => Meta::parse_other(words).and_then(|meta| self.meta_delete(&meta, out)),
            b'a' => Meta::parse_other(words).and_then(|meta| self.meta_arithmetic(&meta, out)),
            _ => self.meta_debug(words, out),
        };
        if let Err(error) = result {
            out.truncate(start);
            write_line(out, error);
        }
    }

    fn meta_get(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let options = &meta.options;
        if options.last_access {
            self.store.record_fetches();
        }
        let has_changes = options.exptime.is_some() || options.vivify.is_some() || options.recache.is_some();
        let mut found = None;
        if !has_changes && !options.hit_before && !options.last_access {
            let item = if options.no_update { self.store.peek(&meta.key) } else { self.store.get(&meta.key) };
            // The first client that sees a stale item is asked to replace it, which marks the item.
            let item = item.filter(|item| item.marks & STALE == 0 || item.marks & WON != 0);
            found = item.map(|mut item| self.write_item(meta, &mut item, false, out));
        }
        if found.is_none() {
            let make = || self.store.item(Value::default(), 0, 0, options.new_cas, options.is_binary);
            found = self.store.enter(&meta.key, options.vivify.is_some().then_some(make), |item, is_new| {
                if is_new {
                    self.counters.add(Count::Stored);
                }
                let written = self.write_item(meta, item, is_new, out);
                if written.is_ok() && !options.no_update {
                    self.store.mark_fetched(item);
                }
                After::Keep(written)
            });
        }
        let Some(written) = found else {
            self.counters.add(if options.exptime.is_some() { Count::TouchMiss } else { Count::GetMiss });
            let start = out.len();
            write_without_item(meta, b"EN", None, out)?;
            if options.is_quiet {
                out.truncate(start);
            }
            return Ok(());
        };
        let value = written?;
        self.counters.add(if options.exptime.is_some() { Count::TouchHit } else { Count::GetHit });
        if let Some(value) = value {
            out.reserve(value.len() + 2);
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Writes the line about an item and applies the flags that change it; returns the value to write after the line.
    fn write_item(
        &self,
        meta: &Meta<'_>,
        item: &mut Item,
        is_new: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Value>, Error> {
        let options = &meta.options;
        let value = (options.value && options.cas != Some(item.cas)).then(|| item.data.clone());
        write_code(value.as_ref().map(|value| value.len()), out);
        let mut wins = false;
        for flag in meta.flags {
            match flag[0] {
                b'T' => item.expires = self.store.expires(options.exptime.unwrap_or(0)),
                b'N' if is_new => {
                    item.expires = self.store.expires(options.vivify.unwrap_or(0));
                    wins = true;
                }
                b'R' if !is_new && item.marks & WON == 0 && item.expires != 0 => {
                    wins |= item.expires < self.store.expires(options.recache.unwrap_or(0));
                }
                b's' => write_number(b's', item.data.len() as u64, out),
                b't' => self.write_remaining(item, out),
                b'c' => write_number(b'c', item.cas, out),
                b'f' => write_number(b'f', item.flags.into(), out),
                b'l' => write_number(b'l', self.seconds_since(item.accessed), out),
                b'h' => write_number(b'h', (item.marks & FETCHED != 0).into(), out),
                b'O' => write_opaque(flag, out)?,
                b'k' => write_key(&meta.key, item.is_binary(), out),
                _ => {}
            }
        }
        let (is_won, is_stale) = (item.marks & WON != 0, item.marks & STALE != 0);
        if is_won {
            out.extend_from_slice(b" Z");
        }
        if is_stale {
            out.extend_from_slice(b" X");
            wins |= !is_won;
        }
        if wins {
            out.extend_from_slice(b" W");
            item.marks |= WON;
        }
        out.extend_from_slice(b"\r\n");
        Ok(value)
    }

    fn meta_delete(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let options = &meta.options;
        let start = out.len();
        // Write the line before deleting anything, because its flags may be invalid. The code is filled in below.
        write_without_item(meta, b"  ", None, out)?;
        let deleted = self.store.enter(&meta.key, None::<fn() -> Item>, |item, _| {
            if options.cas.is_some_and(|cas| cas != item.cas) {
                return After::Keep(false);
            }
            if options.remove_value {
                let (cas, expires) = (options.new_cas.unwrap_or(item.cas), options.exptime.unwrap_or(0));
                *item = self.store.item(Value::default(), options.client_flags, expires, Some(cas), item.is_binary());
            }
            if options.stale {
                if let Some(exptime) = options.exptime {
                    item.expires = self.store.expires(exptime);
                }
                item.marks = item.marks & !WON | STALE;
                item.cas = options.new_cas.unwrap_or_else(|| self.store.next_cas());
            }
            if options.stale || options.remove_value { After::Keep(true) } else { After::Remove(true) }
        });
        let code = match deleted {
            Some(true) => b"HD",
            Some(false) => b"EX",
            None => b"NF",
        };
        out[start..start + 2].copy_from_slice(code);
        if deleted != Some(true) {
            self.counters.add(Count::DeleteMiss);
        } else if !options.stale {
            self.counters.add(Count::DeleteHit);
        }
        if deleted == Some(true) && options.is_quiet {
            out.truncate(start);
        }
        Ok(())
    }

    fn meta_arithmetic(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let options = &meta.options;
        let up = match options.mode {
            None | Some(b'I' | b'+') => true,
            Some(b'D' | b'-') => false,
            Some(_) => return Err("CLIENT_ERROR invalid mode for ma M token"),
        };
        let start = out.len();
        let initial = options.initial.unwrap_or(0);
        let make = || {
            let digits = itoa::Buffer::new().format(initial).as_bytes().into();
            self.store.item(digits, 0, 0, options.new_cas, options.is_binary)
        };
        let mut is_created = false;
        let sum = self.store.enter(&meta.key, options.vivify.is_some().then_some(make), |item, is_new| {
            is_created = is_new;
            let cas = options.cas.filter(|&cas| cas != 0 && !item.data.is_empty());
            let sum = if is_new {
                Ok(initial)
            } else if cas.is_some_and(|cas| cas != item.cas) {
                return After::Keep(Ok(None));
            } else {
                self.add_to(item, options.delta.unwrap_or(1), up, options.new_cas).ok_or(NOT_A_NUMBER)
            };
            After::Keep(sum.and_then(|sum| self.write_sum(meta, item, sum, is_new, out).map(|()| Some(sum))))
        });
        match sum.transpose()? {
            Some(Some(_)) if is_created => self.counters.add(Count::Stored),
            Some(Some(_)) => {
                self.counters.add(if up { Count::IncrHit } else { Count::DecrHit });
                if options.is_quiet {
                    out.truncate(start);
                }
            }
            Some(None) => write_without_item(meta, b"EX", None, out)?,
            None => {
                self.counters.add(if up { Count::IncrMiss } else { Count::DecrMiss });
                write_without_item(meta, b"NF", None, out)?;
            }
        }
        Ok(())
    }

    fn write_sum(
        &self,
        meta: &Meta<'_>,
        item: &mut Item,
        sum: u64,
        is_new: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let options = &meta.options;
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(sum).as_bytes();
        write_code(options.value.then_some(digits.len()), out);
        for flag in meta.flags {
            match flag[0] {
                b'c' => write_number(b'c', item.cas, out),
                b't' => self.write_remaining(item, out),
                b'T' => item.expires = self.store.expires(options.exptime.unwrap_or(0)),
                b'N' if is_new => item.expires = self.store.expires(options.vivify.unwrap_or(0)),
                b'O' => write_opaque(flag, out)?,
                b'k' => write_key(&meta.key, options.is_binary, out),
                _ => {}
            }
        }
        if options.value {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(digits);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Describes an item without its value, as readable text.
    fn meta_debug(&self, mut words: Words<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        self.counters.add(Count::MetaDebug);
        let written = words.next().filter(|key| key.len() <= KEY_BYTES_MAX).ok_or(BAD_FORMAT)?;
        let key = match words.next() {
            Some(b"b") => Cow::Owned(base64::decode(written).ok_or(BAD_FORMAT)?),
            _ => Cow::Borrowed(written),
        };
        self.store.record_fetches();
        let Some(item) = self.store.peek(&key) else {
            write_line(out, "EN");
            return Ok(());
        };
        out.extend_from_slice(b"ME ");
        if item.is_binary() {
            base64::encode(&key, out);
        } else {
            out.extend_from_slice(&key);
        }
        let expires = if item.expires == 0 { -1 } else { i64::from(item.expires) - i64::from((self.store.clock)()) };
        let (accessed, cas) = (self.seconds_since(item.accessed), item.cas);
        let fetched = if item.marks & FETCHED != 0 { "yes" } else { "no" };
        let size = weight(key.len(), item.data.len());
        write_line(out, &format!(" exp={expires} la={accessed} cas={cas} fetch={fetched} cls=1 size={size}"));
        Ok(())
    }

    /// Writes the seconds until an item expires; -1 for never.
    fn write_remaining(&self, item: &Item, out: &mut Vec<u8>) {
        if item.expires == 0 {
            out.extend_from_slice(b" t-1");
        } else {
            write_number(b't', item.expires.saturating_sub((self.store.clock)()).into(), out);
        }
    }

    fn seconds_since(&self, time: u32) -> u64 {
        (self.store.clock)().saturating_sub(time).into()
    }
}

/// Writes a reply without a value: the code, and the requested flags among `O`, `k`, `c` and `s`. `stored` holds the CAS value (0
/// if nothing was stored) and the size, which only `ms` replies with.
fn write_without_item(
    meta: &Meta<'_>,
    code: &[u8; 2],
    stored: Option<(u64, usize)>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.extend_from_slice(code);
    for flag in meta.flags {
        match (flag[0], stored) {
            (b'O', _) => write_opaque(flag, out)?,
            (b'k', _) => write_key(&meta.key, meta.options.is_binary, out),
            (b'c', Some((cas, _))) => write_number(b'c', cas, out),
            (b's', Some((_, bytes))) => write_number(b's', bytes as u64, out),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Writes the code of a hit: `VA` with the size of the value that follows, or `HD`.
fn write_code(value_bytes: Option<usize>, out: &mut Vec<u8>) {
    match value_bytes {
        Some(bytes) => {
            out.extend_from_slice(b"VA ");
            out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
        }
        None => out.extend_from_slice(b"HD"),
    }
}

fn write_number(letter: u8, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', letter]);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn write_opaque(flag: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    if flag.len() > OPAQUE_BYTES_MAX {
        return Err(LONG_OPAQUE);
    }
    out.push(b' ');
    out.extend_from_slice(flag);
    Ok(())
}

fn write_key(key: &[u8], is_binary: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b" k");
    if is_binary {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}
