//! The kernel's account of each CPU's time (/proc/stat), in its ticks of 1 to 10 ms.

use std::fs;

/// A CPU's time, or all CPUs' together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Which one; all of them without.
    pub(crate) cpu: Option<usize>,
    /// Something ran, interrupts included.
    pub(crate) busy: u64,
    /// Of that, interrupts.
    pub(crate) interrupts: u64,
    /// The hypervisor ran something else.
    pub(crate) steal: u64,
    /// All time.
    pub(crate) all: u64,
}

impl Ticks {
    /// Of each CPU and of all together; none where the kernel does not say.
    pub(crate) fn read() -> Vec<Self> {
        fs::read_to_string("/proc/stat").unwrap_or_default().lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_prefix("cpu")?;
        let cpu = if name.is_empty() { None } else { Some(name.parse().ok()?) };
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // A guest's time, which follows, is counted in user and nice already.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        let interrupts = irq + softirq;
        let busy = user + nice + system + interrupts;
        Some(Self { cpu, busy, interrupts, steal, all: busy + idle + iowait + steal })
    }

    /// What was added after `earlier`. The kernel's counts may go back a little.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu,
            busy: self.busy.saturating_sub(earlier.busy),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            steal: self.steal.saturating_sub(earlier.steal),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

/// The share of `cpus`' time, between two readings, that neither stood idle nor went to interrupts nor to a process of
/// ours, which used `ours` of it: what others took. `None` where the kernel does not say.
pub(crate) fn taken_by_others(before: &[Ticks], after: &[Ticks], cpus: &[usize], ours: f64) -> Option<f64> {
    let (mut taken, mut all) = (0, 0);
    for &cpu in cpus {
        let of = |ticks: &[Ticks]| ticks.iter().find(|row| row.cpu == Some(cpu)).copied();
        let window = of(after)?.since(of(before)?);
        taken += window.busy - window.interrupts.min(window.busy) + window.steal;
        all += window.all;
    }
    (all > 0).then(|| (taken as f64 / all as f64 - ours).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_account_is_read() {
        let line = "cpu1 10 20 30 400 5 6 7 8 9 10";
        assert_eq!(Ticks::parse(line), Some(Ticks { cpu: Some(1), busy: 73, interrupts: 13, steal: 8, all: 486 }));
        assert_eq!(Ticks::parse("cpu  1 1 1 1 1 1 1 1 0 0").unwrap().cpu, None);
        assert_eq!(Ticks::parse("intr 1 2 3"), None);
        assert_eq!(Ticks::parse("cpu0 1 2"), None);
    }

    #[test]
    fn others_have_what_is_not_ours() {
        let of = |cpu, busy, interrupts, steal, all| Ticks { cpu: Some(cpu), busy, interrupts, steal, all };
        let before = [of(0, 100, 10, 0, 1_000), of(1, 0, 0, 0, 1_000)];
        let after = [of(0, 180, 20, 10, 1_100), of(1, 0, 0, 0, 1_100)];
        // Of CPU 0: 80 busy, 10 of them interrupts, 10 stolen; of 100.
        let taken = |cpus: &[usize], ours| taken_by_others(&before, &after, cpus, ours);
        assert!((taken(&[0], 0.3).unwrap() - 0.5).abs() < 1e-9);
        assert!((taken(&[0, 1], 0.3).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(taken(&[0], 0.9), Some(0.0), "the ticks are coarser than our own account");
        assert_eq!(taken(&[7], 0.0), None);
    }
}
