//! What the server says of itself: cumulative snapshots, and the difference of two, which is a window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Cumulative figures at one instant, over all the server's threads and children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Connections open now; of a service of datagrams, its ports.
    pub connections_open: u64,
    /// Threads and children that serve now or wait for a connection; in a pool that is full, as many as connections. Of a
    /// server that is not ours, all its threads.
    #[serde(default)]
    pub workers: u64,
    /// User memory of all processes together, in bytes; `None` where the system does not say.
    pub memory_user_bytes: Option<u64>,
    /// Kernel memory of the whole host (slab, kernel stacks, page tables, socket buffers), in bytes; likewise.
    pub memory_kernel_bytes: Option<u64>,
    /// Everything that only grows.
    pub totals: Totals,
}

/// Figures that only grow. What only the server itself can count is `None` of one that is not ours.
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
    /// Connections turned away for want of descriptors, processes, threads or room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Connections cut off because their clients took too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<u64>,
    /// Datagrams that were no requests, and not answered; `None` of other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<u64>,
    /// Responses that the kernel did not take, of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Datagrams for which the kernel had no room in a port's socket; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Children that crashed, or that somebody else killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashed: Option<u64>,
    /// Events that waits reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// System calls by kind: `accept`, `read`, `write`, `wait`, `control`, `close`, `spawn`, `rescan`, `wake`; empty where they
    /// are not counted.
    pub syscalls: BTreeMap<String, u64>,
    /// System calls by kind as the kernel counted them, `other` being those of no kind; empty where it was not asked to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub syscalls_outside: BTreeMap<String, u64>,
    /// Operations that the kernel was asked to do, by kind: `accept`, `receive`, `send`, `cancel`, `watch`; empty where
    /// we do the I/O.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, u64>,
    /// Completions of these, by kind. An operation that goes on, as a multishot receive does, has many.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub completions: BTreeMap<String, u64>,
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub cpu_system_ns: u64,
    /// CPU time of the processes of connections, in nanoseconds. The kernel splits a process's time into user and
    /// system by sampling at its clock tick, and such a process sees too few ticks for the split to mean anything.
    pub cpu_children_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// What had gone by an instant, over all the server's threads and children: it costs two loads for each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// What the server did in a window, and what its connections cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Connections open at its start.
    pub connections: u64,
    /// Threads and children that served then or waited for a connection.
    #[serde(default)]
    pub workers: u64,
    /// User memory per connection, in bytes, against the server before its first connection; `None` where the
    /// system does not say.
    pub memory_user_bytes_per_connection: Option<f64>,
    /// The host's kernel memory per connection likewise; on loopback both ends of a connection are in it.
    pub memory_kernel_bytes_per_connection: Option<f64>,
    /// What was added during the window.
    pub totals: Totals,
    /// Of streams, what had gone at the edges of the client's window and in between, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
}

impl ServerCounters {
    /// The window from `start` to `end`; `ready` was taken before the first connection.
    pub fn between(ready: &Snapshot, start: &Snapshot, end: &Snapshot) -> Self {
        let per_connection = |now: Option<u64>, before: Option<u64>| {
            Some((now? as f64 - before? as f64) / start.connections_open.max(1) as f64)
        };
        Self {
            window_ns: end.at_ns - start.at_ns,
            connections: start.connections_open,
            workers: start.workers,
            memory_user_bytes_per_connection: per_connection(start.memory_user_bytes, ready.memory_user_bytes),
            memory_kernel_bytes_per_connection: per_connection(start.memory_kernel_bytes, ready.memory_kernel_bytes),
            totals: end.totals.since(&start.totals),
            moved: Vec::new(),
        }
    }
}

impl Totals {
    /// CPU time of everything the server is, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_user_ns + self.cpu_system_ns + self.cpu_children_ns
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// System calls of all kinds; `None` where they are not counted.
    pub fn syscalls(&self) -> Option<u64> {
        (!self.syscalls.is_empty()).then(|| self.syscalls.values().sum())
    }

    /// System calls of all kinds as the kernel counted them; `None` where it was not asked to.
    pub fn syscalls_outside(&self) -> Option<u64> {
        (!self.syscalls_outside.is_empty()).then(|| self.syscalls_outside.values().sum())
    }

    /// What was added after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        let by_kind = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            now.iter().map(|(kind, count)| (kind.clone(), count - before.get(kind).copied().unwrap_or(0))).collect()
        };
        let added = |now: Option<u64>, before: Option<u64>| Some(now? - before.unwrap_or(0));
        Self {
            requests: added(self.requests, earlier.requests),
            bytes_in: added(self.bytes_in, earlier.bytes_in),
            bytes_out: added(self.bytes_out, earlier.bytes_out),
            accepted: added(self.accepted, earlier.accepted),
            refused: added(self.refused, earlier.refused),
            timed_out: added(self.timed_out, earlier.timed_out),
            ignored: added(self.ignored, earlier.ignored),
            unsent: added(self.unsent, earlier.unsent),
            dropped: added(self.dropped, earlier.dropped),
            crashed: added(self.crashed, earlier.crashed),
            events: added(self.events, earlier.events),
            syscalls: by_kind(&self.syscalls, &earlier.syscalls),
            syscalls_outside: by_kind(&self.syscalls_outside, &earlier.syscalls_outside),
            operations: by_kind(&self.operations, &earlier.operations),
            completions: by_kind(&self.completions, &earlier.completions),
            // The kernel's split into user and system is scaled anew at every look, and one side may step back a little.
            cpu_user_ns: self.cpu_user_ns.saturating_sub(earlier.cpu_user_ns),
            cpu_system_ns: self.cpu_system_ns.saturating_sub(earlier.cpu_system_ns),
            cpu_children_ns: self.cpu_children_ns.saturating_sub(earlier.cpu_children_ns),
            // A child that is killed takes its own switches with it.
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}
