//! Linux.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Resource;
use rustix::thread::CpuSet;

use super::set_option;
use crate::metrics::counters::Totals;
use crate::metrics::workers::{Counters, Workers};

/// The limits that a server raises.
pub const RAISED: &[Resource] = &[Resource::Nofile, Resource::Nproc, Resource::Sigpending];

/// Whether shutdown(2) of a listener ends every accept, so that the listener of a blocking loop may block.
pub const SHUTDOWN_WAKES_ACCEPT: bool = true;

/// The most processes whose memory is read. For more processes, a sample of at most this size is extrapolated.
const PROCESSES_READ_MAX: usize = 64;

/// The socket option for a datagram's destination (ip(7)).
pub(crate) const RECEIVE_DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The control message with the destination.
pub(crate) const DESTINATION_V4: libc::c_int = libc::IP_PKTINFO;
/// The position of the interface in that message.
pub(crate) const DESTINATION_V4_INTERFACE: std::ops::Range<usize> = 0..4;

/// Returns true without waiting: accept waits for connections, and ends when the server stops.
#[inline]
#[allow(clippy::unnecessary_wraps, reason = "on other systems this function waits, and may fail")]
pub(crate) fn may_accept(_listener: &OwnedFd, _stop: BorrowedFd<'_>, _counters: &Counters) -> io::Result<bool> {
    Ok(true)
}

/// Pins the calling thread, and threads that it creates later, to `cpus`; has no effect if `cpus` is empty.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    if cpus.iter().any(|&cpu| cpu >= CpuSet::MAX_CPU) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The CPUs that the calling thread may run on; empty if unknown.
pub fn cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Makes sleeps precise for the calling thread and threads that it creates. By default the kernel delays timers by up to 50 µs.
pub(crate) fn set_precise_sleep() {
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
}

#[derive(Debug, PartialEq)]
pub(crate) struct SchedulingPolicy {
    /// The policy, with the flag SCHED_RESET_ON_FORK.
    policy: libc::c_int,
    priority: libc::c_int,
}

/// Gives the calling thread priority over all serving threads; returns its previous policy. Returns `None`, and changes
/// nothing, without the permission or if the thread already has priority.
pub(crate) fn raise_priority() -> Option<SchedulingPolicy> {
    let SchedulingPolicy { policy, priority } = scheduling()?;
    let flag = policy & libc::SCHED_RESET_ON_FORK;
    let has_priority = matches!(policy ^ flag, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE);
    let before = SchedulingPolicy { policy, priority };
    let boosted = SchedulingPolicy { policy: libc::SCHED_FIFO | flag, priority: 1 };
    (!has_priority && set_scheduling(&boosted)).then_some(before)
}

/// Returns the calling thread's policy. Calls the kernel, whose `sched_param` is one number, because musl's functions only fail.
fn scheduling() -> Option<SchedulingPolicy> {
    let mut priority: libc::c_int = 0;
    // SAFETY: `priority` is valid during the calls.
    let (policy, result) = unsafe {
        (libc::syscall(libc::SYS_sched_getscheduler, 0), libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority))
    };
    (policy >= 0 && result == 0).then_some(SchedulingPolicy { policy: policy as libc::c_int, priority })
}

