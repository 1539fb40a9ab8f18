//! The clock and the schedules.

pub mod clock;
pub mod schedule;
pub(crate) mod zipf;
