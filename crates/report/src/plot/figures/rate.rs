//! The achieved rate as a share of the planned rate.

use harness::model::Workload;

use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{Along, PlotData, Vertical};

fn share(workload: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    Some((row.rate_achieved_per_s? / workload.rate_per_s?, Vec::new()))
}

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    if data.is_closed() {
        return None;
    }
    let y = Vertical { label: "achieved of the rate asked", form: Form::Share, log: false };
    data.rows(Along::Rate, Shape::Points, y, &[("", share)])
}
