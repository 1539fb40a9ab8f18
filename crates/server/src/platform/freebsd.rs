//! FreeBSD.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::{io, ptr};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::process::Signal;

use crate::metrics::counters::Totals;

/// The highest soft limit of descriptors that the system takes, if lower than the hard one.
pub const DESCRIPTORS_MAX: Option<u64> = None;

/// Makes the kernel send `signal` to this process when its parent ends (PROC_PDEATHSIG_CTL).
pub fn die_with_parent(signal: Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
}

/// A stream socket.
pub(crate) fn socket(family: AddressFamily, nonblocking: bool) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags(nonblocking), None)?)
}

/// The socket option for a datagram's destination (ip(4)).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_RECVDSTADDR;
/// The control message with the destination; as IP_SENDSRCADDR it sets a response's source.
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_RECVDSTADDR;
/// The position of the interface in that message, which has none.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..0;

/// The system calls of one [`accept`].
pub(crate) const ACCEPT_SYSCALLS: u64 = 1;

/// Makes one accept4 call. The connection is blocking or not, whatever the listener is.
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

/// CPU time and switches of the calling thread.
pub(crate) fn thread_totals() -> Totals {
    super::used_by(libc::RUSAGE_THREAD)
}

/// CPU time and switches of a living child (kern.proc.pid); zeros if it has gone.
pub(crate) fn child_totals(pid: i32) -> Totals {
    let name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid];
    let mut process = MaybeUninit::<libc::kinfo_proc>::zeroed();
    let mut bytes = size_of::<libc::kinfo_proc>();
    // SAFETY: the kernel writes at most `bytes` into `process`, and how many it wrote into `bytes`.
    let result = unsafe {
        let length = name.len() as libc::c_uint;
        libc::sysctl(name.as_ptr(), length, process.as_mut_ptr().cast(), &raw mut bytes, ptr::null(), 0)
    };
    if result != 0 || bytes != size_of::<libc::kinfo_proc>() {
        return Totals::default();
    }
    // SAFETY: the kernel has just filled it in; it was zeroed before, which is a valid value.
    let process = unsafe { process.assume_init() };
    Totals {
        cpu_children_ns: process.ki_runtime * 1_000,
        voluntary_switches: process.ki_rusage.ru_nvcsw as u64,
        involuntary_switches: process.ki_rusage.ru_nivcsw as u64,
        ..Totals::default()
    }
}
