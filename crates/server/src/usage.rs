//! CPU time, context switches and memory, as the kernel accounts them.

use std::fs;
use std::mem::MaybeUninit;

use crate::counters::Totals;
use crate::workers::Workers;

/// Most processes whose memory is read one by one; of more, as many are read, evenly spread, and the rest reckoned.
const CHILDREN_READ_MAX: usize = 64;

/// Lets the calling thread go before all that serve, until dropped. On a CPU that hundreds of processes keep busy its
/// turn would come so seldom that figures read one after the other would be of different times. Where it is not
/// permitted, it takes its turn.
#[derive(Debug)]
pub struct Precedence(());

impl Precedence {
    /// From now on.
    pub fn take() -> Self {
        set_scheduler(libc::SCHED_FIFO, 1);
        Self(())
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        set_scheduler(libc::SCHED_OTHER, 0);
    }
}

fn set_scheduler(policy: libc::c_int, sched_priority: libc::c_int) {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: of the calling thread; `parameters` lives across the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
}

/// CPU time and switches of this process, threads that ended included.
pub fn of_this_process() -> Totals {
    used_by(libc::RUSAGE_SELF)
}

fn used_by(who: libc::c_int) -> Totals {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills in `usage`; with these arguments it cannot fail.
    totals_of(&unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    })
}

/// CPU time and switches, as the kernel has them.
pub(crate) fn totals_of(usage: &libc::rusage) -> Totals {
    let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Totals {
        cpu_user_ns: nanoseconds(usage.ru_utime),
        cpu_system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        ..Totals::default()
    }
}

/// Adds to `totals` what the kernel knows of this process and of its children that live. What the calling thread used
/// is left out: it asks, and does not serve, and to ask thousands of children costs more than a small window's requests.
pub fn add_to(totals: &mut Totals, workers: &Workers) {
    let (own, asking) = (of_this_process(), used_by(libc::RUSAGE_THREAD));
    totals.cpu_user_ns += own.cpu_user_ns.saturating_sub(asking.cpu_user_ns);
    totals.cpu_system_ns += own.cpu_system_ns.saturating_sub(asking.cpu_system_ns);
    totals.voluntary_switches += own.voluntary_switches.saturating_sub(asking.voluntary_switches);
    totals.involuntary_switches += own.involuntary_switches.saturating_sub(asking.involuntary_switches);
    for pid in workers.taken().filter_map(|slot| slot.process()) {
        totals.cpu_children_ns += cpu_ns(pid).unwrap_or(0);
        let (voluntary, involuntary) = switches(&format!("/proc/{pid}/status")).unwrap_or_default();
        totals.voluntary_switches += voluntary;
        totals.involuntary_switches += involuntary;
    }
}

/// Voluntary and involuntary context switches of the thread whose `status` is at `path`; `None` when it has gone.
pub(crate) fn switches(path: &str) -> Option<(u64, u64)> {
    let status = fs::read_to_string(path).ok()?;
    Some((field(&status, "voluntary_ctxt_switches:")?, field(&status, "nonvoluntary_ctxt_switches:")?))
}

/// CPU time of another process, to the nanosecond; `None` when it has gone.
pub(crate) fn cpu_ns(pid: i32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: the C library fills in `clock`.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in `time`.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// User memory of this process and its children, in bytes, shared pages divided among those that share them.
pub fn memory_user_bytes(workers: &Workers) -> u64 {
    let children: Vec<i32> = workers.taken().filter_map(|slot| slot.process()).collect();
    proportional_bytes("self") + memory_user_bytes_of(&children)
}

/// User memory of these processes, in bytes, likewise.
pub(crate) fn memory_user_bytes_of(processes: &[i32]) -> u64 {
    if processes.is_empty() {
        return 0;
    }
    let step = processes.len().div_ceil(CHILDREN_READ_MAX);
    let read: Vec<u64> = processes.iter().step_by(step).map(|pid| proportional_bytes(&pid.to_string())).collect();
    read.iter().sum::<u64>() * processes.len() as u64 / read.len() as u64
}

fn proportional_bytes(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    ["Pss_Anon:", "Pss_Shmem:"].iter().filter_map(|name| field(&text, name)).sum::<u64>() * 1024
}

/// The host's kernel memory in bytes: slab, kernel stacks, page tables and the buffers of TCP sockets.
pub fn memory_kernel_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = ["Slab:", "KernelStack:", "PageTables:"].iter().filter_map(|name| field(&meminfo, name)).sum();
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let buffer_pages = sockets
        .lines()
        .find_map(|line| line.strip_prefix("TCP:")?.rsplit_once("mem ")?.1.trim().parse::<u64>().ok())
        .unwrap_or(0);
    kib * 1024 + buffer_pages * rustix::param::page_size() as u64
}

/// The number after `name` at the beginning of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_at_line_starts_only() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(field(text, "nonvoluntary_ctxt_switches:"), Some(7));
        assert_eq!(field(text, "absent:"), None);
    }

    #[test]
    fn the_kernel_answers_for_this_process() {
        let mut sum = 0u64;
        while of_this_process().cpu_ns() < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_ns(std::process::id() as i32).unwrap() >= 1_000_000);
        assert!(proportional_bytes("self") > 0);
        assert!(memory_kernel_bytes() > 0);
    }
}
