//! What a run looks like. Reads nothing but plain data: [`lab::record::Run`], which the store gives, plans and findings.
//!
//! # Layout
//! - [`summary`]: the figures of each architecture under each workload, merged over repeats, and their order
//! - [`sentence`]: which is best, by how much, how sure
//! - [`terminal`], [`csv`], [`json`]: three ways to show it; [`plan`]: a plan before it is run
//! - `ports`: response time of datagrams against the server's ports
//! - `throughput`: transactions a second of closed loops against their connections
//! - [`explain`]: why one wins, by what the servers counted
//! - `table`: tables that fit a width
//! - [`versus`]: two runs side by side
//! - [`deviation`]: how evenly each trial's requests were sent; [`paper`]: a run in the layout of a paper's tables
//! - [`doctor`]: what is the matter with a host
//! - [`calibration`]: what the client recovered of known times
//! - [`mod@format`]: numbers and units

pub mod calibration;
pub mod claims;
pub mod csv;
pub mod deviation;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod explain;
pub mod format;
pub mod json;
pub mod paper;
pub mod plan;
mod ports;
pub mod sentence;
pub mod summary;
mod table;
pub mod terminal;
mod throughput;
pub mod versus;

pub use summary::Summary;
pub use versus::Versus;

#[cfg(test)]
mod made_up;
