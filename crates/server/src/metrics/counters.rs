//! A server's figures: cumulative snapshots, and the difference of two of them for a window.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Smaller falls of usage are ignored: the process's usage and the reading thread's, which is subtracted, are read in turn.
const CPU_TOLERANCE_NS: u64 = 10_000_000;
const SWITCHES_TOLERANCE: u64 = 100;

/// Cumulative figures at one instant, over all threads and children of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Connections that are open; for datagrams, ports.
    pub connections_open: u64,
    /// Threads and children that serve or wait for a connection; for an external server, all its threads.
    pub workers: u64,
    /// User memory of all processes, in bytes; `None` where the system does not report it.
    pub memory_user_bytes: Option<u64>,
    /// Kernel memory of the whole host (slab, kernel stacks, page tables, socket buffers), in bytes; `None` where the system
    /// does not report it.
    pub memory_kernel_bytes: Option<u64>,
    /// The most jobs that a payload thread takes at once; `None` if it takes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_jobs: Option<u64>,
    /// Requests that admission control admits per second; `None` while it admits all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_per_s: Option<u64>,
    /// The figures of each network thread, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_threads: Vec<ThreadFigures>,
    /// The figures that only grow.
    pub totals: Totals,
}

/// The figures of a network thread. All but the connections only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that the thread got.
    pub assigned: u64,
    /// CPU time in nanoseconds; `None` where the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
}

