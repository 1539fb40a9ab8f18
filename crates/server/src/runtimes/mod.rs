//! Models over the runtimes of others: each file does what a user of that runtime would.
//!
//! Only the waiting and the I/O calls differ: service, connection, socket options and read budget are those of all architectures.
//! A runtime's own system calls cannot be seen here and are not counted.
//!
//! Shutting the listener down ([`crate::Server::stop`]) ends every runtime's accept, but only on Linux, so that other systems
//! have no runtimes.

#[cfg(all(target_os = "linux", feature = "compio"))]
pub mod compio;
#[cfg(all(target_os = "linux", feature = "may"))]
pub mod may;
#[cfg(all(target_os = "linux", feature = "smol"))]
pub mod smol;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod tokio;

/// The cargo features of the runtimes, compiled in or not, named as their models; empty on systems without runtimes.
pub const FEATURES: &[&str] = if cfg!(target_os = "linux") { &["tokio", "smol", "may", "compio"] } else { &[] };

#[cfg(all(target_os = "linux", any(feature = "tokio", feature = "smol", feature = "may", feature = "compio")))]
mod common;
#[cfg(all(target_os = "linux", any(feature = "tokio", feature = "smol", feature = "may", feature = "compio")))]
pub use common::*;
