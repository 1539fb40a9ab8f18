//! Runs the trials of a plan.
//!
//! [`runner`] runs the trials one after the other, `heat` runs the processes of the trials that share a window, and [`launch`] starts them.

pub mod event;
#[cfg(test)]
#[path = "tests/fake.rs"]
mod fake;
mod heat;
pub mod idle;
mod kept;
pub mod launch;
#[cfg(target_os = "linux")]
pub mod leftovers;
mod marks;
mod outcome;
mod profiled;
#[cfg(target_os = "linux")]
mod profiling;
pub mod runner;
mod server;
#[cfg(target_os = "linux")]
mod turns;
mod warm_up;
