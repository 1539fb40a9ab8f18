//! Transactions a second of closed loops against connections.

use harness::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical, estimate};
use crate::summary::Row;

/// Of valid repeats with the interval; of a row that is not ranked, the mean of what there is.
fn rate(_: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let ranked = row.rate_per_s.filter(|_| row.is_ranked()).map(|rate| estimate(rate.value, rate.interval));
    ranked.or_else(|| Some((row.rate_achieved_per_s?, Vec::new())))
}

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if !material.is_closed() || material.has_streams() {
        return None;
    }
    let y = Vertical { label: "transactions a second", form: Form::Number, log: false };
    material.rows(material.size(), Shape::Points, y, &[("", rate)])
}
