//! The resources that a trial needs on its host, and the limits that they set on connections.

use schemars::JsonSchema;
use serde::Serialize;
use server::spec::mechanism::Family;
use server::spec::model::{DESCRIPTORS_PER_NETWORK, PerConnection};
use server::{Architecture, ReadBudget, ServeConfig};

use crate::host::Host;
use crate::record::Trial;

/// Descriptors of a process besides those of its connections.
pub(super) const DESCRIPTORS_BESIDE: u64 = 64;
/// The connections that a server accepts beyond the client's number, and thus the spare workers of a pool.
pub(super) const SPARE: u32 = 16;
/// The number of ports of an address, without the privileged ones.
pub const PORTS_MAX: u64 = 65_535 - 1_023;
/// Tasks of the host besides those of the server.
pub(super) const TASKS_BESIDE: u64 = 256;
/// Mappings of a stack: the stack itself and its guard page.
const MAPPINGS_PER_STACK: u64 = 2;
/// Mappings of a process besides those of its threads.
const MAPPINGS_BESIDE: u64 = 512;
/// The highest expected number of waiting connections at which a trial is feasible.
pub(super) const WAITING_MAX: f64 = 0.01;
/// Memory of a planned request in bytes: its record, its sample, the summary, and the kernel's timestamps.
pub(super) const BYTES_PER_REQUEST: u64 = 176;
/// Returns the memory of both ends of a connection, including the kernel's, in bytes. Rounded up from measurements with 400
/// and 2 000 connections on Linux 6: 7 kB in an event loop, 24 kB with a stack, 48 kB with a thread, 200 kB with a process.
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

/// The resources of a trial's server that depend on its model.
pub(super) struct ServerResources {
    pub(super) per_connection: PerConnection,
    /// The descriptors of the process besides those of its connections.
    pub(super) descriptors_beside: u64,
    /// The size of the pool, if the model has one.
    pub(super) pool: Option<u64>,
    /// The threads or processes that serve connections: those of the pool, or one for each connection.
    pub(super) workers: u64,
    /// The threads or processes of the host, other programs included. 0 if the model serves connections without them.
    pub(super) tasks: u64,
    /// The memory mappings of the process. 0 for a model without stacks.
    pub(super) mappings: u64,
}

impl ServerResources {
    pub(super) fn of(trial: &Trial) -> Self {
        let connections = u64::from(trial.workload.connections_and_idle());
        let ours = trial.serve.ours();
        let per_connection = ours.map_or(PerConnection::Nothing, |serve| serve.architecture.model.per_connection);
        let descriptors_beside = ours.map_or(DESCRIPTORS_BESIDE, |serve| descriptors_beside(serve.architecture));
        let budget = ours.map_or_else(ReadBudget::default, |serve| serve.read_budget_bytes);
        let pool = ours.and_then(|serve| serve.architecture.pool_size(serve.connections_max)).map(u64::from);
        let workers = pool.unwrap_or(connections);
        let (tasks, mappings) = match per_connection {
            PerConnection::Nothing => (0, 0),
            PerConnection::Stack => (0, mappings(connections, budget)),
            PerConnection::Thread => (workers + TASKS_BESIDE, mappings(workers, budget)),
            PerConnection::Process => (workers + TASKS_BESIDE, 0),
        };
        Self { per_connection, descriptors_beside, pool, workers, tasks, mappings }
    }
}

/// Returns the descriptors of a server's process besides those of its connections. Each thread that serves many has some.
fn descriptors_beside(architecture: Architecture) -> u64 {
    let networks = match architecture.model.per_connection {
        PerConnection::Nothing | PerConnection::Stack => architecture.threads.map_or(0, |threads| threads.network),
        PerConnection::Thread | PerConnection::Process => 0,
    };
    DESCRIPTORS_BESIDE + u64::from(networks) * u64::from(DESCRIPTORS_PER_NETWORK)
}

/// Returns the memory mappings of `count` threads or coroutines, each with a stack and a read buffer. glibc gives
/// buffers of 128 KiB or more their own mapping (mallopt(3), M_MMAP_THRESHOLD).
fn mappings(count: u64, budget: ReadBudget) -> u64 {
    count * (MAPPINGS_PER_STACK + u64::from(budget.bytes() >= 128 << 10)) + MAPPINGS_BESIDE
}

/// The maximum number of connections of an architecture on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limit {
    /// The number of connections.
    pub connections: u64,
    /// The name of the limit that sets this number.
    pub by: String,
}

/// Returns the tightest limit of an architecture on `host`, by the same figures as a plan. A pool has one worker for each
/// connection, and `SPARE` more.
pub fn limit(architecture: Architecture, host: &Host) -> Limit {
    let per_connection = architecture.model.per_connection;
    // A spare thread waits in accept4, which has reserved a descriptor.
    let spare = if architecture.model.is_pool() { u64::from(SPARE) } else { 0 };
    let (has_threads, has_stacks) = match per_connection {
        PerConnection::Nothing | PerConnection::Process => (false, false),
        PerConnection::Stack => (false, true),
        PerConnection::Thread => (true, true),
    };
    let has_tasks = has_threads || per_connection == PerConnection::Process;
    let descriptors_beside = descriptors_beside(architecture) + if has_threads { spare } else { 0 };
    let mappings_max = host.mappings_max.saturating_sub(MAPPINGS_BESIDE) / MAPPINGS_PER_STACK;
    // If several limits are equal, the first one counts.
    let limits = [
        (true, host.descriptors_max, descriptors_beside, "the hard limit"),
        (has_tasks, host.tasks_max.0, TASKS_BESIDE + spare, &host.tasks_max.1),
        (has_stacks, mappings_max, spare, "vm.max_map_count"),
    ];
    let limits = limits.into_iter().filter(|(applies, ..)| *applies);
    let limits =
        limits.map(|(_, limit, beside, by)| Limit { connections: limit.saturating_sub(beside), by: by.into() });
    limits.min_by_key(|limit| limit.connections).expect("the limit of descriptors always applies")
}
