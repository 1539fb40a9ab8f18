//! Transactions a second of closed loops against connections; of streams, bandwidth.

use lab::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical, estimate};
use crate::stream;
use crate::summary::Row;

/// Of valid repeats with the interval; of a row that is not ranked, the mean of what there is.
fn rate(workload: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let ranked = row.rate_per_s.filter(|_| row.is_ranked()).map(|rate| estimate(rate.value, rate.interval));
    let (rate, spread) = ranked.or_else(|| Some((row.rate_achieved_per_s?, Vec::new())))?;
    let shown = |rate: f64| stream::megabytes_per_s(workload, rate).unwrap_or(rate);
    Some((shown(rate), spread.into_iter().map(shown).collect()))
}

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if !material.is_closed() || material.is_stream() {
        return None;
    }
    let label = if material.has_streams() { "MB/s" } else { "transactions a second" };
    material.rows(material.size(), Shape::Points, Vertical { label, form: Form::Number, log: false }, &[("", rate)])
}
