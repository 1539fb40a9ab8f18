//! The meta commands: one letter a wish, and an answer with as many letters.
//!
//! Lines are read, and answered, in the order in which memcached 1.6.18 does both, for its answers depend on it. Flags that only
//! later versions of 1.6 know are taken too: `E` of all, `C` of `mg`, `s` and `N` of `ms`, `x` of `md`.

use std::borrow::Cow;
use std::sync::Arc;

use super::Kv;
use super::answer::{NOT_A_NUMBER, Stored, say};
use super::base64;
use super::command::{BAD_FORMAT, ERROR, How, KEY_BYTES_MAX, MetaVerb, More, Put, Words, signed, unsigned};
use super::counters::Count;
use super::store::{After, Item, Mark, Marks, Store};

/// Most words of a line, the command's among them.
const WORDS_MAX: usize = 19;
const OPAQUE_BYTES_MAX: usize = 32;

const DUPLICATE: &str = "CLIENT_ERROR duplicate flag";
const UNKNOWN: &str = "CLIENT_ERROR invalid flag";
const DUPLICATE_OR_UNKNOWN: &str = "CLIENT_ERROR invalid or duplicate flag";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_KEY: &str = "CLIENT_ERROR error decoding key";
const BAD_MODE_LENGTH: &str = "CLIENT_ERROR incorrect length for M token";
const BAD_INITIAL: &str = "CLIENT_ERROR invalid numeric initial value";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta value";
const BAD_SET_MODE: &str = "CLIENT_ERROR invalid mode for ms M token";
const BAD_ARITHMETIC_MODE: &str = "CLIENT_ERROR invalid mode for ma M token";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";
const MANY_FLAGS: &str = "CLIENT_ERROR options flags too long";
const MANY_FLAGS_OF_GET: &str = "CLIENT_ERROR options flags are too long";

type Wrong = &'static str;

/// A meta command's key and flags.
struct Meta<'a> {
    key: Cow<'a, [u8]>,
    /// As they are written.
    flags: Words<'a>,
    wishes: Wishes,
}

/// What flags mean wherever they stand.
#[derive(Debug, Default)]
struct Wishes {
    is_binary: bool,
    is_quiet: bool,
    value: bool,
    unnoticed: bool,
    hit_before: bool,
    last_access: bool,
    stale: bool,
    remove_value: bool,
    exptime: Option<i32>,
    vivify: Option<i32>,
    recache: Option<i32>,
    client_flags: u32,
    number: Option<u64>,
    new_number: Option<u64>,
    mode: Option<u8>,
    initial: u64,
    delta: Option<u64>,
}

/// The value that follows `ms`.
#[derive(Debug)]
pub(super) struct MetaPut<'a> {
    key: Cow<'a, [u8]>,
    how: How,
    flags: Words<'a>,
    wishes: Wishes,
    pub value_bytes: usize,
}

/// Why nothing is stored: what to say, and how much of the input is a value to throw away, if any follows.
pub(super) struct Refused {
    pub why: Wrong,
    pub value_bytes: Option<usize>,
}

impl<'a> Meta<'a> {
    /// Reads the words behind the command, of which so many are neither its key nor flags.
    fn read(mut words: Words<'a>, between: usize, many_flags: Wrong) -> Result<Self, Wrong> {
        let all = words;
        let key = words.next().ok_or(ERROR)?;
        if key.len() > KEY_BYTES_MAX {
            return Err(BAD_FORMAT);
        }
        if all.take(WORDS_MAX).count() == WORDS_MAX {
            return Err(many_flags);
        }
        let mut flags = words;
        flags.by_ref().take(between).for_each(drop);
        let mut meta = Self { key: Cow::Borrowed(key), flags, wishes: Wishes::default() };
        meta.read_flags()?;
        Ok(meta)
    }

