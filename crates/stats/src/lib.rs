#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod deviation;
pub mod excess;
pub mod family;
pub mod fit;
pub mod histogram;
pub mod interval;
pub mod log;
pub mod race;
pub mod ratio;
pub mod repeats;
pub mod search;
pub mod sequential;
pub mod shifts;
pub mod significance;
pub mod steadiness;

pub use deviation::Deviation;
pub use family::Family;
pub use fit::sends_against_plan;
pub use histogram::{Distribution, Histogram, quantile};
pub use interval::Interval;
pub use ratio::Ratio;
pub use repeats::{Estimate, Repeat};
pub use search::Search;
pub use significance::TestResult;
pub use steadiness::{ChangePoint, change_point, trend};

#[cfg(test)]
extern crate self as muxbench_stats;
#[cfg(test)]
#[path = "../examples/ratio.rs"]
mod example;

#[test]
fn example_compares_two_servers() {
    example::main();
}
