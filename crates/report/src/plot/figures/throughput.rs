//! Transactions per second of closed loops against connections.

use harness::model::Workload;

use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Vertical, estimate};

/// The median of valid repeats with its interval; for rows that are not ranked, the mean.
fn rate(_: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let ranked = row.rate_per_s.filter(|_| row.is_ranked()).map(|rate| estimate(rate.value, rate.interval));
    ranked.or_else(|| Some((row.rate_achieved_per_s?, Vec::new())))
}

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    if !data.is_closed() || data.has_streams() {
        return None;
    }
    let y = Vertical { label: "transactions a second", form: Form::Number, log: false };
    data.rows(data.size(), Shape::Points, y, &[("", rate)])
}
