//! Pure functions over measurements.

pub mod deviation;
pub mod histogram;
pub mod interval;

pub use deviation::Deviation;
pub use histogram::{Distribution, Histogram};
pub use interval::{Estimate, Interval, Ratio};
