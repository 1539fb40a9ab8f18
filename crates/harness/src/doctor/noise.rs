//! Measures the load of other programs on this host for about a second.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::host::ticks::Reading;

/// The time for which this process sleeps to measure how busy the CPUs are. The kernel counts in ticks of 1 to 10 ms.
const WINDOW: Duration = Duration::from_secs(1);

/// The duration of the measurement of pauses, on all CPUs at once.
const SPIN: Duration = Duration::from_millis(200);

/// The shortest gap between two clock readings that counts as a pause, unless the clock itself is slow.
const PAUSE_NS: u64 = 1_000;

/// The load of other programs. Plain data, so that tests can construct it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// The duration of both measurements together, in nanoseconds.
    pub window_ns: u64,
    /// The share of time in which each CPU was busy while this process slept.
    pub busy: Vec<(usize, f64)>,
    /// The share of CPU time that the hypervisor took during both measurements; it takes no time from idle CPUs.
    pub steal: Option<f64>,
    /// The share of CPU time that the hypervisor took since the host started.
    pub steal_since_boot: Option<f64>,
    /// The pauses of each CPU that this process may use.
    pub pauses: Vec<Pauses>,
}

/// The pauses of a thread that only reads the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pauses {
    /// The CPU of the thread.
    pub cpu: usize,
    /// The time for which the thread read the clock, in nanoseconds.
    pub spun_ns: u64,
    /// The longest pause, in nanoseconds.
    pub longest_ns: u64,
    /// The sum of all pauses, in nanoseconds.
    pub away_ns: u64,
    /// The number of preemptions by other threads. Interrupts or the hypervisor cause all other pauses.
    pub preempted: u64,
    /// The time of one clock reading, in nanoseconds.
    pub reading_ns: f64,
}

impl Pauses {
    /// Returns the share of time lost to pauses.
    pub fn share(&self) -> f64 {
        self.away_ns as f64 / self.spun_ns.max(1) as f64
    }
}

/// Measures the load of `cpus`.
pub fn measure(cpus: &[usize]) -> Noise {
    let started = Instant::now();
    let before = Reading::now();
    thread::sleep(WINDOW);
    let after = Reading::now();
    let busy_share = |cpu| before.until(&after, &[cpu]).map(|shares| (shares.used - shares.steal).max(0.0));
    let busy = cpus.iter().filter_map(|&cpu| Some((cpu, busy_share(cpu)?))).collect();
    let pauses = thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || spin(cpu))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()?).collect()
    });
    let (end, all) = (Reading::now(), before.cpus());
    Noise {
        window_ns: started.elapsed().as_nanos() as u64,
        busy,
        steal: before.until(&end, &all).map(|shares| shares.steal),
        steal_since_boot: end.since_boot(&all).map(|shares| shares.steal),
        pauses,
    }
}

/// Reads the clock on `cpu` for [`SPIN`]. `None` if this process may not use that CPU.
fn spin(cpu: usize) -> Option<Pauses> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()?;
    // A reading of a slow clock must not look like a pause.
    let reading = || Instant::now().elapsed().as_nanos() as u64;
    let pause_ns = (0..100).map(|_| reading()).min()?.saturating_mul(10).max(PAUSE_NS);
    let mut pauses = Pauses { cpu, ..Pauses::default() };
    let preempted = preemptions();
    let started = Instant::now();
    let (mut last_ns, mut readings) = (0, 0u64);
    while last_ns < SPIN.as_nanos() as u64 {
        let now_ns = started.elapsed().as_nanos() as u64;
        let gap_ns = now_ns - last_ns;
        if gap_ns > pause_ns {
            pauses.away_ns += gap_ns;
            pauses.longest_ns = pauses.longest_ns.max(gap_ns);
        }
        readings += 1;
        last_ns = now_ns;
    }
    pauses.spun_ns = last_ns;
    pauses.reading_ns = (last_ns - pauses.away_ns) as f64 / readings as f64;
    pauses.preempted = preemptions().saturating_sub(preempted);
    Some(pauses)
}

/// Returns the number of preemptions of this thread.
fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_noise_is_consistent() {
        let cpu = crate::host::detect().cores[0][0];
        let noise = measure(&[cpu]);
        assert!(noise.busy.iter().all(|(_, share)| (0.0..=1.0).contains(share)), "{noise:?}");
        let pauses = noise.pauses[0];
        assert_eq!(pauses.cpu, cpu);
        assert!(pauses.longest_ns <= pauses.away_ns && pauses.away_ns <= pauses.spun_ns, "{pauses:?}");
        assert!(pauses.spun_ns >= SPIN.as_nanos() as u64 && noise.window_ns >= WINDOW.as_nanos() as u64);
    }
}
