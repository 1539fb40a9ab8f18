//! Service time against the rate asked.

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Along, Material, Vertical, service};

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    if material.is_closed() || material.groups(Some(Along::Rate)).iter().all(|group| group.members.len() < 2) {
        return None;
    }
    let y = Vertical { label: "service time", form: Form::Time, log: true };
    material.rows(Along::Rate, Shape::Percentiles, y, &[("", |_, row| service(row))])
}
