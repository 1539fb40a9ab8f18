//! Runs the trials of a plan.
//!
//! [`runner`] runs one trial after the other, and `trial` the processes of one trial, which [`launch`] starts.

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
