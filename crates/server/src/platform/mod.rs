//! What differs between the systems: the same names for each, one file a system, and `bsd` for what FreeBSD and macOS have
//! in common. What a system has not at all (mechanisms, pools, runtimes) is not here: it is left out of the tables.

#[cfg(any(target_os = "freebsd", target_os = "macos"))]
mod bsd;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod rlimit;
mod rusage;

#[cfg(any(target_os = "freebsd", target_os = "macos"))]
pub use bsd::*;
#[cfg(target_os = "freebsd")]
pub use freebsd::*;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;
pub(crate) use rlimit::raise_limit;
pub(crate) use rusage::{rusage_totals, used_by};

/// The option by which mmap(2) sets no pages aside that are never used. FreeBSD lacks it and sets none aside.
#[cfg(target_os = "freebsd")]
pub(crate) const MAP_NORESERVE: libc::c_int = 0;
#[cfg(not(target_os = "freebsd"))]
pub(crate) const MAP_NORESERVE: libc::c_int = libc::MAP_NORESERVE;
