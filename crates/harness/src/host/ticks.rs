//! CPU times from /proc/stat, in kernel ticks of 1 to 10 ms.

use std::fs;

use load::time::clock::monotonic_ns;

use crate::host::interrupts::{self, Accounting};

/// The times of one CPU since the host started, in ticks.
///
/// Omits user, nice and system time. Most kernels sample these at clock ticks, so a timer in step with the ticks
/// distorts them. They showed 0.12 of a CPU for a thread that used 0.37 of it in pieces of 1 ms. Idle time is
/// exact (kernel/time/tick-sched.c), unless the kernel was started with `nohz=off`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    cpu: usize,
    /// Idle time, including waits for a disk.
    idle: u64,
    /// Time in hard and soft interrupts.
    interrupts: u64,
    /// Time that the hypervisor gave to other guests.
    steal: u64,
}

impl Ticks {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        // The line of all CPUs together has no number.
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [_user, _nice, _system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        Some(Self { cpu, idle: idle + iowait, interrupts: irq + softirq, steal })
    }
}

/// The times of all CPUs at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The moment on CLOCK_MONOTONIC, in nanoseconds.
    at_ns: u64,
    cpus: Vec<Ticks>,
}

/// Mean shares of the time of CPUs, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    /// Time that was not idle, including stolen time.
    pub(crate) used: f64,
    /// Time in interrupts, part of `used`.
    pub(crate) interrupts: f64,
    /// Time that the hypervisor took, part of `used`.
    pub(crate) steal: f64,
}

impl Reading {
    /// Reads the times now. Without /proc/stat, the reading has no CPUs.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::of(&text, monotonic_ns())
    }

    fn of(text: &str, at_ns: u64) -> Self {
        Self { at_ns, cpus: text.lines().filter_map(Ticks::parse).collect() }
    }

    /// Returns the CPUs of this reading.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn cpus(&self) -> Vec<usize> {
        self.cpus.iter().map(|ticks| ticks.cpu).collect()
    }

    /// Returns the shares of `cpus` since the host started. `None` if the reading lacks one of them.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn since_boot(&self, cpus: &[usize]) -> Option<Shares> {
        let none = |cpu: &usize| Ticks { cpu: *cpu, idle: 0, interrupts: 0, steal: 0 };
        Self { at_ns: 0, cpus: cpus.iter().map(none).collect() }.until(self, cpus)
    }

    /// The utilisation of these CPUs by all programs from this reading to a later one, without interrupts that the kernel
    /// charges to no process. `None` if the kernel tells neither.
    pub fn used_until(&self, later: &Self, cpus: &[usize]) -> Option<f64> {
        Some(self.until(later, cpus)?.taken_by_others(0.0, interrupts::accounting()?))
    }

    /// Returns the shares of `cpus` from this reading to `later`. `None` if a reading lacks one of them.
    pub(crate) fn until(&self, later: &Self, cpus: &[usize]) -> Option<Shares> {
        let ticks = later.at_ns.checked_sub(self.at_ns)? as f64 / 1e9 * rustix::param::clock_ticks_per_second() as f64;
        if cpus.is_empty() || ticks <= 0.0 {
            return None;
        }
        let mut sum = Shares::default();
        for &cpu in cpus {
            let of = |reading: &Self| reading.cpus.iter().find(|ticks| ticks.cpu == cpu).copied();
            let (before, after) = (of(self)?, of(later)?);
            // The kernel's counts can decrease slightly.
            let share = |before: u64, after: u64| (after.saturating_sub(before) as f64 / ticks).min(1.0);
            sum.used += 1.0 - share(before.idle, after.idle);
            sum.interrupts += share(before.interrupts, after.interrupts);
            sum.steal += share(before.steal, after.steal);
        }
        let mean = |sum: f64| sum / cpus.len() as f64;
        Some(Shares { used: mean(sum.used), interrupts: mean(sum.interrupts), steal: mean(sum.steal) })
    }
}

