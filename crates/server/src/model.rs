//! Models: how accept, network and payload map to threads and processes. Adding one is one row.

use std::io;
use std::ops::RangeInclusive;

use crate::mechanism::MechanismRow;
#[cfg(target_os = "linux")]
use crate::network::pool;
use crate::network::{Stage, blocking};
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "without features there are none")]
use crate::runtime;

/// A row of [`MODELS`].
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Of models in which one thread serves many connections over a mechanism of ours: where its stages run.
    pub stages: Option<Stages>,
    /// Whether its name may say how many threads or processes it has, as in `mt-pool:64`.
    pub threads: Takes,
    /// Whether it counts its own system calls. A runtime makes them out of our sight: only from outside could they be
    /// counted, so its snapshots have none.
    pub counts_syscalls: bool,
    /// What each connection takes besides a descriptor of the server's process.
    pub per_connection: PerConnection,
    /// What it needs of the kernel, besides what every Linux has; empty for most.
    pub needs: &'static str,
    /// Whether it can run here; if not, why, and what may help.
    pub can_run: fn() -> Result<(), String>,
    /// Runs the server in the calling thread until it is stopped. Whoever started it waits until it says ([`Stage::started`]) that all
    /// its threads have what they need, or ends.
    pub run: fn(&Stage<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
}

/// Where the stages of an event-driven server run (voras2009). Accepting is always one thread's, unless each network thread
/// has a listener of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Reading, and writing what is left.
    pub network: NetworkStage,
    /// Working out responses, and writing them.
    pub payload: PayloadStage,
}

/// Where the network stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkStage {
    /// In the accept thread.
    InAccept,
    /// In as many threads as the name says; none is in the accept thread.
    Threads,
}

/// Where the payload stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadStage {
    /// In the network thread.
    InNetwork,
    /// In threads that get work in turn.
    Threads,
    /// In one thread for each network thread.
    Paired,
}

/// What a model's name says of threads or processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A number, or nothing, which is what the model does by itself.
    NumberOrNothing,
    /// A number of network threads.
    Number {
        /// Without a number.
        default: u32,
    },
    /// How many threads each stage has.
    NetworkAndPayload {
        /// How many network threads it can have.
        network: RangeInclusive<u32>,
        /// Without numbers.
        default: (u32, u32),
    },
}

/// What a connection costs besides a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerConnection {
    /// Nothing.
    Nothing,
    /// A stack of user level, which is mappings of memory.
    Stack,
    /// A thread.
    Thread,
    /// A process.
    Process,
}

impl ModelRow {
    /// Whether one thread serves many connections, over a mechanism of ours.
    pub fn multiplexes(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether its threads or processes are there before the first connection, and serve one at a time.
    pub fn is_pool(&self) -> bool {
        self.threads == Takes::NumberOrNothing
            && matches!(self.per_connection, PerConnection::Thread | PerConnection::Process)
    }

    /// Whether a thread or process begins and ends with each connection.
    pub fn has_worker_per_connection(&self) -> bool {
        matches!(self.per_connection, PerConnection::Thread | PerConnection::Process) && !self.is_pool()
    }

    /// Whether payload is worked out in other threads than the network's.
    pub fn hands_over(&self) -> bool {
        self.stages.is_some_and(|stages| stages.payload != PayloadStage::InNetwork)
    }

    /// Whether it can serve datagrams: one thread that watches all ports, or a thread or process that is made for each. A pool
    /// shares connections out, and stages hand them over; a runtime would need tasks of another kind.
    pub fn serves_datagrams(&self) -> bool {
        let one_thread = Stages { network: NetworkStage::InAccept, payload: PayloadStage::InNetwork };
        self.stages == Some(one_thread) || self.has_worker_per_connection()
    }

    /// Whether several threads of it could accept.
    pub fn has_network_threads(&self) -> bool {
        let may_have_none = matches!(&self.threads, Takes::NetworkAndPayload { network, .. } if network.contains(&0));
        !may_have_none && self.stages.is_some_and(|stages| stages.network == NetworkStage::Threads)
    }
}

/// Most threads of a stage.
pub const THREADS_MAX: u32 = 1024;

/// A model in stages.
const fn staged(
    name: &'static str,
    about: &'static str,
    network: NetworkStage,
    payload: PayloadStage,
    threads: Takes,
) -> ModelRow {
    ModelRow {
        name,
        about,
        stages: Some(Stages { network, payload }),
        threads,
        counts_syscalls: true,
        per_connection: PerConnection::Nothing,
        needs: "",
        can_run: || Ok(()),
        run: |stage, mechanism| (mechanism.expect("a model that multiplexes has a mechanism").run)(stage),
    }
}

/// Every model that is compiled in.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        name: "mp",
        about: "a process per connection, forked on demand, blocking I/O",
        stages: None,
        threads: Takes::Nothing,
        counts_syscalls: true,
        per_connection: PerConnection::Process,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| blocking::run_processes(stage),
    },
    ModelRow {
        name: "mt",
        about: "a thread per connection, created on demand, blocking I/O, 256 KiB stacks",
        stages: None,
        threads: Takes::Nothing,
        counts_syscalls: true,
        per_connection: PerConnection::Thread,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| blocking::run_threads(stage),
    },
    #[cfg(target_os = "linux")]
    ModelRow {
        name: "mp-prefork",
        about: "processes forked beforehand, each serving one connection after the other, blocking I/O",
        stages: None,
        threads: Takes::NumberOrNothing,
        per_connection: PerConnection::Process,
        counts_syscalls: true,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| pool::run_processes(stage),
    },
    #[cfg(target_os = "linux")]
    ModelRow {
        name: "mt-pool",
        about: "threads created beforehand, each serving one connection after the other, blocking I/O, 256 KiB stacks",
        stages: None,
        threads: Takes::NumberOrNothing,
        per_connection: PerConnection::Thread,
        counts_syscalls: true,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| pool::run_threads(stage),
    },
    staged(
        "sped",
        "one thread for everything, over a mechanism",
        NetworkStage::InAccept,
        PayloadStage::InNetwork,
        Takes::Nothing,
    ),
    staged(
        "symped",
        "N threads that each do what one does, over a mechanism each; one thread accepts for them",
        NetworkStage::Threads,
        PayloadStage::InNetwork,
        Takes::Number { default: 2 },
    ),
    staged(
        "amped",
        "one thread for the network (0: the accept thread, or 1) and M for payload, which get work in turn",
        NetworkStage::Threads,
        PayloadStage::Threads,
        Takes::NetworkAndPayload { network: 0..=1, default: (1, 2) },
    ),
    staged(
        "seda",
        "N threads for the network and M for payload, which get work in turn",
        NetworkStage::Threads,
        PayloadStage::Threads,
        Takes::NetworkAndPayload { network: 1..=THREADS_MAX, default: (2, 4) },
    ),
    staged(
        "seda-s",
        "N threads for the network and as many for payload, in pairs",
        NetworkStage::Threads,
        PayloadStage::Paired,
        Takes::Number { default: 2 },
    ),
    #[cfg(all(target_os = "linux", feature = "tokio"))]
    runtime::tokio::ROW,
    #[cfg(all(target_os = "linux", feature = "smol"))]
    runtime::smol::ROW,
    #[cfg(all(target_os = "linux", feature = "may"))]
    runtime::may::ROW,
    #[cfg(all(target_os = "linux", feature = "compio"))]
    runtime::compio::ROW,
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static ModelRow> {
    MODELS.iter().find(|row| row.name == name)
}
