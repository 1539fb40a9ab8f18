//! Fairness of streams.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical};

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let y = Vertical { label: "fairness", form: Form::Share, log: false };
    data.rows(data.size(), Shape::Points, y, &[("", |_, row| Some((row.stream?.fairness, Vec::new())))])
}
