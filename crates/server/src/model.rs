//! Models: how accept, network and payload map to threads and processes. Adding one is one row.

use std::io;

use crate::mechanism::MechanismRow;
use crate::network::{Stage, blocking};

/// A row of [`MODELS`].
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Whether one thread serves many connections, and so needs a mechanism. Its listener does not block then.
    pub multiplexes: bool,
    /// What each connection takes besides a descriptor of the server's process.
    pub per_connection: PerConnection,
    /// Runs the server in the calling thread until it is stopped.
    pub run: fn(&Stage<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
}

/// What a connection costs besides a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerConnection {
    /// Nothing.
    Nothing,
    /// A thread.
    Thread,
    /// A process.
    Process,
}

/// Every model there is.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        name: "mp",
        about: "a process per connection, forked on demand, blocking I/O",
        multiplexes: false,
        per_connection: PerConnection::Process,
        run: |stage, _| blocking::run_processes(stage),
    },
    ModelRow {
        name: "mt",
        about: "a thread per connection, created on demand, blocking I/O, 256 KiB stacks",
        multiplexes: false,
        per_connection: PerConnection::Thread,
        run: |stage, _| blocking::run_threads(stage),
    },
    ModelRow {
        name: "sped",
        about: "one thread for everything, over a mechanism",
        multiplexes: true,
        per_connection: PerConnection::Nothing,
        run: |stage, mechanism| (mechanism.expect("a model that multiplexes has a mechanism").run)(stage),
    },
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static ModelRow> {
    MODELS.iter().find(|row| row.name == name)
}
