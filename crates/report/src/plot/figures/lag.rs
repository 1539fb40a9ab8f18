//! The client's send delay.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical, percentiles};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    if data.is_closed() {
        return None;
    }
    let y = Vertical { label: "send delay", form: Form::Time, log: true };
    data.rows(data.size(), Shape::Percentiles, y, &[("", |_, row| percentiles(row.send_delay))])
}
