//! The ratio of each architecture to the best, with intervals.

use harness::model::Workload;

use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical, estimate};

/// The ratio of a ranked row to the best.
fn ratio(_: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    row.ratio.map(|ratio| estimate(ratio.ratio, ratio.interval))
}

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let ranked = |rows: &[Row]| rows.iter().filter(|row| row.ratio.is_some()).count();
    data.summary.comparisons.iter().find(|comparison| ranked(&comparison.rows) > 1)?;
    let label = match data.is_closed() {
        true if data.has_streams() => "bandwidth, of the best",
        true => "transactions a second, of the best",
        false => "median service time, of the best",
    };
    data.rows(data.size(), Shape::Points, Vertical { label, form: Form::Times, log: true }, &[("", ratio)])
}
