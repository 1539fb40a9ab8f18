//! A server's figures: cumulative snapshots, and the difference of two, which is a window.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The usage of the reading thread is read a moment after that of the process: CPU time may seem to step back by less than
/// this...
const CPU_TOLERANCE_NS: u64 = 10_000_000;
/// ...and switches by fewer than this.
const SWITCHES_TOLERANCE: u64 = 100;

/// Cumulative figures at one instant, over all the server's threads and children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Connections open now; for datagrams, ports.
    pub connections_open: u64,
    /// Threads and children that serve or wait for a connection; in a full pool, as many as connections. All threads of an
    /// external server.
    #[serde(default)]
    pub workers: u64,
    /// User memory of all processes, in bytes; `None` where the system does not report it.
    pub memory_user_bytes: Option<u64>,
    /// Kernel memory of the whole host (slab, kernel stacks, page tables, socket buffers), in bytes; likewise.
    pub memory_kernel_bytes: Option<u64>,
    /// The figures that only grow.
    pub totals: Totals,
}

/// Figures that only grow. Those that only the server can count are `None` for an external server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// Bytes sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Connections accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<u64>,
    /// Connections refused for lack of descriptors, processes, threads or room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Connections cut off because their clients took too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<u64>,
    /// Datagrams that were no requests; `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<u64>,
    /// Responses as datagrams that the kernel did not take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Datagrams dropped because a port's socket was full; `None` where the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Children that crashed or were killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashed: Option<u64>,
    /// Events that waits reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// System calls by kind: `accept`, `read`, `write`, `wait`, `control`, `close`, `spawn`, `rescan`, `wake`; empty if not
    /// counted.
    pub syscalls: BTreeMap<String, u64>,
    /// System calls by kind as the kernel counted them, with `other` for those of no kind; empty if not requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub syscalls_outside: BTreeMap<String, u64>,
    /// Operations requested of the kernel, by kind: `accept`, `receive`, `send`, `cancel`, `watch`; empty if the server does the
    /// I/O.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, u64>,
    /// Completions of these operations, by kind. A multishot operation has many.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub completions: BTreeMap<String, u64>,
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub cpu_system_ns: u64,
    /// CPU time of the connections' processes, in nanoseconds. The kernel splits CPU time into user and system by sampling; such
    /// a process sees too few ticks for the split to mean anything.
    pub cpu_children_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Time in which threads were runnable and waited for a CPU, in nanoseconds; `None` where the system does not report it.
    /// Threads that wait at once each count; the wait between a thread's last snapshot and its end is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

/// The bytes so far, over all threads and children. Costs two loads for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// The figures of a window, and the cost of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Connections open at its start.
    pub connections: u64,
    /// Threads and children that served or waited for a connection at its start.
    #[serde(default)]
    pub workers: u64,
    /// User memory per connection, in bytes, compared with the server before its first connection; `None` where the system does
    /// not report it.
    pub memory_user_bytes_per_connection: Option<f64>,
    /// The host's kernel memory per connection, likewise; on loopback both ends of a connection are in it.
    pub memory_kernel_bytes_per_connection: Option<f64>,
    /// The increase during the window.
    pub totals: Totals,
    /// CPU time of interrupts on the server's CPUs, in nanoseconds, if the kernel charges it to no process; `None` if it is in
    /// `totals` or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_ns: Option<u64>,
    /// Counts that were lower at the end than at the start, by name: they wrapped or were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fell: Vec<String>,
    /// For streams: the bytes so far at the edges of the client's window and in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
}

impl ServerCounters {
    /// Returns the window from `start` to `end`; `ready` was taken before the first connection.
    pub fn between(ready: &Snapshot, start: &Snapshot, end: &Snapshot) -> Self {
        let per_connection = |now: Option<u64>, before: Option<u64>| {
            Some((now? as f64 - before? as f64) / start.connections_open.max(1) as f64)
        };
        let mut fell = Vec::new();
        let totals = end.totals.since(&start.totals, &mut fell);
        if end.at_ns < start.at_ns {
            fell.push("time".to_owned());
        }
        Self {
            window_ns: end.at_ns.saturating_sub(start.at_ns),
            connections: start.connections_open,
            workers: start.workers,
            memory_user_bytes_per_connection: per_connection(start.memory_user_bytes, ready.memory_user_bytes),
            memory_kernel_bytes_per_connection: per_connection(start.memory_kernel_bytes, ready.memory_kernel_bytes),
            totals,
            interrupts_ns: None,
            fell,
            moved: Vec::new(),
        }
    }
}

