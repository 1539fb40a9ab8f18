//! Runs the trials of a plan.
//!
//! # Layout
//! - [`runner`]: one trial after the other, each committed as it ends
//! - [`event`]: events of a run, for the progress bar
//! - `trial`: the processes of one trial, in order
//! - `server`: a trial's server: counters, and the cause of a failure
//! - `marks`: counters at the edges of the window
//! - `outcome`: the record of a finished trial
//! - [`idle`]: the processes that hold idle connections
//! - [`launch`]: starts all processes; tests replace it
//! - `leftovers`: processes and folders left behind by killed runs

pub mod event;
#[cfg(test)]
#[path = "tests/fake.rs"]
mod fake;
pub mod idle;
pub mod launch;
#[cfg(target_os = "linux")]
pub mod leftovers;
mod marks;
mod outcome;
pub mod runner;
mod server;
mod trial;
