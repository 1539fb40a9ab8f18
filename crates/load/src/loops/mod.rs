//! The client's loops: one module per kind of load.

pub mod churn;
pub mod closed;
pub mod datagram;
mod exchange;
pub mod open;
pub mod stream;
