//! macOS.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;

use crate::metrics::counters::Totals;

/// The most that the soft limit of descriptors may be where the hard one is higher, or there is none: setrlimit(2) takes
/// no more than OPEN_MAX (sys/syslimits.h).
pub const DESCRIPTORS_MAX: Option<u64> = Some(10_240);

/// Nothing: macOS tells nobody that a parent has ended. A server or client that a runner started ends when its standard
/// input does, or when nobody reads what it says; a process of `mp` ends with its connection, which the client's end closes.
///
/// # Errors
/// None.
pub fn die_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

/// A stream socket.
pub(crate) fn socket(family: AddressFamily, nonblocking: bool) -> io::Result<OwnedFd> {
    Ok(prepare(rustix::net::socket(family, SocketType::STREAM, None)?, nonblocking)?)
}

/// The option by which the kernel says of each datagram where it was sent to (netinet/in.h: IP_RECVPKTINFO is IP_PKTINFO).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The control message that says so...
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// ...and where in it the interface is.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..4;

/// System calls of one [`accept`], to be counted.
pub(crate) const ACCEPT_SYSCALLS: u64 = 3;

/// One accept, and the calls without which accept4 would do. What it makes would otherwise block or not as the listener does.
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

/// A pipe of which neither end blocks.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    Ok((prepare(reader, true)?, prepare(writer, true)?))
}

/// Unknown: getrusage(2) has no thread of its own here. What asking costs is in the server's figures.
pub(crate) fn thread_totals() -> Totals {
    Totals::default()
}

/// CPU time and switches of a child that lives (proc_pidinfo); nothing when it has gone. It does not tell switches of one
/// kind from those of the other: all count as voluntary.
pub(crate) fn child_totals(pid: i32) -> Totals {
    let mut task = MaybeUninit::<libc::proc_taskinfo>::zeroed();
    let size = size_of::<libc::proc_taskinfo>() as libc::c_int;
    // SAFETY: the kernel writes at most `size` bytes into `task`.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTASKINFO, 0, task.as_mut_ptr().cast(), size) };
    if written != size {
        return Totals::default();
    }
    // SAFETY: the kernel has just filled it in.
    let task = unsafe { task.assume_init() };
    Totals {
        cpu_children_ns: nanoseconds(task.pti_total_user + task.pti_total_system),
        voluntary_switches: task.pti_csw as u64,
        ..Totals::default()
    }
}

/// From the units of the processor's timer, in which a task's times are.
#[allow(deprecated, reason = "libc would have it called through a crate of its own, for these two numbers")]
fn nanoseconds(units: u64) -> u64 {
    let mut base = libc::mach_timebase_info { numer: 1, denom: 1 };
    // SAFETY: the kernel fills in `base`.
    unsafe { libc::mach_timebase_info(&raw mut base) };
    (u128::from(units) * u128::from(base.numer) / u128::from(base.denom)) as u64
}
