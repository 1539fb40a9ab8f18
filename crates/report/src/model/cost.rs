//! The cost of a request by the server's own counters, and where these counters disagree with the kernel's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use server::ServerCounters;
use server::metrics::workers::comparable_kinds;
use stats::Distribution;

/// The cost of a request by the server's own counters, over the repeats of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostBreakdown {
    /// System calls a request, by kind; kinds that were not called are left out.
    pub syscalls_per_request: BTreeMap<String, f64>,
    /// The same as the kernel counted them; empty where it was not asked to (`--count-syscalls`).
    pub syscalls_outside_per_request: BTreeMap<String, f64>,
    /// Where the two counts do not agree; empty where one of them is not there.
    pub syscalls_differ: Vec<CountDifference>,
    /// Operations a request that the kernel was asked to do by itself, by kind; empty where the server does the I/O.
    pub operations_per_request: BTreeMap<String, f64>,
    /// Events that a wait reported, on average; `None` without waits.
    pub events_per_wait: Option<f64>,
    /// Bytes that a read, or a receive that the kernel completed, brought; `None` where they are not counted.
    pub bytes_per_read: Option<f64>,
    /// Voluntary context switches a request: the server had nothing to do, and had to be woken.
    pub voluntary_switches_per_request: f64,
    /// Involuntary context switches a request: something else was to run.
    pub involuntary_switches_per_request: f64,
    /// CPU time a request in user mode, in nanoseconds.
    pub cpu_user_ns_per_request: f64,
    /// CPU time a request in the kernel, in nanoseconds.
    pub cpu_system_ns_per_request: f64,
    /// CPU time a request that the kernel does not split: that of the processes of connections, in nanoseconds.
    pub cpu_children_ns_per_request: f64,
    /// CPU time a request of interrupts that the kernel charges to no process, in nanoseconds; `None` where those above have
    /// it, or it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts_ns_per_request: Option<f64>,
    /// Time a request in which threads of the server were runnable and waited for a CPU, in nanoseconds; `None` where that is
    /// not known.
    pub run_delay_ns_per_request: Option<f64>,
    /// The share of the tail (mean less median service time) that the wait for a CPU makes up, 1 at most.
    pub run_delay_share_of_tail: Option<f64>,
}

/// The share of the tail that the server's waits for a CPU are, of a mean wait a request, and the mean and the median of the
/// service time, all in nanoseconds; `None` without a tail.
///
/// The mean of a sum is the sum of means: the mean service time has the mean wait of a request in it, whatever the
/// distribution of either. The tail is what the mean exceeds the median by, to which slow requests add most. A percentile is
/// no sum, so that nothing follows from the waits for p99.
///
/// Two things make it a rough figure. Requests that queue inside a single loop behind one wait count that wait once, though
/// all of them bear it: for such a server the share is too small. A wait that every request has, which is in the median
/// already, makes it too large, at most to 1.
pub(crate) fn share_of_tail(run_delay_ns: f64, mean_ns: f64, p50_ns: f64) -> Option<f64> {
    let tail_ns = mean_ns - p50_ns;
    (tail_ns > 0.0).then(|| (run_delay_ns / tail_ns).min(1.0))
}

/// System calls of which the server's own count and the kernel's are not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountDifference {
    /// Their kind, or kinds that are compared as one.
    pub kinds: String,
    /// By the server's own count, a request.
    pub inside: f64,
    /// By the kernel's.
    pub outside: f64,
}

/// Counts that are as near to each other as this are the same, as a share of the larger...
pub(crate) const SAME_SHARE: f64 = 0.01;
/// ...or in calls a request: both are read one after the other, while the server goes on.
pub(crate) const SAME_PER_REQUEST: f64 = 0.01;

/// Where two counts a request of the same calls differ.
pub(crate) fn differences(inside: &BTreeMap<String, f64>, outside: &BTreeMap<String, f64>) -> Vec<CountDifference> {
    if inside.is_empty() || outside.is_empty() {
        return Vec::new();
    }
    let alike = comparable_kinds(inside.contains_key("wake"));
    // The kernel's count has futexes that no stage waits on: locks that somebody held.
    let apart = inside.keys().chain(outside.keys()).map(String::as_str);
    let apart: BTreeSet<&str> = apart.filter(|kind| !alike.contains(kind) && *kind != "wake").collect();
    let groups = apart.into_iter().map(|kind| vec![kind]).chain([alike.to_vec()]);
    let differences = groups.map(|kinds| {
        let sum =
            |counts: &BTreeMap<String, f64>| kinds.iter().filter_map(|kind| counts.get(*kind)).fold(0.0, |a, b| a + b);
        CountDifference { kinds: kinds.join("+"), inside: sum(inside), outside: sum(outside) }
    });
    let is_one = |difference: &CountDifference| {
        let (inside, outside) = (difference.inside, difference.outside);
        (inside - outside).abs() > SAME_PER_REQUEST.max(SAME_SHARE * inside.max(outside))
    };
    differences.filter(is_one).collect()
}

