//! A key-value store for concurrent readers and writers that speaks the memcached text protocol.
//!
//! It answers like memcached 1.6.18, byte for byte, with these exceptions:
//! - `version` and `stats` describe this server. All items are in class 1, and `stats conns` lists no connection.
//! - `watch` and the commands for slabs, the LRU, its crawler and external storage get the replies of a memcached that lacks
//!   these features.
//! - `cache_memlimit` refuses a limit that leaves too little room for the largest items.
//! - Meta commands also accept the flags of later versions up to 1.6.45. `me` shows the remaining time as a positive number.
//! - The last access (`l` of `mg`, `la` of `me`) is the time of storing, until a client first asks for a last access. From then
//!   on, every fetch updates it.
//! - Items created by `mg` or `ma`, and changed items, keep the base64 form of their key.
//! - `ma` keeps the effect of its flag `T` if the number becomes longer.
//! - A line that is too long always ends the connection. In memcached this depends on how much of it has arrived.
//! - A key that is too long does not undo the replies to earlier commands.
//! - A zero byte does not end a line.
//! - `flush_all 1` waits a second. A delayed flush does not restore items that an earlier flush removed.

mod base64;
pub mod client;
mod command;
mod connection;
mod counters;
mod meta;
mod meta_flags;
mod protocol;
pub mod records;
mod response;
mod stats;
mod storage;
pub(crate) mod store;
#[cfg(test)]
mod tests;
pub(crate) mod value;

pub use connection::KvConn;
pub use storage::Kv;
pub use store::KvConfig;
