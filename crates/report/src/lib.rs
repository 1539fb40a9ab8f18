#![doc = include_str!("../README.md")]
//!
//! # Layers
//! Each layer uses only the layers listed before it.
//! - [`mod@format`] writes numbers with their units
//! - [`analysis`] has the statistics and the conclusions of runs, as plain data
//! - [`text`] has tables and sentences for a terminal or for Markdown, [`export`] CSV and JSON, [`plot`] figures as SVG
//! - [`html`] makes pages

#![forbid(unsafe_code)]

pub mod analysis;
pub mod export;
pub mod format;
pub mod html;
mod list;
pub mod plot;
pub mod text;

pub use analysis::{AdviceReport, Atlas, Capacities, GateReport, Overloads, RunDiff, Summary, Sweep};
pub use text::{Medium, render};

#[cfg(test)]
extern crate self as muxbench_report;
#[cfg(test)]
#[expect(dead_code, reason = "a test has no folder of a run for `main`")]
#[path = "../examples/table.rs"]
mod example;

#[test]
fn example_reports_a_run() {
    let (text, lowest_ns) = example::report(&testkit::run());
    assert!(text.contains("| architecture |") && lowest_ns.is_some(), "{text}");
}
