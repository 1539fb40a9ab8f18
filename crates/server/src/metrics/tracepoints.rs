//! System calls as the kernel counts them (perf_event_open(2)), including those of runtimes and libraries.
//!
//! Each kind has a counter on the tracepoint `raw_syscalls:sys_enter` with a filter of system call numbers. The counter covers
//! the thread that opens it and all threads and processes that this thread creates later.

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
const TRACEPOINT: &CStr = c"events/raw_syscalls/sys_enter/id";

/// The system call numbers of each kind, the most frequent kinds first, because the kernel tries a filter's numbers in order. A
/// number does not show a call's purpose: io_uring_enter and rescans count as waits, and reads from a pool's pipe as reads.
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

/// A counter for each kind of system call.
#[derive(Debug)]
pub struct Tracepoints(Vec<(&'static str, OwnedFd)>);

impl Tracepoints {
    /// Starts to count the calls of the calling thread, and of all threads and processes that it creates later.
    pub fn open() -> Result<Self, String> {
        let tracepoint = tracepoint()?;
        let open = |(name, filter): (_, String)| Ok((name, count(tracepoint, &filter)?));
        filters().into_iter().map(open).collect::<io::Result<_>>().map(Self).map_err(|error| {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            refusal(&error, paranoid.trim())
        })
    }

    /// The calls so far by kind; [`OTHER`] for calls of no kind.
    pub fn read(&self) -> BTreeMap<String, u64> {
        let read = |counter: &OwnedFd| {
            let mut count = [0; size_of::<u64>()];
            rustix::io::read(counter, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        self.0.iter().map(|(name, counter)| ((*name).to_owned(), read(counter))).collect()
    }
}

/// Checks whether this process can count system calls.
pub fn can_count() -> Result<(), String> {
    Tracepoints::open().map(drop)
}

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

/// The number of the tracepoint. Without a mounted tracefs, mounts one that only this process sees.
fn tracepoint() -> Result<u64, String> {
    let mounted = TRACEFS.iter().map(|folder| rustix::fs::open(*folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()));
    let read = |folder: OwnedFd| {
        let id = rustix::fs::openat(folder, TRACEPOINT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = [0; 32];
        let length = rustix::io::read(id, &mut text)?;
        std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok()).ok_or(Errno::INVAL)
    };
    if let Some(number) = mounted.into_iter().find_map(|folder| folder.and_then(read).ok()) {
        return Ok(number);
    }
    mount_detached().and_then(read).map_err(|error| {
        let help = match error {
            Errno::PERM | Errno::ACCESS => {
                "run as root, or have root mount it for your group (mount -t tracefs -o gid=GROUP,mode=750 tracefs \
                 /sys/kernel/tracing)"
            }
            Errno::NODEV | Errno::NOENT => "the kernel is built without it (CONFIG_FTRACE_SYSCALLS)",
            _ => "mount it (mount -t tracefs tracefs /sys/kernel/tracing)",
        };
        let error = io::Error::from(error);
        format!("cannot find the tracepoint raw_syscalls:sys_enter in tracefs: {error}; {help}")
    })
}

/// Returns a tracefs that has no mount point.
fn mount_detached() -> Result<OwnedFd, Errno> {
    let tracefs = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&tracefs)?;
    rustix::mount::fsmount(&tracefs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// The kernel's `perf_event_attr` in its first, shortest version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sampling_and_format: [u64; 3],
    flags: u64,
    wakeup_and_breakpoint: [u64; 2],
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// The flag `disabled`: the counter starts only when it is enabled, after its filter is set.
const DISABLED: u64 = 1 << 0;
/// The flag `inherit`: the counter covers threads and processes created later.
const INHERIT: u64 = 1 << 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `_IO('$', 0)`.
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = ((b'$' as u64) << 8) as libc::Ioctl;
/// `_IOW('$', 6, char *)`.
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl =
    (1 << 30 | (size_of::<*const u8>() as u64) << 16 | (b'$' as u64) << 8 | 6) as libc::Ioctl;

/// Opens a counter of the calls that pass the filter.
fn count(tracepoint: u64, filter: &str) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        flags: DISABLED | INHERIT,
        ..Attributes::default()
    };
    let checked = |result: i64| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    let (this_thread, any_cpu, no_group, flags) = (0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    let (call, attributes, filter) = (libc::SYS_perf_event_open, &raw const attributes, CString::new(filter)?);
    // SAFETY: the kernel reads `attributes`, whose length is in its field `size`, and creates a descriptor.
    let counter = unsafe {
        let made = checked(libc::syscall(call, attributes, this_thread, any_cpu, no_group, flags))?;
        OwnedFd::from_raw_fd(made as i32)
    };
    // SAFETY: the kernel reads `filter`, which lives across the calls.
    unsafe {
        checked(libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()).into())?;
        checked(libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0).into())?;
    }
    Ok(counter)
}

/// Explains the kernel's error. `paranoid` is the value of kernel.perf_event_paranoid.
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
    format!("the kernel refuses a counter: {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::workers::comparable_kinds;

    #[test]
    fn every_kind_but_rescan_has_system_calls_of_its_own() {
        let kinds: Vec<Syscall> = NUMBERS.iter().map(|(kind, _)| *kind).collect();
        let counted = |kind: &Syscall| kinds.iter().filter(|listed| *listed == kind).count();
        for (kind, name) in Syscall::ALL {
            assert_eq!(counted(&kind), usize::from(kind != Syscall::Rescan), "{name}");
        }
        let all: Vec<_> = NUMBERS.iter().flat_map(|(_, numbers)| numbers.iter()).collect();
        for (at, number) in all.iter().enumerate() {
            assert!(!all[..at].contains(number), "{number} belongs to two kinds");
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
            // The start and the end of a thread may also call read.
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
    fn refused_counter_names_the_remedy() {
        let message = |code, paranoid| refusal(&io::Error::from_raw_os_error(code), paranoid);
        assert!(message(libc::EACCES, "2").contains("kernel.perf_event_paranoid is 2"));
        assert!(message(libc::EPERM, "").contains("seccomp"));
        assert!(message(libc::ENOSYS, "2").contains("CONFIG_PERF_EVENTS"));
        assert!(message(libc::EIO, "2").contains("perf_event_open(2)"));
    }
}
