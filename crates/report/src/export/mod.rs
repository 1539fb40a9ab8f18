//! Reports for other programs.
//!
//! # Layout
//! - [`csv`]: rows of any report; [`json`]: a whole run
//! - [`junit`]: a gate as JUnit XML; [`openmetrics`]: a run for databases of metrics
//! - [`autobench`]: a sweep with autobench's columns

pub mod autobench;
pub mod csv;
pub mod json;
pub mod junit;
pub mod openmetrics;
