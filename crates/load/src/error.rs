//! Why a load cannot be run at all. What goes wrong with single requests is counted, see `report::Errors`.

use std::io;

/// Cause, place, remedy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A connection could not be made, or its first request was not answered.
    #[error("connection {number} of {total} to {target}: {class} ({error}); {remedy}")]
    Connect {
        /// Which, from 1.
        number: u32,
        /// Of how many.
        total: u32,
        /// To where.
        target: String,
        /// The class, as in `report::Errors`.
        class: &'static str,
        /// What the system said.
        error: io::Error,
        /// What may help.
        remedy: &'static str,
    },
    /// A record of the data set was not stored.
    #[error(
        "record {number} of {total} was not stored: {class}; raise the server's memory and its limit of an item, or lower the \
             records"
    )]
    Store {
        /// Which, from 1.
        number: u64,
        /// Of how many.
        total: u64,
        /// The class, as in `report::Errors`.
        class: &'static str,
    },
    /// The TSC was asked for.
    #[error("clock: tsc is not invariant on this processor; use the clock `auto` or `monotonic`")]
    NoTsc,
    /// The requests to be recorded do not fit.
    #[error("no memory for {requests} requests of {bytes} bytes each; lower the rate or the duration")]
    Memory {
        /// How many.
        requests: u64,
        /// The size of each record.
        bytes: usize,
    },
    /// A value that makes no sense.
    #[error("{0}")]
    Config(String),
    /// A system call that should not fail.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}
