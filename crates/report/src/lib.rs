//! Reports on runs: tables, conclusions, figures, pages, CSV and JSON. Their input is plain data, a
//! [`harness::model::Run`] that the store has read.
//!
//! # Layers
//! Each layer uses only the layers listed before it.
//! - [`mod@format`] writes numbers with their units
//! - [`model`] has the statistics and the conclusions of runs, as plain data
//! - [`text`] has tables and sentences for a terminal or for Markdown, [`export`] CSV and JSON, [`plot`] figures as SVG and PNG
//! - [`html`] makes pages

#![forbid(unsafe_code)]

pub mod export;
pub mod format;
pub mod html;
mod list;
pub mod model;
pub mod plot;
pub mod text;

pub use model::{AdviceReport, Atlas, Capacities, GateReport, Overloads, RunDiff, Summary, Sweep};
pub use text::{Medium, render};
