//! Reports for other programs.
//!
//! # Layout
//! - [`csv`]: the trials of a run; [`json`]: a whole run
//! - [`junit`]: a gate as JUnit XML; [`openmetrics`]: a run for databases of metrics
//! - [`autobench`]: a sweep with autobench's columns
//! - [`deviation`], [`run_diff`], [`history`], [`overload`]: other reports as CSV

pub mod autobench;
pub mod csv;
pub mod deviation;
pub mod history;
pub mod json;
pub mod junit;
pub mod openmetrics;
pub mod overload;
pub mod run_diff;
