//! The server under test.

pub mod architecture;
pub mod config;
pub mod counters;
pub mod mechanism;
pub mod model;

pub use architecture::Architecture;
pub use config::ServeConfig;
pub use counters::{ServerCounters, Snapshot};
