//! The load generator: sends requests when the schedule says, and records when answers came.
//!
//! # Layout
//! - [`config`], [`report`]: what goes in and what comes out, as plain data; [`error`]: why it cannot be run
//! - [`run()`]: one trial, from connecting to the report
//! - [`schedule`]: when each request is planned; [`clock`]: the time stamp counter
//! - `connect`: connections, each verified; `class`: the ways in which one fails
//! - `record`: memory set aside for requests; `progress`: how far they are; `placement`: what `auto` stands for
//! - `sync`: atomics, of which loom has its own
//! - `send`, `receive`: the two roles; `open`: the open loop, in one thread or two
//! - `waiter`: how a thread waits for many sockets; `platform`: what else differs between the systems
//! - `stamps`: the kernel's timestamps; [`interface`]: the interface that requests leave by
//! - `summary`: from records to samples and figures; [`merge`]: those of several processes put together
//! - [`late`]: requests that were sent late, and what they may have spoilt; `spare`: whether the client had time to receive
//! - `closed`: the closed loop; `worker`: one thread of it
//! - `stream`: bursts as fast as they go, and the bytes of them
//! - `churn`: connections that come and go, in either loop; [`ports`]: whether there are enough for them
//! - [`idle`]: connections that are held, and on which nothing is sent
//! - [`hostile`]: clients that are broken, or mean harm
//! - `ledger`: what a thread of a closed loop, or of churn, keeps of its transactions
//! - `datagrams`: the open loop over datagrams, which are matched by id
//! - `speak`: what is asked of a service, and what comes back; `prepare`: what must be answered before all else
//! - `zipf`: how one of many is drawn where some are more popular
//! - [`cost`]: what a request costs the client
//! - [`reflector`]: a server that holds each response for a known time, to calibrate the client against

mod churn;
mod class;
pub mod clock;
mod closed;
pub mod config;
mod connect;
pub mod cost;
mod datagrams;
pub mod error;
mod hiccups;
pub mod hostile;
pub mod idle;
pub mod interface;
pub mod late;
mod ledger;
pub mod merge;
mod open;
mod placement;
mod platform;
pub mod ports;
mod prepare;
mod progress;
mod receive;
mod record;
pub mod reflector;
pub mod report;
mod run;
pub mod schedule;
mod send;
mod spare;
mod speak;
#[cfg(target_os = "linux")]
mod stamps;
#[cfg(not(target_os = "linux"))]
#[path = "no_stamps.rs"]
mod stamps;
mod stream;
pub mod summary;
mod sync;
mod verify;
mod waiter;
mod worker;
mod zipf;

pub use config::LoadConfig;
pub use error::LoadError;
pub use report::{LoadReport, Sample};
pub use run::{Event, Listener, Outcome, run, run_with};
pub use stamps::check as check_timestamps;
#[cfg(target_os = "linux")]
pub use stamps::{Stamped, on_loopback as stamps_on_loopback};
