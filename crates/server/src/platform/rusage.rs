//! CPU time and context switches, as getrusage(2) and wait4(2) report them.

use std::mem::MaybeUninit;

use crate::metrics::counters::Totals;

/// CPU time and switches of `who`, a RUSAGE constant of getrusage(2).
pub(crate) fn used_by(who: libc::c_int) -> Totals {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills in `usage`; the call cannot fail with these arguments.
    rusage_totals(&unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    })
}

/// Converts the kernel's figures.
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