/// Sets the calling thread's policy; returns whether the kernel permits it.
pub(crate) fn set_scheduling(&SchedulingPolicy { policy, priority }: &SchedulingPolicy) -> bool {
    // SAFETY: `priority` is valid during the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// CPU time and switches of a living child; zeros if it has ended.
pub(crate) fn child_totals(pid: i32) -> Totals {
    let cpu_children_ns = cpu_ns(pid).unwrap_or(0);
    let (voluntary_switches, involuntary_switches) = switches(&format!("/proc/{pid}/status")).unwrap_or_default();
    Totals { cpu_children_ns, voluntary_switches, involuntary_switches, ..Totals::default() }
}

/// Voluntary and involuntary switches of the thread with the `status` file at `path`; `None` if the thread has ended.
pub(crate) fn switches(path: &str) -> Option<(u64, u64)> {
    let status = fs::read_to_string(path).ok()?;
    Some((field(&status, "voluntary_ctxt_switches:")?, field(&status, "nonvoluntary_ctxt_switches:")?))
}

/// The threads of a process; empty if it has ended.
pub(crate) fn threads_of(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A thread's number of runs, and the time that it was runnable and waited, in nanoseconds. `None` if the thread has ended, or
/// if the kernel does not report these figures.
pub(crate) fn run_delay((pid, thread): (i32, i32)) -> Option<(u64, u64)> {
    run_delay_of(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?)
}

/// Parses a `schedstat` file, which has the run time, the waiting time and the number of runs.
pub(crate) fn run_delay_of(schedstat: &str) -> Option<(u64, u64)> {
    let mut fields = schedstat.split_whitespace().skip(1).map(|field| field.parse().ok());
    let (waited_ns, runs) = (fields.next()??, fields.next()??);
    Some((runs, waited_ns))
}

/// The threads of this process, except the calling thread, and of its children in `workers`.
pub(crate) fn serving_threads(workers: &Workers) -> Vec<(i32, i32)> {
    let (own, caller) = (std::process::id() as i32, rustix::thread::gettid().as_raw_pid());
    let threads = threads_of(own).into_iter().filter(|thread| *thread != caller).map(|thread| (own, thread));
    // A child has one thread, whose id is its process id.
    threads.chain(workers.taken().filter_map(|slot| slot.process()).map(|pid| (pid, pid))).collect()
}

/// CPU time of a process in nanoseconds; `None` if it has ended.
pub(crate) fn cpu_ns(pid: i32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: the call fills in `clock`.
    let is_known = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) == 0 };
    if is_known { clock_ns(clock) } else { None }
}

/// The id of the calling thread, which is never 0.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

/// CPU time in nanoseconds of a thread of this process; `None` if it has ended.
pub(crate) fn thread_cpu_ns(thread: u32) -> Option<u64> {
    /// The bits of clock_getcpuclockid(3) for the CPU time of a single thread (CPUCLOCK_SCHED and CPUCLOCK_PERTHREAD_MASK).
    const THREAD_CLOCK: libc::clockid_t = 6;
    clock_ns(!(thread as libc::clockid_t) << 3 | THREAD_CLOCK)
}

/// The time of a clock in nanoseconds; `None` if there is no such clock.
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in `time`.
    let is_known = unsafe { libc::clock_gettime(clock, &raw mut time) == 0 };
    is_known.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// User memory of this process and its children, in bytes. Each process counts its share of a shared page.
pub(crate) fn memory_user_bytes(workers: &Workers) -> Option<u64> {
    let children: Vec<i32> = workers.taken().filter_map(|slot| slot.process()).collect();
    Some(proportional_bytes("self")? + memory_of_processes(&children)?)
}

/// User memory of `processes`, in bytes. Each process counts its share of a shared page. `None` if this process may not read
/// the memory of another user's process.
pub(crate) fn memory_of_processes(processes: &[i32]) -> Option<u64> {
    if processes.is_empty() {
        return Some(0);
    }
    let step = processes.len().div_ceil(PROCESSES_READ_MAX);
    let read = processes.iter().step_by(step).map(|pid| proportional_bytes(&pid.to_string()));
    let read: Vec<u64> = read.collect::<Option<_>>()?;
    Some(read.iter().sum::<u64>() * processes.len() as u64 / read.len() as u64)
}

fn proportional_bytes(process: &str) -> Option<u64> {
    let text = match fs::read_to_string(format!("/proc/{process}/smaps_rollup")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
        // A process that has ended has no memory.
        text => text.unwrap_or_default(),
    };
    Some(["Pss_Anon:", "Pss_Shmem:"].iter().filter_map(|name| field(&text, name)).sum::<u64>() * 1024)
}

