#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod address;
mod buffers;
mod fill;
pub mod fixed;
pub mod http;
pub mod kv;
pub mod names;
pub mod ports;
pub mod redis;
pub mod secret;
pub mod service;
mod spec;
pub mod stream;
pub mod tls;
pub mod udp;
pub mod units;

pub use address::Address;
pub use ports::Ports;
pub use service::{Clock, OneByOne, Service, Wait};
pub use spec::{SERVICES, ServiceRow, ServiceSpec};

/// Returns sizes of pieces to cut a stream into: all sizes, or a few under Miri, which is a thousand times slower.
#[cfg(test)]
pub(crate) fn piece_sizes(stream_bytes: usize) -> impl Iterator<Item = usize> {
    (1..=stream_bytes).step_by(if cfg!(miri) { stream_bytes / 7 } else { 1 })
}

#[cfg(test)]
extern crate self as muxbench_wire;
#[cfg(test)]
#[path = "../examples/http.rs"]
mod example;

#[test]
fn example_answers_a_request() {
    example::main();
}
