//! Processes that muxbench starts and controls, and requests to stop.

pub mod child;
pub(crate) mod secrets;
pub mod stop;
