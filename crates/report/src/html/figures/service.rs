//! Service time against connections: kawai2008's Figure 6, in the notation of its Figure 7.

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical, service};

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    let y = Vertical { label: "service time", form: Form::Time, log: true };
    material.rows(material.size(), Shape::Percentiles, y, &[("", |_, row| service(row))])
}
