//! Service time against the planned rate.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{Along, PlotData, Vertical, service};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    if data.is_closed() || data.groups(Some(Along::Rate)).iter().all(|group| group.members.len() < 2) {
        return None;
    }
    let y = Vertical { label: "service time", form: Form::Time, log: true };
    data.rows(Along::Rate, Shape::Percentiles, y, &[("", |_, row| service(row))])
}
