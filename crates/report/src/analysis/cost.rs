//! The cost of a request by the server's own counters, and differences between its counts and the kernel's counts.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use server::ServerCounters;
use server::metrics::comparable_kinds;
use server::metrics::counters::Totals;
use stats::Distribution;

use crate::format;

/// A cost in which two architectures may differ: its name, its value, the smallest difference that the report mentions,
/// and its format.
type CostTerm = (&'static str, fn(&CostBreakdown) -> Option<f64>, f64, fn(f64) -> String);

const COSTS: &[CostTerm] = &[
    ("CPU time per request", |it| Some(it.cpu_ns()), 1_000.0, format::time),
    ("system calls per request", CostBreakdown::syscalls, 0.3, format::digits),
    ("events per wait", |it| it.events_per_wait, 1.0, format::digits),
    ("wake-ups per request", |it| Some(it.voluntary_switches_per_request), 0.2, format::digits),
    ("involuntary switches per request", |it| Some(it.involuntary_switches_per_request), 0.1, format::digits),
];

/// The cost of a request by the server's own counters, over the repeats of a row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostBreakdown {
    /// System calls per request by kind, without kinds that were never called.
    pub(crate) syscalls_per_request: BTreeMap<String, f64>,
    /// System calls per request as the kernel counted them; empty without `--count-syscalls`.
    pub(crate) syscalls_outside_per_request: BTreeMap<String, f64>,
    /// Kinds for which these two counts differ; empty if either count is missing.
    pub(crate) syscalls_differ: Vec<CountDifference>,
    /// I/O operations per request that the server submitted to the kernel, by kind; empty if the server does the I/O
    /// itself.
    pub(crate) operations_per_request: BTreeMap<String, f64>,
    /// Mean number of events per wait; `None` without waits.
    pub(crate) events_per_wait: Option<f64>,
    /// Mean bytes per read, or per receive that the kernel completed; `None` if they are not counted.
    pub(crate) bytes_per_read: Option<f64>,
    /// Mean datagrams per system call or operation that receives, empty receives included; `None` for other services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) datagrams_per_read: Option<f64>,
    /// Mean responses per system call or operation that sends; `None` for other services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) datagrams_per_write: Option<f64>,
    /// Voluntary context switches per request: the server had nothing to do and slept.
    pub(crate) voluntary_switches_per_request: f64,
    /// Involuntary context switches per request: the scheduler ran another thread.
    pub(crate) involuntary_switches_per_request: f64,
    pub(crate) cpu_user_ns_per_request: f64,
    pub(crate) cpu_system_ns_per_request: f64,
    /// CPU time per request of the processes that serve connections, in nanoseconds; not split into user and kernel.
    pub(crate) cpu_children_ns_per_request: f64,
    /// CPU time per request of interrupts that the kernel charges to no process, in nanoseconds. `None` if the times
    /// above include it, or if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupts_ns_per_request: Option<f64>,
    /// Time per request in which server threads were runnable and waited for a CPU, in nanoseconds; `None` if
    /// unknown.
    pub(crate) run_delay_ns_per_request: Option<f64>,
    /// The share of the tail (mean minus median service time) that waiting for a CPU explains, at most 1; `None` if unknown, and if the waits exceed the tail.
    pub(crate) run_delay_share_of_tail: Option<f64>,
}

/// Returns the share of the tail (mean minus median service time) that the server's waits for a CPU explain; `None` without a tail, and
/// if the waits exceed it: the median then includes waits, or threads waited that no request needed. Means add up, unlike percentiles: the mean service time includes the mean wait per request.
///
/// The share is rough. It is too small if requests queue in one event loop, because their common wait counts once.
pub(crate) fn share_of_tail(run_delay_ns: f64, mean_ns: f64, p50_ns: f64) -> Option<f64> {
    let tail_ns = mean_ns - p50_ns;
    (tail_ns > 0.0 && run_delay_ns <= tail_ns).then(|| run_delay_ns / tail_ns)
}

/// A kind of system call for which the server's count and the kernel's count differ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountDifference {
    pub(crate) kinds: String,
    pub(crate) inside: f64,
    pub(crate) outside: f64,
}

/// Two counts agree if they differ by at most this share of the larger count.
pub(crate) const SAME_SHARE: f64 = 0.01;
/// Two counts agree if they differ by at most this many calls per request: calls occur between the two readings.
pub(crate) const SAME_PER_REQUEST: f64 = 0.01;

/// Returns the kinds for which two counts per request differ.
pub(crate) fn differences(inside: &BTreeMap<String, f64>, outside: &BTreeMap<String, f64>) -> Vec<CountDifference> {
    if inside.is_empty() || outside.is_empty() {
        return Vec::new();
    }
    let merged = comparable_kinds(inside.contains_key("wake"));
    let kinds = inside.keys().chain(outside.keys()).map(String::as_str);
    // Do not compare wakes on their own: the kernel's count also includes futex calls of contended locks.
    let single: BTreeSet<&str> = kinds.filter(|kind| !merged.contains(kind) && *kind != "wake").collect();
    let groups = single.into_iter().map(|kind| vec![kind]).chain([merged.to_vec()]);
    let differences = groups.map(|kinds| {
        let sum =
            |counts: &BTreeMap<String, f64>| kinds.iter().filter_map(|kind| counts.get(*kind)).fold(0.0, |a, b| a + b);
        CountDifference { kinds: kinds.join("+"), inside: sum(inside), outside: sum(outside) }
    });
    let is_large = |CountDifference { inside, outside, .. }: &CountDifference| {
        (inside - outside).abs() > SAME_PER_REQUEST.max(SAME_SHARE * inside.max(*outside))
    };
    differences.filter(is_large).collect()
}

