//! Bytes in, bytes out: the services' protocols, without a single system call.
//!
//! # Layout
//! - [`address`]: where a server listens, as plain data that both sides share
//! - [`service`]: the [`Service`] trait, and [`ServiceSpec`], the service as plain data
//! - [`fixed`]: the abstract request and response of kawai2008, verified by size alone
//! - [`kv`]: a key-value store that speaks the memcached text protocol, and what asks one

pub mod address;
pub mod fixed;
pub mod kv;
pub mod service;

pub use address::Address;
pub use service::{SERVICES, Service, ServiceSpec};
