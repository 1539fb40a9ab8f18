//! CPU time and context switches, as the kernel accounts them.

use std::marker::PhantomData;

use crate::metrics::counters::Totals;
use crate::metrics::workers::Workers;
use crate::platform;

/// Lets the calling thread go before all that serve, until dropped. On a CPU that hundreds of processes keep busy its
/// turn would come so seldom that figures read one after the other would be of different times. Where it is not
/// permitted, it takes its turn.
#[derive(Debug)]
pub struct PriorityBoost {
    /// How it took its turn before; `None` where nothing was changed.
    before: Option<platform::SchedulingPolicy>,
    /// It is of a thread, and stays there.
    _thread: PhantomData<*const ()>,
}

impl PriorityBoost {
    /// From now on.
    pub fn new() -> Self {
        Self { before: platform::raise_priority(), _thread: PhantomData }
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        self.before.as_ref().map(platform::set_scheduling);
    }
}

/// CPU time and switches of this process, threads that ended included.
pub fn process_totals() -> Totals {
    platform::used_by(libc::RUSAGE_SELF)
}

/// CPU time of a process in user mode and in the kernel, without that of a thread of it. The sums are exact, and so is what is
/// left of them; each split into user and system is the kernel's guess, and a thread may seem to have more of one than all have.
fn cpu_without(process: &Totals, thread: &Totals) -> (u64, u64) {
    let left_ns = process.cpu_ns().saturating_sub(thread.cpu_ns());
    let user_ns = process.cpu_user_ns.saturating_sub(thread.cpu_user_ns).min(left_ns);
    (user_ns, left_ns - user_ns)
}

/// Adds to `totals` what the kernel knows of this process and of its children. What the calling thread used
/// is left out: it asks, and does not serve, and to ask thousands of children costs more than a small window's requests.
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

/// Adds to `totals` what children used.
pub(crate) fn add_children(totals: &mut Totals, used: &Totals) {
    totals.cpu_children_ns += used.cpu_children_ns;
    totals.voluntary_switches += used.voluntary_switches;
    totals.involuntary_switches += used.involuntary_switches;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_process_is_exact_however_the_kernel_splits_it() {
        let of = |cpu_user_ns, cpu_system_ns| Totals { cpu_user_ns, cpu_system_ns, ..Totals::default() };
        assert_eq!(cpu_without(&of(50, 30), &of(20, 10)), (30, 20));
        assert_eq!(cpu_without(&of(5, 15), &of(10, 8)), (0, 2));
        assert_eq!(cpu_without(&of(15, 5), &of(8, 10)), (2, 0));
        assert_eq!(cpu_without(&of(1, 1), &of(2, 2)), (0, 0));
    }
}
