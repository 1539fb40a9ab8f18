//! The differences between the operating systems: a file each with the same names, and `bsd` for the common parts of FreeBSD and
//! macOS. Mechanisms, pools and runtimes that a system lacks are left out of the registry instead.

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

/// The option of mmap(2) that reserves no memory for unused pages. FreeBSD lacks it and reserves none.
#[cfg(target_os = "freebsd")]
pub(crate) const MAP_NORESERVE: libc::c_int = 0;
#[cfg(not(target_os = "freebsd"))]
pub(crate) const MAP_NORESERVE: libc::c_int = libc::MAP_NORESERVE;