    /// The first flag that cannot be read as one decides what is said, else the last whose token cannot.
    fn read_flags(&mut self) -> Result<(), Wrong> {
        let (mut seen, mut wrong, mut why) = (0u128, false, BAD_FORMAT);
        let wishes = &mut self.wishes;
        for flag in self.flags {
            let (letter, token) = (flag[0], &flag[1..]);
            if letter >= 127 || seen & (1 << letter) != 0 {
                return Err(DUPLICATE);
            }
            seen |= 1 << letter;
            let understood = match letter {
                b'b' => match base64::decode(&self.key) {
                    Some(key) => {
                        self.key = Cow::Owned(key);
                        wishes.is_binary = true;
                        Ok(())
                    }
                    None => Err(BAD_KEY),
                },
                b'N' => set(&mut wishes.vivify, signed(token), BAD_TOKEN),
                b'T' => set(&mut wishes.exptime, signed(token), BAD_TOKEN),
                b'R' => set(&mut wishes.recache, signed(token), BAD_TOKEN),
                b'C' => set(&mut wishes.number, unsigned(token), BAD_TOKEN),
                b'E' => set(&mut wishes.new_number, unsigned(token), BAD_TOKEN),
                b'D' => set(&mut wishes.delta, unsigned(token), BAD_DELTA),
                b'J' => unsigned(token).map(|initial| wishes.initial = initial).ok_or(BAD_INITIAL),
                b'F' => unsigned(token).map(|flags| wishes.client_flags = flags as u32).ok_or(why),
                b'M' => match token {
                    [mode] => set(&mut wishes.mode, Some(*mode), BAD_MODE_LENGTH),
                    _ => Err(BAD_MODE_LENGTH),
                },
                _ => {
                    match letter {
                        b'q' => wishes.is_quiet = true,
                        b'v' => wishes.value = true,
                        b'u' => wishes.unnoticed = true,
                        b'h' => wishes.hit_before = true,
                        b'l' => wishes.last_access = true,
                        b'I' => wishes.stale = true,
                        b'x' => wishes.remove_value = true,
                        // Answered as they come, or hints for a proxy.
                        b'O' | b'k' | b's' | b't' | b'c' | b'f' | b'P' | b'L' => {}
                        _ => return Err(UNKNOWN),
                    }
                    Ok(())
                }
            };
            if let Err(reason) = understood {
                (wrong, why) = (true, reason);
            }
        }
        if wrong { Err(why) } else { Ok(()) }
    }

    /// Writes the key and the opaque token where they are asked for: all that an answer without an item has.
    fn echo(&self, out: &mut Vec<u8>) -> Result<(), Wrong> {
        for flag in self.flags {
            match flag[0] {
                b'O' => write_opaque(flag, out)?,
                b'k' => write_key(&self.key, self.wishes.is_binary, out),
                _ => {}
            }
        }
        Ok(())
    }
}

fn set<T>(wish: &mut Option<T>, token: Option<T>, why: Wrong) -> Result<(), Wrong> {
    *wish = Some(token.ok_or(why)?);
    Ok(())
}

impl<'a> MetaPut<'a> {
    /// Reads the words behind `ms`.
    pub fn read(words: &'a [u8]) -> Result<Self, Refused> {
        let words = Words(words);
        let refuse = |why| Refused { why, value_bytes: None };
        let mut first = words;
        let key = first.next().ok_or(refuse(ERROR))?;
        let length = first.next().filter(|_| key.len() <= KEY_BYTES_MAX).ok_or(refuse(BAD_FORMAT))?;
        if words.take(WORDS_MAX).count() == WORDS_MAX {
            return Err(refuse(MANY_FLAGS));
        }
        let value_bytes =
            signed(length).filter(|bytes| (0..=i32::MAX - 2).contains(bytes)).ok_or(refuse(BAD_FORMAT))?;
        let value_bytes = value_bytes as usize;
        // Where its value ends is known, whatever is wrong with the rest.
        let refuse = |why| Refused { why, value_bytes: Some(value_bytes) };
        let Meta { key, flags, wishes } = Meta::read(words, 1, MANY_FLAGS).map_err(refuse)?;
        let how = match (wishes.mode, wishes.number) {
            (None | Some(b'S' | b'R'), Some(_)) => How::Cas,
            (None | Some(b'S'), None) => How::Set,
            (Some(b'R'), None) => How::Replace,
            (Some(b'E'), _) => How::Add,
            (Some(b'A'), _) => How::Append,
            (Some(b'P'), _) => How::Prepend,
            (Some(_), _) => return Err(refuse(BAD_SET_MODE)),
        };
        let is_long = |flag: &[u8]| flag[0] == b'O' && flag.len() > OPAQUE_BYTES_MAX;
        if { flags }.any(is_long) {
            return Err(refuse(LONG_OPAQUE));
        }
        Ok(Self { key, how, flags, wishes, value_bytes })
    }

