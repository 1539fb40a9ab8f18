//! Context switches of the server, a request.

use harness::record::Workload;

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical};
use crate::summary::Row;

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if material.has_streams() {
        return None;
    }
    let y = Vertical { label: "switches a request", form: Form::Number, log: false };
    let switches = |_: &Workload, row: &Row| Some((row.cost.as_ref()?.switches_per_request, Vec::new()));
    material.rows(material.size(), Shape::Points, y, &[("", switches)])
}
