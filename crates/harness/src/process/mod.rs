//! Processes that muxbench starts and controls, and requests to stop.
//!
//! # Layout
//! - [`child`]: a child process, and the trait [`child::Process`], which fake processes in tests implement
//! - `secrets`: environment variables that children must not inherit
//! - [`stop`]: requests to stop a run

pub mod child;
pub(crate) mod secrets;
pub mod stop;