    /// The same as the other commands have it.
    pub fn put(&self) -> Put<'_> {
        let Wishes { exptime, vivify, client_flags, .. } = self.wishes;
        let is_join = matches!(self.how, How::Append | How::Prepend);
        Put {
            how: self.how,
            number: self.wishes.number.unwrap_or(0),
            key: &self.key,
            flags: client_flags,
            // What is there keeps its own; what is not has that of `N`.
            exptime: if is_join { vivify } else { exptime }.unwrap_or(0),
            value_bytes: self.value_bytes,
        }
    }
}

impl Kv {
    /// Stores the value of `ms`.
    pub(super) fn meta_put(&self, meta: &MetaPut<'_>, value: &[u8], out: &mut Vec<u8>) {
        self.store.notice_fetches();
        let Wishes { new_number, is_binary, vivify, stale, .. } = meta.wishes;
        let more = More { cas: new_number, is_binary, or_add: vivify.is_some(), or_older: stale };
        let stored = self.store_value(&meta.put(), more, value);
        let (code, cas, bytes) = match stored {
            Stored::Yes { .. } if meta.wishes.is_quiet => return,
            Stored::Yes { cas, bytes } => ("HD", cas, bytes),
            Stored::No => ("NS", 0, value.len()),
            Stored::Changed => ("EX", 0, value.len()),
            Stored::Missing => ("NF", 0, value.len()),
        };
        out.extend_from_slice(code.as_bytes());
        for flag in meta.flags {
            match flag[0] {
                b'O' => {
                    out.push(b' ');
                    out.extend_from_slice(flag);
                }
                b'k' => write_key(&meta.key, meta.wishes.is_binary, out),
                b'c' => write_number(b'c', cas, out),
                b's' => write_number(b's', bytes as u64, out),
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Does what a meta command without a value asks for.
    pub(super) fn meta(&self, verb: MetaVerb, words: &[u8], out: &mut Vec<u8>) {
        self.store.notice_fetches();
        let start = out.len();
        let words = Words(words);
        let done = match verb {
            MetaVerb::Get => Meta::read(words, 0, MANY_FLAGS_OF_GET).and_then(|meta| self.meta_get(&meta, out)),
            MetaVerb::Delete => read_quietly(words).and_then(|meta| self.meta_delete(&meta, out)),
            MetaVerb::Arithmetic => read_quietly(words).and_then(|meta| self.meta_arithmetic(&meta, out)),
            MetaVerb::Debug => self.meta_debug(words, out),
        };
        if let Err(why) = done {
            out.truncate(start);
            say(out, why);
        }
    }

    fn meta_get(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let wishes = &meta.wishes;
        if wishes.last_access {
            self.store.record_fetches();
        }
        let has_changes = wishes.exptime.is_some() || wishes.vivify.is_some() || wishes.recache.is_some();
        let mut found = None;
        if !has_changes && !wishes.hit_before && !wishes.last_access {
            let item = if wishes.unnoticed { self.store.peek(&meta.key) } else { self.store.get(&meta.key) };
            // The first to see a stale item wins, and that is a change.
            let item = item.filter(|item| !item.marks.has(Mark::Stale) || item.marks.has(Mark::Won));
            found = item.map(|mut item| self.show(meta, &mut item, false, out));
        }
        if found.is_none() {
            let marks = Marks::of_new(wishes.is_binary);
            let make = || self.store.item(Arc::default(), 0, 0, wishes.new_number, marks);
            found = self.store.enter(&meta.key, wishes.vivify.is_some().then_some(make), |item, is_new| {
                if is_new {
                    self.counters.add(Count::Stored);
                }
                let shown = self.show(meta, item, is_new, out);
                if shown.is_ok() && !wishes.unnoticed {
                    self.store.fetched(item);
                }
                After::Keep(shown)
            });
        }
        let Some(shown) = found else {
            self.counters.add(if wishes.exptime.is_some() { Count::TouchMiss } else { Count::GetMiss });
            let start = out.len();
            out.extend_from_slice(b"EN");
            meta.echo(out)?;
            out.extend_from_slice(b"\r\n");
            if wishes.is_quiet {
                out.truncate(start);
            }
            return Ok(());
        };
        let value = shown?;
        self.counters.add(if wishes.exptime.is_some() { Count::TouchHit } else { Count::GetHit });
        if let Some(value) = value {
            out.reserve(value.len() + 2);
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Writes the line about an item, changed as its flags want it, each at its turn; the value that is to follow, if any.
    fn show(
        &self,
        meta: &Meta<'_>,
        item: &mut Item,
        is_new: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Arc<[u8]>>, Wrong> {
        let wishes = &meta.wishes;
        let value = (wishes.value && wishes.number != Some(item.cas)).then(|| Arc::clone(&item.data));
        match &value {
            Some(value) => {
                out.extend_from_slice(b"VA ");
                out.extend_from_slice(itoa::Buffer::new().format(value.len()).as_bytes());
            }
            None => out.extend_from_slice(b"HD"),
        }
        let mut wins = false;
        for flag in meta.flags {
            match flag[0] {
                b'T' => item.expires = self.store.expires(wishes.exptime.unwrap_or(0)),
                b'N' if is_new => {
                    item.expires = self.store.expires(wishes.vivify.unwrap_or(0));
                    wins = true;
                }
                b'R' if !is_new && !item.marks.has(Mark::Won) && item.expires != 0 => {
                    wins |= item.expires < self.store.expires(wishes.recache.unwrap_or(0));
                }
                b's' => write_number(b's', item.data.len() as u64, out),
                b't' => self.write_remaining(item, out),
                b'c' => write_number(b'c', item.cas, out),
                b'f' => write_number(b'f', item.flags.into(), out),
                b'l' => write_number(b'l', self.since(item.accessed), out),
                b'h' => write_number(b'h', item.marks.has(Mark::Fetched).into(), out),
                b'O' => write_opaque(flag, out)?,
                b'k' => write_key(&meta.key, item.marks.has(Mark::Binary), out),
                _ => {}
            }
        }
        let (is_won, is_stale) = (item.marks.has(Mark::Won), item.marks.has(Mark::Stale));
        if is_won {
            out.extend_from_slice(b" Z");
        }
        if is_stale {
            out.extend_from_slice(b" X");
            wins |= !is_won;
        }
        if wins {
            out.extend_from_slice(b" W");
            item.marks.set(Mark::Won, true);
        }
        out.extend_from_slice(b"\r\n");
        Ok(value)
    }

    fn meta_delete(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let wishes = &meta.wishes;
        let start = out.len();
        out.extend_from_slice(b"  ");
        // Nothing is deleted for a line that is wrong.
        meta.echo(out)?;
        out.extend_from_slice(b"\r\n");
        let deleted = self.store.enter(&meta.key, None::<fn() -> Item>, |item, _| {
            if wishes.number.is_some_and(|number| number != item.cas) {
                return After::Keep(false);
            }
            if wishes.remove_value {
                // An empty item with a new number takes its place.
                let (cas, expires) = (wishes.new_number.unwrap_or(item.cas), wishes.exptime.unwrap_or(0));
                *item =
                    self.store.item(Arc::default(), wishes.client_flags, expires, Some(cas), item.marks.of_successor());
            }
            if wishes.stale {
                if let Some(exptime) = wishes.exptime {
                    item.expires = self.store.expires(exptime);
                }
                item.marks.set(Mark::Stale, true);
                item.marks.set(Mark::Won, false);
                item.cas = wishes.new_number.unwrap_or_else(|| self.store.next_cas());
            }
            if wishes.stale || wishes.remove_value { After::Keep(true) } else { After::Remove(true) }
        });
        let code = match deleted {
            Some(true) => b"HD",
            Some(false) => b"EX",
            None => b"NF",
        };
        out[start..start + 2].copy_from_slice(code);
        if deleted != Some(true) {
            self.counters.add(Count::DeleteMiss);
        } else {
            if !wishes.stale {
                self.counters.add(Count::DeleteHit);
            }
            if wishes.is_quiet {
                out.truncate(start);
            }
        }
        Ok(())
    }

    fn meta_arithmetic(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let wishes = &meta.wishes;
        let up = match wishes.mode {
            None | Some(b'I' | b'+') => true,
            Some(b'D' | b'-') => false,
            Some(_) => return Err(BAD_ARITHMETIC_MODE),
        };
        let start = out.len();
        let make = || {
            let digits = itoa::Buffer::new().format(wishes.initial).as_bytes().into();
            self.store.item(digits, 0, 0, wishes.new_number, Marks::of_new(wishes.is_binary))
        };
        let mut is_created = false;
        let sum = self.store.enter(&meta.key, wishes.vivify.is_some().then_some(make), |item, is_new| {
            is_created = is_new;
            let number = wishes.number.filter(|&number| number != 0 && !item.data.is_empty());
            let sum = if is_new {
                Ok(wishes.initial)
            } else if number.is_some_and(|number| number != item.cas) {
                return After::Keep(Ok(None));
            } else {
                self.add_to(item, wishes.delta.unwrap_or(1), up, wishes.new_number).ok_or(NOT_A_NUMBER)
            };
            After::Keep(sum.and_then(|sum| self.show_sum(meta, item, sum, is_new, out).map(|()| Some(sum))))
        });
        match sum {
            Some(sum) => match sum? {
                Some(_) if is_created => self.counters.add(Count::Stored),
                Some(_) => {
                    self.counters.add(if up { Count::IncrHit } else { Count::DecrHit });
                    if wishes.is_quiet {
                        out.truncate(start);
                    }
                }
                None => {
                    out.extend_from_slice(b"EX");
                    meta.echo(out)?;
                    out.extend_from_slice(b"\r\n");
                }
            },
            None => {
                self.counters.add(if up { Count::IncrMiss } else { Count::DecrMiss });
                out.extend_from_slice(b"NF");
                meta.echo(out)?;
                out.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }

    /// Writes the answer with a sum, and changes its item's time to live as flags want it, each at its turn.
    fn show_sum(
        &self,
        meta: &Meta<'_>,
        item: &mut Item,
        sum: u64,
        is_new: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let wishes = &meta.wishes;
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(sum).as_bytes();
        if wishes.value {
            out.extend_from_slice(b"VA ");
            out.extend_from_slice(itoa::Buffer::new().format(digits.len()).as_bytes());
        } else {
            out.extend_from_slice(b"HD");
        }
        for flag in meta.flags {
            match flag[0] {
                b'c' => write_number(b'c', item.cas, out),
                b't' => self.write_remaining(item, out),
                b'T' => item.expires = self.store.expires(wishes.exptime.unwrap_or(0)),
                b'N' if is_new => item.expires = self.store.expires(wishes.vivify.unwrap_or(0)),
                b'O' => write_opaque(flag, out)?,
                b'k' => write_key(&meta.key, wishes.is_binary, out),
                _ => {}
            }
        }
        if wishes.value {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(digits);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Tells all of an item but its value, to people.
    fn meta_debug(&self, mut words: Words<'_>, out: &mut Vec<u8>) -> Result<(), Wrong> {
        self.counters.add(Count::MetaDebug);
        let written = words.next().filter(|key| key.len() <= KEY_BYTES_MAX).ok_or(BAD_FORMAT)?;
        let key = match words.next() {
            Some(b"b") => Cow::Owned(base64::decode(written).ok_or(BAD_FORMAT)?),
            _ => Cow::Borrowed(written),
        };
        self.store.record_fetches();
        let Some(item) = self.store.peek(&key) else {
            say(out, "EN");
            return Ok(());
        };
        out.extend_from_slice(b"ME ");
        if item.marks.has(Mark::Binary) {
            base64::encode(&key, out);
        } else {
            out.extend_from_slice(&key);
        }
        let expires = if item.expires == 0 { -1 } else { i64::from(item.expires) - i64::from((self.store.clock)()) };
        let (accessed, cas) = (self.since(item.accessed), item.cas);
        let fetched = if item.marks.has(Mark::Fetched) { "yes" } else { "no" };
        let size = Store::weight(&key, &item);
        say(out, &format!(" exp={expires} la={accessed} cas={cas} fetch={fetched} cls=1 size={size}"));
        Ok(())
    }

    /// Seconds until an item is gone; -1 if it stays.
    fn write_remaining(&self, item: &Item, out: &mut Vec<u8>) {
        if item.expires == 0 {
            out.extend_from_slice(b" t-1");
        } else {
            write_number(b't', item.expires.saturating_sub((self.store.clock)()).into(), out);
        }
    }

    /// Seconds since a time.
    fn since(&self, time: u32) -> u64 {
        (self.store.clock)().saturating_sub(time).into()
    }
}

/// Reads a line of which memcached does not say what is wrong with it.
fn read_quietly(words: Words<'_>) -> Result<Meta<'_>, Wrong> {
    Meta::read(words, 0, MANY_FLAGS).map_err(|why| match why {
        ERROR | MANY_FLAGS => why,
        _ if { words }.next().is_some_and(|key| key.len() > KEY_BYTES_MAX) => why,
        _ => DUPLICATE_OR_UNKNOWN,
    })
}

fn write_number(letter: u8, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', letter]);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn write_opaque(flag: &[u8], out: &mut Vec<u8>) -> Result<(), Wrong> {
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
