//! Service time against connections: kawai2008's Figure 6, in the notation of its Figure 7.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical, service};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let y = Vertical { label: "service time", form: Form::Time, log: true };
    data.rows(data.size(), Shape::Percentiles, y, &[("", |_, row| service(row))])
}