/// The host's kernel memory in bytes: slab, kernel stacks, page tables and the buffers of TCP sockets.
pub(crate) fn memory_kernel_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = ["Slab:", "KernelStack:", "PageTables:"].iter().filter_map(|name| field(&meminfo, name)).sum();
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let buffer_pages = sockets
        .lines()
        .find_map(|line| line.strip_prefix("TCP:")?.rsplit_once("mem ")?.1.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Some(kib * 1024 + buffer_pages * rustix::param::page_size() as u64)
}

/// Datagrams dropped because a socket was full (SO_MEMINFO); `None` if the kernel does not report it.
pub(crate) fn dropped(socket: &OwnedFd) -> Option<u64> {
    /// The index of the drops (linux/sock_diag.h: SK_MEMINFO_DROPS).
    const DROPS: usize = 8;
    let mut figures = [0u32; DROPS + 1];
    let mut bytes = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `figures`, and their number into `bytes`.
    let result = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
        libc::getsockopt(socket.as_raw_fd(), level, name, figures.as_mut_ptr().cast(), &raw mut bytes)
    };
    (result == 0 && bytes as usize == size_of_val(&figures)).then(|| figures[DROPS].into())
}

/// Makes a blocking socket for datagrams.
pub(crate) fn datagram_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Checks whether the kernel can receive and send several datagrams at once, and, for `offload`, coalesce and segment them.
pub(crate) fn can_batch_datagrams(offload: bool) -> Result<(), String> {
    if !offload {
        return Ok(());
    }
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).map(OwnedFd::from);
    let tried = socket.and_then(|socket| {
        coalesce_datagrams(&socket)?;
        set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, &(0 as libc::c_int))
    });
    tried.map_err(|error| {
        format!(
            "the kernel cannot coalesce and segment datagrams ({error}); it needs Linux 5.0 or later; omit the offload"
        )
    })
}

/// Lets the kernel pass several datagrams of one peer as one message (udp(7), UDP_GRO).
pub(crate) fn coalesce_datagrams(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &(1 as libc::c_int))
}

/// The number after `name` in the line that begins with `name`.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::usage;

    #[test]
    fn fields_are_found_at_line_starts_only() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(field(text, "nonvoluntary_ctxt_switches:"), Some(7));
        assert_eq!(field(text, "absent:"), None);
    }

    #[test]
    fn incomplete_schedstat_has_no_run_delay() {
        assert_eq!(run_delay_of("94369 3848806 2\n"), Some((2, 3_848_806)));
        assert_eq!(run_delay_of("0 0 0\n"), Some((0, 0)), "a thread that never ran");
        assert_eq!(run_delay_of(""), None);
        assert_eq!(run_delay_of("1 2\n"), None);
    }

    #[test]
    fn kernel_reports_figures_of_this_process() {
        let mut sum = 0u64;
        while crate::platform::used_by(libc::RUSAGE_SELF).cpu_ns() < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_ns(std::process::id() as i32).unwrap() >= 1_000_000);
        assert!(proportional_bytes("self") > Some(0));
        assert!(memory_kernel_bytes().unwrap() > 0);
    }

    #[test]
    fn priority_boost_restores_the_scheduling_policy() {
        let reset = libc::SCHED_RESET_ON_FORK;
        let unprivileged = [(libc::SCHED_BATCH, 0), (libc::SCHED_IDLE, 0), (libc::SCHED_BATCH | reset, 0)];
        let privileged = [(libc::SCHED_FIFO, 50), (libc::SCHED_RR | reset, 7), (libc::SCHED_OTHER | reset, 0)];
        for (policy, priority) in unprivileged.into_iter().chain(privileged) {
            let thread = std::thread::spawn(move || {
                let before = SchedulingPolicy { policy, priority };
                if !set_scheduling(&before) {
                    return crate::skipped::skipped("scheduling policies that need root");
                }
                let boost = usage::PriorityBoost::start();
                assert!(priority <= scheduling().unwrap().priority, "a boost never lowers the priority");
                drop(boost);
                assert_eq!(scheduling(), Some(before));
            });
            thread.join().unwrap();
        }
    }
}
