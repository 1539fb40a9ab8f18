//! The server under test: every architecture over one hot path.
//!
//! # Layout
//! - [`architecture`]: names; [`registry`]: the two tables, of models and mechanisms, that names are looked up in
//! - [`model`] and [`mechanism`]: what a row of each is made of
//! - [`accept`]: how connections come to those that serve them
//! - [`config`], [`control`], [`counters`]: what goes in and what comes out, as plain data
//! - [`network`]: the stages, one loop per family (ready, completion, blocking, pool), and the connection path that all share
//! - `service`: from a service's parameters to the service; [`work`]: what a request costs besides; [`limits`]: how long a
//!   client may take; `folder`: files to be served
//! - [`read_budget`]: how much of one connection is read in a turn
//! - `buffered`: a layer between sockets and service, of the rows that are named after it; `erased`: a service behind a vtable
//! - [`runtime`]: a file per runtime that does the network's part in its own way; the connection path is the same
//! - [`socket`]: listening and accepting, with the same options everywhere; `reserve`: a descriptor to turn connections away with
//! - [`regular`]: files that others may have placed
//! - [`unix`]: a Unix socket's file
//! - [`ports`]: the sockets of a service of datagrams; `destination`: the address that a datagram was sent to
//! - [`platform`]: what differs between the systems
//! - `sync`: locks and atomics, of which loom has its own
//! - [`workers`]: counters of every thread and child, in memory that they share
//! - [`tracepoints`]: system calls as the kernel counts them
//! - [`usage`]: CPU and switches, as the kernel accounts them
//! - [`host`]: starts and stops a server in this process
//! - [`spawn`]: processes that end with this one
//! - `skipped`: what tests say that a machine cannot do
//! - [`exec`]: starts and stops somebody else's, in processes of its own; [`outside`]: what the kernel says of these; [`badge`]: how
//!   they are known

pub mod accept;
pub mod architecture;
#[cfg(target_os = "linux")]
pub mod badge;
mod buffered;
pub mod config;
pub mod control;
pub mod counters;
mod delays;
mod destination;
mod erased;
#[cfg(target_os = "linux")]
pub mod exec;
mod folder;
pub mod host;
pub mod limits;
pub mod mechanism;
pub mod model;
pub mod network;
#[cfg(target_os = "linux")]
pub mod outside;
pub mod platform;
pub mod ports;
pub mod read_budget;
pub mod registry;
pub mod regular;
mod reserve;
pub mod runtime;
mod service;
#[doc(hidden)]
pub mod skipped;
pub mod socket;
pub mod spawn;
mod sync;
#[cfg_attr(not(target_os = "linux"), path = "no_tracepoints.rs")]
pub mod tracepoints;
pub mod unix;
pub mod usage;
pub mod work;
pub mod workers;

pub use accept::Accept;
pub use architecture::{Architecture, Threads};
#[cfg(target_os = "linux")]
pub use badge::Badge;
pub use config::{ExecConfig, Options, ServeConfig, StageCpus, Subject};
pub use counters::{Moved, ServerCounters, Snapshot};
#[cfg(target_os = "linux")]
pub use exec::Exec;
pub use folder::FOLDER_BYTES_MAX;
pub use host::Server;
pub use limits::Limits;
pub use read_budget::ReadBudget;
pub use work::Work;
