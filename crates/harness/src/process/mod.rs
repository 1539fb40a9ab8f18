//! Processes that muxbench starts, and requests to stop.

pub(crate) mod child;
pub mod stop;
