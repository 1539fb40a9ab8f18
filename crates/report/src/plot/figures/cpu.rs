//! Server CPU time per request.

use harness::model::Workload;

use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    if data.has_streams() {
        return None;
    }
    let y = Vertical { label: "CPU time a request", form: Form::Time, log: true };
    let cpu = |_: &Workload, row: &Row| Some((row.cost.as_ref()?.cpu_ns_per_request, Vec::new()));
    data.rows(data.size(), Shape::Points, y, &[("", cpu)])
}
