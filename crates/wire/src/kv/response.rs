//! Execution of the commands that need only a line, and the replies to them.

use super::command::{Command, Get, StoreRequest, Words};
use super::counters::Count;
use super::protocol::{NOT_A_NUMBER, NOT_FOUND, OUTPUT_BYTES_MAX, version, write_line};
use super::storage::{Kv, Stored};
use super::store::Item;

impl Kv {
    /// Looks up keys until the output is large enough to send; returns the remaining keys, or `None` if all are answered.
    #[inline]
    pub(super) fn look_up<'a>(&self, keys: &'a [u8], get: Get, out: &mut Vec<u8>) -> Option<&'a [u8]> {
        let mut words = Words(keys);
        while out.len() < OUTPUT_BYTES_MAX {
            let Some(key) = words.next() else {
                out.extend_from_slice(b"END\r\n");
                return None;
            };
            let found = match get.touch {
                None => {
                    let found = self.store.get(key);
                    self.counters.add(if found.is_some() { Count::GetHit } else { Count::GetMiss });
                    found
                }
                Some(exptime) => self.touch(key, exptime),
            };
            if let Some(item) = found {
                write_value(out, key, &item, get.cas);
            }
        }
        Some(words.0)
    }

    pub(super) fn execute(&self, command: Command<'_>, out: &mut Vec<u8>) {
        match command {
            Command::Delete { key } => {
                let deleted = self.store.delete(key);
                self.counters.add(if deleted { Count::DeleteHit } else { Count::DeleteMiss });
                write_line(out, if deleted { "DELETED" } else { NOT_FOUND });
            }
            Command::Add { key, delta, up } => self.add(key, delta, up, out),
            Command::Touch { key, exptime } => {
                write_line(out, if self.touch(key, exptime).is_some() { "TOUCHED" } else { NOT_FOUND });
            }
            Command::FlushAll { exptime } => {
                self.counters.add(Count::Flush);
                self.store.flush_all(exptime);
                write_line(out, "OK");
            }
            Command::Stats { section, arguments } => self.stats(section, arguments, out),
            Command::MemoryLimit { mebibytes } => {
                let line = match mebibytes {
                    0..8 => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
                    1_000_000_001.. => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
                    _ if self.store.set_memory_max_bytes(u64::from(mebibytes) << 20) => "OK",
                    _ => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
                };
                write_line(out, line);
            }
            Command::Meta(letter, words) => self.meta(letter, words, out),
            Command::Version => write_line(out, concat!("VERSION ", version!())),
            Command::Reply(line) => write_line(out, line),
            // The connection handles these.
            Command::Quit | Command::Get { .. } | Command::Store(_) | Command::MetaSet(_) => {}
        }
    }

    pub(super) fn write_stored(&self, request: &StoreRequest<'_>, value: &[u8], out: &mut Vec<u8>) {
        let line = match self.store_value(request, None, value) {
            Stored::Yes { .. } => "STORED",
            Stored::No => "NOT_STORED",
            Stored::Changed => "EXISTS",
            Stored::Missing => NOT_FOUND,
        };
        write_line(out, line);
    }

    fn add(&self, key: &[u8], delta: u64, up: bool, out: &mut Vec<u8>) {
        let sum = self.store.update(key, |item| self.add_to(item, delta, up, None));
        let (hit, miss) = if up { (Count::IncrHit, Count::IncrMiss) } else { (Count::DecrHit, Count::DecrMiss) };
        match sum {
            Some(Some(sum)) => {
                self.counters.add(hit);
                write_line(out, itoa::Buffer::new().format(sum));
            }
            Some(None) => write_line(out, NOT_A_NUMBER),
            None => {
                self.counters.add(miss);
                write_line(out, NOT_FOUND);
            }
        }
    }
}

#[inline]
fn write_value(out: &mut Vec<u8>, key: &[u8], item: &Item, with_cas: bool) {
    let mut number = itoa::Buffer::new();
    // Reserve once, so that a long value moves the earlier output at most once.
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
