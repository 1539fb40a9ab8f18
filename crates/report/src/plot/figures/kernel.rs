//! Times by the kernel's timestamps.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Value, Vertical, percentiles, servers};

const VALUES: [(&str, Value); 3] = [
    ("t2k − t2", |_, row| percentiles(row.kernel.as_ref().map(|kernel| kernel.to_driver))),
    ("t3 − t3k", |_, row| percentiles(row.kernel.as_ref().map(|kernel| kernel.from_arrival))),
    ("service time", |_, row| servers(row, row.kernel.as_ref().map(|kernel| kernel.service))),
];

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let y = Vertical { label: "time", form: Form::Time, log: true };
    data.rows(data.size(), Shape::Percentiles, y, &VALUES)
}
