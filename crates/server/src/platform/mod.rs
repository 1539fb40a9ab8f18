//! The differences between the operating systems. Each system has a file with the same names; files for several systems have
//! their common parts. The registry omits mechanisms, pools and runtimes that a system lacks.

#[cfg(any(target_os = "freebsd", target_os = "linux"))]
mod accept4;
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
mod rusage;

use std::{io, ptr};

#[cfg(any(target_os = "freebsd", target_os = "linux"))]
pub use accept4::*;
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
pub use bsd::*;
#[cfg(target_os = "freebsd")]
pub use freebsd::*;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;
pub(crate) use rusage::{rusage_totals, used_by};
use rustix::process::{Resource, Rlimit};

/// Maps zeroed memory with MAP_SHARED or MAP_PRIVATE. Unused pages cost nothing.
pub(crate) fn map(bytes: usize, sharing: libc::c_int) -> io::Result<*mut u8> {
    // FreeBSD lacks the flag and never reserves memory.
    #[cfg(target_os = "freebsd")]
    const NORESERVE: libc::c_int = 0;
    #[cfg(not(target_os = "freebsd"))]
    const NORESERVE: libc::c_int = libc::MAP_NORESERVE;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, sharing | libc::MAP_ANONYMOUS | NORESERVE);
    // SAFETY: the kernel chooses an unused address for the mapping.
    match unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at.cast()),
    }
}

/// Raises a soft limit to the hard one, or to the highest value that the system accepts.
pub(crate) fn raise_limit(resource: Resource) {
    let maximum = rustix::process::getrlimit(resource).maximum;
    let current = match DESCRIPTORS_MAX {
        Some(most) if resource == Resource::Nofile => Some(maximum.map_or(most, |maximum| maximum.min(most))),
        _ => maximum,
    };
    let _ = rustix::process::setrlimit(resource, Rlimit { current, maximum });
}