impl Shares {
    /// Returns the share of time that other processes took. `ours` is the share that our process used, by its own CPU
    /// time.
    ///
    /// The result depends on the kernel's accounting of interrupts:
    ///
    /// - Charged to the interrupted process: `ours` includes those during our process. Interrupts of an idle CPU and
    ///   ksoftirqd count as taken by others.
    /// - Charged to no process: all interrupts count as ours, so those of a neighbour are missed.
    ///
    /// Stolen time is never ours. Without CONFIG_PARAVIRT_TIME_ACCOUNTING, the kernel charges it to the process that
    /// had to wait. The true share is then at least the stolen share, and at most the result plus the stolen share.
    pub(crate) fn taken_by_others(&self, ours: f64, accounting: Accounting) -> f64 {
        (self.used - self.charged_to_nobody(accounting) - ours).max(self.steal)
    }

    /// Returns the share of interrupts that no process's CPU time includes.
    pub(crate) fn charged_to_nobody(&self, accounting: Accounting) -> f64 {
        match accounting {
            Accounting::Charged => 0.0,
            Accounting::Apart => self.interrupts,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    use super::*;

    /// Parses the rows of /proc/stat, read `seconds` after the host started.
    fn reading(seconds: u64, rows: &str) -> Reading {
        Reading::of(rows, seconds * 1_000_000_000)
    }

    fn is_near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-9
    }

    #[test]
    fn proc_stat_lines_are_read() {
        let line = "cpu1 10 20 30 400 5 6 7 8 9 10";
        assert_eq!(Ticks::parse(line), Some(Ticks { cpu: 1, idle: 405, interrupts: 13, steal: 8 }));
        assert_eq!(Ticks::parse("cpu  1 1 1 1 1 1 1 1 0 0"), None, "the line of all CPUs together is skipped");
        assert_eq!(Ticks::parse("intr 1 2 3"), None);
        assert_eq!(Ticks::parse("cpu0 1 2"), None);
    }

    #[test]
    fn shares_come_from_idle_time_not_from_sampled_columns() {
        let ticks = rustix::param::clock_ticks_per_second();
        let before = reading(10, "cpu  7 0 7 100 0 0 0 0 0 0\ncpu0 7 0 7 100 0 0 0 0 0 0\ncpu1 0 0 0 9 0 0 0 0 0 0");
        // In 10 s, CPU 0 was idle for 6 s, but the sampled columns count only 1 s of busy time.
        let text = format!(
            "cpu0 {} 0 7 {} {} 0 {} {} 0 0\ncpu1 0 0 0 {} 0 0 0 0 0 0",
            7 + ticks,
            100 + 5 * ticks,
            ticks,
            ticks / 2,
            ticks,
            9 + 10 * ticks
        );
        let after = reading(20, &text);
        let one = before.until(&after, &[0]).unwrap();
        assert!(is_near(one.used, 0.4) && is_near(one.interrupts, 0.05) && is_near(one.steal, 0.1), "{one:?}");
        let both = before.until(&after, &[0, 1]).unwrap();
        assert!(is_near(both.used, 0.2) && is_near(both.steal, 0.05), "{both:?}");
        assert_eq!(before.until(&after, &[7]), None, "an unknown CPU has no shares");
        assert_eq!(before.until(&after, &[]), None);
        assert_eq!(after.until(&after, &[0]), None, "an empty interval has no shares");
        assert_eq!((after.cpus(), before.cpus()), (vec![0, 1], vec![0, 1]));
        assert!(is_near(after.since_boot(&[0]).unwrap().steal, 0.05));
    }

    #[test]
    fn interrupts_are_subtracted_once_on_either_kernel() {
        // A neighbour took 0.333. The server took 0.3, and its softirqs another 0.1.
        let shares = Shares { used: 0.733, interrupts: 0.1, steal: 0.0 };
        assert!(is_near(shares.taken_by_others(0.4, Accounting::Charged), 0.333));
        assert!(is_near(shares.taken_by_others(0.3, Accounting::Apart), 0.333));
        assert!(is_near(shares.charged_to_nobody(Accounting::Charged), 0.0));
        assert!(is_near(shares.charged_to_nobody(Accounting::Apart), 0.1));
    }

    #[test]
    fn stolen_time_counts_as_taken_by_others() {
        let shares = Shares { used: 0.6, interrupts: 0.0, steal: 0.1 };
        assert!(
            is_near(shares.taken_by_others(0.5, Accounting::Charged), 0.1),
            "stolen time was not charged to the server"
        );
        assert!(
            is_near(shares.taken_by_others(0.6, Accounting::Charged), 0.1),
            "stolen time was charged to the server"
        );
        assert!(is_near(shares.taken_by_others(0.2, Accounting::Charged), 0.4));
        assert_eq!(Shares::default().taken_by_others(0.01, Accounting::Apart), 0.0, "a share is never negative");
    }

    /// Returns the CPU time of the calling thread, in nanoseconds.
    fn thread_cpu_ns() -> u64 {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
    }

    /// Runs `work` on `cpu` for `piece_us` of CPU time in each period, until `is_over`. Returns the CPU time in
    /// nanoseconds.
    fn in_pieces(cpu: usize, [piece_us, period_us]: [u64; 2], is_over: &AtomicBool, mut work: impl FnMut()) -> u64 {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).unwrap();
        let before = thread_cpu_ns();
        while !is_over.load(Relaxed) {
            let (began, began_ns) = (Instant::now(), thread_cpu_ns());
            while thread_cpu_ns() - began_ns < 1_000 * piece_us {
                work();
            }
            std::thread::sleep(Duration::from_micros(period_us).saturating_sub(began.elapsed()));
        }
        thread_cpu_ns() - before
    }

