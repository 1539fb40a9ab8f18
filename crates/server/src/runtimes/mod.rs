//! The models over async and coroutine runtimes. Each file uses its runtime as an ordinary program would.
//!
//! Only waits and I/O calls differ: services, connections, socket options and read budgets are those of other models. The
//! system calls of a runtime are not counted.
//!
//! [`crate::Server::stop`] shuts the listener down, which ends a runtime's accept only on Linux. So other systems have
//! no runtimes.

#[cfg(all(target_os = "linux", feature = "compio"))]
pub(crate) mod compio;
#[cfg(all(target_os = "linux", feature = "glommio"))]
pub(crate) mod glommio;
#[cfg(all(target_os = "linux", feature = "may"))]
pub(crate) mod may;
#[cfg(all(target_os = "linux", feature = "monoio"))]
pub(crate) mod monoio;
#[cfg(all(target_os = "linux", feature = "smol"))]
pub(crate) mod smol;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub(crate) mod tokio;

/// The cargo features of the runtimes, which are also the names of their models; they need not be compiled in.
pub const FEATURES: &[&str] =
    if cfg!(target_os = "linux") { &["tokio", "smol", "may", "compio", "monoio", "glommio"] } else { &[] };

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, unused_macros, reason = "not every runtime needs all parts")]
mod common;
#[cfg(all(target_os = "linux", any(feature = "compio", feature = "monoio")))]
mod owned;
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "a build may have no runtime")]
use common::*;
