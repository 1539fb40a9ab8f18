#![doc = include_str!("../README.md")]
//!
//! # Layers
//! Each layer uses only the layers above it in this list. One exception: `platform` also uses types of [`metrics`].
//! - [`spec`]: the description of a server, as plain data
//! - [`platform`]: the differences between operating systems; `sync`: locks and atomics, which loom replaces
//! - [`metrics`]: counters of the workers, and the kernel's figures of CPU time, context switches and system calls
//! - [`socket`]: listening, accepting and datagram sockets, with the same options in every architecture
//! - `random`: random numbers of each thread
//! - `readiness` and `completion`: the mechanisms, a file each; `token`: the identifiers of descriptors
//! - [`service`]: the services, with simulated work, time limits and TLS
//! - `net`: the loops, one for each kind of architecture, and the work on a connection, which all loops share
//! - [`runtimes`]: the models over async and coroutine runtimes, a file each; [`external`]: external servers, as commands or targets
//! - [`registry`]: the tables of models and mechanisms, with the functions that run them
//! - [`architecture`]: architecture names; [`config`] and [`control`]: the server's input and output
//! - [`problems`]: whether this host can run a server; [`run`]: starts and stops a server in this process
//!
//! [`regular`] opens only regular files, and `skipped` reports tests that a machine cannot run.

pub mod architecture;
#[cfg(target_os = "linux")]
mod completion;
pub mod config;
pub mod control;
pub mod external;
pub mod metrics;
mod net;
pub mod platform;
pub mod problems;
mod random;
mod readiness;
pub mod registry;
pub mod regular;
pub mod run;
pub mod runtimes;
pub mod service;
#[doc(hidden)]
pub mod skipped;
pub mod socket;
pub mod spec;
mod sync;
mod token;

pub use architecture::Architecture;
pub use config::ServeConfig;
pub use external::config::{ConfigFile, ExternalConfig};
#[cfg(target_os = "linux")]
pub use external::process_tag::ProcessTag;
#[cfg(target_os = "linux")]
pub use external::server::ExternalServer;
pub use external::target::TargetConfig;
pub use metrics::counters::{Moved, ServerCounters, Snapshot};
pub use run::Server;
pub use service::folder::FOLDER_BYTES_MAX;
pub use service::limits::Limits;
pub use service::work::Work;
pub use spec::accept::Accept;
pub use spec::busy_poll::BusyPoll;
pub use spec::controllers::{AdmissionControl, BatchControl, Controllers, PoolControl};
pub use spec::datagrams::DatagramOptions;
pub use spec::model::{StageCpus, Threads};
pub use spec::options::{Options, Stall};
pub use spec::read_budget::ReadBudget;
pub use spec::tls::{CertificateFiles, Tls};
pub use wire::{Address, ServiceSpec};
