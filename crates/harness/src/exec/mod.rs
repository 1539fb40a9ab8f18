//! Runs the trials of a plan.
//!
//! # Layout
//! - [`runner`]: one trial after the other, each committed as it ends
//! - [`idle`]: the processes that hold idle connections

pub mod idle;
pub mod runner;
