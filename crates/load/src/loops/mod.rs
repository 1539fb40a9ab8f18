//! The client's loops, one module for each kind of load.

pub mod churn;
pub mod closed;
pub mod datagram;
mod exchange;
pub mod open;
pub mod stream;