impl CostBreakdown {
    /// Computes costs from the counters of repeats; `None` if `requests`, the total of answered requests, is 0.
    pub(crate) fn of(counters: &[&ServerCounters], requests: f64) -> Option<Self> {
        let sum = |figure: fn(&Totals) -> u64| -> f64 {
            counters.iter().map(|counters| figure(&counters.totals)).sum::<u64>() as f64
        };
        let known = |figure: fn(&ServerCounters) -> Option<u64>| {
            let sum = counters.iter().map(|counters| figure(counters)).sum::<Option<u64>>();
            sum.map(|sum| sum as f64 / requests)
        };
        let by_kind = |figure: fn(&Totals) -> &BTreeMap<String, u64>| {
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
        let completions = by_kind(|totals| &totals.completions);
        let calls = |kind, operation| syscalls.get(kind).or(completions.get(operation)).copied();
        let (reads, writes) = (calls("read", "receive"), calls("write", "send"));
        let has_datagrams = counters.iter().all(|counters| counters.totals.ignored.is_some());
        let per_call =
            |calls: Option<f64>, datagrams: f64| calls.filter(|_| has_datagrams).map(|calls| datagrams / calls);
        let answered = sum(|totals| totals.requests.unwrap_or(0));
        Some(Self {
            syscalls_differ: differences(&inside, &outside),
            syscalls_per_request: inside,
            syscalls_outside_per_request: outside,
            operations_per_request: each(&operations),
            events_per_wait: syscalls.get("wait").map(|waits| sum(|totals| totals.events.unwrap_or(0)) / waits),
            bytes_per_read: reads.map(|reads| sum(|totals| totals.bytes_in.unwrap_or(0)) / reads),
            datagrams_per_read: per_call(reads, answered + sum(|totals| totals.ignored.unwrap_or(0))),
            datagrams_per_write: per_call(writes, answered),
            voluntary_switches_per_request: sum(|totals| totals.voluntary_switches) / requests,
            involuntary_switches_per_request: sum(|totals| totals.involuntary_switches) / requests,
            cpu_user_ns_per_request: sum(|totals| totals.cpu_user_ns) / requests,
            cpu_system_ns_per_request: sum(|totals| totals.cpu_system_ns) / requests,
            cpu_children_ns_per_request: sum(|totals| totals.cpu_children_ns) / requests,
            interrupts_ns_per_request: known(|counters| counters.interrupts_ns),
            run_delay_ns_per_request: known(|counters| counters.totals.run_delay_ns),
            run_delay_share_of_tail: None,
        })
    }

    /// Adds the share of the tail that waits for a CPU explain. `service` covers the same repeats.
    pub(crate) fn with_tail(self, service: Option<&Distribution>) -> Self {
        let share = |run_delay_ns| service.and_then(|it| share_of_tail(run_delay_ns, it.mean_ns, it.p50_ns as f64));
        Self { run_delay_share_of_tail: self.run_delay_ns_per_request.and_then(share), ..self }
    }

    pub(crate) fn cpu_ns(&self) -> f64 {
        let own_ns = self.cpu_user_ns_per_request + self.cpu_system_ns_per_request + self.cpu_children_ns_per_request;
        own_ns + self.interrupts_ns_per_request.unwrap_or(0.0)
    }

    /// Returns the server's count of system calls, or the kernel's count if the server has none.
    pub(crate) fn syscalls_by_kind(&self) -> &BTreeMap<String, f64> {
        match self.syscalls_per_request.is_empty() {
            true => &self.syscalls_outside_per_request,
            false => &self.syscalls_per_request,
        }
    }

    /// Returns system calls per request; `None` if they are not counted.
    pub(crate) fn syscalls(&self) -> Option<f64> {
        let by_kind = self.syscalls_by_kind();
        (!by_kind.is_empty()).then(|| by_kind.values().sum())
    }

    /// Returns the cost with the largest ratio to that of the best server; `None` without a notable difference.
    pub(crate) fn main_difference(&self, best: &Self) -> Option<String> {
        let differences = COSTS.iter().filter_map(|(name, figure, difference_min, shown)| {
            let (value, best) = (figure(self)?, figure(best)?);
            // Bound the ratio if a value is near 0.
            let floor = difference_min / 30.0;
            let ratio = (value.max(floor) / best.max(floor)).ln().abs();
            let words = format!("{name}: {} against {}", shown(value), shown(best));
            ((value - best).abs() >= *difference_min).then_some((ratio, words))
        });
        Some(differences.max_by(|a, b| a.0.total_cmp(&b.0))?.1)
    }
}
