//! A key-value store for concurrent readers and writers that speaks RESP2, the protocol of Redis, over the store of `kv`.
//!
//! It answers `GET`, `SET`, `MGET`, `MSET`, `INCR`, `DEL`, `EXISTS`, `PING`, `ECHO`, `QUIT`, `INFO`, `CONFIG GET` and `COMMAND` like
//! Redis 7.0.15, byte for byte, with these exceptions:
//! - `SET` takes no options. `INFO` ignores its sections and has a few fields. `CONFIG GET` knows a few names and no patterns.
//!   `COMMAND` lists nothing.
//! - All other commands are unknown, such as `HELLO` and `CLIENT`. Clients then stay with RESP2.
//! - An argument is at most as large as the largest item, and a request at most a little larger. Beyond that, the connection ends
//!   with an error.
//! - A line with a size is refused as soon as it is longer than any valid one.
//! - Lines of words (inline requests) have no quotes, and a zero byte does not end them.
//! - Commands with several keys are not atomic. The store evicts items when its memory is full.

pub mod client;
mod command;
mod connection;
mod frame;
mod storage;
#[cfg(test)]
mod tests;

pub use connection::RedisConn;
pub use storage::Redis;