impl ServerCounters {
    /// CPU time of serving, in nanoseconds: the server's own, and that of interrupts.
    pub fn cpu_ns(&self) -> u64 {
        self.totals.cpu_ns() + self.interrupts_ns.unwrap_or(0)
    }
}

impl Totals {
    /// CPU time of all threads and processes, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_user_ns + self.cpu_system_ns + self.cpu_children_ns
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// System calls of all kinds; `None` if not counted.
    pub fn syscalls(&self) -> Option<u64> {
        (!self.syscalls.is_empty()).then(|| self.syscalls.values().sum())
    }

    /// System calls of all kinds as the kernel counted them; `None` if not requested.
    pub fn syscalls_outside(&self) -> Option<u64> {
        (!self.syscalls_outside.is_empty()).then(|| self.syscalls_outside.values().sum())
    }

    /// Returns the increase since `earlier`. A count that fell adds nothing and is named in `fell`.
    fn since(&self, earlier: &Self, fell: &mut Vec<String>) -> Self {
        type Kinds = BTreeMap<String, u64>;
        let mut added = |name: &str, now: Option<u64>, before: Option<u64>| {
            let before = before.unwrap_or(0);
            // A count that is no longer known fell, too.
            if now.unwrap_or(0) < before {
                fell.push(name.to_owned());
            }
            Some(now?.saturating_sub(before))
        };
        let (now, before) = (self, earlier);
        let mut of_kinds = |what: &str, of: fn(&Self) -> &Kinds| -> Kinds {
            let kinds: BTreeSet<&String> = of(now).keys().chain(of(before).keys()).collect();
            let mut of_kind = |kind: &String| {
                let (now, before) = (of(now).get(kind).copied(), of(before).get(kind).copied());
                Some((kind.clone(), added(&format!("{what} {kind}"), now, before)?))
            };
            kinds.into_iter().filter_map(&mut of_kind).collect()
        };
        let syscalls = of_kinds("system calls", |it| &it.syscalls);
        let syscalls_outside = of_kinds("system calls outside", |it| &it.syscalls_outside);
        let operations = of_kinds("operations", |it| &it.operations);
        let completions = of_kinds("completions", |it| &it.completions);
        let totals = Self {
            requests: added("requests", now.requests, before.requests),
            bytes_in: added("bytes in", now.bytes_in, before.bytes_in),
            bytes_out: added("bytes out", now.bytes_out, before.bytes_out),
            accepted: added("accepted", now.accepted, before.accepted),
            refused: added("refused", now.refused, before.refused),
            timed_out: added("timed out", now.timed_out, before.timed_out),
            ignored: added("ignored", now.ignored, before.ignored),
            unsent: added("unsent", now.unsent, before.unsent),
            dropped: added("dropped", now.dropped, before.dropped),
            crashed: added("crashed", now.crashed, before.crashed),
            events: added("events", now.events, before.events),
            syscalls,
            syscalls_outside,
            operations,
            completions,
            // The kernel rescales its split into user and system at every read, so that one side may step back a little; see
            // below.
            cpu_user_ns: self.cpu_user_ns.saturating_sub(earlier.cpu_user_ns),
            cpu_system_ns: self.cpu_system_ns.saturating_sub(earlier.cpu_system_ns),
            cpu_children_ns: self.cpu_children_ns.saturating_sub(earlier.cpu_children_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            run_delay_ns: now.run_delay_ns.zip(before.run_delay_ns).map(|(now, before)| now.saturating_sub(before)),
        };
        // A killed child takes its own usage with it.
        if now.crashed.unwrap_or(0) <= before.crashed.unwrap_or(0) {
            if now.cpu_ns() + CPU_TOLERANCE_NS < before.cpu_ns() {
                fell.push("CPU time".to_owned());
            }
            if now.switches() + SWITCHES_TOLERANCE < before.switches() {
                fell.push("switches".to_owned());
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_ns: u64, requests: Option<u64>, reads: &[(&str, u64)]) -> Snapshot {
        let syscalls = reads.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        Snapshot { at_ns, totals: Totals { requests, syscalls, ..Totals::default() }, ..Snapshot::default() }
    }

    #[test]
    fn window_has_the_increase_of_every_counter() {
        let ready = Snapshot::default();
        let start = snapshot(1_000, Some(10), &[("read", 5)]);
        let counters = ServerCounters::between(&ready, &start, &snapshot(3_000, Some(25), &[("read", 7), ("wait", 1)]));
        assert_eq!((counters.window_ns, counters.totals.requests, counters.fell), (2_000, Some(15), Vec::new()));
        assert_eq!(counters.totals.syscalls.into_iter().collect::<Vec<_>>(), [("read".into(), 2), ("wait".into(), 1)]);
    }

    #[test]
    fn fallen_counter_is_named_and_adds_nothing() {
        let ready = Snapshot::default();
        let start = snapshot(1_000, Some(u64::MAX - 1), &[("read", 5), ("wait", 3)]);
        let counters = ServerCounters::between(&ready, &start, &snapshot(900, Some(7), &[("read", 4)]));
        assert_eq!((counters.window_ns, counters.totals.requests), (0, Some(0)));
        assert_eq!(counters.fell, ["system calls read", "system calls wait", "requests", "time"]);
        let gone = ServerCounters::between(&ready, &start, &snapshot(2_000, None, &[("read", 5), ("wait", 3)]));
        assert_eq!((gone.totals.requests, gone.fell), (None, vec!["requests".to_owned()]));
    }

    #[test]
    fn run_delay_unknown_at_either_edge_stays_unknown() {
        let of =
            |run_delay_ns| Snapshot { totals: Totals { run_delay_ns, ..Totals::default() }, ..Snapshot::default() };
        let added = |start, end| {
            let counters = ServerCounters::between(&Snapshot::default(), &of(start), &of(end));
            (counters.totals.run_delay_ns, counters.fell.len())
        };
        assert_eq!(added(Some(5), Some(12)), (Some(7), 0));
        assert_eq!(added(None, Some(12)), (None, 0));
        assert_eq!(added(Some(5), None), (None, 0));
    }

    #[test]
    fn cpu_time_and_switches_fall_as_sums() {
        let of = |[user, system, children]: [u64; 3], switches: [u64; 2], crashed: u64| Snapshot {
            totals: Totals {
                cpu_user_ns: user * 1_000_000,
                cpu_system_ns: system * 1_000_000,
                cpu_children_ns: children * 1_000_000,
                voluntary_switches: switches[0],
                involuntary_switches: switches[1],
                crashed: Some(crashed),
                ..Totals::default()
            },
            ..Snapshot::default()
        };
        let start = of([500, 500, 500], [1_000, 1_000], 3);
        let fell = |end: Snapshot| ServerCounters::between(&Snapshot::default(), &start, &end).fell;
        let none = Vec::<String>::new();
        assert_eq!(fell(start.clone()), none);
        assert_eq!(fell(of([900, 101, 500], [100, 1_900], 3)), none, "one side may step back");
        assert_eq!(fell(of([495, 500, 500], [950, 1_000], 3)), none, "and a look is not of one moment");
        assert_eq!(fell(of([500, 400, 500], [1_000, 1_000], 3)), ["CPU time"]);
        assert_eq!(fell(of([500, 500, 500], [1_000, 700], 3)), ["switches"]);
        assert_eq!(fell(of([500, 500, 0], [0, 700], 3)), ["CPU time", "switches"]);
        assert_eq!(fell(of([500, 500, 0], [0, 700], 4)), none, "a child that is killed takes its own with it");
    }
}
