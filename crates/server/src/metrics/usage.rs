//! CPU time and context switches, as the kernel reports them.

use std::marker::PhantomData;

use crate::metrics::counters::{ThreadFigures, Totals};
use crate::metrics::workers::{Slot, Workers};
use crate::platform;

/// Gives the calling thread priority over serving threads until dropped. Without it, among hundreds of busy processes, a long
/// time could pass between two readings of one snapshot. Has no effect without the permission. Not `Send`.
#[derive(Debug)]
pub struct PriorityBoost(Option<platform::SchedulingPolicy>, PhantomData<*const ()>);

impl PriorityBoost {
    /// Raises the priority.
    pub fn start() -> Self {
        Self(platform::raise_priority(), PhantomData)
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        self.0.as_ref().map(platform::set_scheduling);
    }
}

/// User and system time of a process without one of its threads. The kernel estimates how each total splits into user and
/// system time. So one part of a thread may exceed the same part of its process.
fn cpu_without(process: &Totals, thread: &Totals) -> (u64, u64) {
    let left_ns = process.cpu_ns().saturating_sub(thread.cpu_ns());
    let user_ns = process.cpu_user_ns.saturating_sub(thread.cpu_user_ns).min(left_ns);
    (user_ns, left_ns - user_ns)
}

/// Adds the usage of this process and its children, without the calling thread: that thread does not serve, and its readings of
/// thousands of children can cost more than all requests of a window.
pub fn add_process_totals(totals: &mut Totals, workers: &Workers) {
    let (own, caller) = (platform::used_by(libc::RUSAGE_SELF), platform::thread_totals());
    let (user_ns, system_ns) = cpu_without(&own, &caller);
    totals.cpu_user_ns += user_ns;
    totals.cpu_system_ns += system_ns;
    totals.voluntary_switches += own.voluntary_switches.saturating_sub(caller.voluntary_switches);
    totals.involuntary_switches += own.involuntary_switches.saturating_sub(caller.involuntary_switches);
    let reaped = workers.reaped();
    add_children(totals, &reaped);
    workers.processes().into_iter().for_each(|pid| add_children(totals, &platform::child_totals(pid)));
}

/// The figures of each network thread; empty unless there are several.
pub fn network_threads(workers: &Workers) -> Vec<ThreadFigures> {
    let figures = |slot: &Slot| {
        let counters = &slot.counters;
        let thread = counters.network_thread()?;
        // Read `assigned` last, so that the difference is never negative.
        let ended = counters.ended.get();
        let assigned = counters.assigned.get();
        let connections = assigned.saturating_sub(ended);
        Some(ThreadFigures { connections, assigned, cpu_ns: platform::thread_cpu_ns(thread) })
    };
    let threads: Vec<_> = workers.taken().filter_map(figures).collect();
    if threads.len() > 1 { threads } else { Vec::new() }
}

pub(crate) fn add_children(totals: &mut Totals, used: &Totals) {
    totals.cpu_children_ns += used.cpu_children_ns;
    totals.voluntary_switches += used.voluntary_switches;
    totals.involuntary_switches += used.involuntary_switches;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_time_without_a_thread_is_exact_for_any_split() {
        let totals = |cpu_user_ns, cpu_system_ns| Totals { cpu_user_ns, cpu_system_ns, ..Totals::default() };
        assert_eq!(cpu_without(&totals(50, 30), &totals(20, 10)), (30, 20));
        assert_eq!(cpu_without(&totals(5, 15), &totals(10, 8)), (0, 2));
        assert_eq!(cpu_without(&totals(15, 5), &totals(8, 10)), (2, 0));
        assert_eq!(cpu_without(&totals(1, 1), &totals(2, 2)), (0, 0));
    }
}
