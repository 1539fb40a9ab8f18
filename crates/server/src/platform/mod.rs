//! The differences between operating systems. The files of each system define the same names; `accept4` and `elsewhere` are each for
//! several systems. The registry omits mechanisms, pools and runtimes that a system lacks.

#[cfg(not(target_os = "macos"))]
mod accept4;
#[cfg(target_os = "linux")]
pub(crate) mod busy_poll;
#[cfg(not(target_os = "linux"))]
#[path = "no_busy_poll.rs"]
pub(crate) mod busy_poll;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "illumos")]
mod illumos;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::{io, ptr};

#[cfg(not(target_os = "macos"))]
pub use accept4::*;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;
#[cfg(target_os = "freebsd")]
pub(crate) use freebsd::*;
#[cfg(target_os = "illumos")]
pub use illumos::*;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;
use rustix::process::{Resource, Rlimit};

use crate::metrics::counters::Totals;

#[cfg(not(target_os = "illumos"))]
pub(crate) use libc::wait4;
#[cfg(not(target_os = "illumos"))]
pub(crate) use rustix::net::sockopt::set_socket_reuseport;

/// Maps zeroed memory with MAP_SHARED or MAP_PRIVATE. Unused pages cost nothing.
pub(crate) fn map(bytes: usize, sharing: libc::c_int) -> io::Result<*mut u8> {
    // FreeBSD lacks MAP_NORESERVE, and never reserves memory for mappings.
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

/// Sets an option of a socket. `value` has the type that the option takes.
pub(crate) fn set_option<T>(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let (socket, bytes) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `bytes` bytes of `value`, and the memory at the addresses in it. All of it lives until the call
    // returns.
    let result = unsafe { libc::setsockopt(socket, level, name, ptr::from_ref(value).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of CPUs of this host that run.
pub(crate) fn cpus_online() -> usize {
    // SAFETY: sysconf(3) only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
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

/// CPU time and switches of the calling thread.
#[cfg(any(target_os = "freebsd", target_os = "linux"))]
pub(crate) fn thread_totals() -> Totals {
    used_by(libc::RUSAGE_THREAD)
}

/// CPU time and switches of `who`, a RUSAGE constant of getrusage(2).
pub(crate) fn used_by(who: libc::c_int) -> Totals {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills in `usage`; the call cannot fail with these arguments.
    rusage_totals(&unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    })
}

pub(crate) fn rusage_totals(usage: &libc::rusage) -> Totals {
    let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Totals {
        cpu_user_ns: nanoseconds(usage.ru_utime),
        cpu_system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        ..Totals::default()
    }
}
