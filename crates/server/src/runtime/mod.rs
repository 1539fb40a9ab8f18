//! Runtimes that others wrote, as models: each file does what a user of that runtime would.
//!
//! Only how bytes are awaited and moved differs: service, connection, socket options and read budget are those of all
//! architectures. A runtime's own system calls cannot be seen from here and are not counted.
//!
//! The server is stopped by shutting its listener down ([`crate::Server::stop`]), which ends every runtime's accept.

#[cfg(feature = "compio")]
pub mod compio;
#[cfg(feature = "may")]
pub mod may;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "tokio")]
pub mod tokio;

/// The cargo features that runtimes are behind, named as their models are, compiled in or not.
pub const FEATURES: &[&str] = &["tokio", "smol", "may", "compio"];

#[cfg(any(feature = "tokio", feature = "smol", feature = "may", feature = "compio"))]
mod common;
#[cfg(any(feature = "tokio", feature = "smol", feature = "may", feature = "compio"))]
pub use common::*;
