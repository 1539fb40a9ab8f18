//! Reports for other programs.
//!
//! # Layout
//! - [`csv`]: the trials of a run; [`json`]: a whole run
//! - [`autobench`]: a sweep with autobench's columns
//! - [`deviation`], [`run_diff`], [`history`]: other reports as CSV

pub mod autobench;
pub mod csv;
pub mod deviation;
pub mod history;
pub mod json;
pub mod run_diff;
