//! The load generator: sends requests when the schedule says, and records when answers came.
//!
//! # Layout
//! - [`config`], [`report`]: what goes in and what comes out, as plain data; [`error`]: why it cannot be run
//! - [`run()`]: one trial, from connecting to the report
//! - [`schedule`]: when each request is planned; [`clock`]: the time stamp counter
//! - `connect`: connections, each verified; `class`: the ways in which one fails
//! - `record`: memory set aside for requests; `progress`: how far they are; `placement`: CPUs, and what `auto` stands for
//! - `send`, `receive`: the two roles; `open`: the open loop, in one thread or two
//! - `summary`: from records to samples and figures
//! - [`closed`]: a closed loop that finds a server's highest rate

mod class;
pub mod clock;
pub mod closed;
pub mod config;
mod connect;
pub mod error;
mod open;
mod placement;
mod progress;
mod receive;
mod record;
pub mod report;
mod run;
pub mod schedule;
mod send;
pub mod summary;

pub use config::LoadConfig;
pub use error::LoadError;
pub use report::{LoadReport, Sample};
pub use run::{Event, Outcome, run};
