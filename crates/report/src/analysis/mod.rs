//! The statistics and the conclusions of runs: the contents of a JSON report.
//!
//! # Layout
//! - [`answer`]: the result of a run by its strategy
//! - [`summary`]: the statistics of each architecture under each workload, merged over repeats, and the ranking;
//!   [`conclusion`]: the best architecture, by how much, and how certain that is
//! - `pairs`: the ratios of all pairs of architectures; `undecided`: open pairs, and the command that decides them;
//!   `tail`: tails that a median hides
//! - [`cost`]: system calls, CPU time and context switches per request; [`stream`]: bandwidth and its cost
//! - [`profile`]: where a request's CPU time goes
//! - [`client_tail`]: quantiles that the client may have caused; `network`: the conditions of a network; `interleaving`: turns
//!   of servers in one window; `warm_up`: the warm-ups of external servers
//! - [`workload`]: workloads in words; [`dimension`]: the dimensions in which workloads differ
//! - [`balance`]: connections and CPU time of network threads; [`sweep`], [`capacity`], [`deviation`]: rates, searches, and the evenness of sends
//! - [`overload`]: servers beyond their capacity; [`recovery`]: the rule by which they recover
//! - [`run_diff`]: two runs; [`history`]: many runs; `setting`: the settings of a trial besides its traffic
//! - [`advice`]: the best of many architectures for an objective; [`atlas`]: the answers under many kinds of traffic, on several hosts
//! - [`gate`]: two builds of a server; [`gate_history`]: many gates, and the changes from one to the next

pub mod advice;
pub mod answer;
pub mod atlas;
pub mod balance;
pub mod capacity;
pub mod client_tail;
pub mod conclusion;
pub mod cost;
pub mod deviation;
pub mod dimension;
pub mod gate;
pub mod gate_history;
pub mod history;
mod hosts;
mod interleaving;
mod network;
pub mod overload;
pub(crate) mod pairs;
pub mod profile;
pub(crate) mod profiles;
pub mod recovery;
mod row;
pub mod run_diff;
mod setting;
pub mod stream;
pub mod summary;
pub mod sweep;
pub(crate) mod tail;
pub(crate) mod undecided;
pub(crate) mod warm_up;
pub mod workload;

pub use advice::AdviceReport;
pub use answer::{Answer, absent, is_believable};
pub use atlas::Atlas;
pub use capacity::Capacities;
pub use gate::GateReport;
pub use overload::Overloads;
pub use row::row_named;
pub use run_diff::RunDiff;
pub use summary::Summary;
pub use sweep::Sweep;

/// The version of the JSON format, raised when a field disappears or changes its meaning.
pub const FORMAT: u32 = 1;
