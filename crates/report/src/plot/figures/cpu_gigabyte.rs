//! Server CPU time per gigabyte of streams.

use harness::model::Workload;

use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let y = Vertical { label: "CPU time a gigabyte", form: Form::Time, log: true };
    let cpu = |_: &Workload, row: &Row| Some((row.stream?.cpu_ns_per_gigabyte?, Vec::new()));
    data.rows(data.size(), Shape::Points, y, &[("", cpu)])
}
