//! Figures about a server: counted by itself, and accounted by the kernel.

pub mod counters;
pub(crate) mod run_delays;
#[cfg_attr(not(target_os = "linux"), path = "no_tracepoints.rs")]
pub mod tracepoints;
pub mod usage;
pub mod workers;
