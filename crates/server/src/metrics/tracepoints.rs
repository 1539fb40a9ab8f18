//! System calls as the kernel counts them, including those of runtimes and libraries.
//!
//! Each kind has a counter on the tracepoint `raw_syscalls:sys_enter` with a filter of system call numbers. It covers the
//! thread that opens it and all threads and processes created later; the kernel adds their counts.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::metrics::workers::{OTHER, Syscall};

/// The usual mount points of tracefs; the second one is from before Linux 4.1.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The file with the tracepoint's number.
const TRACEPOINT: &CStr = c"events/raw_syscalls/sys_enter/id";

/// The system call numbers of each kind. A number does not tell a call's purpose: io_uring_enter always counts as a wait, and
/// so does a rescan; workers of a pool receive connections by reading a pipe. The most frequent kinds come first, because the
/// kernel tries a filter's numbers in order.
const NUMBERS: &[(Syscall, &[libc::c_long])] = &[
    (Syscall::Read, &[libc::SYS_read, libc::SYS_recvfrom, libc::SYS_readv, libc::SYS_recvmsg, libc::SYS_recvmmsg]),
    (Syscall::Write, &[libc::SYS_write, libc::SYS_sendto, libc::SYS_writev, libc::SYS_sendmsg, libc::SYS_sendmmsg]),
    (
        Syscall::Wait,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
            libc::SYS_io_uring_enter,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_ppoll,
            libc::SYS_pselect6,
        ],
    ),
    (Syscall::Control, &[libc::SYS_epoll_ctl, libc::SYS_fcntl]),
    (Syscall::Wake, &[libc::SYS_futex]),
    (Syscall::Accept, &[libc::SYS_accept4, libc::SYS_accept]),
    (Syscall::Close, &[libc::SYS_close]),
    (
        Syscall::Spawn,
        &[
            libc::SYS_clone3,
            libc::SYS_clone,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_vfork,
        ],
    ),
];

