//! What the server says of itself: cumulative snapshots, and the difference of two, which is a window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Cumulative figures at one instant, over all the server's threads and children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// User memory of all processes together, in bytes.
    pub memory_user_bytes: u64,
    /// Kernel memory of the whole host (slab, kernel stacks, page tables, socket buffers), in bytes.
    pub memory_kernel_bytes: u64,
    /// Everything that only grows.
    pub totals: Totals,
}

/// Figures that only grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests completed.
    pub requests: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections turned away for want of descriptors, processes, threads or room.
    pub refused: u64,
    /// Events that waits reported.
    pub events: u64,
    /// System calls by kind: `accept`, `read`, `write`, `wait`, `control`, `close`, `spawn`.
    pub syscalls: BTreeMap<String, u64>,
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub cpu_system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// What the server did in a window, and what its connections cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Connections open at its start.
    pub connections: u64,
    /// User memory per connection, in bytes, against the server before its first connection.
    pub memory_user_bytes_per_connection: f64,
    /// The host's kernel memory per connection likewise; on loopback both ends of a connection are in it.
    pub memory_kernel_bytes_per_connection: f64,
    /// What was added during the window.
    pub totals: Totals,
}