impl CostBreakdown {
    /// From the counters of some repeats, which answered so many requests; `None` when that is none.
    pub(crate) fn of(counters: &[&ServerCounters], requests: f64) -> Option<Self> {
        let sum = |figure: fn(&server::metrics::counters::Totals) -> u64| -> f64 {
            counters.iter().map(|counters| figure(&counters.totals)).sum::<u64>() as f64
        };
        let by_kind = |figure: fn(&server::metrics::counters::Totals) -> &BTreeMap<String, u64>| {
            let mut sums = BTreeMap::<String, f64>::new();
            for (kind, count) in counters.iter().flat_map(|counters| figure(&counters.totals)).filter(|(_, n)| **n > 0)
            {
                *sums.entry(kind.clone()).or_default() += *count as f64;
            }
            sums
        };
        if requests == 0.0 {
            return None;
        }
        let each =
            |sums: &BTreeMap<String, f64>| sums.iter().map(|(kind, sum)| (kind.clone(), sum / requests)).collect();
        let (syscalls, operations) = (by_kind(|totals| &totals.syscalls), by_kind(|totals| &totals.operations));
        let (inside, outside) = (each(&syscalls), each(&by_kind(|totals| &totals.syscalls_outside)));
        let reads = syscalls.get("read").or(by_kind(|totals| &totals.completions).get("receive")).copied();
        Some(Self {
            syscalls_differ: differences(&inside, &outside),
            syscalls_per_request: inside,
            syscalls_outside_per_request: outside,
            operations_per_request: each(&operations),
            events_per_wait: syscalls.get("wait").map(|waits| sum(|totals| totals.events.unwrap_or(0)) / waits),
            bytes_per_read: reads.map(|reads| sum(|totals| totals.bytes_in.unwrap_or(0)) / reads),
            voluntary_switches_per_request: sum(|totals| totals.voluntary_switches) / requests,
            involuntary_switches_per_request: sum(|totals| totals.involuntary_switches) / requests,
            cpu_user_ns_per_request: sum(|totals| totals.cpu_user_ns) / requests,
            cpu_system_ns_per_request: sum(|totals| totals.cpu_system_ns) / requests,
            cpu_children_ns_per_request: sum(|totals| totals.cpu_children_ns) / requests,
            interrupts_ns_per_request: counters
                .iter()
                .map(|counters| counters.interrupts_ns)
                .sum::<Option<u64>>()
                .map(|interrupts_ns| interrupts_ns as f64 / requests),
            run_delay_ns_per_request: counters
                .iter()
                .map(|counters| counters.totals.run_delay_ns)
                .sum::<Option<u64>>()
                .map(|run_delay_ns| run_delay_ns as f64 / requests),
            run_delay_share_of_tail: None,
        })
    }

    /// With what is said of the tail of the service times of the same repeats.
    pub(crate) fn with_tail(self, service: Option<&Distribution>) -> Self {
        let share = |run_delay_ns| service.and_then(|it| share_of_tail(run_delay_ns, it.mean_ns, it.p50_ns as f64));
        Self { run_delay_share_of_tail: self.run_delay_ns_per_request.and_then(share), ..self }
    }

    pub(crate) fn cpu_ns(&self) -> f64 {
        let own_ns = self.cpu_user_ns_per_request + self.cpu_system_ns_per_request + self.cpu_children_ns_per_request;
        own_ns + self.interrupts_ns_per_request.unwrap_or(0.0)
    }

    /// By the server's own count, or else the kernel's.
    pub(crate) fn syscalls_by_kind(&self) -> &BTreeMap<String, f64> {
        match self.syscalls_per_request.is_empty() {
            true => &self.syscalls_outside_per_request,
            false => &self.syscalls_per_request,
        }
    }

    /// `None` where nobody counts them.
    pub(crate) fn syscalls(&self) -> Option<f64> {
        let by_kind = self.syscalls_by_kind();
        (!by_kind.is_empty()).then(|| by_kind.values().sum())
    }
}
