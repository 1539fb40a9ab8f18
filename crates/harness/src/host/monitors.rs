//! The kernel's monitors of memory accesses (DAMON). Their threads `kdamond` work in bursts of 1 to 2 ms, behind which requests wait.

use std::fs;

use load::time::clock::monotonic_ns;

/// The CPU time of the monitors at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// The moment on CLOCK_MONOTONIC, in nanoseconds.
    at_ns: u64,
    /// The CPU time of all monitors so far, in nanoseconds; `None` if none is visible.
    cpu_ns: Option<u64>,
}

impl Reading {
    /// Reads the times now.
    pub(crate) fn now() -> Self {
        // The children of kthreadd are the kernel's threads, which every user sees.
        let threads = fs::read_to_string("/proc/2/task/2/children").unwrap_or_default();
        let of = |thread: &str| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{thread}/{file}")).ok();
            read("comm").filter(|name| name.starts_with("kdamond")).and_then(|_| cpu_ns(&read("schedstat")?))
        };
        Self { at_ns: monotonic_ns(), cpu_ns: threads.split_whitespace().filter_map(of).reduce(|a, b| a + b) }
    }

    /// Returns the share of the time until `later` in which monitors ran; `None` if none is visible.
    pub(crate) fn share_until(&self, later: &Self) -> Option<f64> {
        let ran_ns = later.cpu_ns?.saturating_sub(self.cpu_ns?);
        Some(ran_ns as f64 / later.at_ns.saturating_sub(self.at_ns).max(1) as f64)
    }
}

/// The run time of a thread from its `schedstat` file, in nanoseconds.
fn cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_monitors_is_that_between_two_readings() {
        let reading = |at_ns, cpu_ns| Reading { at_ns, cpu_ns };
        assert_eq!(reading(1_000, Some(50)).share_until(&reading(2_000, Some(54))), Some(0.004));
        assert_eq!(reading(1_000, None).share_until(&reading(2_000, Some(54))), None);
        assert_eq!(cpu_ns("1395936770 375185852 820\n"), Some(1_395_936_770));
        assert_eq!(cpu_ns(""), None);
        assert!(Reading::now().share_until(&Reading::now()).is_none_or(|share| share <= 1.0));
    }
}
