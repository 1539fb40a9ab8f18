//! Bytes in, bytes out: the services' protocols, without a single system call.
//!
//! # Layout
//! - [`address`]: where a server listens, as plain data that both sides share
//! - [`service`]: the [`Service`] trait, and [`ServiceSpec`], the service as plain data
//! - [`fixed`]: the abstract request and response of kawai2008, verified by size alone
//! - [`http`]: HTTP/1.1 for content in memory, and what asks for it
//! - [`kv`]: a key-value store that speaks the memcached text protocol, and what asks one
//! - [`stream`]: bursts of packets, each acknowledged
//! - [`udp`]: datagrams with ids; [`ports`]: where their server listens
//! - `outbox`: bytes to send, which stay where they are while the kernel may be reading them

#![forbid(unsafe_code)]

pub mod address;
mod fill;
pub mod fixed;
pub mod http;
pub mod kv;
pub mod ports;
mod read_buffer;
pub mod service;
mod spec;
pub mod stream;
pub mod udp;
mod write_buffer;

pub use address::Address;
pub use ports::Ports;
pub use service::{Clock, Service};
pub use spec::{SERVICES, ServiceRow, ServiceSpec};

/// Sizes of pieces that a stream of so many bytes is cut into: all there are, but of an interpreter, which takes a thousand times
/// as long, a few.
#[cfg(test)]
pub(crate) fn piece_sizes(stream_bytes: usize) -> impl Iterator<Item = usize> {
    (1..=stream_bytes).step_by(if cfg!(miri) { stream_bytes / 7 } else { 1 })
}