    /// Runs `server` beside a neighbour that uses a third of the CPU. Returns the shares of the server and of the
    /// neighbour by their CPU time, and the share that other processes took according to /proc/stat.
    fn beside_a_neighbour(server: impl FnOnce(usize, &AtomicBool) -> u64 + Send) -> [f64; 3] {
        let cpu = crate::host::detect().cores[0][0];
        let accounting = crate::host::interrupts::accounting().expect("the kernel's accounting is known");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| server(cpu, &is_over));
            let neighbour = scope.spawn(|| in_pieces(cpu, [333, 1_000], &is_over, || ()));
            let (started, before) = (Instant::now(), Reading::now());
            std::thread::sleep(Duration::from_secs(3));
            let (after, window_ns) = (Reading::now(), started.elapsed().as_nanos() as f64);
            is_over.store(true, Relaxed);
            let [ours, theirs] = [server, neighbour].map(|it| it.join().unwrap() as f64 / window_ns);
            [ours, theirs, before.until(&after, &[cpu]).unwrap().taken_by_others(ours, accounting)]
        })
    }

    #[test]
    fn neighbour_of_busy_network_server_is_measured() {
        let [ours, theirs, taken] = beside_a_neighbour(|cpu, is_over| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            let mut bytes = [0; 64];
            in_pieces(cpu, [1_000, 0], is_over, || {
                for _ in 0..32 {
                    socket.send(&bytes).unwrap();
                    socket.recv(&mut bytes).unwrap();
                }
            })
        });
        // The server never sleeps, so other processes took all remaining time.
        assert!((taken - (1.0 - ours)).abs() < 0.04, "taken {taken:.3}, server {ours:.3}, neighbour {theirs:.3}");
        assert!(taken > theirs - 0.04, "taken {taken:.3}, neighbour {theirs:.3}");
    }

    #[test]
    fn neighbour_of_idle_server_is_measured() {
        let [_, theirs, taken] = beside_a_neighbour(|_, _| 0);
        // Processes besides the neighbour may take CPU time too.
        assert!(taken > theirs - 0.04, "taken {taken:.3}, neighbour {theirs:.3}");
    }
}
