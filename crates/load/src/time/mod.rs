//! The clock and the schedules.

pub mod clock;
pub mod schedule;
pub mod slices;
pub(crate) mod zipf;
