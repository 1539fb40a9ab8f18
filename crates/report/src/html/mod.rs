//! A run as a page that needs nothing else, and its figures as files.
//!
//! # Layout
//! - [`figures`]: what is drawn, one file and one row of a table each
//! - [`chart`]: what a figure is made of, as plain data; [`material`]: what it takes from a run
//! - [`style`]: how architectures are told apart
//! - `page`: the document, from `templates/report.html`; [`frame`]: the frame of every document, with the script that draws
//!   the data with plotly
//! - [`still`]: the same data as SVG and PNG
//!
//! Everything is of a run's records: medians of the window's parts show what changed in it, and histograms every request, so
//! that no samples are read.

pub mod chart;
pub mod figures;
pub mod frame;
pub mod material;
pub(crate) mod page;
pub mod still;
pub mod style;

use harness::record::Run;

use crate::Summary;
use chart::Chart;
use figures::{FIGURES, Figure};
use material::Material;

pub use page::{command, render};

/// A run's figures, and the architectures by whose places their series go.
#[derive(Debug)]
pub struct Drawn {
    /// Architectures by their labels.
    pub architectures: Vec<String>,
    /// Those figures that the run has what they need for.
    pub figures: Vec<(&'static Figure, Chart)>,
}

impl Drawn {
    /// All figures of a run.
    pub fn of(run: &Run, summary: &Summary) -> Self {
        let material = Material::of(run, summary);
        let draw = |figure: &'static Figure| Some((figure, (figure.draw)(&material)?));
        let figures = FIGURES.iter().filter_map(draw).collect();
        Self { architectures: material.architectures, figures }
    }
}

#[cfg(test)]
mod tests;
