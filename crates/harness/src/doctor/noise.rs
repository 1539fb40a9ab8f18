//! Listens, for a second or so, to what this host does besides us.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::host::ticks::Reading;

/// How long we sleep while the load of others is measured. The kernel counts in ticks of 1 to 10 ms.
const WINDOW: Duration = Duration::from_secs(1);

/// How long each CPU is watched for pauses, all at once.
const SPIN: Duration = Duration::from_millis(200);

/// A gap between two readings of the clock from which on it is a pause, if the clock is not slow itself.
const PAUSE_NS: u64 = 1_000;

/// What was heard. Plain data, so that tests can make it up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// How long it was listened.
    pub window_ns: u64,
    /// Each CPU with the share of time in which something ran on it while we slept.
    pub busy: Vec<(usize, f64)>,
    /// Share of the CPUs' time that the hypervisor took, in the window, spinning included: none is stolen of idle time.
    pub steal: Option<f64>,
    /// The same since the host was started.
    pub steal_since_boot: Option<f64>,
    /// Pauses of each CPU that could be watched.
    pub pauses: Vec<Pauses>,
}

/// What a thread that does nothing but read the clock misses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pauses {
    /// The CPU it ran on.
    pub cpu: usize,
    /// How long it did.
    pub spun_ns: u64,
    /// The longest time it did not run.
    pub longest_ns: u64,
    /// All such times together.
    pub away_ns: u64,
    /// How often another thread ran in its place; other pauses are interrupts, or the hypervisor's.
    pub preempted: u64,
    /// What a reading of the clock takes.
    pub reading_ns: f64,
}

impl Pauses {
    /// Share of the time taken away.
    pub fn share(&self) -> f64 {
        self.away_ns as f64 / self.spun_ns.max(1) as f64
    }
}

/// Listens on `cpus`.
pub fn measure(cpus: &[usize]) -> Noise {
    let started = Instant::now();
    let before = Reading::now();
    thread::sleep(WINDOW);
    let after = Reading::now();
    let busy = cpus.iter().filter_map(|&cpu| {
        let shares = before.until(&after, &[cpu])?;
        Some((cpu, (shares.used - shares.steal).max(0.0)))
    });
    let busy = busy.collect();
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

/// Reads the clock on `cpu` until the time is over; nothing when the CPU is not to be had.
fn spin(cpu: usize) -> Option<Pauses> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()?;
    // A clock that takes a microsecond itself must not look like a pause.
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

/// How often this thread had to give its CPU to another.
fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_adds_up() {
        let cpu = crate::host::detect().cores[0][0];
        let noise = measure(&[cpu]);
        assert!(noise.busy.iter().all(|(_, share)| (0.0..=1.0).contains(share)), "{noise:?}");
        let pauses = noise.pauses[0];
        assert_eq!(pauses.cpu, cpu);
        assert!(pauses.longest_ns <= pauses.away_ns && pauses.away_ns <= pauses.spun_ns, "{pauses:?}");
        assert!(pauses.spun_ns >= SPIN.as_nanos() as u64 && noise.window_ns >= WINDOW.as_nanos() as u64);
    }
}
