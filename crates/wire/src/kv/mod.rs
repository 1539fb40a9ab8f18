//! A key-value store for concurrent readers and writers, speaking the memcached text protocol.
//!
//! It answers as memcached 1.6.18 does, byte for byte, with these exceptions:
//! - `version` and `stats` describe this server. All items are in class 1, and `stats conns` lists no connection.
//! - Commands that tune slabs, the LRU, its crawler or external storage, and `watch`, are answered as by a memcached without these.
//! - `cache_memlimit` refuses a limit that the largest items would not fit.
//! - Meta commands also take the flags that versions up to 1.6.45 added. `me` shows the remaining time as a positive number.
//! - The last access (`l` of `mg`, `la` of `me`) is when the item was stored, until a client first asks for one. From then on every
//!   fetch counts.
//! - Items that `mg` or `ma` creates, and those that were changed, keep the base64 form of their key.
//! - `T` of `ma` is not lost when the number becomes longer.
//! - A line that is too long ends the connection however it comes, where memcached looks at how much of it has come.
//! - A key that is too long does not undo the answers to earlier commands.
//! - A zero byte does not end a line.
//! - `flush_all 1` waits a second, and a delayed flush does not bring back what an earlier one took.
//!
//! # Layout
//! - `command`: lines, read without copying; `answer`: what each command does and says
//! - `meta`: the meta commands; `base64`: their binary keys
//! - `store`: the items, their eviction and expiry; `counters`: what is counted; `stats`: what is told of it
//! - `turn`: what is taken of the input, and when more must come first
//! - [`ask`]: the other side: requests, and responses as they come; [`records`]: records that need not be kept to be known

mod answer;
pub mod ask;
mod base64;
mod command;
mod counters;
mod meta;
pub mod records;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod turn;

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::{Clock, Service};
use counters::Counters;
use store::Store;
use turn::Turn;

/// How much the store may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// Memory for items, what is kept of each included; beyond it items are evicted.
    pub memory_max_bytes: u64,
    /// Most that one item may take of it, at most a quarter; a value must be a little smaller.
    pub item_max_bytes: u32,
    /// The process, for `stats`.
    pub pid: u32,
}

impl Default for KvConfig {
    /// As memcached: 64 MiB, and 1 MiB an item.
    fn default() -> Self {
        Self { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20, pid: 0 }
    }
}

/// The service, shared by all threads.
pub struct Kv {
    store: Store,
    counters: Counters,
    config: KvConfig,
    /// For `stats`, in seconds since 1970.
    started: u32,
}

/// A connection. While it is idle nothing of it is on the heap but a small buffer, once it was used.
#[derive(Debug, Default)]
pub struct KvConn {
    outbox: Outbox,
    inbox: Inbox,
    turn: Turn,
}

impl Kv {
    /// An empty store. It never looks at a clock but the one given, which tests set as they like.
    pub fn new(config: KvConfig, clock: Clock) -> Self {
        assert!(
            config.item_max_bytes > 0 && u64::from(config.item_max_bytes) <= config.memory_max_bytes / 4,
            "an item may take at most a quarter of the memory: {config:?}"
        );
        let started = clock();
        Self { store: Store::new(&config, clock), counters: Counters::default(), config, started }
    }
}

impl Service for Kv {
    type Conn = KvConn;

    #[inline]
    fn receive(&self, conn: &mut KvConn, input: &[u8]) -> u64 {
        if conn.turn.is_over() {
            return 0;
        }
        conn.inbox.receive(input, |input| self.take(&mut conn.turn, input, conn.outbox.room()))
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a KvConn) -> &'a [u8] {
        conn.outbox.unsent()
    }

    #[inline]
    fn sent(&self, conn: &mut KvConn, count: usize) -> u64 {
        conn.outbox.sent(count);
        if !conn.outbox.is_empty() {
            return 0;
        }
        conn.inbox.go_on(|input| self.take(&mut conn.turn, input, conn.outbox.room()))
    }

    #[inline]
    fn is_over(&self, conn: &KvConn) -> bool {
        conn.turn.is_over()
    }
}
