//! Against the best, with intervals.

use harness::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical, estimate};
use crate::summary::Row;

/// The ratio of a row that is compared with another.
fn ratio(_: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    row.ratio.map(|ratio| estimate(ratio.ratio, ratio.interval))
}

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    let ranked = |rows: &[Row]| rows.iter().filter(|row| row.ratio.is_some()).count();
    material.summary.comparisons.iter().find(|comparison| ranked(&comparison.rows) > 1)?;
    let label = match material.is_closed() {
        true if material.has_streams() => "bandwidth, of the best",
        true => "transactions a second, of the best",
        false => "median service time, of the best",
    };
    material.rows(material.size(), Shape::Points, Vertical { label, form: Form::Times, log: true }, &[("", ratio)])
}
