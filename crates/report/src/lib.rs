//! What a run looks like. Reads nothing but plain data: [`harness::record::Run`], which the store gives, plans and findings.
//!
//! # Layout
//! - [`summary`]: the figures of each architecture under each workload, merged over repeats, and their order
//! - [`sentence`]: which is best, by how much, how sure
//! - [`terminal`], [`csv`], [`json`]: three ways to show it; [`medium`]: text for a terminal, or for an issue; [`plan`]: a plan before it is run,
//!   [`needs`]: and what hosts it needs
//! - [`sweep`]: the response time against the rate, and autobench's columns; `chart`: a curve in text
//! - [`capacity`]: the highest rate within a limit, side by side
//! - [`axis`]: what workloads differ in that curves are drawn along
//! - [`html`]: a run as a page, and its figures as files
//! - [`history`]: many runs, and what was measured in more than one of them from run to run
//! - `response`: response time against ports of datagrams, or idle connections
//! - `throughput`: transactions a second of closed loops against their connections, and bandwidth of streams; [`stream`]: what
//!   else there is to say of these
//! - [`tails`]: quantiles that may be the client's doing
//! - `marks`: percentiles of the service time in text
//! - [`explain`]: why one wins, by what the servers counted
//! - [`table`]: tables that fit where they go
//! - [`versus`]: two runs side by side
//! - [`deviation`]: how evenly each trial's requests were sent
//! - [`doctor`]: what is the matter with a host
//! - [`calibration`]: what the client recovered of known times
//! - [`mod@format`]: numbers and units
//! - `fixtures`: runs that never were, for tests and benches (feature `fixtures`)

#![forbid(unsafe_code)]

pub mod axis;
pub mod calibration;
pub mod capacity;
mod chart;
pub mod csv;
pub mod deviation;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod explain;
pub mod format;
pub mod history;
pub mod html;
pub mod json;
mod marks;
pub mod medium;
pub mod needs;
mod network;
pub mod plan;
mod response;
pub mod sentence;
pub mod stream;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod tails;
pub mod terminal;
mod throughput;
pub mod versus;

pub use capacity::Capacities;
pub use medium::Medium;
pub use summary::Summary;
pub use sweep::Sweep;
pub use versus::Versus;

use harness::record::Run;

/// A run as its course has it.
pub fn render(run: &Run, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    if let Some(sweep) = Sweep::of(run) {
        return sweep::render(run, &sweep, medium);
    }
    match Capacities::of(run) {
        Some(capacities) => capacity::render(run, &capacities, medium),
        None => terminal::render(run, medium),
    }
}

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
