//! The `stats` command: memcached's statistics as far as the store has them, and empty sections for the rest.

use super::command::{BAD_FORMAT, ERROR, unsigned};
use super::counters::Count;
use super::protocol::{OUTPUT_BYTES_MAX, version, write_line};
use super::storage::Kv;

const CLASS: u64 = 1;
const CLASSES_MAX: u64 = 64;

fn stat(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    write_line(out, &format!("STAT {name} {value}"));
}

impl Kv {
    pub(super) fn stats(&self, section: &[u8], arguments: [&[u8]; 2], out: &mut Vec<u8>) {
        match section {
            b"" => self.general_stats(out),
            b"reset" => {
                self.counters.reset();
                return write_line(out, "RESET");
            }
            b"settings" => self.settings(out),
            b"items" => self.items(out),
            b"slabs" => self.slabs(out),
            b"sizes" => stat(out, "sizes_status", "disabled"),
            // As in memcached, these replies have no END.
            b"sizes_disable" => return stat(out, "sizes_status", "disabled"),
            b"sizes_enable" => {
                stat(out, "sizes_status", "error");
                return stat(out, "sizes_error", "not_supported");
            }
            b"cachedump" => match self.dump(arguments, out) {
                Ok(()) => {}
                Err(error) => return write_line(out, error),
            },
            // There are no statistics by key prefix.
            b"detail" => match arguments[0] {
                b"dump" => {}
                b"off" => return write_line(out, "OK"),
                b"on" => return write_line(out, "SERVER_ERROR detail not supported"),
                _ => return write_line(out, "CLIENT_ERROR usage: stats detail on|off|dump"),
            },
            // The service knows no other connections, and has no external storage.
            b"conns" | b"extstore" => {}
            _ => return write_line(out, ERROR),
        }
        write_line(out, "END");
    }

    fn general_stats(&self, out: &mut Vec<u8>) {
        let sum = |count| self.counters.sum(count);
        let now = (self.store.clock)();
        let (items, bytes) = self.store.size();
        stat(out, "pid", self.config.pid);
        stat(out, "uptime", now.saturating_sub(self.started));
        stat(out, "time", now);
        stat(out, "version", version!());
        stat(out, "pointer_size", usize::BITS);
        stat(out, "cmd_get", sum(Count::GetHit) + sum(Count::GetMiss));
        stat(out, "cmd_set", sum(Count::Set));
        stat(out, "cmd_flush", sum(Count::Flush));
        stat(out, "cmd_touch", sum(Count::TouchHit) + sum(Count::TouchMiss));
        stat(out, "cmd_meta", sum(Count::MetaDebug));
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
            stat(out, name, sum(count));
        }
        stat(out, "limit_maxbytes", self.store.memory_max_bytes());
        stat(out, "bytes", bytes);
        stat(out, "curr_items", items);
        stat(out, "evictions", self.store.evictions());
    }

    fn settings(&self, out: &mut Vec<u8>) {
        stat(out, "maxbytes", self.store.memory_max_bytes());
        stat(out, "item_size_max", self.config.item_max_bytes);
        for (name, value) in [
            ("verbosity", "0"),
            ("evictions", "on"),
            ("shutdown_command", "no"),
            ("detail_enabled", "no"),
            ("cas_enabled", "yes"),
            ("binding_protocol", "ascii"),
            ("auth_enabled_sasl", "no"),
            ("auth_enabled_ascii", "no"),
            ("slab_reassign", "no"),
            ("slab_automove", "0"),
            ("lru_crawler", "no"),
            ("flush_enabled", "yes"),
            ("dump_enabled", "yes"),
            ("lru_maintainer_thread", "no"),
            ("lru_segmented", "no"),
            ("temp_lru", "no"),
            ("idle_timeout", "0"),
            ("track_sizes", "no"),
            ("inline_ascii_response", "no"),
            ("ssl_enabled", "no"),
        ] {
            stat(out, name, value);
        }
    }

    fn items(&self, out: &mut Vec<u8>) {
        let (items, bytes) = self.store.size();
        if items > 0 {
            let evictions = self.store.evictions();
            for (name, value) in [("number", items as u64), ("mem_requested", bytes), ("evicted", evictions)] {
                stat(out, &format!("items:{CLASS}:{name}"), value);
            }
        }
    }

    fn slabs(&self, out: &mut Vec<u8>) {
        let (items, bytes) = self.store.size();
        if items > 0 {
            for (name, value) in [
                ("used_chunks", items as u64),
                ("get_hits", self.counters.sum(Count::GetHit)),
                ("cmd_set", self.counters.sum(Count::Set)),
                ("delete_hits", self.counters.sum(Count::DeleteHit)),
                ("incr_hits", self.counters.sum(Count::IncrHit)),
                ("decr_hits", self.counters.sum(Count::DecrHit)),
                ("cas_hits", self.counters.sum(Count::CasHit)),
                ("cas_badval", self.counters.sum(Count::CasBad)),
                ("touch_hits", self.counters.sum(Count::TouchHit)),
            ] {
                stat(out, &format!("{CLASS}:{name}"), value);
            }
        }
        stat(out, "active_slabs", u64::from(items > 0));
        stat(out, "total_malloced", bytes);
    }

    /// Writes some keys of a class, at most `limit` unless that is 0.
    fn dump(&self, [class, limit]: [&[u8]; 2], out: &mut Vec<u8>) -> Result<(), &'static str> {
        if limit.is_empty() {
            return Err("CLIENT_ERROR bad command line");
        }
        let (Some(class), Some(limit)) = (unsigned(class), unsigned(limit)) else { return Err(BAD_FORMAT) };
        if class >= CLASSES_MAX {
            return Err("CLIENT_ERROR Illegal slab id");
        }
        let limit = if limit == 0 { usize::MAX } else { limit as usize };
        let mut items: Vec<_> = self.store.some().filter(|(_, item)| class == CLASS && !item.is_binary()).collect();
        items.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (key, item) in items.into_iter().take(limit) {
            if out.len() >= OUTPUT_BYTES_MAX {
                break;
            }
            out.extend_from_slice(b"ITEM ");
            out.extend_from_slice(&key);
            write_line(out, &format!(" [{} b; {} s]", item.data.len(), item.expires));
        }
        Ok(())
    }
}
