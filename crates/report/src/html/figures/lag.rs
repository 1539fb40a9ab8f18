//! How late the client was.

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical, percentiles};

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if material.is_closed() {
        return None;
    }
    let y = Vertical { label: "lag", form: Form::Time, log: true };
    material.rows(material.size(), Shape::Percentiles, y, &[("", |_, row| percentiles(row.lag))])
}
