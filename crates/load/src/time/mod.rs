//! The clock, and the times at which requests are planned.

pub mod clock;
pub mod schedule;
pub(crate) mod zipf;
