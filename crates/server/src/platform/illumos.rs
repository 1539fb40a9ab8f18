//! illumos. Type-checked, and never run.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Resource, Signal};

use crate::metrics::counters::Totals;

/// The limits that a server raises. The system has no limit of processes (getrlimit(2)).
pub const RAISED: &[Resource] = &[Resource::Nofile];

/// Has no effect: the system cannot signal the end of a parent. Servers end at the end of their standard input.
pub fn die_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

unsafe extern "C" {
    /// From sys/wait.h, which the libc crate lacks.
    pub(crate) fn wait4(
        pid: libc::pid_t,
        status: *mut libc::c_int,
        options: libc::c_int,
        usage: *mut libc::rusage,
    ) -> libc::pid_t;
}

/// Fails if set: the system does not distribute connections over listeners.
pub(crate) fn set_socket_reuseport(_socket: &OwnedFd, is_set: bool) -> rustix::io::Result<()> {
    if is_set { Err(rustix::io::Errno::NOTSUP) } else { Ok(()) }
}

/// The socket option for a datagram's destination (ip(4P)).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The control message with the destination.
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The position of the interface in this message.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..4;

/// CPU time and switches of the calling thread.
pub(crate) fn thread_totals() -> Totals {
    /// From sys/resource.h, which the libc crate lacks.
    const RUSAGE_LWP: libc::c_int = 1;
    super::used_by(RUSAGE_LWP)
}

/// Returns zeros: the figures of a living child need procfs(5), which is not read.
pub(crate) fn child_totals(_pid: i32) -> Totals {
    Totals::default()
}
