//! Models: how accept, network and payload map to threads and processes. Adding one is one row.

use std::io;

use crate::mechanism::MechanismRow;
use crate::network::{Stage, blocking, pool};
#[cfg(any(feature = "tokio", feature = "smol", feature = "may", feature = "compio"))]
use crate::runtime;

/// A row of [`MODELS`].
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Whether one thread serves many connections, over a mechanism of ours. Its listener does not block then.
    pub multiplexes: bool,
    /// Whether its name may say how many threads or processes it has, as in `mt-pool:64`.
    pub takes_threads: bool,
    /// Whether it counts its own system calls. A runtime makes them out of our sight: only from outside could they be
    /// counted, so its snapshots have none.
    pub counts_syscalls: bool,
    /// What each connection takes besides a descriptor of the server's process.
    pub per_connection: PerConnection,
    /// What it needs of the kernel, besides what every Linux has; empty for most.
    pub needs: &'static str,
    /// Whether it can run here; if not, why, and what may help.
    pub can_run: fn() -> Result<(), String>,
    /// Runs the server in the calling thread until it is stopped.
    pub run: fn(&Stage<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
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
    /// Whether its threads or processes are there before the first connection, and serve one at a time.
    pub fn is_pool(&self) -> bool {
        self.takes_threads
            && !self.multiplexes
            && matches!(self.per_connection, PerConnection::Thread | PerConnection::Process)
    }
}

/// Every model that is compiled in.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        name: "mp",
        about: "a process per connection, forked on demand, blocking I/O",
        multiplexes: false,
        takes_threads: false,
        counts_syscalls: true,
        per_connection: PerConnection::Process,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| blocking::run_processes(stage),
    },
    ModelRow {
        name: "mt",
        about: "a thread per connection, created on demand, blocking I/O, 256 KiB stacks",
        multiplexes: false,
        takes_threads: false,
        counts_syscalls: true,
        per_connection: PerConnection::Thread,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| blocking::run_threads(stage),
    },
    ModelRow {
        name: "mp-prefork",
        about: "processes forked beforehand, each serving one connection after the other, blocking I/O",
        multiplexes: false,
        takes_threads: true,
        per_connection: PerConnection::Process,
        counts_syscalls: true,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| pool::run_processes(stage),
    },
    ModelRow {
        name: "mt-pool",
        about: "threads created beforehand, each serving one connection after the other, blocking I/O, 256 KiB stacks",
        multiplexes: false,
        takes_threads: true,
        per_connection: PerConnection::Thread,
        counts_syscalls: true,
        needs: "",
        can_run: || Ok(()),
        run: |stage, _| pool::run_threads(stage),
    },
    ModelRow {
        name: "sped",
        about: "one thread for everything, over a mechanism",
        multiplexes: true,
        takes_threads: false,
        counts_syscalls: true,
        per_connection: PerConnection::Nothing,
        needs: "",
        can_run: || Ok(()),
        run: |stage, mechanism| (mechanism.expect("a model that multiplexes has a mechanism").run)(stage),
    },
    #[cfg(feature = "tokio")]
    runtime::tokio::ROW,
    #[cfg(feature = "smol")]
    runtime::smol::ROW,
    #[cfg(feature = "may")]
    runtime::may::ROW,
    #[cfg(feature = "compio")]
    runtime::compio::ROW,
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static ModelRow> {
    MODELS.iter().find(|row| row.name == name)
}
