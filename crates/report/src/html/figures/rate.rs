//! The rate achieved, of the rate asked.

use harness::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Along, Material, Vertical};
use crate::summary::Row;

fn share(workload: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    Some((row.rate_achieved_per_s? / workload.rate_per_s?, Vec::new()))
}

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if material.is_closed() {
        return None;
    }
    let y = Vertical { label: "achieved of the rate asked", form: Form::Share, log: false };
    material.rows(Along::Rate, Shape::Points, y, &[("", share)])
}
