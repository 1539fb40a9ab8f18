//! Pure functions over measurements.

pub mod histogram;
pub mod interval;
pub mod log;

pub use histogram::{Distribution, Histogram};
pub use interval::{Interval, Ratio};
