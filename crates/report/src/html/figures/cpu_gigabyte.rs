//! CPU time of the server, for each gigabyte of streams.

use harness::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical};
use crate::summary::Row;

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    let y = Vertical { label: "CPU time a gigabyte", form: Form::Time, log: true };
    let cpu = |_: &Workload, row: &Row| Some((row.stream?.cpu_ns_per_gigabyte?, Vec::new()));
    material.rows(material.size(), Shape::Points, y, &[("", cpu)])
}
