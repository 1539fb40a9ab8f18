//! The common parts of Linux, FreeBSD and illumos. Their system calls set the flags of new descriptors.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
#[cfg(not(target_os = "illumos"))]
use rustix::process::Signal;

/// The highest soft limit of descriptors that the system accepts; `None` if this is the hard limit.
pub const DESCRIPTORS_MAX: Option<u64> = None;

/// Makes the kernel send `signal` to this process when its parent ends.
#[cfg(not(target_os = "illumos"))]
pub fn die_with_parent(signal: Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
}

pub(crate) fn socket(family: AddressFamily, nonblocking: bool) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags(nonblocking), None)?)
}

/// The number of system calls of [`accept`].
pub(crate) const ACCEPT_SYSCALLS: u64 = 1;

/// Makes one accept4 call.
#[inline]
pub(crate) fn accept(listener: &OwnedFd, nonblocking: bool) -> rustix::io::Result<OwnedFd> {
    rustix::net::accept_with(listener, flags(nonblocking))
}

fn flags(nonblocking: bool) -> SocketFlags {
    SocketFlags::CLOEXEC | if nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() }
}

/// A pipe with non-blocking ends.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}
