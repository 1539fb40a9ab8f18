//! macOS.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;

use crate::metrics::counters::Totals;

/// The highest soft limit of descriptors that the system accepts: OPEN_MAX of sys/syslimits.h.
pub const DESCRIPTORS_MAX: Option<u64> = Some(10_240);

/// Has no effect: macOS cannot signal the end of a parent. Servers and clients end at the end of their standard input, and
/// processes of `mp` with their connection.
pub fn die_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

pub(crate) fn socket(family: AddressFamily, nonblocking: bool) -> io::Result<OwnedFd> {
    Ok(prepare(rustix::net::socket(family, SocketType::STREAM, None)?, nonblocking)?)
}

/// The socket option for a datagram's destination (netinet/in.h: IP_RECVPKTINFO is IP_PKTINFO).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The control message with the destination.
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The position of the interface in this message.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..4;

/// The number of system calls of [`accept`].
pub(crate) const ACCEPT_SYSCALLS: u64 = 3;

/// Accepts a connection and sets its flags, which accept(2) would copy from the listener.
#[inline]
pub(crate) fn accept(listener: &OwnedFd, nonblocking: bool) -> rustix::io::Result<OwnedFd> {
    prepare(rustix::net::accept(listener)?, nonblocking)
}

#[inline]
fn prepare(socket: OwnedFd, nonblocking: bool) -> rustix::io::Result<OwnedFd> {
    rustix::io::ioctl_fioclex(&socket)?;
    rustix::io::ioctl_fionbio(&socket, nonblocking)?;
    Ok(socket)
}

/// A pipe with non-blocking ends.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    Ok((prepare(reader, true)?, prepare(writer, true)?))
}

/// Returns zeros: getrusage(2) has no figures of a thread. The server's figures thus include the cost of reading them.
pub(crate) fn thread_totals() -> Totals {
    Totals::default()
}

/// CPU time and switches of a living child (proc_pidinfo); zeros if it has ended. All switches count as voluntary, because the
/// system reports only their sum.
pub(crate) fn child_totals(pid: i32) -> Totals {
    let mut task = MaybeUninit::<libc::proc_taskinfo>::zeroed();
    let size = size_of::<libc::proc_taskinfo>() as libc::c_int;
    // SAFETY: the kernel writes at most `size` bytes into `task`.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTASKINFO, 0, task.as_mut_ptr().cast(), size) };
    if written != size {
        return Totals::default();
    }
    // SAFETY: the kernel has filled in the structure.
    let task = unsafe { task.assume_init() };
    Totals {
        cpu_children_ns: nanoseconds(task.pti_total_user + task.pti_total_system),
        voluntary_switches: task.pti_csw as u64,
        ..Totals::default()
    }
}

/// Converts time from the units of the processor's timer (mach_timebase_info) to nanoseconds.
#[allow(deprecated, reason = "libc recommends another crate, which these two numbers do not justify")]
fn nanoseconds(units: u64) -> u64 {
    let mut base = libc::mach_timebase_info { numer: 1, denom: 1 };
    // SAFETY: the kernel fills in `base`.
    unsafe { libc::mach_timebase_info(&raw mut base) };
    (u128::from(units) * u128::from(base.numer) / u128::from(base.denom)) as u64
}
