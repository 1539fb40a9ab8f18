//! Figures about a server, from its own counters and from the kernel.

pub mod counters;
pub(crate) mod run_delays;
#[cfg_attr(not(target_os = "linux"), path = "no_tracepoints.rs")]
pub mod tracepoints;
pub(crate) mod usage;
pub(crate) mod workers;

pub use usage::PriorityBoost;
pub use workers::{OTHER, Syscall, comparable_kinds};
