//! CPU time and context switches, as the kernel accounts them.

use std::marker::PhantomData;

use crate::metrics::counters::Totals;
use crate::metrics::workers::Workers;
use crate::platform;

/// Runs the calling thread at a higher priority than serving threads, until dropped. On a CPU with hundreds of busy processes it
/// would run so seldom that figures read one after the other would be of different times. Without the permission it has no
/// effect.
#[derive(Debug)]
pub struct PriorityBoost {
    /// The policy before; `None` if nothing was changed.
    before: Option<platform::SchedulingPolicy>,
    /// Not `Send`: it belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl PriorityBoost {
    /// Raises the priority.
    pub fn start() -> Self {
        Self { before: platform::raise_priority(), _thread: PhantomData }
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        self.before.as_ref().map(platform::set_scheduling);
    }
}

/// CPU time and switches of this process, including ended threads.
pub fn process_totals() -> Totals {
    platform::used_by(libc::RUSAGE_SELF)
}

/// User and system time of a process without those of one of its threads. The sums are exact, and so is their difference; the
/// kernel estimates each split, so that a thread may seem to exceed its process in one part.
fn cpu_without(process: &Totals, thread: &Totals) -> (u64, u64) {
    let left_ns = process.cpu_ns().saturating_sub(thread.cpu_ns());
    let user_ns = process.cpu_user_ns.saturating_sub(thread.cpu_user_ns).min(left_ns);
    (user_ns, left_ns - user_ns)
}

/// Adds the usage of this process and its children, without the calling thread: it does not serve, and reading thousands of
/// children costs more than the requests of a small window.
pub fn add_process_totals(totals: &mut Totals, workers: &Workers) {
    let (own, asking) = (process_totals(), platform::thread_totals());
    let (user_ns, system_ns) = cpu_without(&own, &asking);
    totals.cpu_user_ns += user_ns;
    totals.cpu_system_ns += system_ns;
    totals.voluntary_switches += own.voluntary_switches.saturating_sub(asking.voluntary_switches);
    totals.involuntary_switches += own.involuntary_switches.saturating_sub(asking.involuntary_switches);
    let reaped = workers.reaped();
    add_children(totals, &reaped);
    workers.processes().into_iter().for_each(|pid| add_children(totals, &platform::child_totals(pid)));
}

/// Adds the usage of children.
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
        let of = |cpu_user_ns, cpu_system_ns| Totals { cpu_user_ns, cpu_system_ns, ..Totals::default() };
        assert_eq!(cpu_without(&of(50, 30), &of(20, 10)), (30, 20));
        assert_eq!(cpu_without(&of(5, 15), &of(10, 8)), (0, 2));
        assert_eq!(cpu_without(&of(15, 5), &of(8, 10)), (2, 0));
        assert_eq!(cpu_without(&of(1, 1), &of(2, 2)), (0, 0));
    }
}
