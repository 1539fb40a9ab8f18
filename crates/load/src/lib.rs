#![doc = include_str!("../README.md")]
//!
//! # Layout
//!
//! The entry point is [`run()`]. Folders use only those listed before them, but [`config`] uses [`time`], which uses `driver`.
//!
//! - [`config`]: the configuration and its rules; [`result`]: results and their merging; [`error`]: why a load cannot run
//! - [`time`]: the clock, and the schedule of requests
//! - `protocol`: requests of each service, and the verification of responses
//! - `socket`: the socket of a connection, with TLS or without
//! - `record`: memory for requests and transactions, and their summary
//! - [`io`]: connections, pollers, the kernel's timestamps, and the differences between systems
//! - `driver`: starts the threads of a loop, and watches a trial
//! - `loops`: open and closed loops, short-lived connections, streams, datagrams
//! - `run`: one trial, from connecting to the report
//! - [`tools`]: idle connections, hostile clients, a calibration server, a relay of packets, and a measurement of the client's
//!   own cost

pub mod config;
mod driver;
pub mod error;
pub mod io;
mod loops;
mod protocol;
mod record;
pub mod result;
mod run;
mod socket;
mod sync;
pub mod time;
pub mod tools;

pub use config::LoadConfig;
pub use driver::{Arrivals, Event, Listener, Outcome};
pub use error::LoadError;
pub use result::{LoadResult, Sample};
pub use run::{run, run_with};
pub use socket::tls::{check_identity, check_trusted};
pub use wire::{Address, ServiceSpec};
