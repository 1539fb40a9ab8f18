//! The resources that a trial needs on its host, and the limits that they set on connections.

use serde::Serialize;
use server::spec::mechanism::Family;
use server::spec::model::PerConnection;
use server::{Architecture, ReadBudget, ServeConfig};

use crate::host::Host;

/// Descriptors of a process besides those of its connections.
pub(super) const DESCRIPTORS_BESIDE: u64 = 64;
/// Additional connections that a server accepts, and additional workers of a pool.
pub(super) const SPARE: u32 = 16;
/// The number of ports without the privileged ones.
pub(super) const PORTS_MAX: u64 = 65_535 - 1_023;
/// Tasks of the host besides those of the server.
pub(super) const TASKS_BESIDE: u64 = 256;
/// Mappings of a stack: the stack itself and its guard page.
pub(super) const MAPPINGS_PER_STACK: u64 = 2;
/// Mappings of a process besides those of its threads.
pub(super) const MAPPINGS_BESIDE: u64 = 512;
/// The highest expected number of waiting connections at which a trial still runs.
pub(super) const WAITING_MAX: f64 = 0.01;
/// Memory of a planned request in bytes: its record, its sample, the summary, and the kernel's timestamps.
pub(super) const BYTES_PER_REQUEST: u64 = 176;
/// Returns the memory of a connection in bytes, with both ends and the kernel's part. Rounded up from measurements at
/// 400 and 2 000 connections on Linux 6: 7 kB in an event loop, 17 kB more with a stack, 48 kB with a thread, 200 kB
/// with a process.
pub(super) fn bytes_per_connection(per_connection: PerConnection) -> u64 {
    match per_connection {
        PerConnection::Nothing => 8 << 10,
        PerConnection::Stack => 32 << 10,
        PerConnection::Thread => 64 << 10,
        PerConnection::Process => 256 << 10,
    }
}

/// Returns the additional memory of read budgets above the default, in bytes. Each thread, process or coroutine has its
/// own buffer. A completion mechanism has a ring with one buffer per connection, at most 1 024.
pub(super) fn budget_bytes(serve: &ServeConfig, connections: u64) -> u64 {
    let beyond = serve.read_budget_bytes.bytes().saturating_sub(ReadBudget::default().bytes()) as u64;
    let completes = serve.architecture.mechanism.is_some_and(|row| row.family == Family::Completion);
    let rooms = match serve.architecture.model.per_connection {
        PerConnection::Nothing if completes => connections.next_power_of_two().min(1_024),
        PerConnection::Nothing => 0,
        PerConnection::Stack | PerConnection::Thread | PerConnection::Process => connections,
    };
    beyond * rooms
}

/// Returns the memory mappings of `count` threads or coroutines, each with a stack and a read buffer. glibc gives
/// buffers of 128 KiB or more their own mapping (mallopt(3), M_MMAP_THRESHOLD).
pub(super) fn mappings(count: u64, budget: ReadBudget) -> u64 {
    count * (MAPPINGS_PER_STACK + u64::from(budget.bytes() >= 128 << 10)) + MAPPINGS_BESIDE
}

/// The maximum number of connections of an architecture on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The number of connections.
    pub connections: u64,
    /// The name of the limit that sets this number.
    pub by: String,
}

/// Returns the tightest limit of an architecture on `host`, by the same figures as a plan. For a pool, each worker
/// counts.
pub fn limit(architecture: Architecture, host: &Host) -> Limit {
    let per_connection = architecture.model.per_connection;
    // A pool has spare workers. Spare threads also need a descriptor each.
    let spare = if architecture.model.is_pool() { u64::from(SPARE) } else { 0 };
    let most = |limit: u64, beside: u64, each: u64, by: &str| (limit.saturating_sub(beside) / each, by.to_owned());
    let of_threads = if per_connection == PerConnection::Thread { spare } else { 0 };
    let descriptors = most(host.descriptors_max, DESCRIPTORS_BESIDE + of_threads, 1, "the hard limit");
    let mappings =
        most(host.mappings_max, MAPPINGS_BESIDE + spare * MAPPINGS_PER_STACK, MAPPINGS_PER_STACK, "vm.max_map_count");
    let tasks = most(host.tasks_max.0, TASKS_BESIDE + spare, 1, &host.tasks_max.1);
    let of_model = match per_connection {
        PerConnection::Nothing => vec![],
        PerConnection::Stack => vec![mappings],
        PerConnection::Thread => vec![tasks, mappings],
        PerConnection::Process => vec![tasks],
    };
    let (connections, by) = of_model.into_iter().fold(descriptors, |least, it| if it.0 < least.0 { it } else { least });
    Limit { connections, by }
}
