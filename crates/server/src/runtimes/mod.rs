//! Runtimes that others wrote, as models: each file does what a user of that runtime would.
//!
//! Only how bytes are awaited and moved differs: service, connection, socket options and read budget are those of all
//! architectures. A runtime's own system calls cannot be seen from here and are not counted.
//!
//! The server is stopped by shutting its listener down ([`crate::Server::stop`]), which ends every runtime's accept.
//! Only on Linux does it, so that there are none elsewhere.

#[cfg(all(target_os = "linux", feature = "compio"))]
pub mod compio;
#[cfg(all(target_os = "linux", feature = "may"))]
pub mod may;
#[cfg(all(target_os = "linux", feature = "smol"))]
pub mod smol;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod tokio;

/// The cargo features that runtimes are behind, named as their models are, compiled in or not; none where there are none.
pub const FEATURES: &[&str] = if cfg!(target_os = "linux") { &["tokio", "smol", "may", "compio"] } else { &[] };

#[cfg(all(target_os = "linux", any(feature = "tokio", feature = "smol", feature = "may", feature = "compio")))]
mod common;
#[cfg(all(target_os = "linux", any(feature = "tokio", feature = "smol", feature = "may", feature = "compio")))]
pub use common::*;