/// Counters of the opening thread and all threads and processes that it created since.
#[derive(Debug)]
pub struct Tracepoints(Vec<(&'static str, OwnedFd)>);

impl Tracepoints {
    /// Starts to count for the calling thread and everything that it creates.
    pub fn open() -> Result<Self, String> {
        let tracepoint = tracepoint()?;
        let mut counters = Vec::new();
        for (name, filter) in filters() {
            let counter = count(tracepoint, &filter).map_err(|error| {
                let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
                refusal(&error, paranoid.trim())
            })?;
            counters.push((name, counter));
        }
        Ok(Self(counters))
    }

    /// Calls by kind so far; [`OTHER`] for calls of no kind.
    pub fn read(&self) -> BTreeMap<String, u64> {
        let read = |counter: &OwnedFd| {
            let mut count = [0; size_of::<u64>()];
            rustix::io::read(counter, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        self.0.iter().map(|(name, counter)| ((*name).to_owned(), read(counter))).collect()
    }
}

/// Checks whether the kernel can count system calls.
pub fn can_count() -> Result<(), String> {
    Tracepoints::open().map(drop)
}

/// The name and the filter of each kind.
fn filters() -> Vec<(&'static str, String)> {
    let filter = |numbers: &[libc::c_long], test: &str, and_or: &str| {
        numbers.iter().map(|number| format!("id {test} {number}")).collect::<Vec<_>>().join(and_or)
    };
    let mut filters: Vec<_> =
        NUMBERS.iter().map(|(kind, numbers)| (Syscall::ALL[*kind as usize].1, filter(numbers, "==", " || "))).collect();
    let all: Vec<libc::c_long> = NUMBERS.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
    filters.push((OTHER, filter(&all, "!=", " && ")));
    filters
}

/// The number of the tracepoint. If tracefs is not mounted, mounts it detached for this read.
fn tracepoint() -> Result<u64, String> {
    let mounted = TRACEFS.iter().map(|folder| rustix::fs::open(*folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()));
    let look = |folder: OwnedFd| {
        let id = rustix::fs::openat(folder, TRACEPOINT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = [0; 32];
        let length = rustix::io::read(id, &mut text)?;
        std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok()).ok_or(Errno::INVAL)
    };
    if let Some(number) = mounted.into_iter().find_map(|folder| folder.and_then(look).ok()) {
        return Ok(number);
    }
    mount_detached().and_then(look).map_err(|error| {
        let help = match error {
            Errno::PERM | Errno::ACCESS => {
                "run as root, or have root mount it for a group of yours (mount -t tracefs -o \
                                            gid=GROUP,mode=750 tracefs /sys/kernel/tracing)"
            }
            Errno::NODEV | Errno::NOENT => "the kernel is built without it (CONFIG_FTRACE_SYSCALLS)",
            _ => "mount it (mount -t tracefs tracefs /sys/kernel/tracing)",
        };
        let error = io::Error::from(error);
        format!("cannot find the tracepoint raw_syscalls:sys_enter in tracefs: {error}; {help}")
    })
}

/// A tracefs that only its descriptor refers to.
fn mount_detached() -> Result<OwnedFd, Errno> {
    let tracefs = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&tracefs)?;
    rustix::mount::fsmount(&tracefs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// The first version of the kernel's `perf_event_attr`, which suffices.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// The first bit field: the counter starts when enabled, with its filter in place.
const DISABLED: u64 = 1 << 0;
/// The second bit field.
const INHERIT: u64 = 1 << 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `_IO('$', 0)`.
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = ((b'$' as u64) << 8) as libc::Ioctl;
/// `_IOW('$', 6, char *)`.
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl =
    (1 << 30 | (size_of::<*const u8>() as u64) << 16 | (b'$' as u64) << 8 | 6) as libc::Ioctl;

/// Opens a counter of the calls that pass the filter, for this thread and everything that it creates.
fn count(tracepoint: u64, filter: &str) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        flags: DISABLED | INHERIT,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    // SAFETY: the kernel reads `attributes`, whose length is in its `size`, and makes a descriptor.
    let counter = unsafe {
        let made = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        );
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(made as i32)
    };
    let filter = CString::new(filter)?;
    // SAFETY: the kernel reads the text, which lives across the call.
    if unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no memory is involved.
    if unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(counter)
}

/// The kernel's error and the remedy. `paranoid` is the value of kernel.perf_event_paranoid.
fn refusal(error: &io::Error, paranoid: &str) -> String {
    let help = match error.raw_os_error() {
        Some(libc::EACCES) => &*format!(
            "kernel.perf_event_paranoid is {paranoid}: run as root, give the binary CAP_PERFMON (setcap \
                 cap_perfmon+ep), or sysctl -w kernel.perf_event_paranoid=1"
        ),
        Some(libc::EPERM) => "run as root; a container's seccomp profile may forbid it",
        Some(libc::ENOSYS) => "the kernel is built without it (CONFIG_PERF_EVENTS)",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of descriptors (ulimit -n)",
        Some(libc::EINVAL) => "the kernel is built without filters of tracepoints (CONFIG_EVENT_TRACING)",
        _ => "see perf_event_open(2)",
    };
    format!("cannot count system calls: {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::workers::comparable_kinds;

    #[test]
    fn every_kind_but_rescan_has_system_calls_of_its_own() {
        let kinds: Vec<Syscall> = NUMBERS.iter().map(|(kind, _)| *kind).collect();
        let counted = |kind: &Syscall| kinds.iter().filter(|it| *it == kind).count();
        for (kind, name) in Syscall::ALL {
            assert_eq!(counted(&kind), usize::from(kind != Syscall::Rescan), "{name}");
        }
        let all: Vec<_> = NUMBERS.iter().flat_map(|(_, numbers)| numbers.iter()).collect();
        for (at, number) in all.iter().enumerate() {
            assert!(!all[..at].contains(number), "{number} is there twice");
        }
        let names: Vec<&str> = Syscall::ALL.iter().map(|(_, name)| *name).collect();
        assert!([true, false].iter().all(|wakes| comparable_kinds(*wakes).iter().all(|name| names.contains(name))));
        assert!(!names.contains(&OTHER));
    }

    #[test]
    fn tracepoints_count_this_thread_and_its_threads_only() {
        let calls = |pipe: &OwnedFd, count| (0..count).for_each(|_| assert!(rustix::io::read(pipe, &mut [0]).is_err()));
        let (reader, _writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let (go, went) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let outside = std::thread::scope(|scope| {
            let counting = scope.spawn(|| {
                let outside = Tracepoints::open();
                go.wait();
                calls(&reader, 1_000);
                std::thread::scope(|scope| drop(scope.spawn(|| calls(&reader, 500)).join()));
                went.wait();
                outside.map(|outside| outside.read())
            });
            go.wait();
            calls(&reader, 10_000);
            went.wait();
            counting.join().unwrap()
        });
        match outside {
            // Starting and ending a thread and reading the counters may read a little, too.
            Ok(counts) => {
                assert!((1_500..1_600).contains(&counts["read"]), "{counts:?}");
                assert!((1..10).contains(&counts["spawn"]), "{counts:?}");
                assert_eq!(counts["accept"], 0);
            }
            Err(reason) => {
                crate::skipped::skipped(&format!("system calls counted from outside: {reason}"));
                assert!(reason.contains("; "), "no remedy: {reason}");
            }
        }
    }

    #[test]
    fn refusal_names_its_remedy() {
        let message = |code, paranoid| refusal(&io::Error::from_raw_os_error(code), paranoid);
        assert!(message(libc::EACCES, "2").contains("kernel.perf_event_paranoid is 2"));
        assert!(message(libc::EPERM, "").contains("seccomp"));
        assert!(message(libc::ENOSYS, "2").contains("CONFIG_PERF_EVENTS"));
        assert!(message(libc::EIO, "2").contains("perf_event_open(2)"));
    }
}
