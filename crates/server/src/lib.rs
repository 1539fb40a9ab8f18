//! The server under test: every architecture over one hot path.
//!
//! # Layout
//! - [`architecture`]: names; [`model`] and [`mechanism`]: the two tables that names are looked up in
//! - [`accept`]: how connections come to those that serve them
//! - [`config`], [`control`], [`counters`]: what goes in and what comes out, as plain data
//! - [`network`]: one loop per family (ready, blocking, pool), and the connection path that all share
//! - [`runtime`]: a file per runtime that does the network's part in its own way; the connection path is the same
//! - [`socket`]: listening and accepting, with the same options everywhere
//! - [`workers`]: counters of every thread and child, in memory that they share
//! - [`tracepoints`]: system calls as the kernel counts them
//! - [`usage`]: CPU, switches and memory, as the kernel accounts them
//! - [`host`]: starts and stops a server in this process

pub mod accept;
pub mod architecture;
pub mod config;
pub mod control;
pub mod counters;
pub mod host;
pub mod mechanism;
pub mod model;
pub mod network;
pub mod tracepoints;
pub mod runtime;
pub mod socket;
pub mod usage;
pub mod workers;

pub use accept::Accept;
pub use architecture::Architecture;
pub use config::ServeConfig;
pub use counters::{ServerCounters, Snapshot};
pub use host::Server;