impl ThreadFigures {
    /// The increase since `before`, with the connections of `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            connections: before.connections,
            assigned: self.assigned.saturating_sub(before.assigned),
            cpu_ns: self.cpu_ns.zip(before.cpu_ns).map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// Defines [`Totals`] and the increase of each of its figures.
macro_rules! totals {
    (
        counts { $($(#[$count_doc:meta])* $count:ident,)* }
        kinds { $($(#[$kinds_doc:meta])* $kinds:ident $kinds_name:literal,)* }
        usage { $($(#[$usage_doc:meta])* $usage:ident,)* }
    ) => {
        /// Figures that only grow. For an external server, the figures that only the server itself can count are `None`.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct Totals {
            $($(#[$count_doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $count: Option<u64>,)*
            /// System calls by kind (`accept`, `read`, `write`, `wait`, `control`, `close`, `spawn`, `rescan`, `wake`), if
            /// counted.
            pub syscalls: BTreeMap<String, u64>,
            $($(#[$kinds_doc])*
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            pub $kinds: BTreeMap<String, u64>,)*
            $($(#[$usage_doc])*
            pub $usage: u64,)*
            /// Time in which threads were runnable and waited for a CPU, in nanoseconds, summed over the threads; `None` where
            /// the system does not report it. The time between a thread's last snapshot and its end is missing.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub run_delay_ns: Option<u64>,
        }

        impl Totals {
            /// Returns the increase since `before`. A count that fell adds nothing and is named in `fell`.
            fn since(&self, before: &Self, fell: &mut Vec<String>) -> Self {
                let totals = Self {
                    syscalls: kinds_since("system calls", &self.syscalls, &before.syscalls, fell),
                    $($kinds: kinds_since($kinds_name, &self.$kinds, &before.$kinds, fell),)*
                    $($count: count_since(&stringify!($count).replace('_', " "), self.$count, before.$count, fell),)*
                    // Check only the sums, below: the kernel estimates anew at each read how they split into user and system.
                    $($usage: self.$usage.saturating_sub(before.$usage),)*
                    run_delay_ns: self.run_delay_ns.zip(before.run_delay_ns).map(|(now, before)| now.saturating_sub(before)),
                };
                // The kernel loses the usage of a killed child.
                if self.crashed.unwrap_or(0) <= before.crashed.unwrap_or(0) {
                    if self.cpu_ns() + CPU_TOLERANCE_NS < before.cpu_ns() {
                        fell.push("CPU time".to_owned());
                    }
                    if self.switches() + SWITCHES_TOLERANCE < before.switches() {
                        fell.push("switches".to_owned());
                    }
                }
                totals
            }
        }
    };
}

totals! {
    counts {
        /// Requests completed.
        requests,
        /// Bytes received.
        bytes_in,
        /// Bytes sent.
        bytes_out,
        /// Connections accepted.
        accepted,
        /// Connections refused for lack of descriptors, processes, threads or room.
        refused,
        /// Requests that admission control rejected; `None` without it.
        rejected,
        /// Connections closed because their clients exceeded a time limit.
        timed_out,
        /// Connections whose TLS failed: an invalid handshake or record, or an alert of the client; `None` without TLS.
        tls_failed,
        /// Datagrams without a valid request; `None` for other services.
        ignored,
        /// Response datagrams that the kernel rejected.
        unsent,
        /// Datagrams dropped because a port's socket was full; `None` where the system does not report it.
        dropped,
        /// Connections that waited for the end of a stall, once for each stall; `None` without stalls.
        hung,
        /// CPU time in which the workers reported their state and chose eligible workers, in nanoseconds; `None` unless they do.
        steering_ns,
        /// CPU time of the kernel's program that steers connections, in nanoseconds; `None` without a program, or without the
        /// permission to measure it.
        steering_program_ns,
        /// Children that crashed or were killed.
        crashed,
        /// Events that waits reported.
        events,
    }
    kinds {
        /// System calls by kind as the kernel counted them, with `other` for calls of no kind; empty if not requested.
        syscalls_outside "system calls outside",
        /// Operations requested of the kernel, by kind: `accept`, `receive`, `send`, `cancel`, `watch`, `register`; empty if the
        /// server does the I/O.
        operations "operations",
        /// Completions of these operations, by kind. A multishot operation may have several.
        completions "completions",
    }
    usage {
        /// CPU time in user mode, in nanoseconds.
        cpu_user_ns,
        /// CPU time in the kernel, in nanoseconds.
        cpu_system_ns,
        /// CPU time of the server's children, in nanoseconds. The kernel splits CPU time into user and system by sampling, and
        /// a child may run too briefly for a meaningful split.
        cpu_children_ns,
        /// Voluntary context switches.
        voluntary_switches,
        /// Involuntary context switches.
        involuntary_switches,
    }
}

/// The increase of a count. A count that fell or is no longer known is named in `fell`.
fn count_since(name: &str, now: Option<u64>, before: Option<u64>, fell: &mut Vec<String>) -> Option<u64> {
    let before = before.unwrap_or(0);
    if now.unwrap_or(0) < before {
        fell.push(name.to_owned());
    }
    Some(now?.saturating_sub(before))
}

type Kinds = BTreeMap<String, u64>;

fn kinds_since(name: &str, now: &Kinds, before: &Kinds, fell: &mut Vec<String>) -> Kinds {
    let kinds: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let added = |kind: &String| {
        let (now, before) = (now.get(kind).copied(), before.get(kind).copied());
        Some((kind.clone(), count_since(&format!("{name} {kind}"), now, before, fell)?))
    };
    kinds.into_iter().filter_map(added).collect()
}

/// The bytes so far, over all threads and children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// The figures of a window, and the cost of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCounters {
    /// Length of the window, in nanoseconds; in an interleaved trial, the time in which the contestant was active.
    pub window_ns: u64,
    /// Connections open at the start of the window.
    pub connections: u64,
    /// Threads and children that served or waited for a connection at the start of the window.
    pub workers: u64,
    /// The figures of each network thread, if there are several: connections open at the start of the window, and the increase of
    /// the other figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_threads: Vec<ThreadFigures>,
    /// User memory per connection, in bytes, above that of the server before its first connection; `None` where the system does
    /// not report it.
    pub memory_user_bytes_per_connection: Option<f64>,
    /// The host's kernel memory per connection, in bytes, above that before the first one; on loopback it covers both ends.
    pub memory_kernel_bytes_per_connection: Option<f64>,
    /// The increase during the window.
    pub totals: Totals,
    /// CPU time of interrupts on the server's CPUs, in nanoseconds; `None` if unknown, or if the kernel charges it to
    /// processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_ns: Option<u64>,
    /// The names of counts that were lower at the end than at the start, because they wrapped or were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fell: Vec<String>,
    /// For streams: the bytes so far, at the edges of the client's window and at several times in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
}

impl ServerCounters {
    /// Returns the window from `start` to `end`; `ready` was taken before the first connection. Memory is that of `connected`,
    /// which was taken after the last connection, or else that of `start`.
    pub fn between(ready: &Snapshot, connected: Option<&Snapshot>, start: &Snapshot, end: &Snapshot) -> Self {
        let connected = connected.unwrap_or(start);
        let per_connection = |now: Option<u64>, before: Option<u64>| {
            Some((now? as f64 - before? as f64) / connected.connections_open.max(1) as f64)
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
            network_threads: end
                .network_threads
                .iter()
                .zip(&start.network_threads)
                .map(|(end, start)| end.since(start))
                .collect(),
            memory_user_bytes_per_connection: per_connection(connected.memory_user_bytes, ready.memory_user_bytes),
            memory_kernel_bytes_per_connection: per_connection(
                connected.memory_kernel_bytes,
                ready.memory_kernel_bytes,
            ),
            totals,
            interrupts_ns: None,
            fell,
            moved: Vec::new(),
        }
    }

    /// CPU time of the server and of interrupts on its CPUs, in nanoseconds.
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
        let counters =
            ServerCounters::between(&ready, None, &start, &snapshot(3_000, Some(25), &[("read", 7), ("wait", 1)]));
        assert_eq!((counters.window_ns, counters.totals.requests, counters.fell), (2_000, Some(15), Vec::new()));
        assert_eq!(counters.totals.syscalls.into_iter().collect::<Vec<_>>(), [("read".into(), 2), ("wait".into(), 1)]);
    }

    #[test]
    fn fallen_counter_is_named_and_adds_nothing() {
        let ready = Snapshot::default();
        let start = snapshot(1_000, Some(u64::MAX - 1), &[("read", 5), ("wait", 3)]);
        let counters = ServerCounters::between(&ready, None, &start, &snapshot(900, Some(7), &[("read", 4)]));
        assert_eq!((counters.window_ns, counters.totals.requests), (0, Some(0)));
        assert_eq!(counters.fell, ["system calls read", "system calls wait", "requests", "time"]);
        let gone = ServerCounters::between(&ready, None, &start, &snapshot(2_000, None, &[("read", 5), ("wait", 3)]));
        assert_eq!((gone.totals.requests, gone.fell), (None, vec!["requests".to_owned()]));
    }

    #[test]
    fn run_delay_unknown_at_either_edge_stays_unknown() {
        let snapshot =
            |run_delay_ns| Snapshot { totals: Totals { run_delay_ns, ..Totals::default() }, ..Snapshot::default() };
        let added = |start, end| {
            let counters = ServerCounters::between(&Snapshot::default(), None, &snapshot(start), &snapshot(end));
            (counters.totals.run_delay_ns, counters.fell.len())
        };
        assert_eq!(added(Some(5), Some(12)), (Some(7), 0));
        assert_eq!(added(None, Some(12)), (None, 0));
        assert_eq!(added(Some(5), None), (None, 0));
    }

    #[test]
    fn only_sums_of_cpu_time_and_switches_are_checked() {
        let snapshot = |[user, system, children]: [u64; 3], switches: [u64; 2], crashed: u64| Snapshot {
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
        let start = snapshot([500, 500, 500], [1_000, 1_000], 3);
        let fell = |end: Snapshot| ServerCounters::between(&Snapshot::default(), None, &start, &end).fell;
        let none = Vec::<String>::new();
        assert_eq!(fell(start.clone()), none);
        assert_eq!(fell(snapshot([900, 101, 500], [100, 1_900], 3)), none, "one part of a sum may fall");
        assert_eq!(fell(snapshot([495, 500, 500], [950, 1_000], 3)), none, "a fall within the tolerances is ignored");
        assert_eq!(fell(snapshot([500, 400, 500], [1_000, 1_000], 3)), ["CPU time"]);
        assert_eq!(fell(snapshot([500, 500, 500], [1_000, 700], 3)), ["switches"]);
        assert_eq!(fell(snapshot([500, 500, 0], [0, 700], 3)), ["CPU time", "switches"]);
        assert_eq!(fell(snapshot([500, 500, 0], [0, 700], 4)), none, "a killed child takes its usage with it");
    }
}
