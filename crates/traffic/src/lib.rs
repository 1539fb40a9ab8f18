#![doc = include_str!("../README.md")]
//!
//! # Layers
//! Each module uses only those above it.
//! - `columnar`: Parquet files of any origin
//! - [`samples`]: the samples of a load, as a Parquet file
//! - [`mod@trace`]: recorded arrivals, from CSV and Parquet files
//!
//! [`observe`] is independent of them: the traffic of a running server.

#![forbid(unsafe_code)]

mod columnar;
pub mod observe;
pub mod samples;
pub mod trace;

#[cfg(test)]
extern crate self as muxbench_traffic;
#[cfg(test)]
#[expect(dead_code, reason = "a test has no arguments for `main`")]
#[path = "../examples/arrivals.rs"]
mod example;

#[test]
fn example_counts_arrivals() {
    use std::io::{Seek, Write};

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"time_ms\n5\n7\n65\n").unwrap();
    file.rewind().unwrap();
    assert_eq!(example::length(file).unwrap(), (3, 60_000_000));
}
