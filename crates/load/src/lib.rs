//! The load generator: sends requests when the schedule says, and records when answers came.
//!
//! # Layout
//! - [`config`]: what to do, as plain data
//! - [`report`]: what came of it, as plain data

pub mod config;
pub mod report;

pub use config::LoadConfig;
pub use report::LoadReport;
