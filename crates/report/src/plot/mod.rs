//! Figures: as plain data for the script of a page, and as files.
//!
//! # Layout
//! - [`chart`]: a figure as plain data; [`plot_data`]: the data of a run that figures use
//! - [`figures`]: a table of all figures of a run; [`trends`]: figures of many runs;
//!   [`gate_history`]: figures of many gates
//! - [`style`]: the look of each architecture; [`svg`]: figures as SVG; `png` renders them
//!
//! Figures use only the records of a run and read no samples. Medians of the window's parts show changes over time,
//! and histograms contain every request.

pub mod chart;
pub mod figures;
pub mod gate_history;
pub mod plot_data;
#[cfg(feature = "png")]
pub mod png;
pub mod style;
pub mod svg;
pub mod trends;

use chart::Chart;
use figures::{FIGURES, FigureSpec};
use harness::record::Run;
use plot_data::PlotData;

use crate::analysis::Summary;

/// The figures of a run. A series refers to its architecture by index into `architectures`.
#[derive(Debug)]
pub struct Drawn {
    /// Labels of architectures.
    pub architectures: Vec<String>,
    /// The figures that the run has data for.
    pub figures: Vec<(&'static FigureSpec, Chart)>,
}

impl Drawn {
    /// Draws all figures of a run.
    pub fn of(run: &Run, summary: &Summary) -> Self {
        let data = PlotData::of(run, summary);
        let draw = |figure: &'static FigureSpec| Some((figure, (figure.draw)(&data)?));
        let figures = FIGURES.iter().filter_map(draw).collect();
        Self { architectures: data.architectures, figures }
    }
}
