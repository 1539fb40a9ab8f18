//! FreeBSD.

use std::mem::MaybeUninit;
use std::ptr;

use crate::metrics::counters::Totals;

/// The socket option for a datagram's destination (ip(4)).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_RECVDSTADDR;
/// The control message with the destination. With a response it is IP_SENDSRCADDR and sets the source.
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_RECVDSTADDR;
/// The position of the interface in this message; empty, because the message has none.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..0;

/// CPU time and switches of a living child (kern.proc.pid); zeros if it has ended.
pub(crate) fn child_totals(pid: i32) -> Totals {
    let name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid];
    let mut process = MaybeUninit::<libc::kinfo_proc>::zeroed();
    let mut bytes = size_of::<libc::kinfo_proc>();
    // SAFETY: the kernel writes at most `bytes` bytes into `process`, and their number into `bytes`.
    let result = unsafe {
        let length = name.len() as libc::c_uint;
        libc::sysctl(name.as_ptr(), length, process.as_mut_ptr().cast(), &raw mut bytes, ptr::null(), 0)
    };
    if result != 0 || bytes != size_of::<libc::kinfo_proc>() {
        return Totals::default();
    }
    // SAFETY: the kernel has filled in the structure.
    let process = unsafe { process.assume_init() };
    Totals {
        cpu_children_ns: process.ki_runtime * 1_000,
        voluntary_switches: process.ki_rusage.ru_nvcsw as u64,
        involuntary_switches: process.ki_rusage.ru_nivcsw as u64,
        ..Totals::default()
    }
}
